"""Reference implementations of the kernels: plain Python loops over lists of numbers.

They do not import maxplus. Matrices are sequences of sequences, results are lists. Ties are broken
by the lowest index, because ``list.index`` finds the first one.
"""

import math

INF = math.inf


def best(terms, kind):
    """Return value and lowest index of the extremum; the semiring's zero for no terms."""
    if len(terms) == 0:
        return (INF if kind == "min" else -INF), None
    value = min(terms) if kind == "min" else max(terms)
    return value, terms.index(value)


# -- algebra ----------------------------------------------------------------------------------


def semiring_sum(a, b, zero):
    """Return a + b, or the zero of the semiring if it is one of them."""
    return zero if zero in (a, b) else a + b


def product(A, B, n_columns, kind):
    """Return values and winners of the min-plus (max-plus) product; B may have no rows."""
    zero = INF if kind == "min" else -INF
    columns = [[float(row[k]) for row in B] for k in range(n_columns)]
    cells = []
    for row in A:
        a = [float(v) for v in row]
        terms = [[semiring_sum(a[j], b[j], zero) for j in range(len(a))] for b in columns]
        cells.append([best(t, kind) for t in terms])
    values = [[value for value, _ in row] for row in cells]
    winners = [[winner for _, winner in row] for row in cells]
    return values, winners


def perceptron(x, w, b):
    """Return max{b, max_i (x_i + w_i)}."""
    return max([b, *(semiring_sum(float(x[i]), float(w[i]), -INF) for i in range(len(x)))])


# -- softmax and cross-entropy ----------------------------------------------------------------


def softmax(z):
    powers = [math.exp(float(v) - float(max(z))) for v in z]
    return [power / sum(powers) for power in powers]


def loss(z, y):
    """Return the cross-entropy, log Σ_d exp(z_d) − z_y."""
    top = float(max(z))
    return math.log(sum(math.exp(float(v) - top) for v in z)) + (top - float(z[y]))


def errors(z, y):
    """Return e_d = ŷ_d − 1{d = y} for all d."""
    return [p - (d == y) for d, p in enumerate(softmax(z))]


def zeros(*shape):
    return [zeros(*shape[1:]) for _ in range(shape[0])] if shape else 0.0


# -- Linear-Min-Max ---------------------------------------------------------------------------


def lmm_lambda(x, W0):
    """Return λ_i = W0[i] · x[p(i)], p(i) = i // 2, for all i."""
    return [float(W0[i]) * float(x[i // 2]) for i in range(len(W0))]


def lmm_terms(x, W0, W1):
    """Return the terms[h][i] = λ_i + W1[i, h], of which g_h is the minimum."""
    lam = lmm_lambda(x, W0)
    return [[lam[i] + float(W1[i][h]) for i in range(len(lam))] for h in range(len(W1[0]))]


def lmm_hidden(x, W0, W1):
    return [min(terms) for terms in lmm_terms(x, W0, W1)]


def lmm_path(x, W0, W1, W2):
    """Return scores z and winners h* and i* of one sample, each for all classes."""
    terms = lmm_terms(x, W0, W1)
    g = [min(t) for t in terms]
    z, units, rows = [], [], []
    for d in range(len(W2[0])):
        value, unit = best([g[h] + float(W2[h][d]) for h in range(len(g))], "max")
        z.append(value)
        units.append(unit)
        rows.append(best(terms[unit], "min")[1])
    return z, units, rows


def lmm_subgradient(x, y, W0, W1, W2):
    """Return the dense subgradient of one sample's loss as {layer: nested lists}."""
    z, units, rows = lmm_path(x, W0, W1, W2)
    grad = {
        "W2": zeros(len(W2), len(W2[0])),
        "W1": zeros(len(W1), len(W1[0])),
        "W0": zeros(len(W0)),
    }
    for d, e in enumerate(errors(z, y)):
        h, i = units[d], rows[d]
        grad["W2"][h][d] += e
        grad["W1"][i][h] += e
        grad["W0"][i] += e * float(x[i // 2])
    return grad


# -- zero hidden layers -----------------------------------------------------------------------


def zero_hidden_path(x, W):
    """Return scores z and winners p* of one sample."""
    decided = [best([float(x[p]) + float(row[p]) for p in range(len(x))], "max") for row in W]
    return [value for value, _ in decided], [winner for _, winner in decided]


def zero_hidden_subgradient(x, y, W):
    z, features = zero_hidden_path(x, W)
    grad = {"W": zeros(len(W), len(W[0]))}
    for d, e in enumerate(errors(z, y)):
        grad["W"][d][features[d]] += e
    return grad


# -- Linear Max-Plus --------------------------------------------------------------------------


def linear_max_plus_preactivation(x, A, b):
    return [
        sum(float(x[p]) * float(A[p][h]) for p in range(len(x))) + float(b[h])
        for h in range(len(b))
    ]


def linear_max_plus_path(x, A, b, W):
    """Return scores z and winners h* of one sample."""
    a = [max(0.0, v) for v in linear_max_plus_preactivation(x, A, b)]
    decided = [
        best([a[h] + float(W[h][d]) for h in range(len(a))], "max") for d in range(len(W[0]))
    ]
    return [value for value, _ in decided], [winner for _, winner in decided]


def linear_max_plus_subgradient(x, y, A, b, W):
    z, units = linear_max_plus_path(x, A, b, W)
    pre = linear_max_plus_preactivation(x, A, b)
    grad = {"W": zeros(len(W), len(W[0])), "A": zeros(len(A), len(A[0])), "b": zeros(len(b))}
    for d, e in enumerate(errors(z, y)):
        h = units[d]
        grad["W"][h][d] += e
        if pre[h] > 0:
            grad["b"][h] += e
            for p in range(len(x)):
                grad["A"][p][h] += e * float(x[p])
    return grad


# -- distances --------------------------------------------------------------------------------


def chebyshev(u, v):
    """Return ‖u − v‖∞."""
    return max(abs(float(a) - float(b)) for a, b in zip(u, v, strict=True))


# -- metrics ----------------------------------------------------------------------------------


def reliability(labels, P, n_bins):
    """Return size, mean top probability and accuracy of each bin, and the calibration error."""
    bins = [[] for _ in range(n_bins)]
    for label, p in zip(labels, P, strict=True):
        top, winner = best(p, "max")
        place = max(b for b in range(n_bins) if b == 0 or top * n_bins >= b)
        bins[place].append((top, winner == label))
    count, confidence, accuracy, error = [], [], [], 0.0
    for some in bins:
        n = len(some)
        count.append(n)
        confidence.append(sum(top for top, _ in some) / n if n else math.nan)
        accuracy.append(sum(right for _, right in some) / n if n else math.nan)
        if n:
            error += n / len(labels) * abs(accuracy[-1] - confidence[-1])
    return count, confidence, accuracy, error

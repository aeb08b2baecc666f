// Scores of the model: the same operations as models/additive.py and models/lmm.py, in the same
// order and precision, so that scores are bitwise identical. Ties are broken by the lowest index.

/** Rounding to float64, which is the identity. */
const double = (value) => value;

/** Decodes a base64 array written by report/model.py. */
function unpack(text, kind) {
  return new kind(Uint8Array.from(atob(text), (byte) => byte.charCodeAt(0)).buffer);
}

/** Decodes the arrays of a network. */
function readNetwork(data) {
  const kind = data.single ? Float32Array : Float64Array;
  const terms = data.terms.map((term) => ({
    ...term,
    W0: unpack(term.W0, kind),
    W1: unpack(term.W1, kind), // unit by unit
    W2: unpack(term.W2, kind), // class by class
    caps: unpack(term.caps, Float64Array),
  }));
  const shapes = data.shapes.map((shape) => ({
    ...shape,
    points: unpack(shape.points, Float64Array),
    scores: unpack(shape.scores, Float64Array), // point by point
  }));
  const map = data.map && { starts: data.map.starts, x: unpack(data.map.x, Float64Array),
    u: unpack(data.map.u, Float64Array), slopes: unpack(data.map.slopes, Float64Array) };
  return { ...data, terms, shapes, map, intercept: unpack(data.intercept, kind),
    round: data.single ? Math.fround : double };
}

/** Maps feature p by linear interpolation between knots, constant outside. */
function mappedValue(map, p, x) {
  if (!map || Number.isNaN(x)) return x;
  let [low, high] = [map.starts[p], map.starts[p + 1] - 1];
  if (x <= map.x[low]) return map.u[low];
  if (x >= map.x[high]) return map.u[high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (map.x[middle] <= x) low = middle;
    else high = middle;
  }
  return Math.min(map.u[low] + map.slopes[low] * (x - map.x[low]), map.u[high]);
}

const mappedRow = ({ map }, row, round) => row.map((x, p) => round(mappedValue(map, p, round(x))));

/** λ_i = W0[i]·u[i // 2]. */
function linesOf(term, u, round) {
  return Array.from(term.W0, (slope, i) => round(slope * u[term.features[i >> 1]]));
}

/** g_h = min_i (λ_i + W1[i, h]). */
function hiddenOf(term, lines, round) {
  return Array.from({ length: term.n_units }, (_, h) => {
    let least = Infinity;
    for (let i = 0; i < lines.length; i++) {
      least = Math.min(least, round(lines[i] + term.W1[h * lines.length + i]));
    }
    return least;
  });
}

/** Values of all units for class d, g_h + W2[h, d]; the score is their maximum. */
function heightsOf(term, hidden, d, round) {
  return hidden.map((value, h) => round(value + term.W2[d * term.n_units + h]));
}

const largest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

/** Scores of one term. */
function termScores({ n_classes: C }, term, u, round) {
  const hidden = hiddenOf(term, linesOf(term, u, round), round);
  return Array.from({ length: C }, (_, d) => largest(heightsOf(term, hidden, d, round)));
}

/** Active path of a single network for class d: the active unit and its active wall. */
function pathOf(term, row, d, round) {
  const lines = linesOf(term, row, round);
  const hidden = hiddenOf(term, lines, round);
  const heights = heightsOf(term, hidden, d, round);
  const score = largest(heights);
  const unit = heights.indexOf(score);
  const line = lines.findIndex((value, i) =>
    round(value + term.W1[unit * lines.length + i]) === hidden[unit]);
  const others = heights.map((value, h) => (h === unit ? -Infinity : value));
  const second = others.length > 1 ? others.indexOf(largest(others)) : -1;
  const slope = term.W0[line];
  return {
    unit,
    feature: page.features[line >> 1],
    feature_index: line >> 1,
    value: row[line >> 1],
    wall: slope === 0 ? null : -term.W1[unit * lines.length + line] / slope,
    slope,
    runner_up: second < 0 ? null : second,
    margin: second < 0 ? null : round(score - others[second]),
  };
}

function softmax(scores) {
  const top = largest(scores);
  const shares = scores.map((score) => Math.exp(score - top));
  const total = shares.reduce((a, b) => a + b, 0);
  return shares.map((share) => share / total);
}

/** Scores and probabilities of all classes, and active paths for a single network. */
function predict(network, row) {
  const { terms, round, n_classes: C } = network;
  const u = mappedRow(network, row, round);
  const scores = [...network.intercept];
  for (const term of terms) {
    const own = termScores(network, term, u, round);
    for (let d = 0; d < C; d++) scores[d] = round(scores[d] + own[d]);
  }
  const probabilities = softmax(scores);
  return scores.map((score, d) => ({ score, probability: probabilities[d],
    ...(network.is_sum ? {} : pathOf(terms[0], u, d, round)) }));
}

/** Contributions of the groups of columns to the margin of class A over B, and their baseline. */
function contributionsOf(network, { groups, means }, row, A, B) {
  const u = mappedRow(network, row, network.round);
  const total = [...network.intercept].map((b, d) => means.reduce((sum, own) => sum + own[d], b));
  const amounts = groups.map(({ terms }) => terms.reduce((sum, t) => {
    const own = termScores(network, network.terms[t], u, network.round);
    return sum + (own[A] - means[t][A]) - (own[B] - means[t][B]);
  }, 0));
  return { baseline: total[A] - total[B], amounts };
}

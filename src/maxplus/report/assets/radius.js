// Certified radius of one row, by the bounds of certify/margins.py in float64.

// Relative tolerance of the radius, and factor by which the search increases its upper end.
const [TOLERANCE, GROWTH] = [1e-6, 4];

/** Largest absolute value. */
const largestMagnitude = (values) =>
  values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
/** Rounds outwards by at least one unit in the last place. */
const roundOutwards = (x, sign) => x + sign * (Math.abs(x) * Number.EPSILON + Number.MIN_VALUE);

/** Lower and upper limits of the mapped features in the box around a row, including rounding. */
function mappedBox(network, row, eps) {
  const end = (x, p, sign) => {
    const s = network.scale[p];
    const moved = s > 0 ? roundOutwards(x + sign * roundOutwards(eps * s, 1), sign) : x;
    const ends = [double, network.round].map((round) =>
      round(mappedValue(network.map, p, round(moved))));
    return sign < 0 ? Math.min(...ends) : Math.max(...ends);
  };
  return [-1, 1].map((sign) => row.map((x, p) => end(x, p, sign)));
}

/** Upper bound on the rounding error of the margins for inputs in a mapped box. */
function roundingOf(network, low, high) {
  const { map } = network;
  const size = (p) => (map ? largestMagnitude(map.u.subarray(map.starts[p], map.starts[p + 1]))
    : Math.max(Math.abs(low[p]), Math.abs(high[p])));
  const most = network.terms.reduce((sum, { features, W0, W1, W2 }) =>
    sum + largestMagnitude(W1) + largestMagnitude(W2) + largest(features.map((p, k) =>
      size(p) * largestMagnitude(W0.subarray(2 * k, 2 * k + 2)))),
  largestMagnitude(network.intercept));
  return network.rounding * most + network.least;
}

/** Minimum margins of terms over one feature, attained at an end or where the slope changes. */
function shapeMargins(network, shape, low, high, y) {
  const [from, to, C] = [low[shape.feature], high[shape.feature], network.n_classes];
  const at = [low, high].map((u) => shape.terms
    .map((t) => termScores(network, network.terms[t], u, double))
    .reduce((a, b) => a.map((value, d) => value + b[d])));
  shape.points.forEach((point, k) => {
    if (point > from && point < to) at.push([...shape.scores.subarray(k * C, k * C + C)]);
  });
  return Array.from({ length: C }, (_, d) => Math.min(...at.map((z) => z[y] - z[d])));
}

/** Lower bounds of the margins of a term over several features: `term_margins` in Python. */
function termMargins(network, term, low, high, y, unit) {
  const lines = [low, high].map((u) => linesOf(term, u, double));
  const extreme = (pick) => lines[0].map((value, i) => pick(value, lines[1][i]));
  const lowest = extreme(Math.min);
  const bottom = hiddenOf(term, lowest, double);
  const top = hiddenOf(term, extreme(Math.max), double).map((g, h) => Math.min(g, term.caps[h]));
  const own = largest(heightsOf(term, bottom, y, double));
  const offset = (i, h) => term.W1[h * lowest.length + i];
  const height = (h, d) => term.W2[d * term.n_units + h];
  const lead = (g, h) => lowest.reduce((least, line, i) =>
    Math.min(least, offset(i, unit) + Math.max(-offset(i, h), line - g)), Infinity);
  const ahead = top.map((g, h) => Math.max(own - g, height(h, y),
    lead(g, h) + height(unit, y)));
  return Array.from({ length: network.n_classes }, (_, d) =>
    Math.min(...ahead.map((value, h) => value - height(h, d))));
}

/** Active unit of a term for class d. */
function unitOf(term, u, d) {
  const heights = heightsOf(term, hiddenOf(term, linesOf(term, u, double), double), d, double);
  return heights.indexOf(largest(heights));
}

/** Lower bound on the margin of class y over all others; a positive value proves the prediction. */
function gapOf(network, row, y, eps) {
  const [low, high] = mappedBox(network, row, eps);
  const centre = row.map((x, p) => mappedValue(network.map, p, x));
  const inShapes = new Set(network.shapes.flatMap((shape) => shape.terms));
  const parts = [
    ...network.shapes.map((shape) => shapeMargins(network, shape, low, high, y)),
    ...network.terms.filter((_, t) => !inShapes.has(t))
      .map((term) => termMargins(network, term, low, high, y, unitOf(term, centre, y)))];
  const margins = parts.reduce((sum, part) => sum.map((value, d) => value + part[d]),
    [...network.intercept].map((b) => network.intercept[y] - b));
  return Math.min(...margins.filter((_, d) => d !== y)) - roundingOf(network, low, high);
}

/** Largest simultaneous change of all features for which the prediction y is certified. */
function certifiedRadius(network, row, y) {
  const gap = gapOf(network, row, y, 0);
  if (!(gap > 0)) return 0;
  if (network.steepest === 0) return Infinity;
  // A change of eps reduces the margin by at most 2·steepest·eps.
  const first = Math.max(gap / (2 * network.steepest), Number.MIN_VALUE);
  let [low, high] = [0, Math.min(first, Number.MAX_VALUE)];
  while (gapOf(network, row, y, high) > 0) {
    if (high === Number.MAX_VALUE) return high;
    [low, high] = [high, Math.min(GROWTH * high, Number.MAX_VALUE)];
  }
  while (high > (1 + TOLERANCE) * low) {
    const middle = 0.5 * (low + high);
    if (!(middle > low && middle < high)) return low;
    if (gapOf(network, row, y, middle) > 0) low = middle;
    else high = middle;
  }
  return low;
}

// How far a row may move before its prediction could change: certify/radius.py and
// certify/bounds.py for one row, in float64, step by step the same.

const TOLERANCE = 1e-6;
const GROWTH = 4;

const double = (value) => value;
const sizeOf = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

/** The most by which a score in the model's own float type can be off, for inputs in the box. */
function roundingOf(network, member, row, eps) {
  const [M, P] = [member.n_views, row.length];
  let [most, roundings, underflows] = [sizeOf(member.W0) * sizeOf(row), 4, 16];
  if (member.directions) {
    most = 0;
    for (let m = 0; m < M; m++) {
      let size = 0;
      for (let p = 0; p < P; p++) size += Math.abs(row[p]) * Math.abs(member.directions[m * P + p]);
      most = Math.max(most, size * sizeOf(member.W0.subarray(2 * m, 2 * m + 2)));
    }
    roundings += 2 * (P + 2);
    underflows += 2 * (P + 2) * sizeOf(member.W0);
  }
  most += sizeOf(member.W1) + sizeOf(member.W2);
  const reach = sizeOf(member.reach);
  if (reach > 0) most += eps * reach;
  return roundings * network.rounding * most + underflows * network.least;
}

/** One member's bounds of all scores over the box around a row: [lowest, highest]. */
function memberBounds(network, member, row, eps) {
  const lines = linesOf(member, viewsOf(member, row, double), double);
  const moved = (sign) => lines.map((value, i) =>
    (member.reach[i] > 0 ? value + sign * (eps * member.reach[i]) : value));
  const low = hiddenOf(member, moved(-1), double);
  const high = hiddenOf(member, moved(+1), double).map((g, h) => Math.min(g, member.caps[h]));
  const slack = roundingOf(network, member, row, eps);
  const bound = (hidden, by) => Array.from({ length: network.n_classes }, (_, d) =>
    largest(heightsOf(member, hidden, d, double)) + by);
  return [bound(low, -slack), bound(high, +slack)];
}

/** Bounds of the scores; a committee's are the means of its members'. */
function boundsOf(network, row, eps) {
  const all = network.members.map((member) => memberBounds(network, member, row, eps));
  if (all.length === 1) return all[0];
  const most = largest(all.flat().map(sizeOf));
  const slack = 2 * all.length * network.rounding * most + network.least;
  return [-1, +1].map((sign, side) => all[0][side].map((_, d) =>
    meanOf(all.map((bounds) => bounds[side][d]), double) + sign * slack));
}

/** By how much class y stays ahead of all others; positive is a proof. */
function gapOf(network, row, y, eps) {
  const [low, high] = boundsOf(network, row, eps);
  return low[y] - largest(high.filter((_, d) => d !== y));
}

/** Where to look next: outwards until the gap is gone, then between. */
function guess(step, low, high, gapLow, gapHigh, slope) {
  if (high === Infinity) {
    const outwards = Math.max(GROWTH * low, ((1 - 0.1 * TOLERANCE) * gapLow) / (2 * slope));
    return Math.min(outwards, Number.MAX_VALUE);
  }
  if (step % 3 === 2) return 0.5 * (low + high);
  const root = low + ((high - low) * gapLow) / (gapLow - gapHigh);
  const aside = (step % 3 ? 0.4 : -0.4) * TOLERANCE * high;
  const [least, most] = [low + 0.1 * TOLERANCE * high, high * (1 - 0.1 * TOLERANCE)];
  return Math.min(Math.max(root + aside, least), most);
}

/** The largest change of all features at once that provably leaves the prediction y. */
function certifiedRadius(network, row, y) {
  let [low, high, gapHigh] = [0, Infinity, NaN];
  let gapLow = gapOf(network, row, y, 0);
  if (!(gapLow > 0)) return 0;
  if (network.steepest === 0) return Infinity;
  for (let step = 0; ; step++) {
    const eps = guess(step, low, high, gapLow, gapHigh, network.steepest);
    if (!(eps > low && eps < high)) return low;
    const gap = gapOf(network, row, y, eps);
    if (gap > 0) [low, gapLow] = [eps, gap];
    else [high, gapHigh] = [eps, gap];
    if (!(high > (1 + TOLERANCE) * low)) return low;
  }
}

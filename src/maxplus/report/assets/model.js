// The model in the page: the same operations as models/lmm.py, in the same order and float type,
// so that scores are the same to the last bit. Ties go to the lowest index.

/** Numbers that weights.py has packed. */
function unpack(text, kind) {
  return new kind(Uint8Array.from(atob(text), (byte) => byte.charCodeAt(0)).buffer);
}

/** A network as render_page has it, with its arrays unpacked. */
function readNetwork(data) {
  const kind = data.single ? Float32Array : Float64Array;
  const members = data.members.map((member) => ({
    ...member,
    W0: unpack(member.W0, kind),
    W1: unpack(member.W1, kind), // unit by unit
    W2: unpack(member.W2, kind), // class by class
    directions: member.directions && unpack(member.directions, kind), // view by view
    reach: unpack(member.reach, Float64Array),
    caps: unpack(member.caps, Float64Array),
  }));
  return { ...data, members, round: data.single ? Math.fround : (value) => value };
}

/** What a member sees of a row: its features, or sums that run from the first to the last. */
function viewsOf(member, row, round) {
  if (!member.directions) return row.map(round);
  const [M, P] = [member.n_views, row.length];
  const views = new Array(M).fill(0);
  for (let p = 0; p < P; p++) {
    const value = round(row[p]);
    for (let m = 0; m < M; m++) {
      views[m] = round(views[m] + round(value * member.directions[m * P + p]));
    }
  }
  return views;
}

/** λ_i = W0[i]·v[i // 2]. */
function linesOf(member, views, round) {
  return Array.from(member.W0, (slope, i) => round(slope * views[i >> 1]));
}

/** g_h = min_i (λ_i + W1[i, h]). */
function hiddenOf(member, lines, round) {
  return Array.from({ length: member.n_units }, (_, h) => {
    let least = Infinity;
    for (let i = 0; i < lines.length; i++) {
      least = Math.min(least, round(lines[i] + member.W1[h * lines.length + i]));
    }
    return least;
  });
}

/** All units' values for class d, g_h + W2[h, d]; the score is the largest. */
function heightsOf(member, hidden, d, round) {
  return hidden.map((value, h) => round(value + member.W2[d * member.n_units + h]));
}

const largest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

/** One member's score of class d, and what decided it: a unit and, in it, one line. */
function pathOf(member, views, lines, hidden, d, round) {
  const heights = heightsOf(member, hidden, d, round);
  const score = largest(heights);
  const unit = heights.indexOf(score);
  const line = lines.findIndex((value, i) =>
    round(value + member.W1[unit * lines.length + i]) === hidden[unit]);
  const others = heights.map((value, h) => (h === unit ? -Infinity : value));
  const second = others.length > 1 ? others.indexOf(largest(others)) : -1;
  const slope = member.W0[line];
  const feature = member.features[line >> 1];
  return {
    score,
    unit: member.first_unit + unit,
    feature: member.views[line >> 1],
    feature_index: feature < 0 ? null : feature,
    terms: member.terms[line >> 1],
    value: views[line >> 1],
    wall: slope === 0 ? null : -member.W1[unit * lines.length + line] / slope,
    slope,
    runner_up: second < 0 ? null : member.first_unit + second,
    margin: second < 0 ? null : round(score - others[second]),
  };
}

/** The mean of some numbers, in their order. */
function meanOf(values, round) {
  let total = values[0];
  for (const value of values.slice(1)) total = round(total + value);
  return round(total / values.length);
}

function softmax(scores) {
  const top = largest(scores);
  const shares = scores.map((score) => Math.exp(score - top));
  const total = shares.reduce((a, b) => a + b, 0);
  return shares.map((share) => share / total);
}

/** Scores of all classes, each with the path in the member that gives it the most. */
function decide(network, row) {
  const { members, round, n_classes: C } = network;
  const seen = members.map((member) => {
    const views = viewsOf(member, row, round);
    const lines = linesOf(member, views, round);
    return { member, views, lines, hidden: hiddenOf(member, lines, round) };
  });
  const classes = Array.from({ length: C }, (_, d) => {
    const paths = seen.map(({ member, views, lines, hidden }) =>
      pathOf(member, views, lines, hidden, d, round));
    const scores = paths.map((path) => path.score);
    const leader = scores.indexOf(largest(scores));
    return { ...paths[leader], score: meanOf(scores, round),
      member: members.length === 1 ? null : leader + 1 };
  });
  const chances = softmax(classes.map((entry) => entry.score));
  return classes.map((entry, d) => ({ ...entry, probability: chances[d] }));
}

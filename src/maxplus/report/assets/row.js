// Summary tiles, contributions and class scores of one row.

const page = JSON.parse(byId("data").textContent);

const strong = (text) => element("b", {}, text);
const isRight = (row) => (row.label === row.predicted ? "right" : "wrong");
const nameOf = (row) => (row.id === null ? `Row ${row.row}` : `${row.id} (row ${row.row})`);

// Values longer than this are set in a smaller font.
const LONG = 18;
// Maximum number of contributions listed individually.
const MOST_REASONS = 12;

function tile(name, value, hint, kind = "") {
  const size = value.length > LONG ? " long" : "";
  return element("div", {}, element("dt", {}, name), element("dd", { class: kind + size }, value),
    element("dd", { class: "hint" }, ...hint));
}

/** Probability of a class as text; for an edited row, with the original probability. */
function chance(row, label, before) {
  const of = (one) => probability(one.classes.find((entry) => entry.class === label)?.probability);
  return `probability ${of(row)}` + (before === row ? "" : `, it was ${of(before)}`);
}

function radiusTile(row, before) {
  const hint = row.radius == null ? "unknown or unlimited"
    : `changes of all numbers below this${page.radius_unit ? `, in ${page.radius_unit},` : ""} ` +
      "leave the prediction unchanged";
  const was = before === row ? "" : `; it was ${fixed(before.radius)}`;
  return tile("Certified radius", fixed(row.radius), [hint + was]);
}

function wallWords(entry) {
  if (entry.wall === null) return "no wall";
  return `${entry.slope > 0 ? "≥" : "≤"} ${short(entry.wall)}`;
}

/** Tile for the largest contribution, or for the active wall of a single network. */
function decidingTile(row) {
  if (row.reasons) {
    const { amounts, margin, rival } = row.reasons;
    const first = byAmount(amounts)[0];
    return tile("Largest contribution", page.contributions.groups[first].name, [
      `${signed(amounts[first], fixed)} of the margin ${signed(margin, fixed)} over ${rival}`]);
  }
  const best = row.classes.find((entry) => entry.class === row.predicted);
  const second = row.classes.filter((entry) => entry !== best)
    .reduce((a, b) => (a === null || b.score > a.score ? b : a), null);
  // A column with the same slope in both scores cancels in the margin.
  if (second && second.feature === best.feature && second.slope === best.slope) {
    return tile("Decided by", "no single column", [
      `${best.feature} has the same slope in the scores of ${best.class} and ${second.class} ` +
        "and cancels"]);
  }
  return tile("Decided by", best.feature, [
    `is ${short(best.value)}; box ${best.unit} has its wall at ${wallWords(best)}`]);
}

function flipTile({ counterfactual: flip }, isEdited) {
  const name = "Smallest flip";
  if (isEdited) return tile(name, UNKNOWN, ["computed for unedited rows only"]);
  if (!flip) return tile(name, "none", ["no change of one column flips this prediction"]);
  return tile(name, flip.column, [
    `alone, from ${flip.from} to ${flip.to}, makes it `, strong(flip.becomes)]);
}

/** Shows the summary tiles; `before` is the unedited row. */
function showTiles(row, before, changed) {
  const isEdited = row !== before;
  // Unlabelled rows have no true label.
  const isKnown = row.label !== null;
  const truth = isEdited ? `of the unedited row; ${chance(row, row.label, before)}`
    : chance(row, row.label, before);
  const kind = isEdited ? (row.predicted === before.predicted ? "" : "changed")
    : isKnown ? isRight(row) : "";
  const verdict = isEdited ? `it was ${before.predicted}; ` : isKnown ? `${isRight(row)}, ` : "";
  byId("tiles").replaceChildren(
    ...(isKnown ? [tile("True label", row.label, [truth])] : []),
    tile(isEdited ? "Predicted now" : "Predicted label", row.predicted,
      [strong(verdict), chance(row, row.predicted, before)], kind),
    decidingTile(row),
    radiusTile(row, before),
    flipTile(row, isEdited));
  byId("verdict").textContent = isEdited
    ? `With ${changed.join(", ")} changed, ${nameOf(row)} is predicted ${row.predicted}, ` +
      `${chance(row, row.predicted, row)}, certified radius ${fixed(row.radius)}.`
    : isKnown ? `${nameOf(row)} is ${row.label} and is predicted ${row.predicted}: ${isRight(row)}.`
    : `${nameOf(row)} is predicted ${row.predicted}.`;
}

/** Groups of columns in descending order of their absolute contributions. */
const byAmount = (amounts) => [...amounts.keys()]
  .sort((a, b) => Math.abs(amounts[b]) - Math.abs(amounts[a]) || a - b);

/** Values of columns, given by their first features: a category, a number or "missing". */
function valueWords(row, firsts) {
  if (firsts.length > 2) return "";
  return firsts.map((first) => {
    const k = page.columns.findIndex((column) => column.first === first);
    if (k < 0) return short(row.values[first]);
    const { size, choices } = page.columns[k];
    const own = row.values.slice(first, first + size);
    const isSame = (values) => values.every((value, i) => value === own[i]);
    if (row.missing.includes(k)) return "missing";
    const choice = choices?.find(({ values }) => isSame(values));
    return choice ? choice.text : choices ? "none of the known values" : short(own[0]);
  }).join(", ");
}

/** Shows how the margin adds up: largest contributions, sum of the others, and baseline. */
function showReasons(row) {
  if (!row.reasons) return;
  const { amounts, baseline, margin, rival } = row.reasons;
  const order = byAmount(amounts);
  const most = Math.max(...amounts.map(Math.abs), Math.abs(baseline)) || 1;
  const line = (name, value, amount) => {
    const cell = numberCell(amount, signed(amount, fixed));
    cell.classList.add("bar", amount < 0 ? "less" : "more-of");
    cell.style.setProperty("--share", Math.abs(amount) / most);
    const parts = [element("th", { scope: "row" }, name), numberCell(null, value), cell];
    parts.slice(1).forEach((one, k) => {
      one.dataset.label = ["value", "contribution"][k];
    });
    return element("tr", {}, ...parts);
  };
  const { groups } = page.contributions;
  const rest = order.slice(MOST_REASONS);
  const lines = order.slice(0, MOST_REASONS).map((g) =>
    line(groups[g].name, valueWords(row, groups[g].features), amounts[g]));
  if (rest.length) {
    lines.push(line(`${rest.length} more`, "", rest.reduce((sum, g) => sum + amounts[g], 0)));
  }
  lines.push(line("mean of the training rows", "", baseline));
  const total = line("margin", "", margin);
  total.className = "chosen";
  byId("why").textContent = `Why ${row.predicted} rather than ${rival}`;
  byId("reasons").tBodies[0].replaceChildren(...lines);
  byId("reasons").tFoot.replaceChildren(total);
}

/** Creates a cell that is sorted by its value. */
function numberCell(value, shown) {
  return element("td", { class: "number", "data-value": value ?? "" }, shown);
}

function classLine(entry, row) {
  const name = element("th", { scope: "row" }, entry.class);
  const tag = (text) => name.append(" ", element("span", { class: "tag" }, text));
  if (entry.class === row.predicted) tag("predicted");
  if (entry.class === row.label) tag("true");
  const share = numberCell(entry.probability, probability(entry.probability));
  share.classList.add("bar");
  share.style.setProperty("--share", entry.probability ?? 0);
  const path = entry.unit === undefined ? [] : [
    element("td", {}, entry.feature),
    numberCell(entry.value, short(entry.value)),
    numberCell(entry.wall, wallWords(entry)),
    numberCell(entry.unit, String(entry.unit)),
    numberCell(entry.slope, signed(entry.slope, fixed)),
    numberCell(entry.runner_up, entry.runner_up ?? UNKNOWN),
    numberCell(entry.margin, fixed(entry.margin))];
  return element("tr", entry.class === row.predicted ? { class: "chosen" } : {},
    name, numberCell(entry.score, fixed(entry.score)), share, ...path);
}

function showClasses(row) {
  const table = byId("classes");
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const lines = row.classes.map((entry) => classLine(entry, row));
  // On narrow screens, where rows are stacked, labels are shown beside the cells.
  for (const line of lines) [...line.cells].forEach((cell, k) => (cell.dataset.label = heads[k]));
  table.tBodies[0].replaceChildren(...lines);
  sortRows(table);
}


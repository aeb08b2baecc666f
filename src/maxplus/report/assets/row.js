// Summary tiles, contributions and class scores of one row.

const page = JSON.parse(byId("data").textContent);

const strong = (text) => element("b", {}, text);
const correctness = (row) => (row.label === row.predicted ? "correct" : "wrong");
const nameOf = (row) => (row.id === null ? `Row ${row.row}` : `${row.id} (row ${row.row})`);

// Texts of tiles with more characters are set in a smaller font.
const LONG = 18;
// Maximum number of contributions listed individually.
const MAX_REASONS = 12;

function tile(name, value, hint, kind = "") {
  const size = value.length > LONG ? " long" : "";
  return element("div", {}, element("dt", {}, name), element("dd", { class: kind + size }, value),
    element("dd", { class: "hint" }, ...hint));
}

/** Probability of a class as text; for an edited row, with the original probability. */
function probabilityText(row, label, before) {
  const of = (one) => probability(one.classes.find((entry) => entry.class === label)?.probability);
  return `probability ${of(row)}` + (before === row ? "" : `, it was ${of(before)}`);
}

function radiusTile(row, before) {
  const hint = row.radius == null ? "unknown or unlimited"
    : "the prediction is unchanged if every number changes by less than this" +
      (page.radius_unit ? `, in ${page.radius_unit}` : "");
  const was = before === row ? "" : `; it was ${fixed(before.radius)}`;
  return tile("Certified radius", fixed(row.radius), [hint + was]);
}

function wallText(entry) {
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
  const [best, second] = row.classes;
  // A column with the same slope in both scores cancels in the margin.
  if (second && second.feature === best.feature && second.slope === best.slope) {
    return tile("Decided by", "no single column", [
      `${best.feature} has the same slope in the scores of ${best.class} and ${second.class} ` +
        "and cancels"]);
  }
  return tile("Decided by", best.feature, [
    `is ${short(best.value)}; the active wall of box ${best.unit} is ${wallText(best)}`]);
}

function flipTile({ counterfactual: flip }, isEdited) {
  const name = "Nearest counterfactual";
  if (isEdited) return tile(name, UNKNOWN, ["computed for unedited rows only"]);
  if (!flip) return tile(name, "none", ["no change of one column changes the prediction"]);
  return tile(name, flip.column, [
    `changing it from ${flip.from} to ${flip.to} gives `, strong(flip.becomes)]);
}

/** Shows the summary tiles; `before` is the unedited row. */
function showTiles(row, before, changed) {
  const isEdited = row !== before;
  // Unlabelled rows have no true label.
  const isKnown = row.label !== null;
  const truth = isEdited ? `of the unedited row; ${probabilityText(row, row.label, before)}`
    : probabilityText(row, row.label, before);
  const kind = isEdited ? (row.predicted === before.predicted ? "" : "changed")
    : isKnown ? correctness(row) : "";
  const verdict = isEdited ? `it was ${before.predicted}; ` : isKnown ? `${correctness(row)}, ` : "";
  byId("tiles").replaceChildren(
    ...(isKnown ? [tile("True label", row.label, [truth])] : []),
    tile(isEdited ? "Predicted now" : "Predicted label", row.predicted,
      [strong(verdict), probabilityText(row, row.predicted, before)], kind),
    decidingTile(row),
    radiusTile(row, before),
    flipTile(row, isEdited));
  byId("announcement").textContent = isEdited
    ? `With ${changed.join(", ")} changed, ${nameOf(row)} is predicted ${row.predicted}, ` +
      `${probabilityText(row, row.predicted, row)}, certified radius ${fixed(row.radius)}.`
    : isKnown ? `${nameOf(row)} is ${row.label} and is predicted ${row.predicted}: ${correctness(row)}.`
    : `${nameOf(row)} is predicted ${row.predicted}.`;
}

/** Groups of columns in descending order of their absolute contributions. */
const byAmount = (amounts) => [...amounts.keys()]
  .sort((a, b) => Math.abs(amounts[b]) - Math.abs(amounts[a]) || a - b);

/** Values of at most two columns, given by their first features. */
function valuesText(row, firsts) {
  if (firsts.length > 2) return "";
  return firsts.map((first) => {
    const k = page.columns.findIndex((column) => column.first === first);
    return k < 0 ? short(row.values[first]) : valueText(page.columns[k], k, row);
  }).join(", ");
}

/** Creates a cell that is sorted by its value, not by its text. */
function numberCell(value, shown) {
  return element("td", { class: "number", "data-value": value ?? "" }, shown);
}

/** Creates a cell with a bar in the background. */
function barCell(value, shown, share, kind = "") {
  return element("td", { class: `number bar ${kind}`, "data-value": value ?? "",
    style: `--share: ${share}` }, shown);
}

/** Replaces the rows of a part of a table; narrow screens show the headings beside the cells. */
function replaceRows(part, rows) {
  const headings = [...part.parentElement.tHead.rows[0].cells].map((cell) => cell.textContent);
  for (const row of rows) {
    [...row.cells].forEach((cell, k) => { cell.dataset.label = headings[k]; });
  }
  part.replaceChildren(...rows);
}

/** Shows the largest contributions to the margin, the sum of the others, and the baseline. */
function showReasons(row) {
  if (!row.reasons) return;
  const { amounts, baseline, margin, rival } = row.reasons;
  const order = byAmount(amounts);
  const most = Math.max(...amounts.map(Math.abs), Math.abs(baseline)) || 1;
  const line = (name, value, amount) => element("tr", {}, element("th", { scope: "row" }, name),
    numberCell(null, value), barCell(amount, signed(amount, fixed), Math.abs(amount) / most,
      amount < 0 ? "negative" : "positive"));
  const { groups } = page.contributions;
  const rest = order.slice(MAX_REASONS);
  const lines = order.slice(0, MAX_REASONS).map((g) =>
    line(groups[g].name, valuesText(row, groups[g].features), amounts[g]));
  if (rest.length) {
    lines.push(line(`${rest.length} more`, "", rest.reduce((sum, g) => sum + amounts[g], 0)));
  }
  lines.push(line("mean of the training rows", "", baseline));
  const total = line("margin", "", margin);
  total.className = "chosen";
  byId("why").textContent = `Why ${row.predicted} rather than ${rival}`;
  replaceRows(byId("reasons").tBodies[0], lines);
  replaceRows(byId("reasons").tFoot, [total]);
}

function classLine(entry, row) {
  const name = element("th", { scope: "row" }, entry.class);
  const tag = (text) => name.append(" ", element("span", { class: "tag" }, text));
  if (entry.class === row.predicted) tag("predicted");
  if (entry.class === row.label) tag("true");
  const share = barCell(entry.probability, probability(entry.probability), entry.probability ?? 0);
  const path = entry.unit === undefined ? [] : [
    element("td", {}, entry.feature),
    numberCell(entry.value, short(entry.value)),
    numberCell(entry.wall, wallText(entry)),
    numberCell(entry.unit, String(entry.unit)),
    numberCell(entry.slope, signed(entry.slope, fixed)),
    numberCell(entry.runner_up, entry.runner_up ?? UNKNOWN),
    numberCell(entry.margin, fixed(entry.margin))];
  return element("tr", entry.class === row.predicted ? { class: "chosen" } : {},
    name, numberCell(entry.score, fixed(entry.score)), share, ...path);
}

function showClasses(row) {
  const table = byId("classes");
  replaceRows(table.tBodies[0], row.classes.map((entry) => classLine(entry, row)));
  sortRows(table);
}

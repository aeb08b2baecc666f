// What is said about one row: its tiles, and the table of all classes.

const page = JSON.parse(byId("data").textContent);

const strong = (text) => element("b", {}, text);
const isRight = (row) => (row.label === row.predicted ? "right" : "wrong");
const nameOf = (row) => (row.id === null ? `Row ${row.row}` : `${row.id} (row ${row.row})`);

// A sum of columns is read in small letters, where a label or a number is large.
const LONG = 18;

function tile(name, value, hint, kind = "") {
  const size = value.length > LONG ? " long" : "";
  return element("div", {}, element("dt", {}, name), element("dd", { class: kind + size }, value),
    element("dd", { class: "hint" }, ...hint));
}

/** Of a class, as text; a row that has been edited also tells what it was. */
function chance(row, label, before) {
  const of = (one) => probability(one.classes.find((entry) => entry.class === label)?.probability);
  return `probability ${of(row)}` + (before === row ? "" : `, it was ${of(before)}`);
}

function radiusTile(row, before) {
  const words = row.radius == null ? "unknown or unlimited"
    : `all numbers may move by less${page.radius_unit ? `, in ${page.radius_unit}` : ""}, ` +
      "and the prediction stays";
  const was = before === row ? "" : `; it was ${fixed(before.radius)}`;
  return tile("Certified radius", fixed(row.radius), [words + was]);
}

function wallWords(entry) {
  if (entry.wall === null) return "no wall";
  return `${entry.slope > 0 ? "≥" : "≤"} ${short(entry.wall)}`;
}

const boxWords = (entry) =>
  (entry.member === null ? `box ${entry.unit}` : `box ${entry.unit} of member ${entry.member}`);

function decidingTile(row) {
  const best = row.classes.find((entry) => entry.class === row.predicted);
  const second = row.classes.filter((entry) => entry !== best)
    .reduce((a, b) => (a === null || b.score > a.score ? b : a), null);
  // One column that moves both scores alike has no part in the lead.
  if (second && second.member === best.member && second.feature === best.feature &&
      second.slope === best.slope) {
    return tile("Decided by", "no single column", [
      `${best.feature} moves the scores of ${best.class} and ${second.class} alike and cancels`]);
  }
  return tile("Decided by", best.feature, [
    `is ${short(best.value)}; ${boxWords(best)} has its wall at ${wallWords(best)}`]);
}

function flipTile({ flip }, isEdited) {
  const name = "Smallest flip";
  if (isEdited) return tile(name, UNKNOWN, ["is sought for rows as they were"]);
  if (!flip) return tile(name, "none", ["no change of one column flips this prediction"]);
  return tile(name, flip.column, [
    `alone, from ${flip.from} to ${flip.to}, makes it `, strong(flip.becomes)]);
}

/** What is to be known first; `before` is the row as it was. */
function showTiles(row, before, changed) {
  const isEdited = row !== before;
  // A table without labels has none to compare with.
  const isKnown = row.label !== null;
  const truth = isEdited ? `of the row as it was; ${chance(row, row.label, before)}`
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

/** A cell that sorts by its value. */
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
  return element("tr", entry.class === row.predicted ? { class: "chosen" } : {},
    name,
    numberCell(entry.score, fixed(entry.score)),
    share,
    element("td", {}, entry.feature),
    numberCell(entry.value, short(entry.value)),
    numberCell(entry.wall, wallWords(entry)),
    numberCell(entry.unit, boxWords(entry).replace("box ", "")),
    numberCell(entry.slope, signed(entry.slope, fixed)),
    numberCell(entry.runner_up, entry.runner_up ?? UNKNOWN),
    numberCell(entry.margin, fixed(entry.margin)));
}

function showClasses(row) {
  const table = byId("classes");
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const lines = row.classes.map((entry) => classLine(entry, row));
  // On narrow screens, where the table has no columns, cells have their names beside them.
  for (const line of lines) [...line.cells].forEach((cell, k) => (cell.dataset.label = heads[k]));
  table.tBodies[0].replaceChildren(...lines);
  sortRows(table);
}


// The explorer: everything about the one row that is picked.

const { rows, features, image_shape: shape, units, radius_unit: radiusUnit } =
  JSON.parse(byId("data").textContent);
const MOST_VALUES = 30;
const hasPictures = rows.length > 0 && shape?.length === 2 &&
  rows.every((row) => row.values.length === shape[0] * shape[1]);
const greys = hasPictures ? range(rows.map((row) => row.values)) : null;

const strong = (text) => element("b", {}, text);
const verdict = (row) => (row.label === row.predicted ? "right" : "wrong");

function tile(name, value, hint, kind = "") {
  return element("div", {}, element("dt", {}, name), element("dd", { class: kind }, value),
    element("dd", { class: "hint" }, ...hint));
}

function flipTile({ flip }) {
  const name = "Smallest flip";
  if (flip === undefined) return tile(name, UNKNOWN, ["changes of one feature were not searched"]);
  if (!flip) return tile(name, "none", ["no change of one feature flips this prediction"]);
  const change = flip.new_value - flip.value;
  return tile(name, flip.feature, [
    `this feature alone, from ${short(flip.value)} to ${short(flip.new_value)} `,
    `(${signed(change, short)}), makes it `, strong(flip.becomes)]);
}

function showTiles(row) {
  const chance = (label) =>
    `probability ${probability(row.classes.find((entry) => entry.class === label)?.probability)}`;
  const radius = row.radius == null ? "unknown or unlimited"
    : `all features may move by less${radiusUnit ? `, in ${radiusUnit}` : ""}, ` +
      "and the prediction stays";
  byId("tiles").replaceChildren(
    tile("True label", row.label, [chance(row.label)]),
    tile("Predicted label", row.predicted, [strong(verdict(row)), `, ${chance(row.predicted)}`],
      verdict(row)),
    tile("Certified radius", fixed(row.radius), [radius]),
    flipTile(row));
  byId("verdict").textContent =
    `Row ${row.row} is ${row.label} and is predicted ${row.predicted}: ${verdict(row)}.`;
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
  const chance = numberCell(entry.probability, probability(entry.probability));
  chance.classList.add("bar");
  chance.style.setProperty("--share", entry.probability ?? 0);
  return element("tr", entry.class === row.predicted ? { class: "chosen" } : {},
    name,
    numberCell(entry.score, fixed(entry.score)),
    chance,
    numberCell(entry.unit, entry.unit),
    numberCell(entry.prototype, entry.prototype ?? UNKNOWN),
    element("td", {}, entry.feature),
    numberCell(entry.value, short(entry.value)),
    numberCell(entry.slope, signed(entry.slope, fixed)),
    numberCell(entry.runner_up, entry.runner_up ?? UNKNOWN),
    numberCell(entry.margin, fixed(entry.margin)));
}

function showClasses(row) {
  const table = byId("classes");
  table.tBodies[0].replaceChildren(...row.classes.map((entry) => classLine(entry, row)));
  sortRows(table);
}

/** The first values by name and all that decide a class, which stand out; sums of features last. */
function valueList(row) {
  const deciding = new Set(row.classes.map((entry) => entry.feature_index));
  const pair = (name, value, decides) => element("div", decides ? { class: "deciding" } : {},
    element("dt", {}, name), element("dd", {}, short(value)));
  const shown = [...row.values.keys()].filter((i) => i < MOST_VALUES || deciding.has(i));
  const pairs = shown.map((i) =>
    pair(features[i] ?? `feature ${i}`, row.values[i], deciding.has(i)));
  const sums = new Map(row.classes.filter((entry) => entry.feature_index === null)
    .map((entry) => [entry.feature, entry.value]));
  pairs.push(...[...sums].map(([name, value]) => pair(name, value, true)));
  const rest = row.values.length - shown.length;
  const note = "Marked features decide a class's score." +
    (rest > 0 ? ` ${rest} more features are left out.` : "");
  return [element("dl", { class: "values" }, ...pairs), element("p", { class: "note" }, note)];
}

function captioned(canvas, title, detail) {
  return element("figure", {}, canvas,
    element("figcaption", {}, strong(title), element("span", {}, detail)));
}

function legend(kind, text) {
  return element("span", {}, element("span", { class: `ring ${kind}` }), ` ${text}`);
}

/** The input and, from the best score down, the boxes that it was held against. */
function pictures(row) {
  const [marks, notes] = [[], [legend("deciding", "deciding pixel")]];
  const best = row.classes.find((entry) => entry.class === row.predicted);
  if (best) marks.push(["deciding", best.feature_index]);
  const flip = row.flip ? features.indexOf(row.flip.feature) : -1;
  if (flip >= 0) {
    marks.push(["flip", flip]);
    notes.push(legend("flip", "pixel of the smallest change that flips the prediction"));
  }
  notes.push(`black: ${short(greys[0])} or less, white: ${short(greys[1])} or more`);
  const input = picture(row.values, shape, greys, marks, `Row ${row.row} as a picture`);
  const classes = row.classes.filter((entry) => units[entry.unit]);
  const boxes = classes.sort((a, b) => b.score - a.score).map((entry) => captioned(
    picture(units[entry.unit], shape, greys, [["deciding", entry.feature_index]],
      `Centre of unit ${entry.unit}, the best of class ${entry.class}`),
    entry.class, `unit ${entry.unit}`));
  const first = captioned(input, "input", `row ${row.row}`);
  return [element("div", { class: "pictures" }, first, ...boxes),
    element("p", { class: "note legend" }, ...notes)];
}

function show(position) {
  const row = rows[position];
  byId("pick").selectedIndex = position;
  showTiles(row);
  showClasses(row);
  byId("input").replaceChildren(...(hasPictures ? pictures(row) : valueList(row)));
}

/** Shows the row with this number, if it is here, and goes there. */
function visit(number) {
  const position = rows.findIndex((row) => String(row.row) === number);
  if (position < 0) return;
  show(position);
  byId("explorer").scrollIntoView();
  byId("pick").focus({ preventScroll: true });
}

function visitAddress() {
  visit(location.hash.match(/^#row-(-?\d+)$/)?.[1]);
}

function start() {
  const pick = byId("pick");
  pick.append(...rows.map((row) => element("option", {}, row.label === row.predicted
    ? `${row.row}: ${row.label}` : `${row.row}: ${row.label}, predicted ${row.predicted}`)));
  const step = (by) => show((pick.selectedIndex + by + rows.length) % rows.length);
  pick.addEventListener("change", () => show(pick.selectedIndex));
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(+1));
  // The address alone is not enough: a second click on the same link does not change it.
  byId("worst")?.addEventListener("click", (event) => {
    visit(event.target.closest("tr")?.dataset.row);
  });
  addEventListener("hashchange", visitAddress);
  byId("explored").hidden = false;
  show(0);
  visitAddress();
}

if (rows.length) start();

// The explorer: one row is picked, looked at and, where the model is in the page, edited.

const { rows, features, labels, columns, image_shape: shape, units } = page;
const network = page.network && readNetwork(page.network);
const MOST_VALUES = 30;
const hasPictures = rows.length > 0 && shape?.length === 2 &&
  rows.every((row) => row.values.length === shape[0] * shape[1]);
const greys = hasPictures ? range(rows.map((row) => row.values)) : null;

function pair(name, value, decides) {
  return element("div", decides ? { class: "deciding" } : {},
    element("dt", {}, name), element("dd", {}, short(value)));
}

/** Sums of features that decide, which are no column of their own. */
function sumsOf(row) {
  const sums = new Map(row.classes.filter((entry) => entry.feature_index === null)
    .map((entry) => [entry.feature, entry.value]));
  return [...sums].map(([name, value]) => pair(name, value, true));
}

/** The first values by name and all that decide a class, which stand out; sums of features last. */
function valueList(row) {
  const deciding = new Set(row.classes.flatMap((entry) => entry.terms));
  const shown = [...row.values.keys()].filter((i) => i < MOST_VALUES || deciding.has(i));
  const pairs = shown.map((i) =>
    pair(features[i] ?? `feature ${i}`, row.values[i], deciding.has(i)));
  const rest = row.values.length - shown.length;
  const note = "Marked features decide a class's score." +
    (rest > 0 ? ` ${rest} more features are left out.` : "");
  return [element("dl", { class: "values" }, ...pairs, ...sumsOf(row)),
    element("p", { class: "note" }, note)];
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
  const flip = row.flip ? features.indexOf(row.flip.column) : -1;
  if (flip >= 0) {
    marks.push(["flip", flip]);
    notes.push(legend("flip", "pixel of the smallest change that flips the prediction"));
  }
  notes.push(`black: ${short(greys[0])} or less, white: ${short(greys[1])} or more`);
  const input = picture(row.values, shape, greys, marks, `${nameOf(row)} as a picture`);
  const classes = row.classes.filter((entry) => units[entry.unit]);
  const boxes = classes.sort((a, b) => b.score - a.score).map((entry) => captioned(
    picture(units[entry.unit], shape, greys, [["deciding", entry.feature_index]],
      `Centre of box ${entry.unit}, the best of class ${entry.class}`),
    entry.class, `box ${entry.unit}`));
  const first = captioned(input, "input", `row ${row.row}`);
  return [element("div", { class: "pictures" }, first, ...boxes),
    element("p", { class: "note legend" }, ...notes)];
}

/** The form, and below it the sums that decide. */
function editor(row) {
  const sums = element("dl", { class: "values" });
  const show = (now, changed) => {
    showTiles(now, row, changed);
    showClasses(now);
    markDeciding(form, columns, now.classes);
    sums.replaceChildren(...sumsOf(now));
    byId("reset").disabled = now === row;
  };
  const form = whatIfForm(network, columns, labels, row, show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show(row, []);
  return [form, sums];
}

function show(position) {
  const row = rows[position];
  byId("pick").selectedIndex = position;
  if (network) {
    byId("input").replaceChildren(...editor(row));
    return;
  }
  showTiles(row, row, []);
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
  pick.append(...rows.map((row) => element("option", {}, `${nameOf(row)}: ${row.label ?? row.predicted}` +
    ([null, row.predicted].includes(row.label) ? "" : `, predicted ${row.predicted}`))));
  const step = (by) => show((pick.selectedIndex + by + rows.length) % rows.length);
  pick.addEventListener("change", () => show(pick.selectedIndex));
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(+1));
  byId("reset")?.addEventListener("click", () => step(0));
  // The address alone is not enough: a second click on the same link does not change it.
  document.addEventListener("click", (event) => {
    visit(event.target.closest("tr[data-row]")?.dataset.row);
  });
  addEventListener("hashchange", visitAddress);
  byId("explored").hidden = false;
  show(0);
  visitAddress();
}

if (rows.length) start();

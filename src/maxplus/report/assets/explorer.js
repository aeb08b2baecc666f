// Explorer: shows the selected row, which can be edited if the page contains the model.

const { rows, features, labels, columns, image_shape: shape, units } = page;
const network = page.network && readNetwork(page.network);
const [MAX_VALUES, MAX_MARKED] = [30, 3];
const hasPictures = shape !== null && features.length === shape[0] * shape[1];
const greys = hasPictures ? range(rows.map((row) => row.values)) : null;

/** Returns the features that determine a score, or those with the largest contributions. */
function decidingFeatures(row) {
  if (!row.reasons) return row.classes.map((entry) => entry.feature_index);
  return byAmount(row.reasons.amounts).slice(0, MAX_MARKED)
    .map((g) => page.contributions.groups[g].features).filter((own) => own.length <= 2).flat();
}

/** Lists the first features and all deciding features, which are highlighted. */
function valueList(row) {
  const deciding = new Set(decidingFeatures(row));
  const shown = [...row.values.keys()].filter((i) => i < MAX_VALUES || deciding.has(i));
  const pairs = shown.map((i) => element("div", deciding.has(i) ? { class: "deciding" } : {},
    element("dt", {}, features[i] ?? `feature ${i}`), element("dd", {}, short(row.values[i]))));
  const rest = row.values.length - shown.length;
  const note = (row.reasons ? "Marked features contribute most."
    : "Marked features determine the score of a class.") +
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

/** Draws the input and the best box of each class, in descending order of the scores. */
function pictures(row) {
  const [marks, notes] = [[], [legend("deciding", "deciding pixel")]];
  const [pixel] = decidingFeatures(row);
  if (pixel !== undefined) marks.push(["deciding", pixel]);
  const flip = row.counterfactual ? features.indexOf(row.counterfactual.column) : -1;
  if (flip >= 0) {
    marks.push(["flip", flip]);
    notes.push(legend("flip", "pixel of the nearest counterfactual"));
  }
  notes.push(`black: ${short(greys[0])} or less, white: ${short(greys[1])} or more`);
  const input = picture(row.values, shape, greys, marks, `${nameOf(row)} as a picture`);
  const boxes = row.classes.filter((entry) => units[entry.unit]).map((entry) => captioned(
    picture(units[entry.unit], shape, greys, [["deciding", entry.feature_index]],
      `Centre of box ${entry.unit}, the best of class ${entry.class}`),
    entry.class, `box ${entry.unit}`));
  const first = captioned(input, "input", `row ${row.row}`);
  return [element("div", { class: "pictures" }, first, ...boxes),
    element("p", { class: "note legend" }, ...notes)];
}

/** Shows the tiles and tables of a row; `before` is the unedited row. */
function showResults(row, before, changed) {
  showTiles(row, before, changed);
  showReasons(row);
  showClasses(row);
}

/** Creates the what-if form, which updates the explorer after each edit. */
function editor(row) {
  const update = (edited, changed) => {
    showResults(edited, row, changed);
    markDeciding(form, columns, decidingFeatures(edited));
    byId("reset").disabled = edited === row;
  };
  const form = whatIfForm(network, columns, labels, row, update);
  form.addEventListener("submit", (event) => event.preventDefault());
  update(row, []);
  return form;
}

function show(position) {
  const row = rows[position];
  byId("pick").selectedIndex = position;
  if (!network) showResults(row, row, []);
  byId("input").replaceChildren(
    ...(network ? [editor(row)] : hasPictures ? pictures(row) : valueList(row)));
}

/** Shows the row with this number, if the page contains it, and scrolls to the explorer. */
function showNumber(number) {
  const position = rows.findIndex((row) => String(row.row) === number);
  if (position < 0) return;
  show(position);
  byId("explorer").scrollIntoView();
  byId("pick").focus({ preventScroll: true });
}

function showFragment() {
  showNumber(location.hash.match(/^#row-(-?\d+)$/)?.[1]);
}

const pick = byId("pick");
pick.append(...rows.map((row) => element("option", {},
  `${nameOf(row)}: ${row.label ?? row.predicted}` +
  ([null, row.predicted].includes(row.label) ? "" : `, predicted ${row.predicted}`))));
const step = (by) => show((pick.selectedIndex + by + rows.length) % rows.length);
pick.addEventListener("change", () => show(pick.selectedIndex));
byId("previous").addEventListener("click", () => step(-1));
byId("next").addEventListener("click", () => step(+1));
byId("reset")?.addEventListener("click", () => step(0));
// The hashchange event is not enough: a second click on the same link does not trigger it.
document.addEventListener("click", (event) => {
  showNumber(event.target.closest("tr[data-row]")?.dataset.row);
});
addEventListener("hashchange", showFragment);
byId("explored").hidden = false;
show(0);
showFragment();

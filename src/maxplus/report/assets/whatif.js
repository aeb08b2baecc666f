// What-if form for the selected row, and the encoding of its values as features.

const MAX_COLUMNS = 24;
const [MISSING, UNKNOWN_CHOICE] = ["missing", "none of the known values"];

/** Encoded features of a column in a row. */
function featuresOf(column, row) {
  return row.values.slice(column.first, column.first + column.size);
}

const equal = (a, b) => a.length === b.length && a.every((value, i) => value === b[i]);

/** Value of a column in a row as text. */
function valueText(column, k, row) {
  if (row.missing.includes(k)) return MISSING;
  const own = featuresOf(column, row);
  if (!column.choices) return short(own[0]);
  return column.choices.find(({ values }) => equal(values, own))?.text ?? UNKNOWN_CHOICE;
}

/** Creates a drop-down list, with "missing" if allowed; `onChange` receives the new features. */
function choiceField(column, id, own, isMissing, onChange) {
  const choices = column.choices.map(({ text, values }) => ({ text, values }));
  if (column.missing) choices.push({ text: MISSING, values: column.missing });
  let chosen = isMissing ? choices.length - 1
    : choices.findIndex(({ text, values }) => text !== MISSING && equal(values, own));
  if (chosen < 0) chosen = choices.push({ text: UNKNOWN_CHOICE, values: own }) - 1;
  const select = element("select", { id },
    ...choices.map(({ text }) => element("option", {}, text)));
  select.selectedIndex = chosen;
  select.addEventListener("change", () => onChange(choices[select.selectedIndex].values));
  return [select];
}

/** Returns the validation error of a number field, or null. */
function validationError(input, column) {
  const { validity } = input;
  if (input.value.trim() === "" || validity.badInput) return "enter a number";
  if (validity.stepMismatch) return "enter a whole number";
  if (validity.rangeUnderflow || validity.rangeOverflow) {
    return `enter a number from ${short(column.low)} to ${short(column.high)}, as in training`;
  }
  return null;
}

/** Creates a number field limited to the training range, with a checkbox if it can be missing. */
function numberField(column, id, own, isMissing, onChange) {
  const limits = column.low === null ? {}
    : { min: Math.min(column.low, own[0]), max: Math.max(column.high, own[0]) };
  const step = column.whole && Number.isInteger(own[0]) ? 1 : "any";
  const input = element("input", { id, type: "number", ...limits, step, value: own[0],
    "aria-describedby": `${id}-problem` });
  const problem = element("span", { class: "problem", id: `${id}-problem`, role: "status" });
  const update = () => {
    const error = validationError(input, column);
    problem.textContent = error === null ? "" : `${error}; ${short(own[0])} is used`;
    input.ariaInvalid = String(error !== null);
    onChange(error === null ? [Number(input.value), ...column.rest] : null);
  };
  input.addEventListener("input", update);
  if (!column.missing) return [input, problem];
  const box = element("input", { type: "checkbox", id: `${id}-missing` });
  box.addEventListener("change", () => {
    input.disabled = box.checked;
    if (!box.checked) update();
    else onChange(column.missing);
  });
  [box.checked, input.disabled] = [isMissing, isMissing];
  return [input, element("label", { class: "missing" }, box, " missing"), problem];
}

/** Creates one field of the form; `onChange` receives the new features, null for the original. */
function createField(column, k, row, onChange) {
  const [id, own, isMissing] = [`column-${k}`, featuresOf(column, row), row.missing.includes(k)];
  const make = column.choices ? choiceField : numberField;
  const field = element("div", { class: "field", "data-column": k },
    element("label", { for: id }, column.name),
    element("div", { class: "value" }, ...make(column, id, own, isMissing, onChange)));
  field.hidden = column.rank >= MAX_COLUMNS;
  return field;
}

/** Returns the values of a row with the features of some columns replaced. */
function editedValues(columns, row, edits) {
  const values = [...row.values];
  for (const [k, own] of edits) own.forEach((value, i) => { values[columns[k].first + i] = value; });
  return values;
}

/** Applies the model to edited features and returns a row of the explorer. */
function editedRow(network, labels, row, values) {
  const classes = predict(network, values).map((entry, d) => ({ ...entry, class: labels[d] }));
  const order = [...classes.keys()].sort((a, b) => classes[b].score - classes[a].score || a - b);
  const [best, rival] = order;
  const radius = certifiedRadius(network, values, best);
  const reasons = row.reasons && {
    ...contributionsOf(network, page.contributions, values, best, rival),
    rival: labels[rival], margin: classes[best].score - classes[rival].score };
  return { ...row, values, classes: order.map((d) => classes[d]), predicted: labels[best], reasons,
    radius: Number.isFinite(radius) ? radius : null };
}

/** Creates the form for a row; `show` is called with the updated row after each edit. */
function whatIfForm(network, columns, labels, row, show) {
  const edits = new Map();
  const fields = columns.map((column, k) => createField(column, k, row, (own) => {
    if (own === null || equal(own, featuresOf(column, row))) edits.delete(k);
    else edits.set(k, own);
    fields[k].classList.toggle("edited", edits.has(k));
    const missing = [...columns.keys()].filter((index) => (edits.has(index)
      ? edits.get(index) === columns[index].missing : row.missing.includes(index)));
    show(edits.size
      ? editedRow(network, labels, { ...row, missing }, editedValues(columns, row, edits)) : row,
      [...edits.keys()].map((index) => columns[index].name));
  }));
  const more = element("button", { type: "button", class: "more" },
    `Show all ${columns.length} columns`);
  more.hidden = columns.length <= MAX_COLUMNS;
  more.addEventListener("click", () => {
    for (const field of fields) field.hidden = false;
    more.hidden = true;
  });
  return element("form", { id: "what-if", autocomplete: "off" },
    element("div", { class: "fields" }, ...fields), more);
}

/** Marks the columns of deciding features and makes them visible. */
function markDeciding(form, columns, features) {
  const deciding = new Set(features
    .map((i) => columns.findIndex(({ first, size }) => first <= i && i < first + size)));
  for (const field of form.querySelectorAll(".field")) {
    const decides = deciding.has(Number(field.dataset.column));
    field.classList.toggle("deciding", decides);
    if (decides) field.hidden = false;
  }
}

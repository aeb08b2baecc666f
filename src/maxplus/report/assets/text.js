// Elements whose text stays text, and numbers by the same rules as in _text.py.

const UNKNOWN = "–";
const byId = (id) => document.getElementById(id);

/** A new element; children are nodes or strings, and a string is never read as markup. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const typeset = (text) => text.replaceAll("-", "−");

function isPlain(value) {
  return value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6);
}

/** Three decimals, so that a column lines up. */
function fixed(value) {
  if (value == null) return UNKNOWN;
  return typeset(isPlain(value) ? value.toFixed(3) : value.toExponential(2));
}

/** As short as four digits allow: for prose and for inputs, which are often round. */
function short(value) {
  if (value == null) return UNKNOWN;
  if (!isPlain(value)) return typeset(value.toExponential(2));
  return typeset(String(Math.abs(value) < 1000 ? Number(value.toPrecision(4)) : Math.round(value)));
}

/** The same with a plus where there is no minus. */
const signed = (value, format) => (value > 0 ? "+" : "") + format(value);

/** Three decimals that never claim certainty where there is none. */
function probability(value) {
  if (value > 0 && value < 1e-3) return "<0.001";
  if (value > 0.999 && value < 1) return ">0.999";
  return value == null ? UNKNOWN : value.toFixed(3);
}

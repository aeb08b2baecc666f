// Safe creation of elements, and number formats by the same rules as in _text.py (except that
// exact ties are rounded away from 0).

const UNKNOWN = "–";
const byId = (id) => document.getElementById(id);

/** Creates an element; children are nodes or strings, and strings are never parsed as HTML. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Formats with a typographic minus sign and at least two exponent digits. */
function typeset(value, text) {
  const [mantissa, exponent] = text.split("e");
  const power = exponent ? `e${exponent[0]}${exponent.slice(1).padStart(2, "0")}` : "";
  return ((value < 0 ? "-" : "") + mantissa + power).replaceAll("-", "−");
}

function isDecimal(value) {
  return value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6);
}

/** Formats with three decimals, or in scientific notation if very small or large. */
function fixed(value) {
  if (value == null) return UNKNOWN;
  const size = Math.abs(value);
  if (!isDecimal(value)) return typeset(value, size.toExponential(2));
  return typeset(value, size.toFixed(3).replace(/\B(?=(\d{3})+\.)/g, ","));
}

/** Formats with at most four significant digits, for prose and input values. */
function short(value) {
  if (value == null) return UNKNOWN;
  const size = Math.abs(value);
  if (!isDecimal(value)) return typeset(value, size.toExponential(2));
  if (size >= 1000) return typeset(value, size.toFixed(0));
  return typeset(value, String(Number(size.toPrecision(4))));
}

/** Formats with an explicit sign for positive numbers. */
const signed = (value, format) => (value > 0 ? "+" : "") + format(value);

/** Formats with three decimals; only exact values are shown as 0 or 1. */
function probability(value) {
  if (value == null) return UNKNOWN;
  if (value > 0 && value < 1e-3) return "<0.001";
  if (value > 0.999 && value < 1) return ">0.999";
  return value.toFixed(3);
}

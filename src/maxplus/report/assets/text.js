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

const FURTHER = 40; // digits behind the last one that tell whether a number lies exactly between

/** Rounds as Python does: of two numbers that are equally near, the one that ends on an even digit. */
function rounded(size, method, digits) {
  const text = size[method](digits);
  const [exact] = size[method](digits + FURTHER).split("e");
  const isBetween = /^50*$/.test(exact.slice(-FURTHER));
  const isOdd = /[13579]$/.test(text.split("e")[0]);
  return isBetween && isOdd ? (size * (1 - Number.EPSILON))[method](digits) : text;
}

/** Minus signs as they are printed, exponents of two digits at least. */
function typeset(value, text) {
  const [mantissa, exponent] = text.split("e");
  const power = exponent ? `e${exponent[0]}${exponent.slice(1).padStart(2, "0")}` : "";
  return ((value < 0 ? "-" : "") + mantissa + power).replaceAll("-", "−");
}

function isPlain(value) {
  return value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6);
}

/** Three decimals, so that a column lines up; powers of ten where they would say nothing. */
function fixed(value) {
  if (value == null) return UNKNOWN;
  const size = Math.abs(value);
  if (!isPlain(value)) return typeset(value, rounded(size, "toExponential", 2));
  return typeset(value, rounded(size, "toFixed", 3).replace(/\B(?=(\d{3})+\.)/g, ","));
}

/** As short as four digits allow: for prose and for inputs, which are often round. */
function short(value) {
  if (value == null) return UNKNOWN;
  const size = Math.abs(value);
  if (!isPlain(value)) return typeset(value, rounded(size, "toExponential", 2));
  if (size >= 1000) return typeset(value, rounded(size, "toFixed", 0));
  return typeset(value, String(Number(rounded(size, "toPrecision", 4))));
}

/** The same with a plus where there is no minus. */
const signed = (value, format) => (value > 0 ? "+" : "") + format(value);

/** Three decimals that never claim certainty where there is none. */
function probability(value) {
  if (value == null) return UNKNOWN;
  if (value > 0 && value < 1e-3) return "<0.001";
  if (value > 0.999 && value < 1) return ">0.999";
  return rounded(value, "toFixed", 3);
}

// Tables that sort by column: activate a heading to sort, again to reverse the order.

const collator = new Intl.Collator(undefined, { numeric: true });

/** Heading of the column that a table is sorted by, if any. */
const sortedBy = (table) => table.querySelector("th[aria-sort]");

/** Compares two cells by their data-value if they have one, else by their text; unknown is last. */
function compareCells(a, b, sign) {
  const [x, y] = [a.dataset.value, b.dataset.value];
  if (x === undefined) return sign * collator.compare(a.textContent, b.textContent);
  if (x === "" || y === "") return (x === "") - (y === "");
  return sign * (Number(x) - Number(y));
}

/** Sorts the rows by the column whose heading has `aria-sort`. */
function sortRows(table) {
  const heading = sortedBy(table);
  if (!heading) return;
  const sign = heading.ariaSort === "descending" ? -1 : 1;
  const column = heading.cellIndex;
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => compareCells(a.cells[column], b.cells[column], sign));
  table.tBodies[0].append(...rows);
}

function sortBy(table, heading) {
  const order = heading.ariaSort === "ascending" ? "descending" : "ascending";
  sortedBy(table)?.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);
  sortRows(table);
}

for (const table of document.querySelectorAll("table.sortable")) {
  for (const heading of table.tHead.rows[0].cells) {
    const button = element("button", { type: "button" }, ...heading.childNodes);
    button.addEventListener("click", () => sortBy(table, heading));
    heading.append(button);
  }
}

"""Tables of the page: each scrolls inside its own box, so that the page itself never does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from maxplus.report._text import escape, fixed, percent, probability


def confusion_table(labels: list[str], counts: list[list[int]]) -> str:
    """Rows are true classes, columns predicted ones; a cell is tinted by its share of the row."""
    head = "".join(f'<th scope="col" class="number">{escape(label)}</th>' for label in labels)
    lines = []
    for i, (label, row) in enumerate(zip(labels, counts, strict=True)):
        total = sum(row)
        cells = [_count(count, total, i == j) for j, count in enumerate(row)]
        right = percent(row[i] / total if total else None)
        lines.append(
            f'<tr><th scope="row">{escape(label)}</th>{"".join(cells)}'
            f'<td class="number aside">{right}</td></tr>'
        )
    note = "Rows are true classes, columns predicted ones."
    return _note(note) + _scroll(
        "Confusion matrix",
        '<table class="confusion">'
        f'<thead><tr><td class="corner">true ╲ predicted</td>{head}'
        '<th scope="col" class="number aside">right</th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>",
    )


def worst_table(worst: list[dict[str, Any]], shown: Iterable[int]) -> str:
    """The largest losses first; a row that the explorer holds is a link to it."""
    known = set(shown)
    order = sorted(worst, key=lambda sample: (sample["loss"] is None, -(sample["loss"] or 0.0)))
    lines = []
    for sample in order:
        n = sample["row"]
        begin, link = "<tr>", f"{n:d}"
        if n in known:
            begin, link = f'<tr data-row="{n:d}">', f'<a href="#row-{n:d}">{n:d}</a>'
        verdict = "right" if sample["label"] == sample["predicted"] else "wrong"
        lines.append(
            f"{begin}{_number(n, link)}<td>{escape(sample['label'])}</td>"
            f'<td class="{verdict}">{escape(sample["predicted"])}</td>'
            f"{_number(sample['loss'], fixed(sample['loss']))}"
            f"{_number(sample['probability'], probability(sample['probability']))}</tr>"
        )
    note = "Probability is that of the true label. A row number leads to the explorer."
    return _note(note) + _scroll(
        "Worst samples",
        '<table class="sortable" id="worst"><thead><tr>'
        '<th scope="col" class="number">row</th>'
        '<th scope="col">true label</th>'
        '<th scope="col">predicted</th>'
        '<th scope="col" class="number" aria-sort="descending">loss</th>'
        '<th scope="col" class="number">probability</th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>",
    )


def certified_table(eps: list[float], accuracy: list[float]) -> str:
    """Share of rows that are right and stay right, per size of change."""
    lines = "".join(
        f"<tr>{_number(e, fixed(e))}{_number(a, percent(a))}</tr>"
        for e, a in zip(eps, accuracy, strict=True)
    )
    return _scroll(
        "Certified accuracy",
        '<table><thead><tr><th scope="col" class="number">change of every feature up to</th>'
        '<th scope="col" class="number">still right</th></tr></thead>'
        f"<tbody>{lines}</tbody></table>",
    )


def _note(text: str) -> str:
    return f'<p class="note">{text}</p>'


def _scroll(label: str, table: str) -> str:
    return f'<div class="scroll" role="region" aria-label="{label}" tabindex="0">{table}</div>'


def _number(value: float | None, shown: str) -> str:
    """A cell that sorts by its value, not by its text; an empty value is unknown."""
    return f'<td class="number" data-value="{"" if value is None else value}">{shown}</td>'


def _count(count: int, total: int, diagonal: bool) -> str:
    if not count:
        return '<td class="number none">0</td>'
    kind = "right" if diagonal else "wrong"
    return f'<td class="number tint {kind}" style="--share:{count / total:.3f}">{count:,}</td>'

"""The page's sections but for the explorer, which is drawn in the browser."""

from __future__ import annotations

import base64
import math
from typing import Any, NamedTuple

from maxplus.report._tables import certified_table, confusion_table, worst_table
from maxplus.report._text import apart, escape, fixed, percent, plural, probability

STATES = {
    True: ("holds", "✓", "The certificate holds"),
    False: ("fails", "✗", "The certificate does not hold"),
    None: ("unknown", "?", "Whether the certificate holds is unknown"),
}
KINDS = {"LMMClassifier": "Linear-Min-Max classifier"}


class Section(NamedTuple):
    """A heading that the page's menu leads to, and what stands below it as HTML."""

    id: str
    title: str
    body: str


def sections(report: dict[str, Any]) -> list[Section]:
    """All sections that have something to show, from top to bottom."""
    figures, confusion, worst = report["figures"], report["confusion"], report["worst"]
    shown = [row["row"] for row in report["rows"]]
    every = [
        Section("certificate", "Certificate", _certificate(report["certificate"])),
        Section("numbers", "Key figures", _key_figures(report)),
        Section("figures", "Figures", _figures(figures) + _certified(report["certified"])),
        Section("confusion", "Confusion matrix",
                confusion_table(**confusion) if confusion["labels"] else ""),
        Section("worst-samples", "Worst samples", worst_table(worst, shown) if worst else ""),
    ]  # fmt: skip
    return [section for section in every if section.body]


def summary(report: dict[str, Any]) -> str:
    """What the model is, in one paragraph."""
    model, data = report["model"], report["data"]
    return (
        f"A {escape(KINDS.get(model['kind'], model['kind']))} with "
        f"{plural(model['n_hidden'], 'hidden unit')} over {plural(model['n_features'], 'feature')} "
        f"and {plural(len(model['classes']), 'class')}, looked at on {escape(data['name'])} "
        f"({plural(data['n_rows'], 'row')}). Every hidden unit is a soft box in feature space, and "
        "a class scores the margin of its best box. So each score comes down to one unit and one "
        "deciding feature, and small changes of the input provably cannot flip a prediction."
    )


def model_facts(model: dict[str, Any]) -> str:
    """Parameters and training, folded away."""
    parts = [
        f"<div><h3>{title}</h3>{_facts(model[key])}</div>"
        for key, title in (("parameters", "Parameters"), ("training", "Training"))
        if model[key]
    ]
    columns = f'<div class="columns">{"".join(parts)}</div>' if parts else ""
    return _more("Parameters and training", columns)


def _certificate(certificate: dict[str, Any]) -> str:
    loss, limit = certificate["max_loss"], certificate["threshold"]
    state, sign, words = STATES[certificate["holds"]]
    if loss is None:
        comparison = f"The maximum training loss is unknown; log 2 is {limit:.3f}."
        gauge = ""
    else:
        low, high = apart(loss, limit)
        verb = "is below" if loss < limit else "is not below"
        comparison = f"The maximum training loss, <b>{low}</b>, {verb} log 2 = <b>{high}</b>."
        full = max(2 * limit, 1.25 * loss)
        gauge = (
            f'<div class="gauge" aria-hidden="true" style="--loss:{100 * loss / full:.2f}%;'
            f'--limit:{100 * limit / full:.2f}%"><span>log 2</span></div>'
        )
    return (
        f'<div class="certificate {state}"><p class="status">'
        f'<span class="sign" aria-hidden="true">{sign}</span>{words}</p>'
        f"<p>{comparison}</p>{gauge}<p>{escape(certificate['text'])}</p></div>"
    )


def _key_figures(report: dict[str, Any]) -> str:
    scores, n_rows = report["scores"], report["data"]["n_rows"]
    accuracy, loss = scores["accuracy"], scores["max_loss"]
    wrong = None if accuracy is None else round(n_rows * (1 - accuracy))
    radius = scores["median_radius"]
    unit = f", in {escape(report['radius_unit'])}" if report.get("radius_unit") else ""
    tiles = [
        ("Accuracy", percent(accuracy), "" if wrong is None else f"{plural(wrong, 'row')} wrong"),
        ("Mean loss", fixed(scores["mean_loss"]), "cross-entropy, natural logarithm"),
        ("Maximum loss", fixed(loss), "" if loss is None else
            f"the worst row gives its true label {probability(math.exp(-loss))}"),
        ("Rows", f"{n_rows:,}", escape(report["data"]["name"])),
        ("Median certified radius", fixed(radius), "unknown or unlimited" if radius is None else
            f"half of the rows keep their prediction while all features move by less{unit}"),
    ]  # fmt: skip
    return '<dl class="tiles">' + "".join(
        f'<div><dt>{name}</dt><dd>{value}</dd><dd class="hint">{hint}</dd></div>'
        for name, value, hint in tiles
    ) + "</dl>"  # fmt: skip


def _figures(figures: list[dict[str, str]]) -> str:
    """Pictures as images of their own, so that their styles stay inside."""
    drawn = []
    for figure in figures:
        data = base64.b64encode(figure["svg"].encode("utf-8")).decode("ascii")
        drawn.append(
            f'<figure id="figure-{escape(figure["id"])}">'
            f"<figcaption>{escape(figure['title'])}</figcaption>"
            f'<img alt="{escape(figure["alt"])}" src="data:image/svg+xml;base64,{data}"></figure>'
        )
    return f'<div class="figures">{"".join(drawn)}</div>' if drawn else ""


def _certified(certified: dict[str, list[float]]) -> str:
    table = certified_table(certified["eps"], certified["accuracy"]) if certified["eps"] else ""
    return _more("Certified accuracy as a table", table)


def _facts(facts: dict[str, str]) -> str:
    pairs = (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    return f'<dl class="facts">{"".join(pairs)}</dl>'


def _more(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>{body}</details>" if body else ""

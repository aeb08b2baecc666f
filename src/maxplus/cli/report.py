"""``maxplus report``: one page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxplus.cli._common import (
    DataArgument,
    ModelArgument,
    RawUnitsOption,
    plain_errors,
)
from maxplus.cli._output import JsonOption, QuietOption, Voice
from maxplus.cli._trained import Trained, labels_for, open_model, open_samples

if TYPE_CHECKING:
    from maxplus.tables import Samples


def report(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    raw_units: RawUnitsOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a page that people can read: how good on new rows, whom it fails, what decides.

    One file that needs no network, with an explorer in which values can be changed.
    DATA has labels; rows that were used in training are told apart from new ones.
    Example: maxplus report model.maxplus test.csv -o report.html
    """
    voice = Voice(as_json, quiet)
    with plain_errors():
        from maxplus._files import write_whole
        from maxplus.report import render_page, report_content

        trained = open_model(model)
        samples = open_samples(data, trained, labelled=True)
        y, measure = labels_for(trained, samples, data), trained.measure(raw_units)
        with voice.busy("Certifying and explaining"):
            content = report_content(
                trained.estimator, samples.X, y, name=Path(samples.name).name,
                feature_names=trained.feature_names, scale=measure.scale, unit=measure.unit,
                **_rows(trained, samples),
            )  # fmt: skip
            page = render_page(content)
        write_whole(out, page.encode("utf-8"))
        voice.say(f"Report: {out}")
        voice.result({
            "model": str(model), "data": samples.name, "report": str(out),
            "headline": content["headline"], "figures": content["judged"]["figures"],
        })  # fmt: skip


def _rows(trained: Trained, samples: Samples) -> dict[str, Any]:
    """What is known about the rows beside their features."""
    if trained.image_shape is not None:
        return {"image_shape": trained.image_shape, **trained.limits(samples)}
    return {
        "row_numbers": samples.rows + 1,
        "ids": _ids(trained, samples),
        "missing": samples.missing,
    }


def _ids(trained: Trained, samples: Samples) -> list[str] | None:
    """The first column that the model does not use and that tells all rows apart."""
    encoding = samples.encoding
    used = {encoding.target, *(column.name for column in encoding.columns)}
    for name, cells in samples.table.columns.items():
        words = [_word(cell) for cell in cells.tolist()] if name not in used else []
        if words and "" not in words and len(set(words)) == len(words):
            return words
    return None


def _word(cell: Any) -> str:
    if isinstance(cell, float):
        return "" if cell != cell else f"{cell:.17g}"
    return str(cell)

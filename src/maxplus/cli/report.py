"""``maxplus report``: one page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxplus.cli._common import (
    DataArgument,
    ModelArgument,
    RawUnitsOption,
    plain_errors,
)
from maxplus.cli._output import JsonOption, QuietOption, Voice
from maxplus.cli._trained import held_words, labels_for, open_model, open_samples


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
    """Write a page with figures, the worst samples and an explorer; it needs no network.

    Rows count from 1, the first line of data.
    Example: maxplus report model.maxplus test.csv -o report.html
    """
    voice = Voice(as_json, quiet)
    with plain_errors(quiet):
        from maxplus._files import write_whole
        from maxplus.report import render_page, report_content

        trained = open_model(model)
        samples = open_samples(data, trained, labelled=True)
        y, measure = labels_for(trained, samples, data), trained.measure(raw_units)
        with voice.busy("Certifying and explaining"):
            content = report_content(
                trained.estimator, samples.X, y, name=samples.name,
                feature_names=trained.feature_names, image_shape=trained.image_shape,
                scale=measure.scale, unit=measure.unit + held_words(measure),
                row_numbers=samples.rows + 1, **trained.limits(samples),
            )  # fmt: skip
            page = render_page(content)
        write_whole(out, page.encode("utf-8"))
        voice.say(f"Report: {out}")
        voice.result({
            "model": str(model), "data": samples.name, "report": str(out), **content["scores"],
        })  # fmt: skip

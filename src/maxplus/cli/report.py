"""``maxplus report``: one page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxplus.cli._common import (
    DataArgument,
    ModelArgument,
    RawUnitsOption,
    StrictOption,
    plain_errors,
    require_folder,
)
from maxplus.cli._output import JsonOption, QuietOption, Voice
from maxplus.cli._ranks import leave_to_first
from maxplus.cli._trained import Trained, UnknownLabels, open_model, open_samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from maxplus.distributed import Communicator
    from maxplus.tables import Samples

# Words that tell so many rows apart at most are looked for; more are called by their numbers.
MOST_IDS = 1_000_000


def report(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    raw_units: RawUnitsOption = False,
    strict: StrictOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a page that people can read: how good on new rows, whom it fails, what decides.

    One file that needs no network, with an explorer in which values can be changed. DATA with
    labels is test data, and scored in full; without labels the page has predictions, certificates
    and explanations. Rows count from 1.
    Example: maxplus report model.maxplus test.csv -o report.html
    """
    leave_to_first()
    with plain_errors(quiet):
        voice = Voice(as_json, quiet)
        from maxplus._files import write_whole
        from maxplus.distributed import SERIAL as comm
        from maxplus.report import render_page

        require_folder(out, "--out")
        trained = open_model(model, classifier=False)
        samples = open_samples(data, trained, labelled=True, optional=True, strict=strict)
        y = None
        if samples.y is not None:
            unknown = UnknownLabels(trained, data, strict=strict)
            with comm.raise_on_all_ranks():
                samples, y = unknown.known(samples)
            unknown.settle(comm, voice)
            if trained.is_classifier:
                y = trained.estimator.classes_[y]
        with voice.busy("Certifying and explaining"):
            content = _content(trained, samples, y, raw_units)
            page = render_page(content)
        write_whole(out, page.encode("utf-8"))
        voice.say(f"{content['headline']['words']}. {content['headline']['text']}")
        voice.say(f"Report: {out}")
        voice.result({
            "model": str(model), "data": samples.name, "report": str(out),
            "headline": content["headline"], "sources": content["sources"],
        })  # fmt: skip


def _content(
    trained: Trained, samples: Samples, y: NDArray | None, raw_units: bool
) -> dict[str, Any]:
    """All that the page says."""
    from maxplus.distributed import current
    from maxplus.report import regression_content, report_content

    comm = current()
    about: dict[str, Any] = {
        "name": Path(samples.name).name, "feature_names": trained.feature_names,
        "row_numbers": samples.rows + 1, "ids": _ids(samples, comm),
    }  # fmt: skip
    if not trained.is_classifier:
        return regression_content(trained.estimator, samples.X, y, **about)
    measure = trained.measure(raw_units)
    about |= {"scale": measure.scale, "unit": measure.unit, "missing": samples.missing}
    if trained.image_shape is not None:
        about |= {"image_shape": trained.image_shape, "missing": None, **trained.limits(samples)}
    return report_content(trained.estimator, samples.X, y, **about)


def _ids(samples: Samples, comm: Communicator) -> list[str] | None:
    """The first column that the model does not use and that tells all rows apart."""
    encoding = samples.encoding
    used = {encoding.target, *(column.name for column in encoding.columns)}
    if comm.total(len(samples.X)) > MOST_IDS:
        return None
    for name, cells in samples.table.columns.items():
        if name in used:
            continue
        own = [_word(cell) for cell in cells.tolist()]
        words = own if comm.is_alone else [word for words in comm.allgather(own) for word in words]
        if words and "" not in words and len(set(words)) == len(words):
            return own
    return None


def _word(cell: Any) -> str:
    if isinstance(cell, float):
        return "" if cell != cell else f"{cell:.17g}"
    return str(cell)

"""``maxplus report``: an HTML page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from maxplus.cli import _options as opt
from maxplus.cli._console import open_console
from maxplus.cli._model import (
    UnknownLabels,
    image_shape,
    is_classifier,
    open_dataset,
    open_model,
    perturbation_of,
    pixel_limits,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from maxplus.tables import Dataset

# Maximum number of rows of a table that is searched for an id column.
MAX_IDS = 1_000_000


def report(
    model: opt.Model,
    data: opt.Data,
    out: Annotated[Path, opt.output_file("--out", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    raw_units: opt.RawUnits = False,
    strict: opt.Strict = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Write an HTML page: performance on new rows, errors, explanations and certificates.

    The page is self-contained and has a form for editing the values of a row. Labelled rows are
    treated as test data, unless they are the training rows. Without labels, the page contains
    predictions, certificates and explanations.

    Example: maxplus report model.maxplus test.csv -o report.html
    """
    with open_console(as_json, quiet) as console:
        from maxplus._files import write_atomically
        from maxplus.report import render_page

        opt.check_not_input(out, data, model)
        estimator = open_model(model, classifier=False)
        rows = open_dataset(data, estimator, labelled=True, optional=True, strict=strict)
        y = None
        if rows.y is not None:
            unknown = UnknownLabels(estimator, strict=strict)
            rows, y = unknown.select_known(rows)
            unknown.report(console)
            if is_classifier(estimator):
                y = estimator.classes_[y]
        with console.stderr.status("Certifying and explaining"):
            content = _content(estimator, rows, y, raw_units)
            page = render_page(content)
        write_atomically(out, page.encode("utf-8"))
        console.print(f"{content['headline']['title']}. {content['headline']['text']}")
        console.print(f"Report: {out}")
        console.print_json(
            {
                "model": str(model),
                "data": rows.name,
                "report": str(out),
                "headline": content["headline"],
                "sources": content["sources"],
            }
        )


def _content(estimator: Any, data: Dataset, y: NDArray | None, raw_units: bool) -> dict[str, Any]:
    """Return the content of the page."""
    from maxplus.report import regression_content, report_content

    options: dict[str, Any] = {
        "name": Path(data.name).name,
        "row_numbers": data.rows + 1,
        "ids": _ids(data),
    }
    if not is_classifier(estimator):
        assert data.encoder is not None
        names = data.encoder.feature_names
        return regression_content(estimator, data.X, y, feature_names=names, **options)
    perturbation = perturbation_of(estimator, raw_units)
    options |= {"scale": perturbation.scale, "unit": perturbation.unit, "missing": data.missing}
    shape = image_shape(estimator)
    if shape is not None:
        options |= {"image_shape": shape, "missing": None, **pixel_limits(estimator, data.X)}
    return report_content(estimator, data.X, y, **options)


def _ids(data: Dataset) -> list[str] | None:
    """Return the values of the first unused column with distinct values."""
    from maxplus.tables.table import as_text

    assert data.encoder is not None
    used = {data.target.name, *(column.name for column in data.encoder.columns_)}
    if len(data.X) > MAX_IDS:
        return None
    for name, cells in data.table.columns.items():
        if name not in used:
            texts = as_text(cells).tolist()
            if texts and "" not in texts and len(set(texts)) == len(texts):
                return texts
    return None

"""``maxplus rules``: rules extracted from a model."""

from __future__ import annotations

from typing import Annotated

import typer

from maxplus.cli import _options as opt
from maxplus.cli._console import open_console
from maxplus.cli._model import UnknownLabels, open_dataset, open_model


def rules(
    model: opt.Model,
    data: opt.Data,
    n: Annotated[int, typer.Option("--number", "-n", min=1, help="Maximum number of rules.")] = 10,
    strict: opt.Strict = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Print rules of a model, with support and precision on the rows of DATA.

    DATA does not affect the rules. The rows covered by a rule are predicted as its class; maxplus
    explain explains single rows.

    Example: maxplus rules model.maxplus train.csv
    """
    with open_console(as_json, quiet) as console:
        estimator = open_model(model)
        unknown = UnknownLabels(estimator, strict=strict)
        dataset = open_dataset(data, estimator, labelled=True, strict=strict)
        rows, codes = unknown.select_known(dataset)
        unknown.report(console)
        found = estimator.rules(rows.X, estimator.classes_[codes], n)
        console.print(str(found))
        console.print_json(
            {
                "model": str(model),
                "data": dataset.name,
                "rows": found.n_rows,
                "rules": [
                    {
                        "rule": rule.premise,
                        "class": rule.label,
                        "rows": rule.n_rows,
                        "correct": rule.n_correct,
                        "unit": rule.unit,
                        "decides": rule.n_decided,
                    }
                    for rule in found
                ],
                "omitted": found.n_omitted,
            }
        )

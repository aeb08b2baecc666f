"""``maxplus rules``: rules extracted from a model."""

from __future__ import annotations

from typing import Annotated

import typer

from maxplus.cli._common import DataArgument, ModelArgument, StrictOption, plain_errors
from maxplus.cli._console import Console, JsonOption, QuietOption
from maxplus.cli._model import UnknownLabels, open_dataset, open_model


def rules(
    model: ModelArgument,
    data: DataArgument,
    n: Annotated[int, typer.Option("--number", "-n", min=1, help="Maximum number of rules.")] = 10,
    strict: StrictOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Print rules of a model, with support and precision on the rows of DATA.

    DATA does not affect the rules. The rows covered by a rule are predicted as its class; maxplus
    explain explains single rows.
    Example: maxplus rules model.maxplus train.csv
    """
    console = Console(as_json, quiet)
    with plain_errors(quiet):
        loaded = open_model(model)
        rows = open_dataset(data, loaded, labelled=True, strict=strict)
        unknown = UnknownLabels(loaded, data, strict=strict)
        rows, codes = unknown.known(rows)
        unknown.report(console)
        found = loaded.estimator.rules(rows.X, loaded.estimator.classes_[codes], n)
        console.print(str(found))
        console.result(
            {
                "model": str(model),
                "data": rows.name,
                "rows": found.n_rows,
                "rules": [
                    {
                        "rule": rule.premise,
                        "class": rule.label,
                        "rows": rule.rows,
                        "right": rule.right,
                        "unit": rule.unit,
                        "decides": rule.decides,
                    }
                    for rule in found
                ],
                "hidden": found.n_hidden,
            }
        )

"""``maxplus rules``: a model's boxes as rules."""

from __future__ import annotations

from typing import Annotated

import typer

from maxplus.cli._common import DataArgument, ModelArgument, StrictOption, plain_errors
from maxplus.cli._output import JsonOption, QuietOption, Voice
from maxplus.cli._trained import UnknownLabels, open_model, open_samples


def rules(
    model: ModelArgument,
    data: DataArgument,
    n: Annotated[int, typer.Option("--number", "-n", min=1, help="How many rules at most.")] = 10,
    strict: StrictOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Print a model's boxes as rules, counted on the rows of DATA, which change no rule.

    Inside of a rule's box its class wins; what decides a single row is told by maxplus explain.
    Example: maxplus rules model.maxplus train.csv
    """
    voice = Voice(as_json, quiet)
    with plain_errors(quiet):
        from maxplus.distributed import SERIAL

        trained = open_model(model)
        samples = open_samples(data, trained, labelled=True, strict=strict)
        unknown = UnknownLabels(trained, data, strict=strict)
        samples, codes = unknown.known(samples)
        unknown.settle(SERIAL, voice)
        found = trained.estimator.rules(samples.X, trained.estimator.classes_[codes], n)
        voice.say(str(found))
        voice.result({
            "model": str(model),
            "data": samples.name,
            "rows": found.n_rows,
            "rules": [
                {"rule": rule.premise, "class": rule.label, "rows": rule.rows,
                 "right": rule.right, "unit": rule.unit, "decides": rule.decides}
                for rule in found
            ],
            "hidden": found.n_hidden,
        })  # fmt: skip

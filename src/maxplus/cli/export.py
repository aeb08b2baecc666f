"""``maxplus export``: a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxplus.cli._common import ModelArgument, plain_errors
from maxplus.cli._output import JsonOption, QuietOption, Voice
from maxplus.cli._trained import open_model


def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Argument(metavar="FILE", help="Where: a file that ends in .onnx.")],
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a model as ONNX, for any runtime.

    Example: maxplus export model.maxplus model.onnx
    """
    voice = Voice(as_json, quiet)
    with plain_errors(quiet):
        from maxplus.export import export_onnx

        if out.suffix.lower() != ".onnx":
            raise ValueError(f"{out} does not end in .onnx, the only format there is")
        export_onnx(open_model(model, classifier=False).estimator, out)
        voice.say(f"ONNX model: {out}")
        voice.result({"model": str(model), "onnx": str(out)})

"""``maxplus export``: write a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxplus.cli._common import ModelArgument, plain_errors
from maxplus.cli._console import Console, JsonOption, QuietOption
from maxplus.cli._model import open_model


def export(
    model: ModelArgument,
    out: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write; its name ends in .onnx.")
    ],
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a model in the ONNX format.

    Example: maxplus export model.maxplus model.onnx
    """
    console = Console(as_json, quiet)
    with plain_errors(quiet):
        from maxplus.export import export_onnx

        if out.suffix.lower() != ".onnx":
            raise ValueError(f"{out} does not end in .onnx, the only supported format")
        export_onnx(open_model(model, classifier=False).estimator, out)
        console.print(f"ONNX model: {out}")
        console.result({"model": str(model), "onnx": str(out)})

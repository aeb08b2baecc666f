"""``maxplus export``: write a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxplus.cli import _options as opt
from maxplus.cli._console import open_console
from maxplus.cli._model import open_model


def export(
    model: opt.Model,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The file to write; its name must end in .onnx.",
            callback=opt.check_output_file,
        ),
    ],
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Write a model in the ONNX format.

    Example: maxplus export model.maxplus model.onnx
    """
    with open_console(as_json, quiet) as console:
        from maxplus.export import export_onnx

        if out.suffix.lower() != ".onnx":
            raise ValueError(f"{out} does not end in .onnx, the only supported format")
        export_onnx(open_model(model, classifier=False), out)
        console.print(f"ONNX model: {out}")
        console.print_json({"model": str(model), "onnx": str(out)})

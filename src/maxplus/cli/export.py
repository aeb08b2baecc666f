"""``maxplus export``: a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxplus.cli._common import ModelArgument, open_model, plain_errors


def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Argument(metavar="FILE", help="Where: a file that ends in .onnx.")],
) -> None:
    """Write a model as ONNX, for any runtime.

    Example: maxplus export model.maxplus model.onnx
    """
    with plain_errors():
        from maxplus.export import export_onnx

        if out.suffix.lower() != ".onnx":
            raise ValueError(f"{out} does not end in .onnx, the only format there is")
        export_onnx(open_model(model).classifier, out)
        typer.echo(f"ONNX model: {out}")

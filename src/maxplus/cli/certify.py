"""``maxplus certify``: what small changes of the input cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxplus.cli._common import (
    DataArgument,
    ModelArgument,
    MoveCategoriesOption,
    RawUnitsOption,
    StrictOption,
    plain_errors,
    require_folder,
)
from maxplus.cli._output import JsonOption, QuietOption, Voice
from maxplus.cli._ranks import all_ranks, in_turns, require_file
from maxplus.cli._trained import UnknownLabels, held_words, open_model, sample_blocks

EPS = (0.0, 0.05, 0.1, 0.2, 0.3)


def certify(
    model: ModelArgument,
    data: DataArgument,
    eps: Annotated[
        list[float] | None,
        typer.Option(
            help="How far every feature may move; repeatable, 0, 0.05, 0.1, 0.2 and 0.3 by default."
        ),
    ] = None,
    raw_units: RawUnitsOption = False,
    move_categories: MoveCategoriesOption = False,
    radii: Annotated[
        bool,
        typer.Option(
            "--radii",
            help="Compute each row's radius, for the median and the least, in tables of more than "
            "100,000 rows as well, where that takes most of the time; by default in smaller ones.",
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw certified accuracy against ε to this file; none by default."),
    ] = None,
    strict: StrictOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Certified accuracy: rows that are right and provably stay right; larger than memory, too.

    Example: maxplus certify model.maxplus test.csv --eps 0.1 --eps 0.2
    """
    with all_ranks() as comm, plain_errors(quiet, speaks=comm.is_first):
        voice = Voice(as_json and comm.is_first, quiet or not comm.is_first)
        require_file(comm, data)
        if plot is not None:
            require_folder(plot, "--plot")
        from maxplus.cli._certifying import ROWS_WITH_RADII, Count, check_eps
        from maxplus.cli._show import plain_table

        trained = open_model(model)
        measure = trained.measure(raw_units, move_categories)
        steps = check_eps(eps or EPS)
        wants_radii = radii or plot is not None
        count = Count(trained, measure, steps, None if wants_radii else ROWS_WITH_RADII)
        blocks = sample_blocks(data, trained, labelled=True, strict=strict)
        unknown = UnknownLabels(trained, data, strict=strict)
        for _ in in_turns(comm, blocks, lambda samples: count.add(*unknown.known(samples))):
            pass
        unknown.settle(comm, voice)
        count.unite(comm)
        if not comm.is_first:
            return
        voice.say(f"ε and radii are in {measure.unit}{held_words(measure)}.")
        table = plain_table("ε", "certified accuracy")
        for step, share in zip(steps, count.shares, strict=True):
            table.add_row(f"{step:g}", f"{share:.2%}")
        voice.console.print(table)
        for line in count.sentences():
            voice.say(line)
        document = {"model": str(model), "data": data, **count.document()}
        document["rows_with_unknown_labels"] = unknown.n_unknown
        if plot is not None:
            from maxplus.plots import plot_certified_accuracy

            plot_certified_accuracy(count.radius, count.right, unit=measure.unit).savefig(plot)
            voice.say(f"Figure: {plot}")
            document["figure"] = str(plot)
        voice.result(document)

"""Command line of the experiments: ``python -m experiments``, from the root of the repository."""

from __future__ import annotations

from typing import Any

import typer

from experiments.bench import bench
from experiments.demo import demo
from experiments.run import run
from maxplus.cli._common import OneLineErrors, leave_to_first

DEFAULT = "run"


class DefaultCommand(OneLineErrors):
    """Commands of which ``run`` is the default: its name may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command before names and options that are not of the group."""
        if not args or args[0] not in (*self.commands, "--help"):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=DefaultCommand,
    help="Experiments: `python -m experiments NAME…` is `python -m experiments run NAME…`.",
    add_completion=False,
)
for command in (run, demo, bench):
    app.command()(command)


@app.callback()
def options() -> None:
    """Run on the first rank only."""
    leave_to_first()


def main() -> None:
    """Run the command line."""
    app(prog_name="python -m experiments")


if __name__ == "__main__":
    main()

"""Cell magic ``%%bash`` that prints the output of commands without colours."""

import os
import subprocess

from IPython import get_ipython
from IPython.core.magic import register_cell_magic

# Notebooks enable colours, which a page cannot show.
PLAIN = {name: value for name, value in os.environ.items() if "COLOR" not in name} | {
    "NO_COLOR": "1"
}


def bash(line: str, cell: str) -> None:
    """Run a cell in a shell and raise an error if a command fails."""
    done = subprocess.run(
        ["bash", "-e", "-c", cell],
        env=PLAIN,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    print("\n".join(text.rstrip() for text in done.stdout.splitlines()))


if get_ipython() is not None:
    register_cell_magic(bash)

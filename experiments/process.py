"""A function's result from a process of its own, whose memory and caches nobody else has used.

``python -m experiments.process`` reads what to call from its standard input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def child_environment(**variables: str) -> dict[str, str]:
    """Return the variables of a child process that imports `experiments` from any folder."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}


def in_a_process(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
) -> Any:
    """What ``function(**arguments)`` returns when a new Python calls it.

    Parameters
    ----------
    function : a module's own function
    arguments : mapping
        What JSON can hold; so must be the result.
    environment : mapping, optional
        Variables that the process finds besides those of this one.
    """
    asked = {"module": function.__module__, "name": function.__name__, "arguments": {**arguments}}
    done = subprocess.run(
        [sys.executable, "-m", "experiments.process"], input=json.dumps(asked), text=True,
        stdout=subprocess.PIPE, env=child_environment(**(environment or {})), check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{function.__name__}({arguments}) failed; its own words are above")
    return json.loads(done.stdout)


def main() -> None:
    """Call what is asked for; whatever else is printed goes to standard error."""
    asked = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):
        result = getattr(import_module(asked["module"]), asked["name"])(**asked["arguments"])
    print(json.dumps(result))


if __name__ == "__main__":
    main()

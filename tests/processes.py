"""Interpreters of their own, for what a process can do only once."""

import json
import subprocess
import sys


def run_fresh(code, *arguments):
    """What a new interpreter prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return json.loads(done.stdout)

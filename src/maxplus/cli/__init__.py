"""The command ``maxplus``. Heavy imports wait until a command runs, so that help is quick."""

from maxplus.cli.app import main

__all__ = ["main"]

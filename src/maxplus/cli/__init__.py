"""Command-line interface. Heavy imports are deferred until a command runs."""

from maxplus.cli.app import main

__all__ = ["main"]

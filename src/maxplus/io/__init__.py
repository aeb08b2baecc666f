"""Model files and training checkpoints."""

from maxplus.io.checkpoints import Checkpoint, resume
from maxplus.io.container import FileError
from maxplus.io.models import load, save

__all__ = ["Checkpoint", "FileError", "load", "resume", "save"]

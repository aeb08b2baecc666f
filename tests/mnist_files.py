"""Availability of MNIST's files, which `conftest.py` has looked for beside the project."""

import os

import pytest

HAS_MNIST = bool(os.environ.get("MAXPLUS_DATA"))
NO_MNIST = "MAXPLUS_DATA is not set: no MNIST files"
NEEDS_MNIST = pytest.mark.skipif(not HAS_MNIST, reason=NO_MNIST)

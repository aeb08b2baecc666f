"""Availability of the MNIST files, see `conftest.py`."""

import os

import pytest

HAS_MNIST = bool(os.environ.get("MAXPLUS_DATA"))
NO_MNIST = "MAXPLUS_DATA is not set"
NEEDS_MNIST = pytest.mark.skipif(not HAS_MNIST, reason=NO_MNIST)

"""Networks and classifiers for tests of exports."""

import numpy as np
import pytest
from hypothesis import strategies as st

from maxplus import SubgradientLMMClassifier
from maxplus.models import LMM
from strategies import DTYPES, SEEDS, SIZES, SIZES_OR_ZERO, grid_array

FLOATS = pytest.mark.parametrize("dtype", [np.float32, np.float64])
DATA = pytest.mark.parametrize("data", ["iris", "digits"])
MNIST = 784, 500, 10


def briefly_trained(X, y):
    """Return a classifier that was trained for a few iterations."""
    clf = SubgradientLMMClassifier(n_hidden=30, engine="dense", max_iter=20, random_state=0)
    return clf.fit(X, y)


def classifier(lmm, classes=None):
    """Return a classifier with these weights, as if it had been trained."""
    clf = SubgradientLMMClassifier(n_jobs=1)
    clf.model_ = lmm
    clf.classes_ = np.arange(lmm.n_classes) if classes is None else np.asarray(classes)
    clf.n_features_in_ = lmm.n_features
    return clf


def random_lmm(draw, P, H, C):
    return LMM(draw((2 * P,)), draw((2 * P, H)), draw((H, C)))


def normal_lmm(seed, shape, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return random_lmm(lambda s: rng.normal(size=s).astype(dtype), *shape)


@st.composite
def networks(draw):
    """Return a network and samples on a grid, where many terms are equal."""
    P, H, C = (draw(SIZES) for _ in range(3))
    rng, dtype = np.random.default_rng(draw(SEEDS)), draw(DTYPES)
    X = grid_array(rng, (draw(SIZES_OR_ZERO), P), dtype)
    return random_lmm(lambda s: grid_array(rng, s, dtype), P, H, C), X

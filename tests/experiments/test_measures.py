"""Measurements of experiments at a small scale."""

import os
import sys
from functools import partial
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from experiments import (
    Settings,
    first_use,
    long_run,
    measure,
    million,
    mnist,
    noise,
    products,
    sparsity,
    timing,
)
from experiments.comparison import Evaluation, TrainedModel
from experiments.measure import in_a_process
from maxplus.models import LinearMaxPlus
from maxplus.training.result import History, Signal
from mnist_files import NEEDS_MNIST
from processes import answered_here

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("right", "said"),
    [
        ((17, 18, 16), "from 80.00% to 90.00%: the paper's 88.75% lies within"),
        ((17, 16, 16), "from 80.00% to 85.00%: the paper's 88.75% lies above"),
        ((19, 18, 20), "from 90.00% to 100.00%: the paper's 88.75% lies below"),
        ((17,), None),
    ],
)
def test_mnist_main_model_has_all_seeds(right, said):
    """Twenty images are predicted, with a given number of correct labels for each seed."""
    labels = np.arange(20) % 10

    def trained(n):
        predicted = np.where(np.arange(20) < n, labels, 9 - labels)
        found = Evaluation(np.linspace(0.1, 1.5, 20), labels, predicted)
        return TrainedModel(found, found, 1.0, np.array([2.3, 1.5]))

    by_seed = [trained(n) for n in right]
    names = ("MLP (mean)", "LMM (mean)", mnist.AS_WRITTEN, mnist.LEVEL)
    models = {mnist.MAIN: by_seed[0], **{name: trained(15) for name in names}}
    result = mnist.describe(models, by_seed, 20, 2)
    assert [v["test_accuracy"] for v in result.values["seeds"]] == [n / 20 for n in right]
    if said is None:
        assert "seeds" not in result.text
        assert len(result.tables) == 3
    else:
        assert said in result.text
        assert [row[-1] for row in result.tables[-1].rows] == [f"{n / 20:.2%}" for n in right]


def test_sparsity_equals_mean_subgradient():
    rng = np.random.default_rng(0)
    X, y = rng.random((9, 6)) * (rng.random((9, 6)) < 0.5), rng.integers(3, size=9)
    model = LinearMaxPlus(rng.normal(size=(6, 4)), np.zeros(4), rng.normal(size=(4, 3)))
    gamma = sparsity.measure(model, X, y)
    assert gamma.of_mean == model.mean_subgradient(X, y).n_nonzero() / model.n_weights()
    single = [model.subgradient(x, int(label)).n_nonzero() for x, label in zip(X, y, strict=True)]
    assert gamma.of_single == pytest.approx(np.mean(single) / model.n_weights())


def test_measured_run_has_time_and_memory(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).random((40, 5)))
    np.save(tmp_path / "y.npy", np.arange(40) % 10)
    result = timing.measure_run(str(tmp_path), "dense", 30, 12, 1, 3)
    assert result["polyak"] > 0
    assert result["constant"] > 0
    assert 1e7 < result["peak"] < 1e11


def test_largest_tree_fits_into_limit():
    sizes = timing.FULL
    assert timing.tree_bytes(sizes.common, sizes.n_hidden) <= timing.TREE_LIMIT
    assert timing.tree_bytes(sizes.common + 1, sizes.n_hidden) > timing.TREE_LIMIT


def test_flip_labels_changes_the_given_share():
    y = np.random.default_rng(0).integers(4, size=400)
    noisy, flipped = noise.flip_labels(y, 0.05, np.random.default_rng(1))
    assert np.array_equal(np.flatnonzero(noisy != y), np.sort(flipped))
    assert flipped.size == 20
    assert set(np.unique(noisy)) == {0, 1, 2, 3}


def test_first_use_measures_cpu_time_with_an_empty_cache(monkeypatch):
    monkeypatch.setattr(
        first_use,
        "CASES",
        {"cache": ("import os", "assert not os.listdir(os.environ['NUMBA_CACHE_DIR'])")},
    )
    found = first_use.run(Settings(quick=True))
    assert 0 < found.values["seconds"]["cache"][0] < 1
    assert found.tables[0].rows[0][0] == "cache"


@NEEDS_MNIST
def test_long_run_and_million_at_small_scale(monkeypatch):
    monkeypatch.setattr(long_run, "in_a_process", answered_here)
    monkeypatch.setattr(long_run, "QUICK", {"images": 60, "iterations": 40, "every": 20})
    found = long_run.run(Settings(quick=True))
    assert len(found.values["run"]["parts"]) == 2
    monkeypatch.setattr(million, "QUICK", {"samples": 80, "iterations": 10})
    found = million.run(Settings(quick=True))
    assert found.values["samples"] == 80
    assert found.values["polyak"] > 0


def test_enlarged_images_are_multiples_of_grey_levels():
    rng = np.random.default_rng(0)
    X, y = np.zeros((2, 784), np.float32), np.array([3, 5])
    X[0, 28 * 14 + 14], X[1, 28 * 7 + 7] = 1.0, 0.5
    images, labels = million.enlarge(X, y, 50, rng)
    assert set(labels) == {3, 5}
    np.testing.assert_allclose(255 * images, np.rint(255 * images), atol=1e-4)
    # Each image has one pixel, whose brightness depends on the label.
    assert (np.count_nonzero(images, axis=1) == 1).all()
    assert np.array_equal(images.max(axis=1) > 0.75, labels == 3)


def stand_in(error=0.0):
    """Return a NumPy implementation of tropical-gemm, optionally with an error."""
    return SimpleNamespace(
        minplus_matmul_2d=partial(products.numpy_product, np.min, 3),
        maxplus_matmul_2d=lambda A, B: products.numpy_product(np.max, 3, A, B) + error,
    )


def test_products_are_compared_and_timed(monkeypatch):
    monkeypatch.setitem(sys.modules, "tropical_gemm", stand_in())
    monkeypatch.setattr(products, "QUICK_SHAPE", (9, 5, 4))
    monkeypatch.setattr(products, "QUICK_ROUNDS", 3)
    monkeypatch.setattr(
        products, "in_a_process", lambda measure, sizes, environment: measure(**sizes)
    )
    threads = numba.get_num_threads()
    found = products.run(Settings(quick=True)).values
    timings = found["timings"]
    assert numba.get_num_threads() == threads
    assert {row["case"] for row in timings} == {"min-plus", "max-plus"}
    for row in timings:
        own = [t for t in timings if (t["case"], t["contender"]) == (row["case"], products.OURS)]
        assert len(row["seconds"]) == 3
        assert row["median"] == sorted(row["seconds"])[1]
        assert row["ratio"] == row["median"] / own[0]["median"]
        assert row["first"] > 0
    expected = {row["contender"]: row["ratio"] for row in timings if row["case"] == "min-plus"}
    assert found["ratios"] == {name: expected[name] for name in products.COMPARED}
    monkeypatch.setitem(sys.modules, "tropical_gemm", stand_in(np.float32(1e-6)))
    with pytest.raises(AssertionError, match=products.TROPICAL_GEMM):
        products.measure((9, 5, 4), 1)


def test_in_a_process_returns_result_and_raises_errors():
    assert in_a_process(measure.cpu_model, {}) == measure.cpu_model()
    assert in_a_process(os.getenv, {"key": "GIVEN"}, {"GIVEN": "yes"}) == "yes"
    assert in_a_process(os.getpid, {}) != os.getpid()
    with pytest.raises(TypeError, match="nonsense"):
        in_a_process(measure.cpu_model, {"nonsense": 1})


class Clockwork:
    """Engine that counts iterations and can end early."""

    def __init__(self, last=None):
        self.done, self.last = 0, last

    def advance(self, block):
        for _ in range(block.loss.size):
            self.done += 1
            if self.done == self.last:
                block.end(0.0, 0, Signal.TARGET)
                return
            block.record(1.0, 0, 0.1)


def test_seconds_per_iteration_limits():
    engine, history = Clockwork(), History()
    assert measure.seconds_per_iteration(engine, 2_345, history) > 0
    assert engine.done == history["loss"].size == 2_345
    engine = Clockwork(last=17)
    assert measure.seconds_per_iteration(engine, 1_000) > 0
    assert engine.done == 17


def test_machine_facts_have_versions():
    facts = measure.machine_facts("no-such-package")
    assert facts["numpy"] == np.__version__
    assert facts["cpu"]
    assert "no-such-package" not in facts

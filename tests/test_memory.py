"""Memory estimates, and errors before the allocation of what does not fit."""

import numpy as np
import pytest

from maxplus import (
    LinearMaxPlusClassifier,
    LipschitzInterpolator,
    LMMClassifier,
    SubgradientLMMClassifier,
)
from maxplus.models import LMM, initialization
from maxplus.models.initialization import (
    box_lmm,
    box_lmm_bytes,
    prototype_lmm,
    prototype_lmm_bytes,
    random_lmm,
    random_lmm_bytes,
)
from maxplus.training import TrainingMonitor, TrainingProblem, memory
from maxplus.training.engines import SparseEngine
from maxplus.training.stages import Annealing, WarmUp
from memory_used import most_memory


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    y = np.arange(900) % 3
    return rng.normal(size=(900, 40)) + y[:, None], y


@pytest.fixture(scope="module")
def units(blobs):
    X, y = blobs
    return box_lmm(X, y, 300, 3, 1.0, 15.0, np.random.default_rng(0))


def test_warm_up_takes_about_the_memory_it_declares(blobs, units):
    stage = WarmUp(Annealing(15.0, n_epochs=3, batch_size=100))
    problem = TrainingProblem(*blobs, rng=np.random.default_rng(0))
    needed = stage.bytes_needed(units, problem)
    with TrainingMonitor() as monitor:
        monitor.begin(stage.name, is_last=True)
        stage.run(units, problem, monitor)  # compiled
        taken = most_memory(lambda: stage.run(units, problem, monitor))
    assert 0.7 * needed < taken < 1.2 * needed


def test_documented_memory_formula_matches_the_sparse_engine():
    """The formula of docs/guide/distributed.md, without the libraries."""
    n, P, H, C = 100_000, 784, 500, 10
    model = LMM(np.zeros(2 * P, "f"), np.zeros((2 * P, H), "f"), np.zeros((H, C), "f"))
    # All elements share the memory of one number.
    X = np.broadcast_to(np.zeros(1, "f"), (n, P))
    needed = X.nbytes + SparseEngine.bytes_needed(model, TrainingProblem(X, np.arange(n) % C))
    assert needed == pytest.approx(n * (8 * P + 12 * H + 20 * C), rel=0.1)


SHAPE = (40, 300, 3)
STARTS = {
    "boxes": (
        lambda X, y, rng: box_lmm(X, y, 300, 3, 1.0, 15.0, rng),
        lambda X, y: box_lmm_bytes(X, y, 300, 3),
    ),
    "pyramids": (
        lambda X, y, rng: prototype_lmm(X, y, 3, 1.0, 1.0),
        lambda X, y: prototype_lmm_bytes(*X.shape, 3, X.dtype),
    ),
    "random": (
        lambda X, y, rng: random_lmm("gaussian", SHAPE, 1.0, 1.0, X.dtype, rng),
        lambda X, y: random_lmm_bytes(SHAPE, X.dtype),
    ),
}


@pytest.mark.parametrize(("make", "estimate"), STARTS.values(), ids=STARTS)
def test_initialization_memory_matches_its_estimate(blobs, make, estimate):
    needed = estimate(*blobs)
    make(*blobs, np.random.default_rng(0))  # compiled
    taken = most_memory(lambda: make(*blobs, np.random.default_rng(0)))
    assert 0.5 * needed < taken < 1.3 * needed


TOO_LARGE = {
    "pyramids": SubgradientLMMClassifier(900, engine="dense"),
    "random weights": SubgradientLMMClassifier(10**7, init="gaussian", engine="dense"),
    "linear weights": LinearMaxPlusClassifier(10**7),
    "points": LipschitzInterpolator(),
    "boxes": LMMClassifier(10**7, slope=1.0),
    "warm-up": LMMClassifier(300, slope=1.0, batch_size=900),
}


@pytest.mark.parametrize(("name", "model"), TOO_LARGE.items(), ids=TOO_LARGE)
def test_fit_rejects_too_large_problem_before_allocation(blobs, name, model, monkeypatch):
    available, needs = 1_000_000, ""
    if name == "boxes":
        needs = r"n_hidden=10,000,000 needs \d+\.\d MB"
        # The error is raised before the clustering.
        monkeypatch.setattr(initialization, "KMeans", None)
    elif name == "warm-up":
        available, needs = box_lmm_bytes(*blobs, 300, 3), "the warm-up needs .* MB"
    monkeypatch.setattr(memory, "available_bytes", lambda: available)
    with pytest.raises(memory.NotEnoughMemoryError, match=needs or "needs .* MB") as caught:
        model.fit(*blobs)
    assert f"only {memory.human_bytes(available)} is available; use fewer" in str(caught.value)


def test_box_initialization_limits_units_by_clustered_samples(blobs, monkeypatch):
    X, y = blobs
    monkeypatch.setattr(initialization, "MAX_SAMPLES", 5)
    assert box_lmm(X, y, 40, 3, 1.0, 15.0, np.random.default_rng(0)).n_hidden == 15


V1 = ("memory/", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = ("", "memory.max", "memory.current", "inactive_file")


@pytest.fixture(params=[V1, V2], ids=["version 1", "version 2"])
def groups(request, tmp_path):
    """Return a function that writes the files of a control group; the process is in /a/b."""
    top, limit, used, idle = request.param

    def write(path, most, taken, unused=None):
        folder = tmp_path / "sys/fs/cgroup" / top / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / limit).write_text(f"{most}\n")
        (folder / used).write_text(f"{taken}\n")
        if unused is not None:
            (folder / "memory.stat").write_text(f"anon 1\n{idle} {unused}\nfile 2\n")

    (tmp_path / "proc/self").mkdir(parents=True)
    lines = ["3:cpu:/elsewhere", "2:memory,hugetlb:/a/b"] if top else ["0::/a/b"]
    (tmp_path / "proc/self/cgroup").write_text("\n".join(lines))
    return write


def test_available_memory_respects_cgroup_limits(tmp_path, groups):
    assert memory._cgroup(tmp_path / "no files") is None
    assert memory._cgroup(tmp_path) is None
    groups("", "max", 100)
    assert memory._cgroup(tmp_path) is None
    # Inside a container, the group is at the top.
    groups("", 5000, 1000)
    assert memory._cgroup(tmp_path) == 4000
    # Inactive file pages count as free.
    groups("", 5000, 1000, 600)
    assert memory._cgroup(tmp_path) == 4600
    # The smallest limit of the group and its parents applies.
    groups("a", 3000, 500)
    groups("a/b", 9000, 500)
    groups("a/c", 1, 1)
    assert memory._cgroup(tmp_path) == 2500
    groups("a/b", 500, 700)
    assert memory._cgroup(tmp_path) == 0


def test_available_memory_without_proc_is_total_memory(monkeypatch):
    def unknown(name):
        raise ValueError(f"unrecognized configuration name {name}")

    for source in ("_meminfo", "_cgroup"):
        monkeypatch.setattr(memory, source, lambda: None)
    sizes = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", sizes.__getitem__, raising=False)
    assert memory.available_bytes() == 4_096_000
    monkeypatch.setattr(memory.os, "sysconf", unknown)
    assert memory.available_bytes() is None
    memory.require(10**30, "everything", "nothing")  # no limit is known


def test_available_memory_is_the_smallest_limit(monkeypatch):
    monkeypatch.setattr(memory, "_meminfo", lambda: 5000)
    for limit, available in ((None, 5000), (3000, 3000), (9000, 5000)):
        monkeypatch.setattr(memory, "_cgroup", lambda limit=limit: limit)
        assert memory.available_bytes() == available
    monkeypatch.setattr(memory, "_meminfo", lambda: None)
    assert memory.available_bytes() == 9000


@pytest.mark.parametrize("text", ["MemTotal: 5 kB\n", "MemAvailable:\n", "MemAvailable: much kB\n"])
def test_available_memory_may_be_unknown(monkeypatch, text):
    monkeypatch.setattr(memory.Path, "read_text", lambda path: text)
    assert memory._meminfo() is None


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (491.2e9, "491.2 GB"), (3.76e14, "376.0 TB")],
)
def test_memory_sizes_are_human_readable(n, text):
    assert memory.human_bytes(n) == text

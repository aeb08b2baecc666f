"""Compilation of kernels: the disk cache, linking, threads, and a Numba with other internals."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import caching
from numpy.testing import assert_allclose

import maxplus
from maxplus._compile import aligned
from maxplus._compile.elementary import exp64, log64
from maxplus._compile.jit import njit, warn_uncached
from maxplus._compile.linking import require
from maxplus.certify import certified_radius
from maxplus.explain import decisive_paths, nearest_counterfactuals

SOURCE = """
from numba import prange
from maxplus._compile.jit import inner, njit
from maxplus._compile.intrinsics import use_widest_vectors

@njit(cache=True)
def double(x):
    return 2 * x

@njit(cache=True)
def double_all(x, out):
    for i in range(x.size):
        out[i] = double(x[i])

@njit(cache=True, parallel=True)
def double_apart(x, out):
    for i in prange(x.size):
        out[i] = double(x[i])

@inner
def halved(x):
    use_widest_vectors()
    for i in range(x.size):
        x[i] /= 2

@njit(cache=True)
def halve(x):
    halved(x)
"""


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Return the kernel as a new process would have it."""
    path = tmp_path / "kernels.py"
    path.write_text(SOURCE)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))

    def fresh(name="double"):
        spec = importlib.util.spec_from_file_location("kernels", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)

    return fresh


@pytest.fixture
def warned(monkeypatch):
    """Reset the warning that is given once per process."""
    warn_uncached.cache_clear()
    yield
    warn_uncached.cache_clear()


def kept(tmp_path, ending):
    return sorted((tmp_path / "cache").rglob(f"*.{ending}"))


def assert_works(double):
    assert double(3) == 6
    assert double(1.5) == 3.0
    assert np.array_equal(double(np.arange(3.0)), [0.0, 2.0, 4.0])


def hits(double):
    return sum(double.stats.cache_hits.values())


def test_cache_compiles_each_signature_once(fresh, tmp_path):
    assert_works(fresh())
    again = fresh()
    assert_works(again)
    assert hits(again) == 3
    assert len(kept(tmp_path, "nbi")) == 1
    assert len(kept(tmp_path, "nbc")) == 3


def test_linked_callee_has_no_machine_code_of_its_own(fresh, tmp_path):
    whole, out = fresh("double_all"), np.empty(3)
    whole(np.arange(3.0), out)
    assert np.array_equal(out, [0.0, 2.0, 4.0])
    part = whole.py_func.__globals__["double"]
    assert not part.signatures
    assert [path.name.split("-")[0] for path in kept(tmp_path, "nbc")] == ["kernels.double_all"]
    # Called from Python, it is.
    assert_works(part)
    again = fresh("double_all")
    again(np.arange(3.0), out)
    assert hits(again) == 1


def test_wide_vector_loops_are_vectorised_before_inlining(fresh):
    """The width belongs to a function: elsewhere the loop would get the usual one."""
    halve, x = fresh("halve"), np.arange(100.0)
    halve(x)
    assert np.array_equal(x, np.arange(100.0) / 2)
    part = halve.py_func.__globals__["halved"]
    (compiled,) = part.overloads.values()
    assert compiled.library.has_wide_vectors
    assert " x double>" in str(compiled.library._final_module)


@pytest.mark.slow
def test_parallel_kernel_has_a_serial_version(fresh, tmp_path):
    kernel, x = fresh("double_apart"), np.arange(5.0)
    for twin in (kernel, kernel.serial):
        out = np.empty(5)
        twin(x, out)
        assert np.array_equal(out, 2 * x)
    # Each finds its own machine code in a later process.
    assert len(kept(tmp_path, "nbi")) == 2
    again = fresh("double_apart")
    again.serial(x, out)
    assert hits(again.serial) == hits(again.__wrapped__) + 1 == 1
    again(x, out)
    assert hits(again.__wrapped__) == 1


@pytest.mark.slow
def test_serial_and_parallel_kernels_give_the_same_results(fitted, iris, monkeypatch):
    """Few rows are a serial kernel's, many its parallel twin's."""
    model, X = fitted.model_, iris.X[::5]

    def results():
        flips = nearest_counterfactuals(model, X)
        paths = decisive_paths(model, X)
        return (model.scores(X), model.wins(X), certified_radius(model, X), *flips, *paths)

    few = results()
    for place in ("certify.margins", "explain.boundary", "models._lmm_kernels"):
        monkeypatch.setattr(f"maxplus.{place}.PARALLEL_FROM", 0)
    for one, other in zip(few, results(), strict=True):
        assert np.array_equal(one, other, equal_nan=True)


def test_cache_is_safe_for_concurrent_writers(fresh, monkeypatch):
    first, second = fresh(), fresh()
    files = first._cache._cache_file
    save = files._save_data

    def late(name, data):
        # The second one looked into the index before there was one, and is quicker.
        monkeypatch.setattr(second._cache._cache_file, "_load_index", dict)
        assert np.array_equal(second(np.arange(3.0)), [0.0, 2.0, 4.0])
        save(name, data)

    monkeypatch.setattr(files, "_save_data", late)
    assert first(3) == 6
    assert_works(fresh())


@pytest.mark.parametrize("ending", ["nbc", "nbi"])
@pytest.mark.parametrize("damage", [b"", b"junk", None])
def test_cache_recompiles_damaged_entries(fresh, tmp_path, ending, damage):
    assert_works(fresh())
    for path in kept(tmp_path, ending):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] if damage is None else damage)
    again = fresh()
    assert_works(again)
    assert hits(again) == 0
    later = fresh()
    assert_works(later)
    assert hits(later) == 3


def test_cache_ignores_an_entry_for_other_arguments(fresh, tmp_path):
    assert_works(fresh())
    one, two, three = kept(tmp_path, "nbc")
    contents = [path.read_bytes() for path in (one, two, three)]
    for path, content in zip((two, three, one), contents, strict=True):
        path.write_bytes(content)
    assert_works(fresh())


def test_kernels_work_without_a_writable_cache_folder(fresh, monkeypatch, warned):
    monkeypatch.setattr(caching.FunctionCache._impl_class, "_locator_classes", [])
    with pytest.warns(
        RuntimeWarning, match=r"every process compiles its own.*NUMBA_CACHE_DIR"
    ) as w:
        assert [fresh()(3) for _ in range(2)] == [6, 6]
    assert len(w) == 1
    assert "\n" not in str(w[0].message)


def test_kernels_work_when_the_disk_is_full(fresh, monkeypatch, warned):
    def full(self, name, data):
        raise OSError("no space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_data", full)
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR") as w:
        assert_works(fresh())
    assert len(w) == 1


def test_kernels_work_when_the_disk_is_full_and_the_index_damaged(
    fresh, tmp_path, monkeypatch, warned
):
    assert_works(fresh())
    for path in kept(tmp_path, "nbi"):
        path.write_bytes(b"junk")

    def full(self, overloads):
        raise OSError("no space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_index", full)
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):
        assert_works(fresh())


NOWHERE = """
from numba.core import caching
caching.FunctionCache._impl_class._locator_classes = []
import maxplus
maxplus.LMMClassifier, maxplus.algebra, maxplus.explain, maxplus.certify
"""


def test_import_works_without_a_writable_cache_folder():
    done = subprocess.run(
        [sys.executable, "-c", NOWHERE], capture_output=True, text=True, check=True
    )
    assert done.stderr.count("NUMBA_CACHE_DIR") == 1


IN_THREADS = """
import threading
import numba
import numpy as np
from maxplus.algebra import minplus
from maxplus.algebra._kernels import PARALLEL_FROM
A, B = np.eye(200), np.eye(200)
assert A.size * len(B) >= PARALLEL_FROM
products = []
def work():
    for _ in range(30):
        products.append(minplus(A, B))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert all((C == products[0]).all() for C in products)
print(numba.threading_layer(), len(products))
"""


def test_workqueue_threads_serve_one_call_at_a_time():
    """Without a lock, Numba ends the process: "Concurrent access has been detected"."""
    done = subprocess.run(
        [sys.executable, "-c", IN_THREADS],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NUMBA_THREADING_LAYER": "workqueue", "NUMBA_NUM_THREADS": "2"},
    )
    assert (done.returncode, done.stdout) == (0, "workqueue 120\n"), done.stderr


AFTER_A_FORK = """
import multiprocessing
import numba
import numpy as np
from maxplus.algebra import minplus
A, B = np.random.default_rng(0).random((2, 200, 200))
C = minplus(A, B)
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        again = pool.apply_async(minplus, (A, B)).get(60)
    assert np.array_equal(again, C)
    print(numba.threading_layer())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_computes_the_same():
    """OpenMP ends a forked process that uses its parent's threads, and the pool would hang."""
    done = subprocess.run(
        [sys.executable, "-c", AFTER_A_FORK],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NUMBA_NUM_THREADS": "2"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("omp", "tbb", "workqueue")


RESULTS = """
import hashlib, json, sys
if sys.argv[1] == "hide":
    from numba.core import codegen
    del codegen.JITCodeLibrary
import numpy as np
import maxplus
from maxplus._compile import jit
assert jit.HAS_NUMBA_INTERNALS == (sys.argv[1] != "hide")
rng = np.random.default_rng(0)
y = np.arange(60) % 3
X = rng.normal(size=(60, 2)) + 2.0 * rng.normal(size=(3, 2))[y]

def digest(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()

results = {}
for engine in ("dense", "sparse"):
    options = {"max_iter": 30, "random_state": 0, "engine": engine}
    clf = maxplus.SubgradientLMMClassifier(6, **options).fit(X, y)
    results[engine] = digest(clf.W0_, clf.W1_, clf.W2_)
clf = maxplus.LMMClassifier(random_state=0).fit(X, y)
results["default"] = digest(clf.decision_function(X))
results["certificate"] = digest(clf.certified_radius(X))
print(json.dumps(results))
"""


@pytest.mark.slow
def test_plain_njit_gives_the_same_results_where_numba_internals_are_missing(tmp_path):
    def run(mode, **environment):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", RESULTS, mode],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **environment},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    expected, message = run("keep")
    assert "numba.njit" not in message
    hidden, message = run("hide", NUMBA_CACHE_DIR=str(tmp_path))
    assert message.count("compiles its kernels with plain numba.njit") == 1
    assert hidden == expected
    # Numba's own cache is used.
    assert list(tmp_path.rglob("*.nbc"))


def test_require_names_missing_attributes_of_a_private_class():
    require(dict, "get", "keys")
    with pytest.raises(ImportError, match="dict of this Numba has no find, _index"):
        require(dict, "get", "find", "_index")


def test_only_the_package_compile_imports_private_parts_of_numba():
    root = Path(maxplus.__file__).parent
    # Numba documents its event API.
    allowed = {root / "training" / "monitor.py"}
    pattern = re.compile(r"^\s*(?:from|import) (?:numba\.(?:core|np)|llvmlite)", re.MULTILINE)
    found = {path for path in root.rglob("*.py") if pattern.search(path.read_text("utf-8"))}
    assert {path for path in found if path.parent.name != "_compile"} == allowed


# -- aligned arrays --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int8])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (0, 4), (2, 300, 77), ()])
def test_aligned_arrays_begin_at_a_cache_line(shape, dtype):
    arrays = [aligned.empty(shape, dtype) for _ in range(5)]
    for array in arrays:
        assert array.size == 0 or array.ctypes.data % 64 == 0
        assert (array.shape, array.dtype) == (np.empty(shape).shape, dtype)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.flags.aligned
        assert array.base.nbytes == aligned.count_bytes(array.shape, dtype)
    for k, array in enumerate(arrays):
        array[...] = k
    assert all((array == k).all() for k, array in enumerate(arrays))


# -- elementary functions --------------------------------------------------------------------------


FLAGS = [False, {"reassoc", "contract", "arcp", "nsz"}]


@pytest.mark.parametrize("fastmath", FLAGS)
def test_exp64_agrees_with_numpy_whatever_flags_the_caller_has(fastmath):
    @njit(fastmath=fastmath)
    def apply(x, y):
        for i in range(x.size):
            y[i] = exp64(x[i])

    x = np.concatenate([np.linspace(-700.0, 700.0, 20_001), np.linspace(-1.0, 1.0, 20_001), [0.0]])
    y = np.empty_like(x)
    apply(x, y)
    assert_allclose(y, np.exp(x), rtol=3e-14)
    assert y[-1] == 1.0


@pytest.mark.parametrize("fastmath", FLAGS)
def test_log64_agrees_with_numpy_whatever_flags_the_caller_has(fastmath):
    @njit(fastmath=fastmath)
    def apply(x, y):
        for i in range(x.size):
            y[i] = log64(x[i])

    x = np.concatenate([np.geomspace(1e-300, 1e300, 20_001), np.linspace(0.5, 2.0, 20_001), [1.0]])
    y = np.empty_like(x)
    apply(x, y)
    assert_allclose(y, np.log(x), rtol=1e-15, atol=1e-15)
    assert y[-1] == 0.0

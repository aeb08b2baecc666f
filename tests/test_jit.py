"""Compilation of kernels: the disk cache, linking, threads, and a Numba with other internals."""

import gc
import importlib.util
import json
import os
import re
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import caching, event
from numpy.testing import assert_allclose

import maxplus
from maxplus._compile.elementary import exp32, exp64, log64
from maxplus._compile.jit import njit, warn_uncached
from maxplus._compile.linking import require
from maxplus.certify import certified_radius
from maxplus.explain import active_paths, nearest_counterfactuals
from processes import run_python

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
def double_parallel(x, out):
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
    """Return a function that imports a kernel as a new process does."""
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
def reset_warning(monkeypatch):
    """Reset the warning, which is issued once per process."""
    warn_uncached.cache_clear()
    yield
    warn_uncached.cache_clear()


def cached_files(tmp_path, suffix):
    return sorted((tmp_path / "cache").rglob(f"*.{suffix}"))


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
    assert len(cached_files(tmp_path, "nbi")) == 1
    assert len(cached_files(tmp_path, "nbc")) == 3


def test_linked_callee_has_no_machine_code_of_its_own(fresh, tmp_path):
    whole, out = fresh("double_all"), np.empty(3)
    whole(np.arange(3.0), out)
    assert np.array_equal(out, [0.0, 2.0, 4.0])
    part = whole.py_func.__globals__["double"]
    assert not part.signatures
    (cached,) = cached_files(tmp_path, "nbc")
    assert cached.name.split("-")[0] == "kernels.double_all"
    # It is compiled when it is called from Python.
    assert_works(part)
    again = fresh("double_all")
    again(np.arange(3.0), out)
    assert hits(again) == 1


def test_wide_vector_loops_are_vectorised_before_inlining(fresh):
    halve, x = fresh("halve"), np.arange(100.0)
    halve(x)
    assert np.array_equal(x, np.arange(100.0) / 2)
    part = halve.py_func.__globals__["halved"]
    (compiled,) = part.overloads.values()
    assert compiled.library.has_wide_vectors
    assert " x double>" in str(compiled.library._final_module)


@pytest.mark.slow
def test_parallel_kernel_has_a_serial_version(fresh, tmp_path):
    kernel, x = fresh("double_parallel"), np.arange(5.0)
    for variant in (kernel, kernel.serial):
        out = np.empty(5)
        variant(x, out)
        assert np.array_equal(out, 2 * x)
    # Both are cached separately.
    assert len(cached_files(tmp_path, "nbi")) == 2
    again = fresh("double_parallel")
    again.serial(x, out)
    assert hits(again.serial) == hits(again.__wrapped__) + 1 == 1
    again(x, out)
    assert hits(again.__wrapped__) == 1


@pytest.mark.slow
def test_serial_and_parallel_kernels_give_the_same_results(fitted, iris, monkeypatch):
    model, X = fitted.model_, iris.X[::5]

    def results():
        flips = nearest_counterfactuals(model, X)
        paths = active_paths(model, X)
        return (
            model.scores(X),
            model.activation_counts(X),
            certified_radius(model, X),
            *flips,
            *paths,
        )

    few = results()
    for place in ("certify.margins", "explain.boundary", "models._lmm_kernels"):
        monkeypatch.setattr(f"maxplus.{place}.PARALLEL_FROM", 0)
    for one, other in zip(few, results(), strict=True):
        assert np.array_equal(one, other, equal_nan=True)


def test_garbage_collection_is_paused_while_kernels_are_compiled(fresh):
    seen = []

    class Listener(event.Listener):
        def on_start(self, event):
            seen.append(gc.isenabled())

        def on_end(self, event):
            pass

    with event.install_listener("numba:compile", Listener()):
        fresh()(1.0)
    assert seen == [False]
    assert gc.isenabled()


def test_cache_is_safe_for_concurrent_writers(fresh, monkeypatch):
    first, second = fresh(), fresh()
    files = first._cache._cache_file
    save = files._save_data

    def late(name, data):
        # The second kernel has read the index before it existed, and writes it first.
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
    for path in cached_files(tmp_path, ending):
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
    one, two, three = cached_files(tmp_path, "nbc")
    contents = [path.read_bytes() for path in (one, two, three)]
    for path, content in zip((two, three, one), contents, strict=True):
        path.write_bytes(content)
    assert_works(fresh())


def test_kernels_work_without_a_writable_cache_folder(fresh, monkeypatch, reset_warning):
    monkeypatch.setattr(caching.FunctionCache._impl_class, "_locator_classes", [])
    with pytest.warns(
        RuntimeWarning, match=r"every process compiles its own.*NUMBA_CACHE_DIR"
    ) as w:
        assert [fresh()(3) for _ in range(2)] == [6, 6]
    assert len(w) == 1
    assert "\n" not in str(w[0].message)


@pytest.mark.parametrize("is_index_damaged", [False, True])
def test_kernels_work_when_the_disk_is_full(
    fresh, tmp_path, monkeypatch, reset_warning, is_index_damaged
):
    def full(self, *args):
        raise OSError("no space left on device")

    if is_index_damaged:
        assert_works(fresh())
        for path in cached_files(tmp_path, "nbi"):
            path.write_bytes(b"junk")
    method = "_save_index" if is_index_damaged else "_save_data"
    monkeypatch.setattr(caching.IndexDataCacheFile, method, full)
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR") as w:
        assert_works(fresh())
    assert len(w) == 1


NO_CACHE_FOLDER = """
from numba.core import caching
caching.FunctionCache._impl_class._locator_classes = []
import maxplus
maxplus.LMMClassifier, maxplus.algebra, maxplus.explain, maxplus.certify
"""


@pytest.mark.slow
def test_import_works_without_a_writable_cache_folder():
    assert run_python(NO_CACHE_FOLDER).stderr.count("NUMBA_CACHE_DIR") == 1


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
    """Without a lock, Numba terminates the process: "Concurrent access has been detected"."""
    done = run_python(IN_THREADS, NUMBA_THREADING_LAYER="workqueue", NUMBA_NUM_THREADS="2")
    assert done.stdout == "workqueue 120\n"


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
    """OpenMP terminates a forked process that uses the threads of its parent."""
    done = run_python(AFTER_A_FORK, NUMBA_NUM_THREADS="2")
    assert done.stdout.strip() in ("omp", "tbb", "workqueue")


RESULTS = """
import hashlib, json, sys, warnings
warnings.simplefilter("ignore")
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
        done = run_python(RESULTS, mode, timeout=1200, **environment)
        return json.loads(done.stdout), done.stderr

    expected, message = run("keep")
    assert "numba.njit" not in message
    # Later test runs use the same folder, because compilation takes half a minute.
    folder = Path(os.environ.get("NUMBA_CACHE_DIR", tmp_path)) / "plain"
    hidden, message = run("hide", NUMBA_CACHE_DIR=str(folder))
    assert message.count("compiles its kernels with plain numba.njit") == 1
    assert hidden == expected
    # The cache of Numba is used.
    assert list(folder.rglob("*.nbc"))


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


# -- elementary functions --------------------------------------------------------------------------


def exponent_limits():
    """Return float32 numbers on both sides of each change of the power of two."""
    halves = np.arange(-251, 252) * np.float32(np.log(2) / 2)
    halves = halves[abs(halves) < 86.9]
    return [np.nextafter(halves, side, dtype=np.float32) for side in (-np.inf, np.inf)]


SMALL = np.geomspace(1e-30, 1, 1000)
RANGES = {
    exp32: np.concatenate(
        [np.linspace(-87, 87, 2_000_001), SMALL, -SMALL, [0], *exponent_limits()]
    ),
    exp64: np.concatenate([np.linspace(-700, 700, 20_001), np.linspace(-1, 1, 20_001), [0]]),
    log64: np.concatenate([np.geomspace(1e-300, 1e300, 20_001), np.linspace(0.5, 2, 20_001), [1]]),
}


FLAGS = {"reassoc", "contract", "arcp", "nsz"}


@pytest.mark.parametrize(
    ("function", "expected", "rtol", "atol", "fastmath"),
    [
        (exp32, np.exp, 3e-7, 0.0, False),
        *((exp64, np.exp, 3e-14, 0.0, flags) for flags in (False, FLAGS)),
        *((log64, np.log, 1e-15, 1e-15, flags) for flags in (False, FLAGS)),
    ],
)
def test_elementary_functions_agree_with_numpy(function, expected, rtol, atol, fastmath):
    @njit(fastmath=fastmath)
    def apply(x, y):
        for i in range(x.size):
            y[i] = function(x[i])

    x = RANGES[function].astype(np.float32 if function is exp32 else np.float64)
    y = np.empty_like(x)
    apply(x, y)
    assert_allclose(y, expected(x.astype(np.float64)), rtol=rtol, atol=atol)
    exact = x == (1.0 if function is log64 else 0.0)
    assert (y[exact] == expected(x[exact])).all()

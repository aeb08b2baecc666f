"""The package as a whole: lazy imports, public names, and the dependency rule."""

import ast
import re
from pathlib import Path

import pytest

import maxplus
from processes import run_fresh

SOURCE = Path(maxplus.__file__).parent
ROOT = Path(__file__).parents[1]
# Layers that each layer may import, besides itself, the compilation of kernels and atomic writes.
EVERYWHERE = {"_compile", "_files", "__version__"}
BELOW = {
    "algebra": set(),
    "datasets": set(),
    "tables": {"datasets", "distributed", "training", "explain"},
    "trees": {"algebra"},
    "models": {"algebra", "trees"},
    "distributed": set(),
    "training": {"algebra", "trees", "models", "distributed"},
    "certify": {"algebra", "models"},
    "explain": {"models", "certify"},
    "estimators": {
        "algebra",
        "trees",
        "models",
        "distributed",
        "training",
        "certify",
        "explain",
        "tables",
    },
    "io": {"models", "distributed", "training", "estimators", "tables"},
    "export": {"models", "estimators", "io"},
    "images": set(),
    "metrics": {"models", "certify"},
    "plots": {"models", "explain", "metrics"},
    "evaluation": {"training", "explain", "metrics", "tables", "estimators"},
    "report": {
        "distributed",
        "models",
        "metrics",
        "certify",
        "explain",
        "tables",
        "estimators",
        "plots",
    },
}
# Deferred imports of higher layers: the method `save` of an estimator.
LATE = {"estimators": {"io"}}


def test_import_is_quick_and_lazy():
    seconds, loaded, later = run_fresh(
        "import json, sys, time\n"
        "start = time.perf_counter()\n"
        "import maxplus\n"
        "seconds, loaded = time.perf_counter() - start, sorted(sys.modules)\n"
        "maxplus.LMMRegressor\n"
        "print(json.dumps([seconds, loaded, sorted(sys.modules)]))"
    )
    assert seconds < 2.0
    assert "maxplus" in loaded
    assert not {"numba", "sklearn", "scipy", "rich", "matplotlib", "pyarrow"} & set(loaded)
    # Public names are loaded on first use. Only the command line needs typer.
    assert {"numba", "sklearn"} <= set(later)
    assert not {"typer", "maxplus.evaluation", "maxplus.report"} & set(later)


def test_public_names_resolve():
    for name in maxplus.__all__:
        thing = getattr(maxplus, name)
        assert thing.__name__ == name
        assert thing.__doc__
        assert name in dir(maxplus)


def test_public_names_of_layers_resolve_and_are_unique():
    """A name that two packages define differently cannot be looked up."""
    objects = {}
    for layer in BELOW:
        package = getattr(maxplus, layer)
        assert package.__name__ == f"maxplus.{layer}"
        for name in package.__all__:
            objects.setdefault(name, set()).add(id(getattr(package, name)))
    repeated = {name for name, found in objects.items() if len(found) > 1}
    assert not repeated


def test_unknown_public_name_raises_attribute_error():
    for module in (maxplus, maxplus.export):
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            module.nonsense  # noqa: B018


def imports_of(path):
    """Return the modules of this package that a file imports, such as "maxplus.models.lmm"."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            # ``from maxplus import models`` imports a layer, too.
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in names if name.split(".")[0] == "maxplus"}


@pytest.mark.parametrize("layer", BELOW)
def test_imports_follow_the_dependency_rule(layer):
    files = sorted((SOURCE / layer).rglob("*.py")) or [SOURCE / f"{layer}.py"]
    assert files
    for path in files:
        used = {name.split(".")[1] for name in imports_of(path) if name.count(".")}
        assert used <= {layer, *BELOW[layer], *LATE.get(layer, ()), *EVERYWHERE}, path


def test_library_does_not_import_experiments():
    for path in sorted(SOURCE.rglob("*.py")):
        assert not re.search(r"^\s*(from|import) experiments\b", path.read_text(), re.MULTILINE), (
            path
        )


def test_kernel_files_define_no_classes_but_tuples():
    """Kernels take plain arrays, so that they are compiled once per float type."""
    files = [p for p in SOURCE.rglob("_*.py") if "@njit" in p.read_text()]
    assert len(files) > 4
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                assert [ast.unparse(base) for base in node.bases] == ["NamedTuple"], path


def test_dependency_bounds_are_tested_versions():
    declared = re.findall(
        r'^  "([a-z0-9-]+)>=([0-9.]+)",$',
        (ROOT / "pyproject.toml").read_text().partition("[project.optional")[0],
        re.MULTILINE,
    )
    lowest = re.findall(
        r"^([a-z0-9-]+)==([0-9.]+)$",
        (ROOT / "constraints" / "lowest.txt").read_text(),
        re.MULTILINE,
    )
    assert len(declared) == 10
    assert {name for name, _ in declared} == {name for name, _ in lowest}
    for name, version in declared:
        seen = dict(lowest)[name]
        assert seen == version or seen.startswith(f"{version}.0"), name

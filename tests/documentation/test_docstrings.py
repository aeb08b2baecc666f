"""Docstrings of public names: numpydoc, defaults and examples."""

import doctest
import importlib
import inspect
import subprocess
import sys
from dataclasses import is_dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

# Modules whose examples are run as a whole, methods included.
DOCUMENTED = [
    "maxplus.algebra.products",
    "maxplus.trees.short_trees",
    "maxplus.training.steps",
    "maxplus.estimators._explain",
    "maxplus.estimators._lmm",
    "maxplus.images",
    "maxplus.evaluation.validation",
    "maxplus.metrics.classification",
    "maxplus.metrics.regression",
    "maxplus.estimators.lipschitz_interpolator",
    "maxplus.estimators.lmm_classifier",
    "maxplus.estimators.lmm_ensemble_classifier",
    "maxplus.estimators.lmm_regressor",
    "maxplus.estimators.subgradient_classifiers",
]

PACKAGES = (
    "maxplus",
    "maxplus.algebra",
    "maxplus.trees",
    "maxplus.models",
    "maxplus.training",
    "maxplus.training.stages",
    "maxplus.training.engines",
    "maxplus.certify",
    "maxplus.explain",
    "maxplus.datasets",
    "maxplus.tables",
    "maxplus.io",
    "maxplus.export",
    "maxplus.images",
    "maxplus.metrics",
    "maxplus.plots",
    "maxplus.evaluation",
    "maxplus.report",
    "maxplus.estimators",
    "maxplus.distributed",
)
# Checks of numpydoc that are not applied, such as extended summaries, "See Also" sections and
# descriptions of parameters with a descriptive type. Examples of functions are checked below.
IGNORED = {"ES01", "EX01", "GL01", "SA01", "SS02", "SS05"}
IGNORED |= {"PR04", "PR07", "PR08", "PR09", "RT02", "RT03", "RT04", "RT05"}
# Methods of components of these packages and classes have a one-line docstring and annotations.
ONE_LINE = {"PR01", "RT01", "YD01"}
ONE_LINE_NAMES = (
    "maxplus.distributed.",
    "maxplus.explain.Contributions.",
    "maxplus.explain.Domain.",
    "maxplus.explain.Explanation.",
    "maxplus.tables.Column.",
    "maxplus.tables.Number.",
    "maxplus.tables.Ranges.",
    "maxplus.tables.Target.",
    "maxplus.tables.UnknownValues.",
    "maxplus.tables.RawTable.",
    "maxplus.tables.Categorical.",
    "maxplus.training.",
)
# Examples that require a package, and examples that download files.
EXAMPLES_NEED = {"maxplus.to_torch": "torch", "maxplus.distributed.use_mpi": "mpi4py"}
DOWNLOADS = {"maxplus.datasets.load_mnist", "maxplus.datasets.load_fashion_mnist"}


def public_names():
    """Return all public objects by their first name; estimators come first."""
    named = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            named.setdefault(
                id(getattr(module, name)), (f"{package}.{name}", getattr(module, name))
            )
    return dict(named.values())


def is_record(cls):
    """Return whether a class documents its fields instead of parameters."""
    return (
        is_dataclass(cls)
        or hasattr(cls, "_fields")
        or getattr(cls, "_is_protocol", False)
        or issubclass(cls, (Enum, Exception))
    )


def methods(address, cls):
    """Yield the names of public methods; inherited ones only of estimators."""
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if name.startswith("_") or not method.__module__.startswith("maxplus"):
            continue
        above = [base for base in cls.__mro__[1:] if "maxplus" in base.__module__]
        is_own = name in vars(cls) and not any(name in vars(base) for base in above)
        if is_own or address in ESTIMATORS:
            yield f"{address}.{name}"


NAMES = public_names()
FUNCTIONS = {address: thing for address, thing in NAMES.items() if inspect.isfunction(thing)}
CLASSES = {address: thing for address, thing in NAMES.items() if inspect.isclass(thing)}
ESTIMATORS = [address for address in CLASSES if address.count(".") == 1]


def errors(address, ignored=frozenset()):
    """Return the errors that numpydoc reports and that are not ignored."""
    ignored = IGNORED | ignored | (ONE_LINE if address.startswith(ONE_LINE_NAMES) else set())
    return [(code, text) for code, text in validate(address)["errors"] if code not in ignored]


def test_public_docstrings_follow_numpydoc():
    found = {address: errors(address) for address in FUNCTIONS}
    for address, cls in CLASSES.items():
        found[address] = errors(address, {"PR01"} if is_record(cls) else set())
        found |= {method: errors(method) for method in methods(address, cls)}
    assert {address: some for address, some in found.items() if some} == {}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_documented_defaults_equal_signatures(name):
    """The stated default equals that of the signature; "optional" stands for None."""
    cls = getattr(importlib.import_module("maxplus"), name.partition(".")[2])
    stated = {
        one.strip(): parameter.type
        for parameter in NumpyDocString(inspect.getdoc(cls))["Parameters"]
        for one in parameter.name.split(",")
        if parameter.type
    }
    parameters = inspect.signature(cls).parameters
    assert set(stated) == set(parameters)
    for one, text in stated.items():
        default = parameters[one].default
        shown = f'"{default}"' if isinstance(default, str) else repr(default)
        assert f"default={shown}" in text or (default is None and "optional" in text), one


@pytest.mark.parametrize("address", FUNCTIONS)
def test_examples_of_functions(address):
    function = FUNCTIONS[address]
    assert ">>>" in function.__doc__, address
    if function.__module__ in DOCUMENTED:
        return  # run by test_examples_of_modules
    if address not in EXAMPLES_NEED:
        run_example(function, address)
    elif find_spec(EXAMPLES_NEED[address]) is None:
        pytest.skip(f"needs {EXAMPLES_NEED[address]}")
    else:  # in a new process, because such packages have global effects
        line = f"import test_docstrings as t; t.run_example(t.FUNCTIONS[{address!r}], {address!r})"
        done = subprocess.run([sys.executable, "-c", line], cwd=Path(__file__).parent, check=False)
        assert done.returncode == 0


def run_example(function, address):
    """Run the examples of a function, which must be more than imports."""
    module = importlib.import_module(function.__module__)
    runner = doctest.DocTestRunner(verbose=False)
    (case,) = doctest.DocTestFinder(recurse=False).find(function, address, module)
    runner.run(case)
    assert runner.failures == 0
    imports = sum(" import " in f" {example.source}" for example in case.examples)
    assert runner.tries > imports or address in DOWNLOADS


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_of_modules(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0

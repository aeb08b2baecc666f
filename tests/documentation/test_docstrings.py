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

import maxplus

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
IGNORED = {
    "ES01",
    "EX01",
    "GL01",
    "PR04",
    "PR07",
    "PR08",
    "PR09",
    "RT02",
    "RT03",
    "RT04",
    "RT05",
    "SA01",
    "SS02",
    "SS05",
}
# Further ignored checks by the beginning of a name: methods of components have a one-line docstring
# and type annotations.
ONE_LINE = {"PR01", "RT01", "YD01"}
EXCEPTIONS = {
    "maxplus.distributed.": ONE_LINE,
    "maxplus.explain.Contributions.": ONE_LINE,
    "maxplus.explain.Domain.": ONE_LINE,
    "maxplus.explain.Explanation.": ONE_LINE,
    "maxplus.explain.PredictionContributions.": ONE_LINE,
    "maxplus.explain.Rules.": ONE_LINE,
    "maxplus.tables.Column.": ONE_LINE,
    "maxplus.tables.Number.": ONE_LINE,
    "maxplus.tables.Ranges.": ONE_LINE,
    "maxplus.tables.Target.": ONE_LINE,
    "maxplus.tables.UnknownValues.": ONE_LINE,
    "maxplus.tables.RawTable.": ONE_LINE,
    "maxplus.tables.Categorical.": ONE_LINE,
    "maxplus.training.": ONE_LINE,
}


# Examples that require a package, and examples that download files.
EXAMPLES_NEED = {"maxplus.to_torch": "torch", "maxplus.distributed.use_mpi": "mpi4py"}
DOWNLOADS = {"maxplus.datasets.load_mnist", "maxplus.datasets.load_fashion_mnist"}


def functions():
    """Return all public functions by name."""
    seen = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                seen.setdefault(thing, f"{package}.{name}")
    return {address: thing for thing, address in seen.items()}


def estimators():
    """Yield the classes of ``maxplus`` and their methods."""
    for name in maxplus.__all__:
        cls = getattr(maxplus, name)
        if not inspect.isclass(cls):
            continue
        yield f"maxplus.{name}"
        for method, thing in inspect.getmembers(cls, inspect.isfunction):
            if not method.startswith("_") and thing.__module__.startswith("maxplus"):
                yield f"maxplus.{name}.{method}"


def is_record(cls):
    """Return whether a class documents its fields instead of parameters."""
    return (
        is_dataclass(cls)
        or hasattr(cls, "_fields")
        or getattr(cls, "_is_protocol", False)
        or issubclass(cls, (Enum, Exception))
    )


def other_classes():
    """Yield all other public classes and the methods that they do not inherit."""
    seen = {getattr(maxplus, name) for name in maxplus.__all__}
    for package in sorted(PACKAGES):
        module = importlib.import_module(package)
        for name in module.__all__:
            cls = getattr(module, name)
            if not inspect.isclass(cls) or cls in seen:
                continue
            seen.add(cls)
            yield f"{package}.{name}", is_record(cls)
            above = [parent for parent in cls.__mro__[1:] if "maxplus" in parent.__module__]
            for method, thing in vars(cls).items():
                own = inspect.isfunction(thing) and "maxplus" in thing.__module__
                if own and method[0] != "_" and not any(method in vars(one) for one in above):
                    yield f"{package}.{name}.{method}", False


FUNCTIONS = functions()


def complaints(address, also=frozenset()):
    """Return the errors that numpydoc reports and that are not ignored."""
    left = IGNORED.union(also, *(EXCEPTIONS[s] for s in EXCEPTIONS if address.startswith(s)))
    return [(code, text) for code, text in validate(address)["errors"] if code not in left]


def test_public_docstrings_follow_numpydoc():
    found = {address: complaints(address) for address in (*FUNCTIONS, *estimators())}
    for address, record in other_classes():
        found[address] = complaints(address, {"PR01"} if record else set())
    assert {address: some for address, some in found.items() if some} == {}


def test_exceptions_are_still_needed():
    """Exceptions that are not needed any more are errors."""
    addresses = [*estimators(), *(address for address, _ in other_classes())]
    for start, codes in EXCEPTIONS.items():
        found = [one for one in addresses if one.startswith(start)]
        assert any({code for code, _ in validate(one)["errors"]} & codes for one in found), start


@pytest.mark.parametrize("name", [name for name in estimators() if name.count(".") == 1])
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

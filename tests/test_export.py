"""Requirements and error messages of both exports."""

import doctest
import importlib
import sys

import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import maxplus.export
from maxplus import LMMClassifier, MaxPlusClassifier
from processes import run_fresh


def test_importing_export_loads_neither_onnx_nor_torch():
    loaded = run_fresh("import json, sys, maxplus.export; print(json.dumps(sorted(sys.modules)))")
    assert "maxplus.export" in loaded
    assert not {"onnx", "torch", "maxplus.export.onnx", "maxplus.export.torch"} & set(loaded)


@pytest.mark.parametrize(
    ("name", "package", "arguments"),
    [("export_onnx", "onnx", (None, "m.onnx")), ("to_torch", "torch", (None,))],
)
def test_missing_package_error_names_the_extra(monkeypatch, name, package, arguments):
    """The error is raised by the call, not by access to the name."""
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"maxplus.export.{package}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'maxplus\[{package}\]'"):
        getattr(maxplus.export, name)(*arguments)


def test_examples_of_layers(torch):
    result = doctest.testmod(importlib.import_module("maxplus.export.torch"))
    assert result.attempted > 5
    assert result.failed == 0


@pytest.fixture(params=["onnx", "torch"])
def export(request, tmp_path):
    """Either export as a function of the classifier alone."""
    request.getfixturevalue(request.param)
    if request.param == "torch":
        return maxplus.export.to_torch
    return lambda clf: maxplus.export.export_onnx(clf, tmp_path / "model.onnx")


def test_export_refuses_unfitted_classifier(export, tmp_path):
    with pytest.raises(NotFittedError, match="not fitted"):
        export(LMMClassifier())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "other", [MaxPlusClassifier(), make_pipeline(LMMClassifier()), LMMClassifier, None]
)
def test_export_refuses_other_estimators(export, other, tmp_path):
    with pytest.raises(TypeError, match=f"LipschitzInterpolator; got {type(other).__name__}"):
        export(other)
    assert not list(tmp_path.iterdir())

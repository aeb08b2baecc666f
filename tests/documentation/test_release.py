"""What a release is made of: versions that agree, types, examples, the package page."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import maxplus

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("plot_*.py"))


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "pattern"), [("CITATION.cff", r"^version: (.+)$"), ("CHANGELOG.md", r"^## (\S+) ")]
)
def test_the_version_is_the_same_everywhere(name, pattern):
    assert re.search(pattern, text_of(name), re.MULTILINE)[1] == maxplus.__version__


def test_every_public_name_is_in_the_typed_program():
    """`make lint` has a type checker look at it; here it is complete."""
    program = ast.parse(text_of("tests/typed_program.py"))
    (listed,) = (node.value for node in program.body if isinstance(node, ast.AnnAssign))
    listed = [ast.unparse(name) for name in listed.elts]
    source = ROOT / "src"
    packages = [path.parent for path in (source / "maxplus").rglob("__init__.py")]
    modules = [path.with_suffix("") for path in (source / "maxplus").glob("[a-z]*.py")]
    names = {".".join(path.relative_to(source).parts) for path in packages + modules}
    # Commands, compilation, and what stages are built from are no library for users.
    private = (
        "maxplus._compile",
        "maxplus.cli",
        "maxplus.training.smooth",
        "maxplus.training.engines.sparse",
    )
    public = [
        f"{name}.{thing}"
        for name in names
        if not name.startswith(private)
        for thing in importlib.import_module(name).__all__
    ]
    assert len(listed) > 100
    assert sorted(listed) == sorted(public)


# -- the gallery: `make docs` runs the scripts; these are the habits that need no run --------------


def test_there_are_enough_examples():
    assert len(SCRIPTS) >= 12


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_is_a_page(path):
    source = path.read_text(encoding="utf-8")
    title, line, *rest = ast.get_docstring(ast.parse(source)).splitlines()
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert len(" ".join(rest)) > 100
    assert "\n# %%\n" in source
    assert "plt.subplots(" in source
    assert source.endswith("plt.show()\n")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_stands_alone(path):
    """It reads no file that it has not written, and asks for public names only."""
    source = path.read_text(encoding="utf-8")
    assert not re.search(r"[\"'](/|\.\./|~)", source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("maxplus"):
            names = {alias.name for alias in node.names}
            # Layers for PyTorch are the one public module that no room can list.
            layers = {"MaxPlus", "MinPlus"} if node.module == "maxplus.export.torch" else set()
            assert names <= {*(layers or importlib.import_module(node.module).__all__)}


# -- the package page ------------------------------------------------------------------------------


def test_package_page_has_no_relative_links():
    (table,) = re.findall(r"^substitutions = \[\n(.*?)^\]", text_of("pyproject.toml"), re.M | re.S)
    page = text_of("README.md")
    for pattern, replacement in re.findall(
        r"pattern = '(.+)', replacement = [\"'](.*)[\"'] }", table
    ):
        page = re.sub(pattern, replacement, page)
    targets = re.findall(r"\]\(([^)]*)\)", page)
    assert targets
    assert all(target.startswith(("https://", "#")) for target in targets)
    assert page.count("](") < text_of("README.md").count("](")

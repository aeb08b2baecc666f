"""Consistency of a release: versions, typed program, examples, package page."""

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
def test_versions_are_equal(name, pattern):
    assert re.search(pattern, text_of(name), re.MULTILINE)[1] == maxplus.__version__


# -- gallery ---------------------------------------------------------------------------------------


def test_examples_follow_the_gallery_format():
    """Examples have a title, cells and figures, read no files and import public names only."""
    assert len(SCRIPTS) >= 12
    for path in SCRIPTS:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        title, line, *rest = ast.get_docstring(tree).splitlines()
        assert line == "=" * len(title), path
        assert len(" ".join(rest)) > 100, path
        assert "\n# %%\n" in source, path
        assert "plt.subplots(" in source, path
        assert source.endswith("plt.show()\n"), path
        assert not re.search(r"[\"'](/|\.\./|~)", source), path
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("maxplus"):
                names = {alias.name for alias in node.names}
                # The PyTorch layers are the only public names that no package lists.
                layers = {"MaxPlus", "MinPlus"} if node.module == "maxplus.export.torch" else set()
                assert names <= {*(layers or importlib.import_module(node.module).__all__)}, path


# -- package page ----------------------------------------------------------------------------------


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

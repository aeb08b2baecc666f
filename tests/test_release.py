"""What a release is made of: versions that agree, types, examples, the package page."""

import ast
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import maxplus

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("plot_*.py"))


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("pyproject.toml", r'^version = "(.+)"$'),
        ("CITATION.cff", r"^version: (.+)$"),
        ("CHANGELOG.md", r"^## (\S+) "),
    ],
)
def test_the_version_is_the_same_everywhere(name, pattern):
    assert re.search(pattern, text_of(name), re.MULTILINE)[1] == maxplus.__version__


def test_every_public_name_is_in_the_typed_program():
    """`make lint` has a type checker look at it; here it is complete."""
    program = ast.parse(text_of("tests/typed_program.py"))
    (listed,) = (node.value for node in program.body if isinstance(node, ast.AnnAssign))
    listed = [ast.unparse(name) for name in listed.elts]
    rooms = [path.parent for path in (ROOT / "src" / "maxplus").rglob("__init__.py")]
    names = {".".join(room.relative_to(ROOT / "src").parts) for room in rooms}
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


@pytest.fixture
def hook(monkeypatch):
    """hatch_build.py; the builder that it is a part of is installed only where one builds."""
    interface = ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = object
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    for parent in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin"):
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "hatch_build", raising=False)
    return importlib.import_module("hatch_build")


README = (
    "See ![a\npicture](docs/a.png), [a page](b.md#c), [elsewhere](https://x.org/y) and [up](#top)."
)


def test_links_of_the_package_page_lead_to_released_files(hook):
    home = hook.home_of({"GITHUB_REPOSITORY": "Somebody/maxplus"})
    assert home == "https://github.com/Somebody/maxplus"
    assert hook.page_of(README, home, "v1.0") == (
        f"See ![a\npicture]({home}/raw/v1.0/docs/a.png), [a page]({home}/blob/v1.0/b.md#c), "
        "[elsewhere](https://x.org/y) and [up](#top)."
    )
    urls = hook.urls_of(home)
    assert urls["Issues"] == f"{home}/issues"
    assert urls["Documentation"] == "https://somebody.github.io/maxplus/"


def test_where_nobody_knows_the_repository_nothing_is_made_up(hook):
    assert hook.home_of({}) is None
    assert hook.urls_of(None) == {"Paper": hook.PAPER}
    assert hook.page_of(README, None, "v1.0") == (
        "See , a page, [elsewhere](https://x.org/y) and [up](#top)."
    )


def test_no_relative_link_of_readme_is_left(hook):
    page = hook.page_of(text_of("README.md"), "https://x.org/a/b", "v1.0")
    targets = re.findall(r"\]\(([^)]*)\)", page)
    assert targets
    assert all(target.startswith(("https://", "#")) for target in targets)

"""Sphinx extensions of the site, and completeness of its lists."""

import importlib
import importlib.util
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = Path(__file__).parents[2] / "examples"
# As docs/policy.md lists them.
POLICY = (DOCS / "policy.md").read_text(encoding="utf-8").partition("and the layers")[0]
PUBLIC_PACKAGES = ["maxplus", *re.findall(r"`(maxplus\.[a-z.]+)`", POLICY)]


def extension(name):
    """Import an extension of the site."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- extensions ------------------------------------------------------------------


def test_links_inside_the_site_are_checked(tmp_path, monkeypatch):
    valid = ("b.html#there", "#here", "b.html", "https://example.org/nowhere#x")
    links = "".join(f'<a href="{link}">x</a>' for link in (*valid, "c.html", "b.html#no", "#no"))
    (tmp_path / "a.html").write_text(f'<p id="here">{links}</p>')
    (tmp_path / "b.html").write_text('<p id="there">y</p>')
    anchors, messages = extension("anchors"), []

    def warn(text, *values):
        messages.append(text % values)

    monkeypatch.setattr(anchors, "logger", SimpleNamespace(warning=warn))
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path)
    anchors.check(app, None)
    assert len(messages) == 3
    assert sum("does not exist" in message and "anchor" not in message for message in messages) == 1
    assert sum("the anchor does not exist" in message for message in messages) == 2


@pytest.fixture
def write_pages(tmp_path):
    """Return a function that writes records and their pages, and returns the folder of pages."""

    def write(records):
        for name, record in records.items():
            path = tmp_path / "results" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(record if isinstance(record, str) else json.dumps(record))
        pages = extension("result_pages")
        (tmp_path / "docs").mkdir()
        for _ in range(2):
            pages.write_pages(SimpleNamespace(srcdir=tmp_path / "docs"))
        return tmp_path / "docs" / pages.PLACE

    return write


def test_result_pages(write_pages):
    record = {
        "title": "How fast",
        "text": "It is. Very.",
        "quick": False,
        "seconds": 3.0,
        "machine": {"cores": 2},
        "figures": ["growth"],
        "tables": [{"caption": "All", "columns": ["what", "ms"], "rows": [["|x|", "2"]]}],
    }
    folder = write_pages(
        {
            "speed/speed.json": record,
            "speed/speed-growth.png": "image",
            "speed/parts.json": "{}",  # not a record
            "mpi/mpi.json": record | {"figures": []},
        }
    )
    page = (folder / "speed.md").read_text()
    assert page.startswith(
        "# How fast\n\nIt is. Very.\n\n**All**\n\n| what | ms |\n| --- | --- |\n"
    )
    assert r"| \|x\| | 2 |" in page
    assert "![How fast: growth](speed-growth.png)" in page
    assert "`python -m experiments speed` at full scale, in 3 s (cores 2)" in page
    assert (folder / "speed-growth.png").is_file()
    listed = re.findall(r"## (.+)\n\n(- .+)\n", (folder / "list.txt").read_text())
    assert listed == [
        ("Speed and scale", "- [](generated/mpi.md): It is."),
        (extension("result_pages").OTHERS, "- [](generated/speed.md): It is."),
    ]


@pytest.mark.parametrize(
    ("failures", "found", "has_table"),
    [
        ([], "found no failures.", False),
        ([{"trial": "killed_savings", "seed": 9, "error": "KeyError: 'x'"}], "1 failure.", True),
    ],
)
def test_soak_page(write_pages, failures, found, has_table):
    record = {
        "seconds": 3601,
        "first_seed": 7,
        "failures": failures,
        "machine": {"cores": 2},
        "counts": {"killed_savings": {"kills": 12000, "trials": 1500}},
    }
    folder = write_pages({"soak.json": record})
    page = (folder / "soak.md").read_text()
    assert "took 3,601 s, started with the seed 7" in page
    assert found in page
    assert "| killed savings | 1,500 | 12,000 kills |" in page
    assert ("| killed savings | 9 | KeyError: 'x' |" in page) == has_table
    assert "\ngenerated/soak\n" in (folder / "list.txt").read_text()


def test_docstrings_and_fields_are_shown():
    from maxplus.explain import Paths

    lines = ["|x'_p − x_p| ≤ eps·scale_, see ``scale_`` and `maxplus.load`"]
    extension("plain_docstrings").escape(None, "", "", None, None, lines)
    assert lines == [r"\|x'_p − x_p\| ≤ eps·scale\_, see ``scale_`` and `maxplus.load`"]
    fields, lines = extension("record_fields"), ["Alias for field number 3"]
    name = "maxplus.explain.units.Paths.runner_up"
    fields.describe(None, "attribute", name, None, None, lines)
    assert lines == ["The second-best unit, −1 for a model with a single unit."]
    assert fields.comments(Paths)["score"] == ""


def test_command_cells_are_shown_as_bash():
    nodes = pytest.importorskip("docutils.nodes")
    cells = [nodes.literal_block("", text) for text in ("%%bash\nls\npwd", "print(1)")]
    extension("command_cells").show_as_typed(None, nodes.container("", *cells))
    assert [cell.astext() for cell in cells] == ["ls\npwd", "print(1)"]
    assert cells[0]["language"] == "bash"


# -- lists -----------------------------------------------------------------------


def test_lists_of_experiments_examples_and_pages_are_complete():
    from experiments.harness import BENCHMARKS, EXPERIMENTS

    groups = extension("result_pages").GROUPS
    listed = [name for names in groups.values() for name in names]
    assert sorted(listed) == sorted([*EXPERIMENTS, *BENCHMARKS])
    scripts = {path.stem.removeprefix("plot_") for path in EXAMPLES.glob("plot_*.py")}
    assert scripts == set(extension("gallery_order").ORDER)
    for package in ("guide", "theory"):
        index = (DOCS / package / "index.md").read_text(encoding="utf-8")
        listed = set(re.findall(r"^([a-z_]+)$", index, re.MULTILINE))
        assert {page.stem for page in (DOCS / package).glob("*.md")} - {"index"} <= listed


def test_reference_lists_public_names_once():
    """Names are compared by identity, because some have two import paths."""
    listed, mentioned, several = set(), "", set()
    for page in (DOCS / "api").glob("*.rst"):
        text = page.read_text(encoding="utf-8")
        mentioned += text
        for piece in text.split(".. currentmodule:: ")[1:]:
            module = importlib.import_module(piece.split()[0])
            names = re.findall(r"^   (\w+)$", piece, re.MULTILINE)
            for name in names:
                thing = id(getattr(module, name))
                several |= {name} if thing in listed else set()
                listed.add(thing)
    assert not several, "listed more than once"
    assert len(PUBLIC_PACKAGES) > 15
    for package in PUBLIC_PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            known = id(thing) in listed if callable(thing) else f"``{package}.{name}``" in mentioned
            assert known, f"{package}.{name}"

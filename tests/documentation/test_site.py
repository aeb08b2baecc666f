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


def part(name):
    """Import an extension of the site."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("link", "complaint"),
    [
        ("b.html#there", None),
        ("#here", None),
        ("b.html", None),
        ("https://example.org/nowhere#x", None),
        ("c.html", "which is not there"),
        ("b.html#gone", "no such place"),
        ("#gone", "no such place"),
    ],
)
def test_links_inside_the_site_are_checked(tmp_path, monkeypatch, link, complaint):
    (tmp_path / "a.html").write_text(f'<p id="here"><a href="{link}">x</a></p>')
    (tmp_path / "b.html").write_text('<p id="there">y</p>')
    anchors, messages = part("anchors"), []
    monkeypatch.setattr(
        anchors,
        "logger",
        SimpleNamespace(warning=lambda text, *values: messages.append(text % values)),
    )
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path)
    anchors.check(app, None)
    assert len(messages) == (complaint is not None)
    assert complaint is None or complaint in messages[0]


def test_result_pages(tmp_path):
    (tmp_path / "docs").mkdir()
    found = tmp_path / "results" / "speed"
    found.mkdir(parents=True)
    record = {
        "title": "How fast",
        "text": "It is. Very.",
        "quick": False,
        "seconds": 3.0,
        "machine": {"cores": 2},
        "figures": ["growth"],
        "tables": [{"caption": "All", "columns": ["what", "ms"], "rows": [["|x|", "2"]]}],
    }
    (found / "speed.json").write_text(json.dumps(record))
    (found / "speed-growth.png").write_bytes(b"picture")
    (found / "parts.json").write_text("{}")  # not a record
    known = tmp_path / "results" / "mpi"
    known.mkdir()
    (known / "mpi.json").write_text(json.dumps(record | {"figures": []}))
    pages = part("result_pages")
    pages.write_pages(SimpleNamespace(srcdir=tmp_path / "docs"))
    place = tmp_path / "docs" / pages.PLACE
    page = (place / "speed.md").read_text()
    assert page.startswith(
        "# How fast\n\nIt is. Very.\n\n**All**\n\n| what | ms |\n| --- | --- |\n"
    )
    assert r"| \|x\| | 2 |" in page
    assert "![How fast: growth](speed-growth.png)" in page
    assert "`python -m experiments speed` at full scale, in 3 s (cores 2)" in page
    assert (place / "speed-growth.png").read_bytes() == b"picture"
    headings, entries = zip(
        *re.findall(r"## (.+)\n\n(- .+)\n", (place / "list.txt").read_text()), strict=True
    )
    assert headings == ("Speed and scale", pages.OTHERS)
    assert entries == ("- [](generated/mpi.md): It is.", "- [](generated/speed.md): It is.")


def test_result_list_has_all_experiments():
    from experiments.harness import BENCHMARKS, EXPERIMENTS

    listed = [name for names in part("result_pages").GROUPS.values() for name in names]
    assert sorted(listed) == sorted([*EXPERIMENTS, *BENCHMARKS])


@pytest.mark.parametrize(
    ("failures", "found", "has_table"),
    [
        ([], "found no failures.", False),
        ([{"trial": "killed_savings", "seed": 9, "error": "KeyError: 'x'"}], "1 failure.", True),
    ],
)
def test_soak_page(tmp_path, failures, found, has_table):
    (tmp_path / "docs").mkdir()
    (tmp_path / "results").mkdir()
    record = {
        "seconds": 3601,
        "first_seed": 7,
        "failures": failures,
        "machine": {"cores": 2},
        "counts": {"killed_savings": {"kills": 12000, "trials": 1500}},
    }
    (tmp_path / "results" / "soak.json").write_text(json.dumps(record))
    pages = part("result_pages")
    for _ in range(2):
        pages.write_pages(SimpleNamespace(srcdir=tmp_path / "docs"))
    place = tmp_path / "docs" / pages.PLACE
    page = (place / "soak.md").read_text()
    assert "took 3,601 s, started with the seed 7" in page
    assert found in page
    assert "| killed savings | 1,500 | 12,000 kills |" in page
    assert ("| killed savings | 9 | KeyError: 'x' |" in page) == has_table
    listed = (place / "list.txt").read_text()
    assert "[](generated/soak.md)" in listed
    assert "\ngenerated/soak\n" in listed


def test_docstrings_are_escaped():
    lines = ["|x'_p − x_p| ≤ eps·scale_, see ``scale_`` and `maxplus.load`"]
    part("plain_docstrings").escape(None, "", "", None, None, lines)
    assert lines == [r"\|x'_p − x_p\| ≤ eps·scale\_, see ``scale_`` and `maxplus.load`"]


def test_fields_of_named_tuples_are_documented():
    from maxplus.explain import Paths

    lines = ["Alias for field number 3"]
    part("record_fields").describe(
        None, "attribute", "maxplus.explain.units.Paths.runner_up", None, None, lines
    )
    assert lines == ["The second-best unit, −1 for a model with a single unit."]
    assert part("record_fields").comments(Paths)["score"] == ""


def test_command_cells_are_shown_as_bash():
    nodes = pytest.importorskip("docutils.nodes")
    cells = [nodes.literal_block("", text) for text in ("%%bash\nls\npwd", "print(1)")]
    page = nodes.container("", *cells)
    part("command_cells").show_as_typed(None, page)
    assert [cell.astext() for cell in cells] == ["ls\npwd", "print(1)"]
    assert cells[0]["language"] == "bash"


def test_gallery_lists_all_examples():
    scripts = {path.stem.removeprefix("plot_") for path in EXAMPLES.glob("plot_*.py")}
    assert scripts == set(part("gallery_order").ORDER)


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


@pytest.mark.parametrize("package", ["guide", "theory"])
def test_index_lists_all_pages(package):
    index = (DOCS / package / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([a-z_]+)$", index, re.MULTILINE))
    there = {page.stem for page in (DOCS / package).glob("*.md")} - {"index"}
    assert there <= listed

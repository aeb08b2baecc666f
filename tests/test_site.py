"""The site's own parts: links are checked, measurements become pages, every page is listed."""

import importlib.util
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def part(name):
    """One of Sphinx's extensions that the site brings."""
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
    anchors, told = part("anchors"), []
    monkeypatch.setattr(
        anchors, "logger", SimpleNamespace(warning=lambda text, *words: told.append(text % words))
    )
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path)
    anchors.check(app, None)
    assert len(told) == (complaint is not None)
    assert complaint is None or complaint in told[0]


def test_every_measurement_is_a_page(tmp_path):
    (tmp_path / "docs").mkdir()
    found = tmp_path / "results" / "speed"
    found.mkdir(parents=True)
    record = {"title": "How fast", "text": "It is. Very.", "quick": False, "seconds": 3.0}
    (found / "speed.json").write_text(json.dumps(record | {"machine": {"cores": 2}}))
    (found / "speed.md").write_text("## How fast (`speed`)\n\nIt is. Very.\n\n3 s\n")
    pages = part("result_pages")
    pages.write_pages(SimpleNamespace(srcdir=tmp_path / "docs"))
    page = (tmp_path / "docs" / pages.PLACE / "speed.md").read_text()
    assert page.startswith("# How fast\n\n\nIt is. Very.\n")
    assert "`maxplus reproduce speed` at full scale, in 3 s (cores 2)" in page
    listed = (tmp_path / "docs" / pages.PLACE / "list.txt").read_text()
    assert "- [](generated/speed.md): It is.\n" in listed


def test_docstrings_are_taken_as_text():
    lines = ["|x'_p − x_p| ≤ eps·scale_, see ``scale_`` and `maxplus.load`"]
    part("plain_docstrings").escape(None, "", "", None, None, lines)
    assert lines == [r"\|x'_p − x_p\| ≤ eps·scale\_, see ``scale_`` and `maxplus.load`"]


@pytest.mark.parametrize("room", ["guide", "theory"])
def test_every_page_is_listed(room):
    index = (DOCS / room / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([a-z_]+)$", index, re.MULTILINE))
    there = {page.stem for page in (DOCS / room).glob("*.md")} - {"index"}
    assert there <= listed

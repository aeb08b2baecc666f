"""Numbers, links and versions of README.md and others, and gallery examples."""

import ast
import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

import maxplus

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("plot_*.py"))
# A table's line with one number in bold and the command that measured it.
QUOTE = re.compile(
    r"^\| (?P<what>.+) \| \*\*(?P<number>[\d.]+)(?P<percent> %)?\*\* \| "
    r"`python -m experiments (?P<name>[\w-]+)` \|$",
    re.MULTILINE,
)


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


# -- numbers of README.md --------------------------------------------------------------------------


def values(name):
    """Return the values of the committed record of an experiment."""
    record = json.loads(text_of(f"results/{name}/{name}.json"))
    assert record["quick"] is False
    return record["values"]


def on_tables(model, figure):
    """Return the mean of a figure of a model over all tables."""
    return np.mean([table[figure] for table in values("tables")["figures"][model].values()])


def iteration_of(**wanted):
    """Return the seconds of an iteration with Polyak steps."""
    (run,) = [run for run in values("timing")["runs"] if wanted.items() <= run.items()]
    return run["polyak"]


# Sources of the numbers, by text of the line.
SOURCES = {
    "mean accuracy": lambda: on_tables("LMM", "accuracy"),
    "mean log loss": lambda: on_tables("LMM", "log_loss"),
    "certified test accuracy": lambda: 100 - values("robust")["tasks"]["MNIST at 0.1"]["certified"],
    "algorithm of the paper": lambda: values("mnist")["LMM (max)"]["train_max_loss"],
    "an exact iteration": lambda: (
        1e3 * iteration_of(engine="sparse", samples=60_000, hidden=500, w0_update_interval=100)
    ),
}


def quotes():
    section = text_of("README.md").partition("## Benchmarks\n")[2].partition("\n## ")[0]
    return {match["what"]: match["number"] for match in QUOTE.finditer(section)}


def test_quoted_numbers_equal_results():
    assert len(quotes()) == len(SOURCES)
    for text, source in SOURCES.items():
        (number,) = (number for what, number in quotes().items() if text in what)
        digits = len(number.partition(".")[2])
        assert number == f"{source():.{digits}f}"


def test_compared_numbers_equal_results():
    text = " ".join(quotes())
    others = [model for model in values("tables")["figures"] if model != "LMM"]
    accuracy = {model: on_tables(model, "accuracy") for model in others}
    best = max(accuracy, key=accuracy.get)
    assert f"(forest: {accuracy['forest']:.2f} %, {best}: {accuracy[best]:.2f} %)" in text
    loss = {model: on_tables(model, "log_loss") for model in others}
    best = min(loss, key=loss.get)
    assert f"({best}, the best of {len(others)} other models: {loss[best]:.3f})" in text
    assert f"{len(values('tables')['rows'])} tables" in text
    assert values("mnist")["iterations"] == 200_000


# -- links and versions ----------------------------------------------------------------------------


def test_links_of_readme_exist_and_are_absolute_on_the_package_page():
    page = text_of("README.md")
    paths = re.findall(r"\]\(([^):#]+)\)", page)
    assert "results/REPORT.md" in paths
    for path in paths:
        assert (ROOT / path).is_file(), path
    (table,) = re.findall(r"^substitutions = \[\n(.*?)^\]", text_of("pyproject.toml"), re.M | re.S)
    for pattern, replacement in re.findall(
        r"pattern = '(.+)', replacement = [\"'](.*)[\"'] }", table
    ):
        page = re.sub(pattern, replacement, page)
    targets = re.findall(r"\]\(([^)]*)\)", page)
    assert targets
    assert all(target.startswith(("https://", "#")) for target in targets)


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

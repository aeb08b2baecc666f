"""Numbers and links in README.md: numbers equal the committed results of their commands."""

import json
import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
# A table's line with one number in bold and the command that measured it.
QUOTE = re.compile(
    r"^\| (?P<what>.+) \| \*\*(?P<number>[\d.]+)(?P<percent> %)?\*\* \| "
    r"`python -m experiments (?P<name>[\w-]+)` \|$",
    re.MULTILINE,
)


def values(name):
    """Return the values of the committed record of an experiment."""
    record = json.loads((ROOT / "results" / name / f"{name}.json").read_text(encoding="utf-8"))
    assert record["quick"] is False
    return record["values"]


def on_tables(model, figure):
    """Return the mean of a figure of a model over all tables."""
    return np.mean([table[figure] for table in values("tables")["figures"][model].values()])


def iteration_of(engine, samples, hidden, w0_update_interval):
    """Return the seconds of an iteration with Polyak steps."""
    wanted = {
        "engine": engine,
        "samples": samples,
        "hidden": hidden,
        "w0_update_interval": w0_update_interval,
    }
    (run,) = [run for run in values("timing")["runs"] if wanted.items() <= run.items()]
    return run["polyak"]


# Sources of the numbers, by text of the line.
SOURCES = {
    "mean accuracy": lambda: on_tables("LMM", "accuracy"),
    "mean log loss": lambda: on_tables("LMM", "log_loss"),
    "certified test accuracy": lambda: 100 - values("robust")["tasks"]["MNIST at 0.1"]["certified"],
    "algorithm of the paper": lambda: values("mnist")["LMM (max)"]["train_max_loss"],
    "an exact iteration": lambda: 1e3 * iteration_of("sparse", 60_000, 500, w0_update_interval=100),
}


def quotes():
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Benchmarks\n")[2]
    return {m["what"]: m for m in QUOTE.finditer(section.partition("\n## ")[0])}


def test_quoted_numbers_equal_results():
    assert len(quotes()) == len(SOURCES) == 5
    for text, source in SOURCES.items():
        (quote,) = (m for what, m in quotes().items() if text in what)
        digits = len(quote["number"].partition(".")[2])
        assert quote["number"] == f"{source():.{digits}f}"


def test_compared_numbers_equal_results():
    """Figures of the other models on the tables, and the number of iterations on MNIST."""
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


def test_linked_files_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    paths = re.findall(r"\]\(([^):]+)\)", text)
    assert "results/REPORT.md" in paths
    for path in paths:
        assert (ROOT / path).is_file(), path

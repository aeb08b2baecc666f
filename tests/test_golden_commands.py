"""Golden records of commands: predictions, figures, `--json` documents and printed text.

Words are compared as they are and numbers with a tolerance, since fits depend on BLAS in their last
digits. To renew the records after an intended change of results::

    python tests/test_golden_commands.py
"""

import json
import re
import tempfile
from pathlib import Path

import pytest
from sklearn.datasets import load_diabetes, load_wine

from commands import IRIS, ORCHARD, SMALL, document, good, settings, train
from messy import DIALECTS, messy_rows, written

RECORDS = Path(__file__).with_name("golden_commands.json")
TOLERANCE = 1e-4
# Keys that hold seconds or names of files.
VARIABLE = re.compile("seconds|model$|^data$|^out$|^report$|_file$|figure$")
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


def tables(folder):
    """Write the tables that need to be written, and return their paths."""
    wine, diabetes = load_wine(as_frame=True).frame, load_diabetes(as_frame=True).frame
    wine.to_csv(folder / "wine.csv", index=False)
    diabetes[::3].round(4).to_csv(folder / "diabetes.csv", index=False)
    rows = messy_rows(n=120)
    for row in rows:
        row["weight"] += " kg" if row["weight"] != "?" else ""
    (folder / "messy.csv").write_bytes(written(rows))
    windows = DIALECTS["semicolons and decimal commas"]
    (folder / "commas.csv").write_bytes(written(messy_rows(n=80, seed=1), **windows))
    return {path.stem: str(path) for path in folder.glob("*.csv")}


def records():
    """Run all commands and return what they print, by name."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = dict(_runs(tables(folder), folder))
    text = json.dumps(found).replace(f"{folder}/", "").replace(str(Path(IRIS).parent) + "/", "")
    return _without_variable(json.loads(text))


def _runs(paths, folder):
    iris, orchard, messy, commas, wine, numbers, several = (
        folder / f"{stem}.maxplus"
        for stem in ("iris", "orchard", "messy", "commas", "wine", "numbers", "several")
    )
    yield "train", document(*train(IRIS, iris, validate="auto", **SMALL))
    yield "train orchard", document(*train(ORCHARD, orchard, validate=2))
    yield "train messy", document(*train(paths["messy"], messy, **SMALL))
    yield "train messy, printed", good(*train(paths["messy"], messy, validate="auto", **SMALL))
    yield "train commas", document(*train(paths["commas"], commas, **SMALL))
    subgradient = ("--algorithm", "subgradient", *settings("n_hidden=12", "max_iter=300"))
    yield "train subgradient", document(*train(paths["wine"], wine, *subgradient, validate=2))
    yield "train regression", document(*train(paths["diabetes"], numbers, validate=2))
    yield "train ensemble", document(*train(IRIS, several, **SMALL, n_estimators=2))
    for path, data in (
        (iris, IRIS),
        (messy, paths["messy"]),
        (commas, paths["commas"]),
        (wine, paths["wine"]),
        (several, IRIS),
    ):
        options = ("--probabilities", "--radius")
        yield f"predict {path.stem}", document("predict", path, data, *options)["predictions"][::5]
    found = document("predict", numbers, paths["diabetes"], "--intervals")
    yield "predict numbers", found["predictions"][::5]
    yield "evaluate", document("evaluate", messy, paths["messy"])
    yield "evaluate, printed", good("evaluate", orchard, ORCHARD)
    yield "evaluate numbers", document("evaluate", numbers, paths["diabetes"])
    yield "explain", document("explain", messy, paths["messy"], "--row", 2, "--row", 7)
    yield "explain orchard", document("explain", orchard, ORCHARD)
    yield "rules", document("rules", messy, paths["messy"])
    yield "certify", document("certify", messy, paths["messy"], "--eps", 0.1)
    yield "certify, printed", good("certify", iris, IRIS)
    yield "compare", document("compare", IRIS, "--models", "logistic,forest", "--validate", 2)
    yield "report page", document("report", messy, paths["messy"], "-o", folder / "report.html")


def _without_variable(found):
    if isinstance(found, dict):
        return {
            name: _without_variable(value)
            for name, value in found.items()
            if not VARIABLE.search(name)
        }
    if isinstance(found, list):
        return [_without_variable(value) for value in found]
    return float(f"{found:.7g}") if isinstance(found, float) else found


def assert_same(found, expected, where=""):
    """Compare words exactly, and numbers, those in text too, with a tolerance."""
    if isinstance(expected, dict):
        assert sorted(found) == sorted(expected), where
        for name, value in expected.items():
            assert_same(found[name], value, f"{where} / {name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for k, value in enumerate(expected):
            assert_same(found[k], value, f"{where} / {k}")
    elif isinstance(expected, str):
        assert NUMBER.sub("#", found) == NUMBER.sub("#", expected), where
        assert_same(*([*map(_number, NUMBER.findall(text))] for text in (found, expected)), where)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE), where
    else:
        assert found == expected, where


def _number(text):
    return float(text.replace(",", ""))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_commands_give_the_same_results_as_before():
    expected = json.loads(RECORDS.read_text(encoding="utf-8"))
    assert_same(records(), expected)


if __name__ == "__main__":
    from maxplus.training import monitor

    monitor._announced.set()
    RECORDS.write_text(json.dumps(records(), ensure_ascii=False, indent=0) + "\n", encoding="utf-8")

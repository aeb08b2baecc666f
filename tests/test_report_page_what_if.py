"""What the page computes after an edit is what Python computes, to the last printed digit."""

import math

import numpy as np
import pytest
from scipy.special import softmax

from clinics import patients, prepared, trained
from maxplus.explain import decisive_paths
from maxplus.models import Committee
from maxplus.report import render_page, report_content
from maxplus.report._text import fixed, probability, short
from maxplus.tables import RawTable

pytestmark = pytest.mark.slow

# Sets the fields of one row after the other, as fingers would, and reads what the page says.
EDIT = """
const byId = (id) => document.getElementById(id);
const say = (id, kind) => byId(id).dispatchEvent(new Event(kind, { bubbles: true }));
return arguments[0].map(({ place, edits }) => {
  byId("pick").selectedIndex = place;
  say("pick", "change");
  for (const [id, value] of edits) {
    const field = byId(id);
    if (field.type === "checkbox") { field.checked = value; say(id, "change"); }
    else if (field.tagName === "SELECT") {
      field.selectedIndex = [...field.options].findIndex((option) => option.text === value);
      say(id, "change");
    } else { field.value = value; say(id, "input"); }
  }
  const rows = [...byId("classes").tBodies[0].rows].map((row) => {
    const [name, ...cells] = [...row.cells];
    return [name.firstChild.textContent, ...cells.map((cell) => cell.textContent)];
  });
  const radius = [...byId("tiles").children].find((tile) =>
    tile.firstChild.textContent === "Certified radius").children[1].textContent;
  return { radius, classes: rows, verdict: byId("verdict").textContent };
});
"""
MODELS = {
    "features": {},
    "single": {"dtype": np.float32},
    "directions": {"sums": 2},
    "single, directions": {"sums": 2, "dtype": np.float32},
    "committee": {"members": 3},
    "single, committee, directions": {"members": 2, "sums": 2, "dtype": np.float32},
}


def random_edits(table, columns, rng):
    """New cells of some columns, and what fingers do in the form for them."""
    cells, doings = {}, []
    for k in rng.permutation(len(columns))[: rng.integers(1, 4)]:
        column, field = columns[k], f"column-{k}"
        lacks = column["missing"] is not None and rng.random() < 0.2
        if column["choices"] is not None:
            text = "missing" if lacks else rng.choice(column["choices"])["text"]
            doings.append((field, text))
            cells[column["name"]] = None if lacks else text
            continue
        if column["missing"] is not None:
            doings.append((f"{field}-missing", bool(lacks)))
        if lacks:
            cells[column["name"]] = None
            continue
        value = rng.uniform(column["low"], column["high"])
        text = str(round(value)) if column["whole"] else f"{value:.{rng.integers(0, 6)}f}"
        if not column["low"] <= float(text) <= column["high"]:
            text = str(column["low"])
        doings.append((field, text))
        cells[column["name"]] = text
    return cells, doings


def edited_table(table, row, cells):
    """The one row as a table of its own, with other cells."""
    new = {}
    for name, column in table.columns.items():
        cell = cells.get(name, column[row])
        if isinstance(column, np.ndarray):
            new[name] = np.array([np.nan if cell is None else float(cell)])
        else:
            new[name] = np.array(["" if cell is None else cell], object)
    return RawTable(table.name, new)


def said_by_python(clf, X, scale):
    """Texts for each row: of its radius, and of all classes, the highest score first."""
    Z = clf.decision_function(X)
    if Z.ndim == 1:
        Z = clf.model_.scores(X)
    P = softmax(Z.astype(float), axis=1)
    radius = clf.certified_radius(X, scale)
    members = clf.model_.members if isinstance(clf.model_, Committee) else [clf.model_]
    paths = [decisive_paths(own, X) for own in members]
    firsts = np.cumsum([0, *(own.n_hidden for own in members)])
    texts = []
    for n in range(len(X)):
        classes = []
        for d in np.argsort(-Z[n], kind="stable"):
            k = int(np.argmax([path.score[n, d] for path in paths]))
            own, path = members[k], paths[k]
            row, unit = path.row[n, d], path.unit[n, d]
            slope = float(own.W0[row])
            wall = -float(own.W1[row, unit]) / slope
            of = f" of member {k + 1}" if len(members) > 1 else ""
            classes.append([
                str(clf.classes_[d]), fixed(float(Z[n, d])), probability(float(P[n, d])),
                short(float(own.views(X[n : n + 1])[0, row // 2])),
                f"{'≥' if slope > 0 else '≤'} {short(wall)}", f"{unit + firsts[k]}{of}",
                ("+" if slope > 0 else "") + fixed(slope), str(path.runner_up[n, d] + firsts[k]),
                fixed(float(path.margin[n, d])),
            ])  # fmt: skip
        bound = float(radius[n])
        texts.append({"radius": fixed(bound if math.isfinite(bound) else None), "classes": classes})
    return texts


@pytest.mark.parametrize("kind", MODELS)
def test_edits_are_computed_as_python_does(browser, kind):
    pytest.importorskip("matplotlib")
    table = patients()
    clf = trained(table, **MODELS[kind])
    preparation, samples = prepared(table)
    scale = clf.certificate_scale()
    content = report_content(
        clf, samples.X, samples.y, name="patients.csv", feature_names=preparation.feature_names,
        missing=samples.missing, scale=scale,
    )  # fmt: skip
    assert (clf.model_.dtype == np.float32) == ("single" in kind)
    rng = np.random.default_rng(1)
    tasks, rows = [], []
    for place in range(len(content["rows"])):
        for n_edits in (0, 1, 2):
            cells, doings = random_edits(table, content["columns"], rng) if n_edits else ({}, [])
            tasks.append({"place": place, "edits": doings})
            rows.append(edited_table(table, place, cells))
    X = np.concatenate([preparation.encoding.encode(row).X for row in rows])
    browser.show(render_page(content))
    found = browser.run(EDIT, tasks)
    expected = said_by_python(clf, X, scale)
    for page, python in zip(found, expected, strict=True):
        assert page["radius"] == python["radius"]
        # The deciding view's name is the third; it is compared in the content's own tests.
        assert [line[:3] + line[4:] for line in page["classes"]] == python["classes"]
    changed = {tuple(line[0] for line in page["classes"]) for page in found}
    assert len(changed) == 2

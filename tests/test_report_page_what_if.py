"""Results of the what-if form equal those of Python."""

import math
from decimal import Decimal

import numpy as np
import pytest
from scipy.special import softmax

from clinics import patients, prepared, trained
from maxplus.explain import active_paths, contributions
from maxplus.models import LMM, AdditiveLMM
from maxplus.report import render_page, report_content
from maxplus.report._text import fixed, probability
from maxplus.tables import RawTable
from report_pages import short

pytestmark = pytest.mark.slow

# Edits the fields of rows, and returns the displayed results.
EDIT = """
const byId = (id) => document.getElementById(id);
const trigger = (id, kind) => byId(id).dispatchEvent(new Event(kind, { bubbles: true }));
return arguments[0].map(({ place, edits }) => {
  byId("pick").selectedIndex = place;
  trigger("pick", "change");
  for (const [id, value] of edits) {
    const field = byId(id);
    if (field.type === "checkbox") { field.checked = value; trigger(id, "change"); }
    else if (field.tagName === "SELECT") {
      field.selectedIndex = [...field.options].findIndex((option) => option.text === value);
      trigger(id, "change");
    } else { field.value = value; trigger(id, "input"); }
  }
  const rows = [...byId("classes").tBodies[0].rows].map((row) => {
    const [name, ...cells] = [...row.cells];
    return [name.firstChild.textContent, ...cells.map((cell) => cell.textContent)];
  });
  const radius = [...byId("tiles").children].find((tile) =>
    tile.firstChild.textContent === "Certified radius").children[1].textContent;
  const numbers = (part) => [...(part?.rows ?? [])].map((row) => [
    row.cells[0].textContent, Number(row.cells[2].dataset.value)]);
  const reasons = numbers(byId("reasons")?.tBodies[0]), margin = numbers(byId("reasons")?.tFoot);
  return { radius, reasons, margin, classes: rows, announcement: byId("announcement").textContent };
});
"""
MODELS = {
    "network": {},
    "single, network": {"dtype": np.float32},
    "sum": {"is_sum": True},
    "single, sum": {"is_sum": True, "dtype": np.float32},
}


def random_edits(table, columns, rng):
    """Return new cells of some columns, and edit the form accordingly."""
    cells, edits = {}, []
    for k in rng.permutation(len(columns))[: rng.integers(1, 4)]:
        column, field = columns[k], f"column-{k}"
        is_missing = column["missing"] is not None and rng.random() < 0.2
        if column["choices"] is not None:
            text = "missing" if is_missing else rng.choice(column["choices"])["text"]
            edits.append((field, text))
            cells[column["name"]] = None if is_missing else text
            continue
        if column["missing"] is not None:
            edits.append((f"{field}-missing", bool(is_missing)))
        if is_missing:
            cells[column["name"]] = None
            continue
        value = rng.uniform(column["low"], column["high"])
        text = str(round(value)) if column["whole"] else f"{value:.{rng.integers(0, 6)}f}"
        if not column["low"] <= float(text) <= column["high"]:
            text = str(column["low"])
        edits.append((field, text))
        cells[column["name"]] = text
    return cells, edits


def edited_table(table, row, cells):
    """Return a table of one row with edited cells."""
    new = {}
    for name, column in table.columns.items():
        cell = cells.get(name, column[row])
        if isinstance(column, np.ndarray):
            new[name] = np.array([np.nan if cell is None else float(cell)])
        else:
            new[name] = np.array(["" if cell is None else cell], object)
    return RawTable(table.name, new)


def texts_of_python(clf, X, scale):
    """Return the texts of the radius and of all classes for each row."""
    Z = clf.decision_function(X)
    if Z.ndim == 1:
        Z = clf.model_.scores(X)
    P = softmax(Z.astype(float), axis=1)
    radius = clf.certified_radius(X, scale)
    path = active_paths(clf.model_, X) if isinstance(clf.model_, LMM) else None
    texts = []
    for n in range(len(X)):
        classes = []
        for d in np.argsort(-Z[n], kind="stable"):
            line = [str(clf.classes_[d]), fixed(float(Z[n, d])), probability(float(P[n, d]))]
            if path is not None:
                row, unit = path.row[n, d], path.unit[n, d]
                slope = float(clf.model_.W0[row])
                wall = -float(clf.model_.W1[row, unit]) / slope
                line += [
                    short(float(X[n, row // 2].astype(clf.model_.dtype))),
                    f"{'≥' if slope > 0 else '≤'} {short(wall)}",
                    str(unit),
                    ("+" if slope > 0 else "") + fixed(slope),
                    str(path.runner_up[n, d]),
                    fixed(float(path.margin[n, d])),
                ]
            classes.append(line)
        bound = float(radius[n])
        texts.append({"radius": fixed(bound if math.isfinite(bound) else None), "classes": classes})
    return texts


def check_radius(page, python):
    """Compare radii up to the tolerance of both searches, 1e-6."""
    if page != python:
        a, b = (Decimal(text.replace("−", "-")) for text in (page, python))
        last_place = Decimal((0, (1,), max(a.as_tuple().exponent, b.as_tuple().exponent)))
        assert abs(a - b) <= last_place, (page, python)


def check_reasons(clf, X, found):
    """Assert that the contributions equal those of Python and sum to the margin."""
    expected = contributions(clf.model_, X, clf.term_means_, domain=clf._domain(None, None))
    for n, page in enumerate(found):
        names = [name for name, _ in page["reasons"]]
        amounts = np.array([amount for _, amount in page["reasons"]])
        order = expected.order[n][:12]
        size = np.abs(expected.contribution[n]).sum() + 1.0
        np.testing.assert_allclose(
            amounts[: len(order)], expected.contribution[n][order], atol=1e-6 * size
        )
        assert set(names[: len(order)]) <= set(expected.group_names)
        assert names[-1] == "mean of the training rows"
        ((_, margin),) = page["margin"]
        np.testing.assert_allclose(margin, expected.margin[n], atol=1e-6 * size)
        np.testing.assert_allclose(amounts.sum(), margin, atol=1e-6 * size)


@pytest.mark.parametrize("kind", MODELS)
def test_edited_rows_equal_python(browser, kind):
    pytest.importorskip("matplotlib")
    table = patients()
    clf = trained(table, **MODELS[kind])
    encoder, samples = prepared(table)
    scale = clf.certificate_scale()
    content = report_content(
        clf,
        samples.X,
        samples.y,
        name="patients.csv",
        feature_names=encoder.feature_names,
        missing=samples.missing,
        scale=scale,
    )
    assert (clf.model_.dtype == np.float32) == ("single" in kind)
    rng = np.random.default_rng(1)
    tasks, rows = [], []
    for place in range(len(content["rows"])):
        for n_edits in (0, 1, 2):
            cells, edits = random_edits(table, content["columns"], rng) if n_edits else ({}, [])
            tasks.append({"place": place, "edits": edits})
            rows.append(edited_table(table, place, cells))
    X = np.concatenate([encoder.encode(row).X for row in rows])
    browser.show(render_page(content))
    found = browser.run(EDIT, tasks)
    expected = texts_of_python(clf, X, scale)
    for page, python in zip(found, expected, strict=True):
        check_radius(page["radius"], python["radius"])
        # The deciding feature's name is the third; it is compared in the content's own tests.
        assert [line[:3] + line[4:] for line in page["classes"]] == python["classes"]
    if isinstance(clf.model_, AdditiveLMM):
        check_reasons(clf, X, found)
    changed = {tuple(line[0] for line in page["classes"]) for page in found}
    assert len(changed) == 2

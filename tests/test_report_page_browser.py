"""The report page in Chromium: explorer, what-if form, layout, dark mode and printing."""

import base64
import io
import re

import numpy as np
import pytest

from maxplus.report import render_page
from maxplus.report._text import fixed, probability
from report_pages import ATTACK, REPORTS, clinic_report, digits_report, renamed, short

pytestmark = pytest.mark.slow
pytest.importorskip("matplotlib")

# Calls functions of the script, appended to it.
CALL = (
    "return arguments[0].map((value) => [fixed(value), short(value), probability(Math.abs(value))])"
)


@pytest.mark.parametrize("name", REPORTS)
def test_page_opens_without_console_messages(browser, name):
    browser.open(REPORTS[name]())
    images = browser.run("return [...document.images].map(image => image.naturalWidth)")
    assert all(width > 0 for width in images)
    shown = browser.run("return document.getElementById('explored')?.hidden")
    assert shown is (None if name == "regression" else False)


def test_number_formatting_equals_python(browser):
    rng = np.random.default_rng(0)
    values = [*rng.normal(size=300), *10.0 ** rng.uniform(-9, 9, 300), *rng.uniform(0, 1, 300)]
    edges = "0 -0 999.5 999999.9999 1e6 0.001 -2e-5 0.9985 0.9995 0.99900001 1 2.5 1234567"
    values += map(float, edges.split())
    script = re.search(
        r'<script type="module">(.*?)// Tables that sort', render_page(clinic_report()), re.DOTALL
    )[1]
    found = browser.run(script + CALL, [float(value) for value in values])
    for value, texts in zip(values, found, strict=True):
        number = float(value)
        assert texts == [fixed(number), short(number), probability(abs(number))], value


def assert_shown(browser, row):
    result = "correct" if row["label"] == row["predicted"] else "wrong"
    assert browser.announcement == (
        f"{row['id']} (row {row['row']}) is {row['label']} and is predicted {row['predicted']}: "
        f"{result}."
    )
    tiles = browser.find("#tiles").text
    best, flip = row["classes"][0], row["counterfactual"]
    assert fixed(row["radius"]) in tiles
    assert f"is {short(best['value'])}; the active wall of box {best['unit']} is" in tiles
    if flip:
        assert f"changing it from {flip['from']} to {flip['to']} gives {flip['becomes']}" in tiles
    else:
        assert "no change of one column flips" in tiles
    assert browser.column("classes", 1) == [fixed(entry["score"]) for entry in row["classes"]]


def test_explorer_shows_selected_row(browser):
    rows = clinic_report()["rows"]
    browser.open(clinic_report())
    assert_shown(browser, rows[0])
    # The first row follows the last one.
    for button, k in (("#next", 1), ("#previous", 0), ("#previous", -1), ("#next", 0)):
        browser.find(button).click()
        assert_shown(browser, rows[k])


def retype(field, keys, text):
    field.send_keys(keys.CONTROL, "a")
    field.send_keys(text or keys.BACKSPACE)


def test_edit_and_reset(browser, keys):
    report = clinic_report()
    report["rows"][0]["missing"] = []
    browser.open(report)
    before = browser.find("#tiles").text
    assert browser.find("#reset").get_property("disabled")
    retype(browser.find("#column-1"), keys, str(report["columns"][1]["high"]))
    assert "With dose changed" in browser.announcement
    assert "it was" in browser.find("#tiles").text
    assert "edited" in browser.find("[data-column='1']").get_attribute("class")
    browser.find("#column-0-missing").click()
    assert "With dose, age changed" in browser.announcement
    assert browser.find("#column-0").get_property("disabled")
    browser.find("#reset").click()
    assert browser.find("#tiles").text == before
    assert browser.run("return document.querySelectorAll('.edited').length") == 0


def test_numbers_outside_the_training_range_are_rejected(browser, keys):
    report = clinic_report()
    column = report["columns"][1]
    browser.open(report)
    field, before = browser.find("#column-1"), browser.find("#tiles").text
    own = report["rows"][0]["values"]
    used = f"; {short(own[column['first']])} is used"
    retype(field, keys, "")
    assert browser.find("#column-1-problem").text == "enter a number" + used
    retype(field, keys, "1000")
    words = f"enter a number from {short(column['low'])} to {short(column['high'])}, as in training"
    assert browser.find("#column-1-problem").text == words + used
    assert field.get_attribute("aria-invalid") == "true"
    assert browser.find("#tiles").text == before
    retype(browser.find("#column-0"), keys, "41.5")
    assert "enter a whole number" in browser.find("#column-0-problem").text
    retype(field, keys, str(own[column["first"]]))
    assert browser.find("#column-1-problem").text == ""
    assert browser.find("#tiles").text == before


def test_unimportant_columns_are_hidden(browser):
    """The 24 most important columns, here unused ones, and the deciding columns are shown."""
    report = clinic_report()
    P, names = len(report["features"]), [f"unused {k}" for k in range(30)]
    number = {"choices": None, "low": 0.0, "high": 1.0, "whole": False, "rest": [], "missing": None}
    report["columns"] += [{"name": name, "first": P + k, **number} for k, name in enumerate(names)]
    report["features"] += names
    report["importances"]["columns"] = [{"name": name, "share": 0.01} for name in names]
    for row in report["rows"]:
        row["values"] += [0.5] * 30
    browser.open(report)
    shown = browser.run(
        "return [...document.querySelectorAll('.field')].filter(line => !line.hidden)"
        ".map(line => Number(line.dataset.column))"
    )
    deciding = [entry["feature_index"] for entry in report["rows"][0]["classes"]]
    firsts = [column["first"] for column in report["columns"]]
    places = set((np.searchsorted(firsts, deciding, side="right") - 1).tolist())
    assert places <= set(shown)
    assert len(shown) == 24 + len(places)
    browser.find(".more").click()
    assert browser.run("return document.querySelectorAll('.field[hidden]').length") == 0


def test_page_is_usable_by_keyboard(browser, keys):
    browser.open(clinic_report())
    browser.press(keys.TAB)
    assert browser.run("return document.activeElement.className") == "skip"
    assert browser.run("return document.activeElement.getBoundingClientRect().left") >= 0
    browser.press(keys.ENTER)
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    for target in ("pick", "column-3"):
        presses = 0
        while browser.focus != target:
            browser.press(keys.TAB)
            assert browser.run(outline) == "solid"
            presses += 1
            assert presses < 90
        before = browser.announcement
        browser.press(keys.ARROW_DOWN)
        if target == "pick":
            assert browser.announcement != before
            browser.press(keys.ARROW_UP)
    assert browser.focus == "column-3"  # An edit does not take the focus away.


def test_row_links_open_the_explorer(browser, keys):
    report = clinic_report()
    browser.open(report)
    number = report["listed"]["least_confident"][3]["row"]
    link = browser.find(f"#least-sure tr[data-row='{number}'] a")
    link.send_keys(keys.ENTER)
    assert f"(row {number})" in browser.announcement
    assert browser.focus == "pick"
    top = "return document.getElementById('explorer').getBoundingClientRect().top"
    assert 0 <= browser.run(top) < 800
    other = report["listed"]["least_confident"][0]["row"]
    browser.find(f"#least-sure tr[data-row='{other}'] td:nth-child(3)").click()
    assert f"(row {other})" in browser.announcement


def test_url_fragment_selects_row(browser):
    browser.open(clinic_report(), address="#row-5")
    assert "(row 5)" in browser.announcement
    browser.open(clinic_report(), address="#row-999")
    assert "(row 1)" in browser.announcement


def test_tables_sort_by_mouse_and_keyboard(browser, keys):
    report = clinic_report()
    rows = report["listed"]["least_confident"][:4]
    for row, number, share in zip(rows, (1, 10, 2, 3), (0.5, None, 0.6, 0.7), strict=True):
        row |= {"row": number, "probability": share}
    report["listed"]["least_confident"] = rows
    browser.open(report)
    assert browser.column("least-sure", 0) == ["1", "10", "2", "3"]
    heading = browser.find("#least-sure th:nth-child(5)")
    button = browser.find("#least-sure th:nth-child(5) button")
    assert heading.get_attribute("aria-sort") == "ascending"
    button.click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert browser.column("least-sure", 0) == ["3", "2", "1", "10"]  # Unknown values stay last.
    browser.find("#least-sure th:nth-child(1) button").send_keys(keys.ENTER)
    assert browser.column("least-sure", 0) == ["1", "2", "3", "10"]  # By value, not as text.
    assert heading.get_attribute("aria-sort") is None
    marked = browser.run("return document.querySelectorAll('#least-sure th[aria-sort]').length")
    assert marked == 1


@pytest.mark.parametrize("name", ["complete", "sum", "pictures", "regression", "attack"])
def test_narrow_screen_has_no_horizontal_scrolling(browser, name):
    report = renamed(REPORTS[name](), lambda text: text if name != "attack" else text * 12)
    browser.open(report, width=380)
    browser.run("for (const part of document.querySelectorAll('details')) part.open = true")
    page = "document.documentElement"
    wide, seen, window = browser.run(f"return [{page}.scrollWidth, {page}.clientWidth, innerWidth]")
    assert wide <= seen <= window == 380


@pytest.mark.parametrize("name", ["complete", "sum", "unlabelled", "regression"])
@pytest.mark.parametrize("width", [400, 1400])
def test_tables_do_not_scroll_sideways(browser, name, width):
    labels = {"ill": "recurrence-events-of-a-kind", "well": "no-recurrence-events"}
    report = renamed(REPORTS[name](), lambda text: labels.get(text, text))
    browser.open(report, width=width)
    browser.run("for (const part of document.querySelectorAll('details')) part.open = true")
    wide = "[...document.querySelectorAll('.scroll')].filter(b => b.scrollWidth > b.clientWidth)"
    assert browser.run(f"return {wide}.map(box => box.ariaLabel)") == []
    if width == 400 and report.get("sources"):
        # Each cell has a label, the name of its table.
        label = "getComputedStyle(document.querySelector('.stacked td'), '::before').content"
        assert browser.run(f"return {label}") == f'"{report["sources"][0]["title"]}"'


def test_dark_mode_inverts_background_and_figures(browser):
    image = pytest.importorskip("matplotlib.image")
    figure_brightness, page_brightness = [], []
    for scheme in ("dark", "light"):
        browser.open(clinic_report(), scheme=scheme)
        figure = browser.find("#figure-reliability img")
        shot = image.imread(io.BytesIO(figure.screenshot_as_png))[..., :3]
        figure_brightness.append(np.median(shot))
        colour = browser.style("body", "background-color")
        page_brightness.append(sum(map(int, re.findall(r"\d+", colour)[:3])))
        assert np.ptp(shot) > 0.5
    assert figure_brightness[0] < 0.25 < 0.9 < figure_brightness[1]
    assert page_brightness[0] < 150 < 700 < page_brightness[1]


def test_explorer_of_unlabelled_rows(browser):
    report = REPORTS["unlabelled"]()
    browser.open(report)
    row = report["rows"][0]
    assert browser.announcement == f"Row {row['row']} is predicted {row['predicted']}."
    tiles = browser.find("#tiles").text
    assert "True label" not in tiles
    assert "null" not in tiles
    assert fixed(row["radius"]) in tiles
    field = browser.find("#input input[type=number], #input input")
    assert field.is_enabled()
    assert browser.run("return document.getElementById('pick').options[0].text") == (
        f"Row {row['row']}: {row['predicted']}"
    )


def test_print_layout_has_full_tables_and_no_controls(browser):
    browser.open(clinic_report())
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not browser.find(".controls").is_displayed()
        cut = browser.run(
            "return [...document.querySelectorAll('.scroll')]"
            ".filter(box => getComputedStyle(box).overflowY !== 'visible').length"
        )
        assert cut == 0
        pdf = browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
        assert base64.b64decode(pdf["data"]).startswith(b"%PDF")
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("policy", [True, False])
def test_hostile_text_is_displayed_and_not_executed(browser, policy):
    """Escaping is sufficient without the security policy."""
    meta = re.compile("<meta http-equiv[^>]*>")
    report = renamed(clinic_report(), lambda text: ATTACK + text)
    browser.open(report, change=lambda page: page if policy else meta.sub("", page))
    images = browser.run("return document.images.length")
    for step in ("#next", "#previous", "#least-sure a"):
        browser.find(step).click()
        assert browser.run("return [window.broken ?? 0, document.images.length]") == [0, images]
    browser.find("#column-3").send_keys("south")
    assert browser.run("return [window.broken ?? 0, document.images.length]") == [0, images]
    assert ATTACK in browser.announcement
    assert ATTACK in browser.find("#tiles").text
    assert any(ATTACK in name for name in browser.column("classes", 0))


def test_security_policy_blocks_injected_scripts(session):
    session.open(clinic_report())
    session.run(
        "document.body.insertAdjacentHTML('beforeend', arguments[0])",
        "<img src=x onerror='window.broken = 1'><img src='data:,' onerror='window.broken = 2'>",
    )
    script = "setTimeout(arguments[0], 200, window.broken)"
    assert session.driver.execute_async_script(script) is None
    messages = [entry["message"] for entry in session.console_messages()]
    assert any("Content Security Policy" in message for message in messages)


def test_images_mark_the_active_pixel(browser):
    report = digits_report()
    browser.open(report)
    assert "pixels" in browser.find("#explored .note").text
    row = report["rows"][0]
    labels = browser.run("return [...document.querySelectorAll('canvas')].map(c => c.ariaLabel)")
    assert labels == ["Row 1 as a picture"] + [
        f"Centre of box {entry['unit']}, the best of class {entry['class']}"
        for entry in row["classes"]
    ]
    # In the box of the second class, only the ring around its deciding pixel is not grey.
    orange = browser.run(
        "const canvas = document.querySelectorAll('canvas')[2];"
        "const { data } = canvas.getContext('2d').getImageData(0, 0, 224, 224);"
        "const found = []; for (let i = 0; i < data.length; i += 4)"
        "  if (data[i] > data[i + 2] + 100) found.push(i / 4); return found"
    )
    where = np.column_stack(np.divmod(orange, 224))
    y, x = np.divmod(row["classes"][1]["feature_index"], 8)
    assert len(where) > 60
    middle = (where.min(axis=0) + where.max(axis=0)) / 2
    np.testing.assert_allclose(middle, [28 * (y + 0.5), 28 * (x + 0.5)], atol=3)


def test_values_are_listed_if_editing_is_disabled(browser):
    report = clinic_report() | {
        "network": None,
        "columns": [],
        "disabled_reason": "It is too large.",
    }
    n_features = len(report["features"])
    report["features"] += [f"further {k}" for k in range(50 - n_features)]
    for row in report["rows"]:
        row["values"] = [i / 4 for i in range(50)]
        row["classes"][0] |= {"feature": "further", "feature_index": 44, "value": 11.0}
        row["classes"][1] |= {"feature": "age", "feature_index": 0}
    browser.open(report)
    assert "It is too large." in browser.find("#explored .note").text
    assert browser.run("return document.querySelectorAll('.values div').length") == 31
    assert browser.run("return document.querySelectorAll('.values .deciding').length") == 2
    text = browser.find("#input").text
    assert "19 more features" in text
    assert f"further {44 - n_features}\n11" in text

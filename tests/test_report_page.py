"""The report page: text stays text, nothing is loaded, and a browser shows what it should."""

import base64
import copy
import hashlib
import io
import json
import math
import re
import shutil
from html.parser import HTMLParser

import jinja2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxplus.report import render_page, report_content
from maxplus.report._text import apart, fixed, percent, plural, probability
from maxplus.report.templates import render

pytestmark = pytest.mark.slow

CLASSES = ["setosa", "versicolor", "virginica"]
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">'
    '<rect width="40" height="20" fill="green"/></svg>'
)
ATTACK = '</script></style><!-- <img src=x onerror="window.broken = 1">\' & äß 数'
VOID = {"meta", "link", "img", "br", "input", "hr"}
LOADING = {"src", "href", "srcset", "data", "poster", "action", "background", "formaction"}


def make_row(n, label, predicted, n_features=4):
    """A row of the explorer whose numbers all differ."""
    return {
        "row": n, "label": label, "predicted": predicted, "radius": 0.1 + n,
        "values": [n + i / 10 for i in range(n_features)],
        "classes": [
            {"class": name, "score": (2.0 if name == predicted else 1.0) - d / 10,
             "probability": 0.5 - d / 10, "unit": n + d, "prototype": None if d else 7,
             "feature": f"feature {d}", "feature_index": d, "value": 1.5, "slope": -4.0,
             "runner_up": None if d else 3, "margin": None if d else 0.25}
            for d, name in enumerate(CLASSES)
        ],
        "flip": None if n % 2 else
            {"feature": "feature 1", "value": 1.0, "new_value": 1.5, "becomes": CLASSES[2]},
    }  # fmt: skip


def make_report():
    """A complete report: four rows, of which the explorer holds three."""
    return {
        "title": "Iris", "made_by": "maxplus 0.1.0", "made_at": "2025-03-01",
        "model": {"kind": "LMMClassifier", "n_hidden": 20, "n_features": 4, "classes": CLASSES,
                  "parameters": {"slope": "4"}, "training": {"iterations": "500"}},
        "certificate": {"max_loss": 0.44, "threshold": math.log(2), "holds": True,
                        "text": "All is right."},
        "data": {"name": "iris", "n_rows": 4, "n_shown": 3},
        "scores": {"accuracy": 0.75, "mean_loss": 0.2, "max_loss": 1.9, "median_radius": 0.3},
        "figures": [{"id": "loss", "title": "Loss", "alt": "A falling curve", "svg": SVG}],
        "confusion": {"labels": CLASSES, "counts": [[2, 0, 0], [0, 1, 1], [0, 0, 0]]},
        "certified": {"eps": [0.0, 0.5], "accuracy": [0.75, 0.25]},
        "worst": [
            {"row": n, "label": label, "predicted": CLASSES[2], "loss": loss, "probability": p}
            for n, label, loss, p in [(1, "versicolor", 1.9, 0.15), (10, "virginica", None, None),
                                      (2, "setosa", 0.2, 0.82), (0, "setosa", 0.5, 0.61)]
        ],
        "features": [f"feature {i}" for i in range(4)],
        "rows": [make_row(0, *CLASSES[:2]), make_row(1, *CLASSES[1:]),
                 make_row(2, *CLASSES[:1] * 2)],
        "units": {str(unit): [0.0, 1.0, 2.0, 3.0] for unit in range(5)},
    }  # fmt: skip


def with_pictures():
    return {**make_report(), "image_shape": [2, 2]}


def renamed(value, change):
    """The same report with every text changed, but for the keys."""
    if isinstance(value, dict):
        return {key: renamed(entry, change) for key, entry in value.items()}
    if isinstance(value, list):
        return [renamed(entry, change) for entry in value]
    return change(value) if isinstance(value, str) else value


class Page(HTMLParser):
    """What a browser would make of the page: tags in order, attributes, texts per tag."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.open = [], [], {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def values(self, name):
        return [value for _, key, value in self.attributes if key == name]

    @property
    def data(self):
        return json.loads(self.texts["script"][0])


def without(*keys):
    return {key: value for key, value in make_report().items() if key not in keys}


def emptied():
    report = {**make_report(), "figures": [], "worst": [], "rows": [], "features": []}
    report["confusion"] = {"labels": [], "counts": []}
    report["certified"] = {"eps": [], "accuracy": []}
    report["model"] = {**report["model"], "parameters": {}, "training": {}}
    return report


def unknown():
    """Every float is unknown."""
    report = json.loads(json.dumps(make_report()), parse_float=lambda text: None)
    report["certificate"] = {**report["certificate"], "threshold": math.log(2), "holds": None}
    report["certified"] = {"eps": [], "accuracy": []}
    return report


REPORTS = {
    "complete": make_report,
    "pictures": with_pictures,
    "without optional keys": lambda: without("made_at", "units"),
    "empty": emptied,
    "unknown": unknown,
    "attack": lambda: renamed(make_report(), lambda text: ATTACK),
}


@pytest.mark.parametrize("name", REPORTS)
def test_tags_are_balanced_and_ids_unique(name):
    page = Page(render_page(REPORTS[name]()))
    assert page.open == []
    assert page.tags[0] == "html"
    assert len(set(page.values("id"))) == len(page.values("id"))


@pytest.mark.parametrize("name", REPORTS)
def test_nothing_is_loaded(name):
    page = Page(render_page(REPORTS[name]()))
    for _, key, value in page.attributes:
        if key in LOADING:
            assert value.startswith(("#", "data:")), value
    (style,) = page.texts["style"]
    assert not re.search(r"url\(|@import|image-set", style)
    script = page.texts["script"][1]
    assert not re.search(r"fetch|XMLHttpRequest|import\b|WebSocket|innerHTML|eval", script)
    assert "default-src 'none'" in "".join(page.values("content"))


def test_the_policy_names_the_script():
    page = Page(render_page(make_report()))
    digest = hashlib.sha256(page.texts["script"][1].encode()).digest()
    assert f"'sha256-{base64.b64encode(digest).decode()}'" in "".join(page.values("content"))


def assert_same_structure(text):
    """Whatever a text says, the page has the same tags and attributes as for a plain word."""
    plain = Page(render_page(renamed(make_report(), lambda old: "x")))
    page = Page(render_page(renamed(make_report(), lambda old: text)))
    assert page.tags == plain.tags
    assert [a[:2] for a in page.attributes] == [a[:2] for a in plain.attributes]
    assert "<" not in page.texts["script"][0]
    assert page.data["rows"][0]["label"] == text
    assert page.data["features"] == [text] * 4


@pytest.mark.parametrize(
    "text", [ATTACK, "<!--<script>", "</script x", "]]>", "$title ${data}", "\\u003c/script>"]
)
def test_hostile_names_stay_text(text):
    assert_same_structure(text)
    page = Page(render_page(renamed(make_report(), lambda old: text)))
    assert "".join(page.texts["h1"]) == text
    assert text in page.values("alt")


@settings(max_examples=30, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_any_name_stays_text(text):
    assert_same_structure(text)


def test_numbers_without_json_are_unknown():
    report = make_report()
    report["rows"][0]["radius"] = math.inf
    report["rows"][0]["values"][1] = math.nan
    report["scores"]["median_radius"] = math.inf
    before = copy.deepcopy(report["rows"][1])
    row = Page(render_page(report)).data["rows"][0]
    assert row["radius"] is None
    assert row["values"][:2] == [0.0, None]
    assert report["rows"][1] == before


@pytest.mark.parametrize(
    ("holds", "loss", "words"),
    [
        (True, 0.44, ["The certificate holds", "0.440", "is below log 2"]),
        (False, 1.5, ["The certificate does not hold", "1.500", "is not below log 2"]),
        (False, 0.693148, ["0.693148", "0.693147"]),
        (None, None, ["Whether the certificate holds is unknown", "log 2 is 0.693"]),
    ],
)
def test_the_certificate_in_plain_words(holds, loss, words):
    report = make_report()
    report["certificate"] |= {"holds": holds, "max_loss": loss}
    page = render_page(report)
    for word in words:
        assert word in page


def test_the_page_says_how_much_of_the_data_it_holds():
    report = make_report()
    assert "3 of the 4 rows can be looked at" in render_page(report)
    report["data"]["n_rows"] = 3
    assert "All 3 rows can be looked at" in render_page(report)
    assert "No rows were kept" in render_page(emptied())


def test_worst_samples_are_in_order_and_lead_to_rows_that_are_there():
    page = render_page(make_report())
    table = page[page.index('id="worst"') :]
    found = re.findall(r'data-value="\d+">(?:<a href="#row-(\d+)">)?(\d+)', table)
    assert found == [("1", "1"), ("0", "0"), ("2", "2"), ("", "10")]


def test_figures_are_images_of_their_own():
    page = Page(render_page(make_report()))
    (source,) = page.values("src")
    assert base64.b64decode(source.removeprefix("data:image/svg+xml;base64,")).decode() == SVG
    assert "A falling curve" in page.values("alt")


def test_rounding_never_claims_certainty():
    assert [percent(p) for p in (1.0, 0.99999, 0.5, 1e-9, 0.0, None)] == [
        "100.0 %", ">99.9 %", "50.0 %", "<0.1 %", "0.0 %", "–",
    ]  # fmt: skip
    assert [probability(p) for p in (1.0, 0.99999, 0.5, 1e-9, 0.0, None)] == [
        "1.000", ">0.999", "0.500", "<0.001", "0.000", "–",
    ]  # fmt: skip
    assert [fixed(x) for x in (0.0, -1.25, 1234.5, 1e-7, -1e9, None)] == [
        "0.000", "−1.250", "1,234.500", "1.00e−07", "−1.00e+09", "–",
    ]  # fmt: skip
    assert apart(0.69312, 0.69314) == ("0.69312", "0.69314")
    assert apart(1.0, 1.0) == ("1.000000000", "1.000000000")
    assert [plural(1, "row"), plural(2000, "row"), plural(3, "class")] == [
        "1 row", "2,000 rows", "3 classes",
    ]  # fmt: skip


def test_another_package_s_page_can_extend_the_base(tmp_path, monkeypatch):
    """Its words stay text, and without a script of its own none may run."""
    (tmp_path / "neighbour" / "assets").mkdir(parents=True)
    (tmp_path / "neighbour" / "__init__.py").touch()
    (tmp_path / "neighbour" / "assets" / "short.html").write_text(
        '{% extends "base.html" %}{% from "tables.html" import number %}'
        '{% set sections = [("one", "One", number(0.5, words))] %}'
        "{% block footer %}{{ words }}{% endblock %}"
    )
    monkeypatch.syspath_prepend(tmp_path)
    page = Page(render("short.html", "neighbour", title=ATTACK, words=ATTACK))
    assert page.texts["h1"] == page.texts["td"] == page.texts["footer"] == [ATTACK]
    assert "script" not in page.tags
    assert "script-src" not in "".join(page.values("content"))
    with pytest.raises(jinja2.UndefinedError, match="words"):
        render("short.html", "neighbour", title="a template's slip")


# In a browser. One session serves all tests; each opens a page of its own.

SWITCHES = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


class Browser:
    """Headless Chromium with a few words for what the tests do."""

    def __init__(self, driver, folder):
        self.driver, self.folder = driver, folder

    def open(self, report, change=lambda page: page, address="", width=1200, scheme="light"):
        """A new page; what the browser complained about is asked for by `complaints`."""
        path = self.folder / "page.html"
        path.write_text(change(render_page(report)), encoding="utf-8")
        self.driver.get("about:blank")  # else an address that differs in its # only is no new page
        self.complaints()
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False},
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        self.driver.get(path.as_uri() + address)

    def run(self, script, *args):
        return self.driver.execute_script(script, *args)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def column(self, table, number):
        """Texts of a column, from top to bottom."""
        return self.run(
            "return [...document.getElementById(arguments[0]).tBodies[0].rows]"
            ".map(row => row.cells[arguments[1]].textContent)", table, number,
        )  # fmt: skip

    def style(self, selector, name):
        return self.find(selector).value_of_css_property(name)

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def complaints(self):
        return self.driver.get_log("browser")

    @property
    def verdict(self):
        return self.run("return document.getElementById('verdict').textContent")

    @property
    def focus(self):
        return self.run("return document.activeElement.id")


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and chromedriver):
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=chromedriver)
    driver = webdriver.Chrome(options=options, service=service)
    yield Browser(driver, tmp_path_factory.mktemp("pages"))
    driver.quit()


@pytest.fixture
def browser(session):
    """The session, which must have nothing to complain about after a test."""
    yield session
    assert session.complaints() == []


@pytest.fixture
def keys(session):
    from selenium.webdriver.common.keys import Keys

    return Keys


@pytest.mark.parametrize("name", REPORTS)
def test_opens_quietly(browser, name):
    browser.open(REPORTS[name]())
    images = browser.run("return [...document.images].map(image => image.naturalWidth)")
    assert images == ([] if name == "empty" else [0] if name == "attack" else [40])
    shown = browser.run("return document.getElementById('explored')?.hidden")
    assert shown is (None if name == "empty" else False)


def test_the_explorer_shows_the_picked_row(browser):
    browser.open(make_report())
    assert browser.verdict == "Row 0 is setosa and is predicted versicolor: wrong."
    tiles = browser.find("#tiles").text
    for words in ("0.100", "feature 1", "from 1 to 1.5 (+0.5), makes it virginica"):
        assert words in tiles
    browser.find("#next").click()
    assert browser.verdict == "Row 1 is versicolor and is predicted virginica: wrong."
    tiles = browser.find("#tiles").text
    assert "1.100" in tiles
    assert "no change of one feature flips" in tiles
    assert browser.column("classes", 3) == ["3", "1", "2"]
    browser.find("#next").click()
    browser.find("#next").click()
    assert browser.verdict.startswith("Row 0")
    browser.find("#previous").click()
    assert browser.verdict == "Row 2 is setosa and is predicted setosa: right."


def test_keys_alone_are_enough(browser, keys):
    browser.open(make_report())
    browser.press(keys.TAB)
    assert browser.run("return document.activeElement.className") == "skip"
    assert browser.run("return document.activeElement.getBoundingClientRect().left") >= 0
    browser.press(keys.ENTER)
    seen = []
    while browser.focus != "pick" and len(seen) < 30:
        browser.press(keys.TAB)
        seen.append(browser.run("return document.activeElement.textContent"))
        outline = "return getComputedStyle(document.activeElement).outlineStyle"
        assert browser.run(outline) == "solid"
    assert "loss" in seen
    browser.press(keys.ARROW_DOWN)
    assert browser.verdict.startswith("Row 1")
    browser.press(keys.TAB)
    browser.press(keys.TAB)
    assert browser.focus == "next"
    browser.press(keys.SPACE)
    assert browser.verdict.startswith("Row 2")


def test_worst_samples_lead_to_the_explorer(browser, keys):
    browser.open(make_report())
    browser.find("#worst tr[data-row='2'] a").send_keys(keys.ENTER)
    assert browser.verdict.startswith("Row 2")
    assert browser.focus == "pick"
    top = "return document.getElementById('explorer').getBoundingClientRect().top"
    assert 0 <= browser.run(top) < 800
    browser.find("#worst tr[data-row='1'] td:nth-child(3)").click()
    assert browser.verdict.startswith("Row 1")
    browser.find("#worst tr[data-row='2'] a").click()
    assert browser.verdict.startswith("Row 2")
    browser.find("#worst tr:not([data-row])").click()
    assert browser.verdict.startswith("Row 2")


def test_an_address_can_name_the_row(browser):
    browser.open(make_report(), address="#row-1")
    assert browser.verdict.startswith("Row 1")
    browser.open(make_report(), address="#row-99")
    assert browser.verdict.startswith("Row 0")


def test_tables_sort_by_click_and_by_key(browser, keys):
    browser.open(make_report())
    assert browser.column("worst", 0) == ["1", "0", "2", "10"]
    heading = browser.find("#worst th:nth-child(4)")
    button = browser.find("#worst th:nth-child(4) button")
    assert heading.get_attribute("aria-sort") == "descending"
    button.click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert browser.column("worst", 0) == ["2", "0", "1", "10"]  # an unknown loss stays last
    browser.find("#worst th:nth-child(1) button").send_keys(keys.ENTER)
    assert browser.column("worst", 0) == ["0", "1", "2", "10"]  # by value: not 0, 1, 10, 2
    assert heading.get_attribute("aria-sort") is None
    browser.find("#worst th:nth-child(2) button").send_keys(keys.SPACE)
    assert browser.column("worst", 1) == ["setosa", "setosa", "versicolor", "virginica"]
    marked = browser.run("return document.querySelectorAll('#worst th[aria-sort]').length")
    assert marked == 1


def test_the_order_of_classes_outlasts_the_row(browser):
    browser.open(make_report())
    assert browser.column("classes", 3) == ["1", "0", "2"]
    browser.find("#classes th:nth-child(4) button").click()
    browser.find("#next").click()
    assert browser.column("classes", 3) == ["1", "2", "3"]


@pytest.mark.parametrize("name", ["complete", "pictures", "attack"])
def test_a_narrow_screen_needs_no_sideways_scrolling(browser, name):
    report = renamed(REPORTS[name](), lambda text: text if name != "attack" else text * 12)
    browser.open(report, width=380)
    browser.run("for (const part of document.querySelectorAll('details')) part.open = true")
    page = "document.documentElement"
    wide, seen, window = browser.run(f"return [{page}.scrollWidth, {page}.clientWidth, innerWidth]")
    assert wide <= seen <= window == 380


def test_dark_mode_is_dark_but_for_figures(browser):
    browser.open(make_report())
    light = browser.style("body", "background-color")
    browser.open(make_report(), scheme="dark")
    dark = browser.style("body", "background-color")
    brightness = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (dark, light)]
    assert brightness[0] < 150 < 700 < brightness[1]
    assert browser.style(".figures img", "background-color").startswith("rgba(255, 255, 255")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_there_is_something_to_see(browser, scheme):
    image = pytest.importorskip("matplotlib.image")
    browser.open(make_report(), scheme=scheme)
    shot = image.imread(io.BytesIO(browser.driver.get_screenshot_as_png()))[..., :3]
    assert np.ptp(shot) > 0.7
    colours = np.unique((8 * shot).astype(int) @ [1, 10, 100])
    assert len(colours) > 10


@pytest.mark.parametrize("policy", [True, False])
def test_an_attack_is_shown_and_not_run(browser, policy):
    """Without the policy too: escaping alone is enough."""
    meta = re.compile("<meta http-equiv[^>]*>")
    report = renamed(make_report(), lambda text: text if text == SVG else ATTACK + text)
    report["worst"] = report["worst"][:1]
    browser.open(report, change=lambda page: page if policy else meta.sub("", page))
    for step in ("#next", "#previous", "#worst a"):
        browser.find(step).click()
        assert browser.run("return [window.broken ?? 0, document.images.length]") == [0, 1]
    assert ATTACK + "virginica" in browser.verdict
    assert ATTACK + "virginica" in browser.find("#tiles").text
    assert any(ATTACK in name for name in browser.column("classes", 0))


def test_should_markup_slip_in_the_policy_stops_it(session):
    session.open(make_report())
    session.run(
        "document.body.insertAdjacentHTML('beforeend', arguments[0])",
        "<img src=x onerror='window.broken = 1'><img src='data:,' onerror='window.broken = 2'>",
    )
    assert (
        session.driver.execute_async_script("setTimeout(arguments[0], 200, window.broken)") is None
    )
    assert any("Content Security Policy" in entry["message"] for entry in session.complaints())


def test_pictures_mark_the_deciding_pixel(browser):
    browser.open(with_pictures())
    labels = browser.run(
        "return [...document.querySelectorAll('canvas')].map(canvas => canvas.ariaLabel)"
    )
    assert labels == [
        "Row 0 as a picture",
        "Centre of unit 1, the best of class versicolor",
        "Centre of unit 0, the best of class setosa",
        "Centre of unit 2, the best of class virginica",
    ]
    # Of 2 × 2 pixels feature 1 is at the top right: its ring has the colour, the rest is grey.
    orange = browser.run(
        "const canvas = document.querySelectorAll('canvas')[1];"
        "const { data } = canvas.getContext('2d').getImageData(0, 0, 224, 224);"
        "const found = []; for (let i = 0; i < data.length; i += 4)"
        "  if (data[i] > data[i + 2] + 100) found.push(i / 4); return found"
    )
    where = np.column_stack(np.divmod(orange, 224))
    assert len(where) > 100
    np.testing.assert_allclose(where.mean(axis=0), [56, 168], atol=1)


def test_values_are_listed_where_there_are_no_pictures(browser):
    report = make_report()
    for row in report["rows"]:
        row["values"] = [i / 4 for i in range(50)]
    browser.open(report)
    assert browser.run("return document.querySelectorAll('.values div').length") == 30
    assert browser.run("return document.querySelectorAll('.values .deciding').length") == 3
    assert "20 more features" in browser.find("#input").text
    assert "feature 29\n7.25" in browser.find("#input").text


def test_values_that_decide_are_listed_and_so_are_sums(browser):
    report = make_report()
    for row in report["rows"]:
        row["values"] = [i / 4 for i in range(50)]
        row["classes"][0].update(feature="0.6·age − 2·bmi", feature_index=None, value=1.25)
        row["classes"][1].update(feature="feature 44", feature_index=44)
    browser.open(report)
    assert browser.run("return document.querySelectorAll('.values div').length") == 32
    assert browser.run("return document.querySelectorAll('.values .deciding').length") == 3
    text = browser.find("#input").text
    assert "19 more features" in text
    assert "feature 44\n11" in text
    assert "0.6·age − 2·bmi\n1.25" in text


def test_content_names_the_deciding_views(seer, iris):
    pytest.importorskip("matplotlib")
    content = report_content(seer, iris.X, iris.y, name="iris", feature_names=list("abcd"))
    assert content["features"] == list("abcd")
    why = seer.explain(iris.X, feature_names=list("abcd"))
    V = seer.model_.views(iris.X)
    kinds = set()
    for n, row in enumerate(content["rows"]):
        np.testing.assert_allclose(row["values"], iris.X[n], rtol=1e-5)
        for entry in row["classes"]:
            d = list(why.class_names).index(entry["class"])
            m = int(why.paths.view[n, d])
            assert entry["unit"] == why.paths.unit[n, d]
            assert entry["feature"] == why.view_names[m]
            assert entry["value"] == pytest.approx(V[n, m])
            assert entry["feature_index"] == (m if m < 4 else None)
            kinds.add(m < 4)
    assert kinds == {True, False}
    render_page(content)

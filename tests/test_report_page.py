"""HTML of the report page: escaping, resources, order of sections, contrast."""

import base64
import copy
import functools
import hashlib
import math
import re

import jinja2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from maxplus.report import render_page
from maxplus.report._text import distinguishable, fixed, percent, plural, probability
from maxplus.report.page import render
from report_pages import ATTACK, REPORTS, Page, clinic_report, renamed

pytestmark = pytest.mark.slow
pytest.importorskip("matplotlib")

LOADING = {"src", "href", "srcset", "data", "poster", "action", "background", "formaction"}
SECTIONS = ["performance", "failures", "decides", "explorer", "certified", "mathematics"]


@functools.cache
def page_of(name):
    return Page(render_page(REPORTS[name]()))


@pytest.mark.parametrize("name", REPORTS)
def test_tags_are_balanced_and_ids_unique(name):
    page = page_of(name)
    assert page.open == []
    assert page.tags[0] == "html"
    assert len(set(page.values("id"))) == len(page.values("id"))


@pytest.mark.parametrize("name", REPORTS)
def test_page_loads_no_external_resources(name):
    page = page_of(name)
    for _, key, value in page.attributes:
        if key in LOADING:
            assert value.startswith(("#", "data:")), value
    (style,) = page.texts["style"]
    assert not re.search(r"url\(|@import|image-set", style)
    for script in page.texts.get("script", [])[1:]:
        assert not re.search(r"fetch|XMLHttpRequest|import\b|WebSocket|innerHTML|eval", script)
    assert "default-src 'none'" in "".join(page.values("content"))


def test_security_policy_allows_only_the_page_script():
    page = page_of("complete")
    digest = hashlib.sha256(page.texts["script"][1].encode()).digest()
    assert f"'sha256-{base64.b64encode(digest).decode()}'" in "".join(page.values("content"))


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("complete", ["Each score is therefore determined by one wall of one box.", "slope of"]),
        ("sum", ["The score of a class is a sum of terms", "of a column to the margin"]),
        ("regression", ["difference of two outputs", "contribution of a column to the prediction"]),
    ],
)
def test_page_describes_the_type_of_model(name, texts):
    page = " ".join(render_page(REPORTS[name]()).split())
    assert all(text in page for text in texts)
    assert ("The score of a class is a sum of terms" in page) == (name == "sum")
    assert ("The model predicts <b>the target</b>, a number" in page) == (name == "regression")


def test_regression_page_has_no_script():
    page = page_of("regression")
    assert "script" not in page.tags
    assert "script-src" not in "".join(page.values("content"))


@pytest.fixture(scope="module")
def small():
    """Return a small report."""
    report = clinic_report()
    report["rows"] = report["rows"][:2]
    for figure in (report["reliability"], report["certified"]["figure"], *report["training"]):
        figure["svg"] = "<svg/>"
    for key in ("evaluated", "listed"):
        for kind in ("least_confident", "highest_loss"):
            report[key][kind] = report[key][kind][:2]
    return report


@settings(max_examples=15, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
@example(ATTACK)
@example("<!--<script>")
@example("</script x")
@example("]]>")
@example("$title ${data}")
@example("\\u003c/script>")
def test_texts_do_not_change_tags_and_attributes(small, text):
    plain = Page(render_page(renamed(small, lambda old: "x")))
    page = Page(render_page(renamed(small, lambda old: text)))
    assert page.tags == plain.tags
    assert [a[:2] for a in page.attributes] == [a[:2] for a in plain.attributes]
    assert "<" not in page.texts["script"][0]
    assert page.data["rows"][0]["label"] == text
    assert set(page.data["features"]) == {text}
    assert "".join(page.texts["h1"]) == text
    assert text in page.values("alt")


def test_nan_and_infinity_are_rendered_as_unknown():
    report = clinic_report()
    report["rows"][0]["radius"] = math.inf
    report["rows"][0]["values"][1] = math.nan
    before = copy.deepcopy(report["rows"][1])
    row = Page(render_page(report)).data["rows"][0]
    assert row["radius"] is None
    assert row["values"][1] is None
    assert report["rows"][1] == before


def test_order_of_sections():
    page = render_page(clinic_report())
    places = [page.index(f'<section id="{name}">') for name in SECTIONS]
    assert places == sorted(places)
    assert page.count("<section") == len(SECTIONS)
    assert page.index("clinic.csv") < places[0]  # in the summary
    tried = render_page(clinic_report() | {"search": clinic_report()["reliability"]})
    assert tried.index("Model search") > tried.index('<section id="mathematics">')


@pytest.mark.parametrize(
    ("holds", "sign", "state"),
    [(True, "✓", "holds"), (False, "✗", "fails"), (None, "?", "unknown")],
)
def test_check_mark_depends_on_held_out_performance(holds, sign, state):
    report = clinic_report()
    report["headline"] = {"holds": holds, "title": "The words", "text": "The text."}
    report["certificate"] |= {"max_loss": 0.1, "text": "All predictions are correct."}
    report["fit"] = {"correct": 187, "rows": 189, "exact": True}
    page = render_page(report)
    assert page.count("✓") == (holds is True)
    assert f'<div class="verdict {state}">' in page
    assert f'aria-hidden="true">{sign}</span>The words' in page
    fit = "187 of 189 training rows are predicted correctly; this is not an estimate for new rows."
    assert re.sub(r"\s+", " ", page).count(fit) == 2  # in two sections


def test_training_certificate_has_no_check_mark():
    for loss, words in [
        (0.44, ["0.440", "is below log 2 = <b>0.693</b>"]),
        (0.693148, ["0.693148", "0.693147"]),
        (None, ["The maximum training loss is unknown; log 2 is 0.693"]),
    ]:
        report = clinic_report()
        report["certificate"]["max_loss"] = loss
        page = render_page(report)
        assert all(word in page for word in words)


def test_page_states_the_number_of_rows_in_the_explorer():
    report = clinic_report()
    report["data"] |= {"n_rows": 500}
    assert f"{len(report['rows'])} of the 500 rows can be selected" in render_page(report)
    assert "All 120 rows can be selected" in render_page(clinic_report())


def test_links_to_rows_are_valid():
    report = clinic_report()
    row = {"label": "ill", "predicted": "well", "probability": 0.6, "own_probability": 0.4}
    report["listed"]["least_confident"] = [
        {"row": n, "id": name, "of_data": of_data, **row}
        for n, name, of_data in (
            (1, "P100", True),
            (999, "P9", True),
            (3, None, True),
            (3, None, False),
        )
    ]
    page = render_page(report)
    table = page[page.index('id="least-sure"') : page.index('id="worst"')]
    found = re.findall(r'data-value="\d+">(?:<a href="#row-(\d+)">)?(\d+)', table)
    assert found == [("1", "1"), ("", "999"), ("3", "3"), ("", "3")]
    assert '<td data-label="id">P9</td>' in table


def test_figures_are_embedded_images():
    report = clinic_report()
    page = Page(render_page(report))
    drawn = [report["reliability"], report["certified"]["figure"], *report["training"]]
    sources = [base64.b64decode(value.split(",")[1]).decode() for value in page.values("src")]
    assert sources == [figure["svg"] for figure in drawn]
    assert all(figure["alt"] in page.values("alt") for figure in drawn)


@pytest.mark.parametrize(
    ("format_number", "values", "texts"),
    [
        (percent, (1.0, 0.99999, 0.5, 1e-9, 0.0, None), "100.0 %|>99.9 %|50.0 %|<0.1 %|0.0 %|–"),
        (probability, (1.0, 0.99999, 0.5, 1e-9, 0.0, None), "1.000|>0.999|0.500|<0.001|0.000|–"),
        (
            fixed,
            (0.0, -1.25, 1234.5, 1e-7, -1e9, None),
            "0.000|−1.250|1,234.500|1.00e−07|−1.00e+09|–",
        ),
    ],
)
def test_format_of_numbers(format_number, values, texts):
    assert [format_number(value) for value in values] == texts.split("|")


def test_format_of_counts_and_of_numbers_that_differ():
    assert distinguishable(0.69312, 0.69314) == ("0.69312", "0.69314")
    assert distinguishable(1.0, 1.0) == ("1.000000000", "1.000000000")
    texts = [plural(1, "row"), plural(2000, "row"), plural(3, "class")]
    assert texts == ["1 row", "2,000 rows", "3 classes"]


def test_base_template_can_be_extended(tmp_path, monkeypatch):
    """Values are escaped, and a page without a script allows none."""
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
        render("short.html", "neighbour", title="undefined")


# Contrast of each text colour with each background, by WCAG 2.


def colours(scheme):
    """Return the colours of the style sheet by name, as (red, green, blue) from 0 to 1."""
    style = page_of("regression").texts["style"][0]
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    found = dict(re.findall(r"--([\w-]+): (#\w{6});", light))
    if scheme == "dark":
        found |= dict(re.findall(r"--([\w-]+): (#\w{6});", dark))
    return {
        name: tuple(int(code[k : k + 2], 16) / 255 for k in (1, 3, 5))
        for name, code in found.items()
    }


def mixed(part, colour, ground):
    return tuple(part * a + (1 - part) * b for a, b in zip(colour, ground, strict=True))


def luminance(colour):
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_colours_have_sufficient_contrast(scheme):
    own = colours(scheme)
    grounds = {"page": own["page"], "card": own["card"]}
    tints = {"marked": ("focus", 0.14), "chosen": ("focus", 0.10), "bar": ("focus", 0.25)}
    tints |= {f"{k} {a}": (f"{k}-tint", a) for k in ("good", "bad") for a in (0.14, 0.40)}
    grounds |= {name: mixed(a, own[tint], own["card"]) for name, (tint, a) in tints.items()}
    grounds["marked page"] = mixed(0.14, own["focus"], own["page"])
    grounds["chosen bar"] = mixed(0.25, own["focus"], grounds["chosen"])
    pairs = [("ink", ground) for ground in grounds] + [("grey", "marked page")]
    texts, plain = ("grey", "link", "good", "bad"), ("page", "card", "chosen")
    pairs += [(text, ground) for text in texts for ground in plain]
    faint = {pair for pair in pairs if contrast(own[pair[0]], grounds[pair[1]]) < 4.5}
    assert faint == set()
    for tone in ("good", "bad", "grey"):  # the sign in the headline
        assert contrast(own["card"], own[tone]) >= 4.5
    for ground in ("page", "card"):  # frames of fields and of the focused element
        assert contrast(own["focus"], own[ground]) >= 3
        assert contrast(own["grey"], own[ground]) >= 3

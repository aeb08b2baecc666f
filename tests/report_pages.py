"""Reports of small models, and a parser for the pages made of them."""

import copy
import functools
import json
import math
from html.parser import HTMLParser

import numpy as np
from sklearn.datasets import load_digits

from clinics import patients, prepared, trained
from maxplus import LMMClassifier, LMMRegressor, validate
from maxplus.report import regression_content, report_content
from maxplus.report._text import fixed

ATTACK = '</script></style><!-- <img src=x onerror="window.broken = 1">\' & äß 数'
VOID = {"meta", "link", "img", "br", "input", "hr"}
# Entries of a report that are not texts: images, weights, dates, and choices of templates.
KEPT = {"svg", "network", "made_at", "task", "id", "kind", "colours", "lines", "image"}


def fresh(build):
    """Decorate a function of a report: build it once, and return a copy at each call."""
    cached = functools.cache(build)
    return functools.wraps(build)(lambda: copy.deepcopy(cached()))


def _content(clf, samples, y, name, **options):
    return report_content(
        clf,
        samples.X,
        y,
        name=name,
        feature_names=clf.encoder_.feature_names,
        missing=samples.missing,
        scale=clf.certificate_scale(),
        unit="deviations",
        **options,
    )


@fresh
def clinic_report():
    """Return the report of 120 patients, including training rows."""
    table, both = patients(), patients(120)
    clf, known = trained(table), prepared(table)[1]
    estimator = LMMClassifier(8, slope=2.0, warmup_epochs=4, random_state=0)
    clf.validation_ = validate(estimator, known.X, known.y, cv=0.3).to_json()
    samples = prepared(both)[1]
    return _content(clf, samples, samples.y, "clinic.csv", ids=both.columns["patient"].tolist())


@fresh
def sum_report():
    """Return the report of a sum of terms."""
    samples = prepared(patients())[1]
    return _content(trained(patients(), is_sum=True), samples, samples.y, "clinic.csv")


@fresh
def unlabelled_report():
    """Return the report of patients without labels."""
    return _content(trained(patients()), prepared(patients(120))[1], None, "new.csv")


@fresh
def digits_report():
    """Return the report of images."""
    X, y = load_digits(n_class=3, return_X_y=True)
    clf = LMMClassifier(9, slope=1.0, warmup_epochs=3, random_state=0).fit(X[:300], y[:300])
    return report_content(clf, X[300:], y[300:], name="digits", image_shape=(8, 8), low=0, high=16)


@fresh
def curve_report():
    """Return the report of a regression."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 2))
    y = np.abs(X[:, 0]) + rng.normal(0, 0.1, 80)
    estimator = LMMRegressor(epochs=20, random_state=0)
    found = validate(estimator, X[:60], y[:60], cv=0.3).to_json()
    reg = estimator.fit(X[:60], y[:60])
    reg.validation_ = found
    return regression_content(reg, X, y, name="curve", feature_names=["length", "width"])


def emptied():
    """Return a report in which every list that may be empty is empty."""
    report = clinic_report() | {"sources": [], "training": [], "search": None}
    report["importances"]["columns"] = []
    report["rules"] = None
    report["model"]["decisions"] = []
    for key in ("evaluated", "listed"):
        report[key] |= {"least_confident": [], "highest_loss": []}
    return report


def unknown():
    """Return a report in which every number that may be unknown is unknown."""
    report = clinic_report()
    report["headline"]["holds"] = None
    report["certificate"]["max_loss"] = math.inf
    report["certified"]["median_radius"] = math.nan
    report["reliability"] = None
    for source in (report["evaluated"], *report["sources"]):
        source["metrics"] |= {"auc": None, "log_loss": None, "calibration_error": None}
        for one in source["metrics"]["classes"]:
            one |= {"recall": None, "precision": None, "auc": None, "interval": None}
    for row in report["rows"]:
        row |= {"radius": math.inf, "counterfactual": None}
    return report


REPORTS = {
    "complete": clinic_report,
    "pictures": digits_report,
    "sum": sum_report,
    "unlabelled": unlabelled_report,
    "regression": curve_report,
    "empty": emptied,
    "unknown": unknown,
    "attack": lambda: renamed(clinic_report(), lambda text: ATTACK),
}


def renamed(value, change):
    """Return the report with every displayed text changed."""
    if isinstance(value, dict):
        return {
            key: entry if key in KEPT else renamed(entry, change) for key, entry in value.items()
        }
    if isinstance(value, list):
        return [renamed(entry, change) for entry in value]
    return change(value) if isinstance(value, str) else value


def short(value):
    """Format a number as the function of the same name in text.js."""
    if value is None or (value != 0 and not 1e-3 <= abs(value) < 1e6):
        return fixed(value)
    text = f"{value:.0f}" if abs(value) >= 1000 else repr(float(f"{value + 0.0:.4g}"))
    return text.removesuffix(".0").replace("-", "−")


class Page(HTMLParser):
    """Parsed page: tags in order, attributes, and texts by tag."""

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

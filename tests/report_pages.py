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

ATTACK = '</script></style><!-- <img src=x onerror="window.broken = 1">\' & äß 数'
VOID = {"meta", "link", "img", "br", "input", "hr"}
# What a report's texts are not: pictures, weights, dates, and words that choose a template.
KEPT = {"svg", "network", "made_at", "task", "id", "kind", "colours", "lines", "image"}


@functools.cache
def _clinic():
    table = patients()
    clf = trained(table)
    clf.validation_ = validate(
        LMMClassifier(8, slope=2.0, warmup_epochs=4, random_state=0), *_features(table), cv=0.3
    ).to_json()
    both = patients(120)
    encoder, samples = clf.encoder_, prepared(both)[1]
    return report_content(
        clf,
        samples.X,
        samples.y,
        name="clinic.csv",
        feature_names=encoder.feature_names,
        ids=both.columns["patient"].tolist(),
        missing=samples.missing,
        scale=clf.certificate_scale(),
        unit="deviations",
    )


def _features(table):
    samples = prepared(table)[1]
    return samples.X, samples.y


@functools.cache
def _sum():
    table = patients()
    clf = trained(table, is_sum=True)
    samples = prepared(table)[1]
    return report_content(
        clf,
        samples.X,
        samples.y,
        name="clinic.csv",
        missing=samples.missing,
        feature_names=clf.encoder_.feature_names,
        scale=clf.certificate_scale(),
        unit="deviations",
    )


@functools.cache
def _unlabelled():
    clf = trained(patients())
    samples = prepared(patients(120))[1]
    return report_content(
        clf,
        samples.X,
        None,
        name="new.csv",
        feature_names=clf.encoder_.feature_names,
        scale=clf.certificate_scale(),
        unit="deviations",
    )


@functools.cache
def _digits():
    X, y = load_digits(n_class=3, return_X_y=True)
    clf = LMMClassifier(9, slope=1.0, warmup_epochs=3, random_state=0).fit(X[:300], y[:300])
    return report_content(clf, X[300:], y[300:], name="digits", image_shape=(8, 8), low=0, high=16)


@functools.cache
def _curve():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 2))
    y = np.abs(X[:, 0]) + rng.normal(0, 0.1, 80)
    reg = LMMRegressor(epochs=20, random_state=0).fit(X[:60], y[:60])
    reg.validation_ = validate(
        LMMRegressor(epochs=20, random_state=0), X[:60], y[:60], cv=0.3
    ).to_json()
    return regression_content(reg, X, y, name="curve", feature_names=["length", "width"])


def clinic_report():
    """Of 120 patients, some of whom a model was trained on; it can be edited."""
    return copy.deepcopy(_clinic())


def sum_report():
    """Of a sum of terms."""
    return copy.deepcopy(_sum())


def unlabelled_report():
    """Of patients whose outcome is not known."""
    return copy.deepcopy(_unlabelled())


def digits_report():
    """Of pictures."""
    return copy.deepcopy(_digits())


def curve_report():
    """Of a regression."""
    return copy.deepcopy(_curve())


def emptied():
    """A report in which every list may be empty is."""
    report = clinic_report() | {"rows": [], "sources": [], "training": [], "search": None}
    report["importances"]["columns"] = []
    report["rules"] = None
    report["model"] |= {"decisions": [], "parameters": {}, "training": {}}
    for key in ("judged", "named"):
        report[key] |= {"least_confident": [], "highest_loss": []}
    return report


def unknown():
    """Every number that may be unknown is."""
    report = clinic_report()
    report["headline"]["holds"] = None
    report["certificate"]["max_loss"] = math.inf
    report["certified"]["median_radius"] = math.nan
    report["reliability"] = None
    for source in (report["judged"], *report["sources"]):
        source["figures"] |= {"auc": None, "log_loss": None, "calibration_error": None}
        for one in source["figures"]["classes"]:
            one |= {"recall": None, "precision": None, "auc": None, "interval": None}
    for row in report["rows"]:
        row |= {"radius": math.inf, "flip": None}
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
    """The same report with every text changed, but for those that are not for people."""
    if isinstance(value, dict):
        return {
            key: entry if key in KEPT else renamed(entry, change) for key, entry in value.items()
        }
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

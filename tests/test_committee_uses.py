"""What is done with a trained committee: folding, explanations, files, exports, commands."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from typer.testing import CliRunner

import maxplus
from committees import QUICK, WORDS
from maxplus import LMMCommittee
from maxplus.cli.app import app
from maxplus.explain import Domain, explain_committee
from maxplus.io import FileError
from maxplus.models import Committee
from maxplus.report.content import report_content
from maxplus.report.page import render_page
from model_files import tamper

# -- afterwards: folding, pruning, units ------------------------------------------------------


def test_folding_takes_the_members_along(iris):
    centre, spread = iris.X.mean(axis=0), iris.X.std(axis=0)
    clf = LMMCommittee(2, **QUICK).fit((iris.X - centre) / spread, iris.y)
    Z = clf.decision_function((iris.X - centre) / spread)
    own = clf.members_[0].decision_function((iris.X - centre) / spread)
    clf.fold(centre, spread, iris.X)
    assert_allclose(clf.decision_function(iris.X), Z, atol=1e-10)
    assert_allclose(clf.members_[0].decision_function(iris.X), own, atol=1e-10)
    assert clf.members_[0].model_ is clf.model_.members[0]
    assert_array_equal(clf.training_losses_, clf.model_.losses(*iris))
    before = clf.model_
    with pytest.raises(ValueError, match="spread must be finite"):
        clf.fold(0.0, 0.0)
    assert clf.model_ is before


def test_pruning_changes_no_score_of_a_training_row(iris):
    """Also where a member has not been trained on the row."""
    clf = LMMCommittee(3, bagging=True, **QUICK | {"n_hidden": 60}).fit(*iris)
    before = clf.decision_function(iris.X)
    pruned = clf.prune()
    assert pruned.dropped > 0
    assert pruned.dropped + pruned.left == 180
    assert clf.n_hidden_ == pruned.left == clf.unit_wins_.size
    assert_array_equal(clf.decision_function(iris.X), before)
    assert clf.members_[2].model_ is clf.model_.members[2]
    assert_array_equal(clf.unit_wins_, clf.model_.wins(iris.X))


def test_units_are_numbered_through(trio):
    table = trio.units(level=-1.0)
    assert list(table.columns[:2]) == ["member", "unit"]
    assert_array_equal(table["unit"].unique(), np.arange(27))
    own = table[table["member"] == 2]
    alone = trio.members_[2].units(level=-1.0)
    assert_array_equal(own["unit"] - 18, alone["unit"])
    assert_array_equal(own["low"], alone["low"])


# -- explanations -----------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["trio", "mixed_trio"])
def test_every_member_score_is_its_box(request, iris, which):
    model = request.getfixturevalue(which)
    model = model.model_ if which == "trio" else model
    why = explain_committee(model, iris.X, list(WORDS), Domain.free(4, names=list("abcd")))
    first = model.first_units
    for k, (member, own) in enumerate(zip(model.members, why.members, strict=True)):
        unit = own.paths.unit - first[k]
        lam = np.take_along_axis(own.views, own.paths.view, 1) * own.slopes[own.paths.row]
        z = lam + member.W1[own.paths.row, unit] + member.W2[unit, np.arange(3)]
        assert_allclose(z, member.scores(iris.X), atol=1e-9)
    Z = model.scores(iris.X)
    assert_array_equal(why.score, Z)
    assert_array_equal(why.predicted, Z.argmax(axis=1))
    ranked = np.sort(Z, axis=1)
    assert_allclose(why.weight.sum(axis=1), ranked[:, -1] - ranked[:, -2], atol=1e-9)
    scores = np.stack([member.scores(iris.X) for member in model.members])
    assert_array_equal(why.leader, scores.argmax(axis=0))
    for n, d in ((0, 0), (70, 2), (149, 1)):
        own = why.members[why.leader[n, d]]
        assert why.paths.unit[n, d] == own.paths.unit[n, d]
        assert why.paths.row[n, d] == own.paths.row[n, d]


def test_explain_names_no_column_as_deciding_where_it_cancels_in_a_member(trio, iris):
    why = trio.explain(iris.X[::10])
    cancels = why.to_records()["cancels"].reshape(15, 3, 3)
    steps = 1e-6 * np.eye(4)
    for n, x in enumerate(iris.X[::10]):
        first, second = why.order[n, :2]
        for k, member in enumerate(trio.model_.members):
            moved = member.scores(x + steps) - member.scores(x - steps)
            moves = (np.abs(moved[:, first] - moved[:, second]) > 1e-9).any()
            assert cancels[n, first, k] == cancels[n, second, k] == (not moves)
            (line,) = [text for text in why.text(n).splitlines() if f"by member {k}: " in text]
            assert line.count("decided by") == 2 * moves
    assert 0 < cancels.sum() < cancels.size


def test_an_explanation_can_be_read(trio, iris):
    why = trio.explain(iris.X[[0, 70]], feature_names=["sl", "sw", "pl", "pw"])
    assert len(why) == 2
    text = why.text(1)
    assert text == str(why).split("\n\n")[1]
    lines = text.splitlines()
    assert lines[0].startswith(f"Row 2: {trio.predict(iris.X[[70]])[0]} (probability 0.")
    assert len(lines) == 1 + 3 + 1 + 3 + 1
    # Members come by weight.
    weights = [float(line.split()[0]) for line in lines[-4:-1]]
    assert weights == sorted(weights, reverse=True)
    assert f"by member {why.weight[1].argmax()}: " in lines[-4]
    assert lines[-1].startswith("  flips to ")
    table = why.to_table()
    assert len(table) == 2 * 3 * 3
    record = table[(table["row"] == 1) & (table["class"] == "virginica") & (table["member"] == 2)]
    assert record["member_score"].item() == trio.members_[2].decision_function(iris.X[[70]])[0, 2]
    assert record["score"].item() == trio.decision_function(iris.X[[70]])[0, 2]
    assert record["feature"].item() in ("sl", "sw", "pl", "pw")
    with pytest.raises(ValueError, match="class_names must name the 3 classes"):
        trio.explain(iris.X, class_names=["a"])
    with pytest.raises(ValueError, match="feature_names must name 4 features; got 1"):
        trio.explain(iris.X, feature_names=["a"])


def test_what_flips_a_committee_flips_it(trio, iris):
    why = trio.explain(iris.X[::10], fixed=[3])
    flips = why.flips
    found = np.flatnonzero(flips.feature >= 0)
    assert found.size > 5
    assert not (flips.feature == 3).any()
    for n in found:
        for value in (flips.value[n], flips.shown[n]):
            x = why.X[n].copy()
            x[flips.feature[n]] = value
            assert trio.predict(x[None])[0] == WORDS[flips.becomes[n]]
    # Nothing flips inside the certified radius of the same unit.
    radius = trio.certified_radius(why.X, trio.scale_)
    assert (flips.distance[found] >= 0.999 * radius[found]).all()
    table = why.to_records()
    assert set(table["flip_class"]) <= {"", *WORDS}
    with pytest.raises(ValueError, match="not known for committees"):
        trio.smallest_change(iris.X[0])


def test_the_report_page(trio, iris):
    content = report_content(trio, iris.X, WORDS[iris.y], name="flowers")
    assert content["model"]["n_members"] == 3
    row = content["rows"][0]
    assert row["flip"]["becomes"] in ("versicolor", "virginica")
    best = row["classes"][0]
    assert best["class"] == "setosa"
    assert best["score"] == trio.decision_function(iris.X[:1])[0, 0]
    page = render_page(content)
    assert "A committee of 3 Linear-Min-Max classifiers with" in page
    assert "the mean of 3 members" in page


def test_the_report_of_images_draws_the_leading_units(few_digits):
    clf = LMMCommittee(2, **QUICK | {"n_hidden": 10}).fit(*few_digits)
    content = report_content(
        clf, few_digits.X[:20], few_digits.y[:20], name="digits", image_shape=(8, 8)
    )
    units = {str(entry["unit"]) for row in content["rows"] for entry in row["classes"]}
    assert units == set(content["units"])
    assert max(int(unit) for unit in units) >= 10
    from maxplus.plots import plot_explanation

    figure = plot_explanation(clf.explain(few_digits.X[:1]), 0, (8, 8))
    assert len(figure.axes) == 6


# -- files ------------------------------------------------------------------------------------


def test_a_file_holds_all_of_a_committee(tmp_path, iris):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(iris.X.astype(np.float32), columns=list("abcd"))
    weight = np.ones(150)
    weight[3] = 0.0
    clf = LMMCommittee(2, warmup_epochs=4, random_state=0).fit(X, WORDS[iris.y], weight)
    clf.save(tmp_path / "model", remember_rows=True)
    again = maxplus.load(tmp_path / "model")
    assert type(again) is LMMCommittee
    assert again.get_params() == clf.get_params()
    assert {*vars(again)} == {*vars(clf)} - {"_rng"}
    assert_array_equal(again.predict_proba(X), clf.predict_proba(X), strict=True)
    assert_array_equal(again.certified_radius(X), clf.certified_radius(X))
    assert_array_equal(again.training_losses_, clf.training_losses_)
    assert str(again.explain(X[:2])) == str(clf.explain(X[:2]))
    assert_array_equal(again.search_["losses"], clf.search_["losses"])
    for mine, other in zip(again.members_, clf.members_, strict=True):
        assert {*vars(mine)} == {*vars(other)}
        assert_array_equal(mine.W1_, other.W1_)
        assert_array_equal(mine.training_losses_, other.training_losses_)
        assert mine.model_.dtype == np.float32
    again.prune()
    again.save(tmp_path / "model")
    assert maxplus.load(tmp_path / "model").n_hidden_ == again.n_hidden_


@pytest.fixture(scope="module")
def saved(trio, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model"
    trio.save(path)
    return path.read_bytes()


DAMAGE = {
    "no members": lambda d, a: d.update(members=[]),
    "members": lambda d, a: d.update(members="three"),
    "missing members": lambda d, a: d.pop("members"),
    "a member": lambda d, a: d["members"].__setitem__(1, 7),
    "a member's kind": lambda d, a: d["members"][0].update(estimator="LMMRegressor"),
    "a committee inside": lambda d, a: d["members"][0].update(estimator="LMMCommittee"),
    "a member's parameter": lambda d, a: d["members"][0]["parameters"].update(n_hidden=-1),
    "a member's fact": lambda d, a: d["members"][2]["facts"].update(n_iter_=-1),
    "a member's classes": lambda d, a: d["members"][2]["classes"].update(values=list("abc")),
    "a member's features": lambda d, a: d["members"][2].update(n_features=5),
    "a member's names": lambda d, a: d["members"][2].update(feature_names=list("abcd")),
    "a member's weights": lambda d, a: a.pop("member.1.model.W1"),
    "a member's shape": lambda d, a: a.update(
        {"member.1.model.W2": a["member.1.model.W2"][:-1]}
    ),
    "a member's type": lambda d, a: a.update(
        {n: a[n].astype(np.float32) for n in a if n.startswith("member.1.model.")}
    ),
    "a member's NaN": lambda d, a: a["member.0.model.W1"].__setitem__((0, 0), np.nan),
    "a member's labels": lambda d, a: a["member.0.training.labels"].__setitem__(0, 2),
    "a member's losses": lambda d, a: a.pop("member.0.training.losses"),
    "a member's wins": lambda d, a: a["member.0.unit_wins"].__setitem__(0, 1 << 40),
    "a member's suspects": lambda d, a: a.update({"member.0.suspects": np.array([150])}),
    "wins": lambda d, a: a.update(unit_wins=a["unit_wins"][:-1]),
    "missing wins": lambda d, a: a.pop("unit_wins"),
    "n_members": lambda d, a: d["parameters"].update(n_members=0),
    "bagging": lambda d, a: d["parameters"].update(bagging="yes"),
    "temperature": lambda d, a: d["facts"].update(temperature_=-1.0),
    "classes": lambda d, a: d["classes"].update(values=list("abc")),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_every_damaged_field_is_refused(tmp_path, saved, damage):
    path = tmp_path / "model"
    path.write_bytes(saved)
    tamper(path, DAMAGE[damage])
    with pytest.raises(FileError, match="is damaged"):
        maxplus.load(path)


# -- exports ----------------------------------------------------------------------------------


def with_model(trio, model):
    """A committee classifier with another committee's networks."""
    clf = clone(trio)
    clf.__dict__ |= vars(trio) | {"model_": model}
    return clf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("which", ["trio", "mixed_trio", "one"])
def test_one_onnx_graph_has_the_mean_score(request, tmp_path, run_onnx, trio, iris, dtype, which):
    model = request.getfixturevalue("mixed_trio") if which == "mixed_trio" else trio.model_
    model = Committee(model.members[:1]) if which == "one" else model
    clf = with_model(trio, model.astype(dtype))
    maxplus.export_onnx(clf, tmp_path / "m.onnx")
    X = iris.X.astype(dtype)
    labels, probabilities = run_onnx(tmp_path / "m.onnx", X)
    assert probabilities.dtype == dtype
    assert_allclose(
        probabilities, clf.predict_proba(X), atol=1e-5 if dtype == np.float32 else 1e-12
    )
    certain = np.sort(probabilities, axis=1)[:, -2:] @ [-1, 1] > 1e-5
    assert certain.mean() > 0.8
    assert_array_equal(np.array(labels)[certain], clf.predict(X)[certain])


@pytest.mark.parametrize("which", ["trio", "mixed_trio"])
def test_a_torch_module_has_the_mean_score(request, torch, trio, iris, which):
    model = request.getfixturevalue("mixed_trio") if which == "mixed_trio" else trio.model_
    network = maxplus.to_torch(with_model(trio, model))
    scores = network(torch.tensor(iris.X))
    if which == "trio" and all(member.directions is None for member in model.members):
        assert_array_equal(scores.detach().numpy(), model.scores(iris.X))
    else:
        assert_allclose(scores.detach().numpy(), model.scores(iris.X), atol=1e-10)
    assert_allclose(
        network.probabilities(torch.tensor(iris.X)).detach().numpy(),
        model.probabilities(iris.X), atol=1e-10,
    )  # fmt: skip
    scores.sum().backward()
    assert all(member.minplus.weight.grad is not None for member in network.members)


# -- scikit-learn -----------------------------------------------------------------------------

REPEATED = "clusters begin at random samples; repeated ones change them"


# A check sets n_iter_no_change whether or not that counts.
@pytest.mark.filterwarnings("ignore::maxplus.estimators.NoEffectWarning")
@pytest.mark.slow
@parametrize_with_checks(
    [LMMCommittee(2, n_hidden=12, warmup_epochs=8)],
    expected_failed_checks=lambda _: {
        f"check_sample_weight_equivalence_on_{kind}_data": REPEATED for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("command", ["evaluate", "explain", "certify", "predict", "report"])
def test_commands_take_a_committee(trio, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    trio.save("model")
    done = CliRunner().invoke(app, [command, "model", "iris"])
    assert done.exit_code == 0, done.output


def test_huge_inputs_do_not_overflow(trio):
    X = np.full((1, 4), 1e300)
    assert np.isfinite(trio.decision_function(X)).all()
    assert np.isfinite(trio.decision_function(-X)).all()

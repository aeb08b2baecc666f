"""A classifier behind scalers, explained and certified in the units before them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

import maxplus
from maxplus import LMMClassifier, LMMEnsembleClassifier, SubgradientLMMClassifier

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


def classifier(kind=SubgradientLMMClassifier):
    if kind is SubgradientLMMClassifier:
        return kind(8, engine="dense", max_iter=60, random_state=0)
    own = LMMClassifier(9, slope=3.0, warmup_epochs=3)
    if kind is LMMEnsembleClassifier:
        return kind(own, 2, random_state=0)
    return own.set_params(random_state=0)


STEPS = {
    "nothing": [],
    "standard": [StandardScaler()],
    "centred": [StandardScaler(with_std=False)],
    "scaled": [StandardScaler(with_mean=False)],
    "robust": [RobustScaler(quantile_range=(10, 90))],
    "robust, not centred": [RobustScaler(with_centering=False)],
    "largest": [MaxAbsScaler()],
    "range": [MinMaxScaler((-1, 3))],
    "identity": [FunctionTransformer()],
    "none at all": ["passthrough", None],
    "one behind the other": [RobustScaler(), MinMaxScaler(), StandardScaler()],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_scalers_go_into_the_weights(iris, steps):
    pipeline = make_pipeline(*steps, classifier()).fit(*iris)
    before = pipeline[-1].W1_.copy()
    clf = maxplus.from_pipeline(pipeline)
    assert_allclose(clf.decision_function(iris.X), pipeline.decision_function(iris.X), rtol=1e-6)
    assert np.array_equal(pipeline[-1].W1_, before)
    # In raw units: what a row may move by is proven for the pipeline itself.
    radius = clf.certified_radius(iris.X)
    for sign in (-1, 1):
        moved = iris.X + sign * 0.999 * radius[:, None]
        assert np.array_equal(pipeline.predict(moved), pipeline.predict(iris.X))


@pytest.mark.parametrize("kind", [LMMClassifier, LMMEnsembleClassifier])
def test_flips_are_those_of_the_pipeline(iris, kind):
    pipeline = make_pipeline(StandardScaler(), classifier(kind)).fit(*iris)
    rows = iris.X[50:60]
    flips = maxplus.from_pipeline(pipeline).explain(rows).flips
    found = np.flatnonzero(flips.feature >= 0)
    assert found.size
    changed, feature = rows[found].copy(), flips.feature[found]
    # A little farther, for the rounding of the scaler.
    by = flips.value[found] - changed[np.arange(found.size), feature]
    changed[np.arange(found.size), feature] += (1 + 1e-6) * by
    assert np.array_equal(pipeline.predict(changed), flips.becomes[found])


def test_columns_keep_the_names_that_the_pipeline_knows(iris):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(iris.X, columns=NAMES)
    for output in ("default", "pandas"):
        scaler = StandardScaler().set_output(transform=output)
        pipeline = make_pipeline(scaler, classifier()).fit(frame, iris.y)
        clf = maxplus.from_pipeline(pipeline)
        assert clf.feature_names_in_.tolist() == NAMES
        assert "petal" in clf.explain(frame[:1]).text(0)
    # Names that a step has made up are not those of an array.
    pipeline = make_pipeline(scaler, classifier()).fit(*iris)
    assert not hasattr(maxplus.from_pipeline(pipeline), "feature_names_in_")


def test_a_search_and_a_classifier_alone_will_do(iris):
    grid = {"subgradientlmmclassifier__max_iter": [5, 60]}
    search = GridSearchCV(make_pipeline(StandardScaler(), classifier()), grid, cv=2).fit(*iris)
    assert np.array_equal(maxplus.from_pipeline(search).predict(iris.X), search.predict(iris.X))
    alone = classifier().fit(*iris)
    assert np.array_equal(maxplus.from_pipeline(alone).W1_, alone.W1_)


@pytest.mark.parametrize(
    ("steps", "error", "words"),
    [
        (
            [PCA(2), classifier()],
            ValueError,
            r"step 'pca' .* a PCA, is not affine .* pipeline\[-1\]",
        ),
        ([MinMaxScaler(clip=True), classifier()], ValueError, "step 'minmaxscaler'"),
        ([FunctionTransformer(np.sqrt), classifier()], ValueError, "a FunctionTransformer"),
        ([StandardScaler(), LogisticRegression()], TypeError, "got LogisticRegression"),
    ],
)
def test_other_steps_are_named(iris, steps, error, words):
    pipeline = make_pipeline(*steps).fit(*iris)
    with pytest.raises(error, match=words):
        maxplus.from_pipeline(pipeline)

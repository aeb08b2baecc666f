"""Active paths of scores, against a slow oracle."""

import numpy as np
import pytest
from hypothesis import given

from explained import fixed, lmm, path_of, tied_models
from maxplus.explain import decisive_paths

pytestmark = pytest.mark.slow


@given(tied_models())
@fixed(80)
def test_active_paths_match_the_oracle(drawn):
    model, X = drawn
    paths = decisive_paths(model, X)
    for array in paths:
        assert array.shape == (len(X), model.n_classes)
    for n, x in enumerate(X):
        for d in range(model.n_classes):
            found = [array[n, d] for array in paths]
            np.testing.assert_array_equal(found, path_of(x, model, d))
    assert np.array_equal(paths.feature, paths.row // 2)


def test_active_paths_of_trained_model_give_its_scores(fitted, reader, iris, digits):
    for model, X in ((fitted.model_, iris.X), (reader.model_, digits.X)):
        paths = decisive_paths(model, X)
        active = model.active_path(X)
        assert np.array_equal(paths.unit, active.unit)
        assert np.array_equal(paths.row, active.row)
        assert np.array_equal(paths.score, model.scores(X))
        n, d = np.indices(paths.unit.shape)
        i, h = paths.row, paths.unit
        z = model.W0[i] * X[n, i // 2] + model.W1[i, h] + model.W2[h, d]
        np.testing.assert_allclose(paths.score, z, rtol=0, atol=1e-12)
        outputs = model.hidden(X)[:, :, None] + model.W2
        two = np.sort(outputs, axis=1)[:, -2:]
        np.testing.assert_allclose(paths.margin, two[:, 1] - two[:, 0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(outputs[n, paths.runner_up, d], two[:, 0], rtol=0, atol=1e-12)
        assert (paths.runner_up != paths.unit).all()


def test_active_path_of_single_unit_has_no_runner_up():
    paths = decisive_paths(lmm([1.0, -1.0], [[0.0], [2.0]], [[3.0, 4.0]]), np.array([[0.5]]))
    assert paths.score.tolist() == [[3.5, 4.5]]
    assert paths.runner_up.tolist() == [[-1, -1]]
    assert np.isnan(paths.margin).all()

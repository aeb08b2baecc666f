"""Ctrl-C keeps the model of the user who called fit; a search that called it hears of it."""

import signal
import threading

import numpy as np
import pytest
from sklearn.ensemble import AdaBoostClassifier
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from maxplus import LMMClassifier, MaxPlusClassifier
from maxplus.training import Status

MODELS = {
    "warm-up": LMMClassifier(12, slope=2.0, warmup_epochs=4, random_state=0),
    "iterations": MaxPlusClassifier(max_iter=200, random_state=0),
}


class CtrlC:
    """Presses it at the first report of each training, and counts."""

    def __init__(self):
        self.pressed = 0

    def __call__(self, progress):
        if progress.iteration <= 1:
            self.pressed += 1
            signal.raise_signal(signal.SIGINT)

    def __deepcopy__(self, memo):
        return self  # Searches clone their estimators; the count is of all together.


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param].set_params(callbacks=CtrlC())


def search(model, X, y):
    grid = {"random_state": [0, 1]}
    GridSearchCV(model, grid, cv=3, error_score=0.0).fit(X, y)


def in_a_pipeline(model, X, y):
    cross_validate(make_pipeline(StandardScaler(), model), X, y, cv=3)


def boosted(model, X, y):
    AdaBoostClassifier(model, n_estimators=2).fit(X, y)


def few_labels(model, X, y):
    labels = np.where(np.arange(len(y)) % 2, y, -1)
    SelfTrainingClassifier(model, max_iter=2).fit(X, labels)


@pytest.mark.parametrize("drive", [cross_validate, search, in_a_pipeline, boosted, few_labels])
def test_whoever_drives_a_training_hears_of_ctrl_c(model, iris, drive):
    with pytest.raises(KeyboardInterrupt):
        drive(model, *iris)
    assert model.callbacks.pressed == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_user_who_called_fit_keeps_the_model(model, iris):
    with pytest.warns(UserWarning, match="training was interrupted"):
        make_pipeline(StandardScaler(), model).fit(*iris)
    assert model.callbacks.pressed == 1
    assert model.status_ == Status.INTERRUPTED.value
    assert model.predict(iris.X).shape == (150,)


def test_training_in_a_thread_that_is_not_the_main_one(iris):
    fitted = []

    def fit():
        fitted.extend(model.set_params(callbacks=None).fit(*iris) for model in MODELS.values())

    thread = threading.Thread(target=fit)
    thread.start()
    thread.join(60)
    assert len(fitted) == 2

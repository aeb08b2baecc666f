"""Ctrl-C in a fit: KeyboardInterrupt, or the best model so far with `KeepBestOnInterrupt`."""

import signal

import pytest
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxplus import LMMClassifier, MaxPlusClassifier
from maxplus.training import KeepBestOnInterrupt, Status

MODELS = {
    "warm-up": LMMClassifier(12, slope=2.0, warmup_epochs=4, random_state=0),
    "iterations": MaxPlusClassifier(max_iter=200, random_state=0),
}


class CtrlC:
    """Callback that sends SIGINT at the first report of each training and counts the signals."""

    def __init__(self):
        self.pressed = 0

    def __call__(self, progress):
        if progress.iteration <= 1:
            self.pressed += 1
            signal.raise_signal(signal.SIGINT)

    def __deepcopy__(self, memo):
        return self  # Searches clone their estimators, but the signals of all clones are counted.


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param].set_params(callbacks=CtrlC())


def search(model, X, y):
    grid = {"random_state": [0, 1]}
    GridSearchCV(model, grid, cv=3, error_score=0.0).fit(X, y)


def alone(model, X, y):
    model.fit(X, y)


@pytest.mark.parametrize("drive", [alone, cross_validate, search])
def test_ctrl_c_raises_keyboard_interrupt(model, iris, drive):
    with pytest.raises(KeyboardInterrupt):
        drive(model, *iris)
    assert model.callbacks.pressed == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_keep_best_on_interrupt_keeps_the_model(model, iris):
    press = model.callbacks
    model.set_params(callbacks=[press, KeepBestOnInterrupt()])
    with pytest.warns(UserWarning, match="training was interrupted"):
        make_pipeline(StandardScaler(), model).fit(*iris)
    assert press.pressed == 1
    assert model.status_ == Status.INTERRUPTED.value
    assert model.predict(iris.X).shape == (150,)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

"""Training in stages: warm-up, iterations and polish, in the estimator."""

import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler

import maxplus
from maxplus import LMMClassifier, SubgradientLMMClassifier
from maxplus.estimators._cross_validation import inverse_temperature, validate_polish
from maxplus.io import Checkpoint
from maxplus.io.container import FileError
from maxplus.models import LMM, LOG2
from maxplus.models.initialization import box_lmm
from maxplus.training import (
    Iterations,
    KeepBestOnInterrupt,
    Polish,
    Status,
    TrainingMonitor,
    TrainingProblem,
    WarmUp,
    constant,
    run_stages,
)
from maxplus.training.engines import DenseEngine
from maxplus.training.stages import Annealing, ValidatedPolish
from trainings import polish

pytestmark = pytest.mark.slow


def noisy_shift(rows, rng):
    """Add a little noise, as an augmentation."""
    return rows + rng.normal(0, 0.01, rows.shape)


@pytest.mark.parametrize(
    ("load", "scaled", "least"),
    [
        (None, False, 0.94),
        (load_wine, True, 0.94),
        (load_breast_cancer, True, 0.94),
        (load_digits, False, 0.96),
    ],
)
def test_default_fit_is_accurate_on_small_datasets(iris, load, scaled, least):
    X, y = iris if load is None else load(return_X_y=True)
    if scaled:
        X = StandardScaler().fit_transform(X)
    # Evaluating some of the five folds saves time.
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    folds = folds[: 1 if load is load_digits else 3]
    assert cross_val_score(LMMClassifier(random_state=0), X, y, cv=folds).mean() >= least
    n_hidden = 100 if load is load_digits else 40
    clf = LMMClassifier(n_hidden, polish="log2", random_state=0).fit(X, y)
    # Check the losses by a forward pass that training does not use.
    assert clf.perfect_fit_
    losses = clf.model_.losses(np.ascontiguousarray(X), y)
    assert losses.max() < LOG2
    assert (clf.model_.scores(X).argmax(axis=1) == y).all()
    assert clf.suspects_.size == 0


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e4])
def test_default_fit_is_invariant_to_feature_scale(iris, factor):
    X, y = iris.X * factor, iris.y
    options = {"n_hidden": 30, "standardize": False, "polish": "log2", "random_state": 0}
    clf = LMMClassifier(**options).fit(X, y)
    assert clf.score(X, y) >= 0.99
    assert clf.slope_ * factor == pytest.approx(
        LMMClassifier(**options).fit(*iris).slope_, rel=1e-6
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_history_covers_all_stages(iris, dtype):
    stages = []
    clf = LMMClassifier(
        20,
        warmup_epochs=7,
        standardize=False,
        polish="log2",
        random_state=0,
        callbacks=lambda p: stages.append(p.stage),
    ).fit(iris.X.astype(dtype), iris.y)
    assert list(dict.fromkeys(stages)) == ["warm-up", "polish"]
    assert clf.model_.dtype == dtype
    assert clf.loss_curve_.shape == (7,)
    assert clf.n_iter_ == 7 + clf.polish_losses_.size - 1
    assert not hasattr(clf, "validation_scores_")
    # The model is that of the last round, unless an earlier one had fewer samples above the level.
    assert clf.max_loss_ in clf.polish_losses_


def mixture(level=1e-6):
    """Return warm-up, iterations and polish, a combination that no estimator uses."""
    return [
        WarmUp(Annealing(15.0, n_epochs=5, batch_size=18)),
        Iterations(DenseEngine, 30),
        Polish(level),
    ]


def run_mixture(data, callbacks=(), state=None, level=1e-6):
    """Train on Iris in three stages, or resume from a state."""
    rng = np.random.default_rng(0)
    model = box_lmm(*data, 30, 3, slope=6.0, drop=15.0, rng=rng)
    problem = TrainingProblem(*data, rng=rng, step=constant(0.01))
    stages = mixture(level)
    with TrainingMonitor(callbacks) as monitor:
        if state is not None:
            (stage,) = (stage for stage in stages if stage.name == state.stage)
            model = stage.check(state, problem, LMM)
            return run_stages(stages, model, problem, monitor, state, state.before)
        return run_stages(stages, model, problem, monitor)


def test_stages_can_be_combined(iris):
    progress_calls = []
    trained = run_mixture(
        iris, [lambda progress: progress_calls.append(progress.stage)], level=LOG2
    )
    assert list(dict.fromkeys(progress_calls)) == ["warm-up", "iterations", "polish"]
    _, iterated, polished = trained.outcomes
    assert trained.n_iter == 5 + 30 + polished.n_iter
    assert iterated.history["loss"].size == 30
    assert trained.model.losses(*iris).max() < LOG2
    assert set(trained.arrays) >= {"warmup_losses", "history.loss", "polish_losses", "suspects"}


@pytest.mark.parametrize("stop_in", ["warm-up", "iterations"])
def test_combined_stages_resume_from_any_stage_with_state(iris, stop_in):
    states = []

    def keep(progress):
        if progress.stage == stop_in and progress.iteration >= 3:
            states.append(progress.state())
            return True

    assert run_mixture(iris, [keep], level=LOG2).status is Status.CALLBACK
    whole, again = run_mixture(iris, level=LOG2), run_mixture(iris, state=states[0], level=LOG2)
    for name, W in whole.model.weights_by_name().items():
        assert np.array_equal(getattr(again.model, name), W)
    # Results of earlier stages are in the state.
    assert ("warmup_losses" in states[0].before) == (stop_in == "iterations")


@pytest.mark.parametrize("stop_in", ["warm-up", "iterations", "polish"])
def test_callback_ends_all_stages(iris, stop_in):
    seen = []

    def stop(progress):
        seen.append(progress.stage)
        return progress.stage == stop_in

    trained = run_mixture(iris, [stop])
    assert seen[-1] == stop_in
    assert seen.count(stop_in) == 1
    assert trained.status is Status.CALLBACK
    if stop_in != "iterations":
        clf = LMMClassifier(10, warmup_epochs=5, polish=1e-6, callbacks=stop, random_state=0)
        assert clf.fit(*iris).status_ == Status.CALLBACK.value
        assert clf.predict(iris.X).shape == (150,)


@pytest.mark.parametrize("stage", ["warm-up", "polish"])
def test_ctrl_c_keeps_current_model(iris, stage):
    def press(progress):
        if progress.stage == stage and progress.iteration == 2:
            os.kill(os.getpid(), signal.SIGINT)

    clf = LMMClassifier(
        10, warmup_epochs=50, polish=1e-6, callbacks=[press, KeepBestOnInterrupt()], random_state=0
    )
    with pytest.warns(UserWarning, match="training was interrupted"):
        clf.fit(*iris)
    assert clf.status_ == Status.INTERRUPTED.value
    assert clf.loss_curve_.size == (2 if stage == "warm-up" else 50)
    assert clf.score(*iris) > 0.5


RESUMED = {
    "default": {},
    "early stopping": {"early_stopping": True, "n_iter_no_change": 30},
    "robust": {"robust_eps": 0.05, "polish": None},
    "augmented": {"augment": noisy_shift},
}


@pytest.mark.parametrize("name", RESUMED)
def test_resumed_warm_up_ends_with_the_same_weights(tmp_path, iris, name):
    options = {"n_hidden": 12, "warmup_epochs": 9, "batch_size": 20, "random_state": 3}
    options |= RESUMED[name]
    whole = LMMClassifier(**options).fit(*iris)
    path = tmp_path / "checkpoint"
    callbacks = [Checkpoint(path, every=0.0), lambda p: p.iteration >= 4]
    LMMClassifier(**options, callbacks=callbacks).fit(*iris)
    if name == "augmented":
        with pytest.raises(FileError, match="augment"):
            maxplus.resume(path, *iris)
    for _ in range(2):  # the second time from the checkpoint of the finished training
        again = maxplus.resume(path, *iris, Checkpoint(path), augment=options.get("augment"))
        for layer in ("W0_", "W1_", "W2_"):
            assert np.array_equal(getattr(again, layer), getattr(whole, layer))
        assert again.status_ == whole.status_
        assert again.max_loss_ == whole.max_loss_
        assert again.n_iter_ == whole.n_iter_
        assert np.array_equal(again.loss_curve_, whole.loss_curve_)
    assert np.array_equal(again.polish_losses_, whole.polish_losses_)


def test_ctrl_c_within_an_epoch_keeps_completed_batches(tmp_path, iris):
    """The model contains the completed batches; a checkpoint repeats the epoch."""
    calls = []

    def press(rows, rng):
        calls.append(0)
        if len(calls) == 4 * 7 + 3:
            os.kill(os.getpid(), signal.SIGINT)
        return rows

    options = {"n_hidden": 12, "warmup_epochs": 9, "batch_size": 20, "random_state": 3}
    whole = LMMClassifier(**options).fit(*iris)
    path = tmp_path / "checkpoint"
    callbacks = [Checkpoint(path), KeepBestOnInterrupt()]
    with pytest.warns(UserWarning, match="training was interrupted"):
        LMMClassifier(augment=press, callbacks=callbacks, **options).fit(*iris)
    assert len(calls) == 4 * 7 + 3
    again = maxplus.resume(path, *iris, augment=lambda rows, rng: rows)
    assert np.array_equal(again.W1_, whole.W1_)
    assert np.array_equal(again.loss_curve_, whole.loss_curve_)


def test_early_stopping_requires_enough_samples(iris):
    few = np.r_[0:3, 50:53, 100:103]
    with pytest.raises(ValueError, match=r"validation_fraction=0.1 of 9 samples leaves"):
        LMMClassifier(early_stopping=True).fit(iris.X[few], iris.y[few])


def test_robust_training_raises_certified_accuracy(digits):
    X, y = digits.X / 16, digits.y
    shares = []
    for eps in (0.0, 0.2):
        clf = LMMClassifier(
            40, robust_eps=eps, warmup_epochs=20, batch_size=50, polish=None, random_state=0
        ).fit(X, y)
        shares.append(((clf.predict(X) == y) & (clf.certified_radius(X) > 0.2)).mean())
    assert shares[1] > shares[0] + 0.01


def test_augmentation_is_applied_to_batches(iris):
    seen = []

    def look(rows, rng):
        seen.append(rows.shape)
        return rows + rng.normal(0, 0.05, rows.shape)

    options = {"n_hidden": 10, "warmup_epochs": 3, "batch_size": 50, "random_state": 0}
    clf = LMMClassifier(augment=look, **options).fit(*iris)
    assert seen == [(50, 4)] * 9
    assert not np.array_equal(clf.W1_, LMMClassifier(**options).fit(*iris).W1_)
    for bad in (lambda rows, rng: rows[:, :2], lambda rows, rng: rows * np.nan):
        with pytest.raises(ValueError, match="augment must return finite numbers of the shape"):
            LMMClassifier(augment=bad, **options).fit(*iris)


def test_stopped_training_discards_previous_fit(iris):
    clf = LMMClassifier(30, random_state=0).fit(*iris)
    assert clf.polish_losses_.size
    clf.set_params(callbacks=lambda progress: True).fit(iris.X[::2], iris.y[::2])
    assert clf.polish_losses_.size == 0
    assert not hasattr(clf, "suspects_")
    assert clf.loss_curve_.size == 1


def test_pruning_after_partial_fit_keeps_units_of_first_samples(iris):
    clf = SubgradientLMMClassifier(40, max_iter=300, engine="dense", random_state=0).fit(*iris)
    needed = clf.unit_activation_counts_ > 0
    assert 0 < needed.sum() < 40
    clf.set_params(max_iter=1, keep="last").partial_fit(iris.X[:5], iris.y[:5])
    W1, kept = clf.W1_.copy(), clf.unit_activation_counts_ > 0
    assert kept[needed].all()
    # On the new samples alone, some of these units are inactive.
    assert (clf.model_.activation_counts(iris.X[:5]) == 0)[needed].any()
    clf.prune()
    assert np.array_equal(clf.W1_, W1[:, kept])


def test_checkpoints_do_not_change_polish(tmp_path, iris):
    path = tmp_path / "checkpoint"
    clf = LMMClassifier(20, polish=0.3, random_state=0, callbacks=Checkpoint(path, every=0.0))
    clf.fit(*iris)
    assert clf.polish_losses_.size > 2
    again = maxplus.resume(path, *iris)
    assert np.array_equal(again.W1_, clf.W1_)


def test_n_jobs_one_limits_warm_up_to_one_thread(iris):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    seen = []

    def look(rows, rng):
        info = threadpoolctl.threadpool_info()
        seen.append(max(pool["num_threads"] for pool in info if pool["user_api"] == "blas"))
        return rows

    LMMClassifier(10, warmup_epochs=1, augment=look, n_jobs=1, random_state=0).fit(*iris)
    assert set(seen) == {1}


def test_warm_up_uses_sample_weights(iris):
    """The recall of a class with small weights is lower."""
    X, y = iris.X[50:], iris.y[50:]
    options = {"n_hidden": 4, "warmup_epochs": 40, "polish": None, "random_state": 0}
    recalls = []
    for light in (1.0, 1e-3):
        weight = np.where(y == 1, light, 1.0)
        clf = LMMClassifier(**options).fit(X, y, weight)
        recalls.append((clf.predict(X[y == 1]) == 1).mean())
    assert recalls[1] < recalls[0]


@pytest.fixture(scope="module")
def warm(iris):
    """Return a classifier of iris before the polish."""
    return LMMClassifier(30, standardize=False, polish=None, random_state=0).fit(*iris)


def test_polish_reinitializes_idle_units(iris, warm):
    """Steps on one of two close samples of different classes undo those on the other."""
    idle = warm.unit_activation_counts_ == 0
    assert idle.any()
    result = polish(warm.model_, *iris, np.random.default_rng(0))
    assert result.succeeded
    assert result.status is Status.POLISHED
    assert result.n_iter > 3
    # Some units that were inactive before the polish are active after it.
    assert (result.model.activation_counts(iris.X)[idle] > 0).any()


def test_polish_skips_contradictory_samples(digits):
    X, y = digits.X.copy(), digits.y.copy()
    X[1], X[3] = X[0], X[2]  # equal images with different labels
    y[1], y[3] = (y[0] + 1) % 10, (y[2] + 1) % 10
    with pytest.warns(
        ConvergenceWarning, match=r"left \d of 500 training samples above .* 0\.6931.*max_suspects"
    ) as caught:
        clf = LMMClassifier(60, polish="log2", random_state=0).fit(X, y)
    assert caught[0].filename == __file__
    assert clf.status_ == Status.GIVEN_UP.value
    assert set(clf.suspects_) <= {0, 1, 2, 3}
    assert len(set(clf.suspects_) & {0, 1}) >= 1
    assert len(set(clf.suspects_) & {2, 3}) >= 1
    fine = np.delete(np.arange(len(y)), clf.suspects_)
    assert clf.training_losses_[fine].max() < LOG2
    assert clf.score(X[fine], y[fine]) == 1.0


def test_polish_excludes_suspects(digits):
    """Samples with flipped labels have the largest losses."""
    X, y = digits.X.copy(), digits.y.copy()
    flipped = np.arange(0, 500, 25)
    y[flipped] = (y[flipped] + 3) % 10
    options = {"n_hidden": 40, "slope": 0.4, "warmup_epochs": 20, "random_state": 0}
    warm = LMMClassifier(polish=None, **options).fit(X, y)
    n_above = int((warm.training_losses_ >= LOG2).sum())
    assert 5 < n_above < 60
    left = LMMClassifier(max_suspects=n_above, polish="log2", **options).fit(X, y)
    assert np.array_equal(left.W1_, warm.W1_)
    assert set(left.suspects_) == set(np.flatnonzero(warm.training_losses_ >= LOG2))
    assert np.isin(left.suspects_, flipped).mean() > 0.5
    some = LMMClassifier(max_suspects=10, polish="log2", **options).fit(X, y)
    worst = np.argsort(-warm.training_losses_)[:10]
    others = np.delete(np.arange(500), some.suspects_)
    assert len(some.suspects_) <= 10
    assert set(some.suspects_) <= set(worst)
    assert some.training_losses_[others].max() < LOG2
    assert some.status_ == left.status_ == Status.SKIPPED.value
    share = LMMClassifier(max_suspects=0.02, polish="log2", **options).fit(X, y)
    assert np.array_equal(share.W1_, some.W1_)


# -- decision to polish ----------------------------------------------------------------------------


def polish_if(model, X, y, *, helps=True, calls=None, **options):
    """Run a `ValidatedPolish` whose validation returns ``helps``; ``calls`` records its calls."""

    def decide(*about):
        if calls is not None:
            calls.append(about)
        return helps

    problem = TrainingProblem(X, y, rng=np.random.default_rng(0))
    return ValidatedPolish(decide, Polish(**options)).run(model, problem, TrainingMonitor())


def test_polish_runs_only_if_it_helps(iris, warm):
    losses = warm.model_.losses(*iris)
    n_above = int((losses >= LOG2).sum())
    assert n_above >= 2
    left = polish_if(warm.model_, *iris, helps=False)
    assert left.status is Status.UNFIT
    assert_array_equal(left.model.W1, warm.W1_)
    assert left.above.size == n_above
    done = polish_if(warm.model_, *iris)
    assert done.status is Status.POLISHED
    assert done.losses.max() < LOG2
    # The validation is not called if no loss is above the level.
    calls = []
    assert polish_if(warm.model_, *iris, calls=calls, skip=n_above).status is Status.SKIPPED
    fine = np.flatnonzero(losses < LOG2)
    nothing = polish_if(warm.model_, iris.X[fine], iris.y[fine], calls=calls, helps=False)
    assert nothing.status is Status.POLISHED
    # It is not called either if many losses are above the level.
    y = np.where(np.arange(150) % 15, iris.y, (iris.y + 1) % 3)
    many = polish_if(warm.model_, iris.X, y, calls=calls)
    assert many.status is Status.UNFIT
    assert many.above.size >= 10
    assert not calls


def test_polish_has_a_limit(cloud):
    """Random labels: without a limit, the polish takes many steps."""
    clf = LMMClassifier(6, standardize=False, polish=None, random_state=0).fit(*cloud)
    problem = TrainingProblem(cloud.X, cloud.y, rng=np.random.default_rng(0))
    free = Polish().run(clf.model_, problem, TrainingMonitor())
    short = Polish(max_evaluations=200).run(clf.model_, problem, TrainingMonitor())
    assert short.steps <= 200 + 45 < free.steps
    assert short.status is Status.GIVEN_UP


def test_unfinished_polish_is_kept(iris):
    """Equal samples with different labels stay above the level."""
    X, y = np.vstack([iris.X, iris.X[:1]]), np.append(iris.y, 1)
    warm = LMMClassifier(30, standardize=False, polish=None, random_state=0).fit(X, y)
    assert (warm.model_.losses(X, y) >= LOG2).sum() > 2
    kept = polish_if(warm.model_, X, y)
    assert kept.status is Status.UNFIT
    assert set(kept.above) <= {0, 150}
    assert kept.above.size >= 1
    assert kept.n_iter > 0


class Nudge:
    """Replacement of a polish: raises scores of the first class; ``left`` rows stay above."""

    level = LOG2

    def __init__(self, more, left):
        self.more, self.left = more, left

    def run(self, model, problem, monitor):
        moved = model.copy()
        moved.W2[:, 0] += self.more
        return SimpleNamespace(model=moved, above=np.arange(self.left))


def passes_validation(model, data, more, monitor=None, left=0):
    def train(like, rows, length, rng, quiet):
        assert like is model
        assert len(rows.y) < len(data.y)
        return model

    problem = TrainingProblem(data.X, data.y, rng=np.random.default_rng(1))
    return validate_polish(
        train, lambda n, length: Nudge(more, left), model, problem, monitor or TrainingMonitor()
    )


def test_polish_decision_uses_held_out_rows(iris):
    model = LMMClassifier(6, standardize=False, polish=None, random_state=0).fit(*iris).model_
    Z = model.scores(iris.X).astype(float)

    t = inverse_temperature(Z, iris.y)

    def losses(Z):
        p = softmax(t * Z, axis=1)
        return -np.log(p[np.arange(150), iris.y])

    answers = []
    for more in (0.0, 0.05, -0.1, 0.5, -0.7, 1.0, 2.0, -4.0):
        moved = Z + np.array([more, 0.0, 0.0])
        dearer = losses(moved) - losses(Z)
        wrong = 1.0 * (moved.argmax(axis=1) != iris.y) - (Z.argmax(axis=1) != iris.y)
        costs = any(d.mean() > d.std() / np.sqrt(150) for d in (dearer, wrong))
        answers.append(passes_validation(model, iris, more))
        assert answers[-1] == (not costs), more
    assert set(answers) == {True, False}
    assert answers[0]
    # A polish is rejected if most losses stay above the level.
    assert not passes_validation(model, iris, 0.0, left=150)


def test_polish_is_not_run_without_held_out_rows(iris):
    model = LMMClassifier(3, standardize=False, polish=None, random_state=0).fit(*iris).model_
    one_of_each = SimpleNamespace(X=iris.X[[0, 50, 100]], y=np.arange(3))
    assert not passes_validation(model, one_of_each, 0.0)
    interrupted = TrainingMonitor()
    interrupted.interrupt()
    assert not passes_validation(model, iris, 0.0, interrupted)

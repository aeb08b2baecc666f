"""Checkpoints: resumed fits with the same bits, damaged files, killed writers."""

import errno
import os
import random
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import maxplus
from file_mutations import tamper
from maxplus import LMMClassifier, MaxPlusClassifier, SubgradientLMMClassifier
from maxplus.io import Checkpoint, FileError, container
from maxplus.training import polyak
from processes import kill_writers

SETTINGS = {
    "sparse": {},
    "dense": {"engine": "dense"},
    "tree": {"engine": "tree", "w0_update_interval": 7},
    "sgd": {"objective": "mean", "learning_rate": 1.0},
    "mean": {"objective": "mean", "engine": "dense", "step": "polyak", "max_iter": 150},
    "top-k": {"objective": "top-k", "top_k": 7},
    "top-k dense": {"objective": "top-k", "engine": "dense", "max_iter": 300},
    "last": {"keep": "last"},
    "target": {"polyak_target": 1.0},
    "level": {"step": "level"},
    "level, dense": {"step": "level", "engine": "dense"},
    "level, last": {"step": "level", "engine": "tree", "keep": "last", "w0_update_interval": 7},
    "level, sgd": {"step": "level", "objective": "mean"},
}


def write_checkpoint(path, data, estimator, stop=3):
    """Write a checkpoint of a fit that is stopped early."""
    callbacks = [Checkpoint(path, every=0.0), lambda progress: progress.iteration >= stop]
    estimator.set_params(callbacks=callbacks).fit(*data)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_resumed_training_ends_with_the_same_weights(tmp_path, iris, name):
    options = {"n_hidden": 8, "max_iter": 1500, "random_state": 3, **SETTINGS[name]}
    whole = SubgradientLMMClassifier(**options).fit(iris.X, iris.y)
    path = tmp_path / "checkpoint"
    write_checkpoint(path, iris, SubgradientLMMClassifier(**options), whole.n_iter_ // 3)
    for _ in range(2):  # the second time from the checkpoint of a finished training
        again = maxplus.resume(path, iris.X, iris.y, Checkpoint(path))
        assert again.status_ == whole.status_
        for layer in ("W0_", "W1_", "W2_"):
            assert np.array_equal(getattr(again, layer), getattr(whole, layer))
        for column in whole.history_:
            assert np.array_equal(again.history_[column], whole.history_[column])
        assert (again.max_loss_, again.slope_) == (whole.max_loss_, whole.slope_)
        assert np.array_equal(again.prototypes_, whole.prototypes_)


def test_checkpoint_of_parameter_that_cannot_be_stored_fails_at_the_start(tmp_path, iris):
    reports = []
    clf = SubgradientLMMClassifier(
        8,
        max_iter=1500,
        step=polyak(),
        callbacks=[Checkpoint(tmp_path / "checkpoint"), reports.append],
    )
    with pytest.raises(ValueError, match="cannot be stored in a file; save the estimator"):
        clf.fit(iris.X, iris.y)
    assert not reports
    assert not hasattr(clf, "model_")


def test_resume_requires_the_same_sample_weights(tmp_path, iris):
    path, weight = tmp_path / "checkpoint", 1.0 + np.arange(150) % 3
    options = {"n_hidden": 8, "max_iter": 300, "objective": "mean", "random_state": 3}
    whole = SubgradientLMMClassifier(**options).fit(iris.X, iris.y, weight)
    write_checkpoint(path, (*iris, weight), SubgradientLMMClassifier(**options), 100)
    with pytest.raises(FileError, match="sample_weight"):
        maxplus.resume(path, iris.X, iris.y)
    again = maxplus.resume(path, iris.X, iris.y, sample_weight=weight)
    assert np.array_equal(again.W1_, whole.W1_)
    assert again.mean_loss_ == whole.mean_loss_


def test_resume_requires_the_same_data_and_a_checkpoint(tmp_path, iris, fitted):
    path = tmp_path / "checkpoint"
    SubgradientLMMClassifier(8, max_iter=5, callbacks=Checkpoint(path)).fit(iris.X, iris.y)
    with pytest.raises(FileError, match="to other data"):
        maxplus.resume(path, iris.X + 1e-9, iris.y)
    with pytest.raises(FileError, match="is a maxplus-checkpoint file, but a maxplus-model"):
        maxplus.load(path)
    fitted.save(tmp_path / "model")
    with pytest.raises(FileError, match="is a maxplus-model file"):
        maxplus.resume(tmp_path / "model", iris.X, iris.y)
    tamper(path, lambda document, arrays: arrays.pop("iteration"))
    with pytest.raises(FileError, match="is damaged"):
        maxplus.resume(path, iris.X, iris.y)


def test_full_disk_does_not_end_training(tmp_path, iris, monkeypatch):
    path = tmp_path / "checkpoint"
    path.write_bytes(b"the last one")
    replace, contents = os.replace, []

    def full_at_first(source, target):
        # The cache of compiled kernels renames files, too.
        if Path(target) != path:
            return replace(source, target)
        contents.append(path.read_bytes())
        if len(contents) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(source, target)

    monkeypatch.setattr(os, "replace", full_at_first)
    clf = MaxPlusClassifier(max_iter=20, callbacks=Checkpoint(path, every=0.0))
    with pytest.warns(UserWarning, match="No space left.*trying again in 0 seconds"):
        clf.fit(*iris)
    assert contents[:2] == [b"the last one"] * 2
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]
    assert maxplus.resume(path, *iris).n_iter_ == 20


def test_impossible_checkpoint_path_is_rejected(tmp_path, iris):
    for place in (tmp_path / "nowhere" / "checkpoint", tmp_path):
        with pytest.raises(OSError, match=str(place)):
            MaxPlusClassifier(max_iter=2, callbacks=Checkpoint(place)).fit(*iris)


@pytest.mark.parametrize("engine", ["dense", "sgd"])
def test_resumed_partial_fit_keeps_history_after_crash(tmp_path, cloud, engine):
    options = {"objective": "mean" if engine == "sgd" else "max", "engine": engine}
    whole, crashed = (
        SubgradientLMMClassifier(6, max_iter=40, random_state=0, **options).fit(*cloud)
        for _ in range(2)
    )
    whole.partial_fit(*cloud)

    def crash(progress):
        if progress.iteration >= 10:
            raise RuntimeError("crashed")

    path = tmp_path / "checkpoint"
    crashed.set_params(callbacks=[Checkpoint(path, every=0.0), crash])
    with pytest.raises(RuntimeError, match="crashed"):
        crashed.partial_fit(*cloud)
    again = maxplus.resume(path, *cloud)
    assert (again.n_iter_, whole.n_iter_) == (80, 80)
    for column in whole.history_:
        assert np.array_equal(again.history_[column], whole.history_[column])
    assert np.array_equal(again.W1_, whole.W1_)


INTERRUPTED = {
    "warm-up": LMMClassifier(
        12, warmup_epochs=9, batch_size=20, early_stopping=True, random_state=0
    ),
    "iterations": SubgradientLMMClassifier(8, max_iter=50, engine="dense", random_state=0),
    "level": SubgradientLMMClassifier(8, max_iter=50, step="level", random_state=0),
}


@pytest.mark.parametrize("stage", INTERRUPTED)
def test_resume_checks_every_array_of_checkpoint(tmp_path, iris, stage):
    path = tmp_path / "checkpoint"
    write_checkpoint(path, iris, INTERRUPTED[stage])
    whole = path.read_bytes()
    arrays = load_file(path)
    damages = {
        "missing": lambda A: None,
        "longer": lambda A: np.concatenate([A, A]),
        "axis": lambda A: A[None],
        "type": lambda A: A.astype(np.int32 if A.dtype.kind == "f" else np.float64),
        "NaN": lambda A: np.full_like(A, np.nan) if A.dtype.kind == "f" else A - 10**6,
    }
    for name in arrays:
        for kind, damage in damages.items():
            if not arrays[name].size and kind in ("longer", "NaN"):
                continue
            # Losses may be infinite or NaN, and only some step rules have a state.
            if name.startswith(("history.", "best_loss")) and kind == "NaN":
                continue
            if name == "step.memory" and kind == "missing" and stage != "level":
                continue

            def change(document, arrays, name=name, damage=damage):
                new = damage(arrays.pop(name))
                if new is not None:
                    arrays[name] = new

            path.write_bytes(whole)
            tamper(path, change)
            try:
                maxplus.resume(path, *iris)
            except FileError as error:
                message = str(error)
            else:
                pytest.fail(f"{name}: {kind}")
            assert name != "step.memory" or "the memory of its step rule" in message


@pytest.mark.parametrize("stage", ["warm-up", "iterations"])
@pytest.mark.parametrize("n_features", [2, 8])
def test_resume_rejects_checkpoint_for_other_features(tmp_path, iris, stage, n_features):
    """Only the shapes are wrong: the digest is that of the data."""
    path, other = tmp_path / "checkpoint", tmp_path / "other"
    X = np.tile(iris.X, 2)[:, :n_features]
    write_checkpoint(path, iris, INTERRUPTED[stage])
    write_checkpoint(other, (X, iris.y), INTERRUPTED[stage])
    foreign = load_file(other)

    def swap(document, arrays):
        arrays.clear()
        arrays.update(foreign)

    tamper(path, swap)
    with pytest.raises(FileError, match=f"its weights are for {n_features} features"):
        maxplus.resume(path, *iris)


@pytest.mark.parametrize(
    "generator",
    [
        None,
        {},
        3,
        "x",
        {"bit_generator": "PCG64"},
        {"bit_generator": "MT19937", "state": {}},
        {
            "bit_generator": "PCG64",
            "state": {"state": -1, "inc": 10**60},
            "has_uint32": 0,
            "uinteger": 0,
        },
    ],
)
def test_resume_rejects_damaged_generator(tmp_path, iris, generator):
    path = tmp_path / "checkpoint"
    write_checkpoint(path, iris, INTERRUPTED["warm-up"])
    tamper(path, lambda document, arrays: document.update(generator=generator))
    with pytest.raises(FileError, match="random generator"):
        maxplus.resume(path, *iris)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_killed_writers_never_damage_a_checkpoint(tmp_path):
    path, kind = tmp_path / "checkpoint", "maxplus-checkpoint"
    container.write_container(path, kind, {"n": 0}, {"x": np.full(30000, 0)})
    # Repeat until enough writers were killed in the middle of their work.
    done = 0
    for round_number in range(10):
        done += kill_writers(
            path, kind, 100, 0.02 * (round_number + 1), random.Random(round_number)
        )
        if done > 30:
            return
    raise AssertionError(
        f"only {done} of 1,000 writers had replaced the file when they were killed"
    )

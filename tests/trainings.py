"""Stages of training by themselves, for tests that want no estimator around them."""

from maxplus.training import Conductor, Task
from maxplus.training.stages import Polish, WarmUp


def warm_up(model, X, y, annealing, rng, *, weight=None, callbacks=(), **options):
    """The outcome of a warm-up; options are those of the stage."""
    task = Task(X, y, weight=weight, rng=rng)
    conductor = Conductor(callbacks)
    conductor.begin(WarmUp.name, is_last=True)
    return WarmUp(annealing, **options).run(model, task, conductor)


def polish(model, X, y, rng, **options):
    """The outcome of a polish; options are those of the stage."""
    return Polish(**options).run(model, Task(X, y, rng=rng), Conductor())

"""Training stages, which share an interface and run in sequence."""

from maxplus.training.smooth.annealing import Annealing
from maxplus.training.stages.base import Outcome, Stage, TrainingResult, run_stages
from maxplus.training.stages.iterations import Iterations, IterationsOutcome, train
from maxplus.training.stages.polish import Polish, PolishOutcome, ValidatedPolish
from maxplus.training.stages.warm_up import WarmUp, WarmUpOutcome

__all__ = [
    "Annealing",
    "Iterations",
    "IterationsOutcome",
    "Outcome",
    "Polish",
    "PolishOutcome",
    "Stage",
    "TrainingResult",
    "ValidatedPolish",
    "WarmUp",
    "WarmUpOutcome",
    "run_stages",
    "train",
]

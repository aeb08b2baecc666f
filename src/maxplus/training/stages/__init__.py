"""Training stages, which share a common interface and can be combined in any order."""

from maxplus.training.smooth.annealing import Annealing
from maxplus.training.stages.base import Outcome, Stage, TrainingResult, run_stages
from maxplus.training.stages.iterations import Iterated, Iterations, train
from maxplus.training.stages.polish import Polish, Polished, ValidatedPolish
from maxplus.training.stages.warm_up import WarmedUp, WarmUp

__all__ = [
    "Annealing",
    "Iterated",
    "Iterations",
    "Outcome",
    "Polish",
    "Polished",
    "Stage",
    "TrainingResult",
    "ValidatedPolish",
    "WarmUp",
    "WarmedUp",
    "run_stages",
    "train",
]

"""Stages of a training, siblings behind one interface; they may follow one another in any order."""

from maxplus.training.stages.base import Outcome, Stage, Trained, run_stages
from maxplus.training.stages.careful_polish import CarefulPolish
from maxplus.training.stages.iterations import Iterated, Iterations, train
from maxplus.training.stages.polish import Polish, Polished
from maxplus.training.stages.warm_up import Annealing, WarmedUp, WarmUp

__all__ = [
    "Annealing",
    "CarefulPolish",
    "Iterated",
    "Iterations",
    "Outcome",
    "Polish",
    "Polished",
    "Stage",
    "Trained",
    "WarmUp",
    "WarmedUp",
    "run_stages",
    "train",
]

"""Training: objectives, step rules, engines, stages and the conductor of them all."""

from maxplus.training.conductor import Conductor, KeepBestOnInterrupt, Progress
from maxplus.training.objectives import MaxLoss, MeanLoss, Objective, TopKLoss
from maxplus.training.result import History, Status
from maxplus.training.stages import Iterations, Polish, WarmUp, run_stages, train
from maxplus.training.steps import StepRule, constant, level, paper_alpha, polyak, two_phase
from maxplus.training.task import Task

__all__ = [
    "Conductor",
    "History",
    "Iterations",
    "KeepBestOnInterrupt",
    "MaxLoss",
    "MeanLoss",
    "Objective",
    "Polish",
    "Progress",
    "Status",
    "StepRule",
    "Task",
    "TopKLoss",
    "WarmUp",
    "constant",
    "level",
    "paper_alpha",
    "polyak",
    "run_stages",
    "train",
    "two_phase",
]

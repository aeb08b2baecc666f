"""Training: objectives, step rules, engines and the loop that drives them."""

from maxplus.training.loop import Progress, train
from maxplus.training.objectives import MaxLoss, MeanLoss, Objective, TopKLoss
from maxplus.training.result import History, Status, TrainingResult
from maxplus.training.steps import StepRule, constant, level, paper_alpha, polyak, two_phase
from maxplus.training.task import Task

__all__ = [
    "History",
    "MaxLoss",
    "MeanLoss",
    "Objective",
    "Progress",
    "Status",
    "StepRule",
    "Task",
    "TopKLoss",
    "TrainingResult",
    "constant",
    "level",
    "paper_alpha",
    "polyak",
    "train",
    "two_phase",
]

"""Training: objectives, step rules, engines, stages and the training monitor."""

from maxplus.training.monitor import KeepBestOnInterrupt, Progress, TrainingMonitor
from maxplus.training.problem import (
    MaxLoss,
    MeanLoss,
    Objective,
    ObjectiveValue,
    TopKLoss,
    TrainingProblem,
    TrimmedMaxLoss,
)
from maxplus.training.result import History, Status
from maxplus.training.stages import Iterations, Polish, WarmUp, run_stages, train
from maxplus.training.steps import StepRule, constant, level, paper_alpha, polyak, two_phase

__all__ = [
    "History",
    "Iterations",
    "KeepBestOnInterrupt",
    "MaxLoss",
    "MeanLoss",
    "Objective",
    "ObjectiveValue",
    "Polish",
    "Progress",
    "Status",
    "StepRule",
    "TopKLoss",
    "TrainingMonitor",
    "TrainingProblem",
    "TrimmedMaxLoss",
    "WarmUp",
    "constant",
    "level",
    "paper_alpha",
    "polyak",
    "run_stages",
    "train",
    "two_phase",
]

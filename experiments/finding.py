"""What an experiment is told and what it brings back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from experiments.parts import Parts
from maxplus.training.monitor import Callback

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
Track = Callable[[Iterable[Any], str], Iterable[Any]]
# Opens what is told about one training's progress, given the model's name.
Watch = Callable[[str], AbstractContextManager[Callback]]


def unwatched(name: str) -> AbstractContextManager[Callback]:
    """A ``Watch`` that tells nobody."""
    return nullcontext(lambda progress: None)


def _untracked(items: Iterable[T], text: str) -> Iterator[T]:
    yield from items


@dataclass(frozen=True)
class Settings:
    """How much is to be done, and who hears of the progress.

    Parameters
    ----------
    quick : bool
        Reduced scale: seconds instead of minutes.
    seeds : int, optional
        Number of random repetitions; each experiment has its own default.
    track : callable
        Wraps an iterable, given a description, to show progress.
    watch : callable
        Opens a training's callback, given the model's name, to show progress.
    parts : Parts
        Where an experiment of several long parts keeps those that are done.
    """

    quick: bool = False
    seeds: int | None = None
    track: Track = _untracked
    watch: Watch = unwatched
    parts: Parts = field(default_factory=Parts)

    def n_seeds(self, full: int, quick: int) -> int:
        """The number asked for, or the experiment's own."""
        return self.seeds if self.seeds is not None else (quick if self.quick else full)


@dataclass(frozen=True)
class Table:
    """Rows of text or numbers under a caption."""

    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True)
class Finding:
    """One experiment's outcome.

    Parameters
    ----------
    title : str
    text : str
        What the paper says, what was found and where they differ, in Markdown.
    tables : list of Table
    figures : dict of matplotlib Figures by what they show
    values : dict
        All numbers, as JSON can hold them.
    scale : str
        What was reduced, if anything was.
    seconds : float, optional
        How long it took; None where nobody looked at the clock.
    machine : dict
        What times depend on; both are noted by `Experiment.run`.
    """

    title: str
    text: str
    tables: list[Table]
    values: dict[str, Any]
    figures: dict[str, Figure] = field(default_factory=dict)
    scale: str = ""
    seconds: float | None = None
    machine: dict[str, Any] = field(default_factory=dict)


def mean_and_spread(values: Iterable[float], digits: int = 3, factor: float = 1.0) -> str:
    """Mean ± standard deviation, as text; one value stands alone."""
    numbers = factor * np.array(list(values), float)
    if numbers.size == 1:
        return f"{numbers[0]:.{digits}f}"
    return f"{numbers.mean():.{digits}f} ± {numbers.std(ddof=1):.{digits}f}"

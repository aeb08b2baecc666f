"""``verbose`` as a progress bar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxplus.training.progress import ProgressBar


def progress_bar(estimator: Any) -> ProgressBar:
    """A bar with the estimator's name; what draws it is loaded when one is wanted."""
    from maxplus.training.progress import ProgressBar

    return ProgressBar(type(estimator).__name__)

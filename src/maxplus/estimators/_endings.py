"""How a training ended, as fitted attributes and, where it falls short, as a warning."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning

from maxplus.estimators._warning import warn_user
from maxplus.training import Status


class Ended:
    """For estimators whose ``status_`` is the code of a `maxplus.training.Status`."""

    status_: str

    @property
    def status_message_(self) -> str:
        """``status_`` as a sentence."""
        return Status.of(self.status_).message


def warn_of_shortfall(message: str) -> None:
    """Say that a fit did not reach what it was asked for, as scikit-learn's estimators do."""
    warn_user(message, ConvergenceWarning)

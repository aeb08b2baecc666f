"""The LMM's weights as fitted attributes."""

from numpy.typing import NDArray

from maxplus.models import LMM


class LMMWeightsMixin:
    """For estimators whose ``model_`` is an LMM."""

    model_: LMM

    @property
    def W0_(self) -> NDArray:
        """The two slopes of each feature, + then −; shape (2P,)."""
        return self.model_.W0

    @property
    def W1_(self) -> NDArray:
        """Offsets of the min-plus layer, shape (2P, H)."""
        return self.model_.W1

    @property
    def W2_(self) -> NDArray:
        """Offsets of the max-plus layer, shape (H, C); heights (H, 1) in a regression."""
        return self.model_.W2

    @property
    def n_hidden_(self) -> int:
        """Hidden units there are."""
        return self.model_.n_hidden

"""What explanations are given beside rows, checked once at the door."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maxplus.models import LMM, Network

if TYPE_CHECKING:
    from maxplus.explain.domain import Domain

# What to do with a committee, of which each network has units of its own.
EACH_MEMBER = "take each of a committee's members"


def check_lmm(model: Any, what: str, remedy: str) -> None:
    """Refuse a committee, or anything else, where one network is needed."""
    if not isinstance(model, LMM):
        raise TypeError(f"{what} one LMM; got a {type(model).__name__}; {remedy}")


def check_domain(domain: Domain, n_features: int) -> None:
    """Refuse a domain of other features than the model's."""
    if domain.n_features != n_features:
        raise ValueError(f"domain must be of {n_features} features; got one of {domain.n_features}")


def check_class_names(names: Sequence[Any], model: Network) -> None:
    """Refuse words for more classes than there are, or for fewer."""
    if len(names) != model.n_classes:
        raise ValueError(f"class_names must name {model.n_classes} classes; got {len(names)} names")

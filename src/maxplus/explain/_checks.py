"""What explanations are given beside rows, checked once at the door."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxplus.models import LMM, AdditiveLMM, Network, Term

if TYPE_CHECKING:
    from maxplus.explain.domain import Domain


def as_additive(model: LMM | AdditiveLMM) -> AdditiveLMM:
    """Return a sum of terms as it is, and an LMM as a sum of one term."""
    if isinstance(model, AdditiveLMM):
        return model
    P = model.n_features
    return AdditiveLMM([Term(np.arange(P), model)], P)


def check_lmm(model: Any, what: str, remedy: str) -> None:
    """Refuse a sum of terms, or anything else, where one network is needed."""
    if not isinstance(model, LMM):
        raise TypeError(f"{what} one LMM; got a {type(model).__name__}; {remedy}")


def check_model(model: Any) -> None:
    """Refuse what is neither an LMM nor a sum of such terms."""
    if not isinstance(model, LMM | AdditiveLMM):
        raise TypeError(f"model must be an LMM or an AdditiveLMM; got a {type(model).__name__}")


def check_domain(domain: Domain, n_features: int) -> None:
    """Refuse a domain of other features than the model's."""
    if domain.n_features != n_features:
        raise ValueError(f"domain must be of {n_features} features; got one of {domain.n_features}")


def check_class_names(names: Sequence[Any], model: Network) -> None:
    """Refuse words for more classes than there are, or for fewer."""
    if len(names) != model.n_classes:
        raise ValueError(f"class_names must name {model.n_classes} classes; got {len(names)} names")

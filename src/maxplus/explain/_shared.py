"""Argument validation and tabular output, shared by all explanations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM, Network
from maxplus.models.lmm import TermSum

if TYPE_CHECKING:
    from maxplus.explain.domain import Domain


class Tabular:
    """Mixin for results that can be converted to a record array or a data frame."""

    def to_records(self) -> np.recarray:
        """Return the results as a record array."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """Return the results as a pandas data frame, with the columns of `to_records`."""
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "to_frame needs pandas: install it, or call to_records() for a NumPy record array"
            ) from None
        return pandas.DataFrame.from_records(self.to_records())


def records(columns: dict[str, NDArray]) -> np.recarray:
    """Combine columns of equal length in a record array."""
    types = [(name, column.dtype) for name, column in columns.items()]
    out = np.recarray(len(next(iter(columns.values()))), dtype=types)
    for name, column in columns.items():
        out[name] = column
    return out


def check_lmm(model: Any, caller: str, remedy: str) -> LMM:
    """Return the model; raise TypeError unless it is a single LMM."""
    if not isinstance(model, LMM):
        raise TypeError(f"{caller} requires a single LMM; got {type(model).__name__}: {remedy}")
    return model


def check_model(model: Any) -> None:
    """Raise TypeError unless the model is an LMM or a sum of LMM terms."""
    if not isinstance(model, TermSum):
        remedy = "; pass its attribute model_" if hasattr(model, "model_") else ""
        raise TypeError(
            f"model must be an LMM or an AdditiveLMM; got a {type(model).__name__}{remedy}"
        )


def check_domain(domain: Domain, n_features: int) -> None:
    """Raise ValueError if the domain and the model have different numbers of features."""
    if domain.n_features != n_features:
        raise ValueError(f"domain must have {n_features} features; got {domain.n_features}")


def check_class_names(names: Sequence[Any], model: Network) -> None:
    """Raise ValueError unless there is a name for each class."""
    if len(names) != model.n_classes:
        raise ValueError(f"class_names must name {model.n_classes} classes; got {len(names)} names")

"""The members of a committee inside its file: each a document and arrays, as if it were alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators import LMMClassifier
from maxplus.estimators._training_summary import training_summary
from maxplus.io.container import FileError
from maxplus.models import Committee

Described = tuple[dict[str, Any], dict[str, NDArray]]


def describe_members(
    members: Sequence[LMMClassifier], describe: Callable[[Any], Described]
) -> tuple[list[dict[str, Any]], dict[str, NDArray]]:
    """Their documents, and all arrays by names that begin with the member's number."""
    documents: list[dict[str, Any]] = []
    arrays: dict[str, NDArray] = {}
    for k, member in enumerate(members):
        document, own = describe(member)
        documents.append(document)
        arrays |= {f"{_prefix(k)}{name}": array for name, array in own.items()}
    return documents, arrays


def rebuild_members(
    documents: Any,
    arrays: dict[str, NDArray],
    rebuild: Callable[[dict[str, Any], dict[str, NDArray]], Any],
) -> list[LMMClassifier]:
    """The members; FileError where one of them, or they together, cannot be."""
    if not (isinstance(documents, list) and documents):
        raise FileError("a committee has no members")
    members = []
    for k, document in enumerate(documents):
        if not isinstance(document, dict) or document.get("estimator") != LMMClassifier.__name__:
            raise FileError(f"member {k} is no {LMMClassifier.__name__}")
        prefix = _prefix(k)
        own = {n.removeprefix(prefix): A for n, A in arrays.items() if n.startswith(prefix)}
        try:
            members.append(rebuild(document, own))
        except FileError as error:
            raise FileError(f"member {k}: {error}") from None
    return members


def committee_of(members: Sequence[LMMClassifier]) -> Committee:
    """Their networks as one; FileError if they do not fit each other."""
    try:
        return Committee(member.model_ for member in members)
    except ValueError as error:
        raise FileError(str(error)) from None


def check_members(committee: Any) -> None:
    """FileError if its members are not about the same classes, features and samples."""
    for k, member in enumerate(committee.members_):
        for name in ("classes_", "training_labels_", "feature_names_in_"):
            own, whole = (getattr(clf, name, np.empty(0)) for clf in (member, committee))
            if not np.array_equal(own, whole):
                raise FileError(f"member {k} has other {name} than the committee")
        if _counts(member) != _counts(committee):
            raise FileError(f"member {k} has other training rows than the committee")
    wins = np.concatenate([getattr(m, "unit_wins_", np.empty(0)) for m in committee.members_])
    if not np.array_equal(wins, getattr(committee, "unit_wins_", np.empty(0))):
        raise FileError("the members' unit_wins_ are not the committee's")


def _counts(estimator: Any) -> tuple[Any, Any]:
    summary = training_summary(estimator)
    return summary["n_rows"], summary["class_counts"]


def _prefix(k: int) -> str:
    return f"member.{k}."

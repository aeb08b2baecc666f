"""Rank 0 works for all: it asks for what the others have, and they hand it over.

Work that runs once, before a training or after it, is written for one process. On rank 0 it sees
what all ranks have, takes no more memory there than on one machine, and everybody gets its result,
or its error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from maxplus.distributed.current import using
from maxplus.distributed.team import ALONE, Team, agreed

T = TypeVar("T")

RESULT, ERROR = "result", "error"


class Share(Protocol):
    """A rank's part of something that all ranks have together."""

    def whole(self, team: Team) -> Any:
        """All of it, as rank 0 sees it; whatever is looked at there is a question to all."""

    def answer(self, team: Team, question: Any) -> Any:
        """All ranks' answers to a question, on rank 0."""


def work_on_first(team: Team, work: Callable[[Any], T], share: Share) -> T:
    """What ``work`` makes of the whole on rank 0, on all ranks."""
    whole = share.whole(team)
    if not team.is_first:
        return _serve(team, share)
    try:
        # Nobody else takes part in what it does.
        with using(ALONE):
            result = work(whole)
    except Exception as error:
        team.first((ERROR, agreed(error)))
        raise
    team.first((RESULT, result))
    return result


def _serve(team: Team, share: Share) -> Any:
    while True:
        question = team.first(None)
        assert question is not None
        if question[0] == RESULT:
            return question[1]
        if question[0] == ERROR:
            raise agreed(question[1])
        share.answer(team, question)

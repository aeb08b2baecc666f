"""What a user may overrule about the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from maxplus.tables.frames import table_of
from maxplus.tables.table import RawTable, TableError

TASKS = ("auto", "classification", "regression")
IMPUTE, REFUSE = "impute", "error"
# Stands for all columns in ``keep``.
EVERYTHING = "*"


class ColumnChoices(NamedTuple):
    """Columns by name, where the table itself is not to decide.

    Parameters
    ----------
    target : the column with the labels; by default one named so, or else the last
    task : "classification" or "regression"; "auto" looks at the target
    categorical : columns whose every value is a 0/1 feature, also numbers
    numeric : columns of words that stand for the number in them ("12 mg", "grade 2", "5-10")
    drop : columns to leave out
    keep : columns to use that a command would leave out (ids, dates, constants, …); "*" is all,
        as in ``fit``
    missing : "impute", or "error" to refuse missing values
    groups : a column that is no feature; its rows of one value are held out together in validation

    Examples
    --------
    A data frame takes its choices along into ``fit``; nothing else has to know them:

    >>> import pandas as pd
    >>> from maxplus import LMMClassifier
    >>> from maxplus.tables import ColumnChoices
    >>> frame = pd.DataFrame({"ward": [1, 2, 3] * 20, "age": [30, 42, 55, 67] * 15})
    >>> ill = frame["age"] + 20 * (frame["ward"] == 2) > 60
    >>> choices = ColumnChoices(categorical=["ward"])
    >>> clf = LMMClassifier(6, slope=2.0, random_state=0).fit(choices.on(frame), ill)
    >>> clf.preparation_.feature_names
    ['ward = 1', 'ward = 2', 'ward = 3', 'age']
    >>> clf.predict(frame).shape
    (60,)
    """

    target: str | None = None
    task: str = "auto"
    categorical: Sequence[str] = ()
    numeric: Sequence[str] = ()
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    missing: str = IMPUTE
    groups: str | None = None

    def on(self, frame: Any) -> RawTable:
        """A data frame that takes these choices along, to be given to ``fit``.

        Parameters
        ----------
        frame : data frame of pandas, polars or pyarrow

        Returns
        -------
        RawTable
        """
        return replace(table_of(frame), choices=self)

    def keeps(self, name: str) -> bool:
        """Whether a column stays, whatever it looks like.

        Parameters
        ----------
        name : str

        Returns
        -------
        bool
        """
        return name in self.keep or EVERYTHING in self.keep

    def check(self, table: RawTable, target: str | None) -> None:
        """TableError where a name is not there, or two choices exclude each other.

        Parameters
        ----------
        table : RawTable
        target : str or None
        """
        for option, value, known in (
            ("--task", self.task, TASKS),
            ("--missing", self.missing, (IMPUTE, REFUSE)),
        ):
            if value not in known:
                raise TableError(
                    f"{table.name}: {option} must be one of {', '.join(known)}; got {value!r:.60}"
                )
        options = {name: getattr(self, name) for name in ("categorical", "numeric", "drop", "keep")}
        options["groups"] = () if self.groups is None else (self.groups,)
        chosen: dict[str, str] = {}
        for option, names in options.items():
            for name in names:
                if name == EVERYTHING and option == "keep":
                    continue
                require(table, name, f"--{option}")
                if name == target:
                    raise TableError(
                        f"{table.name}: the target {name!r} is no feature, so it cannot be in "
                        f"--{option} as well"
                    )
                # To keep a column and to say what it is go together.
                if option != "keep" and name in chosen:
                    raise TableError(
                        f"{table.name}: {name!r} is in --{chosen[name]} and in --{option}; choose "
                        "one"
                    )
                if option == "keep" and name in self.drop:
                    raise TableError(f"{table.name}: {name!r} is in --drop and in --keep; choose")
                chosen.setdefault(name, option)


# Nothing is overruled.
AUTOMATIC = ColumnChoices()


def require(table: RawTable, name: str, option: str) -> None:
    """TableError if there is no such column."""
    if name not in table.columns:
        raise TableError(
            f"{table.name} has no column {name!r} ({option}); it has "
            f"{', '.join(map(repr, list(table.columns)[:20]))}"
        )

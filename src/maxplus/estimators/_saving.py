"""Fitted estimators as files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

# Fitted attributes with an entry for single training rows, which files keep only when asked to.
PER_ROW = ("training_losses_", "training_labels_", "training_rows_", "suspects_", "residuals_")


class Saved:
    """For estimators that `maxplus.load` reads back."""

    def save(self, path: str | os.PathLike[str], *, remember_rows: bool = False) -> None:
        """Write the fitted estimator to one file; `maxplus.load` reads it back.

        The file holds arrays and JSON only: loading executes nothing. It is
        written whole or not at all.

        Parameters
        ----------
        path : str or path
            Where; a file that exists is replaced, whole, at the end.
        remember_rows : bool, default=False
            Keep what is known of single training rows as well: labels, losses, ``suspects_``,
            ``residuals_``, ``training_rows_``. This reveals them: labels and losses can be read in
            the order of the training rows, and with ``training_rows_`` guesses of rows can be
            tested against the file. By default nothing per training row is written, see
            SECURITY.md.
        """
        from maxplus.io import save

        save(self, path, remember_rows=remember_rows)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Explain why a model from a file lacks what it would know of its training rows."""
            own = vars(self)
            in_memory = {"training_losses_", "residuals_", "interpolates_"} & {*own}
            if name in PER_ROW and "training_summary_" in own and not in_memory:
                raise AttributeError(
                    f"{name} is not known: the model's file keeps nothing about single training "
                    "rows; write it with save(path, remember_rows=True) or --remember-rows"
                )
            return object.__getattribute__(self, name)

"""Fitted estimators as files."""

from __future__ import annotations

import os


class Saved:
    """For estimators that `maxplus.load` reads back."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file; `maxplus.load` reads it back, exactly.

        The file holds arrays and JSON only: loading executes nothing. It is
        written whole or not at all.

        Parameters
        ----------
        path : str or path
            Where; a file that exists is replaced, whole, at the end.
        """
        from maxplus.io import save

        save(self, path)

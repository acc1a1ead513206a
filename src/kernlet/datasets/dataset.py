"""What a loader or a generator returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with their labels, and a test part where the set has one.

    Parameters
    ----------
    name : str
    X : ndarray of shape (n_rows, n_features)
        The official training part where the set has an official split, else all rows. Raw
        values: nothing is scaled. Whole numbers may be held in a narrow dtype such as uint8,
        in which sums and differences wrap around: convert before you compute with them.
    y : ndarray of shape (n_rows,)
        Labels, whole numbers.
    X_test : ndarray of shape (n_test_rows, n_features) or None, default=None
        The official test part, or None where there is none.
    y_test : ndarray of shape (n_test_rows,) or None, default=None

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.datasets import Dataset
    >>> Dataset("pair", np.eye(2), np.array([0, 1]))
    Dataset('pair', 2 rows x 2 features, 2 classes, no test part)
    """

    name: str
    X: Rows
    y: Labels
    X_test: Rows | None = None
    y_test: Labels | None = None

    def __post_init__(self) -> None:
        if (self.X_test is None) != (self.y_test is None):
            raise ValueError("X_test and y_test belong together: give both or neither.")
        _check_lengths(self.X, self.y)
        if self.X_test is not None and self.y_test is not None:
            _check_lengths(self.X_test, self.y_test)

    @property
    def n_classes(self) -> int:
        """Different labels in y."""
        return len(np.unique(self.y))

    def __repr__(self) -> str:
        n_rows, n_features = self.X.shape
        test = "no test part" if self.X_test is None else f"{len(self.X_test)} test rows"
        return (
            f"Dataset({self.name!r}, {n_rows} rows x {n_features} features, "
            f"{self.n_classes} classes, {test})"
        )


def _check_lengths(X: Rows, y: Labels) -> None:
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(
            f"Rows of shape {X.shape} do not go with labels of shape {y.shape}; "
            "give a table of rows and one label a row."
        )

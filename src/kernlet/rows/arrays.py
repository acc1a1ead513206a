"""Rows in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kernlet.rows.source import Rows, consecutive, row_numbers


class ArrayRows(Rows):
    """Rows of an array or of a sparse matrix.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Numbers other than float32 become float64, a block at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.rows import ArrayRows
    >>> rows = ArrayRows(np.arange(6.0).reshape(3, 2))
    >>> float(rows.map_reduce(np.sum, lambda total, value: total + value))
    15.0
    """

    def __init__(self, X: Any) -> None:
        if sparse.issparse(X):
            X = X.tocsr()
        elif not hasattr(X, "dtype"):
            X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"Rows are an array of two dimensions, not {X.ndim}.")
        self.X = X
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)

    def read(self, rows: slice) -> Any:
        """Consecutive rows; a view where nothing is to be converted."""
        start, stop = consecutive(rows, len(self))
        return self.X[start:stop].astype(self.dtype, copy=False)

    def take(self, numbers: Any) -> Any:
        """Rows by their numbers, in the order given."""
        return self.X[row_numbers(numbers, len(self))].astype(self.dtype, copy=False)

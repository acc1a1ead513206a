"""Whether columns are brought to one scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernlet.affine import AffineMap

_UNLIKE = 4.0  # largest range over that of a column near the lower quarter


def choose_scaler(X: Any, scale: str, is_category: Any = None) -> tuple[AffineMap | None, str]:
    """A shift and a scale for every column of numbers, where that is wanted.

    "auto" leaves columns as they are where the ranges of three quarters of them are within a
    factor of four, as pixels are. Categories stay 0 and 1.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    scale : {"auto", "standard", "none"}
    is_category : ndarray of bool of shape (n_features,) or None

    Returns
    -------
    scaler : AffineMap or None
    words : str
        What was done.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.cli.scaling import choose_scaler
    >>> choose_scaler(np.array([[0.0, 0.0], [1.0, 1.0]]), "auto")
    (None, 'none: the columns are of like range')
    """
    numbers = np.ones(X.shape[1], dtype=bool) if is_category is None else ~is_category
    if scale == "none" or not numbers.any():
        return None, "none"
    if scale == "auto" and not _are_unlike(X, numbers):
        return None, "none: the columns are of like range"
    shift, factor = np.zeros(X.shape[1]), np.ones(X.shape[1])
    columns = np.flatnonzero(numbers)
    shift[columns] = X[:, columns].mean(axis=0, dtype=np.float64)
    deviation = X[:, columns].std(axis=0, dtype=np.float64)
    constant = deviation <= 1e-12 * np.abs(shift[columns])
    factor[columns] = 1 / np.where(constant | (deviation == 0), 1.0, deviation)
    kept = " (categories stay 0 and 1)" if not numbers.all() else ""
    return AffineMap(shift, factor), f"numbers to mean 0 and deviation 1{kept}"


def _are_unlike(X: Any, numbers: Any) -> bool:
    ranges = np.ptp(X, axis=0).astype(np.float64)
    ranges = ranges[ranges > 0]
    if not numbers.all() and len(ranges) and ranges.max() > 1:
        return True
    return bool(len(ranges)) and ranges.max() > _UNLIKE * np.quantile(ranges, 0.25)

"""Rows with their targets and weights, as training takes them: batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
from scipy import sparse

from kernlet.devices import NUMPY, Device
from kernlet.kernels.columns import Indices
from kernlet.kernels.gram import merged_entries, row_slices
from kernlet.kernels.kernel import Floats
from kernlet.kernels.lifted import Array
from kernlet.rows import RowReader

#: Rows that take no more than this in float32 are converted once and held, others at each use.
HELD_BYTES = 2**30


class Examples:
    """Rows (x - shift) / scale in float32 on a device, with targets and weights.

    Memory beyond X is at most ``HELD_BYTES`` for the rows, and what the targets take.

    Parameters
    ----------
    X : {ndarray, sparse matrix, RowReader} of shape (n_rows, n_features)
    targets : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Class numbers where there is a table, otherwise the targets themselves.
    weights : ndarray of shape (n_rows,)
    table : ndarray of shape (n_classes, n_outputs), default=None
        The targets of each class.
    shift, scale : float
    device : Device
    """

    def __init__(
        self,
        X: Any,
        targets: Any,
        weights: Floats,
        *,
        table: Floats | None = None,
        shift: float = 0.0,
        scale: float = 1.0,
        device: Device = NUMPY,
    ) -> None:
        self.shift, self.scale, self.device = shift, scale, device
        self.n_rows, self.n_features = X.shape
        self._table = None if table is None else device.send(table)
        if table is None:
            self._targets = device.send(targets if np.ndim(targets) == 2 else targets[:, None])
        else:
            self._targets = device.send(np.asarray(targets, dtype=np.int64), floats=False)
        self._weights = device.send(weights)
        self._X: Any = X
        self._held: Array = None
        self._numbers: Indices | None = None
        if 4 * self.n_rows * self.n_features <= HELD_BYTES:
            self._held, self._X = device.send(self._all_scaled()), None

    def part(self, numbers: Indices) -> Examples:
        """Some of the rows, by their numbers; they stay where they are."""
        part = copy(self)
        part._numbers, part.n_rows = numbers, len(numbers)
        return part

    @property
    def is_held(self) -> bool:
        """Whether all rows are on the device."""
        return self._held is not None

    def as_indices(self, rows: Indices) -> Array:
        """What the methods below want: row numbers of all rows, on the device if they are."""
        if self._numbers is not None:
            rows = self._numbers[rows]
        return rows if self._held is None else self.device.send(rows, floats=False)

    def shuffled(self, random: np.random.RandomState) -> Array:
        """All rows in a random order; block by block where the rows are read from a source."""
        if isinstance(self._X, RowReader):
            numbers = np.arange(self.n_rows) if self._numbers is None else self._numbers
            return self.as_indices(self._X.shuffled(numbers, random))
        return self.as_indices(random.permutation(self.n_rows))

    def blocks(self) -> Iterator[Array]:
        """All rows, as indices, in blocks of bounded memory."""
        for rows in row_slices(self.n_rows, 4 * self.n_features):
            yield self.as_indices(np.arange(rows.start, rows.stop))

    def rows(self, indices: Any) -> Array:
        """Scaled rows; a copy."""
        if self._held is None:
            return self.device.send(self._scaled(indices))
        return self._take(self._held, indices)

    def targets(self, indices: Any) -> Array:
        """Targets of rows, of shape (n_rows, n_outputs)."""
        targets = self._take(self._targets, indices)
        if self._table is None:
            return targets
        return self.device.namespace.take(self._table, targets, axis=0)

    def weights(self, indices: Any) -> Array:
        """Weights of rows."""
        return self._take(self._weights, indices)

    def _take(self, array: Array, indices: Any) -> Array:
        indices = self.device.send(indices, floats=False)
        return self.device.namespace.take(array, indices, axis=0)

    def _all_scaled(self) -> Floats:
        scaled = np.empty((self.n_rows, self.n_features), np.float32)
        for rows in row_slices(self.n_rows, 8 * self.n_features):
            scaled[rows] = self._scaled(rows)
        return scaled

    def _scaled(self, rows: Any) -> Floats:
        chosen = self._X[rows]
        dense = chosen.toarray() if sparse.issparse(chosen) else chosen
        if dense.dtype == np.float16:
            dense = dense.astype(np.float32)
        scaled: Floats = (dense - self.shift).astype(np.float32, copy=False)
        scaled *= np.float32(1 / self.scale)
        return scaled


def mean_and_deviation(X: Any, weights: Floats | None = None) -> tuple[float, float]:
    """The mean and the standard deviation of all numbers in X; a deviation of 0 becomes 1.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
    weights : ndarray of shape (n_rows,), default=None

    Returns
    -------
    mean, deviation : float

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.solvers.examples import mean_and_deviation
    >>> mean_and_deviation(np.array([[1.0, 3.0]]))
    (2.0, 1.0)
    """
    X = merged_entries(X)
    n_rows, n_features = X.shape
    shares = np.full(n_rows, 1 / n_rows) if weights is None else weights / weights.sum()
    slices = list(row_slices(n_rows, 8 * n_features))
    largest = max(float(np.abs(_stored(X[rows])).max(initial=0.0)) for rows in slices) or 1.0
    mean = square = 0.0
    for rows in slices:
        mean += float(shares[rows] @ (_row_sums(X[rows]) / largest)) / n_features
    for rows in slices:
        part = X[rows]
        if sparse.issparse(part):
            away = part / largest
            sums = _row_sums(away.multiply(away)) - 2 * mean * _row_sums(away)
            square += float(shares[rows] @ (sums + n_features * mean**2)) / n_features
        else:
            away = part / largest - mean
            square += float(shares[rows] @ np.einsum("ij,ij->i", away, away)) / n_features
    if square < 1e-24:  # a constant, up to rounding
        return largest * mean, 1.0
    return largest * mean, largest * float(np.sqrt(square))


def _stored(X: Any) -> Any:
    return X.data if sparse.issparse(X) else X


def _row_sums(X: Any) -> Floats:
    return np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()

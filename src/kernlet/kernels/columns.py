"""Columns of a kernel matrix that a solver comes back to, kept under a memory limit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernlet.kernels.gram import Gram
from kernlet.kernels.kernel import Floats

Indices = NDArray[np.intp]

_BATCH_BYTES = 64 * 2**20


class ColumnStore:
    """Weighted sums of the columns of K(X, Z), computing each column once.

    A solver works with few columns of a large kernel matrix, over and over. The columns it
    names are computed in batches and kept in the precision of ``gram`` until ``max_bytes``
    are full; then columns that the solver no longer names give way, and what still does not
    fit is computed anew at each call.

    Memory grows as n_x times the number of distinct columns named, at most ``max_bytes``
    plus one batch.

    Parameters
    ----------
    gram : Gram
    max_bytes : int
    """

    def __init__(self, gram: Gram, max_bytes: int) -> None:
        self.gram = gram.T  # columns are computed as rows of the transpose: contiguous
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._is_kept = np.zeros(len(gram.z), dtype=bool)
        self._chunks: list[tuple[Indices, Floats]] = []
        self._column_bytes = max(1, len(gram.x) * gram.x.dtype.itemsize)
        self._batch = max(1, _BATCH_BYTES // self._column_bytes)

    def combine(self, columns: Indices, weights: Floats) -> Floats:
        """The sums K(X, Z[columns]) @ weights.

        Parameters
        ----------
        columns : ndarray of shape (n_columns,)
            Distinct column numbers.
        weights : ndarray of shape (n_columns, n_sums)

        Returns
        -------
        sums : ndarray of shape (n_sums, n_x), float64
        """
        spread = np.zeros((len(self._is_kept), weights.shape[1]))
        spread[columns] = weights
        total = np.zeros((weights.shape[1], self.gram.shape[1]))
        for kept, block in self._chunks:
            _accumulate(total, spread[kept], block)
        missing = columns[~self._is_kept[columns]]
        for start in range(0, len(missing), self._batch):
            numbers = missing[start : start + self._batch]
            block = self.gram.block(numbers, slice(None))
            _accumulate(total, spread[numbers], block)
            self._keep(numbers, block, columns)
        return total

    def _keep(self, numbers: Indices, block: Floats, wanted: Indices) -> None:
        """Keep of a block what there is room for."""
        if self.nbytes + block.nbytes > self.max_bytes:
            self._drop_all_but(wanted)
        room = (self.max_bytes - self.nbytes) // self._column_bytes
        if room < len(numbers):
            numbers, block = numbers[:room], block[:room].copy()
        if len(numbers):
            self._chunks.append((numbers, block))
            self._is_kept[numbers] = True
            self.nbytes += block.nbytes

    def _drop_all_but(self, wanted: Indices) -> None:
        """Let the columns go that are not named now."""
        is_wanted = np.zeros_like(self._is_kept)
        is_wanted[wanted] = True
        chunks = [(kept[is_wanted[kept]], block[is_wanted[kept]]) for kept, block in self._chunks]
        self._chunks = [chunk for chunk in chunks if len(chunk[0])]
        self._is_kept &= is_wanted
        self.nbytes = sum(block.nbytes for _, block in self._chunks)


def _accumulate(total: Floats, weights: Floats, block: Floats) -> None:
    """Add weights' block to the float64 total; the product is in the block's precision."""
    if weights.any():
        total += weights.T.astype(block.dtype) @ block


def as_indices(values: Any) -> Indices:
    """Row or column numbers as an index array."""
    return np.asarray(values, dtype=np.intp)

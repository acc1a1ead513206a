"""Kernel features: the kernel values of rows with a few landmarks, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernlet._typing import Floats
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram, canonical_csr, row_slices
from kernlet.kernels.linalg import orthonormal_map

# A number counts for 16 of its size in a block, so that a block of features is a megabyte and stays
# in a processor's cache between the product that makes it and the product that uses it.
_CACHED_NUMBER_BYTES = 8 * 16
_SPARSE_ENTRY_BYTES = 16  # a value and its column number
# Eigenvalues below this share of the largest are round-off in that precision.
_LEAST_EIGENVALUE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-7}
_CACHE_BYTES = 2**20  # kernel values computed before they are multiplied by the basis


class RowFeatures:
    """Rows themselves (no kernel), or their kernel values with landmarks; never all at once.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.polynomial import Polynomial
    >>> from kernlet.kernels.landmarks import RowFeatures
    >>> X = np.array([[1.0], [2.0], [3.0]])
    >>> RowFeatures(X, Polynomial(1.0, 2, 0.0), X[:2]).dot(np.array([1.0, 0.0]))
    array([1., 4., 9.])
    """

    def __init__(self, X: Any, kernel: Kernel | None = None, landmarks: Any = None) -> None:
        self.X = canonical_csr(X)
        self._gram = None if kernel is None else Gram(kernel, self.X, landmarks)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Features per row."""
        return int(self.X.shape[1]) if self._gram is None else self._gram.shape[1]

    @property
    def is_sparse(self) -> bool:
        """Whether blocks are sparse matrices."""
        return self._gram is None and bool(sparse.issparse(self.X))

    @cached_property
    def middle(self) -> Floats:
        """A point near the rows, about which moments do not cancel: the mean of the first rows.

        Zero for sparse rows, which a shift would fill in, and for kernel values.
        """
        if self._gram is not None or self.is_sparse:
            return np.zeros(self.n_features)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.X[:1000].mean(axis=0, dtype=np.float64)
        return np.where(np.isfinite(mean), mean, 0.0)

    def blocks(
        self, rows: NDArray[np.intp] | None = None, *, dense: bool = False
    ) -> Iterator[tuple[slice, Any]]:
        """Pairs (positions, block) over the given rows, or over all."""
        if rows is not None and len(rows) == len(self) and (np.diff(rows) == 1).all():
            rows = None  # all of them in order: slices need no copy
        count = len(self) if rows is None else len(rows)
        for positions in row_slices(count, self._row_bytes(dense)):
            block = self._block(positions if rows is None else rows[positions])
            yield positions, block.toarray() if dense and self.is_sparse else block

    def _row_bytes(self, dense: bool) -> int:
        """Bytes that a row counts for in a block."""
        if self.is_sparse and not dense:
            return _SPARSE_ENTRY_BYTES * max(1, self.X.nnz // max(1, len(self)))
        return _CACHED_NUMBER_BYTES * max(1, self.n_features, self.X.shape[1])

    def dot(self, W: Floats, rows: NDArray[np.intp] | None = None) -> Floats:
        """Features times W, for the given rows."""
        values = np.empty((len(self) if rows is None else len(rows), *W.shape[1:]))
        for positions, block in self.blocks(rows):
            values[positions] = block @ W
        return values

    def _block(self, rows: Any) -> Any:
        if self._gram is not None:
            return self._gram.block(rows, slice(None))
        return self.X[rows]


class LandmarkBlocks:
    """Nystroem features: blocks of K(X, Z) T with a column of ones, where T' K(Z, Z) T = I.

    A row's kernel values with the landmarks Z times T are its coordinates in the landmarks'
    span, where inner products are those of feature space; the last coordinate, 1, is for the
    intercept. Memory is one block, or all of them where ``max_bytes`` allows. Computing all takes
    n_rows * n_landmarks kernel values and n_rows * n_landmarks^2 operations.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.gram import Gram
    >>> from kernlet.kernels.linear import Linear
    >>> from kernlet.kernels.landmarks import LandmarkBlocks
    >>> X = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    >>> [(rows, block)] = LandmarkBlocks(Gram(Linear(), X, X[:1]), 2**20)
    >>> block
    array([[2., 1.],
           [0., 1.],
           [1., 1.]])
    """

    def __init__(self, gram: Gram, max_bytes: int, basis: Floats | None = None) -> None:
        self.gram = gram
        landmarks = Gram(gram.kernel, gram.z.X, shift=gram.z.shift)
        self.products = landmarks.block(slice(None), slice(None))
        if basis is None:
            basis = orthonormal_map(self.products, least=_LEAST_EIGENVALUE[gram.x.dtype])
        self.basis = basis
        nbytes = gram.shape[0] * (self.rank + 1) * gram.x.dtype.itemsize
        self.is_held = nbytes <= max_bytes
        self._held = list(self._compute()) if self.is_held else None

    @property
    def rank(self) -> int:
        """Dimension of the landmarks' span."""
        return int(self.basis.shape[1])

    @property
    def n_rows(self) -> int:
        """Rows in all blocks together."""
        return self.gram.shape[0]

    def __iter__(self) -> Iterator[tuple[slice, Floats]]:
        return self._compute() if self._held is None else iter(self._held)

    def _compute(self) -> Iterator[tuple[slice, Floats]]:
        basis = self.basis.astype(self.gram.x.dtype)
        step = max(64, _CACHE_BYTES // (8 * max(1, len(basis))))
        for rows in row_slices(self.n_rows, 8 * max(len(basis), self.gram.x.X.shape[1])):
            block = np.ones((rows.stop - rows.start, self.rank + 1), basis.dtype)
            for start in range(rows.start, rows.stop, step):
                tile = slice(start, min(start + step, rows.stop))
                inside = slice(tile.start - rows.start, tile.stop - rows.start)
                block[inside, :-1] = self.gram.block(tile, slice(None)) @ basis
            yield rows, block

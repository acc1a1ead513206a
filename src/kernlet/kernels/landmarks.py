"""Kernel features computed with landmarks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernlet._typing import Floats
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram, merged_entries, row_slices
from kernlet.kernels.linalg import orthonormal_map

_SMALL = 8 * 16  # bytes a number counts for: a block of a megabyte stays in a processor's cache
_ENTRY = 16  # bytes of an entry of a sparse matrix, with its place


class RowFeatures:
    """Rows themselves, or their kernel values with a few landmarks; never all at once.

    Parameters
    ----------
    X : {ndarray, csr matrix} of shape (n_rows, n_columns)
    kernel : Kernel or None, default=None
        None for the rows themselves.
    landmarks : {ndarray, csr matrix} of shape (n_landmarks, n_columns) or None, default=None
        Needed with a kernel.

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
        self.X = merged_entries(X)
        self._gram = None if kernel is None else Gram(kernel, self.X, landmarks)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Numbers a row has."""
        return int(self.X.shape[1]) if self._gram is None else self._gram.shape[1]

    @property
    def is_sparse(self) -> bool:
        """Whether blocks are sparse matrices."""
        return self._gram is None and bool(sparse.issparse(self.X))

    @cached_property
    def middle(self) -> Floats:
        """A point near the rows, about which sums keep their digits: the mean of the first ones.

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
        """Blocks of the rows named (all, unless some are), with their places among these.

        Parameters
        ----------
        rows : ndarray of row numbers, default=all
        dense : bool, default=False
            Blocks of sparse rows as arrays.

        Yields
        ------
        part : slice
        block : {ndarray, csr matrix}
        """
        if rows is not None and len(rows) == len(self) and (np.diff(rows) == 1).all():
            rows = None  # all of them, as they lie
        count = len(self) if rows is None else len(rows)
        for part in row_slices(count, self._row_bytes(dense)):
            block = self._block(part if rows is None else rows[part])
            yield part, block.toarray() if dense and self.is_sparse else block

    def _row_bytes(self, dense: bool) -> int:
        """What a row counts for in a block."""
        if self.is_sparse and not dense:
            return _ENTRY * max(1, self.X.nnz // max(1, len(self)))
        return _SMALL * max(1, self.n_features, self.X.shape[1])

    def dot(self, W: Floats, rows: NDArray[np.intp] | None = None) -> Floats:
        """Features times W, for the rows named.

        Parameters
        ----------
        W : ndarray of shape (n_features,) or (n_features, n_outputs)
        rows : ndarray of row numbers, default=all

        Returns
        -------
        values : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        """
        values = np.empty((len(self) if rows is None else len(rows), *W.shape[1:]))
        for part, block in self.blocks(rows):
            values[part] = block @ W
        return values

    def _block(self, rows: Any) -> Any:
        if self._gram is not None:
            return self._gram.block(rows, slice(None))
        return self.X[rows]


_LEAST = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-7}  # directions with digits
_NEAR_BYTES = 2**20  # kernel values computed at a time: what stays near the processor


class LandmarkBlocks:
    """Blocks of K(X, Z) T with a column of ones, T the map to an orthonormal basis.

    A row's kernel values with the landmarks Z times T are its coordinates in the landmarks'
    span, in which products are those of feature space; the last coordinate, 1, is for the
    intercept.

    Memory is one block; where ``max_bytes`` has room for all of them they are kept. Computing
    all takes n_rows * n_landmarks kernel values and n_rows * n_landmarks^2 operations.

    Parameters
    ----------
    gram : Gram
        K(X, Z); the blocks have its precision.
    max_bytes : int
    basis : ndarray of shape (n_landmarks, rank) or None, default=None
        T, where it is known already.

    Attributes
    ----------
    products : ndarray of shape (n_landmarks, n_landmarks)
        K(Z, Z), in float64.
    basis : ndarray of shape (n_landmarks, rank)
        T with T' K(Z, Z) T = I.
    is_held : bool
        Whether all blocks are in memory.

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
            basis = orthonormal_map(self.products, least=_LEAST[gram.x.dtype])
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
        """Rows of all blocks."""
        return self.gram.shape[0]

    def __iter__(self) -> Iterator[tuple[slice, Floats]]:
        return self._compute() if self._held is None else iter(self._held)

    def _compute(self) -> Iterator[tuple[slice, Floats]]:
        basis = self.basis.astype(self.gram.x.dtype)
        step = max(64, _NEAR_BYTES // (8 * max(1, len(basis))))
        for rows in row_slices(self.n_rows, 8 * max(len(basis), self.gram.x.X.shape[1])):
            block = np.ones((rows.stop - rows.start, self.rank + 1), basis.dtype)
            for start in range(rows.start, rows.stop, step):
                part = slice(start, min(start + step, rows.stop))
                places = slice(part.start - rows.start, part.stop - rows.start)
                block[places, :-1] = self.gram.block(part, slice(None)) @ basis
            yield rows, block

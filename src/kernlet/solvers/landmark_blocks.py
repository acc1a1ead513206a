"""Rows as coordinates in the span of a few landmarks, block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernlet.kernels.gram import Gram, row_slices
from kernlet.kernels.kernel import Floats
from kernlet.kernels.orthonormal import orthonormal_map

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
    >>> from kernlet.kernels import Gram, Linear
    >>> from kernlet.solvers.landmark_blocks import LandmarkBlocks
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

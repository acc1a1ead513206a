"""Kernel blocks: the only place where kernel values are computed.

A block never holds more than ``BLOCK_BYTES``. Translation-invariant kernels are evaluated
about the mean of the points: |x|^2 + |z|^2 - 2 x.z loses every digit when the points lie
far from the origin, the more so in float32. Sparse points are not shifted, for that would
fill them in; they are multiplied in float64 instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from sklearn.utils.extmath import row_norms

from kernlet.kernels.kernel import Floats, Kernel

BLOCK_BYTES = 16 * 2**20

Rows = slice | NDArray[np.integer[Any]]


class Points:
    """Rows as a kernel block wants them: shifted, in one dtype, with their squared norms.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
    shift : ndarray of shape (n_features,) or None
        Subtracted from every row.
    dtype : dtype
    hold : bool
        Shift and convert all rows once (a copy of the data) instead of at each use.
    """

    def __init__(
        self, X: Any, shift: Floats | None, dtype: DTypeLike, *, hold: bool = False
    ) -> None:
        self.X = X
        self.shift = shift
        self.dtype = np.dtype(np.float64 if sparse.issparse(X) else dtype)
        if hold and not sparse.issparse(X):
            self.X, self.shift = self._convert(slice(None)), None
        self.norms = np.concatenate(
            [row_norms(self._convert(rows), squared=True) for rows in self._slices()]
        ).astype(self.dtype, copy=False)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def take(self, rows: Rows) -> tuple[Any, Floats]:
        """Rows and their squared norms."""
        return self._convert(rows), self.norms[rows]

    def _convert(self, rows: Rows) -> Any:
        chosen = self.X[rows]
        if self.shift is not None:
            chosen = chosen - self.shift
        return chosen.astype(self.dtype, copy=False)

    def _slices(self) -> Iterator[slice]:
        return row_slices(len(self), 8 * self.X.shape[1])


class Gram:
    """The matrix K(X, Z), evaluated block by block and never as a whole.

    Parameters
    ----------
    kernel : Kernel
    X, Z : {ndarray, sparse matrix} of shapes (n_x, n_features) and (n_z, n_features)
        ``Z=None`` means Z = X.
    dtype : dtype, default=float64
        The precision of the values.
    hold : bool, default=False
        Keep a shifted copy of X and Z in ``dtype``: worth its memory where the same rows
        are visited many times.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels import RBF
    >>> from kernlet.kernels.gram import Gram
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> Gram(RBF(1.0), X).dot(np.ones(3)).round(3)
    array([1.386, 1.736, 1.386])
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        Z: Any = None,
        *,
        dtype: DTypeLike = np.float64,
        hold: bool = False,
    ) -> None:
        self.kernel = kernel
        shift = _shift(kernel, X, Z)
        self.x = Points(X, shift, dtype, hold=hold)
        self.z = self.x if Z is None else Points(Z, shift, dtype, hold=hold)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.x), len(self.z)

    @property
    def is_square(self) -> bool:
        """Whether Z is X itself, so that the matrix is symmetric."""
        return self.z is self.x

    @property
    def T(self) -> Gram:  # noqa: N802
        """The matrix K(Z, X)."""
        transposed = object.__new__(Gram)
        transposed.kernel, transposed.x, transposed.z = self.kernel, self.z, self.x
        return transposed

    def block(self, rows: Rows, columns: Rows) -> Floats:
        """K(X[rows], Z[columns]); small enough to be asked for at once."""
        X, x_norms = self.x.take(rows)
        Z, z_norms = self.z.take(columns)
        return self.kernel.evaluate(X, Z, x_norms[:, None], z_norms[None, :])

    def dot(self, W: Floats, columns: Rows = slice(None)) -> Floats:
        """K(X, Z[columns]) W in float64, by blocks of rows."""
        Z, z_norms = self.z.take(columns)
        product = np.zeros((len(self.x), *W.shape[1:]))
        for rows in row_slices(len(self.x), 8 * max(1, len(z_norms), self.x.X.shape[1])):
            X, x_norms = self.x.take(rows)
            product[rows] = self.kernel.evaluate(X, Z, x_norms[:, None], z_norms[None, :]) @ W
        return product


def gram(kernel: Kernel, X: Any, Z: Any, *, dtype: DTypeLike = np.float64) -> Floats:
    """K(X, Z) as one array, filled block by block.

    Parameters
    ----------
    kernel : Kernel
    X, Z : {array-like, sparse matrix}
    dtype : dtype, default=float64

    Returns
    -------
    values : ndarray of shape (n_x, n_z)
    """
    X, Z = (A.tocsr() if sparse.issparse(A) else np.asarray(A, dtype=float) for A in (X, Z))
    blocks = Gram(kernel, X, Z, dtype=dtype)
    values = np.empty(blocks.shape, dtype)
    for rows in row_slices(len(blocks.x), 8 * max(1, len(blocks.z))):
        values[rows] = blocks.block(rows, slice(None))
    return values


def row_slices(n_rows: int, row_bytes: int, max_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
    """Consecutive slices of at most ``max_bytes``, one row at least."""
    step = max(1, max_bytes // max(1, row_bytes))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def _shift(kernel: Kernel, X: Any, Z: Any) -> Floats | None:
    """The point about which to evaluate the kernel, if that helps."""
    if not kernel.is_translation_invariant or sparse.issparse(X) or sparse.issparse(Z):
        return None
    return np.asarray((X if Z is None else Z).mean(axis=0, dtype=np.float64))

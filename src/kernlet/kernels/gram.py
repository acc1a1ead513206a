"""Kernel blocks: the only place where kernel values are computed.

A block never holds more than ``BLOCK_BYTES``. Translation-invariant kernels are evaluated
about the median of the points: |x|^2 + |z|^2 - 2 x.z loses every digit when the points lie
far from the origin, the more so in float32. Sparse points are not shifted, for that would
fill them in; they are multiplied in float64 instead, and keep fewer digits there.
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
    X : {ndarray, csr matrix} of shape (n_rows, n_features)
    shift : ndarray of shape (n_features,) or None
        Subtracted from every row.
    """

    def __init__(self, X: Any, shift: Floats | None) -> None:
        self.X = merged_entries(X)
        self.shift = shift
        self.dtype: np.dtype[Any] = np.dtype(np.float64)
        slices = row_slices(len(self), 8 * self.X.shape[1])
        norms = [row_norms(self._convert(rows), squared=True) for rows in slices]
        self.norms: Floats = np.concatenate([np.empty(0), *norms])

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def settle(self, dtype: DTypeLike, *, hold: bool) -> None:
        """Fix the dtype; with ``hold``, shift and convert all rows once and for all."""
        self.dtype = np.dtype(dtype)
        self.norms = self.norms.astype(self.dtype, copy=False)
        if hold and not sparse.issparse(self.X):
            self.X, self.shift = self._convert(slice(None)), None

    def take(self, rows: Rows) -> tuple[Any, Floats]:
        """Rows and their squared norms."""
        return self._convert(rows), self.norms[rows]

    def _convert(self, rows: Rows) -> Any:
        chosen = self.X[rows]
        if self.shift is not None:
            chosen = chosen - self.shift
        return chosen.astype(self.dtype, copy=False)


class Gram:
    """The matrix K(X, Z), evaluated block by block and never as a whole.

    Parameters
    ----------
    kernel : Kernel
    X, Z : {ndarray, csr matrix} of shapes (n_x, n_features) and (n_z, n_features)
        ``Z=None`` means Z = X.
    dtype : dtype, default=float64
        The precision of the values. float64 is used in place of float32 where the points
        are sparse or the kernel would lose too many digits.
    hold : bool, default=False
        Keep a shifted copy of X and Z in that precision: worth its memory where the same
        rows are visited many times.

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
        if Z is not None and X.shape[1] != Z.shape[1]:
            raise ValueError(
                f"The rows have {X.shape[1]} features and the centers {Z.shape[1]}; "
                "give points of one width."
            )
        self.kernel = kernel
        shift = _shift(kernel, X, Z)
        self.x = Points(X, shift)
        self.z = self.x if Z is None else Points(Z, shift)
        precision = self._precision(dtype)
        self.x.settle(precision, hold=hold)
        if not self.is_square:
            self.z.settle(precision, hold=hold)

    def _precision(self, wanted: DTypeLike) -> DTypeLike:
        largest = max(self.x.norms.max(initial=0.0), self.z.norms.max(initial=0.0))
        is_sparse = sparse.issparse(self.x.X) or sparse.issparse(self.z.X)
        return np.float64 if is_sparse or not self.kernel.fits_float32(largest) else wanted

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

    def dot(
        self, W: Floats, columns: Rows = slice(None), rows: NDArray[np.intp] | None = None
    ) -> Floats:
        """K(X[rows], Z[columns]) W in float64, by blocks of rows (all, unless some are named)."""
        Z, z_norms = self.z.take(columns)
        chosen = np.arange(len(self.x)) if rows is None else rows
        product = np.zeros((len(chosen), *W.shape[1:]))
        for part in row_slices(len(chosen), 8 * max(1, len(z_norms), self.x.X.shape[1])):
            X, x_norms = self.x.take(part if rows is None else chosen[part])
            product[part] = self.kernel.evaluate(X, Z, x_norms[:, None], z_norms[None, :]) @ W
        return product


def kernel_matrix(kernel: Kernel, X: Any, Z: Any, *, dtype: DTypeLike = np.float64) -> Floats:
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


def row_slices(n_rows: int, row_bytes: int) -> Iterator[slice]:
    """Consecutive slices of at most ``BLOCK_BYTES``, one row at least."""
    step = max(1, BLOCK_BYTES // max(1, row_bytes))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def _shift(kernel: Kernel, X: Any, Z: Any) -> Floats | None:
    """The point about which to evaluate the kernel, if that helps."""
    points = X if Z is None or not Z.shape[0] else Z
    if not kernel.is_translation_invariant or not points.shape[0]:
        return None
    if sparse.issparse(X) or sparse.issparse(Z):
        return None
    some = points[:: max(1, len(points) // 1000)].astype(np.float64)
    return np.median(some, axis=0)  # not the mean, which one far point can carry away


def merged_entries(X: Any) -> Any:
    """X, with entries of a sparse matrix that are stored twice added up (in a copy)."""
    if not sparse.issparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X

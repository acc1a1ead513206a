"""Kernel blocks: the only place where kernel values are computed.

A block never holds more than ``BLOCK_BYTES``. Translation-invariant kernels are evaluated
about the median of the points: |x|^2 + |z|^2 - 2 x.z loses every digit when the points lie
far from the origin, the more so in float32. Sparse points are not shifted, for that would
fill them in; they are multiplied in float64 instead, and keep fewer digits there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from sklearn.utils.extmath import row_norms

from kernlet.kernels.kernel import Floats, Kernel

BLOCK_BYTES = 16 * 2**20
_NEAR = 10.0  # the origin is near enough where the points spread about it: one digit is lost

Rows = slice | NDArray[np.integer[Any]]


class Points:
    """Rows as a kernel block wants them: shifted, in one dtype, with their squared norms.

    Parameters
    ----------
    X : {ndarray, csr matrix} of shape (n_rows, n_features)
    shift : ndarray of shape (n_features,) or None
        Subtracted from every row.
    dtype : dtype, default=float64
        Sparse rows are float64 in any case.
    hold : bool, default=False
        Shift and convert all rows once (a copy of the data) instead of at each use.
    """

    def __init__(
        self, X: Any, shift: Floats | None, dtype: DTypeLike = np.float64, *, hold: bool = False
    ) -> None:
        self.X = merged_entries(X)
        self.shift = shift
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if sparse.issparse(X) else dtype)
        if hold and not sparse.issparse(X):
            self.X, self.shift = self._convert(slice(None)), None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @cached_property
    def norms(self) -> Floats:
        """Squared norms of all rows."""
        slices = row_slices(len(self), 8 * self.X.shape[1])
        norms = [row_norms(self._convert(rows), squared=True) for rows in slices]
        return np.concatenate([np.empty(0, self.dtype), *norms])

    @property
    def largest_norm(self) -> float:
        """The largest of them, 0 without rows."""
        return float(self.norms.max(initial=0.0))

    def take(self, rows: Rows) -> tuple[Any, Floats]:
        """Rows and their squared norms."""
        chosen = self._convert(rows)
        if "norms" in self.__dict__:
            return chosen, self.norms[rows]
        return chosen, row_norms(chosen, squared=True)

    def _convert(self, rows: Rows) -> Any:
        chosen = self.X[rows]
        if self.shift is None:
            return chosen.astype(self.dtype, copy=False)
        if chosen.dtype == np.float32:  # the shift has no more digits than that
            return (chosen - self.shift.astype(np.float32)).astype(self.dtype, copy=False)
        return (chosen - self.shift).astype(self.dtype, copy=False)


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
    shift : ndarray of shape (n_features,), None or "auto", default="auto"
        What :func:`shift_for` says, where that is known already.

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
        shift: Floats | Literal["auto"] | None = "auto",
    ) -> None:
        if Z is not None and X.shape[1] != Z.shape[1]:
            raise ValueError(
                f"The rows have {X.shape[1]} features and the centers {Z.shape[1]}; "
                "give points of one width."
            )
        self.kernel = kernel
        if isinstance(shift, str):
            shift = shift_for(kernel, X, Z)
        self.x = Points(X, shift, dtype, hold=hold)
        self.z = self.x if Z is None else Points(Z, shift, dtype, hold=hold)
        if self.x.dtype != self.z.dtype or not self._keeps_digits():
            self.x = Points(X, shift, hold=hold)
            self.z = self.x if Z is None else Points(Z, shift, hold=hold)

    def _keeps_digits(self) -> bool:
        if self.x.dtype == np.float64:
            return True
        return self.kernel.fits_float32(max(self.x.largest_norm, self.z.largest_norm))

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

    Examples
    --------
    >>> from kernlet.kernels import Linear, kernel_matrix
    >>> kernel_matrix(Linear(), [[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
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


def shift_for(kernel: Kernel, X: Any, Z: Any) -> Floats | None:
    """The point about which to evaluate the kernel, in float32 digits, if that helps."""
    points = X if Z is None or not Z.shape[0] else Z
    if not kernel.is_translation_invariant or not points.shape[0]:
        return None
    if sparse.issparse(X) or sparse.issparse(Z):
        return None
    some = points[:: max(1, len(points) // 100)].astype(np.float64)
    middle = np.median(some, axis=0)  # not the mean, which one far point can carry away
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.median(row_norms(some - middle, squared=True))
        if middle @ middle <= _NEAR * spread:
            return None
    return in_few_digits(middle)


def in_few_digits(point: Floats) -> Floats:
    """The point in float32 digits, so that differences of like numbers are exact.

    Numbers too large for float32 become 0.
    """
    with np.errstate(over="ignore"):
        short = point.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(short), short, 0.0)


def merged_entries(X: Any) -> Any:
    """X, with entries of a sparse matrix that are stored twice added up (in a copy)."""
    if not sparse.issparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X

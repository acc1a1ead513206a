"""Maps of the input (a shift, a scale, a curve and a projection), and when columns need one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.devices import Device, array_namespace, is_sparse
from kernlet.kernels.gram import canonical_csr, row_slices


@dataclass(frozen=True, eq=False)
class AffineMap:
    """x -> matrix ((x - shift) * scale); maps compose with ``@``, as matrices do.

    ``shift`` and ``scale`` have one entry or n_features, ``matrix`` the shape (rank, n_features);
    without a matrix it is the identity. ``fill`` has a number per feature that replaces NaN in x;
    without it NaN stays NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.affine import AffineMap
    >>> half, down = AffineMap(0.0, 0.5), AffineMap(1.0, 1.0)
    >>> (half @ down)(np.array([[1.0, 3.0]]))
    array([[0., 1.]])
    """

    shift: Floats
    scale: Floats
    matrix: Floats | None = None
    fill: Floats | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("shift", "scale", "fill"):
            if getattr(self, name) is None:
                continue
            value = np.atleast_1d(np.asarray(getattr(self, name)))
            value = value if value.dtype.kind == "f" else value.astype(np.float64)
            object.__setattr__(self, name, value)
            if value.ndim != 1 or not np.isfinite(value).all():
                raise ValueError(f"The {name} of an affine map must be a row of finite numbers.")
        if self.matrix is not None:
            matrix = np.asarray(self.matrix)
            object.__setattr__(self, "matrix", matrix)
            if matrix.ndim != 2 or matrix.dtype.kind != "f" or not np.isfinite(matrix).all():
                raise ValueError("The matrix of an affine map must be rows of finite numbers.")
        if len(self._widths) > 1:
            raise ValueError(f"An affine map cannot have several widths: {sorted(self._widths)}.")

    @property
    def _widths(self) -> set[int]:
        widths = {len(v) for v in (self.shift, self.scale) if len(v) > 1}
        widths |= set() if self.fill is None else {len(self.fill)}
        return widths if self.matrix is None else widths | {self.matrix.shape[1]}

    @property
    def width(self) -> int | None:
        """Number of features; None where any number will do."""
        return next(iter(self._widths), None)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays as they are held."""
        arrays = (self.shift, self.scale, self.matrix, self.fill)
        return sum(array.nbytes for array in arrays if array is not None)

    def __call__(self, X: Any) -> Floats:
        """Map rows, in their own precision; sparse rows become dense."""
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        X = self.filled(X)
        shift: Floats = self.shift.astype(dtype)
        scale: Floats = self.scale.astype(dtype)
        if self.matrix is None:
            rows = X.toarray() if is_sparse(X) else X
            return (rows - shift) * scale
        matrix: Floats = self.matrix.astype(dtype)
        if is_sparse(X):
            # M ((x - s) a) = (M a) x - (M a) s: the rows stay sparse.
            wide = np.broadcast_to(shift, matrix.shape[1])
            return np.asarray(X @ (matrix * scale).T) - (matrix * scale) @ wide
        return ((X - shift) * scale) @ matrix.T

    def filled(self, X: Any) -> Any:
        """Rows with the numbers of ``fill`` in place of NaN; sparse rows have none."""
        if self.fill is None or is_sparse(X):
            return X
        return np.where(np.isnan(X), self.fill.astype(X.dtype), X)

    def __matmul__(self, first: AffineMap) -> AffineMap:
        """The composition x -> self(first(x)).

        ((x - s1) a1 - s2) a2 = (x - (s1 + s2 / a1)) a1 a2. Behind a matrix M1, s2 is M1 (d a1) for
        some shift d of the features, if the outputs of M1 are independent.
        """
        if isinstance(first, CurvedMap):
            raise ValueError("No map can follow a curved one: it has its own matrix.")
        moved, scale = self.shift.astype(float), self.scale.astype(float)
        if first.matrix is None:
            shift = first.shift + moved / first.scale
            fill = self._fill_before(first)
            return AffineMap(shift, first.scale * scale, self.matrix, fill=fill)
        if self.width not in (None, len(first.matrix)):
            raise ValueError(
                f"A map of {self.width} features cannot follow one to {len(first.matrix)}."
            )
        behind = np.broadcast_to(moved, len(first.matrix))
        moved = np.zeros(first.matrix.shape[1])
        if behind.any():
            moved = np.linalg.lstsq(first.matrix.astype(float), behind)[0]
        if not np.abs(first.matrix @ moved - behind).max() <= 1e-9 * np.abs(behind).max():
            raise ValueError("Features that are not independent cannot be shifted in one map.")
        matrix = np.broadcast_to(scale, len(first.matrix))[:, None] * first.matrix
        matrix = matrix if self.matrix is None else self.matrix @ matrix
        return AffineMap(first.shift + moved / first.scale, first.scale, matrix, fill=first.fill)

    def _fill_before(self, first: AffineMap) -> Floats | None:
        """What replaces NaN in front of both maps: ``first`` leaves NaN where it fills nothing."""
        if first.fill is not None or self.fill is None:
            return first.fill
        return self.fill / first.scale.astype(float) + first.shift

    @classmethod
    def from_scaler(cls, step: Any, name: str = "scaler") -> AffineMap:
        """The map of a fitted scaler."""
        for kind, shift_and_scale in _scalers():
            if isinstance(step, kind):
                if getattr(step, "clip", False):
                    raise ValueError(
                        f"The step {name!r} is a {type(step).__name__}(clip=True), and clipping "
                        "is not affine: fit it with clip=False."
                    )
                return cls(*(np.asarray(v, dtype=float) for v in shift_and_scale(step)))
        raise ValueError(f"The step {name!r} ({type(step).__name__}) is not a scaler.")

    def on(self, device: Device, X: Any) -> Any:
        """Map rows that are on a device."""
        if self.fill is not None:
            xp = device.namespace
            X = xp.where(xp.isnan(X), device.send(self.fill), X)
        rows = (X - device.send(self.shift)) * device.send(self.scale)
        return rows if self.matrix is None else rows @ device.send(self.matrix).T


@dataclass(frozen=True, eq=False)
class StepMap:
    """u -> u + the jumps of the steps whose feature exceeds their threshold.

    h_d(u) = u_d + sum_b jumps[b] [u_d > thresholds[b]], over the steps b of feature d. It lets a
    smooth kernel follow data that is cut at single values, as trees do.

    Parameters
    ----------
    features : ndarray of int of shape (n_steps,)
    thresholds, jumps : ndarray of shape (n_steps,)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.affine import StepMap
    >>> steps = StepMap(np.array([0]), np.array([0.5]), np.array([10.0]))
    >>> steps(np.array([[0.4, 7.0], [0.6, 7.0]]))
    array([[ 0.4,  7. ],
           [10.6,  7. ]])
    """

    features: Indices
    thresholds: Floats
    jumps: Floats

    def __call__(self, U: Any) -> Any:
        """Map rows, in an array of any library."""
        xp = array_namespace(U)
        columns = {int(d): U[:, int(d)] for d in self.features}
        for d, t, jump in zip(self.features, self.thresholds, self.jumps, strict=True):
            is_above = U[:, int(d)] > float(t)
            columns[int(d)] = columns[int(d)] + float(jump) * xp.astype(is_above, U.dtype)
        mapped = xp.asarray(U, copy=True)
        for d, column in columns.items():
            mapped[:, d] = column
        return mapped


@dataclass(frozen=True, eq=False)
class CurvedMap(AffineMap):
    """x -> matrix h((x - shift) * scale), h being asinh, a step map, or both in this order.

    Parameters
    ----------
    shift, scale, matrix : ndarray
        As in :class:`AffineMap`.
    is_asinh : bool, default=False
        Whether the scaled features are replaced by their asinh, which is nearly linear about 0 and
        logarithmic far from it.
    steps : StepMap, default=None

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.affine import CurvedMap
    >>> CurvedMap(1.0, 0.5, is_asinh=True)(np.array([[1.0, 21.0]])).round(3)
    array([[0.   , 2.998]])
    """

    is_asinh: bool = False
    steps: StepMap | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays as they are held."""
        steps = self.steps
        more = (steps.features, steps.thresholds, steps.jumps) if steps is not None else ()
        return super().nbytes + sum(array.nbytes for array in more)

    def __call__(self, X: Any) -> Floats:
        """Map rows, in their own precision; sparse rows become dense."""
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        # In float32 whatever the rows: near a threshold the last bit decides, and training and
        # exported code compare float32 numbers.
        rows = X.toarray() if is_sparse(X) else self.filled(X)
        scaled = (rows - self.shift.astype(dtype)).astype(np.float32)
        scaled *= self.scale.astype(np.float32)
        U = self._curved(scaled).astype(dtype, copy=False)
        return U if self.matrix is None else U @ self.matrix.astype(dtype).T

    def __matmul__(self, first: AffineMap) -> AffineMap:
        """The composition x -> self(first(x)), for a shift and a scale in front."""
        if isinstance(first, CurvedMap) or first.matrix is not None:
            raise ValueError(
                "Only a shift and a scale of the features can come before a machine with an asinh "
                "or a step map: put the projection after it, or leave it out."
            )
        front = AffineMap(self.shift, self.scale, fill=self.fill) @ first
        shape = (self.matrix, self.is_asinh, self.steps)
        return CurvedMap(front.shift, front.scale, *shape, fill=front.fill)

    def on(self, device: Device, X: Any) -> Any:
        """Map rows that are on a device."""
        U = self._curved(AffineMap(self.shift, self.scale, fill=self.fill).on(device, X))
        return U if self.matrix is None else U @ device.send(self.matrix).T

    def _curved(self, U: Any) -> Any:
        U = array_namespace(U).asinh(U) if self.is_asinh else U
        return U if self.steps is None else self.steps(U)


def compose(*maps: AffineMap | None) -> AffineMap | None:
    """The map that applies the given ones from left to right; None is the identity."""
    present = [each for each in maps if each is not None]
    return reduce(lambda first, then: then @ first, present) if present else None


def _scalers() -> tuple[tuple[type, Callable[[Any], tuple[Any, Any]]], ...]:
    """scikit-learn's scalers, with the shift and the scale of a fitted one."""
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    return (
        (
            StandardScaler,
            lambda s: (s.mean_ if s.with_mean else 0.0, 1 / s.scale_ if s.with_std else 1.0),
        ),
        # MinMaxScaler computes x * scale_ + min_.
        (MinMaxScaler, lambda s: (-s.min_ / s.scale_, s.scale_)),
        (
            RobustScaler,
            lambda s: (
                s.center_ if s.with_centering else 0.0,
                1 / s.scale_ if s.with_scaling else 1.0,
            ),
        ),
        (MaxAbsScaler, lambda s: (0.0, 1 / s.scale_)),
    )


def scaler_bytes(scaler: AffineMap | None) -> int:
    """Bytes of a shift, a scale and a matrix in float32."""
    if scaler is None:
        return 0
    return 4 * sum(np.size(v) for v in (scaler.shift, scaler.scale, scaler.matrix) if v is not None)


# -- Columns of unlike ranges ------------------------------------------------------------------
#
# Whether columns should be standardised is judged twice, by their ranges and by what they would be
# divided by (deviations; of a column with two values, their difference). Each alone is wrong:
# pixels at the border of images and rare events have the range of the others and a small deviation;
# a column of deviation 1 with outliers has a large range. Both are compared with the lower quartile
# and not with the smallest, since a few nearly constant columns mean nothing.
#
# Largest over lower quartile (range, deviation) of raw tables: pixels 1.1, 16; word counts 7, 1;
# standardised tables up to 59, 1; bupa 8, 9; pima 50, 34; cleveland 219, 52; wine 514, 550;
# covertype 7173, 2084.

_UNLIKE = 4.0
# Means of columns that lie further apart than this, in deviations of columns. Divided by one
# deviation of all numbers, such columns would hardly vary: one column at 30 among columns at 0, all
# of deviation 1, costs a compact machine 20 points. Raw tables have up to 1.5, cleveland 4.6.
_FAR_APART = 3.0
# A column whose deviation is below this share of its mean is constant in float32.
_CONSTANT = 2.0**-22
# The range of a column, as a share of its largest number, below which float32 has eight steps.
_UNRESOLVED = 2.0**-20


def are_unlike(sizes: Floats, factor: float = _UNLIKE) -> bool:
    """Whether the largest of positive sizes exceeds their lower quartile by a factor."""
    return len(sizes) > 0 and bool(sizes.max() > factor * _lower_quartile(sizes))


def are_far_apart(places: Floats, sizes: Floats) -> bool:
    """Whether the means of columns differ much more than the columns vary, if any does."""
    varying = sizes[sizes > 0]
    if not len(varying):
        return False
    # In units of the largest number, whose square may overflow.
    unit = max(float(np.abs(places).max()), float(varying.max()))
    spread, size = np.std(places / unit), np.sqrt(np.mean(np.square(varying / unit)))
    return bool(spread > _FAR_APART * size)


def _lower_quartile(sizes: Floats) -> float:
    # Without interpolation: that of two sizes would be a quarter of the larger one.
    return float(np.quantile(sizes, 0.25, method="lower"))


@dataclass(frozen=True, eq=False)
class ColumnRanges:
    """The least and the largest number of each column, and whether some are missing (NaN)."""

    low: Floats
    high: Floats
    has_missing: bool = False

    @classmethod
    def of(cls, X: Any, *, skip_missing: bool = False) -> ColumnRanges:
        """Those of an array, a sparse matrix or a row reader, in blocks.

        NaN stays NaN, or is skipped in dense rows; a column of NaN alone has infinite ends then.
        """
        X = canonical_csr(X)
        low, high = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
        has_missing = False
        for rows in row_slices(X.shape[0], 8 * X.shape[1]):
            block = X[rows]
            if skip_missing and not is_sparse(block) and np.isnan(block).any():
                has_missing = True
                np.fmin(low, np.fmin.reduce(block, axis=0), out=low)
                np.fmax(high, np.fmax.reduce(block, axis=0), out=high)
            else:
                np.minimum(low, _dense_row(block.min(axis=0)), out=low)
                np.maximum(high, _dense_row(block.max(axis=0)), out=high)
        return cls(low, high, has_missing)

    @property
    def sizes(self) -> Floats:
        """The range of each column; 0 for constant ones."""
        return self.high - self.low

    @property
    def largest(self) -> float:
        """The largest absolute number."""
        return float(np.maximum(abs(self.low), abs(self.high)).max(initial=0.0))

    @property
    def may_be_far_apart(self) -> bool:
        """Whether columns may lie far apart, by what is known without another pass."""
        varying = self.sizes[self.sizes > 0]
        span = self.high.max(initial=-np.inf) - self.low.min(initial=np.inf)
        return len(varying) > 0 and bool(span > 1.25 * _lower_quartile(varying))

    def unresolved(self) -> Indices:
        """Columns that vary, but over fewer than eight numbers of float32."""
        largest = np.maximum(abs(self.low), abs(self.high))
        return np.flatnonzero((self.sizes > 0) & (self.sizes < _UNRESOLVED * largest))

    def standardising(self, X: Any, weights: Any = None) -> tuple[Floats, Floats]:
        """What to subtract from each column and to divide it by; 0 for constant columns.

        Mean and deviation; a column of two values becomes 0 and 1. Missing values are left out.
        """
        X = canonical_csr(X)
        shares = np.ones(X.shape[0]) if weights is None else np.asarray(weights, dtype=float)
        shares = shares / shares.sum()
        unit = np.maximum(abs(self.low), abs(self.high))
        unit[unit == 0] = 1.0
        slices = list(row_slices(X.shape[0], 8 * X.shape[1]))
        mean, square = np.zeros((2, X.shape[1]))
        is_binary = np.ones(X.shape[1], dtype=bool)
        totals = np.zeros(X.shape[1]) if self.has_missing else np.ones(X.shape[1])
        for rows in slices:
            block = X[rows]
            if self.has_missing:
                totals += shares[rows] @ ~np.isnan(block)
                block = np.where(np.isnan(block), 0.0, block)
            mean += np.asarray(shares[rows] @ block)
        mean /= np.where(totals > 0, totals, 1.0)
        for rows in slices:
            block = X[rows]
            if self.has_missing:
                is_binary &= self._are_ends(np.where(np.isnan(block), self.low, block))
                block = np.where(np.isnan(block), mean, block)
            else:
                is_binary &= self._are_ends(block)
            square += _squares_about(block, mean, unit, shares[rows])
        square /= np.where(totals > 0, totals, 1.0)
        deviation = unit * np.sqrt(square)
        is_constant = deviation <= _CONSTANT * abs(mean)
        shift = np.where(is_binary & ~is_constant, self.low, mean)
        scale = np.where(is_binary, self.sizes, deviation)
        return shift, np.where(is_constant, 0.0, scale)

    def _are_ends(self, block: Any) -> Any:
        """Whether the numbers of each column are its least or its largest one."""
        if not is_sparse(block):
            return ((block == self.low) | (block == self.high)).all(axis=0)
        columns, values = block.indices, block.data
        is_inside = (values != self.low[columns]) & (values != self.high[columns])
        n_inside = np.bincount(columns, is_inside, block.shape[1])
        has_zero = np.bincount(columns, minlength=block.shape[1]) < block.shape[0]
        return (n_inside == 0) & ~(has_zero & (self.low < 0) & (self.high > 0))


def unlike_columns(
    X: Any, weights: Any = None, factor: float = _UNLIKE
) -> tuple[int, int, float] | None:
    """The columns of the largest scale and of the lower quartile, and their ratio.

    None where columns do not differ in ranges and in deviations as units do, and pixels do not.
    """
    ranges = ColumnRanges.of(X, skip_missing=True)
    if not are_unlike(ranges.sizes[ranges.sizes > 0], factor):
        return None
    _, scale = ranges.standardising(X, weights)
    varying = np.flatnonzero(scale > 0)
    if not are_unlike(scale[varying], factor):
        return None
    order = varying[np.argsort(scale[varying], kind="stable")]
    largest, low = int(order[-1]), int(order[(len(order) - 1) // 4])
    return largest, low, float(scale[largest] / scale[low])


def _dense_row(values: Any) -> Floats:
    return values.toarray().ravel() if is_sparse(values) else np.asarray(values)


def _squares_about(block: Any, mean: Floats, unit: Floats, shares: Floats) -> Floats:
    """Weighted sums over the rows of ((x - mean) / unit)^2, which neither cancels nor overflows."""
    if not is_sparse(block):
        return shares @ ((block - mean) / unit) ** 2
    columns, n_columns = block.indices, block.shape[1]
    of_stored = np.repeat(shares, np.diff(block.indptr))
    squares = of_stored * ((block.data - mean[columns]) / unit[columns]) ** 2
    of_zeros = shares.sum() - np.bincount(columns, of_stored, n_columns)
    return np.bincount(columns, squares, n_columns) + of_zeros * (mean / unit) ** 2

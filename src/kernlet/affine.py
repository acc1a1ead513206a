"""Affine maps of the input: a shift, a scale and a projection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

from kernlet._typing import Floats
from kernlet.devices import Device


@dataclass(frozen=True, eq=False)
class AffineMap:
    """x -> matrix ((x - shift) * scale); maps compose with ``@``, as matrices do.

    ``shift`` and ``scale`` have one entry or n_features, ``matrix`` the shape (rank, n_features);
    without a matrix it is the identity.

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

    def __post_init__(self) -> None:
        for name in ("shift", "scale"):
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
        return widths if self.matrix is None else widths | {self.matrix.shape[1]}

    @property
    def width(self) -> int | None:
        """Number of features; None where any number will do."""
        return next(iter(self._widths), None)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays as they are held."""
        arrays = (self.shift, self.scale, self.matrix)
        return sum(array.nbytes for array in arrays if array is not None)

    def __call__(self, X: Any) -> Floats:
        """Map rows, in their own precision; sparse rows become dense."""
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        shift: Floats = self.shift.astype(dtype)
        scale: Floats = self.scale.astype(dtype)
        if self.matrix is None:
            rows = X.toarray() if sparse.issparse(X) else X
            return (rows - shift) * scale
        matrix: Floats = self.matrix.astype(dtype)
        if sparse.issparse(X):
            # M ((x - s) a) = (M a) x - (M a) s: the rows stay sparse.
            wide = np.broadcast_to(shift, matrix.shape[1])
            return np.asarray(X @ (matrix * scale).T) - (matrix * scale) @ wide
        return ((X - shift) * scale) @ matrix.T

    def __matmul__(self, first: AffineMap) -> AffineMap:
        """The composition x -> self(first(x)), where ``first`` has no matrix.

        ((x - s1) a1 - s2) a2 = (x - (s1 + s2 / a1)) a1 a2.
        """
        if first.matrix is not None:
            raise ValueError("Only a map without a matrix can be composed with a later one.")
        shift = first.shift + self.shift.astype(float) / first.scale
        return AffineMap(shift, first.scale * self.scale.astype(float), self.matrix)

    @classmethod
    def from_scaler(cls, step: Any, name: str = "scaler") -> AffineMap | None:
        """The map of a fitted scaler; None for one that changes nothing."""
        if step is None or step == "passthrough":
            return None
        if isinstance(step, FunctionTransformer) and step.func is None:
            return None
        for kind, shift_and_scale in _SCALERS:
            if isinstance(step, kind):
                if getattr(step, "clip", False):
                    raise ValueError(
                        f"The step {name!r} is a {type(step).__name__}(clip=True), and clipping "
                        "is not affine: fit it with clip=False."
                    )
                return cls(*(np.asarray(v, dtype=float) for v in shift_and_scale(step)))
        raise ValueError(
            f"The step {name!r} ({type(step).__name__}) cannot be exported with the model: only "
            "shifts and scales can, as of StandardScaler, MinMaxScaler, MaxAbsScaler and "
            "RobustScaler. Apply it to the data beforehand and give the model behind it."
        )

    def on(self, device: Device, X: Any) -> Any:
        """Map rows that are on a device."""
        rows = (X - device.send(self.shift)) * device.send(self.scale)
        return rows if self.matrix is None else rows @ device.send(self.matrix).T


def fold_steps(steps: Iterable[tuple[str, Any]]) -> AffineMap | None:
    """One map without a matrix in place of fitted scalers, None if they change nothing."""
    return compose(*(AffineMap.from_scaler(step, name) for name, step in steps))


def compose(*maps: AffineMap | None) -> AffineMap | None:
    """The map that applies the given ones from left to right; None is the identity."""
    present = [each for each in maps if each is not None]
    return reduce(lambda first, then: then @ first, present) if present else None


_SCALERS: tuple[tuple[type, Callable[[Any], tuple[Any, Any]]], ...] = (
    (
        StandardScaler,
        lambda s: (s.mean_ if s.with_mean else 0.0, 1 / s.scale_ if s.with_std else 1.0),
    ),
    # MinMaxScaler computes x * scale_ + min_.
    (MinMaxScaler, lambda s: (-s.min_ / s.scale_, s.scale_)),
    (
        RobustScaler,
        lambda s: (s.center_ if s.with_centering else 0.0, 1 / s.scale_ if s.with_scaling else 1.0),
    ),
    (MaxAbsScaler, lambda s: (0.0, 1 / s.scale_)),
)


def scaler_bytes(scaler: AffineMap | None) -> int:
    """Bytes of a shift and a scale in float32."""
    return 0 if scaler is None else 4 * (len(scaler.shift) + len(scaler.scale))

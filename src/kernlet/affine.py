"""The map that an expansion may carry in front: a shift, a scale and a projection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
    """x -> matrix ((x - shift) * scale).

    Parameters
    ----------
    shift, scale : ndarray of shape (1,) or (n_features,)
    matrix : ndarray of shape (rank, n_features), default=None
        The identity unless given.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.affine import AffineMap
    >>> AffineMap(np.array([1.0]), np.array([0.5]))(np.array([[1.0, 3.0]]))
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
            raise ValueError(f"An affine map cannot be of several widths: {sorted(self._widths)}.")

    @property
    def _widths(self) -> set[int]:
        widths = {len(v) for v in (self.shift, self.scale) if len(v) > 1}
        return widths if self.matrix is None else widths | {self.matrix.shape[1]}

    @property
    def width(self) -> int | None:
        """Features that it is for; None where any number will do."""
        return next(iter(self._widths), None)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays as they are held."""
        matrix = 0 if self.matrix is None else self.matrix.nbytes
        return int(self.shift.nbytes + self.scale.nbytes + matrix)

    def __call__(self, X: Any) -> Floats:
        """Map rows, in their own precision; sparse rows come back dense."""
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        shift: Floats = self.shift.astype(dtype)
        scale: Floats = self.scale.astype(dtype)
        if self.matrix is None:
            rows = X.toarray() if sparse.issparse(X) else X
            return (rows - shift) * scale
        matrix: Floats = self.matrix.astype(dtype)
        if sparse.issparse(X):
            wide = np.broadcast_to(shift, matrix.shape[1])
            return np.asarray(X @ (matrix * scale).T) - (matrix * scale) @ wide
        return ((X - shift) * scale) @ matrix.T

    def on(self, device: Device, X: Any) -> Any:
        """Map rows that are on a device."""
        rows = (X - device.send(self.shift)) * device.send(self.scale)
        return rows if self.matrix is None else rows @ device.send(self.matrix).T


def fold_steps(steps: Iterable[tuple[str, Any]]) -> AffineMap | None:
    """One map in place of fitted transformers.

    Parameters
    ----------
    steps : iterable of (str, transformer)
        StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, an empty FunctionTransformer or
        an :class:`~kernlet.affine.AffineStep`, in the order in which they are applied.

    Returns
    -------
    scaler : AffineMap or None
        Without a matrix; None where there is nothing to do.

    Raises
    ------
    ValueError
        For a step that is no shift and scale of each feature.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kernlet.affine import fold_steps
    >>> X = np.array([[1.0, 10.0], [3.0, 30.0]])
    >>> fold_steps([("scale", StandardScaler().fit(X))])(X)
    array([[-1., -1.],
           [ 1.,  1.]])
    """
    whole: AffineMap | None = None
    for name, step in steps:
        part = _as_map(name, step)
        if part is not None:
            whole = part if whole is None else compose(whole, part)
    return whole


def compose(first: AffineMap, second: AffineMap) -> AffineMap:
    """The map that does one and then the other, where the first has no matrix.

    ((x - s1) a1 - s2) a2 = (x - (s1 + s2 / a1)) a1 a2.
    """
    shift = first.shift + second.shift.astype(float) / first.scale
    return AffineMap(shift, first.scale * second.scale.astype(float), second.matrix)


class AffineStep:
    """An affine map as a transformer.

    Parameters
    ----------
    map : AffineMap
    """

    def __init__(self, map: AffineMap) -> None:
        self.map = map

    def transform(self, X: Any) -> Floats:
        """Map the rows of X."""
        return self.map(np.asarray(X) if not hasattr(X, "dtype") else X)


def _as_map(name: str, step: Any) -> AffineMap | None:
    if step is None or step == "passthrough":
        return None
    if isinstance(step, AffineStep):
        return step.map
    if isinstance(step, FunctionTransformer) and step.func is None:
        return None
    for kind, parts in _SCALERS:
        if isinstance(step, kind):
            if getattr(step, "clip", False):
                raise ValueError(
                    f"The step {name!r} is a {type(step).__name__}(clip=True), and cut-off values "
                    "are no affine map: fit it with clip=False."
                )
            return parts(step)
    raise ValueError(
        f"The step {name!r} ({type(step).__name__}) cannot travel with the machine: only shifts "
        "and scales can, as of StandardScaler, MinMaxScaler, MaxAbsScaler and RobustScaler. "
        "Apply it to the data beforehand and give the machine behind it."
    )


def _standard(step: Any) -> AffineMap:
    mean = step.mean_ if step.with_mean else 0.0
    return _scaler(mean, 1 / step.scale_ if step.with_std else 1.0)


def _minmax(step: Any) -> AffineMap:
    return _scaler(-step.min_ / step.scale_, step.scale_)


def _robust(step: Any) -> AffineMap:
    center = step.center_ if step.with_centering else 0.0
    return _scaler(center, 1 / step.scale_ if step.with_scaling else 1.0)


def _maxabs(step: Any) -> AffineMap:
    return _scaler(0.0, 1 / step.scale_)


def _scaler(shift: Any, scale: Any) -> AffineMap:
    return AffineMap(*(np.atleast_1d(np.asarray(v, dtype=float)) for v in (shift, scale)))


_SCALERS: tuple[tuple[Any, Any], ...] = (
    (StandardScaler, _standard),
    (MinMaxScaler, _minmax),
    (RobustScaler, _robust),
    (MaxAbsScaler, _maxabs),
)


def scaler_bytes(scaler: AffineMap | None) -> int:
    """Bytes of a shift and a scale in float32."""
    return 0 if scaler is None else 4 * (len(scaler.shift) + len(scaler.scale))

"""The map that an expansion may carry in front: a shift, a scale and a projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kernlet.devices import Device
from kernlet.kernels.kernel import Floats


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

"""An expansion whose tables are stored in few bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernlet.affine import AffineMap
from kernlet.expansion import KernelExpansion
from kernlet.kernels import RBF
from kernlet.kernels.kernel import Floats
from kernlet.kernels.widths import CenterWidths
from kernlet.tables import Table


class QuantizedExpansion(KernelExpansion):
    """A Gaussian :class:`KernelExpansion` held in packed tables.

    f_c(x) = sum_j coef[c, j] exp(-gamma_j |P (x - shift) / scale - centers[j]|^2) + intercept[c].

    ``centers``, ``coef`` and ``front`` are the numbers that the tables stand for, decoded in
    float32: what is evaluated is what is stored. ``nbytes`` counts everything stored: tables with
    their steps, intercepts, widths, shift and scale. A pickle holds the tables alone.

    Parameters
    ----------
    gamma : ndarray of shape (1,) or (n_centers,)
        One width, or one for each center; held in float32.
    centers : Table of shape (n_centers, rank)
    coef : Table of shape (n_outputs, n_centers)
    intercept : ndarray of shape (n_outputs,)
        Held in float64 where it comes so, otherwise in float32.
    shift, scale : float
        Of all inputs; held in float32.
    projection : Table of shape (rank, n_features), default=None

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet import QuantizedExpansion
    >>> from kernlet.tables import FORMATS, encode
    >>> centers = encode(np.array([[0.0, 1.0], [2.0, 0.0]]), FORMATS["int4"])
    >>> coef = encode(np.array([[1.0, -1.0]]), FORMATS["int4"])
    >>> f = QuantizedExpansion(np.array([0.5]), centers, coef, np.zeros(1, np.float32))
    >>> f.nbytes  # 2 + 1 bytes of codes, 2 steps, 1 width, 1 intercept, shift and scale
    27
    """

    def __init__(
        self,
        gamma: Any,
        centers: Table,
        coef: Table,
        intercept: Any,
        shift: float = 0.0,
        scale: float = 1.0,
        projection: Table | None = None,
    ) -> None:
        widths: Floats = np.atleast_1d(np.asarray(gamma, dtype=np.float32))
        if widths.shape not in {(1,), centers.shape[:1]} - {(0,)}:
            raise ValueError(
                f"gamma has shape {widths.shape}; give one width, or one for each of the "
                f"{centers.shape[0]} centers."
            )
        if not (np.isfinite(widths) & (widths > 0)).all():
            raise ValueError("gamma must be positive and finite.")
        kernel = RBF(float(widths[0])) if len(widths) == 1 else CenterWidths(widths)
        tables = {"centers": centers, "coef": coef, "projection": projection}
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "gamma", widths)
        front = AffineMap(
            np.array([shift], dtype=np.float32),
            1 / np.array([scale], dtype=np.float32),
            None if projection is None else projection.decoded(),
        )
        intercept = np.asarray(intercept)
        if intercept.dtype != np.float64:
            intercept = intercept.astype(np.float32)
        super().__init__(kernel, centers.decoded(), coef.decoded(), intercept, front)
        object.__setattr__(self, "input_scale", float(np.float32(scale)))

    tables: dict[str, Any]
    gamma: Floats
    input_scale: float

    @property
    def storage(self) -> dict[str, str]:
        """The format of each table."""
        return {name: table.format.name for name, table in self.tables.items() if table is not None}

    @property
    def rank(self) -> int:
        """Numbers that a center has."""
        return int(self.centers.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        tables = sum(table.nbytes for table in self.tables.values() if table is not None)
        return tables + self.gamma.nbytes + self.intercept.nbytes + 8

    def __reduce__(self) -> Any:
        assert self.front is not None
        shift, scale = float(self.front.shift[0]), self.input_scale
        tables = self.tables
        return type(self), (
            self.gamma,
            tables["centers"],
            tables["coef"],
            self.intercept,
            shift,
            scale,
            tables["projection"],
        )

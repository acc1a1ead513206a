"""A machine in the tables that generated code holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from kernlet.affine import AffineMap
from kernlet.expansion import KernelExpansion
from kernlet.export.model_file import describe_kernel
from kernlet.export.scaling import compose
from kernlet.export.shipped import ShippedModel
from kernlet.kernels import RBF, Kernel, Linear, Polynomial, Sigmoid
from kernlet.kernels.kernel import Floats
from kernlet.kernels.widths import CenterWidths
from kernlet.quantized import QuantizedExpansion
from kernlet.tables import FORMATS, Table, encode

_LARGEST_DENSE = 10**9  # numbers
STORAGES = ("float32", "float16", "int8", "stored")


@dataclass(frozen=True, eq=False)
class StoredMachine:
    """u = projection (x - shift) scale; f_c(x) = sum_j coef[j, c] k(u, centers[j]) + intercept[c].

    Parameters
    ----------
    kernel : Kernel
        In the units of the codes of the centers.
    shift, scale : ndarray of shape (1,) or (n_features,), or None
    projection : Table of shape (rank, n_features) or None
    centers : Table of shape (n_centers, rank)
        Of step 1: its step is part of kernel, scale and projection.
    coef : Table of shape (n_centers, n_outputs)
    intercept : ndarray of shape (n_outputs,)
    """

    kernel: Kernel
    shift: Floats | None
    scale: Floats | None
    projection: Table | None
    centers: Table
    coef: Table
    intercept: Floats

    @property
    def tables(self) -> dict[str, Table]:
        """The tables by their names."""
        tables = {"centers": self.centers, "coef": self.coef}
        return tables if self.projection is None else tables | {"projection": self.projection}

    @property
    def nbytes(self) -> int:
        """Bytes of all tables: codes, widths, scaler and intercepts."""
        loose = (self.shift, self.scale, self.intercept, np.atleast_1d(_gamma(self.kernel)))
        numbers = sum(len(part) for part in loose if part is not None)
        return sum(int(t.data.nbytes) for t in self.tables.values()) + 4 * numbers

    @property
    def expansion(self) -> KernelExpansion:
        """What the tables stand for."""
        front = None
        if self.shift is not None and self.scale is not None:
            matrix = None if self.projection is None else self.projection.decoded()
            front = AffineMap(self.shift, self.scale, matrix)
        return KernelExpansion(
            self.kernel, self.centers.decoded(), self.coef.decoded().T, self.intercept, front
        )


def store(model: ShippedModel, storage: str) -> StoredMachine:
    """Put a machine into tables.

    Parameters
    ----------
    model : ShippedModel
    storage : {"float32", "float16", "int8", "stored"}
        "stored" takes the tables of a compact machine as they are.

    Returns
    -------
    machine : StoredMachine
    """
    describe_kernel(model.expansion.kernel)  # refuses a kernel that is code
    if storage not in STORAGES:
        raise ValueError(f"storage={storage!r} is none of {', '.join(STORAGES)}.")
    if not model.expansion.n_centers:
        raise ValueError("A machine without centers is a constant; there is nothing to export.")
    own = getattr(model.expansion, "storage", {})
    if storage == "stored" or set(own.values()) == {storage} != {"float32"}:
        return _as_stored(model)
    front, centers, kernel = _frame(model, storage)
    format = FORMATS[storage]
    projection = None
    if front is not None and front.matrix is not None:
        projection = encode(front.matrix, format)
    coef = encode(model.expansion.coef.T, format)
    return _in_codes(
        kernel, front, projection, encode(centers, format), coef, model.expansion.intercept
    )


def _as_stored(model: ShippedModel) -> StoredMachine:
    expansion = model.expansion
    if not isinstance(expansion, QuantizedExpansion):
        raise ValueError(
            'storage="stored" is for machines that hold packed tables, of CompactKernelClassifier '
            'and CompactKernelRegressor; give "float32", "float16" or "int8".'
        )
    tables = expansion.tables
    coef = tables["coef"]
    return _in_codes(
        expansion.kernel,
        _whole_front(model),
        tables["projection"],
        tables["centers"],
        encode(coef.decoded().T, coef.format, coef.step if coef.format.has_step else None),
        expansion.intercept,
    )


def _whole_front(model: ShippedModel) -> AffineMap | None:
    """Scaler and the map of the expansion as one."""
    front = model.expansion.front
    if model.scaler is None or front is None:
        return model.scaler or front
    return compose(model.scaler, front)


def _frame(model: ShippedModel, storage: str) -> tuple[AffineMap | None, Floats, Kernel]:
    """Where the centers lie when they are rounded: about 0, where the kernel allows it."""
    expansion, front = model.expansion, _whole_front(model)
    centers, kernel = dense(expansion.centers), expansion.kernel
    is_plain = front is None or front.matrix is None
    if not (kernel.is_translation_invariant and is_plain):
        return front, centers, kernel
    if storage == "float32":
        if front is not None and len(front.scale) == len(front.shift) == 1:
            scale = float(front.scale[0])
            return None, centers / scale + front.shift.astype(float), _zoomed(kernel, scale)
        return front, centers, kernel
    middle = _middle(centers)
    around = AffineMap(middle, np.ones(1))
    return around if front is None else compose(front, around), centers - middle, kernel


def _middle(centers: Floats) -> Floats:
    """The middle of all numbers, or of each feature where that halves the largest."""
    low, high = centers.min(axis=0), centers.max(axis=0)
    whole = np.array([(low.min() + high.max()) / 2])
    if 2 * (high - low).max() < high.max() - low.min():
        return (low + high) / 2
    return whole


def _in_codes(
    kernel: Kernel,
    front: AffineMap | None,
    projection: Table | None,
    centers: Table,
    coef: Table,
    intercept: Floats,
) -> StoredMachine:
    """Take the step of the centers into kernel, scale and projection."""
    step = centers.step
    if kernel.is_translation_invariant and step != 1.0:
        kernel = _zoomed(kernel, step)
        if projection is not None:
            projection = replace(projection, step=projection.step / step)
        else:
            shrink = AffineMap(np.zeros(1), np.array([1 / step]))
            front = shrink if front is None else compose(front, shrink)
    elif isinstance(kernel, Polynomial | Sigmoid):
        kernel = replace(kernel, gamma=kernel.gamma * step)
    elif isinstance(kernel, Linear):
        coef = replace(coef, step=coef.step * step)
    return StoredMachine(
        kernel,
        None if front is None else front.shift.astype(np.float32),
        None if front is None else front.scale.astype(np.float32),
        projection,
        replace(centers, step=1.0),
        coef,
        np.asarray(intercept, dtype=np.float32),
    )


def _zoomed(kernel: Kernel, scale: float) -> Kernel:
    """The Gaussian kernel for points that were divided by a scale."""
    if isinstance(kernel, CenterWidths):
        return CenterWidths(kernel.gamma * scale**2)
    assert isinstance(kernel, RBF)
    return RBF(kernel.gamma * scale**2)


def _gamma(kernel: Kernel) -> Any:
    return getattr(kernel, "gamma", [])


def dense(X: Any) -> Floats:
    """Centers as float64 numbers, all of them."""
    if sparse.issparse(X) and X.shape[0] * X.shape[1] > _LARGEST_DENSE:
        raise ValueError(
            f"{X.shape[0]} sparse centers of {X.shape[1]} features are too wide to be written out."
        )
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)

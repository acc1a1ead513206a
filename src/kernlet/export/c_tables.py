"""The tables of an exported machine, and what rounding them costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import r2_score

from kernlet._typing import Floats
from kernlet.affine import AffineMap, compose
from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel
from kernlet.model.model import Model
from kernlet.quantization import FORMATS, PackedArray, QuantizedExpansion, encode

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
    projection : PackedArray of shape (rank, n_features) or None
    centers : PackedArray of shape (n_centers, rank)
        Of step 1: its step is part of kernel, scale and projection.
    coef : PackedArray of shape (n_centers, n_outputs)
    intercept : ndarray of shape (n_outputs,)
    """

    kernel: Kernel
    shift: Floats | None
    scale: Floats | None
    projection: PackedArray | None
    centers: PackedArray
    coef: PackedArray
    intercept: Floats

    @property
    def tables(self) -> dict[str, PackedArray]:
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


def store(model: Model, storage: str) -> StoredMachine:
    """Put a machine into tables.

    Parameters
    ----------
    model : Model
    storage : {"float32", "float16", "int8", "stored"}
        "stored" takes the tables of a compact machine as they are.

    Returns
    -------
    machine : StoredMachine
    """
    model.expansion.kernel.to_dict()  # refuses a kernel that is code
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


def _as_stored(model: Model) -> StoredMachine:
    expansion = model.expansion
    if not isinstance(expansion, QuantizedExpansion):
        raise ValueError(
            'storage="stored" is for machines that hold packed tables, of CompactKernelClassifier '
            'and CompactKernelRegressor; give "float32", "float16" or "int8".'
        )
    tables = expansion.packed
    coef = tables["coef"]
    return _in_codes(
        expansion.kernel,
        model.input_map,
        tables["projection"],
        tables["centers"],
        encode(coef.decoded().T, coef.format, coef.step if coef.format.has_step else None),
        expansion.intercept,
    )


def _frame(model: Model, storage: str) -> tuple[AffineMap | None, Floats, Kernel]:
    """Where the centers lie when they are rounded: about 0, where the kernel allows it."""
    expansion, front = model.expansion, model.input_map
    centers, kernel = dense(expansion.centers), expansion.kernel
    is_plain = front is None or front.matrix is None
    if not (kernel.is_translation_invariant and is_plain):
        return front, centers, kernel
    if storage == "float32":
        if front is not None and len(front.scale) == len(front.shift) == 1:
            scale = float(front.scale[0])
            return None, centers / scale + front.shift.astype(float), kernel.scaled(scale)[0]
        return front, centers, kernel
    middle = _middle(centers)
    around = AffineMap(middle, np.ones(1))
    return compose(front, around), centers - middle, kernel


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
    projection: PackedArray | None,
    centers: PackedArray,
    coef: PackedArray,
    intercept: Floats,
) -> StoredMachine:
    """Take the step of the centers into kernel, scale and projection."""
    step = centers.step
    if step != 1.0:
        kernel, factor = kernel.scaled(step)
        coef = replace(coef, step=coef.step * factor)
    if kernel.is_translation_invariant and step != 1.0:
        if projection is not None:
            projection = replace(projection, step=projection.step / step)
        else:
            shrink = AffineMap(np.zeros(1), np.array([1 / step]))
            front = compose(front, shrink)
    return StoredMachine(
        kernel,
        None if front is None else front.shift.astype(np.float32),
        None if front is None else front.scale.astype(np.float32),
        projection,
        replace(centers, step=1.0),
        coef,
        np.asarray(intercept, dtype=np.float32),
    )


def _gamma(kernel: Kernel) -> Any:
    return getattr(kernel, "gamma", [])


def dense(X: Any) -> Floats:
    """Centers as float64 numbers, all of them."""
    if sparse.issparse(X) and X.shape[0] * X.shape[1] > _LARGEST_DENSE:
        raise ValueError(
            f"{X.shape[0]} sparse centers of {X.shape[1]} features are too wide to be written out."
        )
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


_MOST_ROWS = 20_000
_CLEAR = 1e-4  # two scores that differ by less may change places in float32


@dataclass(frozen=True)
class Rounding:
    """A machine before and after its tables were rounded.

    Parameters
    ----------
    n_rows : int
        Rows compared on.
    rows : str
        What these are.
    largest_score_error : float
        Of the outputs of the expansion.
    largest_score : float
        Of these outputs, for comparison.
    agreement : float or None
        Share of the rows of which both predict the same class.
    accuracy_before, accuracy_after : float or None
        Where labels were given; R2 of a regressor.
    """

    n_rows: int
    rows: str
    largest_score_error: float
    largest_score: float
    agreement: float | None
    accuracy_before: float | None
    accuracy_after: float | None

    def lines(self) -> list[str]:
        """The same for people."""
        lines = [
            f"largest error of a score {self.largest_score_error:.3g} "
            f"(scores go up to {self.largest_score:.3g})"
        ]
        if self.agreement is not None:
            lines.append(f"same class for {100 * self.agreement:.2f} % of the rows")
        if self.accuracy_before is not None and self.accuracy_after is not None:
            what = "R2" if self.agreement is None else "accuracy"
            lines.append(
                f"{what} {self.accuracy_before:.4f} before, {self.accuracy_after:.4f} after"
            )
        return lines


def compare(
    model: Model, after: KernelExpansion, X: Any = None, y: Any = None
) -> tuple[Rounding, Floats]:
    """Compare a machine with its rounded form.

    Parameters
    ----------
    model : Model
    after : KernelExpansion
        With all scaling inside; its rows are in float32, as the code takes them.
    X, y : array-like or None
        Rows and what they should be.

    Returns
    -------
    rounding : Rounding
    rows : ndarray of shape (n_rows, n_features)
        The rows compared on.
    """
    rows = likely_rows(model) if X is None else rows_of(model, X)[:_MOST_ROWS]
    before = model.outputs(rows)
    with np.errstate(over="ignore"):
        rounded = after.decision_values(rows.astype(np.float32).astype(np.float64))
    agreement: float | None = None
    shares: tuple[float | None, ...] = (None, None)
    if model.kind == "classifier":
        codes = model.codes(before), model.codes(rounded)
        agreement = float(np.mean(codes[0] == codes[1]))
        if y is not None:
            labels = np.asarray(y)[:_MOST_ROWS]
            shares = tuple(float(np.mean(model.classes[c] == labels)) for c in codes)
    elif y is not None:
        shares = tuple(
            float(r2_score(np.asarray(y)[:_MOST_ROWS], model.scores(f))) for f in (before, rounded)
        )
    rounding = Rounding(
        n_rows=len(rows),
        rows="rows near its centers" if X is None else "given rows",
        largest_score_error=float(np.abs(before - rounded).max()),
        largest_score=float(np.abs(before).max()),
        agreement=agreement,
        accuracy_before=shares[0],
        accuracy_after=shares[1],
    )
    return rounding, rows


def close_calls(model: Model, outputs: Floats) -> Any:
    """Rows of which the class may change when a number is rounded."""
    if model.kind != "classifier":
        return np.arange(0)
    if model.scheme == "one vs rest":
        best = np.sort(outputs, axis=1)
        return np.flatnonzero(best[:, -1] - best[:, -2] < _CLEAR)
    return np.flatnonzero(np.abs(outputs).min(axis=1) < _CLEAR)


def rows_of(model: Model, X: Any) -> Floats:
    """Rows of features of what a user gives: an array, a sparse matrix or a table."""
    is_rows = isinstance(X, np.ndarray) and X.dtype.kind == "f"
    if model.encoding is not None and not is_rows:
        X = model.encoding.transform(X)
    rows = dense(X)
    if rows.ndim != 2 or rows.shape[1] != model.n_features or not len(rows):
        raise ValueError(
            f"X has shape {rows.shape}; rows of {model.n_features} features are expected."
        )
    if not np.isfinite(rows).all():
        raise ValueError("X holds NaN or infinity.")
    return rows


def likely_rows(model: Model, n_rows: int = 200) -> Floats:
    """Rows that a machine might meet: its centers, a little moved, among the features.

    Behind a projection, the shortest rows that lead to these.
    """
    random = np.random.RandomState(0)
    expansion = model.expansion
    centers = dense(expansion.centers)
    picked = centers[random.randint(len(centers), size=n_rows)]
    points = picked + 0.1 * centers.std() * random.normal(size=picked.shape)
    points[: len(centers)] = picked[: len(centers)]
    front = model.input_map
    if front is None:
        return points
    if front.matrix is not None:
        points = points @ np.linalg.pinv(front.matrix.astype(float)).T
    return points / front.scale.astype(float) + front.shift.astype(float)


_MOST_ROWS_SINGLE_PRECISION, _FEWEST_ROWS = 300, 16
_MOST_WORK = 500_000_000  # differences of numbers


def require_float32(model: Model, machine: StoredMachine, rows: Floats) -> None:
    """Refuse a machine that needs more than float32.

    Parameters
    ----------
    model : Model
    machine : StoredMachine
        Its tables.
    rows : ndarray of shape (n_rows, n_features)
        Of which some hundreds are tried.

    Raises
    ------
    ValueError
        Where classes differ though their scores are clearly apart, or scores by a thousandth of
        the largest.
    """
    with np.errstate(over="ignore"):
        some = _some(rows, machine.centers.shape).astype(np.float32)
    exact = machine.expansion.decision_values(some.astype(np.float64))
    found = float32_outputs(machine, some).astype(np.float64)
    error, size = float(np.abs(found - exact).max()), max(1.0, float(np.abs(exact).max()))
    same = True
    if model.kind == "classifier" and np.isfinite(found).all():
        far = np.setdiff1d(np.arange(len(some)), close_calls(model, exact))
        same = np.array_equal(model.codes(found)[far], model.codes(exact)[far])
    if not same or not error <= 1e-3 * size:
        raise ValueError(
            f"In float32 the code is off by {error:.3g} where scores go up to {size:.3g}: scale "
            "the features, for example with a StandardScaler in front."
        )


def _some(rows: Floats, shape: tuple[int, ...]) -> Floats:
    """Rows from all over the table, fewer of them for a large machine."""
    wanted = min(
        _MOST_ROWS_SINGLE_PRECISION, max(_FEWEST_ROWS, _MOST_WORK // max(1, math.prod(shape)))
    )
    return rows[:: -(-len(rows) // wanted)]


def float32_outputs(machine: StoredMachine, rows: Floats) -> Floats:
    """Outputs of a machine, step by step as the code has them.

    Takes time as ``n_rows * n_centers * rank`` and the memory of the centers twice.

    Parameters
    ----------
    machine : StoredMachine
    rows : ndarray of shape (n_rows, n_features), float32

    Returns
    -------
    outputs : ndarray of shape (n_rows, n_outputs), float32
    """
    centers = machine.centers.decoded()
    coef, coef_step = _codes(machine.coef)
    intercept = machine.intercept.astype(np.float32)
    with np.errstate(all="ignore"):
        points = _mapped(machine, rows)
        values = np.stack([_kernel_values(machine.kernel, u, centers) for u in points])
        return coef_step * (values @ coef) + intercept


def _mapped(machine: StoredMachine, rows: Floats) -> Floats:
    if machine.shift is None or machine.scale is None:
        return rows
    moved = (rows - machine.shift) * machine.scale
    if machine.projection is None:
        return moved
    projection, step = _codes(machine.projection)
    return step * (moved @ projection.T)


def _kernel_values(kernel: Kernel, u: Floats, centers: Floats) -> Floats:
    """k(u, z) for every center z, in float32, by differences where the code takes them."""
    if kernel.is_translation_invariant:  # k(u, z) = k(0, z - u): nothing cancels
        u, centers = np.zeros_like(u), centers - u
    x_norms, z_norms = (np.square(A).sum(axis=1)[None] for A in (u[None], centers))
    if type(kernel).of_products is Kernel.of_products:
        return kernel.evaluate(u[None], centers, x_norms, z_norms)[0]
    return kernel.of_products((centers @ u)[None], x_norms, z_norms)[0]


def _codes(table: PackedArray) -> tuple[Floats, Any]:
    """Entries of a table and what multiplies their sums."""
    if not table.format.has_step:
        return table.decoded(), _single(1.0)
    return replace(table, step=1.0).decoded(), _single(table.step)


def _single(value: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(np.float32)[()]

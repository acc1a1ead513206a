"""What a storage costs: the same rows before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from kernlet.expansion import KernelExpansion
from kernlet.export.scaling import compose
from kernlet.export.shipped import ShippedModel
from kernlet.export.stored import dense
from kernlet.kernels.kernel import Floats

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
    model: ShippedModel, after: KernelExpansion, X: Any = None, y: Any = None
) -> tuple[Rounding, Floats]:
    """Compare a machine with its rounded form.

    Parameters
    ----------
    model : ShippedModel
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


def close_calls(model: ShippedModel, outputs: Floats) -> Any:
    """Rows of which the class may change when a number is rounded."""
    if model.kind != "classifier":
        return np.arange(0)
    if model.scheme == "one vs rest":
        best = np.sort(outputs, axis=1)
        return np.flatnonzero(best[:, -1] - best[:, -2] < _CLEAR)
    return np.flatnonzero(np.abs(outputs).min(axis=1) < _CLEAR)


def rows_of(model: ShippedModel, X: Any) -> Floats:
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


def likely_rows(model: ShippedModel, n_rows: int = 200) -> Floats:
    """Rows that a machine might meet: its centers, a little moved, among the features.

    Behind a projection, the shortest rows that lead to these.
    """
    random = np.random.RandomState(0)
    expansion = model.expansion
    centers = dense(expansion.centers)
    picked = centers[random.randint(len(centers), size=n_rows)]
    points = picked + 0.1 * centers.std() * random.normal(size=picked.shape)
    points[: len(centers)] = picked[: len(centers)]
    front = expansion.front
    if model.scaler is not None:
        front = model.scaler if front is None else compose(model.scaler, front)
    if front is None:
        return points
    if front.matrix is not None:
        points = points @ np.linalg.pinv(front.matrix.astype(float)).T
    return points / front.scale.astype(float) + front.shift.astype(float)

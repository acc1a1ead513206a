"""What rounding costs: a model compared with itself after its numbers were rounded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.affine import AffineMap, CurvedMap
from kernlet.devices import is_sparse
from kernlet.kernels.base import as_float32
from kernlet.kernels.gram import as_dense, dense_centers
from kernlet.model.model import Model

_LARGEST_DENSE = 10**9  # numbers
_LARGEST_LIKELY = 2**24  # numbers of the rows near the centers
_LARGEST_COMPARISON = 20_000  # rows
FLOAT32_TOLERANCE = 1e-3  # largest error of a score, relative to the largest score
_CENTERS = "rows near its centers"
_GIVEN = "rows given, which may include training rows"
_CLEAR_OF_A_STEP = 1e-5  # of a scaled feature; asinh and scale in float32 are off by less
_CLEAR_MARGIN = 1e-4  # two scores that differ by less may change places in float32


@dataclass(frozen=True)
class Rounding:
    """A model before and after its numbers were rounded.

    Parameters
    ----------
    n_rows : int
        Number of rows compared on.
    rows : str
        What these are.
    largest_score_error : float
        Largest error of an output of the expansion.
    largest_score : float
        Largest absolute value of these outputs, for comparison.
    agreement : float or None
        Fraction of the rows for which both predict the same class.
    accuracy_before, accuracy_after : float or None
        Where labels were given; R2 of a regressor, D2 of quantiles.
    score : {"R2", "D2"}
        Which of these it is.
    """

    n_rows: int
    rows: str
    largest_score_error: float
    largest_score: float
    agreement: float | None
    accuracy_before: float | None
    accuracy_after: float | None
    score: str = "R2"

    def lines(self) -> list[str]:
        """The same as text."""
        lines = [
            f"largest error of a score {self.largest_score_error:.3g} "
            f"(scores go up to {self.largest_score:.3g})"
        ]
        if self.agreement is not None:
            lines.append(f"same class for {100 * self.agreement:.2f} % of the rows")
        if self.accuracy_before is not None and self.accuracy_after is not None:
            before, after = self.accuracy_before, self.accuracy_after
            if self.agreement is None:
                lines.append(f"{self.score} {before:.4f} before, {after:.4f} after")
            else:
                lines.append(f"accuracy {100 * before:.2f} % before, {100 * after:.2f} % after")
        return lines


def compare(model: Model, rounded: Model, X: Any = None, y: Any = None) -> tuple[Rounding, Floats]:
    """Compare a model with its rounded form; also the rows compared on.

    The rounded one gets the rows in float32, as exported code does.
    """
    rows = likely_rows(model) if X is None else feature_rows(model, X)[:_LARGEST_COMPARISON]
    in_float32 = rows_as_float32(rows).astype(np.float64)
    before, after = model.outputs(rows), rounded.outputs(in_float32)
    agreement: float | None = None
    accuracies: tuple[float | None, ...] = (None, None)
    targets = None if y is None else np.asarray(y)[:_LARGEST_COMPARISON]
    if targets is not None and len(targets) != len(rows):
        raise ValueError(f"y has {len(targets)} labels for {len(rows)} rows of X.")
    if model.kind == "novelty" and targets is not None and not np.isin(targets, (-1, 1)).all():
        raise ValueError("y of a novelty detector is 1 for inliers and -1 for outliers.")
    if model.classes is not None:
        codes = model.codes(before), model.codes(after)
        agreement = float(np.mean(codes[0] == codes[1]))
        if targets is not None:
            accuracies = tuple(float(np.mean(model.classes[c] == targets)) for c in codes)
    elif targets is not None:
        accuracies = tuple(_regression_score(model, targets, f) for f in (before, after))
    rounding = Rounding(
        n_rows=len(rows),
        rows=_CENTERS if X is None else _GIVEN,
        largest_score_error=float(np.abs(before - after).max()),
        largest_score=float(np.abs(before).max()),
        agreement=agreement,
        accuracy_before=accuracies[0],
        accuracy_after=accuracies[1],
        score="R2" if model.quantiles is None else "D2",
    )
    return rounding, rows


def _regression_score(model: Model, targets: Any, outputs: Floats) -> float:
    """R2, or D2 of the pinball loss of quantiles."""
    from sklearn.metrics import r2_score

    from kernlet.model.scoring import quantile_score

    if model.quantiles is None:
        return float(r2_score(targets, model.scores(outputs)))
    return quantile_score(targets, model.scores(outputs), model.quantiles)


def require_close(
    what: str, scores: Floats, expected: Floats, same_classes: bool, tolerance: float
) -> float:
    """Refuse float32 scores that are off by more than a tolerance; the largest error."""
    with np.errstate(invalid="ignore"):  # infinity - infinity is NaN, which is refused
        error = float(np.abs(scores - expected).max())
    size = max(1.0, float(np.abs(expected).max()))
    if not same_classes or not error <= tolerance * size or not np.isfinite(size):
        raise ValueError(
            f"In float32 the {what} is off by {error:.3g} where scores go up to {size:.3g}: scale "
            "the features, for example with a StandardScaler in front."
        )
    return error


def same_classes(model: Model, outputs: Floats, predicted: Any, expected: Any) -> bool:
    """Whether two predictions agree, apart from close calls."""
    clear = clear_rows(model, outputs)
    return np.array_equal(predicted[clear], expected[clear])


def clear_rows(model: Model, outputs: Floats, margin: float = _CLEAR_MARGIN) -> Indices:
    """Rows whose class cannot change when a number of a classifier is rounded."""
    if len(model.classes) == 1:
        return np.arange(len(outputs))
    if model.scheme == "one vs rest":
        ordered = np.sort(outputs, axis=1)
        margins = ordered[:, -1] - ordered[:, -2]
    else:
        margins = np.abs(outputs).min(axis=1)
    return np.flatnonzero(~(margins < margin))  # NaN is clearly wrong


def clear_of_thresholds(model: Model, rows: Floats) -> Indices:
    """Rows none of whose features is within round-off of the threshold of a step."""
    map = model.expansion.input_map
    if not isinstance(map, CurvedMap) or map.steps is None:
        return np.arange(len(rows))
    steps = map.steps
    curved = replace(map, matrix=None, steps=None)(model.scaled(rows.astype(np.float64)))
    distances = np.nan_to_num(np.abs(curved[:, steps.features] - steps.thresholds), nan=np.inf)
    sizes = np.maximum(1.0, np.abs(steps.thresholds))
    clear = np.flatnonzero((distances > _CLEAR_OF_A_STEP * sizes).all(axis=1))
    return clear if len(clear) else np.arange(len(rows))


def feature_rows(model: Model, X: Any) -> Floats:
    """Rows of features from an array, a sparse matrix or a table, as dense float64."""
    rows = dense_points(model.encoded(X) if has_cells(model, X) else X)
    if rows.ndim != 2 or rows.shape[1] != model.n_features or not len(rows):
        raise ValueError(
            f"X has shape {rows.shape}; rows of {model.n_features} features are expected."
        )
    is_valid = np.isfinite(rows)
    if not (is_valid if model.missing == "error" else is_valid | np.isnan(rows)).all():
        raise ValueError(f"X holds {'NaN or ' * (model.missing == 'error')}infinity.")
    return rows


def rows_as_float32(rows: Floats) -> Floats:
    """Rows of features in float32, in which missing ones stay NaN."""
    is_missing = np.isnan(rows)
    numbers = as_float32(np.where(is_missing, 0.0, rows), "A feature of")
    numbers[is_missing] = np.nan
    return numbers


def has_cells(model: Model, X: Any) -> bool:
    """Whether X is to be encoded; an array of numbers is so already, where tables are encoded."""
    if model.encoding is None or X is None:
        return False
    is_array = isinstance(X, np.ndarray) and X.dtype.kind == "f"
    return not is_array or bool(model.encoding.positions)


def likely_rows(model: Model, n_rows: int = 200) -> Floats:
    """Plausible inputs: the centers, some of them moved a little, mapped back to the features.

    Behind a projection, the shortest rows that are mapped to these points.
    """
    random = np.random.RandomState(0)
    centers = dense_points(dense_centers(model.expansion.centers))
    n_rows = max(1, min(n_rows, _LARGEST_LIKELY // max(1, centers.shape[1])))
    if not len(centers):  # the machine is a constant
        centers = np.zeros((1, centers.shape[1]))
    picked = centers[random.randint(len(centers), size=n_rows)]
    points = picked + 0.1 * centers.std() * random.normal(size=picked.shape)
    points[: len(centers)] = picked[: len(centers)]
    rows = before(model.scaler, before(model.expansion.input_map, points))
    if model.missing != "error" and len(rows) > 3:
        # of every second row one feature of three is missing; of a row in the middle, all
        rows[1::2][random.uniform(size=rows[1::2].shape) < 1 / 3] = np.nan
        rows[len(rows) // 2] = np.nan
    return rows


def before(map: AffineMap | None, points: Floats) -> Floats:
    """Rows that a map takes to points or, where its steps leave gaps, near them."""
    if map is None:
        return points
    if map.matrix is not None:
        points = points @ np.linalg.pinv(map.matrix.astype(float)).T
    if isinstance(map, CurvedMap):
        points = points if map.steps is None else 2 * points - map.steps(points)
        points = np.sinh(np.clip(points, -20, 20)) if map.is_asinh else points
    return points / map.scale.astype(float) + map.shift.astype(float)


def about(map: AffineMap | None, centers: Floats, middle: Floats) -> tuple[AffineMap, Floats]:
    """A map without a matrix, followed by a shift to ``middle``, and the centers behind both.

    The shift of the features is rounded to float32, and the centers are moved by what that is: far
    from zero, a feature's deviation may be less than the rounding of its mean.
    """
    first = AffineMap(np.zeros(1), np.ones(1)) if map is None else map
    composed = AffineMap(middle, np.ones(1)) @ first
    shift = as_float32(composed.shift, "A mean of").astype(np.float64)
    return replace(composed, shift=shift), centers - (shift - first.shift) * first.scale


def dense_points(X: Any) -> Floats:
    """Points as a dense float64 array; too large ones are refused."""
    X = X if hasattr(X, "ndim") else np.asarray(X, dtype=np.float64)
    is_wide = X.ndim == 2 and X.shape[1] > _LARGEST_LIKELY  # a file may claim it for no points
    if is_wide or (is_sparse(X) and X.shape[0] * X.shape[1] > _LARGEST_DENSE):
        raise ValueError(
            f"{X.shape[0]} points of {X.shape[1]} features are too wide to be written out."
        )
    return np.asarray(as_dense(X), dtype=np.float64)

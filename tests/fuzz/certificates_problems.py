"""Small problems for certificates, random and degenerate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.utils.class_weight import compute_class_weight


@dataclass(frozen=True)
class Problem:
    """Rows, labels and parameters of one fit."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    kernel: dict
    C: float
    class_weight: object

    @property
    def kept(self):
        """Rows of positive weight, all that a fit sees."""
        if self.weights is None:
            return np.arange(len(self.y))
        return np.flatnonzero(self.weights > 0)

    @property
    def positives(self):
        """The positive class of each output."""
        classes = np.unique(self.y[self.kept])
        return classes[1:] if len(classes) == 2 else classes

    def signs(self, label):
        """+1 for the rows of a class, -1 for the others."""
        return np.where(self.y[self.kept] == label, 1.0, -1.0)

    def costs(self):
        """C times the weights of row and class."""
        y = self.y[self.kept]
        weights = np.ones(len(self.y)) if self.weights is None else self.weights
        weights = weights[self.kept]
        classes, codes = np.unique(y, return_inverse=True)
        if self.class_weight == "balanced":
            totals = np.bincount(codes, weights)
            by_class = totals.sum() / (len(classes) * totals)
        else:
            by_class = compute_class_weight(self.class_weight, classes=classes, y=y)
        return self.C * by_class[codes] * weights


def draw_problem(rng, kernels, *, max_rows=28, class_weights=(None, "balanced", "dict")):
    """A small problem with none, one or several peculiarities."""
    n_classes = int(rng.choice([2, 2, 2, 3, 5]))
    n_rows = int(rng.integers(2, max_rows))
    n_features = int(rng.choice([1, 2, 3, 5, 40]))
    X = rng.normal(size=(n_rows, n_features))
    y = rng.integers(0, n_classes, n_rows)
    if rng.random() < 0.3:  # rows that can be told apart
        X[:, 0] += 3.0 * y
    if rng.random() < 0.2:  # one large class
        y[rng.random(n_rows) < 0.8] = 0
    for _ in range(rng.integers(0, 4)):
        X, y = PECULIARITIES[rng.integers(len(PECULIARITIES))](rng, X, y)
    if len(np.unique(y)) < 2:
        X, y = np.vstack([X, X[:1] + 1.0]), np.append(y, y[0] + 1)
    weights = draw_weights(rng, y)
    rule = class_weights[rng.integers(len(class_weights))]
    if rule == "dict":
        rule = {label: float(10 ** rng.uniform(-2, 2)) for label in np.unique(y).tolist()}
    C = float(10 ** rng.uniform(-3, 4)) if rng.random() < 0.8 else float(rng.choice([1e-8, 1e8]))
    return Problem(X, y, weights, draw_kernel(rng, kernels), C, rule)


def draw_kernel(rng, kernels):
    """Parameters of one of the kernels."""
    name = str(rng.choice(kernels))
    kernel = {"kernel": name}
    if name != "linear":
        rules = ["scale", "auto", "mean_distance", float(10 ** rng.uniform(-3, 2))]
        kernel["gamma"] = rules[rng.integers(4)]
    if name == "poly":
        kernel |= {"degree": int(rng.integers(1, 5)), "coef0": float(rng.choice([0.0, 1.0, 10.0]))}
    if name == "sigmoid":
        kernel["coef0"] = float(rng.normal())
    return kernel


def draw_weights(rng, y):
    """None, ordinary, zero, tiny or huge weights, or a mixture; two classes keep weight."""
    kind = rng.integers(6)
    if kind < 2:
        return None
    weights = rng.uniform(0.1, 2.0, len(y))
    if kind == 3:
        weights[rng.random(len(y)) < 0.3] = 0.0
    if kind == 4:
        weights *= 10.0 ** rng.integers(-5, 6)
    if kind == 5:
        weights *= 10.0 ** rng.integers(-4, 5, len(y))
    for label in np.unique(y)[:2]:
        weights[np.argmax(y == label)] = 1.0
    return weights


def _equal_rows(rng, X, y):
    rows = rng.integers(0, len(X), len(X) // 2 + 1)
    return np.vstack([X, X[rows]]), np.append(y, y[rows])


def _opposite_labels(rng, X, y):
    rows = rng.integers(0, len(X), max(1, len(X) // 4))
    return np.vstack([X, X[rows]]), np.append(y, y[rows] + 1)


def _one_row_per_class(rng, X, y):
    first = np.unique(y, return_index=True)[1]
    return X[first], y[first]


def _collinear(rng, X, y):
    return np.outer(X[:, 0], rng.normal(size=X.shape[1])), y


def _zero_column(rng, X, y):
    X = X.copy()
    X[:, rng.integers(X.shape[1])] = 0.0
    return X, y


def _constant_column(rng, X, y):
    return np.hstack([X, np.full((len(X), 1), rng.normal())]), y


def _equal_columns(rng, X, y):
    return np.hstack([X, X]), y


def _integers(rng, X, y):
    return np.round(2 * X), y


def _far(rng, X, y):
    return X + 10.0 ** rng.integers(1, 7), y


def _units(rng, X, y):
    return X * 10.0 ** rng.integers(-4, 5, X.shape[1]), y


def _size(rng, X, y):
    return X * 10.0 ** rng.integers(-6, 7), y


def _many_classes(rng, X, y):
    return X, rng.integers(0, max(2, len(X) // 2), len(X))


def _float32(rng, X, y):
    return X.astype(np.float32), y


def _outlier(rng, X, y):
    X = X.copy()
    X[rng.integers(len(X))] *= 1e3
    return X, y


PECULIARITIES = [
    _equal_rows,
    _opposite_labels,
    _one_row_per_class,
    _collinear,
    _zero_column,
    _constant_column,
    _equal_columns,
    _integers,
    _far,
    _units,
    _size,
    _many_classes,
    _float32,
    _outlier,
]

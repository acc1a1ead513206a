"""Nearest neighbors: accuracy for all k at once, and k chosen on training rows alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NearestNeighbors

KS = range(1, 11)
#: Makes fewer rows and labels of rows and labels; the seed is for what is random in it.
Condense = Callable[[Any, Any, int], tuple[Any, Any]]


def accuracies(X: Any, y: Any, X_test: Any, y_test: Any) -> Any:
    """In per cent for each k; ties go to the smallest label, as in scikit-learn."""
    most = min(max(KS), len(X))
    nearest = NearestNeighbors(n_neighbors=most).fit(X).kneighbors(X_test, return_distance=False)
    votes = np.zeros((len(X_test), int(max(y.max(), y_test.max())) + 1))
    right = np.zeros(len(KS))
    for k in range(most):
        votes[np.arange(len(X_test)), y[nearest[:, k]]] += 1
        right[k] = (votes.argmax(axis=1) == y_test).mean()
    return 100 * right


def choose_k(condense: Condense, X: Any, y: Any, n_folds: int = 5) -> int:
    """The best k by cross-validation: folds are condensed, the rows held out are not.

    Of equals the largest.
    """
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X, y)
    scores = np.zeros(len(KS))
    for number, (train, test) in enumerate(folds):
        rows, labels = condense(X[train], y[train], number)
        scores += accuracies(rows, labels, X[test], y[test])
    return int(KS[len(KS) - 1 - int(np.argmax(scores[::-1].round(6)))])


def random_subset(share: float) -> Condense:
    """A share of the rows, drawn with no regard to classes."""

    def condense(X: Any, y: Any, seed: int) -> tuple[Any, Any]:
        count = max(1, round(share * len(X)))
        rows = np.random.RandomState(seed).permutation(len(X))[:count]
        return X[rows], y[rows]

    return condense


def scores(condense: Condense, k: int, data: Any, n_seeds: int) -> tuple[list[float], list[float]]:
    """Share kept and accuracy on the test part, for each seed."""
    kept, found = [], []
    for seed in range(n_seeds):
        rows, labels = condense(data.X, data.y, seed)
        kept.append(len(rows) / len(data.X))
        found.append(float(accuracies(rows, labels, data.X_test, data.y_test)[k - 1]))
    return kept, found

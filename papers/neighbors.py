"""k-NN on condensed training sets: accuracy for all k at once, k by cross-validation, baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NearestNeighbors

from papers.tasks import Task

KS = range(1, 11)
#: ``condense(X, y, seed)`` returns fewer rows and their labels.
Condense = Callable[[Any, Any, int], tuple[Any, Any]]


def accuracies(X: Any, y: Any, X_test: Any, y_test: Any) -> Any:
    """Percentages for each k; ties go to the smallest label, as in scikit-learn."""
    max_k = min(max(KS), len(X))
    nearest = NearestNeighbors(n_neighbors=max_k).fit(X).kneighbors(X_test, return_distance=False)
    votes = np.zeros((len(X_test), int(max(y.max(), y_test.max())) + 1))
    correct = np.zeros(len(KS))
    for k in range(max_k):
        votes[np.arange(len(X_test)), y[nearest[:, k]]] += 1
        correct[k] = (votes.argmax(axis=1) == y_test).mean()
    return 100 * correct


def choose_k(condense: Condense, X: Any, y: Any, n_folds: int = 5) -> int:
    """The best k by cross-validation, the largest of equals; held-out rows are not condensed."""
    return best_k(validate(condense, X, y, n_folds))


def best_k(by_k: Any) -> int:
    """The k of the best accuracy, the largest of equals."""
    return int(KS[len(KS) - 1 - int(np.argmax(by_k[::-1]))])


def validate(condense: Condense, X: Any, y: Any, n_folds: int = 5) -> Any:
    """Percentages for each k, by cross-validation; held-out rows are not condensed."""
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X, y)
    totals = np.zeros(len(KS))
    for number, (train, test) in enumerate(folds):
        rows, labels = condense(X[train], y[train], number)
        totals += accuracies(rows, labels, X[test], y[test])
    # Rounded, so that equal sums are equal whatever the order of their terms.
    return (totals / n_folds).round(6)


def all_rows(X: Any, y: Any, seed: int) -> tuple[Any, Any]:
    """Keeps all rows."""
    return X, y


def random_subset(share: float) -> Condense:
    """Keeps a share of the rows, drawn regardless of classes."""

    def condense(X: Any, y: Any, seed: int) -> tuple[Any, Any]:
        count = max(1, round(share * len(X)))
        rows = np.random.RandomState(seed).permutation(len(X))[:count]
        return X[rows], y[rows]

    return condense


def in_sequence(*condensers: Condense) -> Condense:
    """One after the other, each on what the last one kept."""

    def condense(X: Any, y: Any, seed: int) -> tuple[Any, Any]:
        for each in condensers:
            X, y = each(X, y, seed)
        return X, y

    return condense


def bootstrapped(n_neighbors: int) -> Condense:
    """Replaces each row by the mean of its nearest rows of the same class, itself included.

    One of the bootstrap samples of Hamamoto, Uchimura and Tomita (1997), the one without random
    numbers: every row once, with equal weights.
    """

    def condense(X: Any, y: Any, seed: int) -> tuple[Any, Any]:
        means = np.empty(X.shape)
        for label in np.unique(y):
            own = X[y == label]
            n_nearest = min(n_neighbors, len(own))
            nearest = NearestNeighbors(n_neighbors=n_nearest).fit(own).kneighbors(own)[1]
            means[y == label] = own[nearest].mean(axis=1)
        return means, y

    return condense


def without_atypical(share: float) -> Condense:
    """Deletes a share of the rows: those closest to another class.

    A row is atypical if another class is among its h nearest neighbours; h grows until the share
    is reached. Among rows of the same h, those with the nearest neighbour of another class go
    first.
    """

    def condense(X: Any, y: Any, seed: int) -> tuple[Any, Any]:
        first, distance = np.empty(len(y), dtype=int), np.empty(len(y))
        for label in np.unique(y):
            is_own = y == label
            others = NearestNeighbors(n_neighbors=1).fit(X[~is_own])
            nearest = others.kneighbors(X[is_own])[0]
            first[is_own] = (pairwise_distances(X[is_own]) < nearest).sum(axis=1)
            distance[is_own] = nearest[:, 0]
        kept = np.sort(np.lexsort((distance, first))[round(share * len(y)) :])
        return X[kept], y[kept]

    return condense


def scores(condense: Condense, k: int, task: Task, n_seeds: int) -> tuple[list[float], list[float]]:
    """Share of the rows kept and test accuracy in percent, for each seed."""
    shares, test_accuracies = [], []
    for seed in range(n_seeds):
        rows, labels = condense(task.X, task.y, seed)
        shares.append(len(rows) / len(task.X))
        by_k = accuracies(rows, labels, task.X_test, task.y_test)
        test_accuracies.append(float(by_k[k - 1]))
    return shares, test_accuracies

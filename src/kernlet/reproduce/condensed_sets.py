"""Training sets condensed by the paper's two rules, and k-NN on what is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet.datasets import load
from kernlet.estimators import BoundaryCondenser, CentroidCondenser, TypicalCondenser
from kernlet.reproduce.neighbors import Condense, accuracies, choose_k, random_subset, scores

N_SEEDS = 10


@dataclass(frozen=True, eq=False)
class Split:
    """USPS, pixels 0 to 255."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


def digits(n_rows: int | None = None) -> Split:
    """The official split, or its first rows."""
    data = load("usps")
    X, X_test = (255.0 * np.asarray(A, dtype=float) for A in (data.X, data.X_test))
    return Split(X[:n_rows], data.y[:n_rows], X_test, data.y_test)


def everything(X: Any, y: Any, seed: int) -> tuple[Any, Any]:
    """All rows."""
    return X, y


def by_both_rules(threshold: int, nu: float, form: Any) -> Condense:
    """Typical rows leave first, then those about the boundary."""

    def condense(X: Any, y: Any, seed: int) -> tuple[Any, Any]:
        typical = TypicalCondenser(nu, form=form, class_weight="normalized")
        X, y = typical.fit_resample(X, y)
        if threshold <= 1:
            return X, y
        boundary = BoundaryCondenser(threshold, C=nu, form=form, class_weight="normalized")
        return boundary.fit_resample(X, y)

    return condense


def score_all_rows(n_rows: int | None) -> dict[str, Any]:
    """k-NN with all rows: k by cross-validation, and every k."""
    data = digits(n_rows)
    k = choose_k(everything, data.X, data.y)
    found = accuracies(data.X, data.y, data.X_test, data.y_test)
    return {"k": k, "accuracy": found[k - 1], "by k": found.tolist(), "n_test": len(data.y_test)}


def score_rule(
    threshold: int, nu: float, form: str, n_rows: int | None, count: int | None
) -> dict[str, Any]:
    """k-NN on a condensed set.

    Parameters
    ----------
    threshold : int
        T of the boundary rule.
    nu : float
    form : {"repaired", "literal"}
    n_rows : int or None
        Training rows; None for all.
    count : int or None
        Rows that must leave at least: T is then the least multiple of 10, from ``threshold`` on or
        below it, by which they do. It looks at training rows only.

    Returns
    -------
    facts : dict
    """
    data = digits(n_rows)
    if count is not None:
        threshold = _least_threshold(data, nu, form, count)
    condense = by_both_rules(threshold, nu, form)
    rows, labels = condense(data.X, data.y, 0)
    k = choose_k(condense, data.X, data.y)
    found = accuracies(rows, labels, data.X_test, data.y_test)
    return {
        "threshold": threshold,
        "eliminated": len(data.y) - len(rows),
        "k": k,
        "accuracy": found[k - 1],
        "by k": found.tolist(),
        "n_test": len(data.y_test),
    }


def _least_threshold(data: Split, nu: float, form: str, count: int) -> int:
    """By halving: more leave the larger T is, but for small steps back."""
    low, high = 0, 100  # in tens
    while low < high:
        middle = (low + high) // 2
        rows, _ = by_both_rules(10 * middle, nu, form)(data.X, data.y, 0)
        if len(data.y) - len(rows) >= count:
            high = middle
        else:
            low = middle + 1
    return 10 * low


def score_peers(count: int, n_rows: int | None, n_seeds: int) -> dict[str, Any]:
    """As many rows at random, and as many class means, k by cross-validation on training rows."""
    data = digits(n_rows)
    share = 1 - count / len(data.y)
    subset, centroids = random_subset(share), _centroids(share)
    k = choose_k(subset, data.X, data.y)
    at_random = scores(subset, k, data, n_seeds)[1]
    means = scores(centroids, 1, data, 1)[1]
    return {"k": k, "random": at_random, "centroids": means}


def _centroids(share: float) -> Condense:
    def condense(X: Any, y: Any, seed: int) -> tuple[Any, Any]:
        return CentroidCondenser(share, random_state=seed).fit_resample(X, y)

    return condense

"""Choosing small models: the one-standard-error rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def one_standard_error(scores: Any, standard_error: float, sizes: Sequence[Any]) -> int:
    """Index of the smallest size whose score is within one standard error of the best.

    A difference within the standard error of the best score may be chance, and then the smaller
    model is the better choice (Breiman et al., Classification and Regression Trees, 1984). Of
    equal sizes the first counts.
    """
    least = np.nanmax(scores) - standard_error  # a score that could not be computed is NaN
    within = (k for k, score in enumerate(scores) if score >= least)
    return min(within, key=lambda k: sizes[k])


def count_centers(model: Any, X: Any, y: Any = None) -> int:
    """A scorer that counts the centers of a fitted model, or of the last step of a pipeline.

    Parameters
    ----------
    model : fitted classifier or Pipeline
        What is counted.
    X, y : object
        Ignored.

    Returns
    -------
    n_centers : int
    """
    return int((model[-1] if hasattr(model, "steps") else model).n_centers_)


def fewest_centers(results: dict[str, Any]) -> int:
    """The setting with the fewest centers within one standard error of the best score.

    For ``GridSearchCV(..., scoring={"score": ..., "centers": count_centers},
    refit=fewest_centers)``.

    Parameters
    ----------
    results : dict
        ``cv_results_`` with a metric "score" and a metric "centers".

    Returns
    -------
    index : int

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.model_selection import GridSearchCV
    >>> from kernlet import MinimalKernelClassifier
    >>> from kernlet.selection import count_centers, fewest_centers
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> search = GridSearchCV(
    ...     MinimalKernelClassifier(random_state=0),
    ...     {"C": [1, 10]},
    ...     scoring={"score": "accuracy", "centers": count_centers},
    ...     refit=fewest_centers,
    ... ).fit(X, y)
    >>> search.best_estimator_.n_centers_ < 20
    True
    """
    scores = results["mean_test_score"]
    n_folds = sum(name.startswith("split") and name.endswith("_test_score") for name in results)
    standard_error = results["std_test_score"][int(np.nanargmax(scores))] / np.sqrt(n_folds)
    return one_standard_error(scores, standard_error, results["mean_test_centers"])

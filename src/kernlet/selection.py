"""Choosing small machines in a grid search."""

from __future__ import annotations

from typing import Any

import numpy as np


def count_centers(machine: Any, X: Any, y: Any = None) -> int:
    """A scorer that counts the centers of a fitted machine, or of the last step of a pipeline.

    Parameters
    ----------
    machine : fitted classifier or Pipeline
    X, y : ignored

    Returns
    -------
    n_centers : int
    """
    return int((machine[-1] if hasattr(machine, "steps") else machine).n_centers_)


def fewest_centers(results: dict[str, Any]) -> int:
    """The setting of fewest centers within one standard error of the best score.

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
    score = results["mean_test_score"]
    best = int(np.argmax(score))
    n_folds = sum(name.startswith("split") and name.endswith("_test_score") for name in results)
    standard_error = results["std_test_score"][best] / np.sqrt(n_folds)
    good = score >= score[best] - standard_error
    return int(np.argmin(np.where(good, results["mean_test_centers"], np.inf)))

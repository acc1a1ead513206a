"""The minimal kernel classifier on checkerboards."""

from __future__ import annotations

import time
from typing import Any

from sklearn.model_selection import GridSearchCV, StratifiedKFold

from kernlet.datasets import make_checkerboard
from kernlet.estimators import MinimalKernelClassifier
from kernlet.selection import count_centers, fewest_centers

GRID: dict[str, list[float]] = {
    "C": [30, 100, 300, 1000],
    "gamma": [2, 3, 4, 6, 8],
    "mu": [10, 100],
}


def fit_board(seed: int, n_folds: int, grid: dict[str, list[float]]) -> dict[str, Any]:
    """Fewest centers within one standard error of the best cross-validated accuracy.

    Parameters
    ----------
    seed : int
        Of the board: 1,000 points, tested on a grid of 199 x 199.
    n_folds : int
    grid : dict

    Returns
    -------
    facts : dict
    """
    board = make_checkerboard(random_state=seed)
    search = GridSearchCV(
        MinimalKernelClassifier(random_state=0),
        grid,
        scoring={"score": "accuracy", "centers": count_centers},
        cv=StratifiedKFold(n_folds, shuffle=True, random_state=0),
        refit=fewest_centers,
    ).fit(board.X, board.y)
    machine = fitted(seed, search.best_params_)
    began = time.process_time()
    machine.fit(board.X, board.y)
    return {
        "m1": len(machine.margin_indices_),
        "m2": machine.n_centers_,
        "test": 100 * machine.score(board.X_test, board.y_test),
        "n_test": len(board.y_test),
        "parameters": search.best_params_,
        "gap": float(machine.duality_gap_.max()),
        "fit": round(time.process_time() - began, 3),
    }


def fitted(seed: int, parameters: dict[str, Any]) -> Any:
    """The machine of a board."""
    board = make_checkerboard(random_state=seed)
    return MinimalKernelClassifier(**parameters, random_state=0).fit(board.X, board.y)

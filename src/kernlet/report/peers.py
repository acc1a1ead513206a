"""A tuned SVC to stand beside a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

_MOST_ROWS = 5000
_TUNING_ROWS = 1500
_COSTS = (1.0, 10.0, 100.0)
_WIDTHS = (0.3, 1.0, 3.0)  # times gamma="scale"


@dataclass(frozen=True, eq=False)
class Peer:
    """An SVC with C and gamma chosen by cross-validation.

    Parameters
    ----------
    svc : SVC
        Fitted.
    n_rows : int
        It was trained on.
    """

    svc: Any
    n_rows: int

    def measured(self, X: Any, y: Any) -> dict[str, Any]:
        """Accuracy on a test part, size and parameters."""
        tables = (self.svc.support_vectors_, self.svc.dual_coef_, self.svc.intercept_)
        return {
            "accuracy": float(self.svc.score(X, y)),
            "centers": len(self.svc.support_),
            "nbytes": int(sum(4 * np.size(table) for table in tables)),
            "training_rows": self.n_rows,
            "C": float(self.svc.C),
            "gamma": float(self.svc.gamma),
        }


def fit_svc(X: Any, y: Any, *, random_state: int = 0) -> Peer:
    """Tune and fit an SVC on at most 5,000 rows.

    C and gamma come from a grid of nine, by three-fold cross-validation on at most 1,500 rows. Its
    bytes are counted in float32.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Scaled as for the machine that it stands beside.
    y : ndarray of shape (n_rows,)
    random_state : int

    Returns
    -------
    peer : Peer
    """
    random = np.random.RandomState(random_state)
    rows = random.permutation(len(y))[:_MOST_ROWS]
    some = rows[:_TUNING_ROWS]
    variance = float(np.var(X[some])) or 1.0
    gammas = [width / (X.shape[1] * variance) for width in _WIDTHS]
    grid = {"C": list(_COSTS), "gamma": gammas}
    _, counts = np.unique(y[some], return_counts=True)
    if len(counts) < 2 or counts.min() < 3:  # too few to leave a third out
        return Peer(SVC(C=10.0, gamma=gammas[1]).fit(X[rows], y[rows]), len(rows))
    folds = StratifiedKFold(3, shuffle=True, random_state=random_state)
    search = GridSearchCV(SVC(), grid, cv=folds, refit=False).fit(X[some], y[some])
    return Peer(SVC(**search.best_params_).fit(X[rows], y[rows]), len(rows))

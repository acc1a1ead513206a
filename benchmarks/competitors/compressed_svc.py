"""An SVC compressed to few synthetic centers by ``kernlet.compress``.

The centers are rounded, and coefficients of the rounded centers are fitted to the labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmarks.competitors.contract import Shape, subsample
from benchmarks.competitors.expansions import ExpansionMachine, pack, room_for, rounded_rows
from kernlet import compress
from kernlet.compression.refit import refit
from kernlet.kernels.rbf import RBF
from kernlet.sklearn_base import one_vs_rest_signs

TITLE = "compressed SVC"
IS_KERNLET = True
IS_RANDOM = True
VERSION = 1
MOST_CENTERS = 100  # to limit the time
MOST_ROWS = 4000  # to train the SVC
#: Factors of gamma = factor / n_features, and C.
_FACTORS = ((0.1, 10.0), (0.3, 1.0), (1.0, 1.0), (1.0, 10.0), (3.0, 10.0), (10.0, 10.0))


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return [
        {"storage": storage, "gamma": factor / shape.n_features, "C": C, "n_centers": n}
        for storage in (("int8", "float16"), ("int4", "int8"))
        if (n := room_for(shape, max_bytes, *storage, min(MOST_CENTERS, shape.n_rows)))
        for factor, C in _FACTORS
    ]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> ExpansionMachine:
    centers, coef = setting["storage"]
    rows = subsample(y, MOST_ROWS, seed)
    svc = SVC(C=setting["C"], gamma=setting["gamma"]).fit(X[rows], y[rows])
    n_centers = min(setting["n_centers"], len(svc.support_))
    small = compress(svc, n_centers, max_iter=100, random_state=seed)
    rounded, step = rounded_rows(small.expansion_.centers, centers)
    signs = one_vs_rest_signs(y, np.unique(y))
    expansion = refit(RBF(setting["gamma"]), rounded, X, signs, C=setting["C"])
    return pack(expansion, centers, coef, step)

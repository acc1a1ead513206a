"""Nystroem features and a linear SVM, folded into one kernel expansion.

The rows that become landmarks are rounded before anything is trained on them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.svm import LinearSVC

from benchmarks.frontier.contract import Shape
from benchmarks.frontier.expansions import ExpansionMachine, pack, room_for, rounded_rows
from kernlet.expansion import KernelExpansion
from kernlet.kernels import RBF

TITLE = "Nystroem + linear"
IS_KERNLET = False
IS_RANDOM = True
MOST = 1500  # landmarks, for the sake of time
#: Of gamma, and C.
_FACTORS = ((0.1, 100.0), (0.3, 1.0), (0.3, 100.0), (1.0, 10.0), (3.0, 1.0), (3.0, 100.0))


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return [
        {"storage": storage, "gamma": factor / shape.n_features, "C": C, "n_components": n}
        for storage in (("int8", "float16"), ("int4", "int8"))
        if (n := room_for(shape, max_bytes, *storage, min(MOST, shape.n_rows)))
        for factor, C in _FACTORS
    ]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> ExpansionMachine:
    centers, coef = setting["storage"]
    n = min(setting["n_components"], len(X))
    some = np.random.RandomState(seed).permutation(len(X))[:n]
    features = Nystroem(gamma=setting["gamma"], n_components=n, random_state=seed)
    features.fit(rounded_rows(X[some], centers).astype(np.float64))
    linear = LinearSVC(C=setting["C"], dual="auto", random_state=seed, tol=1e-3, max_iter=1000)
    linear.fit(features.transform(X), y)
    folded = linear.coef_ @ features.normalization_
    expansion = KernelExpansion(
        RBF(setting["gamma"]), features.components_, folded, linear.intercept_
    )
    return pack(expansion, centers, coef)

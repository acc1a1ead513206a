"""Nystroem features and ridge regression, folded into one kernel expansion as in ``nystroem``."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

from benchmarks.competitors.contract import Shape
from benchmarks.competitors.expansions import NumberMachine, pack, rounded_rows
from benchmarks.competitors.nystroem import landmark_features, settings_with
from kernlet.expansion import KernelExpansion
from kernlet.kernels.gram import kernel_matrix

TITLE = "Nystroem + ridge"
TASK = "regression"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 1
#: Factors of gamma = factor / n_features, and C = 1 / alpha of the ridge.
_FACTORS = ((0.01, 10.0), (0.03, 10.0), (0.1, 1.0), (0.1, 10.0), (0.3, 10.0), (1.0, 10.0))


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return settings_with(_FACTORS, shape, max_bytes)


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> NumberMachine:
    rows = np.random.RandomState(seed).permutation(len(X))[: setting["n_components"]]
    landmarks, step = rounded_rows(X[rows], setting["storage"][0])
    kernel, whitening = landmark_features(landmarks, setting["gamma"])
    ridge = Ridge(alpha=1 / setting["C"]).fit(kernel_matrix(kernel, X, landmarks) @ whitening, y)
    folded = KernelExpansion(
        kernel, landmarks, (ridge.coef_ @ whitening.T)[None], np.array([ridge.intercept_])
    )
    return NumberMachine(pack(folded, *setting["storage"], step).expansion)

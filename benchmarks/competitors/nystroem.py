"""Nystroem features and a linear SVM, folded into one kernel expansion.

Landmarks are rounded before anything is trained on them. Directions with eigenvalues below
``SMALLEST_EIGENVALUE`` of the largest are dropped: Nystroem itself keeps them, but folded into the
coefficients they are huge, and rounding would destroy them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

from benchmarks.competitors.contract import Shape
from benchmarks.competitors.expansions import ExpansionMachine, pack, room_for, rounded_rows
from kernlet.expansion import KernelExpansion
from kernlet.kernels.gram import kernel_matrix
from kernlet.kernels.rbf import RBF

TITLE = "Nystroem + linear"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 2
MOST_LANDMARKS = 1500  # to limit the time
SMALLEST_EIGENVALUE = 1e-4  # relative to the largest
#: Factors of gamma = factor / n_features, and C.
_FACTORS = ((0.03, 100.0), (0.1, 10.0), (0.3, 1.0), (0.3, 10.0), (1.0, 10.0), (3.0, 100.0))


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return settings_with(_FACTORS, shape, max_bytes)


def settings_with(
    factors: tuple[tuple[float, float], ...], shape: Shape, max_bytes: int
) -> list[dict[str, Any]]:
    """As many landmarks as fit, in two formats, with factors of gamma and values of C."""
    return [
        {"storage": storage, "gamma": factor / shape.n_features, "C": C, "n_components": n}
        for storage in (("int8", "float16"), ("int4", "float16"))
        if (n := room_for(shape, max_bytes, *storage, min(MOST_LANDMARKS, shape.n_rows)))
        for factor, C in factors
    ]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> ExpansionMachine:
    expansion, step = unrounded(setting, X, y, seed)
    return pack(expansion, *setting["storage"], step)


def unrounded(setting: dict[str, Any], X: Any, y: Any, seed: int) -> tuple[KernelExpansion, float]:
    """The expansion before its coefficients are rounded, and the step of its landmarks."""
    points = setting["storage"][0]
    n = min(setting["n_components"], len(X))
    rows = np.random.RandomState(seed).permutation(len(X))[:n]
    landmarks, step = rounded_rows(X[rows], points)
    kernel, whitening = landmark_features(landmarks, setting["gamma"])
    linear = LinearSVC(C=setting["C"], dual="auto", random_state=seed, tol=1e-3, max_iter=1000)
    linear.fit(kernel_matrix(kernel, X, landmarks) @ whitening, y)
    folded = linear.coef_ @ whitening.T
    return KernelExpansion(kernel, landmarks, folded, linear.intercept_), step


def landmark_features(landmarks: Any, gamma: float) -> tuple[RBF, Any]:
    """The kernel, and what turns kernel values with landmarks into Nystroem features."""
    kernel = RBF(gamma)
    values, vectors = np.linalg.eigh(kernel_matrix(kernel, landmarks, landmarks))
    large = values > SMALLEST_EIGENVALUE * values[-1]
    return kernel, vectors[:, large] / np.sqrt(values[large])

"""Random Fourier features whose directions come from a seed, and ridge regression on the signs.

The features are those of ``rbf_sampler``, the cosine and the sine of every direction, but only the
seed of the directions is stored, four bytes. A device has to generate normal numbers and to
compute with the directions in float32; there is room for many more of them, for which ridge
regression in closed form is faster than a linear SVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeClassifier

from benchmarks.competitors.contract import Shape
from kernlet.quantization import FORMATS, PackedArray, encode

TITLE = "random features from a seed + ridge"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 1
MOST_DIRECTIONS = 1000  # to limit the time
#: Format of the coefficients, factor of gamma = factor / n_features, and penalty.
_CHOICES = (
    *(("int8", factor, 0.01) for factor in (0.1, 0.3, 1.0, 3.0)),
    *(("int8", factor, 0.001) for factor in (0.3, 1.0)),
    *(("int8", factor, 0.3) for factor in (0.1, 0.3, 1.0)),
    *(("int4", factor, 0.03) for factor in (0.3, 1.0, 3.0)),
)


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return [
        {"storage": format, "gamma": factor / shape.n_features, "alpha": a, "n_directions": n}
        for format, factor, a in _CHOICES
        if (n := _room(shape, max_bytes, format))
    ]


def _room(shape: Shape, max_bytes: int, coef: str) -> int:
    """How many directions fit beside the seed, gamma, the step and the intercepts."""
    fixed = 4 + 4 + 4 + 4 * shape.n_outputs
    n = int((max_bytes - fixed) * 8 / (2 * FORMATS[coef].bits * shape.n_outputs))
    return max(0, min(MOST_DIRECTIONS, n))


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> SeededMachine:
    gamma, linear = unrounded(setting, X, y, seed)
    coef = encode(np.atleast_2d(linear.coef_), FORMATS[setting["storage"]])
    return SeededMachine(np.uint32(seed), gamma, coef, linear.intercept_.astype(np.float32))


def unrounded(setting: dict[str, Any], X: Any, y: Any, seed: int) -> tuple[np.float32, Any]:
    """gamma, and the linear model before it is rounded."""
    gamma, n = np.float32(setting["gamma"]), setting["n_directions"]
    linear = RidgeClassifier(alpha=setting["alpha"], solver="cholesky")
    return gamma, linear.fit(features(X, seed, gamma, n), y)


def features(X: Any, seed: int, gamma: np.float32, n_directions: int) -> Any:
    """The cosine and the sine of every direction, which is normal of variance 2 gamma."""
    directions = np.random.default_rng(int(seed)).standard_normal(
        (X.shape[1], n_directions), dtype=np.float32
    )
    angles = X @ (directions * np.sqrt(2 * gamma))
    return np.hstack([np.cos(angles), np.sin(angles)]) / np.float32(np.sqrt(n_directions))


@dataclass(frozen=True, eq=False)
class SeededMachine:
    """A seed, gamma, coefficients and intercepts."""

    seed: np.uint32
    gamma: np.float32
    coef: PackedArray
    intercepts: Any

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        arrays = (self.seed, self.gamma, self.coef, self.intercepts)
        return int(sum(array.nbytes for array in arrays))

    @property
    def n_centers(self) -> int:
        """Random directions."""
        return self.coef.shape[1] // 2

    def predict(self, X: Any) -> Any:
        """Class codes of rows."""
        rows = features(X, int(self.seed), self.gamma, self.n_centers)
        outputs = rows @ self.coef.decoded().T + self.intercepts
        return outputs[:, 0] > 0 if outputs.shape[1] == 1 else outputs.argmax(axis=1)

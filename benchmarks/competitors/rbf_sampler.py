"""Random Fourier features and a linear SVM.

Every direction gives two features, its cosine and its sine, which is better for the same bytes than
one cosine with a phase as in scikit-learn's RBFSampler, which draws the directions. They are
rounded before the linear model is trained, and stored; ``nbytes_from_seed`` is the size if a device
can generate the same directions from a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.svm import LinearSVC

from benchmarks.competitors.contract import Shape
from kernlet.quantization import FORMATS, PackedArray, encode

TITLE = "RBFSampler + linear"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 2
MOST_DIRECTIONS = 1000  # to limit the time
#: Factors of gamma, and C, by the format of the directions.
_FACTORS = {
    "int8": ((0.1, 10.0), (0.3, 10.0), (1.0, 10.0), (3.0, 10.0)),
    "int4": (
        (0.03, 100.0),
        (0.1, 1.0),
        (0.1, 100.0),
        (0.3, 10.0),
        (0.3, 100.0),
        (1.0, 10.0),
        (3.0, 10.0),
        (10.0, 10.0),
    ),
}


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return [
        {"storage": [format, "int8"], "gamma": factor / shape.n_features, "C": C, "n_directions": n}
        for format, factors in _FACTORS.items()
        if (n := _room(shape, max_bytes, format, "int8"))
        for factor, C in factors
    ]


def _room(shape: Shape, max_bytes: int, directions: str, coef: str) -> int:
    """How many directions fit."""
    bits = FORMATS[directions].bits * shape.n_features + 2 * FORMATS[coef].bits * shape.n_outputs
    fixed = 2 * 4 + 4 * shape.n_outputs + 1
    return max(0, min(MOST_DIRECTIONS, int((max_bytes - fixed) / (bits / 8))))


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> FourierMachine:
    directions, linear = unrounded(setting, X, y, seed)
    return FourierMachine(
        directions,
        encode(linear.coef_, FORMATS[setting["storage"][1]]),
        linear.intercept_.astype(np.float32),
    )


def unrounded(setting: dict[str, Any], X: Any, y: Any, seed: int) -> tuple[PackedArray, LinearSVC]:
    """Stored directions, and the linear model before it is rounded."""
    sampler = RBFSampler(
        gamma=setting["gamma"], n_components=setting["n_directions"], random_state=seed
    ).fit(X)
    directions = encode(sampler.random_weights_, FORMATS[setting["storage"][0]])
    linear = LinearSVC(C=setting["C"], dual="auto", random_state=seed, tol=1e-3, max_iter=1000)
    return directions, linear.fit(features(X, directions), y)


def features(X: Any, directions: PackedArray) -> Any:
    """The cosine and the sine of every direction."""
    angles = X @ directions.decoded()
    return np.hstack([np.cos(angles), np.sin(angles)]) / np.float32(np.sqrt(angles.shape[1]))


@dataclass(frozen=True, eq=False)
class FourierMachine:
    """Directions, coefficients and intercepts."""

    directions: PackedArray
    coef: PackedArray
    intercepts: Any

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        return self.directions.nbytes + self.nbytes_from_seed - 4

    @property
    def nbytes_from_seed(self) -> int:
        """Bytes if the directions come from a seed of four bytes."""
        return int(self.coef.nbytes + self.intercepts.nbytes + 4)

    @property
    def n_centers(self) -> int:
        """Random directions."""
        return self.directions.shape[1]

    def predict(self, X: Any) -> Any:
        """Class codes of rows."""
        outputs = features(X, self.directions) @ self.coef.decoded().T + self.intercepts
        return outputs[:, 0] > 0 if outputs.shape[1] == 1 else outputs.argmax(axis=1)

"""Random Fourier features and a linear SVM.

The directions are rounded before the linear machine is trained. They are stored: a generator that
makes the same numbers on a device as here would spare them, which ``nbytes_from_seed`` counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.svm import LinearSVC

from benchmarks.frontier.contract import Shape
from kernlet.tables import FORMATS, Table, encode

TITLE = "RBFSampler + linear"
IS_KERNLET = False
IS_RANDOM = True
MOST = 2000  # features, for the sake of time
#: Of gamma, and C.
_FACTORS = ((0.03, 100.0), (0.1, 1.0), (0.1, 100.0), (0.3, 10.0), (1.0, 1.0), (1.0, 100.0))


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return [
        {"storage": storage, "gamma": factor / shape.n_features, "C": C, "n_components": n}
        for storage in (("int8", "int8"), ("int4", "int8"))
        if (n := _room(shape, max_bytes, *storage))
        for factor, C in _FACTORS
    ]


def _room(shape: Shape, max_bytes: int, directions: str, others: str) -> int:
    a_feature = FORMATS[directions].bits / 8 * shape.n_features + 1 + shape.n_outputs
    fixed = 3 * 4 + 4 * shape.n_outputs + 1
    return max(0, min(MOST, int((max_bytes - fixed) / a_feature)))


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> FourierMachine:
    directions, others = (FORMATS[name] for name in setting["storage"])
    sampler = RBFSampler(
        gamma=setting["gamma"], n_components=setting["n_components"], random_state=seed
    ).fit(X)
    stored = encode(sampler.random_weights_, directions)
    phases = encode(sampler.random_offset_ - np.pi, FORMATS["int8"])
    linear = LinearSVC(C=setting["C"], dual="auto", random_state=seed, tol=1e-3, max_iter=1000)
    linear.fit(_features(X, stored, phases), y)
    return FourierMachine(
        stored, phases, encode(linear.coef_, others), linear.intercept_.astype(np.float32)
    )


def _features(X: Any, directions: Table, phases: Table) -> Any:
    angles = X @ directions.decoded() + phases.decoded()
    return np.cos(angles) * np.float32(np.sqrt(2 / directions.shape[1]))


@dataclass(frozen=True, eq=False)
class FourierMachine:
    """Directions, phases, coefficients and intercepts."""

    directions: Table
    phases: Table
    coef: Table
    intercepts: Any

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        return self.directions.nbytes + self.phases.nbytes + self.nbytes_from_seed - 4

    @property
    def nbytes_from_seed(self) -> int:
        """Bytes where directions and phases come from a seed of four."""
        return int(self.coef.nbytes + self.intercepts.nbytes + 4)

    @property
    def n_centers(self) -> int:
        """Random features."""
        return self.directions.shape[1]

    def predict(self, X: Any) -> Any:
        """Class numbers of rows."""
        features = _features(X, self.directions, self.phases)
        outputs = features @ self.coef.decoded().T + self.intercepts
        return outputs[:, 0] > 0 if outputs.shape[1] == 1 else outputs.argmax(axis=1)

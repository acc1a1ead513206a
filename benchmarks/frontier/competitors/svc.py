"""scikit-learn's SVC, its support vectors in eight bits; its size is what it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmarks.frontier.contract import Shape, grid
from benchmarks.frontier.expansions import widths
from kernlet.estimators.votes import pair_coefficients, predicted_codes
from kernlet.expansion import KernelExpansion
from kernlet.kernels import RBF
from kernlet.tables import FORMATS, Table, encode

TITLE = "SVC"
IS_KERNLET = False
IS_RANDOM = False


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return grid(C=[1.0, 10.0, 100.0], gamma=widths(shape, (0.25, 1.0, 3.0, 10.0)))


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> SvcMachine:
    return SvcMachine.of(SVC(**setting).fit(X, y))


@dataclass(frozen=True, eq=False)
class SvcMachine:
    """Support vectors, n_classes - 1 duals of each as LIBSVM keeps them, intercepts, gamma."""

    support_vectors: Table
    duals: Table
    intercepts: Any
    n_support: Any
    gamma: np.float32

    @classmethod
    def of(cls, svc: Any) -> SvcMachine:
        """A fitted SVC, rounded."""
        return cls(
            encode(svc.support_vectors_, FORMATS["int8"]),
            encode(svc.dual_coef_, FORMATS["float16"]),
            svc.intercept_.astype(np.float32),
            svc.n_support_.astype(np.uint16),
            np.float32(svc.gamma),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        arrays = (self.support_vectors, self.duals, self.intercepts, self.n_support, self.gamma)
        return sum(array.nbytes for array in arrays)

    @property
    def n_centers(self) -> int:
        """Support vectors."""
        return self.support_vectors.shape[0]

    @cached_property
    def _expansion(self) -> KernelExpansion:
        duals = self.duals.decoded()
        coef = duals if len(duals) == 1 else pair_coefficients(duals, self.n_support)
        return KernelExpansion(
            RBF(float(self.gamma)), self.support_vectors.decoded(), coef, self.intercepts
        )

    def predict(self, X: Any) -> Any:
        """Class numbers of rows, by LIBSVM's vote."""
        outputs = self._expansion.decision_values(X)
        scheme = "one output" if outputs.shape[1] == 1 else "one vs one"
        return predicted_codes(outputs, scheme, len(self.n_support), False, False)

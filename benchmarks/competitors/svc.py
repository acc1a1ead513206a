"""scikit-learn's SVC; its size is not a parameter.

It is trained on rows rounded as its support vectors will be, so that these are stored exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmarks.competitors.contract import Shape
from benchmarks.competitors.expansions import rounded_rows
from kernlet.expansion import KernelExpansion
from kernlet.kernels.rbf import RBF
from kernlet.model.convert import pair_coefficients
from kernlet.model.model import predicted_codes
from kernlet.quantization import FORMATS, PackedArray, encode

TITLE = "SVC"
IS_KERNLET = False
IS_RANDOM = False
VERSION = 2
#: Factors of gamma = factor / n_features, and C.
_FACTORS = ((0.1, 10.0), (0.3, 1.0), (1.0, 1.0), (1.0, 10.0), (3.0, 10.0), (10.0, 10.0))


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    return [
        {"storage": storage, "gamma": factor / shape.n_features, "C": C}
        for storage in (("int8", "float16"), ("int4", "int8"))
        for factor, C in _FACTORS
    ]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> SvcMachine:
    points, duals = setting["storage"]
    rows, step = rounded_rows(X, points)
    svc = SVC(C=setting["C"], gamma=setting["gamma"]).fit(rows, y)
    return SvcMachine(
        encode(svc.support_vectors_, FORMATS[points], step),
        encode(svc.dual_coef_, FORMATS[duals]),
        svc.intercept_.astype(np.float32),
        svc.n_support_.astype(np.uint16),
        np.float32(svc.gamma),
    )


@dataclass(frozen=True, eq=False)
class SvcMachine:
    """Support vectors, n_classes - 1 duals of each as in LIBSVM, intercepts, gamma."""

    support_vectors: PackedArray
    duals: PackedArray
    intercepts: Any
    n_support: Any
    gamma: np.float32

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
        return predicted_codes(outputs, scheme, len(self.n_support), False)

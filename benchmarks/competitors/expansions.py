"""Kernel expansions in packed tables, and how many centers fit a budget."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.competitors.contract import Shape
from kernlet.compact.plan import StoragePlan
from kernlet.expansion import KernelExpansion
from kernlet.model.model import Scheme, predicted_codes
from kernlet.quantization import FORMATS, QuantizedExpansion, encode


@dataclass(frozen=True, eq=False)
class ExpansionMachine:
    """A quantized expansion; one output for two classes, else one per class."""

    expansion: QuantizedExpansion

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        return self.expansion.nbytes

    @property
    def n_centers(self) -> int:
        """Kernel evaluations per prediction."""
        return self.expansion.n_centers

    def predict(self, X: Any) -> Any:
        """Class codes of rows."""
        outputs = self.expansion.decision_values(X)
        scheme: Scheme = "one output" if outputs.shape[1] == 1 else "one vs rest"
        return predicted_codes(outputs, scheme, outputs.shape[1], True)


@dataclass(frozen=True, eq=False)
class NumberMachine(ExpansionMachine):
    """A quantized expansion whose value is the prediction."""

    def predict(self, X: Any) -> Any:
        """Numbers for rows."""
        return self.expansion.decision_values(X)[:, 0]


def pack(
    expansion: KernelExpansion,
    centers: str = "int8",
    coef: str = "float16",
    step: float | None = None,
) -> ExpansionMachine:
    """Quantize a Gaussian expansion; ``step`` is that of centers that are rounded already."""
    return ExpansionMachine(
        QuantizedExpansion(
            np.array([expansion.kernel.gamma]),
            encode(expansion.centers, FORMATS[centers], step),
            encode(expansion.coef, FORMATS[coef]),
            expansion.intercept.astype(np.float32),
        )
    )


def rounded_rows(rows: Any, format: str) -> tuple[Any, float]:
    """Rows rounded to a storage format, and the step."""
    table = encode(rows, FORMATS[format])
    return table.decoded(), table.step


def room_for(shape: Shape, max_bytes: int, centers: str, coef: str, most: int) -> int:
    """How many centers fit a budget, at most ``most``; 0 if none does."""
    plan = StoragePlan(
        shape.n_features, shape.n_outputs, 1, None, (centers, coef, coef), intercept_bytes=4
    )
    sizes = range(1, most + 1)
    return bisect_right(sizes, max_bytes, key=lambda n: replace(plan, n_centers=n).nbytes)


def widths(shape: Shape, factors: tuple[float, ...]) -> list[float]:
    """Values of gamma around one over the number of features."""
    return [factor / shape.n_features for factor in factors]

"""Kernel machines in packed tables, and how many centers fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.competitors.contract import Shape
from kernlet.compact.plan import Layout, fill
from kernlet.expansion import KernelExpansion
from kernlet.model.model import Scheme, predicted_codes
from kernlet.quantization import FORMATS, QuantizedExpansion, encode


@dataclass(frozen=True, eq=False)
class ExpansionMachine:
    """An expansion in tables; one output for two classes, else one a class."""

    expansion: QuantizedExpansion

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        return self.expansion.nbytes

    @property
    def n_centers(self) -> int:
        """Kernel evaluations of a prediction."""
        return self.expansion.n_centers

    def predict(self, X: Any) -> Any:
        """Class numbers of rows."""
        outputs = self.expansion.decision_values(X)
        scheme: Scheme = "one output" if outputs.shape[1] == 1 else "one vs rest"
        return predicted_codes(outputs, scheme, outputs.shape[1], False, True)


def pack(
    expansion: KernelExpansion,
    centers: str = "int8",
    coef: str = "float16",
    step: float | None = None,
) -> ExpansionMachine:
    """A Gaussian expansion with its tables rounded.

    Parameters
    ----------
    expansion : KernelExpansion
        Without a map in front.
    centers, coef : str
        Formats of the tables.
    step : float, default=None
        Of the centers, where they were rounded before; else the best one.

    Returns
    -------
    machine : ExpansionMachine
    """
    return ExpansionMachine(
        QuantizedExpansion(
            np.array([expansion.kernel.gamma]),
            encode(expansion.centers, FORMATS[centers], step),
            encode(expansion.coef, FORMATS[coef]),
            expansion.intercept.astype(np.float32),
        )
    )


def rounded_rows(rows: Any, format: str) -> tuple[Any, float]:
    """Rows as a table would hold them, and its step."""
    table = encode(rows, FORMATS[format])
    return table.decoded(), table.step


def room_for(shape: Shape, max_bytes: int, centers: str, coef: str, most: int) -> int:
    """How many centers fit, at most ``most``; 0 where none does."""
    layout = Layout(shape.n_features, shape.n_outputs, 1, None, (centers, coef, coef))
    filled = fill(layout, max_bytes, most)
    return 0 if filled is None else filled.n_centers


def widths(shape: Shape, factors: tuple[float, ...]) -> list[float]:
    """Values of gamma around one over the number of features."""
    return [factor / shape.n_features for factor in factors]

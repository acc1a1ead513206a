"""What a compact machine is to learn, in terms of rows, targets and a loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.problems.losses import Loss
from kernlet.rows import RowReader


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be learned.

    Parameters
    ----------
    X : {ndarray, sparse matrix, RowReader} of shape (n_rows, n_features)
    y : ndarray
        As the user has it.
    weights : ndarray of shape (n_rows,)
    targets : ndarray
        Class numbers, or the numbers to predict, of shape (n_rows, n_outputs).
    table : ndarray of shape (n_classes, n_outputs) or None
        The targets of each class.
    first_table : ndarray of shape (n_classes, n_outputs) or None
        Outputs that a start aims at, for each class.
    loss : Loss
    kept, held_out : ndarray
        Rows to train on, and to judge by.
    """

    X: Any
    y: Any
    weights: Floats
    targets: Any
    table: Floats | None
    first_table: Floats | None
    loss: Loss
    kept: Indices
    held_out: Indices

    @property
    def n_outputs(self) -> int:
        """Outputs of the machine."""
        return int((self.targets if self.table is None else self.table).shape[1])

    @property
    def groups(self) -> Indices:
        """Rows that have centers of their own: the classes."""
        if self.table is None:
            return np.zeros(len(self.targets), dtype=np.intp)
        return self.targets

    def first_targets(self, rows: Indices) -> Floats:
        """What the first outputs should be near."""
        targets = self.targets[rows]
        return targets if self.first_table is None else self.first_table[targets]

    def validation_for_callbacks(self) -> dict[str, Any]:
        """The rows held out, as scikit-learn's callbacks take them."""
        if not len(self.held_out) or isinstance(self.X, RowReader):
            return {}
        return {"X": self.X[self.held_out], "y": self.y[self.held_out]}

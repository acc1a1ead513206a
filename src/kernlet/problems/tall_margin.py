"""The 1-norm machine on many more rows than candidate centers, for several outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats, Kernel
from kernlet.problems.l1_margin import MarginCosts
from kernlet.rows import ArrayRows, Rows


@dataclass(frozen=True, eq=False)
class OneOutput(MarginCosts):
    """The costs of one output of a :class:`TallMargin`."""

    signs: Floats
    error_weights: Floats
    coef_weights: Floats


@dataclass(frozen=True, eq=False)
class TallMargin:
    """Problems :class:`~kernlet.problems.L1Margin` over the same rows and candidates.

    In the s + 1 variables beta and intercept, each output minimises::

        F = sum_i nu_i max(0, 1 - d_i (K_i beta + intercept)) + sum_j c_j |beta_j|

    Parameters
    ----------
    rows : Rows
        x_i.
    kernel : Kernel
    centers : {ndarray, sparse matrix} of shape (n_candidates, n_features)
        z_j.
    signs : ndarray of shape (n_rows, n_outputs)
        d, of +1 and -1; int8 saves memory.
    error_weights : ndarray of shape (n_rows, n_outputs)
        nu >= 0; may be a broadcast view.
    coef_weights : ndarray of shape (n_candidates, n_outputs)
        c > 0.
    """

    rows: Rows
    kernel: Kernel
    centers: Any
    signs: Any
    error_weights: Floats
    coef_weights: Floats

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, candidates and outputs."""
        return len(self.rows), int(self.centers.shape[0]), int(self.signs.shape[1])

    def output(self, number: int) -> OneOutput:
        """The costs of one output."""
        return OneOutput(
            self.signs[:, number], self.error_weights[:, number], self.coef_weights[:, number]
        )

    def outputs(self, numbers: Indices) -> TallMargin:
        """Some of the outputs."""
        return replace(
            self,
            signs=self.signs[:, numbers],
            error_weights=self.error_weights[:, numbers],
            coef_weights=self.coef_weights[:, numbers],
        )

    def objective(self, slacks: Floats, absolute_coef: Floats) -> Floats:
        """The objective of each output, for the y of all rows and the |beta| of all candidates."""
        errors = np.einsum("ij,ij->j", self.error_weights, slacks)
        return errors + np.einsum("ij,ij->j", self.coef_weights, absolute_coef)

    def sample(self, X: Any, numbers: Indices) -> TallMargin:
        """The problem on some rows X, the costs of errors scaled so that their sum stays."""
        weights = self.error_weights[numbers]
        total, part = self.error_weights.sum(axis=0), weights.sum(axis=0)
        scale = np.divide(total, part, out=np.ones_like(total), where=part > 0)
        return replace(
            self, rows=ArrayRows(X), signs=self.signs[numbers], error_weights=weights * scale
        )

"""The 1-norm margin problem, the pound loss, and their solution with its certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram
from kernlet.rows.source import ArrayRows, RowSource


class MarginCosts:
    """What errors and coefficients of a 1-norm machine cost, with signs of its rows.

    ``signs`` d, ``error_weights`` nu and ``coef_weights`` c as in :class:`L1Margin`.
    """

    signs: Floats
    error_weights: Floats
    coef_weights: Floats

    def slacks(self, values: Floats) -> Floats:
        """Errors y_i = max(0, 1 - d_i f(x_i)) for decision values f(x_i) of all rows."""
        return np.maximum(0.0, 1.0 - self.signs * values)

    def objective(self, slacks: Floats, absolute_coef: Floats) -> float:
        """Value of the objective for the y of all rows and the |beta| of all candidates."""
        return float(self.error_weights @ slacks + self.coef_weights @ absolute_coef)

    def balanced(self, duals: Floats) -> Floats:
        """The t nearest to ``duals`` from below with 0 <= t <= nu and sum_i d_i t_i = 0."""
        t = np.clip(duals, 0.0, self.error_weights)
        positive = self.signs > 0
        above, below = t[positive].sum(), t[~positive].sum()
        if above > below:
            t[positive] *= below / above
        elif below > above:
            t[~positive] *= above / below
        return t

    def bound(self, duals: Floats, correlations: Floats) -> float:
        """Lower bound on the optimum from balanced t and the sums K' D t.

        Shrinking t until every |sum_i K_ij d_i t_i| <= c_j makes it feasible for the dual,
        whose value is then a bound whatever the rounding of the solver.
        """
        excess = float(np.max(np.abs(correlations) / self.coef_weights, initial=1.0))
        return float(duals.sum() / excess)


@dataclass(frozen=True, eq=False)
class L1Margin(MarginCosts):
    """A two-class machine with a 1-norm penalty, as plain values.

    With rows x_i of sign d_i, candidate centers z_j and K_ij = k(x_i, z_j)::

        minimise    sum_i nu_i y_i + sum_j c_j |beta_j|
        subject to  d_i (sum_j K_ij beta_j + intercept) + y_i >= 1,   y >= 0

    and its dual::

        maximise    sum_i t_i
        subject to  |sum_i K_ij d_i t_i| <= c_j,   sum_i d_i t_i = 0,   0 <= t <= nu

    Parameters
    ----------
    gram : Gram
        K, of n_rows x n_candidates.
    signs : ndarray of shape (n_rows,)
        d, of +1 and -1.
    error_weights : ndarray of shape (n_rows,)
        nu >= 0.
    coef_weights : ndarray of shape (n_candidates,)
        c > 0.
    """

    gram: Gram
    signs: Floats
    error_weights: Floats
    coef_weights: Floats


@dataclass(frozen=True, eq=False)
class OneOutput(MarginCosts):
    """The costs of one output of a :class:`TallMargin`."""

    signs: Floats
    error_weights: Floats
    coef_weights: Floats


@dataclass(frozen=True, eq=False)
class TallMargin:
    """Problems :class:`~kernlet.lp.problem.L1Margin` over the same rows and candidates.

    In the s + 1 variables beta and intercept, each output minimises::

        F = sum_i nu_i max(0, 1 - d_i (K_i beta + intercept)) + sum_j c_j |beta_j|

    Parameters
    ----------
    rows : RowSource
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

    rows: RowSource
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


Problem = TypeVar("Problem", L1Margin, TallMargin)


@dataclass(frozen=True)
class PoundLoss:
    """x + mu (1 - exp(-alpha x)) for x >= 0, the smooth form of x + mu [x > 0].

    Equation (24) of Fung, Mangasarian and Smola (2002); concave on x >= 0.

    Parameters
    ----------
    mu : float
        Price of being nonzero.
    alpha : float
        Steepness of the step.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.lp.problem import PoundLoss
    >>> PoundLoss(mu=10.0, alpha=5.0).value(np.array([0.0, 1.0])).round(2)
    array([ 0.  , 10.93])
    """

    mu: float
    alpha: float

    def value(self, x: Floats) -> Floats:
        """The loss at x >= 0."""
        return x - self.mu * np.expm1(-self.alpha * x)

    def slope(self, x: Floats) -> Floats:
        """Its derivative, 1 + mu alpha exp(-alpha x)."""
        return 1.0 + self.mu * self.alpha * np.exp(-self.alpha * x)

    def objective(
        self, problem: L1Margin | TallMargin, slacks: Floats, absolute_coef: Floats
    ) -> Any:
        """The machine's objective with this loss in place of absolute values, (25)."""
        return problem.objective(self.value(slacks), self.value(absolute_coef))

    def linearized(self, problem: Problem, slacks: Floats, absolute_coef: Floats) -> Problem:
        """The linear program (26) at a point: ``problem`` with its costs scaled by the slopes."""
        return replace(
            problem,
            error_weights=problem.error_weights * self.slope(slacks),
            coef_weights=problem.coef_weights * self.slope(absolute_coef),
        )


Status = Literal["optimal", "iteration limit", "stopped", "failed", "stalled"]


@dataclass(frozen=True, eq=False)
class MarginSolution:
    """A primal-dual pair of an :class:`~kernlet.lp.problem.L1Margin`, with its certificate.

    Parameters
    ----------
    centers : ndarray of shape (m2,)
        Candidates with a nonzero coefficient, ascending.
    coef : ndarray of shape (m2,)
        Their coefficients beta.
    intercept : float
    rows : ndarray of shape (m1,)
        Rows with a positive dual, ascending.
    duals : ndarray of shape (m1,)
        Their duals t.
    slacks : ndarray of shape (n_rows,)
        The errors y of all rows.
    objective : float
        Value of the primal problem, every row counted.
    bound : float
        A lower bound on the optimum, every candidate checked; see :attr:`gap`.
    n_iter : int
        Simplex iterations.
    status : {"optimal", "iteration limit", "stopped", "failed"}
        How the simplex method ended: ``"stopped"`` on a caller's wish, ``"failed"`` on
        numerical trouble. The gap holds in every case.
    """

    centers: Indices
    coef: Floats
    intercept: float
    rows: Indices
    duals: Floats
    slacks: Floats
    objective: float
    bound: float
    n_iter: int
    status: Status

    @property
    def gap(self) -> float:
        """Relative duality gap (objective - bound) / objective: the certificate."""
        if self.objective <= 0:
            return 0.0
        return (self.objective - self.bound) / self.objective

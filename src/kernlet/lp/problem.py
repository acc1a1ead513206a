"""The 1-norm margin problem, the pound loss, and a solution with its certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.kernels.base import Kernel
from kernlet.rows.source import ArrayRows, RowSource


@dataclass(frozen=True, eq=False)
class L1Margin:
    """Machines with a 1-norm penalty over the same rows and candidate centers.

    With candidates z_j and constraints i, each on a row x of sign d_i, target a_i and
    K_ij = k(x, z_j), each output solves::

        minimise    sum_i nu_i y_i + sum_j c_j |beta_j|
        subject to  d_i (sum_j K_ij beta_j + intercept) + y_i >= a_i,   y >= 0

    and its dual::

        maximise    sum_i a_i t_i
        subject to  |sum_i K_ij d_i t_i| <= c_j,   sum_i d_i t_i = 0,   0 <= t <= nu

    A classifier has one constraint per row, with d_i the sign of its class and a_i = 1. A
    regressor has two (``n_sides``), one after the other: d = 1 and a = target - epsilon for a
    value too low, d = -1 and a = -target - epsilon for one too high.

    ``X`` are the rows, in memory or a source of rows, and ``centers`` the z_j, None for the rows
    themselves. ``signs`` d, ``error_weights`` nu >= 0 and ``targets`` a (None for ones) have the
    shape (n_constraints, n_outputs) and may be views of smaller arrays, ``coef_weights`` c > 0 the
    shape (n_candidates, n_outputs).
    """

    X: Any
    kernel: Kernel
    centers: Any
    signs: Any
    error_weights: Floats
    coef_weights: Floats
    targets: Any = None

    def __post_init__(self) -> None:
        if self.targets is None:  # float32 leaves the precision to what it is added to
            ones = np.broadcast_to(np.float32(1.0), self.signs.shape)
            object.__setattr__(self, "targets", ones)

    @classmethod
    def of_rows(
        cls, X: Any, kernel: Kernel, centers: Any, signs: Any, error_weights: Floats
    ) -> L1Margin:
        """The problem with a = c = 1 and the same ``error_weights`` (n_rows,) for all outputs."""
        signs = signs.reshape(X.shape[0], -1)
        weights = np.broadcast_to(error_weights[:, None], signs.shape)
        n_candidates = (X if centers is None else centers).shape[0]
        return cls(X, kernel, centers, signs, weights, np.ones((n_candidates, signs.shape[1])))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and candidates."""
        return int(self.X.shape[0]), int(self.points.shape[0])

    @property
    def n_constraints(self) -> int:
        """Constraints of an output."""
        return int(self.signs.shape[0])

    @property
    def n_sides(self) -> int:
        """Constraints per row."""
        return self.n_constraints // max(1, int(self.X.shape[0]))

    @property
    def n_outputs(self) -> int:
        """Machines over these rows."""
        return int(self.signs.shape[1])

    @property
    def points(self) -> Any:
        """The candidate centers z_j."""
        return self.X if self.centers is None else self.centers

    @property
    def rows(self) -> RowSource:
        """The x_i, block by block."""
        return self.X if isinstance(self.X, RowSource) else ArrayRows(self.X)

    def outputs(self, numbers: Any) -> L1Margin:
        """A subset of the outputs; one number gives the one-dimensional arrays used below."""
        return replace(
            self,
            signs=self.signs[:, numbers],
            error_weights=self.error_weights[:, numbers],
            coef_weights=self.coef_weights[:, numbers],
            targets=self.targets[:, numbers],
        )

    def subset(self, X: Any, numbers: Indices) -> L1Margin:
        """The problem on a subset X of the rows, over the same candidates."""
        sides = np.arange(self.n_sides)
        numbers = (self.n_sides * numbers[:, None] + sides).ravel()
        return replace(
            self,
            X=X,
            centers=self.points,
            signs=self.signs[numbers],
            error_weights=self.error_weights[numbers],
            targets=self.targets[numbers],
        )

    def sample(self, X: Any, numbers: Indices) -> L1Margin:
        """The problem on a subset X of the rows, nu scaled so that its sum stays the same."""
        sample = self.subset(X, numbers)
        total, sampled = self.error_weights.sum(axis=0), sample.error_weights.sum(axis=0)
        scale = np.divide(total, sampled, out=np.ones_like(total), where=sampled > 0)
        return replace(sample, error_weights=sample.error_weights * scale)

    def by_row(self, constraints: Any) -> Any:
        """Numbers (n_constraints, n_outputs) as (n_rows, n_sides, n_outputs)."""
        return constraints.reshape(self.shape[0], self.n_sides, -1)

    def residuals(self, values: Floats) -> Floats:
        """a_i - d_i f of all constraints, for decision values f of all rows."""
        return self.targets - self.signs * repeat_rows(values, self.n_sides)

    # -- One output ----------------------------------------------------------------------------

    def slacks(self, values: Floats) -> Floats:
        """Errors y_i = max(0, a_i - d_i f) for decision values f of all rows."""
        return np.maximum(0.0, self.residuals(values))

    def objective(self, slacks: Floats, absolute_coef: Floats) -> float:
        """Value of the objective for all y and the |beta| of all candidates."""
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

    def bound(self, duals: Floats, correlations: Floats, numbers: Any = slice(None)) -> float:
        """Lower bound on the optimum from balanced t and the sums K' D t.

        Shrinking t until every |sum_i K_ij d_i t_i| <= c_j makes it feasible for the dual,
        whose value is then a bound, however inexact the solver was; t = 0 gives the bound 0.
        ``numbers`` are the constraints of the given t, all others being 0.
        """
        excess = float(np.max(np.abs(correlations) / self.coef_weights, initial=1.0))
        return max(0.0, float((self.targets[numbers] * duals).sum() / excess))


def repeat_rows(values: Any, n_sides: int) -> Any:
    """One line per constraint from one per row."""
    return values if n_sides == 1 else np.repeat(values, n_sides, axis=0)


# A row on the margin has the slack 0, but for the tolerance of the simplex method, 1e-7, and the
# round-off of its decision value.
_ZERO_SLACK = 1e-6


@dataclass(frozen=True)
class PoundLoss:
    """x + mu (1 - exp(-alpha x)) for x >= 0, the smooth form of x + mu [x > 0].

    Equation (24) of Fung, Mangasarian and Smola (2002); concave on x >= 0. ``mu`` is the price
    of being nonzero, ``alpha`` the steepness of the step.
    """

    mu: float
    alpha: float

    def value(self, x: Floats) -> Floats:
        """The loss at x >= 0."""
        return x - self.mu * np.expm1(-self.alpha * x)

    def slope(self, x: Floats) -> Floats:
        """Its derivative, 1 + mu alpha exp(-alpha x)."""
        return 1.0 + self.mu * self.alpha * np.exp(-self.alpha * x)

    def objective(self, problem: L1Margin, slacks: Floats, absolute_coef: Floats) -> float:
        """The objective of one output with this loss in place of absolute values, (25)."""
        return problem.objective(self.value(slacks), self.value(absolute_coef))

    def step_objective(self, problem: L1Margin, slacks: Floats, absolute_coef: Floats) -> float:
        """The objective of one output with the step itself, x + mu [x > 0], (18) and (19)."""
        presence = problem.objective(
            np.where(slacks > _ZERO_SLACK, 1.0, 0.0), np.where(absolute_coef > 0, 1.0, 0.0)
        )
        return problem.objective(slacks, absolute_coef) + self.mu * presence

    def linearized(self, problem: L1Margin, slacks: Floats, absolute_coef: Floats) -> L1Margin:
        """The linear program (26) at a point: ``problem`` with its costs scaled by the slopes."""
        return replace(
            problem,
            error_weights=problem.error_weights * self.slope(slacks),
            coef_weights=problem.coef_weights * self.slope(absolute_coef),
        )


Status = Literal["optimal", "iteration limit", "stopped", "failed", "stalled"]


@dataclass(frozen=True, eq=False)
class PrimalDual:
    """A primal-dual pair of one output of an :class:`L1Margin`.

    ``centers`` are the candidates with a nonzero ``coef`` beta, ``rows`` the constraints with
    positive ``duals`` t, both ascending.
    """

    centers: Indices
    coef: Floats
    intercept: float
    rows: Indices
    duals: Floats


@dataclass(frozen=True, eq=False)
class Solution(PrimalDual):
    """A primal-dual pair with its certificate.

    ``slacks`` are the errors y of all constraints. ``objective`` counts every one of them, and
    ``bound``, a lower bound on the optimum, every candidate. ``n_iter`` counts simplex iterations.
    ``status`` says how the solver ended: "stopped" by a report, "failed" after numerical trouble,
    "stalled" where rounds stopped narrowing the gap. The gap holds in every case.
    """

    slacks: Floats
    objective: float
    bound: float
    n_iter: int
    status: Status

    @property
    def gap(self) -> float:
        """Relative duality gap |objective - bound| / objective: the certificate."""
        return relative_gap(self.objective, self.bound)


def relative_gap(objective: float, bound: float) -> float:
    """|objective - bound| / objective; 0 for an objective of 0, which nothing undercuts.

    A bound above the objective is round-off in one of the two, by as much as they differ.
    """
    return 0.0 if objective == 0 else abs(objective - bound) / objective

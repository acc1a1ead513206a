"""The squared-hinge problem: what all solvers of this folder minimise, and what they return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel, require_mercer
from kernlet.kernels.gram import Gram, Selection, as_indices
from kernlet.progress import Progress
from kernlet.sklearn_base import GAP_WORTH_WARNING

_DIAGONAL_ROWS = 64  # rows of a block of which only the diagonal is used

OVERFLOW = "Kernel values times weights times C overflow. Scale the features, or lower C."
# Round-off of a sum of kernel values, relative to the sizes of its summands: a value is rounded in
# its inner product, in its power or exponential, and in the sum.
_ROUND_OFF = 8 * float(np.finfo(float).eps)

ROUNDING = "kernel values times C exhaust double precision. Scale the features, or lower C."

# How this works
# --------------
# HullPerceptronClassifier, CoreVectorClassifier and MMDA minimise one objective. With f the
# kernel's feature map, signs d_i = +-1 and costs c_i > 0:
#
#   P(w, b) = 1/2 (|w|^2 + b^2) + 1/2 sum_i c_i max(0, 1 - d_i (w.f(x_i) + b))^2
#
# Squared slacks and the penalised intercept make the dual simple: no upper bounds and no equality,
#
#   D(a) = sum a - 1/2 a'Qa  over a >= 0,   Q_ij = d_i d_j (k(x_i, x_j) + 1) + delta_ij / c_i
#
# Q is the Gram matrix of the points X_i = d_i (f(x_i), 1, e_i / sqrt(c_i)), which are separable
# whatever the data. Three views of the same optimum a, each with its own solver:
#
#   1. nearest point (mdm.py): alpha = a / sum a are the weights of the point W = sum alpha_i X_i of
#      the convex hull nearest the origin, |W|^2 = 1 / sum a; the margins W.X_i are equal on the
#      support. Garcia et al. write the errors as C sum slack^2, so that their C is c / 2.
#   2. smallest enclosing ball (core_set.py): if all |X_i|^2 are equal, the point nearest the
#      origin is also the center of the smallest ball around the X_i (Tsang et al. 2005).
#   3. Newton's method on P (newton.py): P is piecewise quadratic.
#
# MMDA asks for w orthogonal to earlier unit vectors u_q ("deflation"). Then k(x_i, x_j) is
# replaced by k(x_i, x_j) - F_i . F_j, with F_iq = u_q . f(x_i) the earlier features of the rows.


def kernel_diagonal(gram: Gram) -> Floats:
    """k(x, x) of all rows, by small blocks."""
    values = np.empty(len(gram.x))
    for start in range(0, len(values), _DIAGONAL_ROWS):
        rows = slice(start, min(start + _DIAGONAL_ROWS, len(values)))
        values[rows] = np.diagonal(gram.block(rows, rows))
    return values


@dataclass(frozen=True, eq=False)
class SquaredMargin:
    """The squared-hinge problem of one output: a square Gram, signs d, costs c, earlier features F.

    Q_ij = d_i d_j (k(x_i, x_j) + bias - F_i . F_j) + delta_ij / c_i. Equal rows are two rows: delta
    goes by row number. ``bias`` is 1, or 0 for a machine without intercept b, which only core sets
    solve.
    """

    gram: Gram
    signs: Floats
    costs: Floats
    features: Floats | None = None
    bias: float = 1.0

    def __post_init__(self) -> None:
        require_mercer(self.gram.kernel, "A margin in feature space")
        if not self.gram.is_square:
            raise ValueError("The problem needs K(X, X); the matrix has other columns than rows.")
        if len(self.signs) != self.n_rows or len(self.costs) != self.n_rows:
            raise ValueError(
                f"There are {self.n_rows} rows, {len(self.signs)} signs and {len(self.costs)} "
                "costs; give one of each for every row."
            )
        with np.errstate(divide="ignore", over="ignore"):
            ridge = 1.0 / self.costs
        if not (np.isfinite(ridge).all() and (ridge > 0).all()):
            raise ValueError(
                "A cost C is not positive, or 1 / C is not finite; give numbers nearer to 1, and "
                "leave rows of zero weight out."
            )

    @property
    def n_rows(self) -> int:
        """Training rows."""
        return len(self.gram.x)

    @cached_property
    def ridge(self) -> Floats:
        """1 / c_i, which the squared slack adds to Q_ii."""
        return 1.0 / self.costs

    @cached_property
    def squared_lengths(self) -> Floats:
        """k(x_i, x_i) + bias of all rows, which bound all other kernel values."""
        squares = kernel_diagonal(self.gram) + self.bias
        if not np.isfinite(squares).all():
            raise ValueError(OVERFLOW)
        return squares

    @cached_property
    def diagonal(self) -> Floats:
        """Q_ii of all rows."""
        diagonal = self.squared_lengths + self.ridge
        if self.features is not None:
            diagonal -= np.einsum("ij,ij->i", self.features, self.features)
        return diagonal

    @cached_property
    def kappa(self) -> float:
        """The largest |X_i|^2, before deflation."""
        return float((self.squared_lengths + self.ridge).max(initial=1.0))

    def products(self, rows: Indices, columns: Selection = slice(None)) -> Floats:
        """Q[rows][:, columns]; columns are an index array or all."""
        self.gram.x.norms  # noqa: B018  cached by this: blocks then take them from there
        values = self.gram.block(rows, columns).astype(np.float64, copy=False)
        values += self.bias
        if self.features is not None:
            values -= self.features[rows] @ self.features[columns].T
        values *= self.signs[columns]
        values *= self.signs[rows, None]
        if isinstance(columns, slice):
            assert columns == slice(None)
            lines, places = np.arange(len(rows)), rows
        else:
            lines, places = np.nonzero(rows[:, None] == columns[None, :])
        values[lines, places] += self.ridge[rows[lines]]
        return values

    def intercept(self, coef: Floats) -> float:
        """b, where sum_j coef_j (k(., x_j) + bias) is the decision function."""
        return self.bias * float(coef.sum())

    def deflate(self, values: Floats, rows: Selection, support: Indices, coef: Floats) -> Floats:
        """Values of sum_j coef_j f(x_j) at rows, less its part along the earlier features."""
        if self.features is None:
            return values
        return np.asarray(values - self.features[rows] @ (self.features[support].T @ coef))

    def margins(self, alpha: Floats) -> Floats:
        """Q alpha for all rows, from scratch, by blocks."""
        support = np.flatnonzero(alpha)
        coef = alpha[support] * self.signs[support]
        values = self.gram.dot(coef, support) + self.intercept(coef)
        return self.signs * self.deflate(values, slice(None), support, coef) + self.ridge * alpha

    def squared_norm(self, alpha: Floats, margins: Floats) -> float:
        """|W|^2 = alpha' Q alpha, given Q alpha; at least the ridge's part, which cannot cancel.

        Margins that are not finite are refused, those of rows without weight too.
        """
        product = float(alpha @ margins)
        if not np.isfinite(product):
            raise ValueError(OVERFLOW)
        return max(product, float(self.ridge @ alpha**2))

    def value_errors(self, support: Indices, coef: Floats) -> Floats:
        """Bounds on the round-off of sum_j coef_j (k(x_i, x_j) + bias) at all rows.

        |k(x_i, x_j) + 1|, say, is at most the product of the lengths of (f(x_i), 1) and (f(x_j), 1).
        """
        lengths = np.sqrt(self.squared_lengths)
        return np.asarray(_ROUND_OFF * float(np.abs(coef) @ lengths[support]) * lengths)

    def objective(self, squared_norm: float, values: Floats, errors: Floats | float = 0.0) -> float:
        """P, given |w|^2 + b^2 and the decision values at all rows; at most, with their errors."""
        slacks = np.maximum(0.0, 1.0 - self.signs * values + errors)
        return 0.5 * (squared_norm + float(self.costs @ slacks**2))

    def ball_gap(self, squared_norm: float, least_margin: float) -> float:
        """eps, where the furthest row lies (1 + eps) radii from the center W.

        |X_i - W|^2 = |W|^2 - 2 W.X_i + kappa and the squared radius is kappa - |W|^2. Rows with a
        norm below kappa are given the difference in a coordinate in which the center is 0.
        """
        furthest = max(0.0, squared_norm - 2.0 * least_margin + self.kappa)
        # No radius is known to less than the round-off of kappa.
        radius = max(self.kappa - squared_norm, _ROUND_OFF * self.kappa)
        return max(0.0, float(np.sqrt(furthest / radius)) - 1.0)

    def subset(self, rows: Indices) -> SquaredMargin:
        """The problem of some of the rows; their points are copied."""
        points = self.gram.x
        gram = Gram(
            self.gram.kernel, points.X[rows], dtype=points.dtype, hold=True, shift=points.shift
        )
        features = None if self.features is None else self.features[rows]
        return SquaredMargin(gram, self.signs[rows], self.costs[rows], features, self.bias)


def certified_gap(gap: float, at_most: float) -> float:
    """The gap, or its upper bound where round-off makes a difference that is worth a warning."""
    return gap if at_most - gap <= GAP_WORTH_WARNING else at_most


Status = Literal["optimal", "iteration limit", "memory limit", "stopped", "rounding", "running"]


@dataclass(frozen=True, eq=False)
class Solution:
    """A decision function sum_j coef_j k(., x_j) + intercept, with its certificate.

    The first six fields are always set, in reports from a running solver too. ``gap`` is relative
    and computed from scratch: 1 - least margin / |W|^2 (mdm) or (P - D) / P (core sets, Newton).
    ``"rounding"`` is the status of a solver that no step improves any more; ``"stopped"`` of one
    that ``report`` ended.
    """

    rows: Indices  # support vectors, ascending; empty where coef belongs to landmark features
    coef: Floats
    intercept: float
    gap: float
    n_iter: int  # steps, quadratic programs, linear systems or passes
    status: Status
    objective: float = np.nan  # P over all rows
    values: Floats = field(default_factory=lambda: np.empty(0))  # decision values at all rows
    gap_error: float = 0.0  # what round-off may add to the gap of a feature
    ball_gap: float = np.nan  # true eps of the enclosing ball, over all rows
    core: Indices = field(default_factory=lambda: as_indices([]))  # of the core set, as entered
    alpha: Floats = field(default_factory=lambda: np.empty(0))  # weights of W, of sum 1
    squared_norm: float = np.nan  # |W|^2
    margin: float = np.nan  # min_i W.X_i / |W|, a lower bound on the norm of the nearest point
    n_columns: int = 0  # columns of Q computed; one computed twice counts twice

    @property
    def norm(self) -> float:
        """|W|, an upper bound on the norm of the nearest point."""
        return float(np.sqrt(self.squared_norm))

    @property
    def centers(self) -> Indices:
        """The support vectors, as centers of an expansion."""
        return self.rows

    def spread(self, weights: Floats, n_rows: int) -> Floats:
        """Numbers of the support vectors (``alpha``, ``coef``) as a vector over all rows."""
        dense = np.zeros(n_rows)
        dense[self.rows] = weights
        return dense


#: Is called by a running solver with its solution so far; True ends the solver.
Report = Callable[[Solution], bool]


def report_to(progress: Progress, kernel: Kernel, X: Any, *, is_only: bool) -> Report:
    """Report the steps of one output; if it is the only one, its solutions can predict."""

    def report(solution: Solution) -> bool:
        def attributes() -> dict[str, Any]:
            intercept = np.array([solution.intercept])
            rows = X[solution.rows]
            return {"expansion_": KernelExpansion(kernel, rows, solution.coef, intercept)}

        return progress.step("round", attributes if is_only else None)

    return report

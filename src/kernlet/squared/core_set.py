"""Core sets: a few rows whose smallest enclosing ball nearly encloses all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.kernels.gram import ColumnCache, as_indices
from kernlet.sklearn_base import is_unconverged
from kernlet.squared.active_set import IncrementalNNQP
from kernlet.squared.problem import (
    OVERFLOW,
    ROUNDING,
    Report,
    Solution,
    SquaredMargin,
    Status,
    certified_gap,
)

# How this works
# --------------
# The dual of the squared-hinge problem is the smallest ball around the points X_i (problem.py): its
# center is sum_i alpha_i X_i with alpha = a / sum a. A core set is a subset of rows whose ball,
# enlarged by a factor 1 + eps, encloses all rows. Badoiu and Clarkson showed that one of at most
# 2 / eps rows exists, whatever the number of rows and the dimension, and that this finds it:
#
#   1. start with a row of each sign
#   2. find the ball of the core set exactly (IncrementalNNQP, from the last solution)
#   3. find the row furthest from its center, which is the row of least margin (Q a)_i;
#      if it lies within 1 + eps radii, stop, else add it to the core set and go to 2
#
# Tsang, Kwok and Cheung made this the core vector machine. Their step 3 looks at 59 random rows
# only: the furthest of these is among the furthest 5 % of all with a probability of 95 %. Time is
# then independent of the number of rows, but "none of 59 rows is outside" is not a certificate.
# So at the end, and after every step with sample_size=None, all rows are scanned, and ``ball_gap``
# and ``gap`` of the solution hold for all rows. A scan costs one product with the kernel columns
# of the support, which a ColumnCache keeps, and adds many of the rows outside at once.
#
# Two rules for stopping:
#   eps   the paper's. The radius holds the constant kappa = k + 1 + 1/c, against which the
#         objective may be small: an eps of 0.001 is met early, and the machine underfits.
#   tol   relative duality gap. a is feasible for the dual of all rows, so that D(a) = 1/2 sum a
#         bounds the optimum from below; P is evaluated by a scan, or estimated from the slacks of
#         a sample: rows outside the core set have slack exactly where (Q a)_i < 1.
#
# D(a) = 1/2 sum a holds where the program is solved exactly. The certificate does not rely on it:
# a'Qa is computed from the scan, the best multiple of a has D = (sum a)^2 / (2 a'Qa), and P - D
# includes a bound on the round-off of all values where that is worth a warning.
#
# MMDA solves one ball per feature: rows that carry earlier features cost nothing more at
# prediction, so that those of them that lie outside are added before any other row (``known``).
#
# M. Badoiu, K. L. Clarkson, "Smaller core-sets for balls", SODA 2003.
# I. W. Tsang, J. T. Kwok, P.-M. Cheung, "Core vector machines: fast SVM training on very large
#   data sets", Journal of Machine Learning Research 6, 2005.
# I. W. Tsang, A. Kocsor, J. T. Kwok, "Efficient kernel feature extraction for massive data sets",
#   KDD 2006.

REASONS: dict[Status, str] = {
    "iteration limit": "the core set reached max_iter. Raise it.",
    "memory limit": "the core set reached cache_size. Raise it, lower C, or allow a larger eps.",
    "rounding": ROUNDING,
}
_LEAST_BATCH, _BATCH_SHARE = 10, 5  # rows that a full scan adds: ten, or a fifth of the core set
_SAMPLES_PER_REPORT = 20
_BYTES_PER_ENTRY = 48  # of the quadratic program, per pair of rows


@dataclass(frozen=True)
class CoreRule:
    """How a core set grows, and when it is large enough.

    ``eps`` is the paper's rule and takes the place of ``tol``. ``n_tries`` samples in a row without
    a row outside end the search or, with ``tol``, lead to a scan of all rows.
    """

    tol: float = 1e-3
    eps: float | None = None
    sample_size: int | None = 59  # None scans all rows
    n_tries: int = 1
    max_iter: int | None = None
    max_bytes: int = 2000 * 2**20  # of the quadratic program

    @property
    def largest(self) -> int:
        """Rows of a core set that fit in the memory."""
        return max(2, int(np.sqrt(self.max_bytes / _BYTES_PER_ENTRY)))

    def is_missed(self, solution: Solution) -> bool:
        """Whether a core set ended short of the rule; samples that met ``eps`` are enough."""
        if self.eps is None:
            return is_unconverged(solution, self.tol)
        is_met = solution.status == "optimal"
        return not is_met and is_unconverged(replace(solution, gap=solution.ball_gap), self.eps)


def find_core_set(
    problem: SquaredMargin,
    columns: ColumnCache,
    rule: CoreRule | None = None,
    *,
    random_state: np.random.RandomState,
    known: Indices | None = None,
    report: Report | None = None,
) -> Solution:
    """Find a small set of rows whose ball nearly encloses all.

    ``columns`` caches the kernel and may be shared between problems over the same rows. ``known``
    are rows to add before others while samples are looked at. ``report`` is called now and then and
    may end the growth.
    """
    rule = CoreRule() if rule is None else rule
    known = as_indices([]) if known is None else known
    return _Growth(problem, columns, rule, random_state, known, report).run()


@dataclass(eq=False)
class _Growth:
    """A core set while it grows."""

    problem: SquaredMargin
    columns: ColumnCache
    rule: CoreRule
    random_state: np.random.RandomState
    known: Indices
    report: Report | None

    def __post_init__(self) -> None:
        n_rows = self.problem.n_rows
        self.core: Indices = np.empty(0, dtype=np.intp)
        self.is_core = np.zeros(n_rows, dtype=bool)
        self.program = IncrementalNNQP()
        self.is_exact = True
        self.n_iter = 0
        self.values: Floats = np.empty(0)  # decision values and margins of the last scan
        self.margins: Floats = np.empty(0)
        self.own_margin: Floats = np.zeros(n_rows)  # a_i / c_i, its part of margin i

    def run(self) -> Solution:
        """Grow the core set, by samples first where the rule has them, and certify it."""
        signs = self.problem.signs  # a random row of each
        first = [self.random_state.choice(np.flatnonzero(signs == s)) for s in np.unique(signs)]
        self._add(as_indices(first))
        status = None if self.rule.sample_size is None else self._grow_by_samples()
        self._scan()
        if status is None:
            status = self._grow_by_scans()
        return self._solution(status)

    def _grow_by_samples(self) -> Status | None:
        """Add the furthest row of random samples; None where all rows are to be scanned next."""
        assert self.rule.sample_size is not None
        size, misses = min(self.rule.sample_size, self.problem.n_rows), 0
        while misses < self.rule.n_tries:
            if ended := self._ended(every=_SAMPLES_PER_REPORT):
                return ended
            sample = self.random_state.randint(self.problem.n_rows, size=size)
            furthest = self._furthest_outside(self.known[~self.is_core[self.known]])
            if furthest is None:
                furthest = self._furthest_outside(sample)
            if furthest is None or self.is_core[furthest]:
                misses += 1
            else:
                misses = 0
                self._add(as_indices([furthest]))
        return None if self.rule.eps is None else "optimal"

    def _furthest_outside(self, sample: Indices) -> int | None:
        """The furthest row of a sample, or None where none is outside."""
        if not len(sample):
            return None
        problem, (rows, coef) = self.problem, self._support()
        values = problem.gram.block(sample, rows) @ coef + problem.intercept(coef)
        values = problem.deflate(values, sample, rows, coef)
        margins = problem.signs[sample] * values + self.own_margin[sample]
        return int(sample[margins.argmin()]) if self._is_outside(margins, sample) else None

    def _grow_by_scans(self) -> Status:
        """Add the furthest of all rows until none is outside."""
        while True:
            if self._is_optimal():
                return "optimal"
            if ended := self._ended():
                return ended
            outside = np.flatnonzero(self.margins < 1.0)
            new = outside[~self.is_core[outside]]
            if not len(new) or not self.is_exact:
                return "rounding"
            room = self.rule.largest - len(self.core)
            batch = min(room, max(_LEAST_BATCH, len(self.core) // _BATCH_SHARE), len(new))
            worst = np.argpartition(self.margins[new], batch - 1)[:batch]
            self._add(np.sort(new[worst]))
            self._scan()

    def _ended(self, every: int = 1) -> Status | None:
        rule = self.rule
        if rule.max_iter is not None and self.n_iter >= rule.max_iter:
            return "iteration limit"
        if len(self.core) >= rule.largest:
            return "memory limit"
        if not self.program.weights.any():  # all weights underflow
            return "rounding"
        if self.report is not None and self.n_iter % every == 0:
            rows, coef = self._support()
            b = self.problem.intercept(coef)
            state = Solution(rows, coef, b, np.nan, self.n_iter, "running")
            return "stopped" if self.report(state) else None
        return None

    def _add(self, rows: Indices) -> None:
        """Add rows to the core set and solve its program."""
        self.core = np.append(self.core, rows)
        self.is_core[rows] = True
        products = self.problem.products(rows, self.core)
        if not np.isfinite(products).all():
            raise ValueError("The kernel overflows at the rows. Scale the features.")
        self.program.add(products)
        self.is_exact = self.program.solve()
        self.own_margin[self.core] = self.problem.ridge[self.core] * self.program.weights
        self.n_iter += 1

    def _support(self) -> tuple[Indices, Floats]:
        """Support vectors, ascending, and their coefficients."""
        rows = self.core[self.program.support]
        coef = self.program.weights[self.program.support] * self.problem.signs[rows]
        order = np.argsort(rows)
        return rows[order], coef[order]

    def _scan(self) -> None:
        """Compute decision values and margins Q a of all rows."""
        rows, coef = self._support()
        values = self.columns.combine(rows, coef[:, None])[0] + self.problem.intercept(coef)
        self.values = self.problem.deflate(values, slice(None), rows, coef)
        self.margins = self.problem.signs * self.values + self.own_margin

    def _judge(self) -> tuple[float, float]:
        """Objective and relative duality gap, from the values of the last scan."""
        problem, weights, (rows, coef) = self.problem, self.program.weights, self._support()
        norm = max(0.0, float(coef @ self.values[rows]))  # |w|^2 + b^2
        ridge, total = float(problem.ridge[self.core] @ weights**2), float(weights.sum())
        errors = problem.value_errors(rows, coef)
        norm_error = float(np.abs(coef) @ errors[rows])
        objective = problem.objective(norm, self.values)
        largest = problem.objective(norm + norm_error, self.values, errors)
        if not np.isfinite(largest):
            raise ValueError(OVERFLOW)
        gap = certified_gap(
            _relative_gap(objective, total, norm + ridge),
            _relative_gap(largest, total, norm + norm_error + ridge),
        )
        return objective, gap

    def _is_outside(self, margins: Floats, sample: Indices) -> bool:
        """Whether a sample has a row to add.

        P - D is 1/2 sum_i c_i slack_i^2 over rows outside the core set; the sample estimates it.
        """
        if self.rule.eps is not None:
            return not self._ball_gap(float(margins.min())) <= self.rule.eps
        slacks = np.maximum(0.0, 1.0 - margins)
        share = 0.5 * float(self.problem.costs[sample] @ slacks**2)
        gap = share * self.problem.n_rows / len(sample)
        return not gap <= self.rule.tol * (gap + self._bound)

    def _is_optimal(self) -> bool:
        """Whether the rule is met by all rows."""
        if self.rule.eps is not None:
            return self._ball_gap(float(self.margins.min())) <= self.rule.eps
        return self._judge()[1] <= self.rule.tol

    def _ball_gap(self, least_margin: float) -> float:
        """The eps of the ball, whose center has weights of sum 1."""
        total = float(self.program.weights.sum())
        if not total > 0.0:
            return np.inf
        return self.problem.ball_gap(1.0 / total, least_margin / total)

    @property
    def _bound(self) -> float:
        """D(a) = sum a - 1/2 a'Qa, where a'Qa = sum a."""
        return 0.5 * float(self.program.weights.sum())

    def _solution(self, status: Status) -> Solution:
        (rows, coef), (objective, gap) = self._support(), self._judge()
        return Solution(
            rows=rows,
            coef=coef,
            intercept=self.problem.intercept(coef),
            gap=gap,
            n_iter=self.n_iter,
            status=status,
            objective=objective,
            values=self.values,
            ball_gap=self._ball_gap(float(self.margins.min())),
            core=self.core,
        )


def _relative_gap(objective: float, total: float, quadratic: float) -> float:
    """1 - D / P for P and the dual point a of sum ``total`` with a'Qa = ``quadratic``.

    1 where a'Qa underflows or P is 0: nothing is known then.
    """
    if not (objective > 0.0 and quadratic > 0.0):
        return 1.0
    gap = 1.0 - total * (total / quadratic) / (2.0 * objective)
    return 0.0 if gap <= 0.0 else gap

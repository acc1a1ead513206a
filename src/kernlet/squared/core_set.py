"""A machine over a core set, and how one is grown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.kernels.gram import ColumnCache, as_indices
from kernlet.squared.active_set import GrowingProgram
from kernlet.squared.problem import EnclosingBall

CoreStatus = Literal["optimal", "iteration limit", "memory limit", "stopped", "rounding"]

#: What a core set that ended early says to its user.
REASONS: dict[CoreStatus, str] = {
    "iteration limit": "the core set reached max_iter. Raise it.",
    "memory limit": "the core set reached cache_size. Raise it, lower C, or allow a larger eps.",
    "rounding": "kernel values times C leave no more digits. Scale the features, or lower C.",
}
_WORTH_A_WARNING = 1e-8  # rounding above this


@dataclass(frozen=True, eq=False)
class CoreSolution:
    """A machine over a core set, judged on all rows.

    Parameters
    ----------
    core : ndarray of shape (n_core,)
        Rows of the core set, in the order in which they came.
    rows : ndarray of shape (n_support,)
        Those with a positive weight, ascending.
    coef : ndarray of shape (n_support,)
        Their coefficients d_i a_i.
    intercept : float
    values : ndarray of shape (n_rows,)
        w.f(x_i) + intercept at all rows, the directions taken off.
    squared_norm : float
        |w|^2 + intercept^2.
    objective : float
        Primal value over all rows.
    bound : float
        Dual value: a lower bound on it.
    eps : float
        True distance of the furthest row: (1 + eps) radii.
    n_iter : int
        Quadratic programs solved.
    n_scans : int
        Times that all rows were looked at.
    status : {"optimal", "iteration limit", "memory limit", "stopped", "rounding"}
    """

    core: Indices
    rows: Indices
    coef: Floats
    intercept: float
    values: Floats
    squared_norm: float
    objective: float
    bound: float
    eps: float
    n_iter: int
    n_scans: int
    status: CoreStatus

    @property
    def centers(self) -> Indices:
        """The rows, as the centers of a machine."""
        return self.rows

    @property
    def gap(self) -> float:
        """(objective - bound) / objective: the certificate."""
        return max(0.0, (self.objective - self.bound) / self.objective)


@dataclass(frozen=True)
class CoreProgress:
    """Where the growth of a core set stands.

    Parameters
    ----------
    rows : ndarray of shape (n_support,)
    coef : ndarray of shape (n_support,)
    intercept : float
    n_iter : int
    """

    rows: Indices
    coef: Floats
    intercept: float
    n_iter: int


Report = Callable[[CoreProgress], bool]


@dataclass(frozen=True)
class CoreRule:
    """How a core set grows, and when it is large enough.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative gap of the objective to reach, on all rows. Not looked at where ``eps`` is given.
    eps : float or None, default=None
        The paper's rule instead: stop when no row found is further than 1 + eps radii.
    sample_size : int or None, default=59
        The furthest row is looked for among that many random rows; among 59, it is one of the
        furthest 5 % with a probability of 95 %. None looks at all rows.
    n_tries : int, default=1
        Samples without a row outside that end the search (with ``tol``, that lead to a scan of all
        rows).
    max_iter : int or None, default=None
        Quadratic programs allowed.
    max_bytes : int, default=2000 MB
        For the quadratic program.
    """

    tol: float = 1e-3
    eps: float | None = None
    sample_size: int | None = 59
    n_tries: int = 1
    max_iter: int | None = None
    max_bytes: int = 2000 * 2**20

    @property
    def largest(self) -> int:
        """Rows of a core set that fit the memory."""
        return max(2, int(np.sqrt(self.max_bytes / 48)))

    def is_missed(self, status: CoreStatus, gap: float, eps: float) -> bool:
        """Whether a core set ended early and short of the rule.

        Parameters
        ----------
        status : CoreStatus
        gap, eps : float
            Of the solution, over all rows.

        Returns
        -------
        is_missed : bool
        """
        if status in ("optimal", "stopped"):
            return False
        left, wanted = (gap, self.tol) if self.eps is None else (eps, self.eps)
        return not left <= (max(wanted, _WORTH_A_WARNING) if status == "rounding" else wanted)


_LEAST_BATCH, _BATCH_SHARE = 10, 5  # rows that a full scan adds: ten, or a fifth of the core set
_SAMPLES_A_REPORT = 20


def find_core_set(
    ball: EnclosingBall,
    columns: ColumnCache,
    rule: CoreRule | None = None,
    *,
    random_state: np.random.RandomState,
    known: Indices | None = None,
    report: Report | None = None,
) -> CoreSolution:
    """Find a small set of rows whose ball nearly encloses all.

    The quadratic program of the core set is solved exactly; then the furthest row found joins it.
    With samples a step costs sample_size * n_core kernel values, whatever the number of rows; a
    scan of all rows costs n_rows * n_core, less what ``columns`` has kept, and adds up to a
    fifth of the core set at once. At the end all rows are looked at in any case, and ``eps`` and
    ``gap`` of the solution hold for them.

    Parameters
    ----------
    ball : EnclosingBall
    columns : ColumnCache
        Of the ball's matrix; may be shared with other balls over the same rows.
    rule : CoreRule
    random_state : RandomState
    known : ndarray of int or None, default=None
        Rows that cost nothing more, for another machine has them already: while samples are
        looked at, one of them that is outside joins before any other row does.
    report : callable or None, default=None
        Hears of the progress now and then, and stops the growth by returning true.

    Returns
    -------
    solution : CoreSolution

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.rbf import RBF
    >>> from kernlet.kernels.gram import Gram
    >>> from kernlet.kernels.gram import ColumnCache
    >>> from kernlet.squared.problem import EnclosingBall
    >>> from kernlet.squared.core_set import find_core_set
    >>> random_state = np.random.RandomState(0)
    >>> X = random_state.randn(300, 2)
    >>> gram = Gram(RBF(1.0), X)
    >>> ball = EnclosingBall(gram, np.where(X[:, 0] > 0, 1.0, -1.0), np.ones(300))
    >>> solution = find_core_set(ball, ColumnCache(gram, 2**20), random_state=random_state)
    >>> solution.gap <= 1e-3, len(solution.core) < 300
    (True, True)
    """
    rule = CoreRule() if rule is None else rule
    known = as_indices([]) if known is None else known
    return _Growth(ball, columns, rule, random_state, known, report).run()


class _Growth:
    """A core set under way."""

    def __init__(
        self,
        ball: EnclosingBall,
        columns: ColumnCache,
        rule: CoreRule,
        random_state: np.random.RandomState,
        known: Indices,
        report: Report | None,
    ) -> None:
        self.ball, self.columns, self.rule = ball, columns, rule
        self.random_state, self.known, self.report = random_state, known, report
        self.core: Indices = np.empty(0, dtype=np.intp)
        self.is_core = np.zeros(ball.n_rows, dtype=bool)
        self.program = GrowingProgram()
        self.n_iter = self.n_scans = 0
        self.is_exact = True
        self.values: Floats = np.zeros(ball.n_rows)
        self.own: Floats = np.zeros(ball.n_rows)  # a_i / c_i, what a row adds to its own margin

    def run(self) -> CoreSolution:
        self._add(self._first_rows())
        status = None if self.rule.sample_size is None else self._grow_by_samples()
        self._scan()
        if status is None:
            status = self._grow_by_scans()
        return self._solution(status)

    def _first_rows(self) -> Indices:
        """A random row of each sign."""
        signs = self.ball.signs
        there = [sign for sign in (-1.0, 1.0) if (signs == sign).any()]
        return as_indices([self.random_state.choice(np.flatnonzero(signs == s)) for s in there])

    def _grow_by_samples(self) -> CoreStatus | None:
        """Add the furthest row of random samples; None where all rows are to be looked at next."""
        assert self.rule.sample_size is not None
        size, misses = min(self.rule.sample_size, self.ball.n_rows), 0
        while misses < self.rule.n_tries:
            if (ended := self._ended(every=_SAMPLES_A_REPORT)) is not None:
                return ended
            sample = self.random_state.randint(self.ball.n_rows, size=size)
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
        """The furthest of some rows, where it is outside."""
        if not len(sample):
            return None
        margins = self.ball.signs[sample] * self._values_at(sample) + self.own[sample]
        return int(sample[margins.argmin()]) if self._is_outside(margins, sample) else None

    def _grow_by_scans(self) -> CoreStatus:
        """Add the furthest of all rows until none is outside."""
        while True:
            margins = self._margins()
            if not self._is_outside_all(margins):
                return "optimal"
            if (ended := self._ended()) is not None:
                return ended
            outside = np.flatnonzero(margins < 1.0)
            new = outside[~self.is_core[outside]]
            if not len(new) or not self.is_exact:
                return "rounding"
            room = self.rule.largest - len(self.core)
            batch = min(room, max(_LEAST_BATCH, len(self.core) // _BATCH_SHARE), len(new))
            worst = np.argpartition(margins[new], batch - 1)[:batch]
            self._add(np.sort(new[worst]))
            self._scan()

    def _ended(self, every: int = 1) -> CoreStatus | None:
        rule = self.rule
        if rule.max_iter is not None and self.n_iter >= rule.max_iter:
            return "iteration limit"
        if len(self.core) >= rule.largest:
            return "memory limit"
        if not self.program.weights.any():  # no digits for any row
            return "rounding"
        report = self.report if self.n_iter % every == 0 else None
        if report is not None and report(self._progress()):
            return "stopped"
        return None

    def _progress(self) -> CoreProgress:
        rows, coef = self._machine()
        return CoreProgress(rows, coef, float(coef.sum()), self.n_iter)

    def _add(self, rows: Indices) -> None:
        """Take rows into the core set and solve its program."""
        self.core = np.append(self.core, rows)
        self.is_core[rows] = True
        products = self.ball.products(rows, self.core)
        if not np.isfinite(products).all():
            raise ValueError("The kernel overflows at the rows. Scale the features.")
        self.program.add(products)
        self.is_exact = self.program.solve()
        self.own[self.core] = self.ball.ridge[self.core] * self.program.weights
        self.n_iter += 1

    def _machine(self) -> tuple[Indices, Floats]:
        """Rows of the support, ascending, and their coefficients."""
        rows = self.core[self.program.support]
        coef = self.program.weights[self.program.support] * self.ball.signs[rows]
        order = np.argsort(rows)
        return rows[order], coef[order]

    def _values_at(self, sample: Indices) -> Floats:
        rows, coef = self._machine()
        values = self.ball.gram.block(sample, rows) @ coef + coef.sum()
        if self.ball.images is not None:
            values -= self.ball.images[sample] @ self.ball.coordinates(rows, coef)
        return values

    def _scan(self) -> None:
        """The values of all rows."""
        rows, coef = self._machine()
        self.values = self.columns.combine(rows, coef[:, None])[0] + coef.sum()
        if self.ball.images is not None:
            self.values -= self.ball.images @ self.ball.coordinates(rows, coef)
        self.n_scans += 1

    def _margins(self) -> Floats:
        """Q a for all rows, of the last scan."""
        return self.ball.signs * self.values + self.own

    def _is_outside(self, margins: Floats, sample: Indices) -> bool:
        """Whether a sample has a row that should join.

        The gap is half of the weighted sum of squared slacks outside the core set: the sample's
        share of it is an estimate.
        """
        if self.rule.eps is not None:
            return self._eps(float(margins.min())) > self.rule.eps
        slacks = np.maximum(0.0, 1.0 - margins)
        share = 0.5 * float(self.ball.costs[sample] @ slacks**2)
        gap = share * self.ball.n_rows / len(sample)
        return gap > self.rule.tol * (gap + self._bound)

    def _is_outside_all(self, margins: Floats) -> bool:
        if self.rule.eps is not None:
            return self._eps(float(margins.min())) > self.rule.eps
        objective = self.ball.objective(self._squared_norm, self.values)
        return objective - self._bound > self.rule.tol * objective

    def _eps(self, least_margin: float) -> float:
        """With margins and norm of the center, whose weights have sum 1."""
        total = float(self.program.weights.sum())
        if not total > 0.0:
            return np.inf
        return self.ball.eps(1.0 / total, least_margin / total)

    @property
    def _bound(self) -> float:
        """Sum a - 1/2 a'Qa, where a'Qa = sum a."""
        return 0.5 * float(self.program.weights.sum())

    @property
    def _squared_norm(self) -> float:
        """|w|^2 + intercept^2: a'Qa less what the ridge has of it."""
        weights = self.program.weights
        return float(weights.sum() - self.ball.ridge[self.core] @ weights**2)

    def _solution(self, status: CoreStatus) -> CoreSolution:
        rows, coef = self._machine()
        return CoreSolution(
            core=self.core,
            rows=rows,
            coef=coef,
            intercept=float(coef.sum()),
            values=self.values,
            squared_norm=max(0.0, self._squared_norm),
            objective=self.ball.objective(max(0.0, self._squared_norm), self.values),
            bound=self._bound,
            eps=self._eps(float(self._margins().min())),
            n_iter=self.n_iter,
            n_scans=self.n_scans,
            status=status,
        )

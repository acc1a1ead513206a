"""Pricing: what every row and every candidate says of a machine found on few of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.kernels.gram import ColumnCache, Gram, as_indices
from kernlet.lp.problem import L1Margin, MarginSolution, Status
from kernlet.lp.simplex import RestrictedLP, Vertex, check_finite

STORE_BYTES = 2 * 2**30


@dataclass(frozen=True, eq=False)
class Machine:
    """The nonzero part of a primal-dual pair: centers with coefficients, rows with duals.

    Parameters
    ----------
    centers, coef : ndarray of shape (m2,)
    intercept : float
    rows, signed_duals : ndarray of shape (m1,)
        ``signed_duals`` is d_i t_i.
    """

    centers: Indices
    coef: Floats
    intercept: float
    rows: Indices
    signed_duals: Floats


class Pricer:
    """Evaluates f(x_i) for all rows and sum_i K_ij d_i t_i for all candidates.

    The fast prices use float32 kernel columns, computed once for each point that ever takes
    part in a machine and kept in a :class:`ColumnCache`; the exact ones are float64 and keep
    nothing. Where float32 does not do, :class:`Gram` makes the fast prices float64 too.

    Time for a fast pricing is n_rows * (m1 + m2) once the columns are there; memory is
    4 n_rows bytes for each point that ever took part, at most ``max_bytes``.

    Parameters
    ----------
    gram : Gram
        The kernel in float64, rows x candidates.
    max_bytes : int
        Memory for kernel columns.
    """

    def __init__(self, gram: Gram, max_bytes: int = STORE_BYTES) -> None:
        self.gram = gram
        Z = None if gram.is_square else gram.z.X
        fast = Gram(gram.kernel, gram.x.X, Z, dtype=np.float32, hold=True)
        self._columns = ColumnCache(fast, max_bytes if gram.is_square else max_bytes // 2)
        self._rows = None if gram.is_square else ColumnCache(fast.T, max_bytes // 2)

    def fast(self, machine: Machine) -> tuple[Floats, Floats]:
        """Decision values of all rows and correlations of all candidates, nearly."""
        if self._rows is None:
            points = np.union1d(machine.centers, machine.rows)
            weights = np.zeros((len(points), 2))
            weights[np.searchsorted(points, machine.centers), 0] = machine.coef
            weights[np.searchsorted(points, machine.rows), 1] = machine.signed_duals
            values, correlations = self._columns.combine(points, weights)
        else:
            (values,) = self._columns.combine(machine.centers, machine.coef[:, None])
            (correlations,) = self._rows.combine(machine.rows, machine.signed_duals[:, None])
        return values + machine.intercept, correlations

    def exact(self, machine: Machine) -> tuple[Floats, Floats]:
        """The same in float64, every kernel value computed anew: what certificates rest on."""
        values = self.gram.dot(machine.coef, machine.centers) + machine.intercept
        return values, self.gram.T.dot(machine.signed_duals, machine.rows)

    def exact_values(self, machine: Machine, rows: Indices) -> Floats:
        """Decision values of a few rows in float64."""
        return self.gram.dot(machine.coef, machine.centers, rows) + machine.intercept

    def exact_correlations(self, machine: Machine, candidates: Indices) -> Floats:
        """Correlations of a few candidates in float64."""
        return self.gram.T.dot(machine.signed_duals, machine.rows, candidates)


_EXACT = 1e-9  # a violation this small in float64 is none
_NOTHING = (as_indices([]), as_indices([]))


@dataclass(frozen=True)
class Progress:
    """Where a generation stands after a round."""

    round: int
    machine: Machine
    gap: float


Report = Callable[[Progress], bool]


class Generation:
    """Solves an :class:`L1Margin` over few rows and centers at a time, to the full optimum.

    A small program over a working set is solved; all rows and all candidates are priced
    against its answer; the most violated rows and centers enter, those long inactive leave,
    and the simplex method restarts from the basis at hand. The kernel matrix is never
    stored: see :class:`~kernlet.lp.generation.Pricer` for what is. When float32 prices
    show no violation beyond their measured error, the doubtful ones are looked at in
    float64, and at the end everything is priced in float64: that is the certificate.

    Time is dominated by the simplex method on a program of m1 + m2 active rows and centers,
    not by n_rows; each round adds n_rows * (m1 + m2) for pricing.

    Parameters
    ----------
    problem : L1Margin
    random_state : RandomState
        Draws the first working set.
    row_batch, center_batch : int
        How many enter in a round, at most.
    max_bytes : int
        Memory for kernel columns.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.rbf import RBF
    >>> from kernlet.kernels.gram import Gram
    >>> from kernlet.lp.problem import L1Margin
    >>> from kernlet.lp.generation import Generation
    >>> X = np.random.RandomState(0).randn(500, 2)
    >>> signs = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    >>> problem = L1Margin(Gram(RBF(1.0), X), signs, np.full(500, 3.0), np.ones(500))
    >>> solution = Generation(problem, np.random.RandomState(0)).solve()
    >>> solution.gap < 1e-9, len(solution.centers) < 60
    (True, True)
    """

    def __init__(
        self,
        problem: L1Margin,
        random_state: np.random.RandomState,
        *,
        row_batch: int = 300,
        center_batch: int = 40,
        max_bytes: int = STORE_BYTES,
    ) -> None:
        self.problem = problem
        self.pricer = Pricer(problem.gram, max_bytes)
        self.lp = RestrictedLP(problem)
        self.row_batch, self.center_batch = row_batch, center_batch
        n_rows, n_candidates = problem.gram.shape
        self._rows_at_rest = _Patience(n_rows)
        self._centers_at_rest = _Patience(n_candidates)
        rows = _some_of_each_sign(problem.signs, row_batch, random_state)
        centers = rows if problem.gram.is_square else random_state.permutation(n_candidates)
        self.lp.add(rows, centers[:center_batch])

    def reweight(self, problem: L1Margin) -> None:
        """Take on the same machine with other costs, keeping the working set and its basis."""
        self.problem = problem
        self.lp.reweight(problem)

    def certified(self, solution: MarginSolution) -> MarginSolution:
        """A solution found without a certificate, with the objective and bound of float64."""
        signed_duals = self.problem.signs[solution.rows] * solution.duals
        machine = Machine(
            solution.centers, solution.coef, solution.intercept, solution.rows, signed_duals
        )
        prices = _Prices(self.problem, machine, *self.pricer.exact(machine))
        return prices.solution(solution.n_iter, solution.status)

    def solve(
        self,
        *,
        tol: float = _EXACT,
        max_iter: int | None = None,
        certify: bool = True,
        report: Report | None = None,
    ) -> MarginSolution:
        """Solve to a relative duality gap of ``tol``.

        Parameters
        ----------
        tol : float
        max_iter : int or None
            Simplex iterations allowed; when they are used up, the answer so far is returned
            with its true gap.
        certify : bool
            Price everything in float64 at the end. Without it the gap is a float32 estimate.
        report : callable, optional
            Told of each round; a true answer stops the generation there.
        """
        start, number = self.lp.n_iter, 0
        while True:
            left = None if max_iter is None else max(0, max_iter - (self.lp.n_iter - start))
            vertex = self.lp.solve(left)
            status: Status = vertex.status
            prices = self._fast_prices(vertex)
            number += 1
            if report is not None and report(Progress(number, prices.machine, prices.gap)):
                status = "stopped"
            rows, centers = _NOTHING
            if status == "optimal" and prices.gap > tol:
                rows, centers = self._violated(vertex, prices)
            if certify and not len(rows) and not len(centers):
                prices = self._exact_prices(self.lp.polished(vertex))
                if status == "optimal" and prices.gap > tol:
                    rows, centers = self._outside(*prices.violated(_EXACT, _EXACT))
            if not len(rows) and not len(centers):
                return prices.solution(self.lp.n_iter - start, status)
            self._exchange(vertex, prices, rows, centers)

    def _fast_prices(self, vertex: Vertex) -> _Prices:
        machine = self._machine(vertex)
        return _Prices(self.problem, machine, *self.pricer.fast(machine))

    def _exact_prices(self, vertex: Vertex) -> _Prices:
        machine = self._machine(vertex)
        return _Prices(self.problem, machine, *self.pricer.exact(machine))

    def _machine(self, vertex: Vertex) -> Machine:
        """The answer of the restricted program, with t made feasible but for the kernel."""
        spread = np.zeros(self.problem.gram.shape[0])
        spread[self.lp.rows] = vertex.duals
        duals = self.problem.balanced(spread)
        rows = np.flatnonzero(duals)
        order = np.argsort(self.lp.centers)
        order = order[vertex.coef[order] != 0]
        return Machine(
            centers=self.lp.centers[order],
            coef=vertex.coef[order],
            intercept=vertex.intercept,
            rows=rows,
            signed_duals=self.problem.signs[rows] * duals[rows],
        )

    def _violated(self, vertex: Vertex, prices: _Prices) -> tuple[Indices, Indices]:
        """Rows and centers outside the working set that the machine violates.

        The error of the fast prices is measured where the restricted program knows the
        exact ones. Only when nothing is violated beyond it are doubtful prices recomputed.
        """
        row_error = _error(prices.margins[self.lp.rows], vertex.margins)
        center_error = _error(prices.correlations[self.lp.centers], vertex.correlations)
        rows, centers = self._outside(*prices.violated(row_error, center_error))
        if len(rows) or len(centers):
            return rows, centers
        rows, centers = self._outside(*prices.violated(-row_error, -center_error))
        exact = prices.refined(self.pricer, rows, centers)
        violated_rows, violated_centers = exact.violated(_EXACT, _EXACT)
        return np.intersect1d(rows, violated_rows), np.intersect1d(centers, violated_centers)

    def _outside(self, rows: Indices, centers: Indices) -> tuple[Indices, Indices]:
        n_rows, n_candidates = self.problem.gram.shape
        return (
            rows[~_mask(self.lp.rows, n_rows)[rows]],
            centers[~_mask(self.lp.centers, n_candidates)[centers]],
        )

    def _exchange(self, vertex: Vertex, prices: _Prices, rows: Indices, centers: Indices) -> None:
        """Let the most violated in and those long inactive out."""
        self.lp.keep(
            self._rows_at_rest.has_patience(self.lp.rows, vertex.duals > 0),
            self._centers_at_rest.has_patience(self.lp.centers, vertex.coef != 0),
        )
        rows = _largest(rows, prices.margins, self.row_batch)
        centers = _largest(centers, prices.excesses, self.center_batch)
        self._rows_at_rest.welcome(rows)
        self._centers_at_rest.welcome(centers)
        self.lp.add(rows, centers)


class _Prices:
    """A machine with the prices of all rows and candidates."""

    def __init__(
        self, problem: L1Margin, machine: Machine, values: Floats, correlations: Floats
    ) -> None:
        check_finite(values)
        check_finite(correlations)
        self.problem, self.machine = problem, machine
        self.values, self.correlations = values, correlations
        self.margins = 1.0 - problem.signs * values
        self.excesses = np.abs(correlations) - problem.coef_weights

    @property
    def objective(self) -> float:
        penalty = self.problem.coef_weights[self.machine.centers] @ np.abs(self.machine.coef)
        return float(self.problem.error_weights @ self.problem.slacks(self.values) + penalty)

    @property
    def bound(self) -> float:
        return self.problem.bound(np.abs(self.machine.signed_duals), self.correlations)

    @property
    def gap(self) -> float:
        objective = self.objective
        return (objective - self.bound) / objective if objective > 0 else 0.0

    def violated(self, row_tolerance: float, center_tolerance: float) -> tuple[Indices, Indices]:
        """Rows short of the margin and centers over their limit, by more than a tolerance."""
        rows = (self.margins > row_tolerance) & (self.problem.error_weights > 0)
        return np.flatnonzero(rows), np.flatnonzero(self.excesses > center_tolerance)

    def refined(self, pricer: Pricer, rows: Indices, centers: Indices) -> _Prices:
        """The same prices, those of a few rows and candidates in float64."""
        values, correlations = self.values.copy(), self.correlations.copy()
        values[rows] = pricer.exact_values(self.machine, rows)
        correlations[centers] = pricer.exact_correlations(self.machine, centers)
        return _Prices(self.problem, self.machine, values, correlations)

    def solution(self, n_iter: int, status: Status) -> MarginSolution:
        """The machine as a solution, with the objective and bound of these prices."""
        machine = self.machine
        return MarginSolution(
            centers=machine.centers,
            coef=machine.coef,
            intercept=machine.intercept,
            rows=machine.rows,
            duals=np.abs(machine.signed_duals),
            slacks=self.problem.slacks(self.values),
            objective=self.objective,
            bound=self.bound,
            n_iter=n_iter,
            status=status,
        )


class _Patience:
    """How long each member of a working set may stay inactive: longer at each return.

    The growing patience is what keeps deletion from going round in circles.
    """

    def __init__(self, n: int, rounds: int = 2) -> None:
        self._idle = np.zeros(n, dtype=np.int32)
        self._limit = np.full(n, rounds, dtype=np.int32)

    def has_patience(self, members: Indices, active: Any) -> Any:
        """Count a round, and say which members may stay."""
        self._idle[members] = np.where(active, 0, self._idle[members] + 1)
        return self._idle[members] < self._limit[members]

    def welcome(self, members: Indices) -> None:
        """Let members in, for one round longer than last time."""
        self._idle[members] = 0
        self._limit[members] += 1


def _error(fast: Floats, exact: Floats) -> float:
    """What fast prices may be off by elsewhere, seeing what they are off by here."""
    return float(4 * np.abs(fast - exact).max(initial=0.0) + _EXACT)


def _mask(members: Indices, n: int) -> Any:
    mask = np.zeros(n, dtype=bool)
    mask[members] = True
    return mask


def _largest(members: Indices, values: Floats, count: int) -> Indices:
    """The ``count`` members of largest value."""
    if len(members) <= count:
        return members
    return members[np.argpartition(-values[members], count)[:count]]


def _some_of_each_sign(signs: Floats, count: int, random_state: np.random.RandomState) -> Indices:
    """A random choice of rows, half of each sign where there are enough; mixed order."""
    order = random_state.permutation(len(signs))
    halves = [order[signs[order] == sign][: count // 2] for sign in (1, -1)]
    return random_state.permutation(np.concatenate(halves))

"""Newton's method for the squared hinge: over a kernel matrix, or landmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from kernlet._typing import Floats, Indices
from kernlet.kernels.gram import LandmarkBlocks, as_indices
from kernlet.kernels.linalg import jittered_solve
from kernlet.squared.problem import OVERFLOW, Solution, SquaredMargin, Status

# How this works
# --------------
# The squared hinge is piecewise quadratic: with the rows A that have an error now held fixed, the
# objective is a quadratic, and a Newton step goes to its minimum. When A is the same there, that is
# the optimum. Five to twenty steps are typical, whatever the number of rows (Mangasarian's finite
# Newton method; Chapelle, "Training a support vector machine in the primal", 2007). Steps that
# overshoot are halved until the objective is lower, which ensures convergence.
#
# The two variants differ in what a linear system costs:
#   minimize_matrix     the kernel matrix, coefficients over the rows of A: |A|^3 per step
#   LandmarkNewton      features of a landmark basis, many outputs at once, blocks of rows: the
#                       Hessian is updated by the rows that entered or left A only
#
# Duality gap. For any (w, b) the slacks give a dual point a_i = c_i slack_i, and P - D is
# 1/2 |(w, b) - sum_i a_i d_i (f(x_i), 1)|^2: half the squared gradient, in feature space.

_SUFFICIENT_DECREASE = 1e-4  # of what the gradient promises: Armijo's rule
_FEW_ROWS = 1000  # below, a system of all rows is cheap
_ROUGH_GAP, _ROUGH_STEPS = 1e-2, 10  # of a start by half of the rows
_TINY = 1e-300  # added where a zero would be divided by


def halve_until(is_accepted: Callable[[float], bool], length: float = 1.0, n: int = 40) -> float:
    """The first of n step lengths, each half of the one before, that is accepted; 0 for none."""
    for _ in range(n):
        if is_accepted(length):
            return length
        length /= 2.0
    return 0.0


def _status(is_optimal: bool, is_stuck: bool) -> Status:
    return "optimal" if is_optimal else "rounding" if is_stuck else "iteration limit"


def minimize_matrix(
    problem: SquaredMargin, K: Floats, *, tol: float = 1e-8, max_iter: int = 1000
) -> Solution:
    """Solve a :class:`SquaredMargin` given its whole kernel matrix K.

    With the rows A that have an error fixed, (K_AA + 1 - F_A F_A' + 1/c) coef_A = d_A and the other
    coefficients are zero. The gap is 1/2 e'(K + 1 - F F')e / P with e = coef - c slack d.
    """
    signs = problem.signs
    coef = _start(problem, K)
    values = _image(problem, K, coef)
    objective, gap = _judge(problem, K, coef, values)
    n_iter, length = 0, 1.0
    while not gap <= tol and n_iter < max_iter:
        n_iter += 1
        target = _fixed_rows_solution(problem, K, np.flatnonzero(signs * values < 1.0))
        step, change = target - coef, _image(problem, K, target) - values

        def is_lower(t: float) -> bool:
            point, there = coef + t * step, values + t * change  # noqa: B023
            return problem.objective(float(point @ there), there) < objective  # noqa: B023

        length = halve_until(is_lower)
        if not length:  # round-off
            break
        coef, values = coef + length * step, values + length * change
        objective, gap = _judge(problem, K, coef, values)
    support = np.flatnonzero(coef)
    return Solution(
        rows=support,
        coef=coef[support],
        intercept=float(coef.sum()),
        gap=gap,
        n_iter=n_iter,
        status=_status(gap <= tol, not length),
        objective=objective,
        values=values,
    )


def _start(problem: SquaredMargin, K: Floats) -> Floats:
    """A rough solution of every other row, at twice the costs; zeros for few rows.

    At zero every row has an error, and the first system would be as large as the data. Near the
    solution, only the support vectors have one (Chapelle 2007, section 4.1).
    """
    coef: Floats = np.zeros(problem.n_rows)
    if problem.n_rows < _FEW_ROWS:
        return coef
    half = np.arange(0, problem.n_rows, 2)
    part = replace(problem.subset(half), costs=2.0 * problem.costs[half])
    rough = minimize_matrix(part, K[::2, ::2], tol=_ROUGH_GAP, max_iter=_ROUGH_STEPS)
    coef[half[rough.rows]] = rough.coef
    return coef


def _image(problem: SquaredMargin, K: Floats, coef: Floats) -> Floats:
    """(K + 1 - F F') coef."""
    support = np.flatnonzero(coef)
    weights = coef[support]
    # lines of a symmetric matrix: contiguous, where columns are not
    values = weights @ K[support] + weights.sum()
    return problem.deflate(values, slice(None), support, weights)


def _fixed_rows_solution(problem: SquaredMargin, K: Floats, rows: Indices) -> Floats:
    """The coefficients that are optimal if exactly these rows have an error."""
    matrix = K[np.ix_(rows, rows)] + 1.0
    if problem.features is not None:
        F = problem.features[rows]
        matrix -= F @ F.T  # of one array: numpy computes one triangle
    matrix[np.diag_indices_from(matrix)] += problem.ridge[rows]
    coef = np.zeros(problem.n_rows)
    try:
        coef[rows] = jittered_solve(matrix, problem.signs[rows], _TINY)
    except ValueError as error:
        raise ValueError(
            "Kernel values times C exhaust double precision, or the kernel is not positive "
            "semi-definite. Scale the features, or lower C."
        ) from error
    return coef


def _judge(problem: SquaredMargin, K: Floats, coef: Floats, values: Floats) -> tuple[float, float]:
    """Objective and relative duality gap."""
    slacks = np.maximum(0.0, 1.0 - problem.signs * values)
    residual = coef - problem.costs * slacks * problem.signs
    objective = problem.objective(float(coef @ values), values)
    gap = 0.5 * float(residual @ _image(problem, K, residual)) / max(objective, _TINY)
    if not np.isfinite([objective, gap]).all():
        raise ValueError(OVERFLOW)
    return objective, max(0.0, gap)


#: Sums of squares up to this leave float32 a digit of the penalty.
FLOAT32_LARGEST_COST = 1e6


class LandmarkNewton:
    """Newton's method for many outputs over one landmark basis, in passes over blocks of rows.

    1/2 (|w|^2 + b^2) + 1/2 sum_i c_i max(0, 1 - d_i (w.x_i + b))^2, with w orthogonal to the
    earlier directions U of its output. Hessians are kept from pass to pass and from one U to the
    next. Steps are computed in float32 where the costs allow it, gradients and with them the gap
    in the precision of the blocks. A pass costs n_rows n_landmarks per output, n_landmarks^2 per
    row that entered or left the active rows, and n_landmarks^3 per output. Memory is 25 bytes per
    row and output, and 4 or 8 n_landmarks^2 per output.
    """

    def __init__(self, blocks: LandmarkBlocks, signs: Floats, costs: Floats) -> None:
        self.blocks, self.signs, self.costs = blocks, signs, costs
        self.roots = np.sqrt(costs)
        is_small = float(costs.sum()) <= FLOAT32_LARGEST_COST
        self.dtype = np.dtype(np.float32 if is_small else np.float64)
        size = blocks.rank + 1
        self._squares = np.zeros((len(signs), size, size), self.dtype)  # Hessian less identity
        self._is_active = np.zeros(signs.shape, dtype=bool)
        self.squared_norms = np.full(blocks.n_rows, np.nan)  # of the rows, found in a first pass

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused
    def solve(
        self,
        earlier: list[Floats],
        *,
        start: Floats | None = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
    ) -> list[Solution]:
        """Solve all outputs; ``coef`` are weights in the basis, ``n_iter`` the passes of all.

        ``earlier`` has U for each output, of shape (rank, n_directions) with orthonormal columns;
        ``start`` weights and intercepts, of shape (n_outputs, rank + 1).
        """
        states = [_State(U, self.blocks.n_rows, self.blocks.rank) for U in earlier]
        for number, trial in enumerate(self._first_trials(states) if start is None else start):
            states[number].trial = trial
        outputs = list(range(len(states)))
        n_iter = 0
        while outputs and n_iter < max_iter:
            n_iter += 1
            self._pass(states, outputs)
            for number in outputs:
                state = states[number]
                if not state.is_lower():
                    state.backtrack(self.signs[number], self.costs)
                    continue
                state.accept()
                state.is_done = state.gap <= tol
                if not state.is_done:
                    state.trial = state.point + self._step(state, number, state.gradient)
            outputs = [number for number in outputs if not states[number].is_done]
        return [state.solution(n_iter, tol) for state in states]

    def summand_norms(self, solutions: list[Solution]) -> Floats:
        """sum_i c_i slack_i |x_i| per output: the weights are what of this does not cancel."""
        slacks = (
            np.maximum(0.0, 1.0 - signs * solution.values)
            for signs, solution in zip(self.signs, solutions, strict=True)
        )
        return np.array([(self.costs * s) @ np.sqrt(self.squared_norms) for s in slacks])

    def _first_trials(self, states: list[_State]) -> list[Floats]:
        """The minima for the rows active now, or for all rows where none is: least squares."""
        if not self._is_active.any():
            self._squares[:] = sum(self._square(b, self.roots[rows]) for rows, b in self.blocks)
            self._is_active[:] = True
        pulls = self.costs * self.signs * self._is_active
        total = sum(block.T @ pulls[:, rows].T for rows, block in self.blocks)
        gradients = -np.asarray(total, dtype=np.float64)
        return [
            self._step(state, k, state.project(gradients[:, k])) for k, state in enumerate(states)
        ]

    def _step(self, state: _State, number: int, gradient: Floats) -> Floats:
        """A Newton step; in float64 from now on where float32 has no Cholesky factor."""
        try:
            return state.newton_step(self._squares[number].copy(), gradient)
        except LinAlgError as error:
            if self.dtype == np.float64:
                raise ValueError(
                    "Kernel values times C exhaust double precision: nothing is left of the "
                    "penalty. Scale the features, or lower C."
                ) from error
        self.dtype = np.dtype(np.float64)
        self._squares = np.zeros(self._squares.shape)
        for rows, block in self.blocks:
            for k, active in enumerate(self._is_active[:, rows]):
                self._squares[k] += self._square(block[active], self.roots[rows][active])
        return self._step(state, number, gradient)

    def _square(self, block: Floats, roots: Floats) -> Floats:
        """sum_i c_i x_i x_i'."""
        weighted = block.astype(self.dtype) * roots.astype(self.dtype)[:, None]
        return np.asarray(weighted.T @ weighted)

    def _pass(self, states: list[_State], outputs: list[int]) -> None:
        """Values, gradients and Hessians at the trial points, in one pass over the blocks."""
        trials = np.array([states[number].trial for number in outputs]).T
        gradients = np.zeros_like(trials)
        losses = np.zeros(len(outputs))
        for rows, block in self.blocks:
            if np.isnan(self.squared_norms[rows.start]):
                points = block[:, :-1]
                self.squared_norms[rows] = np.einsum("ij,ij->i", points, points)
            values = block @ trials.astype(block.dtype, copy=False)
            signs = self.signs[np.array(outputs), rows].T
            slacks = np.maximum(0.0, 1.0 - signs * values)
            weighted = self.costs[rows, None] * slacks
            losses += np.einsum("ij,ij->j", weighted, slacks)
            weighted *= signs
            gradients -= block.T @ weighted.astype(block.dtype, copy=False)
            for place, number in enumerate(outputs):
                states[number].trial_values[rows] = values[:, place]
                self._update_active(number, rows, block, slacks[:, place] > 0)
        norms = np.array([states[number].trial @ states[number].trial for number in outputs])
        if not (np.isfinite(gradients).all() and np.isfinite(norms + losses).all()):
            raise ValueError(OVERFLOW)
        for place, number in enumerate(outputs):
            state = states[number]
            state.trial_gradient = state.project(state.trial + gradients[:, place])
            state.trial_objective = 0.5 * float(norms[place] + losses[place])

    def _update_active(
        self, number: int, rows: slice, block: Floats, active: NDArray[np.bool_]
    ) -> None:
        """Add the rows that entered to the Hessian and subtract those that left."""
        before = self._is_active[number, rows]
        for change, update in ((active & ~before, np.add), (before & ~active, np.subtract)):
            places = np.flatnonzero(change)
            if len(places):
                square = self._square(block[places], self.roots[rows][places])
                update(self._squares[number], square, out=self._squares[number])
        self._is_active[number, rows] = active


class _State:
    """The search of one output: the last accepted point, and a trial point.

    Gradients are projected: the part along the earlier directions would only cost digits.
    """

    def __init__(self, earlier: Floats, n_rows: int, rank: int) -> None:
        self.earlier = np.vstack([earlier, np.zeros((1, earlier.shape[1]))])  # free intercept
        self.point: Floats = np.zeros(rank + 1)
        self.values: Floats = np.zeros(n_rows)
        self.gradient: Floats = np.zeros(rank + 1)
        self.objective = self.gap = np.inf
        self.is_done = False
        self.trial: Floats = np.zeros(rank + 1)
        self.trial_values: Floats = np.zeros(n_rows)
        self.trial_gradient: Floats = np.zeros(rank + 1)
        self.trial_objective = np.inf

    def project(self, vector: Floats) -> Floats:
        """The part orthogonal to the earlier directions."""
        return vector - self.earlier @ (self.earlier.T @ vector)

    def newton_step(self, hessian: Floats, gradient: Floats) -> Floats:
        """The step to the minimum of the quadratic; the Hessian of the slacks is overwritten."""
        hessian[np.diag_indices_from(hessian)] += 1.0  # of the penalty
        sides = np.column_stack([gradient, self.earlier]).astype(hessian.dtype)
        factor = cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
        solved = cho_solve(factor, sides, check_finite=False).astype(np.float64)
        step, sides = -solved[:, 0], solved[:, 1:]
        if sides.shape[1]:
            step -= sides @ np.linalg.solve(self.earlier.T @ sides, self.earlier.T @ step)
        return self.project(step)

    def is_lower(self) -> bool:
        """Whether the trial point lowers the objective enough.

        Where the objective is equal to round-off, the gradient still tells.
        """
        if not np.isfinite(self.objective):
            return True
        before, after = self.gradient @ self.gradient, self.trial_gradient @ self.trial_gradient
        if self.trial_objective <= self.objective * (1.0 + 1e-13) and after < 0.25 * before:
            return True
        promised = float(self.gradient @ (self.trial - self.point))
        return self.trial_objective <= self.objective + _SUFFICIENT_DECREASE * promised

    def accept(self) -> None:
        """Go to the trial point."""
        self.point, self.objective = self.trial, self.trial_objective
        self.values, self.trial_values = self.trial_values, self.values
        self.gradient = self.trial_gradient
        self.gap = 0.5 * float(self.gradient @ self.gradient) / max(self.objective, _TINY)

    def backtrack(self, signs: Floats, costs: Floats) -> None:
        """Halve the step, without a pass: values are linear in it. Ends where none is lower."""
        step = self.trial - self.point
        change = self.trial_values - self.values
        promised = float(self.gradient @ step)

        def is_accepted(t: float) -> bool:
            point = self.point + t * step
            slacks = np.maximum(0.0, 1.0 - signs * (self.values + t * change))
            objective = 0.5 * (float(point @ point) + float(costs @ slacks**2))
            return objective <= self.objective + _SUFFICIENT_DECREASE * t * promised

        length = halve_until(is_accepted, 0.5, 30)
        self.is_done = not length  # round-off
        self.trial = self.point + length * step

    def solution(self, n_iter: int, tol: float) -> Solution:
        """The last accepted point."""
        return Solution(
            rows=as_indices([]),
            coef=self.point[:-1],
            intercept=float(self.point[-1]),
            gap=self.gap,
            n_iter=n_iter,
            status=_status(self.gap <= tol, self.is_done),
            objective=self.objective,
            values=self.values,
        )

"""Newton's method for the squared hinge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from kernlet._typing import Floats, Indices
from kernlet.kernels.landmarks import LandmarkBlocks
from kernlet.kernels.linalg import jittered_solve
from kernlet.squared.problem import OVERFLOW, SquaredHinge


@dataclass(frozen=True, eq=False)
class NewtonSolution:
    """Weights and intercept, with the gradient that is left.

    Parameters
    ----------
    weights : ndarray of shape (n_centers,)
    intercept : float
    objective : float
    gradient_norm : float
        Largest entry of the gradient against that at zero.
    decrement : float
        What the next Newton step promises to take off the objective, against the objective:
        the certificate.
    n_iter : int
    """

    weights: Floats
    intercept: float
    objective: float
    gradient_norm: float
    decrement: float
    n_iter: int


def solve_squared_hinge(
    problem: SquaredHinge, *, tol: float = 1e-8, max_iter: int = 100
) -> NewtonSolution:
    """Minimise a :class:`SquaredHinge` by Newton steps with a line search.

    The objective is piecewise quadratic: a step solves it exactly for the rows with an error
    now. Each step costs n_rows * n_centers^2.

    Parameters
    ----------
    problem : SquaredHinge
    tol : float
        Newton decrement against the objective, and gradient against that at zero, to reach.
    max_iter : int

    Returns
    -------
    solution : NewtonSolution
    """
    point: Floats = np.zeros(problem.features.shape[1] + 1)
    scale = max(np.abs(problem.gradient(point)).max(), np.finfo(float).tiny)
    for n_iter in range(max_iter + 1):
        slope = problem.gradient(point)
        step = _newton_step(problem, point, slope)
        objective = problem.objective(point)
        decrement = float(-slope @ step) / (2.0 * objective) if objective > 0 else 0.0
        norm = float(np.abs(slope).max() / scale)
        if max(decrement, norm) <= tol or n_iter == max_iter:
            break
        following = _line_search(problem, point, step, slope)
        if following is point:  # rounding: no step lowers the objective any more
            break
        point = following
    return NewtonSolution(point[:-1], float(point[-1]), objective, norm, decrement, n_iter)


def _newton_step(problem: SquaredHinge, point: Floats, slope: Floats) -> Floats:
    active = problem.errors(point) > 0
    rows = problem.features[active]
    weighted = rows * problem.error_weights[active, None]
    n = len(point)
    hessian = np.zeros((n, n))
    hessian[:-1, :-1] = problem.penalty + weighted.T @ rows
    hessian[:-1, -1] = hessian[-1, :-1] = weighted.sum(axis=0)
    hessian[-1, -1] = problem.error_weights[active].sum()
    return -jittered_solve(hessian, slope, max(1e-15 * np.trace(hessian) / n, 1e-300))


def _line_search(problem: SquaredHinge, point: Floats, step: Floats, slope: Floats) -> Floats:
    """The first of 1, 1/2, 1/4, ... that lowers the objective enough."""
    start = problem.objective(point)
    promised = float(slope @ step)
    length = 1.0
    for _ in range(40):
        trial = point + length * step
        if problem.objective(trial) <= start + 1e-4 * length * promised:
            return trial
        length /= 2.0
    return point


_NO_DIGITS = (
    "Kernel values times C leave no digits, or the kernel is not positive semi-definite. Scale the "
    "features, or lower C."
)


@dataclass(frozen=True, eq=False)
class DeflatedSolution:
    """A machine w = sum_i coef_i f(x_i), less its part in the directions taken off.

    Parameters
    ----------
    coef : ndarray of shape (n_rows,)
        Their sum is the intercept.
    values : ndarray of shape (n_rows,)
        w.f(x_i) + intercept.
    objective : float
    gap : float
        Relative duality gap: the certificate.
    n_iter : int
        Linear systems solved.
    """

    coef: Floats
    values: Floats
    objective: float
    gap: float
    n_iter: int


def solve_deflated(
    K: Floats,
    signs: Floats,
    costs: Floats,
    images: Floats,
    *,
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> DeflatedSolution:
    """Solve an :class:`~kernlet.squared.problem.EnclosingBall` given its whole matrix.

    On the rows A with an error now the answer is (K_AA + 1 - F_A F_A' + 1/c) beta_A = d_A, and
    beta is 0 elsewhere. A step goes there, or half, a quarter, ... of the way. With
    e = beta - c slack d the duality gap is 1/2 e' (K + 1 - F F') e.

    Time is the cube of the rows with an error, for each of five to twenty steps.

    Parameters
    ----------
    K : ndarray of shape (n_rows, n_rows)
    signs, costs : ndarrays of shape (n_rows,)
    images : ndarray of shape (n_rows, n_directions)
        F.
    tol : float, default=1e-8
        Relative duality gap to reach.
    max_iter : int, default=1000

    Returns
    -------
    solution : DeflatedSolution
    """
    problem = _Deflated(K, signs, costs, images)
    coef: Floats = np.zeros(len(signs))
    values: Floats = np.zeros(len(signs))
    objective, gap = problem.judge(coef, values)
    n_iter = 0
    while gap > tol and n_iter < max_iter:
        n_iter += 1
        target = problem.answer(np.flatnonzero(signs * values < 1.0))
        following = problem.on_the_way(coef, values, target, problem.image(target), objective)
        if following is None:  # rounding
            break
        coef, values = following
        objective, gap = problem.judge(coef, values)
    return DeflatedSolution(coef, values, objective, gap, n_iter)


@dataclass(frozen=True, eq=False)
class _Deflated:
    K: Floats
    signs: Floats
    costs: Floats
    images: Floats

    def image(self, coef: Floats) -> Floats:
        """(K + 1 - F F') coef."""
        some = np.flatnonzero(coef)
        part = coef[some]
        taken = self.images @ (self.images[some].T @ part)
        # lines of a symmetric matrix: contiguous, where columns are not
        return part @ self.K[some] + part.sum() - taken

    def answer(self, some: Indices) -> Floats:
        """The coefficients of the rows with an error, if they are these."""
        F = self.images[some]
        matrix = self.K[np.ix_(some, some)] + 1.0 - F @ F.T
        matrix[np.diag_indices_from(matrix)] += 1.0 / self.costs[some]
        coef = np.zeros(len(self.K))
        try:
            coef[some] = jittered_solve(matrix, self.signs[some], 1e-300)
        except ValueError as error:
            raise ValueError(_NO_DIGITS) from error
        return coef

    def objective(self, coef: Floats, values: Floats) -> float:
        slacks = np.maximum(0.0, 1.0 - self.signs * values)
        return 0.5 * float(coef @ values + self.costs @ slacks**2)

    def judge(self, coef: Floats, values: Floats) -> tuple[float, float]:
        """Objective and relative duality gap."""
        slacks = np.maximum(0.0, 1.0 - self.signs * values)
        left = coef - self.costs * slacks * self.signs
        objective = self.objective(coef, values)
        gap = 0.5 * float(left @ self.image(left)) / max(objective, 1e-300)
        if not np.isfinite([objective, gap]).all():
            raise ValueError(OVERFLOW)
        return objective, max(0.0, gap)

    def on_the_way(
        self, coef: Floats, values: Floats, target: Floats, image: Floats, objective: float
    ) -> tuple[Floats, Floats] | None:
        """The first of 1, 1/2, 1/4, ... of the way that is lower."""
        length = 1.0
        for _ in range(40):
            point = coef + length * (target - coef)
            there = values + length * (image - values)
            if self.objective(point, there) < objective:
                return point, there
            length /= 2.0
        return None


_NO_DIGITS_LANDMARK_NEWTON = (
    "Kernel values times C leave no digits for the penalty. Scale the features, or lower C."
)
FEW_DIGITS_DO = 1e6  # sums of squares up to this leave float32 a digit of the penalty


@dataclass(frozen=True, eq=False)
class NewtonDirections:
    """One machine an output, in the coordinates of the landmarks' span.

    Parameters
    ----------
    weights : ndarray of shape (n_outputs, rank)
    intercept : ndarray of shape (n_outputs,)
    objective : ndarray of shape (n_outputs,)
    gap : ndarray of shape (n_outputs,)
        Relative duality gap: the certificate.
    sizes : ndarray of shape (n_outputs,)
        sum_i c_i slack_i |x_i|, of which the weights are what does not cancel.
    n_iter : int
        Passes over the rows.
    """

    weights: Floats
    intercept: Floats
    objective: Floats
    gap: Floats
    sizes: Floats
    n_iter: int


class LandmarkNewton:
    """Minimises 1/2 (|w|^2 + b^2) + 1/2 sum c max(0, 1 - d (w.x + b))^2, w orthogonal to U.

    The objective is piecewise quadratic: a Newton step solves it exactly for the rows with an
    error now. The sums of squares over these rows are kept from pass to pass and from one set of
    directions U to the next; a pass adds and takes off the rows that changed sides. With
    v = sum_i c_i slack_i d_i x_i, less what it has in U, the duality gap at any point is
    1/2 |w - v|^2, half the squared gradient. Steps are computed in float32 where that leaves
    digits enough; slopes, and with them the gap, in the precision of the blocks.

    A pass costs n_rows * n_landmarks operations for each output, n_landmarks^2 for each row
    that changed sides, and n_landmarks^3. Memory is 25 bytes a row and output, 16 bytes a row,
    and 4 or 8 n_landmarks^2 an output.

    Parameters
    ----------
    blocks : LandmarkBlocks
    signs : ndarray of shape (n_outputs, n_rows)
    costs : ndarray of shape (n_rows,)
    """

    def __init__(self, blocks: LandmarkBlocks, signs: Floats, costs: Floats) -> None:
        self.blocks, self.signs, self.costs = blocks, signs, costs
        self.roots = np.sqrt(costs)
        is_short = float(costs.sum()) <= FEW_DIGITS_DO
        self.dtype = np.dtype(np.float32 if is_short else np.float64)
        self._squares = np.zeros((len(signs), blocks.rank + 1, blocks.rank + 1), self.dtype)
        self._is_active = np.zeros(signs.shape, dtype=bool)
        self._squared_lengths = np.full(blocks.n_rows, np.nan)

    def solve(
        self,
        taken: list[Floats],
        *,
        start: Floats | None = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
    ) -> NewtonDirections:
        """Find the machine of every output, orthogonal to what is taken.

        Parameters
        ----------
        taken : list of ndarrays of shape (rank, n_directions)
            For each output U, orthonormal columns.
        start : ndarray of shape (n_outputs, rank + 1) or None, default=None
            Weights and intercepts to start from; None for those of least squares.
        tol : float, default=1e-8
            Relative duality gap to reach.
        max_iter : int, default=1000
            Passes.

        Returns
        -------
        directions : NewtonDirections
        """
        states = [_State(U, self.blocks.n_rows, self.blocks.rank) for U in taken]
        for number, trial in enumerate(self._first_trials(states) if start is None else start):
            states[number].trial = trial
        outputs = list(range(len(states)))
        n_iter = 0
        while outputs and n_iter < max_iter:
            n_iter += 1
            self._pass(states, outputs)
            for number in outputs:
                self._judge(states[number], number, tol)
            outputs = [number for number in outputs if not states[number].is_done]
        points = np.array([state.point for state in states])
        return NewtonDirections(
            weights=points[:, :-1],
            intercept=points[:, -1],
            objective=np.array([state.objective for state in states]),
            gap=np.array([state.gap for state in states]),
            sizes=np.array([self._size(*pair) for pair in zip(states, self.signs, strict=True)]),
            n_iter=n_iter,
        )

    def _first_trials(self, states: list[_State]) -> list[Floats]:
        """The answers for the rows active now, or for all rows where none is."""
        if not self._is_active.any():
            self._squares[:] = sum(self._square(b, self.roots[rows]) for rows, b in self.blocks)
            self._is_active[:] = True
        pulls = self.costs * self.signs * self._is_active
        total = sum(block.T @ pulls[:, rows].T for rows, block in self.blocks)
        slopes = -np.asarray(total, dtype=np.float64)
        return [self._step(state, k, slopes[:, k]) for k, state in enumerate(states)]

    def _size(self, state: _State, signs: Floats) -> float:
        slacks = np.maximum(0.0, 1.0 - signs * state.values)
        return float((self.costs * slacks) @ np.sqrt(self._squared_lengths))

    def _step(self, state: _State, number: int, slope: Floats) -> Floats:
        """A Newton step; in float64 from now on where float32 has no digits for it."""
        try:
            return state.newton(self._hessian(number), slope)
        except LinAlgError as error:
            if self.dtype == np.float64:
                raise ValueError(_NO_DIGITS_LANDMARK_NEWTON) from error
        self.dtype = np.dtype(np.float64)
        self._squares = np.zeros(self._squares.shape)
        for rows, block in self.blocks:
            for k, active in enumerate(self._is_active[:, rows]):
                self._squares[k] += self._square(block[active], self.roots[rows][active])
        return self._step(state, number, slope)

    def _square(self, block: Floats, roots: Floats) -> Floats:
        """Of weighted rows."""
        weighted = block.astype(self.dtype) * roots.astype(self.dtype)[:, None]
        return np.asarray(weighted.T @ weighted)

    def _hessian(self, number: int) -> Floats:
        squares = self._squares[number].copy()
        squares[np.diag_indices_from(squares)] += 1.0
        return squares

    def _pass(self, states: list[_State], outputs: list[int]) -> None:
        """Values, slopes and sums of squares at the trial points, in one pass over the blocks."""
        some = np.array(outputs)
        vectors = np.array([states[number].trial for number in outputs]).T
        slopes = np.zeros_like(vectors)
        losses = np.zeros(len(outputs))
        for rows, block in self.blocks:
            if np.isnan(self._squared_lengths[rows.start]):
                part = block[:, :-1]
                self._squared_lengths[rows] = np.einsum("ij,ij->i", part, part)
            values = block @ vectors.astype(block.dtype, copy=False)
            signs = self.signs[some, rows].T
            errors = np.maximum(0.0, 1.0 - signs * values)
            weighted = self.costs[rows, None] * errors
            losses += np.einsum("ij,ij->j", weighted, errors)
            weighted *= signs
            slopes -= block.T @ weighted.astype(block.dtype, copy=False)
            for place, number in enumerate(outputs):
                states[number].trial_values[rows] = values[:, place]
                self._change_sides(number, rows, block, errors[:, place] > 0)
        if not (np.isfinite(slopes).all() and np.isfinite(losses).all()):
            raise ValueError(OVERFLOW)
        for place, number in enumerate(outputs):
            state = states[number]
            state.trial_slope = state.trial + slopes[:, place]
            norm = float(state.trial @ state.trial)
            state.trial_objective = 0.5 * (norm + float(losses[place]))

    def _change_sides(
        self, number: int, rows: slice, block: Floats, active: NDArray[np.bool_]
    ) -> None:
        before = self._is_active[number, rows]
        for change, update in ((active & ~before, np.add), (before & ~active, np.subtract)):
            places = np.flatnonzero(change)
            if len(places):
                square = self._square(block[places], self.roots[rows][places])
                update(self._squares[number], square, out=self._squares[number])
        self._is_active[number, rows] = active

    def _judge(self, state: _State, number: int, tol: float) -> None:
        """Take the trial point or go back towards the last one; then decide where to go next."""
        if not state.is_lower():
            state.trial = state.step_back(self.signs[number], self.costs)
            return
        state.accept()
        if state.gap <= tol:
            state.is_done = True
            return
        state.trial = state.point + self._step(state, number, state.slope)


class _State:
    """The search of one output."""

    def __init__(self, taken: Floats, n_rows: int, rank: int) -> None:
        self.taken = np.vstack([taken, np.zeros((1, taken.shape[1]))])  # the intercept is free
        self.point: Floats = np.zeros(rank + 1)
        self.values: Floats = np.zeros(n_rows)
        self.objective = np.inf
        self.slope: Floats = np.zeros(rank + 1)
        self.gap = np.inf
        self.is_done = False
        self.trial: Floats = np.zeros(rank + 1)
        self.trial_values: Floats = np.zeros(n_rows)
        self.trial_slope: Floats = np.zeros(rank + 1)
        self.trial_objective = np.inf

    def project(self, vector: Floats) -> Floats:
        """What is orthogonal to the directions taken."""
        return vector - self.taken @ (self.taken.T @ vector)

    def newton(self, hessian: Floats, slope: Floats) -> Floats:
        """The step to the lowest point of a quadratic among those orthogonal to what is taken."""
        # what the slope has in these directions changes nothing, but would cost digits
        sides = np.column_stack([self.project(slope), self.taken]).astype(hessian.dtype)
        factor = cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
        solved = cho_solve(factor, sides, check_finite=False).astype(np.float64)
        step, sides = -solved[:, 0], solved[:, 1:]
        if sides.shape[1]:
            step -= sides @ np.linalg.solve(self.taken.T @ sides, self.taken.T @ step)
        return self.project(step)

    def is_lower(self) -> bool:
        """Whether the trial point takes enough off the objective.

        Where the objective has no more digits to compare, the gradient has.
        """
        if not np.isfinite(self.objective):
            return True
        if self.trial_objective <= self.objective * (1.0 + 1e-13):
            before, after = self.project(self.slope), self.project(self.trial_slope)
            if after @ after < 0.25 * (before @ before):
                return True
        promised = float(self.project(self.slope) @ (self.trial - self.point))
        return self.trial_objective <= self.objective + 1e-4 * promised

    def accept(self) -> None:
        """Go to the trial point."""
        self.point, self.objective = self.trial, self.trial_objective
        self.values, self.trial_values = self.trial_values, self.values
        self.slope = self.trial_slope
        gradient = self.project(self.slope)
        self.gap = 0.5 * float(gradient @ gradient) / max(self.objective, 1e-300)

    def step_back(self, signs: Floats, costs: Floats) -> Floats:
        """A point on the way that is lower; the search ends where there is none."""
        way = self.trial - self.point
        move = self.trial_values - self.values
        promised = float(self.project(self.slope) @ way)
        length = 1.0
        for _ in range(30):
            length /= 2.0
            point = self.point + length * way
            errors = np.maximum(0.0, 1.0 - signs * (self.values + length * move))
            objective = 0.5 * (float(point @ point) + float(costs @ errors**2))
            if objective <= self.objective + 1e-4 * length * promised:
                return point
        self.is_done = True  # rounding
        return self.point

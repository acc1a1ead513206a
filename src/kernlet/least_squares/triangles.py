"""Least squares by triangles of the rows, where normal equations are too ill-conditioned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, qr, solve_triangular

from kernlet._typing import Floats, Indices
from kernlet.least_squares.normal_equations import SMALLEST_OBJECTIVE, Moments, Solution

# How this works
# --------------
# Sums of squares square the condition number: of 16 digits none is left where that of the rows is
# 1e8, as with polynomial kernels far from the origin. A second pass over the rows does without.
#
# 1. The rows H_c = [Z_c, 1] of each class are reduced to a triangle, H_c = Q_c R_c, block by block.
#    Within an output the target d of a class is constant, that is, d times the last column, so
#    that |H_c v - d| = |R_c (v - d e_last)|: at most n_features + 1 rows per class take the place
#    of all.
# 2. With the penalty as further rows, A = [sqrt(n_c) R_c; u'; I / sqrt(C)] = Q T, and the least
#    squares are T v = Q' y. Columns are pivoted and large rows come first, for which Householder's
#    QR is accurate row by row: the penalty is not lost beside kernel values of 1e12.
# 3. The gradient g of the objective at v is computed from the rows in extended precision. The gap
#    to the optimum is then 1/2 |T'^-1 g|^2, and a Newton step T^-1 T'^-1 g reduces it; what stays
#    is the rounding of v to float64.
#
# The bound adds the rounding errors of g: those of A v enter as they are, those of A' (A v - y)
# times T'^-1. T itself is that of a matrix with relative errors of eps in each column, which
# changes the bound by a factor 1 / (1 - delta), delta = eps |T'^-1 D| with D the column norms.

#: ``reduce_rows(function, combine)``: the values of ``function(blocks, codes, weights)`` on all
#: parts of the rows, combined; ``blocks`` yields pairs (positions, features).
ReduceRows = Callable[[Callable[..., Any], Callable[[Any, Any], Any]], Any]

_MAX_STEPS = 5
_SMALL_GAP = 1e-14
_MAX_OPERATIONS = 1e12  # about two minutes on one core; beyond, the caller keeps its solution
_SINGLE, _EXTENDED = np.finfo(np.float64).eps, float(np.finfo(np.longdouble).eps)


def solve_by_rows(
    reduce_rows: ReduceRows,
    moments: Moments,
    C: float,
    signs: Floats,
    weights: Floats,
    first: Solution,
) -> Solution | None:
    """The machine of :func:`solve_normal_equations` from the rows; None where it takes too long.

    Where nothing can be certified, the better of it and of ``first``, that of the moments.
    """
    n_columns = len(moments.shift) + 1
    n_rows = int(np.minimum(moments.counts, n_columns).sum()) + n_columns + 1
    if 4.0 * len(signs) * n_rows * n_columns**2 > _MAX_OPERATIONS:
        return None
    make = partial(_triangles, n_classes=len(moments.counts), shift=moments.shift)
    border = np.append(-moments.shift, 1.0) / np.sqrt(C)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            triangles = reduce_rows(make, _merge)
            problems = zip(signs, weights, strict=True)
            factors = [_Factor(triangles, border, C, *problem) for problem in problems]
            last = first.intercept + first.coef @ moments.shift
            start = np.hstack([first.coef, last[:, None]])
            return _refine(reduce_rows, factors, start, moments, C, signs, weights)
    except (LinAlgError, ValueError):  # singular or not finite
        return None


def _refine(
    reduce_rows: ReduceRows,
    factors: list[_Factor],
    start: Floats,
    moments: Moments,
    C: float,
    signs: Floats,
    weights: Floats,
) -> Solution:
    """Newton steps with gradients in extended precision; the best machine of each output."""
    solutions, n_outputs, totals = start, len(factors), weights @ moments.totals
    best, gradients = start.copy(), start.copy()
    gaps, objectives = np.full((2, n_outputs), np.inf)
    for count in range(_MAX_STEPS):
        gradient = partial(
            _gradients,
            shift=moments.shift,
            solutions=solutions,
            signs=signs,
            class_weights=weights,
        )
        slopes, errors = reduce_rows(gradient, _add)
        for k, factor in enumerate(factors):
            slope, penalty = _penalty(solutions[k], moments.shift, C)
            objective = float(0.5 * (errors[k] + penalty))
            half_step = factor.half_step(np.asarray(slopes[k] + slope, dtype=np.float64))
            floor = max(objective, SMALLEST_OBJECTIVE * float(totals[k]) / 2)
            gap = factor.gap_bound(half_step, solutions[k], objective) / floor
            if (gap, objective) < (gaps[k], objectives[k]):
                best[k], objectives[k], gaps[k] = solutions[k], objective, gap
                gradients[k] = slopes[k] + slope
            step = factor.rest_of_step(half_step)
            solutions[k] = factor.solution if count == 0 else solutions[k] - step
        if not gaps.max() > _SMALL_GAP:
            break
    sizes = np.array([factor.sizes for factor in factors])
    ratios = np.linalg.norm(gradients / sizes, axis=1) / np.sqrt(np.maximum(totals, 1e-300))
    coef = best[:, :-1]
    intercept = best[:, -1] - coef @ moments.shift
    gap, residual = min(float(gaps.max()), 1.0), float(ratios.max())
    return Solution(coef, intercept, C * objectives, gap, residual, n_outputs)


class _Factor:
    """T of the rows and the penalty of one output, and the least squares by it."""

    def __init__(
        self, triangles: list[Floats], border: Floats, C: float, signs: Floats, weights: Floats
    ) -> None:
        roots = np.sqrt(weights)
        rows = np.vstack([root * R for root, R in zip(roots, triangles, strict=True)])
        parts = [
            sign * root * R[:, -1] for sign, root, R in zip(signs, roots, triangles, strict=True)
        ]
        penalty = np.eye(len(border) - 1, len(border)) / np.sqrt(C)
        order = np.argsort(-np.linalg.norm(rows, axis=1), kind="stable")
        matrix = np.vstack([rows[order], border, penalty])
        self.sizes = np.linalg.norm(matrix, axis=0)
        targets = np.zeros(len(matrix))
        targets[: len(rows)] = np.concatenate(parts)[order]
        Q, self.triangle, self.columns = qr(matrix, mode="economic", pivoting=True)
        self.solution = np.empty(len(border))
        self.solution[self.columns] = solve_triangular(self.triangle, Q.T @ targets)
        whole = np.diag(self.sizes)[self.columns]
        self.inverse = float(np.linalg.norm(solve_triangular(self.triangle, whole, trans="T")))

    def half_step(self, gradient: Floats) -> Floats:
        """T'^-1 g, whose squared norm is twice the gap."""
        return np.asarray(solve_triangular(self.triangle, gradient[self.columns], trans="T"))

    def rest_of_step(self, half_step: Floats) -> Floats:
        """T^-1 of a half step: the Newton step."""
        step = np.empty(len(half_step))
        step[self.columns] = solve_triangular(self.triangle, half_step)
        return step

    def gap_bound(self, half_step: Floats, solution: Floats, objective: float) -> float:
        """The gap with the rounding errors of the gradient; infinite where T is round-off only."""
        delta = _SINGLE * self.inverse
        if not delta < 0.5:
            return np.inf
        of_values = _EXTENDED * float(np.linalg.norm(self.sizes * solution))
        of_gradient = _EXTENDED * np.sqrt(2 * objective) * self.inverse
        root = float(np.linalg.norm(half_step)) / (1 - delta) + 4 * (of_values + of_gradient)
        return 0.5 * root**2 if np.isfinite(root) else np.inf


def _triangles(
    blocks: Iterable[Any], codes: Indices, weights: Floats, *, n_classes: int, shift: Floats
) -> list[Floats]:
    """R_c of the rows of each class, weighted by square roots of their weights."""
    triangles: list[Floats] = [np.empty((0, len(shift) + 1)) for _ in range(n_classes)]
    for own, block in blocks:
        rows = np.sqrt(weights[own])[:, None] * _augmented(block, shift, np.float64)
        for number in np.unique(codes[own]):
            triangles[number] = _stacked(triangles[number], rows[codes[own] == number])
    return triangles


def _stacked(triangle: Floats, rows: Floats) -> Floats:
    """The triangle of two sets of rows, or the rows themselves while they are few."""
    rows = np.vstack([triangle, rows])
    if len(rows) <= rows.shape[1]:
        return rows
    # Large rows first, as above; there are no columns to pivot here, whose order must be one.
    order = np.argsort(-np.linalg.norm(rows, axis=1), kind="stable")
    return np.asarray(qr(rows[order], mode="r", check_finite=False)[0][: rows.shape[1]])


def _merge(some: list[Floats], others: list[Floats]) -> list[Floats]:
    return [_stacked(one, other) for one, other in zip(some, others, strict=True)]


def _gradients(
    blocks: Iterable[Any],
    codes: Indices,
    weights: Floats,
    *,
    shift: Floats,
    solutions: Floats,
    signs: Floats,
    class_weights: Floats,
) -> tuple[Any, Any]:
    """H'N(H v - d) and sum n (h.v - d)^2 of each output, in extended precision."""
    columns = solutions.T.astype(np.longdouble)
    slopes: Any = np.zeros(solutions.shape, np.longdouble)
    errors: Any = np.zeros(len(solutions), np.longdouble)
    for own, block in blocks:
        rows = _augmented(block, shift, np.longdouble)
        misses = rows @ columns - signs.T[codes[own]]
        costs = class_weights.T[codes[own]] * weights[own][:, None].astype(np.longdouble)
        errors += (costs * misses * misses).sum(axis=0)
        slopes += (costs * misses).T @ rows
    return slopes, errors


def _augmented(block: Any, shift: Floats, dtype: Any) -> Any:
    """[z, 1] of each row, z = x - shift."""
    rows = np.ones((block.shape[0], len(shift) + 1), dtype)
    rows[:, :-1] = block
    rows[:, :-1] -= shift
    return rows


def _add(some: tuple[Any, Any], others: tuple[Any, Any]) -> tuple[Any, Any]:
    return some[0] + others[0], some[1] + others[1]


def _penalty(solution: Floats, shift: Floats, C: float) -> tuple[Any, Any]:
    """Gradient and value of (|w|^2 + b^2) / C in extended precision, b = v_last - s.w."""
    w, offset = solution[:-1].astype(np.longdouble), shift.astype(np.longdouble)
    b = np.longdouble(solution[-1]) - offset @ w
    cost = np.longdouble(C)
    return np.append(w - b * offset, b) / cost, (w @ w + b * b) / cost

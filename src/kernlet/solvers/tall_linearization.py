"""Successive linearisation on many more rows than candidate centers, outputs in lock-step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.problems.pound import PoundLoss
from kernlet.problems.tall_margin import TallMargin
from kernlet.solvers.solution import MarginSolution
from kernlet.solvers.tall_lp import TallLP, TallReport

_STATIONARY = 1e-6  # relative decrease of the objective that is none


@dataclass(frozen=True, eq=False)
class TallPath:
    """The answer of a successive linearisation for one output.

    Parameters
    ----------
    solution : MarginSolution
        Of the last linear program; ``n_iter`` counts all of them.
    objectives : tuple of float
        The concave objective after each linear program; it never increases.
    is_stationary : bool
        Whether the last program could not improve on the one before.
    first : MarginSolution
        Of the first program, the 1-norm machine.
    """

    solution: MarginSolution
    objectives: tuple[float, ...]
    is_stationary: bool
    first: MarginSolution


def linearize_tall(
    lp: TallLP,
    pound: PoundLoss,
    *,
    max_lps: int,
    tol: float = 1e-9,
    max_iter: int | None = None,
    start: Floats | None = None,
    report: TallReport | None = None,
) -> list[TallPath]:
    """Minimise machines under the pound loss by linear programs, each started from the last.

    :func:`~kernlet.solvers.linearize_successively` for several outputs that share their
    passes over the rows. An output that is stationary takes no part in the next program.

    Parameters
    ----------
    lp : TallLP
        Of the 1-norm machines; goes through the programs.
    pound : PoundLoss
    max_lps : int
        Programs allowed for each output.
    tol : float
        Relative duality gap of each program.
    max_iter : int or None
        Simplex iterations allowed for each program.
    start : ndarray of shape (s + 1, n_outputs), optional
        Where the first program starts.
    report : callable, optional
        Told of each pass; a true answer ends the method.

    Returns
    -------
    paths : list of TallPath
        One for each output.
    """
    problem = lp.problem
    solutions = lp.solve(tol=tol, max_iter=max_iter, start=start, report=report)
    paths = [TallPath(s, (), False, s) for s in solutions]
    numbers = np.arange(len(paths))
    while True:
        slacks, coef = _slacks(paths, numbers), _coefficients(paths, numbers, problem)
        part = problem.outputs(numbers)
        values = pound.objective(part, slacks, np.abs(coef[:-1]))
        for number, value in zip(numbers, np.atleast_1d(values), strict=True):
            path = paths[number]
            paths[number] = replace(path, objectives=(*path.objectives, float(value)))
        going = [place for place, n in enumerate(numbers) if _goes_on(paths[n], max_lps)]
        if not going:
            return paths
        numbers, slacks, coef = numbers[going], slacks[:, going], coef[:, going]
        linear = pound.linearized(part.outputs(np.array(going)), slacks, np.abs(coef[:-1]))
        lp.reweight(linear)
        before = linear.objective(slacks, np.abs(coef[:-1]))
        solutions = lp.solve(tol=tol, max_iter=max_iter, start=coef, report=report)
        for place, number in enumerate(numbers):
            paths[number] = _next(paths[number], solutions[place], np.atleast_1d(before)[place])


def _goes_on(path: TallPath, max_lps: int) -> bool:
    is_sound = path.solution.status == "optimal"
    return is_sound and not path.is_stationary and len(path.objectives) < max_lps


def _next(path: TallPath, solution: MarginSolution, before: float) -> TallPath:
    is_stationary = before - solution.objective <= _STATIONARY * before
    n_iter = path.solution.n_iter + solution.n_iter
    last = replace(solution, n_iter=n_iter)
    return TallPath(last, path.objectives, is_stationary, path.first)


def _slacks(paths: list[TallPath], numbers: Indices) -> Floats:
    return np.stack([paths[number].solution.slacks for number in numbers], axis=1)


def _coefficients(paths: list[TallPath], numbers: Indices, problem: TallMargin) -> Floats:
    """Beta and, last, the intercept of some outputs."""
    coef = np.zeros((problem.shape[1] + 1, len(numbers)))
    for column, number in zip(coef.T, numbers, strict=True):
        solution = paths[number].solution
        column[solution.centers], column[-1] = solution.coef, solution.intercept
    return coef

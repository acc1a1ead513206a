"""Algorithm 4.2: successive linearisation, over either solver."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.lp.generation import Generation, Report
from kernlet.lp.problem import L1Margin, MarginSolution, PoundLoss, TallMargin
from kernlet.lp.streaming import TallLP, TallReport


@dataclass(frozen=True, eq=False)
class LinearizationPath:
    """The answer of a successive linearisation.

    Parameters
    ----------
    problem : L1Margin
        The last linear program, with its costs.
    solution : MarginSolution
        Its certified answer.
        ``n_iter`` counts all programs.
    objectives : tuple of float
        The concave objective after each linear program; it never increases.
    is_stationary : bool
        Whether the last program could not improve on the one before.
    first : MarginSolution
        Of the first program, the 1-norm machine.
    """

    problem: L1Margin
    solution: MarginSolution
    objectives: tuple[float, ...]
    is_stationary: bool
    first: MarginSolution

    @property
    def n_lps(self) -> int:
        """Linear programs solved."""
        return len(self.objectives)


def linearize_successively(
    generation: Generation,
    pound: PoundLoss,
    *,
    max_lps: int,
    tol: float = 1e-9,
    max_iter: int | None = None,
    report: Report | None = None,
) -> LinearizationPath:
    """Minimise a machine under the pound loss by linear programs, each started warm.

    The first program is the 1-norm machine itself. Each next one has the slopes of the loss
    at the last answer as its costs; the end is a program that its own starting point solves.

    Parameters
    ----------
    generation : Generation
        Of the 1-norm machine; goes through the programs.
    pound : PoundLoss
    max_lps : int
        Programs allowed.
    tol : float
        Relative duality gap of the last program.
    max_iter : int or None
        Simplex iterations allowed for each program.
    report : callable, optional
        Told of each round of each program.

    Returns
    -------
    path : LinearizationPath

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.rbf import RBF
    >>> from kernlet.kernels.gram import Gram
    >>> from kernlet.lp.problem import L1Margin, PoundLoss
    >>> from kernlet.lp.generation import Generation
    >>> from kernlet.lp.linearization import linearize_successively
    >>> X = np.random.RandomState(0).randn(200, 2)
    >>> signs = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    >>> problem = L1Margin(Gram(RBF(1.0), X), signs, np.full(200, 3.0), np.ones(200))
    >>> generation = Generation(problem, np.random.RandomState(0))
    >>> path = linearize_successively(generation, PoundLoss(10.0, 5.0), max_lps=50)
    >>> path.is_stationary, path.objectives[-1] < path.objectives[0]
    (True, True)
    """
    problem = generation.problem
    first = solution = generation.solve(max_iter=max_iter, certify=False, report=report)
    objectives, n_iter = [], solution.n_iter
    is_stationary = False
    while True:
        slacks, absolute = solution.slacks, _absolute(solution, problem)
        objectives.append(pound.objective(problem, slacks, absolute))
        if is_stationary or len(objectives) == max_lps or solution.status != "optimal":
            break
        linear = pound.linearized(problem, slacks, absolute)
        generation.reweight(linear)
        solution = generation.solve(max_iter=max_iter, certify=False, report=report)
        n_iter += solution.n_iter
        before = linear.objective(slacks, absolute)
        is_stationary = before - solution.objective <= _STATIONARY * before
    if solution.status == "optimal":
        certified = generation.solve(tol=tol, max_iter=max_iter)
        n_iter += certified.n_iter
    else:
        certified = generation.certified(solution)
    solution = replace(certified, n_iter=n_iter)
    return LinearizationPath(generation.problem, solution, tuple(objectives), is_stationary, first)


_STATIONARY = 1e-6  # what float32 prices can tell


def _absolute(solution: MarginSolution, problem: L1Margin) -> Floats:
    absolute = np.zeros(problem.gram.shape[1])
    absolute[solution.centers] = np.abs(solution.coef)
    return absolute


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

    :func:`~kernlet.lp.linearization.linearize_successively` for several outputs that share their
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

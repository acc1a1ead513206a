"""Successive linearisation of a concave machine: Algorithm 4.2 of Fung et al. (2002)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kernlet.kernels.kernel import Floats
from kernlet.problems.l1_margin import L1Margin
from kernlet.problems.pound import PoundLoss
from kernlet.solvers.highs_generation import Generation, Report
from kernlet.solvers.solution import MarginSolution


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
    >>> from kernlet.kernels import RBF, Gram
    >>> from kernlet.problems import L1Margin, PoundLoss
    >>> from kernlet.solvers import Generation, linearize_successively
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

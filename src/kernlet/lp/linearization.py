"""Algorithm 4.2: minimise the pound loss by successive linear programs, over either solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernlet._typing import Floats
from kernlet.lp.generation import ColumnGeneration
from kernlet.lp.problem import L1Margin, PoundLoss, Solution
from kernlet.lp.streaming import StreamingL1Solver

# A program that improves on its starting point by no more than this, relative to its objective,
# cannot improve on it: float32 prices of generation have no more digits.
_STATIONARY = 1e-6

Solver = ColumnGeneration | StreamingL1Solver


@dataclass(frozen=True, eq=False)
class LinearizationPath:
    """The linear programs solved for one output.

    ``problem`` is the last of them, with its costs, and ``solution`` its certified solution, whose
    ``n_iter`` counts all programs; ``first`` is the solution of the first, the 1-norm machine.
    ``objectives`` are the concave objective after each program and never increase;
    ``step_objective`` is the discontinuous one (18) of the solution, None without a pound loss.
    """

    problem: L1Margin
    solution: Solution
    first: Solution
    objectives: tuple[float, ...] = ()
    is_stationary: bool = False
    step_objective: float | None = None

    @property
    def n_lps(self) -> int:
        """Linear programs solved."""
        return len(self.objectives)

    def is_open(self, max_lps: int) -> bool:
        """Whether another program could improve the machine."""
        is_sound = self.solution.status == "optimal"
        return is_sound and not self.is_stationary and self.n_lps < max_lps


def solve_once(
    solver: Solver,
    *,
    tol: float = 1e-9,
    max_iter: int | None = None,
    start: Floats | None = None,
    report: Callable[[Any], bool] | None = None,
) -> list[LinearizationPath]:
    """The 1-norm machine of every output: paths of one program, with nothing to linearise."""
    solutions = solver.solve(tol=tol, max_iter=max_iter, start=start, report=report)
    return [
        LinearizationPath(solver.problem.outputs(number), s, s, (s.objective,), is_stationary=True)
        for number, s in enumerate(solutions)
    ]


def linearize(
    solver: Solver,
    *,
    pound: PoundLoss,
    max_lps: int,
    tol: float = 1e-9,
    max_iter: int | None = None,
    start: Floats | None = None,
    report: Callable[[Any], bool] | None = None,
) -> list[LinearizationPath]:
    """Minimise the pound loss of every output by linear programs, each started from the last.

    The first program is the 1-norm machine itself. Each next one has the slopes of the loss
    at the last answer as its costs; the end is a program that its own starting point solves, or
    ``max_lps``. An output that has come to its end takes no part in the next program. Programs
    before the last need no certificate.
    """
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "certify": False, "report": report}
    problem = solver.problem
    solutions = solver.solve(start=start, **options)
    paths = [LinearizationPath(problem.outputs(k), s, s) for k, s in enumerate(solutions)]
    outputs = np.arange(len(paths))
    while True:
        slacks = np.stack([paths[number].solution.slacks for number in outputs], axis=1)
        coef = _coefficients([paths[number].solution for number in outputs], problem.shape[1])
        for place, number in enumerate(outputs):
            values = slacks[:, place], np.abs(coef[:-1, place])
            value = pound.objective(problem.outputs(int(number)), *values)
            path = paths[number]
            # A program may have several solutions, and at another than its starting point the
            # concave objective is lower although the program's is not.
            if path.objectives and path.objectives[-1] - value > _STATIONARY * path.objectives[-1]:
                path = replace(path, is_stationary=False)
            path = replace(path, objectives=(*path.objectives, value))
            if not path.is_open(max_lps):
                last = solver.certified(path.solution, tol, max_iter)
                path = _finished(path, last, pound, problem.outputs(int(number)))
            paths[number] = path
        is_open = [place for place, n in enumerate(outputs) if paths[n].is_open(max_lps)]
        if not is_open:
            return paths
        outputs, slacks, coef = outputs[is_open], slacks[:, is_open], coef[:, is_open]
        linear = pound.linearized(problem.outputs(outputs), slacks, np.abs(coef[:-1]))
        solver.reweight(linear)
        solutions = solver.solve(start=coef, **options)
        for place, number in enumerate(outputs):
            program, solution = linear.outputs(place), solutions[place]
            before = program.objective(slacks[:, place], np.abs(coef[:-1, place]))
            n_iter = paths[number].solution.n_iter + solution.n_iter
            paths[number] = replace(
                paths[number],
                problem=program,
                solution=replace(solution, n_iter=n_iter),
                is_stationary=before - solution.objective <= _STATIONARY * before,
            )


def _finished(
    path: LinearizationPath, last: Solution, pound: PoundLoss, problem: L1Margin
) -> LinearizationPath:
    """A path with its certified solution and the discontinuous objective of that."""
    coef = _coefficients([last], problem.shape[1])[:-1, 0]
    value = pound.step_objective(problem, last.slacks, np.abs(coef))
    return replace(path, solution=last, step_objective=value)


def _coefficients(solutions: list[Solution], n_candidates: int) -> Floats:
    """Beta and, last, the intercept of each solution in a column."""
    coef = np.zeros((n_candidates + 1, len(solutions)))
    for column, solution in zip(coef.T, solutions, strict=True):
        column[solution.centers], column[-1] = solution.coef, solution.intercept
    return coef

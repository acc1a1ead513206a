"""Telling scikit-learn's callbacks of every round of a solver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from sklearn.callback import CallbackContext

from kernlet.estimators.base import TrainingData
from kernlet.expansion import KernelExpansion
from kernlet.problems.l1_margin import L1Margin
from kernlet.solvers import Generation, MarginSolution, Progress
from kernlet.solvers.highs_generation import Report


@dataclass(frozen=True, eq=False)
class Outcome:
    """The solution of an output, and how it was come by.

    Parameters
    ----------
    solution : MarginSolution
        Of the last linear program.
    n_lps : int
        Linear programs solved.
    is_stationary : bool
        Whether more of them would not change the machine.
    first : MarginSolution or None, default=None
        Of the first linear program, where there are several.
    """

    solution: MarginSolution
    n_lps: int = 1
    is_stationary: bool = True
    first: MarginSolution | None = None


def better_of(one: Outcome, two: Outcome) -> Outcome:
    """Of two answers for an output the one with the smaller gap, with the iterations of both."""
    better = min(one, two, key=lambda outcome: outcome.solution.gap)
    n_iter = one.solution.n_iter + two.solution.n_iter
    return replace(better, solution=replace(better.solution, n_iter=n_iter))


class MarginEstimator(Protocol):
    """What solving an output needs of an estimator."""

    classes_: Any
    cache_size: float

    def _solve(self, generation: Generation, report: Report) -> Outcome: ...


def solve_output(
    estimator: MarginEstimator,
    problem: L1Margin,
    data: TrainingData,
    seed: int,
    context: CallbackContext,
) -> Outcome:
    """Solve one output in whatever process it is sent to.

    Parameters
    ----------
    estimator : estimator
        With ``classes_``, ``cache_size`` and a method ``_solve(generation, report)``.
    problem : L1Margin
    data : TrainingData
    seed : int
    context : CallbackContext
        Of the output; every round becomes a task below it, and a callback may stop there.

    Returns
    -------
    outcome : Outcome
    """

    def report(progress: Progress) -> bool:
        """Make a task of the round; true where a callback asks to stop."""
        task = context.subcontext(task_name="round")
        task.call_on_fit_task_begin(estimator=estimator, **data.for_callbacks)
        stop = task.call_on_fit_task_end(
            estimator=estimator,
            **data.for_callbacks,
            reconstruction_attributes=lambda: _machine_so_far(estimator, problem, progress),
        )
        return bool(stop)

    context.call_on_fit_task_begin(estimator=estimator, **data.for_callbacks)
    generation = Generation(
        problem, np.random.RandomState(seed), max_bytes=int(estimator.cache_size * 2**20)
    )
    outcome = estimator._solve(generation, report)
    context.call_on_fit_task_end(estimator=estimator, **data.for_callbacks)
    return outcome


def _machine_so_far(
    estimator: MarginEstimator, problem: L1Margin, progress: Progress
) -> dict[str, Any] | None:
    """What makes an estimator that predicts with the machine of this round.

    With more than two classes there is no such machine: the outputs come one by one.
    """
    if len(estimator.classes_) > 2:
        return None
    machine = progress.machine
    centers = problem.gram.z.X[machine.centers]
    intercept = np.array([machine.intercept])
    expansion = KernelExpansion(problem.gram.kernel, centers, machine.coef[None, :], intercept)
    return {"expansion_": expansion}

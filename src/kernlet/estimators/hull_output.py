"""Solving one output of a hull perceptron, with its removal and its callbacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from sklearn.callback import CallbackContext

from kernlet.estimators.base import TrainingData
from kernlet.estimators.hull_removal import (
    RemovalRound,
    Schedule,
    Trained,
    removal_rounds,
    remove_until_unsure,
    rounds_by_folds,
)
from kernlet.expansion import KernelExpansion
from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.problems.hull import Hull
from kernlet.solvers.hull_solution import HullProgress, HullSolution
from kernlet.solvers.nearest_point import Method, find_nearest_point


@dataclass(frozen=True)
class Removal:
    """How support vectors are removed.

    Parameters
    ----------
    schedule : Schedule
    n_folds : int or None
        Folds that say when to stop; None for the rule of a single training.
    """

    schedule: Schedule
    n_folds: int | None


@dataclass(frozen=True)
class Setting:
    """What the training of an output is told."""

    method: Method
    tol: float
    max_iter: int | None
    max_bytes: int
    removal: Removal | None
    seed: int


@dataclass(frozen=True, eq=False)
class HullOutcome:
    """The machine of an output: f = sum_j coef_j k(., x_j) + intercept.

    Its values are those of W . X over |W|^2: 1 for a row with no slack at the optimum.

    Parameters
    ----------
    centers : ndarray of shape (n_support,)
        Rows with a positive alpha.
    alpha : ndarray of shape (n_support,)
    coef : ndarray of shape (n_support,)
    intercept : float
    solution : HullSolution
        Of the last training, over the rows left.
    n_iter : int
        Steps of all trainings.
    path : tuple of RemovalRound
    was_stopped : bool
        By a callback.
    """

    centers: Indices
    alpha: Floats
    coef: Floats
    intercept: float
    solution: HullSolution
    n_iter: int
    path: tuple[RemovalRound, ...]
    was_stopped: bool


def solve_hull_output(
    estimator: Any,
    hull: Hull,
    data: TrainingData,
    setting: Setting,
    number: int,
    context: CallbackContext,
) -> HullOutcome:
    """Solve one output in whatever process it is sent to.

    Parameters
    ----------
    estimator : estimator
    hull : Hull
    data : TrainingData
        Its rows are those of the hull.
    setting : Setting
    number : int
        Of the output.
    context : CallbackContext
        Of the output; the solver's reports become tasks below it, and a callback may stop.

    Returns
    -------
    outcome : HullOutcome
    """
    context.call_on_fit_task_begin(estimator=estimator, **data.for_callbacks)
    training = _Training(estimator, hull, data, setting, context)
    if setting.removal is None:
        trained: Indices = np.arange(hull.n_rows)
        records: tuple[RemovalRound, ...] = ()
        solution = training.solve(hull, trained, None)
    else:
        path = training.path(number, setting.removal)
        trained, solution = path[-1].rows, path[-1].solution
        records = tuple(t.record for t in path)
    context.call_on_fit_task_end(estimator=estimator, **data.for_callbacks)
    rows = trained[solution.rows]
    coef, intercept = _machine(hull, rows, solution.alpha, solution.squared_norm)
    return HullOutcome(
        centers=rows,
        alpha=solution.alpha,
        coef=coef,
        intercept=intercept,
        solution=solution,
        n_iter=training.n_iter,
        path=records,
        was_stopped=training.was_stopped,
    )


class _Training:
    """All trainings of an output; a callback that stops one stops those after it too."""

    def __init__(
        self,
        estimator: Any,
        hull: Hull,
        data: TrainingData,
        setting: Setting,
        context: CallbackContext,
    ) -> None:
        self.estimator, self.hull, self.data = estimator, hull, data
        self.setting, self.context = setting, context
        self.n_iter = 0
        self.was_stopped = False

    def path(self, number: int, removal: Removal) -> list[Trained]:
        """The training, and those after a removal."""
        weights, schedule = self.data.sample_weight, removal.schedule
        if removal.n_folds is None:
            return remove_until_unsure(self._rounds(number, schedule))
        random_state = np.random.RandomState(self.setting.seed)
        n_rounds = rounds_by_folds(
            self.hull,
            weights,
            schedule,
            self.solve,
            removal.n_folds,
            random_state,
            lambda: self.was_stopped,
        )
        return list(islice(self._rounds(number, schedule), 1 + n_rounds))

    def _rounds(self, number: int, schedule: Schedule) -> Iterator[Trained]:
        """The trainings one by one, up to the one that a callback stops."""
        weights = self.data.sample_weight
        for trained in removal_rounds(self.hull, weights, schedule, self.solve, number):
            yield trained
            if self.was_stopped:
                return

    def solve(self, part: Hull, rows: Indices, start: Floats | None) -> HullSolution:
        """Train on some rows. Schlesinger and Kozinec's steps start afresh, MDM where it was."""

        def report(progress: HullProgress) -> bool:
            self.was_stopped = self.was_stopped or self._report(progress, rows)
            return self.was_stopped

        setting = self.setting
        solution = find_nearest_point(
            part,
            method=setting.method,
            tol=setting.tol,
            max_iter=setting.max_iter,
            max_bytes=setting.max_bytes,
            start=start if setting.method == "mdm" else None,
            report=report,
        )
        self.n_iter += solution.n_iter
        return solution

    def _report(self, progress: HullProgress, rows: Indices) -> bool:
        """Make a task of a report; true where a callback asks to stop."""
        task = self.context.subcontext(task_name="round")
        task.call_on_fit_task_begin(estimator=self.estimator, **self.data.for_callbacks)
        stop = task.call_on_fit_task_end(
            estimator=self.estimator,
            **self.data.for_callbacks,
            reconstruction_attributes=lambda: self._machine_so_far(progress, rows),
        )
        return bool(stop)

    def _machine_so_far(self, progress: HullProgress, rows: Indices) -> dict[str, Any] | None:
        if len(self.estimator.classes_) > 2:
            return None  # the outputs come one by one
        chosen = rows[progress.rows]
        coef, intercept = _machine(self.hull, chosen, progress.alpha, progress.squared_norm)
        centers = self.data.X[chosen]
        kernel = self.hull.gram.kernel
        return {"expansion_": KernelExpansion(kernel, centers, coef, np.array([intercept]))}


def _machine(hull: Hull, rows: Indices, alpha: Floats, squared_norm: float) -> tuple[Floats, float]:
    """Coefficients and intercept of W . X / |W|^2."""
    coef = alpha * hull.signs[rows] / squared_norm
    return coef, float(coef.sum())

"""The tall method as an estimator uses it: when, on what, and what callbacks hear of it."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from sklearn.callback import CallbackContext

from kernlet.estimators.base import TrainingData
from kernlet.estimators.rounds import Outcome
from kernlet.estimators.tall_checkpoint import TallCheckpoint
from kernlet.expansion import KernelExpansion
from kernlet.kernels import Kernel
from kernlet.kernels.kernel import Floats
from kernlet.problems.labels import error_weights
from kernlet.problems.tall_margin import TallMargin
from kernlet.rows import as_rows
from kernlet.solvers import TallLP, TallProgress
from kernlet.solvers.tall_lp import TallReport

_FEWEST_ROWS, _ROWS_A_CANDIDATE = 5000, 20


class TallEstimator(Protocol):
    """What solving all outputs needs of an estimator."""

    C: float
    class_weight: Any
    cache_size: float
    checkpoint: str | Path | None
    classes_: Any
    n_passes_: float

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters."""
        ...

    def _solve_lock_step(
        self, lp: TallLP, start: Floats | None, report: TallReport
    ) -> list[Outcome]: ...


def is_tall(n_rows: int, n_candidates: int) -> bool:
    """Whether rows far outnumber candidates: 5,000 of them, and twenty for each candidate."""
    return n_rows >= max(_FEWEST_ROWS, _ROWS_A_CANDIDATE * n_candidates)


def require_seed(estimator: Any) -> None:
    """Refuse a checkpoint of a fit that no later fit repeats."""
    if not isinstance(estimator.random_state, Integral):
        raise ValueError(
            "checkpoint needs random_state as a number: without one a later fit draws other "
            "candidates, and cannot go on from it."
        )


def solve_tall(
    estimator: TallEstimator,
    kernel: Kernel,
    points: Any,
    data: TrainingData,
    seed: int,
    context: CallbackContext,
) -> list[Outcome]:
    """Solve all outputs in lock-step; every pass over rows becomes a task of the callbacks.

    The name of the task says how many passes there were, the duality gap (infinite
    before the finish) and the rows read in a second. After every pass over all rows of the first
    linear program the machine is kept in the folder ``checkpoint``, where that is given, and a
    later fit starts from it.

    Parameters
    ----------
    estimator : estimator
    kernel : Kernel
    points : {ndarray, sparse matrix} of shape (n_candidates, n_features)
    data : TrainingData
    seed : int
    context : CallbackContext

    Returns
    -------
    outcomes : list of Outcome
    """
    problem = _problem(estimator, kernel, points, data)
    checkpoint = None
    if estimator.checkpoint is not None:
        require_seed(estimator)
        checkpoint = TallCheckpoint.of(estimator.checkpoint, estimator.get_params(False), problem)
    start = None if checkpoint is None else checkpoint.load()

    def report(progress: TallProgress) -> bool:
        """Make a task of the pass and keep its machine; true where a callback asks to stop."""
        task = context.subcontext(
            task_name=f"pass {progress.passes:.1f}, gap {progress.gap:.1e}, "
            f"{progress.rows_per_second:.2g} rows/s"
        )
        task.call_on_fit_task_begin(estimator=estimator, **data.for_callbacks)
        is_first = lp.problem is problem  # later programs have other costs
        if checkpoint is not None and is_first and not progress.is_sample:
            checkpoint.save(progress.coef)
        stop = task.call_on_fit_task_end(
            estimator=estimator,
            **data.for_callbacks,
            reconstruction_attributes=lambda: _machine_so_far(problem, progress),
        )
        return bool(stop)

    lp = TallLP(problem, seed, max_bytes=int(estimator.cache_size * 2**20))
    try:
        outcomes = estimator._solve_lock_step(lp, start, report)
    finally:
        lp.close()
    estimator.n_passes_ = lp.passes
    return outcomes


def _problem(
    estimator: TallEstimator, kernel: Kernel, points: Any, data: TrainingData
) -> TallMargin:
    classes = estimator.classes_
    positives = classes if len(classes) > 2 else classes[1:]
    signs = np.empty((len(data.y), len(positives)), np.int8)
    for column, label in zip(signs.T, positives, strict=True):
        column[:] = np.where(data.y == label, 1, -1)
    weights = error_weights(
        estimator.C, data.y, classes, estimator.class_weight, data.sample_weight
    )
    if len(weights) and (weights == weights[0]).all():
        weights = np.broadcast_to(weights[0], weights.shape)  # one number in place of a column
    return TallMargin(
        as_rows(data.X),
        kernel,
        points,
        signs,
        np.broadcast_to(weights[:, None], signs.shape),
        np.ones((points.shape[0], len(positives))),
    )


def _machine_so_far(problem: TallMargin, progress: TallProgress) -> dict[str, Any] | None:
    """What makes an estimator that predicts with the machine of this pass."""
    coef = progress.coef
    if coef.shape[1] != problem.shape[2]:
        return None  # some outputs are stationary: not all of them are here
    used = np.flatnonzero(coef[:-1].any(axis=1))
    expansion = KernelExpansion(problem.kernel, problem.centers[used], coef[used].T, coef[-1])
    return {"expansion_": expansion}

"""Removal of support vectors of small weight, round by round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.problems.hull import Hull
from kernlet.solvers.hull_solution import HullSolution

Solve = Callable[[Hull, Indices, Floats | None], HullSolution]


@dataclass(frozen=True)
class RemovalRound:
    """One training of a removal.

    Parameters
    ----------
    output : int
        Whose training it was.
    round : int
        0 for the training before any removal.
    factor : float
        delta; 0 in round 0.
    threshold : float
        delta / N: rows with a smaller alpha left before this training.
    n_rows, n_support : int
        Rows trained on, and those with a positive alpha.
    train_accuracy : float
        On the rows trained on.
    validation_accuracy : float
        On the rows removed so far; nan where there are none.
    deviation : float
        Binomial standard deviation of that, of one more hit and one more miss than there were
        (so that no error in a few rows is not taken for certain); nan where there are none.
    gap : float
        Relative gap of the training.
    """

    output: int
    round: int
    factor: float
    threshold: float
    n_rows: int
    n_support: int
    train_accuracy: float
    validation_accuracy: float
    deviation: float
    gap: float


@dataclass(frozen=True, eq=False)
class Trained:
    """The machine of a round: the rows trained on, the solution over them, the record."""

    rows: Indices
    solution: HullSolution
    record: RemovalRound


@dataclass(frozen=True)
class Schedule:
    """Which rows leave: those with alpha below delta_k / N, delta_k = start + k step.

    Parameters
    ----------
    start, step : float
    n_rounds : int
    size : {"initial", "current"}
        Whether N counts the rows at the start or those left. "current" removes far more.
    """

    start: float
    step: float
    n_rounds: int
    size: Literal["initial", "current"] = "initial"

    def factor(self, k: int) -> float:
        """delta_k."""
        return self.start + k * self.step


def removal_rounds(
    hull: Hull, weights: Floats, schedule: Schedule, solve: Solve, output: int = 0
) -> Iterator[Trained]:
    """Train, remove, train on what is left, and so on.

    The threshold acts on all rows, so that rows of no weight leave too. A row of sample weight
    w counts as w rows. The rounds end early where a removal would leave one class only, or
    nothing of what is left would go.

    Parameters
    ----------
    hull : Hull
    weights : ndarray of shape (n_rows,)
        Sample weights.
    schedule : Schedule
    solve : callable
        ``solve(hull, rows, start)`` trains on some rows.
    output : int, default=0
        For the records.

    Yields
    ------
    trained : Trained
    """
    rows = np.arange(hull.n_rows)
    solution = solve(hull, rows, None)
    yield _trained(hull, weights, rows, solution, (output, 0, 0.0, 0.0))
    for k in range(schedule.n_rounds):
        total = weights.sum() if schedule.size == "initial" else weights[rows].sum()
        threshold = schedule.factor(k) / total
        alpha = solution.dense()
        kept = alpha >= threshold * weights[rows]
        if len(np.unique(hull.signs[rows[kept]])) < len(np.unique(hull.signs)):
            return
        if not kept.all():
            rows = rows[kept]
            solution = solve(hull.subset(rows), rows, alpha[kept])
        yield _trained(
            hull, weights, rows, solution, (output, k + 1, schedule.factor(k), threshold)
        )


def _trained(
    hull: Hull,
    weights: Floats,
    rows: Indices,
    solution: HullSolution,
    names: tuple[int, int, float, float],
) -> Trained:
    alpha = np.zeros(hull.n_rows)
    alpha[rows] = solution.dense()
    values = hull.margins(alpha) - hull.ridge * alpha
    is_left = np.zeros(hull.n_rows, dtype=bool)
    is_left[rows] = True
    accuracy, deviation = _accuracy(values[~is_left] > 0, weights[~is_left])
    record = RemovalRound(
        *names,
        n_rows=len(rows),
        n_support=len(solution.rows),
        train_accuracy=_accuracy(values[is_left] > 0, weights[is_left])[0],
        validation_accuracy=accuracy,
        deviation=deviation,
        gap=solution.gap,
    )
    return Trained(rows, solution, record)


def _accuracy(is_right: NDArray[np.bool_], weights: Floats) -> tuple[float, float]:
    """Share of the weight that is right, and the deviation of that."""
    if not len(weights):
        return np.nan, np.nan
    n = float(weights.sum())
    right = float(weights[is_right].sum())
    share = (right + 1) / (n + 2)
    return right / n, float(np.sqrt(share * (1 - share) / n))


def stops(accuracy: Sequence[float], deviation: Sequence[float]) -> bool:
    """The paper's rule: |a_(k-1) - a_k| > sigma_(k-1) for the last two validation accuracies.

    Parameters
    ----------
    accuracy, deviation : sequences of float
        Of the rounds so far, the training before any removal left out.

    Returns
    -------
    stop : bool
    """
    return len(accuracy) > 1 and abs(accuracy[-2] - accuracy[-1]) > deviation[-2]


def remove_until_unsure(rounds: Iterator[Trained]) -> list[Trained]:
    """The rounds of a single training, up to the first that :func:`stops`, that one included."""
    path: list[Trained] = []
    for trained in rounds:
        path.append(trained)
        removed = [t.record for t in path[1:]]
        if stops([r.validation_accuracy for r in removed], [r.deviation for r in removed]):
            break
    return path


def rounds_by_folds(
    hull: Hull,
    weights: Floats,
    schedule: Schedule,
    solve: Solve,
    n_folds: int,
    random_state: np.random.RandomState,
    was_stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Rounds after which the paper stops: accuracy and deviation are taken over folds.

    Parameters
    ----------
    hull : Hull
    weights : ndarray of shape (n_rows,)
    schedule : Schedule
    solve : callable
    n_folds : int
    random_state : RandomState
    was_stopped : callable
        True where nothing more should be trained; there are no rounds then.

    Returns
    -------
    n_rounds : int
    """
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=random_state)
    paths = []
    for kept, _ in folds.split(weights, hull.signs):

        def solve_fold(
            part: Hull, rows: Indices, start: Floats | None, kept: Indices = kept
        ) -> HullSolution:
            return solve(part, kept[rows], start)

        fold = removal_rounds(hull.subset(kept), weights[kept], schedule, solve_fold)
        path = []
        for trained in fold:
            path.append(trained.record.validation_accuracy)
            if was_stopped():
                return 0
        paths.append(path[1:])
    n_rounds = min(len(path) for path in paths)
    table = np.array([path[:n_rounds] for path in paths]).reshape(n_folds, n_rounds)
    mean, deviation = table.mean(axis=0), table.std(axis=0)
    for k in range(2, n_rounds + 1):
        if stops(mean[:k], deviation[:k]):
            return k
    return n_rounds

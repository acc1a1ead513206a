"""Choosing a size and a storage by validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernlet.devices import to_numpy
from kernlet.estimators.compact.initial import decoded_machine
from kernlet.estimators.compact.layout import STORAGE, Layout, candidates
from kernlet.estimators.compact.training import (
    SECOND_RATE,
    Effort,
    OnEpoch,
    Trained,
    on_device,
    pack,
    train,
)
from kernlet.estimators.sampling import seed_of
from kernlet.kernels.kernel import Floats
from kernlet.problems.joint_margin import JointMargin, Machine
from kernlet.solvers.examples import Examples
from kernlet.solvers.joint_descent import descend

#: A score of outputs against what they should be, and its standard error.
Judge = Callable[[Floats], tuple[float, float]]
#: A start for a layout, with a source of chance.
MakeStart = Callable[[Layout, np.random.RandomState], Machine]

_SHORT = 1 / 3  # of the epochs: the first round of a search in a budget
_FINALISTS = 3
_SETTLING = 0.25  # of the epochs: the last training, on all rows
_ENOUGH_CENTERS = 64  # to see whether more help
_MANY = 0.1  # centers over rows at which fewer may do better


@dataclass(frozen=True)
class PathPoint:
    """A size that was tried.

    Parameters
    ----------
    n_centers : int
    nbytes : int
        Everything stored.
    score : float
        On the validation part.
    standard_error : float
        Of the score.
    rank : int or None
        Of the projection.
    storage : tuple of str
        Formats of centers, coefficients and projection.
    n_epochs : int
        Epochs of the trial.
    is_full : bool
        Whether the trial was as long as the training of a machine; short ones only tell what to
        try in full.
    """

    n_centers: int
    nbytes: int
    score: float
    standard_error: float
    rank: int | None
    storage: tuple[str, ...]
    n_epochs: int
    is_full: bool


@dataclass(frozen=True, eq=False)
class Trial:
    """A layout, trained on the rows that are not held out.

    Parameters
    ----------
    layout : Layout
    trained : Trained
    outputs : ndarray of shape (n_held_out, n_outputs)
        Of the rows held out.
    score, standard_error : float
        Of these outputs; not a number where nothing is held out.
    is_full : bool
    """

    layout: Layout
    trained: Trained
    outputs: Floats
    score: float
    standard_error: float
    is_full: bool

    @property
    def point(self) -> PathPoint:
        """The trial as users see it."""
        layout = self.layout
        formats = layout.formats if layout.rank is not None else layout.formats[:2]
        return PathPoint(
            layout.n_centers,
            self.trained.expansion.nbytes,
            self.score,
            self.standard_error,
            layout.rank,
            formats,
            len(self.trained.losses),
            self.is_full,
        )


#: Trains several layouts, for a share of the usual epochs.
RunTrials = Callable[[Sequence[Layout], float], list[Trial]]


@dataclass(frozen=True, eq=False)
class Workshop:
    """All that trials share.

    Parameters
    ----------
    problem : JointMargin
    kept, held_out, everything : Examples
        Rows to train on, rows to judge by, and both.
    make_start : callable
    judge : callable
    effort : Effort
    seed : int
    """

    problem: JointMargin
    kept: Examples
    held_out: Examples
    everything: Examples
    make_start: MakeStart
    judge: Judge
    effort: Effort
    seed: int

    def trial(
        self,
        layout: Layout,
        share: float = 1.0,
        on_epoch: OnEpoch | None = None,
        pick: Callable[[Machine], Machine] | None = None,
    ) -> Trial:
        """Train one layout, for a share of the usual epochs."""
        random = np.random.RandomState(seed_of(self.seed, layout.n_centers, layout.rank or 0))
        effort = replace(self.effort, n_epochs=max(1, round(share * self.effort.n_epochs)))
        start = self.make_start(layout, random)
        layout = replace(layout, n_centers=len(start.centers))
        trained = train(
            self.problem, layout, start, self.kept, effort, random, on_epoch=on_epoch, pick=pick
        )
        return self._judged(layout, trained, share >= 1)

    def settle(self, trial: Trial, on_epoch: OnEpoch | None = None) -> Trained:
        """Go on with a trial on all rows, at small rates and for few epochs, if that helps."""
        random = np.random.RandomState(seed_of(self.seed, 1))
        recipe = replace(self.effort.recipe(SECOND_RATE, _SETTLING), levels=trial.layout.levels)
        machine = on_device(
            Machine(**{n: to_numpy(a) for n, a in trial.trained.machine.arrays().items()}),
            self.everything,
            trial.layout.width,
        )
        tables = trial.trained.expansion.tables
        steps = {
            name: table.step
            for name, table in zip(
                ("centers", "weights", "projection"), tables.values(), strict=True
            )
            if table is not None
        }
        found = descend(
            self.problem,
            machine,
            self.everything,
            recipe,
            random,
            steps=steps,
            on_epoch=on_epoch,
        )
        losses = trial.trained.losses + found.losses
        if not self._loss(found.machine) < self._loss(machine):
            return replace(trial.trained, losses=losses)
        expansion = pack(
            found.machine, found.steps, trial.layout, self.everything.shift, self.everything.scale
        )
        return Trained(expansion, found.machine, losses, found.n_halvings)

    def outputs(self, machine: Machine, examples: Examples) -> Floats:
        """Outputs of all rows, as numpy's."""
        blocks = [
            to_numpy(self.problem.outputs(machine, examples.rows(rows)))
            for rows in examples.blocks()
        ]
        return np.concatenate([np.empty((0, machine.weights.shape[0]), np.float32), *blocks])

    def _loss(self, machine: Machine) -> float:
        """The sum of the losses of all rows."""
        total = 0.0
        for rows in self.everything.blocks():
            outputs = self.problem.outputs(machine, self.everything.rows(rows))
            losses, _ = self.problem.loss.value_and_pull(outputs, self.everything.targets(rows))
            weights = to_numpy(self.everything.weights(rows)).astype(np.float64)
            total += float(weights @ to_numpy(losses))
        return total

    def score(self, machine: Machine) -> float:
        """The score of a machine on the rows held out."""
        if not self.held_out.n_rows:
            return float("nan")
        return self.judge(self.outputs(machine, self.held_out))[0]

    def _judged(self, layout: Layout, trained: Trained, is_full: bool) -> Trial:
        stored = decoded_machine(trained.expansion)
        machine = on_device(stored, self.held_out, layout.width)
        outputs = self.outputs(machine, self.held_out)
        score, error = self.judge(outputs) if len(outputs) else (float("nan"), float("nan"))
        trained = replace(trained, machine=_on_cpu(trained.machine))
        return Trial(layout, trained, outputs, score, error, is_full)


def walk_sizes(run: RunTrials, layout: Layout, largest: int) -> tuple[Trial, list[PathPoint], str]:
    """Try ever larger machines; the smallest within one standard error of the best is chosen.

    Sizes double; beyond 64 centers the walk ends where two in a row are no better than the best
    before them.

    Parameters
    ----------
    run : callable
        Trains layouts for a share of the usual epochs.
    layout : Layout
        Its number of centers is the first to be tried.
    largest : int

    Returns
    -------
    trial : Trial
    path : list of PathPoint
    reason : str
    """
    sizes = [min(layout.n_centers, largest)]
    while sizes[-1] < largest:
        sizes.append(min(2 * sizes[-1], largest))
    trials: list[Trial] = []
    for start in range(0, len(sizes), 2):
        pair = [replace(layout, n_centers=size) for size in sizes[start : start + 2]]
        best_before = max((t.score for t in trials), default=-np.inf)
        trials += run(pair, 1.0)
        is_late = pair[-1].n_centers >= _ENOUGH_CENTERS
        if is_late and max(t.score for t in trials[start:]) <= best_before:
            break
    best = max(trials, key=lambda t: t.score)
    good = best.score - best.standard_error
    chosen = next(t for t in trials if t.score >= good)
    sizes = [t.layout.n_centers for t in trials]
    reason = (
        f"{chosen.layout.n_centers} centers: the smallest of {sizes} "
        f"with a validated score ({chosen.score:.4f}) within one standard error "
        f"({best.standard_error:.4f}) of the best ({best.score:.4f}, "
        f"{best.layout.n_centers} centers)."
    )
    if _is_rising(trials) and chosen is trials[-1]:
        warnings.warn(
            f"This data does not compress: the validated score still rises at "
            f"{chosen.layout.n_centers} centers, the largest number tried. A larger machine may "
            "do better.",
            UserWarning,
            stacklevel=5,
        )
    return chosen, [t.point for t in trials], reason


def spend_bytes(
    run: RunTrials,
    layout: Layout,
    max_bytes: int,
    n_rows: int,
    most: int,
    storage: str,
    projection: Any,
) -> tuple[Trial, list[PathPoint], str]:
    """Choose rank, formats and number of centers that fill a number of bytes.

    Short trials first settle the rank of the projection, then the formats; the best few are
    trained in full, and the best of them is chosen.

    Parameters
    ----------
    run : callable
        Trains layouts for a share of the usual epochs.
    layout : Layout
        Sizes of the problem.
    max_bytes : int
    n_rows : int
        To train on.
    most : int
        The largest number of centers.
    storage : str
    projection : None, int or "auto"

    Returns
    -------
    trial : Trial
    path : list of PathPoint
    reason : str

    Raises
    ------
    ValueError
        Where nothing fits.
    """
    first, second = candidates(layout, max_bytes, most, storage, projection)
    if not first:
        raise ValueError(
            f"max_bytes={max_bytes} is too little for {layout.n_features} features and "
            f"{layout.n_outputs} outputs: a single center takes {_least(layout, storage)} bytes. "
            'Give more bytes, fewer features, storage="auto" or projection="auto".'
        )
    path: list[PathPoint] = []
    finalists = [*first, *second]
    if len(finalists) > 1:
        tried = run(first, _SHORT)
        ranks = {max(tried, key=lambda t: t.score).layout.rank, None}
        others = [other for other in second if other.rank in ranks]
        others += [
            replace(t.layout, n_centers=t.layout.n_centers // 2)
            for t in tried
            if t.layout.rank in ranks and t.layout.n_centers > _MANY * n_rows
        ]
        tried += run(others, _SHORT)
        path = [t.point for t in tried]
        finalists = [t.layout for t in sorted(tried, key=lambda t: -t.score)[:_FINALISTS]]
    full = run(finalists, 1.0)
    path += [t.point for t in full]
    best = max(full, key=lambda t: t.score)
    reason = (
        f"{best.layout.describe()}; {best.layout.nbytes} of {max_bytes} bytes: the best "
        f"validated score, {best.score:.4f} (standard error {best.standard_error:.4f}), of "
        f"{len(path)} trials."
    )
    if best.layout.n_centers == most:
        reason += f" {most} centers are the most for these rows; bytes are left over."
    return best, path, reason


def _least(layout: Layout, storage: str) -> int:
    """Bytes of a machine of one center."""
    formats = STORAGE["int4" if storage == "auto" else storage]
    return replace(layout, n_centers=1, formats=formats).nbytes


def _is_rising(trials: list[Trial]) -> bool:
    """Whether the last size is better than all before by more than a standard error."""
    if len(trials) < 2:
        return False
    last, before = trials[-1], max(t.score for t in trials[:-1])
    return last.score > before + last.standard_error


def _on_cpu(machine: Machine) -> Machine:
    return Machine(**{name: to_numpy(array) for name, array in machine.arrays().items()})

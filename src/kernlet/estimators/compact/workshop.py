"""Trials of layouts on the same rows, and the last training of the one that is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kernlet.devices import to_numpy
from kernlet.estimators.compact.initial import decoded_machine
from kernlet.estimators.compact.layout import Layout
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

_SETTLING = 0.25  # of the epochs: the last training, on all rows


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


def _on_cpu(machine: Machine) -> Machine:
    return Machine(**{name: to_numpy(array) for name, array in machine.arrays().items()})

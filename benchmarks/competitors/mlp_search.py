"""The search for a multi-layer perceptron within a number of bytes, in one call.

The protocol is that of the compact machine's call, in its own code: the same held-out rows or
folds, stages around the best so far, criterion, numbers of trials and of full fits, and a last
training on all rows. Only the candidates are others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.competitors.mlp_network import (
    Stack,
    held_out_outputs,
    stacks_of,
    trained,
)
from benchmarks.competitors.mlp_plan import (
    Network,
    Plan,
    Setting,
    Task,
    examples_of,
    inputs_of,
)
from benchmarks.competitors.mlp_space import (
    Space,
    first_settings,
    small_settings,
    small_shapes,
    variations,
)
from kernlet.compact.batches import BatchLoader
from kernlet.compact.folds import Split, stratified_folds
from kernlet.compact.inputs import Inputs, asinh_inputs
from kernlet.compact.scoring import ClassValidation, NumberValidation, Validation
from kernlet.compact.search import (
    EFFORTS,
    MAX_ROWS_IN_HALVES,
    TRIAL_HELD_OUT_ROWS,
    TRIAL_ROWS,
    choose_by_folds,
    choose_held_out,
)
from kernlet.compact.space import MANY_ROWS, Stage
from kernlet.compact.train import default_batch_size, default_epochs
from kernlet.devices import Device
from kernlet.sampling import derive_seed, hold_out, subsample
from kernlet.threads import single_thread

_HELD_OUT, _N_FOLDS = 0.2, 5  # the defaults of the compact machine
#: Trials of the stages after the first at most, by effort, as of the compact machine.
_MOST_TRIALS = {"quick": 8, "default": 16, "thorough": 20}


# -- Trials ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trial:
    """A trained setting, with its outputs for rows that it was not trained on."""

    candidate: Setting
    outputs: Any
    rows: Any
    stack: Stack
    examples: BatchLoader
    inputs: Inputs


@dataclass(frozen=True, eq=False)
class Trainer:
    """Trains settings on the rows ``train``; ``held_out`` are others."""

    X: Any
    targets: Any
    task: Task
    train: Any
    held_out: Any
    seed: int
    device: Device
    augment: str | None = None
    _mapped: dict[Any, tuple[BatchLoader, list[Inputs]]] = field(default_factory=dict)

    @property
    def row_visits(self) -> float:
        """Rows times epochs of a full fit."""
        return float(len(self.train) * default_epochs(len(self.train)))

    def trials(self, settings: Sequence[Setting], epochs: float) -> list[Trial]:
        """Train settings in stacks."""
        trials: dict[int, Trial] = {}
        batch_size = default_batch_size(len(self.train))
        for numbers in stacks_of(settings, 1, batch_size, self.device):
            chosen = [settings[number] for number in numbers]
            examples, inputs = self._examples(chosen[0].plan, [self.train])
            stack = trained(chosen, examples, inputs, [self.train], epochs, self.seed)
            outputs = held_out_outputs(stack, examples, [self.held_out])
            for i, number in enumerate(numbers):
                of = (chosen[i], outputs[i][0], self.held_out, stack.pick(i), examples, inputs[0])
                trials[number] = Trial(*of)
        return [trials[number] for number in range(len(settings))]

    def fold_outputs(
        self,
        splits: Sequence[Split],
        settings: Sequence[Setting],
        folds: Sequence[int],
        epochs: float,
    ) -> list[list[Any]]:
        """Outputs of every setting for the held-out rows of some of the splits."""
        outputs: dict[int, list[Any]] = {}
        some = [splits[fold] for fold in folds]
        batch_size, n_rows = default_batch_size(len(some[0][0])), len(self.X)
        for numbers in stacks_of(settings, len(folds), batch_size, self.device):
            chosen = [settings[number] for number in numbers]
            examples, inputs = self._examples(chosen[0].plan, [train for train, _ in some])
            subsets = [train + n_rows * i for i, (train, _) in enumerate(some)]
            stack = trained(chosen, examples, inputs, subsets, epochs, self.seed, folds)
            checks = [check + n_rows * i for i, (_, check) in enumerate(some)]
            held_out = held_out_outputs(stack, examples, checks)
            outputs |= dict(zip(numbers, held_out, strict=True))
        return [outputs[number] for number in range(len(settings))]

    def _examples(self, plan: Plan, subsets: list[Any]) -> tuple[BatchLoader, list[Inputs]]:
        """All rows behind the input maps of a plan, with constants from each of the subsets."""
        # The mean and the deviation of all rows are those of every subset.
        is_plain = plan.kind[:3] == (False, 0, 1)
        key = (plan.kind, *(is_plain or hash(subset.tobytes()) for subset in subsets))
        if key not in self._mapped:
            inputs = [inputs_of(plan, self.X, self.targets, subset) for subset in subsets]
            of = (self.X, self.targets, self.task, inputs, self.device, self.augment)
            self._mapped[key] = examples_of(*of), inputs
        return self._mapped[key]


# -- The call --------------------------------------------------------------------------------


@single_thread()
def search(
    X: Any,
    targets: Any,
    max_bytes: int,
    seed: int,
    device: Device,
    *,
    n_classes: int,
    depths: tuple[int, ...] = (1, 2),
    is_symmetric: bool = False,
    effort: str = "default",
    augment: str | None = None,
) -> Network:
    """The network that is best on held-out rows, of at most so many bytes.

    ``augment`` is "shift" or "affine" for square images, with at least 2,000 rows.
    """
    task = Task(X.shape[1], n_classes)
    space = Space(
        task,
        max_bytes,
        len(X),
        depths,
        is_symmetric,
        asinh_inputs(X, X).scaling_bytes,
        effort,
    )
    rows = np.arange(len(X))
    # The number that the compact machine draws from this seed, so that the same rows are held out.
    seed = int(np.random.RandomState(seed).randint(2**31 - 1))
    trainer = Trainer(X, targets, task, rows, rows[:0], seed, device, augment)
    if len(X) < MANY_ROWS:
        return _by_folds(space, trainer)
    return _held_out(space, trainer)


def _by_folds(space: Space, trainer: Trainer) -> Network:
    """Choose by cross-validation, and train the winner on all rows."""
    splits = stratified_folds(_groups(trainer), _N_FOLDS, np.random.RandomState(trainer.seed))
    choice: Any = choose_by_folds(
        lambda settings, folds, epochs: trainer.fold_outputs(splits, settings, folds, epochs),
        small_settings(space),
        _validation(trainer),
        splits,
        space.max_bytes,
        lambda best: small_shapes(space, best),
    )
    (trial,) = trainer.trials([choice.candidate], 1.0)
    return trial.stack.network(trial.inputs)


def _held_out(space: Space, trainer: Trainer) -> Network:
    """Choose on held-out rows, and train the winner on all rows."""
    groups, everything = _groups(trainer), trainer
    train, held_out = hold_out(groups, _HELD_OUT, np.random.RandomState(trainer.seed))
    trainer = replace(trainer, train=train, held_out=held_out)
    splits = _trial_splits(groups, train, held_out, trainer.seed)
    short = replace(trainer, train=splits[0][0])
    effort = EFFORTS[space.effort]
    costs = [len(splits) * short.row_visits, trainer.row_visits]
    costs = [cost / everything.row_visits for cost in costs]
    n_trials = len(first_settings(space)) + _MOST_TRIALS[space.effort]
    epochs = effort.short(n_trials, *costs), effort.finalist_epochs
    choice: Any = choose_held_out(
        lambda settings, folds, epochs: trainer.fold_outputs(splits, settings, folds, epochs),
        splits,
        trainer.trials,
        _stages(space),
        _validation(trainer),
        space.max_bytes,
        epochs=epochs,
        fits=(epochs[0] * costs[0], epochs[1] * costs[1]),
        n_finalists=effort.n_finalists,
    )
    if choice is None:
        raise ValueError(f"No network with two hidden units fits {space.max_bytes} bytes.")
    (trial,) = everything.trials([choice.candidate], effort.last_epochs)
    return trial.stack.network(trial.inputs)


def _stages(space: Space) -> list[Stage]:
    """Shapes first, then variations of the best so far."""
    first: list[Any] = [Stage("shapes", lambda _: first_settings(space))]
    return first + [
        Stage(name, lambda best, vary=vary: list(dict.fromkeys(vary(space, best))))
        for name, vary in variations(space).items()
    ]


def _trial_splits(groups: Any, train: Any, held_out: Any, seed: int) -> list[Split]:
    """Rows of short trials, those of the compact machine: both halves in turn, or a part."""
    random = np.random.RandomState(derive_seed(seed, 3))
    halves = stratified_folds(groups[train], 2, random)
    halves = [(train[a], train[b]) for a, b in halves]
    out = np.array_split(random.permutation(held_out), 2)
    if len(train) <= MAX_ROWS_IN_HALVES:
        pairs = zip(halves, out, strict=True)
        return [(half, np.union1d(other, part)) for (half, other), part in pairs]
    few = subsample(groups, halves[0][0], TRIAL_ROWS, seed)
    others = np.concatenate([held_out, random.permutation(halves[0][1])])
    return [(few, np.sort(others[:TRIAL_HELD_OUT_ROWS]))]


def _groups(trainer: Trainer) -> Any:
    """Classes; one group in regression."""
    return trainer.targets if trainer.task.n_classes else np.zeros(len(trainer.X), np.intp)


def _validation(trainer: Trainer) -> Validation:
    weights = np.ones(len(trainer.X))
    if trainer.task.n_classes:
        return ClassValidation(trainer.targets, weights)
    targets = np.asarray(trainer.targets)
    return NumberValidation(targets[:, None], weights, targets)

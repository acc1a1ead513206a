"""What compact machines share: their parameters, and the fit that chooses and trains."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.parallel import Parallel, delayed

from kernlet._typing import Floats, Indices
from kernlet.affine import ColumnRanges
from kernlet.compact.batches import (
    BatchLoader,
    TrainingSet,
)
from kernlet.compact.folds import (
    Split,
    stacks_of,
    stratified_folds,
    train_stack,
    train_trials,
)
from kernlet.compact.images import are_images, image_side
from kernlet.compact.initialise import InitialModel, InitialPoints
from kernlet.compact.inputs import (
    FLOAT32_RANGE,
    Inputs,
    column_medians,
    column_scaling,
    mean_and_deviation,
)
from kernlet.compact.path import KERNELS, MISSING, PathMixin, PathPoint, pack_path
from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.compact.scoring import Validation
from kernlet.compact.search import (
    EFFORTS,
    MAX_ROWS_IN_HALVES,
    TRIAL_HELD_OUT_ROWS,
    TRIAL_ROWS,
    RunFolds,
    RunTrials,
    SearchWatch,
    choose_by_folds,
    choose_held_out,
    choose_size,
    choose_treatment,
    most_fold_fits,
    point_of,
)
from kernlet.compact.space import (
    MANY_ROWS,
    Space,
    layouts,
    most_trials,
    small_candidates,
    small_shapes,
    stages,
    with_other_ranks,
)
from kernlet.compact.train import RATES, TrainingConfig, default_batch_size, default_epochs
from kernlet.compact.trainer import (
    LATER_RATE,
    Candidate,
    EpochMonitor,
    Trainer,
    Trial,
)
from kernlet.devices import find_device, to_numpy
from kernlet.model.scoring import SCORING_CONSTRAINTS
from kernlet.progress import CallbackSupportMixin, Progress
from kernlet.quantization import PackedArray, QuantizedExpansion
from kernlet.sampling import derive_seed, hold_out, subsample
from kernlet.sklearn_base import KernletEstimator, TrainingData, warn_user
from kernlet.threads import single_thread
from kernlet.units import parse_bytes

_MAX_FOLDS = 10
# Multiplications of an epoch of the largest machine in cross-validation, which takes some 4,000
# such epochs: minutes. Beyond it, one held-out part decides as for many rows.
_MOST_FOLD_WORK = 4e8
_IMAGE_ROWS = 1000  # that are looked at
_MAX_ROWS_TO_CHOOSE = 10_000  # a number of centers; it is then trained on all rows


class CompactMachine(PathMixin, CallbackSupportMixin, KernletEstimator, ABC):
    """A Gaussian machine of few centers, trained as a whole and stored in few bytes."""

    expansion_: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_centers": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "max_bytes": [Interval(Integral, 1, None, closed="left"), str, None],
        "max_centers": [Interval(Integral, 1, None, closed="left"), callable, None],
        "storage": [StrOptions({*STORAGE, "auto"})],
        "projection": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), None],
        "scale": [StrOptions({"auto"}), "boolean"],
        "kernel": [StrOptions({*KERNELS, "auto"})],
        "width": [StrOptions({"auto", "shared", "per_center", "per_feature"})],
        "n_steps": [StrOptions({"auto"}), Interval(Integral, 0, 1000, closed="both")],
        "block_means": [StrOptions({"auto"}), "boolean"],
        "augment": [StrOptions({"shift", "affine"}), None],
        "missing": [StrOptions({*MISSING, "auto"})],
        "effort": [StrOptions(set(EFFORTS))],
        # Larger numbers overflow in float32, and no training needs them.
        "noise": [Interval(Real, 0, 1e6, closed="both")],
        "learning_rate": [Interval(Real, 0, 1e6, closed="right")],
        "n_epochs": [Interval(Integral, 1, None, closed="left"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "init": [StrOptions({"kmeans"}), "array-like", HasMethods(["fit", "predict"])],
        "scoring": SCORING_CONSTRAINTS,
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "early_stopping": ["boolean"],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "keep_history": ["boolean"],
        "device": [str, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }
    classes_per_center: Any = None
    smoothing: Any = None
    missing: str = "error"
    _rates: ClassVar[dict[str, float]] = RATES
    _intercept_bytes: ClassVar[int] = 2

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    @property
    def n_centers_(self) -> int:
        """Centers: the kernel evaluations that one prediction costs."""
        return self.expansion_.n_centers

    @property
    def nbytes_(self) -> int:
        """Bytes of everything that is stored."""
        return self.expansion_.nbytes

    def _train(
        self,
        data: TrainingData,
        training: TrainingSet,
        initial: InitialModel | None,
        attributes: Callable[[QuantizedExpansion], dict[str, Any]],
    ) -> Trial:
        """Choose a candidate, train it, and set the fitted attributes.

        ``attributes`` are those by which to predict with an expansion, also in the middle of a fit.
        """
        self._check_shape(data.X.shape[1], training.n_outputs)
        trainer = self._trainer(training, initial)
        monitor = EpochMonitor(attributes)
        # One to three tasks, of search, training and fine-tuning.
        with Progress.start(self, data) as progress:
            trial, path, self.choice_ = self._choose(trainer, initial, progress, monitor)
            self.n_iter_, self._path = len(trial.losses), pack_path(path)
            score = training.validation.score(trial.outputs, trial.rows, with_error=False)
            self.validation_score_ = score.value
            self._warn_undefined(training.validation, trial.rows)
            if self.keep_history:
                self.history_ = monitor.history
            for name, value in attributes(trial.expansion).items():
                setattr(self, name, value)
        return trial

    def _warn_undefined(self, validation: Validation, rows: Indices) -> None:
        """Warn where ``scoring`` is not defined on the held-out rows, so that it chose nothing."""
        if self.scoring is not None and len(rows) and not np.isfinite(self.validation_score_):
            instead = validation.usual_loss or validation.usual_score
            warn_user(
                f"The score {validation.score_name} is not defined on the held-out rows, which may "
                f"lack a class: where something was chosen, it was by {instead}. Give more rows "
                "of every class, or another scoring.",
                UserWarning,
            )

    def _trainer(self, training: TrainingSet, initial: InitialModel | None) -> Trainer:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        inputs, has_missing = self._inputs(training, initial)
        batches = BatchLoader(
            training.X,
            training.targets,
            training.weights / training.weights.mean(),
            table=training.target_table,
            inputs=inputs,
            device=find_device(self.device),
            augment=self.augment,
            has_missing=has_missing,
        )
        config = self._config(len(training.train), initial)
        return Trainer(training, batches, initial, config, seed)

    def _config(self, n_rows: int, initial: InitialModel | None) -> TrainingConfig:
        """How to train on a number of rows."""
        # A compact machine has been trained before, and is refined at the rates of later stages.
        is_trained = isinstance(initial, QuantizedExpansion)
        return TrainingConfig(
            self.n_epochs or default_epochs(n_rows),
            self.batch_size or default_batch_size(n_rows),
            self.noise,
            self.learning_rate * (LATER_RATE if is_trained else 1.0),
            self._rates,
        )

    def _trainer_on(self, trainer: Trainer, train: Indices, held_out: Indices) -> Trainer:
        """The trainer for other rows."""
        training = replace(trainer.training, train=train, held_out=held_out)
        config = self._config(len(train), trainer.model)
        return replace(trainer, training=training, config=config)

    def _inputs(self, training: TrainingSet, initial: InitialModel | None) -> tuple[Inputs, bool]:
        """How rows are scaled, and whether some of their numbers are missing.

        Means and deviations of the columns, or one of all inputs; rounded as they are stored.
        """
        ranges = ColumnRanges.of(training.X, skip_missing=self.missing != "error")
        if ranges.has_missing:
            self._check_columns(ranges)
            self._check_missing(initial)
        if not np.isfinite([ranges.low, ranges.high]).all():
            raise ValueError("Input X contains NaN or infinity.")
        require_float32(max(ranges.largest, 1.0), "go up to")
        self._warn_unresolved(ranges)
        if isinstance(initial, QuantizedExpansion):  # which carries its own
            return Inputs.of(initial), ranges.has_missing
        inputs = self._scaling(training, initial, ranges)
        if self.missing == "median" or (self.missing == "auto" and ranges.has_missing):
            inputs = replace(inputs, fill=column_medians(training.X, inputs.scale))
        return inputs, ranges.has_missing

    def _check_columns(self, ranges: ColumnRanges) -> None:
        """Refuse columns without any number."""
        empty = np.flatnonzero(ranges.low > ranges.high)
        if len(empty):
            names = getattr(self, "feature_names_in_", range(len(ranges.low)))
            raise ValueError(
                f"Column {names[empty[0]]!r} of X has no number, only NaN: leave it out, or give "
                "more rows."
            )

    def _check_missing(self, initial: InitialModel | None) -> None:
        """Refuse missing values where they cannot be treated."""
        if self.augment is not None:
            raise ValueError(
                f"X contains NaN, and augment={self.augment!r} takes images without missing "
                "pixels: leave augment out, or fill them in."
            )
        if isinstance(initial, QuantizedExpansion) and initial.missing == "error":
            raise ValueError(
                "X contains NaN, but the machine to start from takes no missing values: start "
                "afresh, or fill them in."
            )

    def _scaling(
        self, training: TrainingSet, initial: InitialPoints | None, ranges: ColumnRanges
    ) -> Inputs:
        """The inputs that standardise the columns, or all numbers together."""
        is_auto, is_refined = self.scale == "auto", initial is not None and initial.expansion
        if self.scale and not (is_auto and is_refined):
            scaling = column_scaling(training.X, ranges, training.weights, always=not is_auto)
            if scaling is not None:
                return Inputs(*scaling)
        mean, deviation = mean_and_deviation(
            training.X, training.weights, ranges.largest, has_missing=ranges.has_missing
        )
        require_float32(deviation, "have a deviation of")
        return Inputs(float(np.float32(mean)), float(np.float32(deviation)))

    def _warn_unresolved(self, ranges: ColumnRanges) -> None:
        """Warn of columns that vary less than the float32 numbers of the machine can tell."""
        columns = ranges.unresolved()
        if len(columns):
            names = getattr(self, "feature_names_in_", range(len(ranges.low)))
            low, high = ranges.low[columns[0]], ranges.high[columns[0]]
            warn_user(
                f"Column {names[columns[0]]!r} varies by {high - low:.3g} about {low:.3g}, which "
                "float32, the precision of compact machines and their exports, hardly resolves "
                f"({len(columns)} of {len(ranges.low)} columns do so): subtract the means of the "
                "columns first, for example with StandardScaler.",
                UserWarning,
            )

    def _split(self, groups: Indices) -> tuple[Indices, Indices]:
        """Rows to train on and held-out rows, the groups in proportion."""
        if self.validation_fraction is None:
            return np.arange(len(groups)), np.arange(0)
        random = np.random.RandomState(check_random_state(self.random_state).randint(2**31 - 1))
        return hold_out(groups, self.validation_fraction, random)

    def _choose(
        self,
        trainer: Trainer,
        initial: InitialModel | None,
        progress: Progress,
        monitor: EpochMonitor,
    ) -> tuple[Trial, list[PathPoint], str]:
        """Train what the parameters say, or the best candidate where they leave it open."""
        if isinstance(initial, QuantizedExpansion):
            candidate = Candidate(self._plan_of(initial), self.noise)
            reason = "the size of the machine to start from"
            return self._train_one(trainer, candidate, progress, monitor, reason)
        space = self._space(trainer, initial)
        if space.max_bytes is None and space.n_centers is not None:
            n_centers = min(space.n_centers, space.most_centers(space.plain))
            if n_centers < 1:
                raise space.refusal()
            if initial is None:
                n_centers = min(n_centers, len(trainer.training.train))
            candidate = space.candidate(replace(space.plain, n_centers=n_centers))
            if space.missing == "auto" and len(trainer.training.held_out):
                return self._search_treatment(trainer, space, candidate, progress, monitor)
            reason = "n_centers was given" if initial is None else "the size to start from"
            return self._train_one(trainer, candidate, progress, monitor, reason)
        if self.validation_fraction is None:
            return self._fill(trainer, space, progress, monitor)
        if trainer.batches.n_rows < MANY_ROWS and _fold_work(space) <= _MOST_FOLD_WORK:
            return self._search_folds(trainer, space, progress, monitor)
        return self._search_held_out(trainer, space, progress, monitor)

    def _space(self, trainer: Trainer, initial: InitialPoints | None) -> Space:
        """What the parameters leave open."""
        n_rows = trainer.batches.n_rows
        max_centers = n_rows if initial is None else len(initial.points)
        if isinstance(self.max_centers, Integral):
            max_centers = min(max_centers, int(self.max_centers))
        n_centers = None if self.n_centers == "auto" else min(int(self.n_centers), max_centers)
        max_bytes = None if self.max_bytes is None else parse_bytes(self.max_bytes)
        if initial is not None and max_bytes is None and n_centers is None:
            n_centers = max_centers
        batches = trainer.batches
        block: Any = 2 if self.block_means is True else 1
        scaling = batches.scaling_bytes_of(False, block)
        missing = self._treatment(batches)
        plan = replace(
            self._plan(trainer.training),
            scaling_bytes=scaling,
            missing="median" if missing == "auto" else missing,
            fill_bytes=batches.inputs.fill_bytes,
        )
        projection = self.projection
        if missing == "distance" and projection == "auto":
            projection = None
        # Shapes are chosen within a budget, on held-out rows; else "auto" is the plain machine.
        is_open = max_bytes is not None and initial is None and self.validation_fraction is not None
        may_pool = is_open and self.block_means == "auto" and missing != "distance"
        if may_pool and _has_images(batches):
            block = "auto"
        given = {
            "kernel": (self.kernel, "rbf"),
            "width": (self.width, "shared"),
            "n_entries": (self.classes_per_center, None),
            "n_steps": (self.n_steps, 0),
        }
        shape: dict[str, Any] = {
            name: usual if value == "auto" and not is_open else value
            for name, (value, usual) in given.items()
        }
        space = Space(
            plan,
            self.noise,
            n_rows,
            max_centers,
            max_bytes,
            n_centers,
            self.storage,
            projection,
            **shape,
            block=block,
            smoothing="auto" if is_open and self._may_smooth else None,
            effort=self.effort,
            centers_of_shape=self.max_centers if callable(self.max_centers) else None,
            missing=missing,
        )
        if is_open and space.is_table:  # for which step maps over an asinh are tried
            space = replace(space, asinh_bytes=batches.scaling_bytes_of(True, 1))
        return space

    def _treatment(self, batches: BatchLoader) -> str:
        """What becomes of missing values; "auto" where both ways are open, and some are missing."""
        if self.missing != "auto":
            return self.missing
        if batches.inputs.fill is None:
            return "error"
        mixes = self.projection not in ("auto", None) or self.block_means is True
        return "median" if mixes or self.validation_fraction is None else "auto"

    @property
    def _may_smooth(self) -> bool:
        """Whether label smoothing is open."""
        return False

    def _check_shape(self, n_features: int, n_outputs: int) -> None:
        """Refuse parameters that contradict each other or the data."""
        has_steps, has_blocks = self.n_steps not in ("auto", 0), self.block_means is True
        if has_blocks or self.augment is not None:
            side = image_side(n_features)
            if has_blocks and side % 2:
                raise ValueError(
                    f"block_means=True averages 2 x 2 pixels, but images of {n_features} pixels "
                    f"have an odd side, {side}; leave it out."
                )
        if has_blocks:
            given = {
                f"n_steps={self.n_steps}": has_steps,
                'width="per_feature"': self.width == "per_feature",
                "scale=True": self.scale is True,
            }
            for parameter in (name for name, is_given in given.items() if is_given):
                raise ValueError(
                    "block_means=True has one shift and one scale for all pixels: leave "
                    f"{parameter} out."
                )
        if self.missing == "distance" and (has_blocks or self.projection not in ("auto", None)):
            mixes = "block_means=True" if has_blocks else f"projection={self.projection}"
            raise ValueError(
                f'missing="distance" leaves features out of distances, and {mixes} mixes them: '
                'leave it out, or give missing="median".'
            )
        n_entries = self.classes_per_center
        if n_entries not in ("auto", None) and n_entries > n_outputs:
            raise ValueError(
                f"classes_per_center={n_entries}, but a center has {n_outputs} coefficient"
                f"{'s' if n_outputs > 1 else ''}; give at most that, or None for all."
            )

    def _fill(
        self, trainer: Trainer, space: Space, progress: Progress, monitor: EpochMonitor
    ) -> tuple[Trial, list[PathPoint], str]:
        """Without validation: as many centers as fit, where nothing else is open."""
        if space.max_bytes is None or "auto" in (space.storage, space.projection):
            what = 'n_centers="auto"' if space.max_bytes is None else "What max_bytes leaves open"
            raise ValueError(
                f"{what} is chosen on held-out rows: give validation_fraction, or n_centers, "
                "storage and projection."
            )
        candidates = layouts(space)
        if not candidates:
            raise space.refusal()
        return self._train_one(trainer, candidates[0], progress, monitor, "as many as fit")

    def _search_folds(
        self, trainer: Trainer, space: Space, progress: Progress, monitor: EpochMonitor
    ) -> tuple[Trial, list[PathPoint], str]:
        """Choose by cross-validation, and train the winner on all rows."""
        candidates = small_candidates(space)
        if not candidates:
            raise space.refusal()
        splits = self._folds(trainer.training)
        everything = np.arange(trainer.batches.n_rows)
        last = self._trainer_on(trainer, everything, everything[:0])
        if not splits:
            reason = "the smallest, as there are too few rows to validate"
            return self._train_one(last, candidates[0], progress, monitor, reason)
        first = self._trainer_on(trainer, *splits[0])
        with progress.task("search", sequential=False) as search:
            watch = SearchWatch(search, most_fold_fits(len(candidates), len(splits)))
            choice = choose_by_folds(
                self._run_folds(first, splits, watch),
                candidates,
                trainer.training.validation,
                splits,
                space.max_bytes,
                lambda best: small_shapes(space, best),
                watch.begin,
            )
        trial, _, _ = self._train_one(last, choice.candidate, progress, monitor)
        trial = replace(trial, outputs=choice.outputs, rows=choice.rows)
        return trial, choice.path, choice.sentence

    def _search_held_out(
        self, trainer: Trainer, space: Space, progress: Progress, monitor: EpochMonitor
    ) -> tuple[Trial, list[PathPoint], str]:
        """Choose on held-out rows, and train the winner on all rows."""
        if not len(trainer.training.held_out):  # classes too small to hold out a row of each
            trainer = self._trainer_on(trainer, *self._split(np.zeros(trainer.batches.n_rows, int)))
        if space.max_bytes is None:
            return self._search_size(trainer, space, progress, monitor)
        splits = self._trial_splits(trainer)
        short = self._trainer_on(trainer, *splits[0])
        effort, everything = EFFORTS[self.effort], np.arange(trainer.batches.n_rows)
        last = self._trainer_on(trainer, everything, everything[:0])
        n_splits, one_fit = len(splits), _row_visits(last)
        costs = n_splits * _row_visits(short) / one_fit, _row_visits(trainer) / one_fit
        shortest = effort.short(most_trials(space), *costs, n_splits=n_splits)
        epochs = shortest, effort.finalist_epochs
        fits = epochs[0] * costs[0], epochs[1] * costs[1]
        expected = most_trials(space) * fits[0] + effort.n_finalists * fits[1] + effort.last_epochs
        with progress.task("search", sequential=False) as search:
            watch = SearchWatch(search, expected)
            choice = choose_held_out(
                self._run_folds(short, splits, watch),
                splits,
                self._run_trials(trainer, watch),
                stages(space),
                trainer.training.validation,
                space.max_bytes,
                epochs=epochs,
                fits=fits,
                n_finalists=effort.n_finalists,
                other_ranks=lambda best: with_other_ranks(space, best),
                report=watch.begin,
            )
        if choice is None:
            raise space.refusal()
        trial, _, _ = self._train_one(
            last, choice.candidate, progress, monitor, epochs=effort.last_epochs
        )
        trial = replace(trial, outputs=choice.outputs, rows=choice.rows)
        spent = f"{choice.n_fits + effort.last_epochs:.1f} full fits"
        return trial, choice.path, f"{choice.sentence} Effort {self.effort!r}: {spent}."

    def _search_size(
        self, trainer: Trainer, space: Space, progress: Progress, monitor: EpochMonitor
    ) -> tuple[Trial, list[PathPoint], str]:
        """Choose a number of centers on some of the rows; fine-tune the machine on all."""
        with progress.task("search", sequential=False) as search:
            run = self._run_trials(self._few(trainer), SearchWatch(search))
            choice = choose_size(run, space, trainer.training.validation)
        trial, _, _ = self._train_one(trainer, choice.candidate, progress, monitor)
        return trial, choice.path, choice.sentence

    def _search_treatment(
        self,
        trainer: Trainer,
        space: Space,
        candidate: Candidate,
        progress: Progress,
        monitor: EpochMonitor,
    ) -> tuple[Trial, list[PathPoint], str]:
        """Of a given size, choose what becomes of missing values on held-out rows."""
        present = replace(candidate, plan=space.over_present(candidate.plan))
        with progress.task("search", sequential=False) as search:
            run = self._run_trials(self._few(trainer), SearchWatch(search))
            choice = choose_treatment(run, [candidate, present], trainer.training.validation)
        trial, _, _ = self._train_one(trainer, choice.candidate, progress, monitor)
        return trial, choice.path, choice.sentence

    def _trial_splits(self, trainer: Trainer) -> list[Split]:
        """Rows of short trials: both halves in turn or, of many rows, a part of them."""
        training, groups = trainer.training, self._groups(trainer.training)
        random = np.random.RandomState(derive_seed(trainer.seed, 3))
        halves = stratified_folds(groups[training.train], 2, random)
        if not halves:  # no class has two rows
            halves = stratified_folds(np.zeros(len(training.train), np.intp), 2, random)
        halves = [(training.train[a], training.train[b]) for a, b in halves]
        held_out = np.array_split(random.permutation(training.held_out), 2)
        if len(training.train) <= MAX_ROWS_IN_HALVES:
            pairs = zip(halves, held_out, strict=True)
            return [(train, np.union1d(out, other)) for (train, out), other in pairs]
        train = subsample(groups, halves[0][0], TRIAL_ROWS, trainer.seed)
        others = np.concatenate([training.held_out, random.permutation(halves[0][1])])
        return [(train, np.sort(others[:TRIAL_HELD_OUT_ROWS]))]

    def _few(self, trainer: Trainer) -> Trainer:
        """The trainer on at most 10,000 rows, on which a number of centers is chosen."""
        training, seed = trainer.training, trainer.seed
        groups = self._groups(training)
        n_held_out = round(_MAX_ROWS_TO_CHOOSE * len(training.held_out) / trainer.batches.n_rows)
        train = subsample(groups, training.train, _MAX_ROWS_TO_CHOOSE - n_held_out, seed)
        held_out = subsample(groups, training.held_out, n_held_out, seed)
        return self._trainer_on(trainer, train, held_out)

    def _folds(self, training: TrainingSet) -> list[Split]:
        """Folds that hold out ``validation_fraction`` of the rows each."""
        assert self.validation_fraction is not None
        n_folds = int(np.clip(round(1 / self.validation_fraction), 2, _MAX_FOLDS))
        random = np.random.RandomState(check_random_state(self.random_state).randint(2**31 - 1))
        groups = self._groups(training)
        counts = np.bincount(groups)
        n_rare = int(np.sum(counts < n_folds))
        if n_rare and training.target_table is not None:
            warn_user(
                f"{n_rare} of {len(counts)} classes have fewer than {n_folds} rows (the smallest "
                f"has {counts.min()}), so that not every fold holds them out: what is chosen, and "
                "probabilities, say little about them.",
                UserWarning,
            )
        return stratified_folds(groups, n_folds, random)

    def _groups(self, training: TrainingSet) -> Indices:
        """Classes; one group in regression."""
        n_rows = len(training.weights)
        return np.zeros(n_rows, np.intp) if training.target_table is None else training.targets

    def _train_one(
        self,
        trainer: Trainer,
        candidate: Candidate,
        progress: Progress,
        monitor: EpochMonitor,
        reason: str = "",
        epochs: float = 1.0,
    ) -> tuple[Trial, list[PathPoint], str]:
        """Train one candidate and report every epoch, with the held-out rows for scores."""
        training, held_out = trainer.training, trainer.training.held_out
        patience = self.n_iter_no_change if self.early_stopping and len(held_out) else None
        with progress.task("training") as task:
            is_held_out = np.isin(np.arange(trainer.batches.n_rows), held_out)
            task.data = task.data.subset(is_held_out) if task.data and len(held_out) else None
            monitor.watch(task, patience=patience)
            trial = trainer.trial(candidate, epochs, monitor)
        point = point_of(trial.candidate, training.validation.score(trial.outputs, held_out), True)
        trial = self._finetune(trainer, trial, progress, monitor)
        plan = trial.candidate.plan
        return trial, [point], f"{plan.describe()}, {plan.nbytes} bytes: {reason}."

    def _finetune(
        self, trainer: Trainer, trial: Trial, progress: Progress, monitor: EpochMonitor
    ) -> Trial:
        """Continue on all rows, where some were held out and no callback asked to stop."""
        if not len(trainer.training.held_out) or monitor.was_stopped:
            return trial
        with progress.task("fine-tuning") as task:
            task.data = None  # all rows are trained on: none are left to score
            monitor.watch(task, scores=False)
            return trainer.finetune(trial, monitor)

    def _run_trials(self, trainer: Trainer, watch: SearchWatch) -> RunTrials:
        """A function that trains candidates in stacks, each stack as a task of a search."""

        def run(candidates: Sequence[Candidate], epochs: float) -> list[Trial]:
            done = self._in_stacks(trainer, candidates, 1, watch, train_trials, epochs)
            return [done[number] for number in range(len(candidates))]

        return run

    def _run_folds(self, trainer: Trainer, splits: list[Split], watch: SearchWatch) -> RunFolds:
        """The same on folds."""

        def run(
            candidates: Sequence[Candidate], folds: Sequence[int], epochs: float
        ) -> list[list[Floats]]:
            n_folds = len(folds)
            done = self._in_stacks(
                trainer, candidates, n_folds, watch, train_stack, splits, folds, epochs
            )
            return [done[number] for number in range(len(candidates))]

        return run

    def _in_stacks(
        self,
        trainer: Trainer,
        candidates: Sequence[Candidate],
        n_folds: int,
        watch: SearchWatch,
        train: Callable[..., Any],
        *arguments: Any,
    ) -> dict[int, Any]:
        """Results of stacks of candidates, in parallel, by number of the candidate."""
        device = trainer.batches.device
        stacks = stacks_of(candidates, n_folds, trainer.config.batch_size, device)
        tasks = [watch.task() for _ in stacks]
        n_jobs = self.n_jobs if device.is_numpy else None
        done = Parallel(n_jobs=n_jobs)(
            delayed(_train_quietly)(task, train, trainer, [candidates[i] for i in of], *arguments)
            for of, task in zip(stacks, tasks, strict=True)
        )
        return dict(zip(chain(*stacks), chain(*done), strict=True))

    def _plan(self, training: TrainingSet) -> StoragePlan:
        """The plan of the parameters, with one center."""
        n_features = training.X.shape[1]
        rank = None if self.projection in (None, "auto") else int(self.projection)
        n_inputs = n_features // 4 if self.block_means is True else n_features
        if rank is not None and rank > n_inputs:
            what = "features" if n_inputs == n_features else "means of 2 x 2 pixels"
            raise ValueError(
                f"projection={rank} is more than the {n_inputs} {what}; give at most that."
            )
        formats = STORAGE["float32" if self.storage == "auto" else self.storage]
        return StoragePlan(
            n_features,
            training.n_outputs,
            1,
            rank,
            formats,
            self.width,
            self._intercept_bytes,
        )

    def _plan_of(self, compact: QuantizedExpansion) -> StoragePlan:
        """The plan of a compact machine to start from, where the parameters allow it."""
        plan = replace(StoragePlan.of(compact), intercept_bytes=self._intercept_bytes)
        if self.storage != "auto":
            plan = replace(plan, formats=STORAGE[self.storage])
        if self.width != "auto" and not plan.has_widths:
            plan = replace(plan, width=self.width)
        n_entries = plan.n_outputs if plan.keeps_all else plan.n_entries
        for name, given, has in (
            ("kernel", self.kernel, plan.kernel),
            ("classes_per_center", self.classes_per_center or "auto", n_entries),
            ("n_steps", self.n_steps or "auto", plan.n_steps),
            ("block_means", self.block_means or "auto", plan.block > 1),
            ("projection", self.projection or "auto", plan.rank),
            ("missing", "auto" if self.missing == "error" else self.missing, plan.missing),
        ):
            if given not in ("auto", has):
                raise ValueError(
                    f"{name}={given!r}, but the machine to start from has {has!r}; leave {name} "
                    "out, or start afresh."
                )
        for name in ("n_centers", "max_centers"):
            most = getattr(self, name)
            most = most(plan) if callable(most) else most
            if isinstance(most, Integral) and most < plan.n_centers:
                raise ValueError(
                    f"{name}={most}, but the machine to start from has {plan.n_centers} centers; "
                    f"leave {name} out, or start afresh."
                )
        if self.max_bytes is not None and plan.nbytes > parse_bytes(self.max_bytes):
            raise ValueError(
                f"The machine to start from takes {plan.nbytes} bytes, more than "
                f"max_bytes={self.max_bytes}; give a smaller storage, or start afresh."
            )
        return plan


def _has_images(batches: BatchLoader) -> bool:
    """Whether the first rows look like images, whose pixels share a scale."""
    if isinstance(batches.inputs.shift, PackedArray):
        return False
    sample = batches.as_indices(np.arange(min(_IMAGE_ROWS, batches.n_rows)))
    return are_images(to_numpy(batches.rows(sample)))


def _row_visits(trainer: Trainer) -> float:
    """Rows times epochs of a full fit."""
    return float(len(trainer.training.train) * trainer.config.n_epochs)


def _fold_work(space: Space) -> float:
    """Multiplications of an epoch of the largest machine that cross-validation would try."""
    largest = max((each.plan.n_centers for each in small_candidates(space)), default=0)
    return float(space.n_rows) * largest * (space.plan.n_features + space.plan.n_outputs)


def require_float32(size: float, what: str) -> None:
    """Refuse numbers that float32 cannot hold."""
    if not FLOAT32_RANGE[0] < size < FLOAT32_RANGE[1]:
        raise ValueError(
            f"The numbers in X {what} {size:g}, beyond what float32 can hold. Scale the features "
            "first, for example with StandardScaler."
        )


@single_thread()
def _train_quietly(task: Progress, train: Callable[..., Any], *arguments: Any) -> Any:
    """A task in any process; on one thread, so that its round-off is the same everywhere."""
    with task, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return train(*arguments)

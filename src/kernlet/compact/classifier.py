"""The compact kernel classifier, and the fit that it shares with the regressor."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.parallel import Parallel, delayed

from kernlet._typing import Floats, Indices
from kernlet.affine import ColumnRanges
from kernlet.compact.initialise import InitialModel, initial_classifier
from kernlet.compact.network import (
    FLOAT32_RANGE,
    STORAGE,
    BatchLoader,
    CrossEntropy,
    SquaredHingeLoss,
    StoragePlan,
    TrainingSet,
    column_scaling,
    mean_and_deviation,
)
from kernlet.compact.search import CompactPathDisplay, RunTrials, search_bytes, search_sizes
from kernlet.compact.train import (
    LATER_RATE,
    RATES,
    EpochMonitor,
    PathPoint,
    Trainer,
    TrainingConfig,
    Trial,
    default_batch_size,
    default_epochs,
)
from kernlet.devices import find_device, to_numpy
from kernlet.model.calibration import best_temperature
from kernlet.quantization import QuantizedExpansion, scaling_bytes
from kernlet.rows.source import RowReader, RowSource
from kernlet.sampling import hold_out
from kernlet.sklearn_base import (
    CallbackSupportMixin,
    ExpansionClassifier,
    Progress,
    TrainingData,
    error_weights,
    fit_method,
    warn_user,
)
from kernlet.threads import single_thread

_DEFAULT_CENTERS = 100
_MAX_CENTERS_IN_BUDGET = 4096  # more train slowly and gain little
_MAX_CENTERS_IN_PATH = 1024
# Difference between the initial outputs of the right class and of the others. Ridge regression
# reaches about half of it, which is where cross-entropy neither saturates nor starts from nothing.
_INITIAL_OUTPUT_GAP = 5.0


class CompactMachine(CallbackSupportMixin, BaseEstimator, ABC):
    """A Gaussian machine of few centers, trained as a whole and stored in few bytes."""

    expansion_: Any
    path_: tuple[PathPoint, ...]
    history_: list[dict[str, float]]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_centers": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), None],
        "max_bytes": [Interval(Integral, 1, None, closed="left"), None],
        "storage": [StrOptions({*STORAGE, "auto"})],
        "projection": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), None],
        "scale": [StrOptions({"auto"}), "boolean"],
        "width": [StrOptions({"shared", "per_center"})],
        "noise": [Interval(Real, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "n_epochs": [Interval(Integral, 1, None, closed="left"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "init": [StrOptions({"kmeans"}), "array-like", HasMethods(["fit", "predict"])],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "early_stopping": ["boolean"],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "device": [str, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }
    _rates: ClassVar[dict[str, float]] = RATES
    _intercept_bytes: ClassVar[int] = 4

    @property
    def n_centers_(self) -> int:
        """Centers: the kernel evaluations that one prediction costs."""
        return self.expansion_.n_centers

    @property
    def nbytes_(self) -> int:
        """Bytes of everything that is stored."""
        return self.expansion_.nbytes

    def plot_path(self, *, ax: Any = None, by: str = "n_centers", **line: Any) -> Any:
        """Draw the validated scores of the sizes that were tried.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            To draw into; new ones unless given.
        by : {"n_centers", "nbytes"}, default="n_centers"
            The horizontal axis.
        **line : dict
            Passed on to matplotlib's ``errorbar``.

        Returns
        -------
        display : CompactPathDisplay
        """
        return CompactPathDisplay.from_estimator(self, ax=ax, by=by, **line)

    def _train(
        self,
        data: TrainingData,
        training: TrainingSet,
        initial: InitialModel | None,
        attributes: Callable[[QuantizedExpansion], dict[str, Any]],
    ) -> Trial:
        """Choose a plan, train it, fine-tune it on all rows, and set the fitted attributes.

        ``attributes`` are those by which to predict with an expansion, also in the middle of a fit.
        """
        trainer = self._trainer(training, initial)
        plain = StoragePlan(
            data.X.shape[1], training.n_outputs, 1, intercept_bytes=self._intercept_bytes
        )
        monitor = EpochMonitor(lambda network: attributes(trainer.pack(network, plain, {})))
        with Progress.start(self, data, n_tasks=2) as progress:
            trial, path, self.choice_ = self._choose(trainer, initial, progress, monitor)
            if trial.n_halvings and len(path) > 1:  # trials of a search do not warn
                warn_user(
                    "The loss was not finite in the trial that was chosen; its last steps were "
                    "undone and the learning rates halved. A smaller learning_rate may do better."
                )
            if len(training.held_out) and not monitor.was_stopped:
                with progress.task("fine-tuning") as task:
                    task.data = None  # all rows are trained on: none are left to score
                    monitor.watch(task)
                    trial = trainer.finetune(trial, monitor)
            self.path_, self.history_ = tuple(path), monitor.history
            self.n_iter_, self.validation_score_ = len(trial.losses), trial.score
            for name, value in attributes(trial.expansion).items():
                setattr(self, name, value)
        return trial

    def _trainer(self, training: TrainingSet, initial: InitialModel | None) -> Trainer:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        shift, scale = self._shift_and_scale(training, initial)
        batches = BatchLoader(
            training.X,
            training.targets,
            training.weights / training.weights.mean(),
            table=training.target_table,
            shift=shift,
            scale=scale,
            device=find_device(self.device),
        )
        n_rows = len(training.train)
        # A compact machine has been trained before, and is refined at the rates of later stages.
        is_trained = isinstance(initial, QuantizedExpansion)
        config = TrainingConfig(
            self.n_epochs or default_epochs(n_rows),
            self.batch_size or default_batch_size(n_rows),
            self.noise,
            self.learning_rate * (LATER_RATE if is_trained else 1.0),
            self._rates,
        )
        return Trainer(training, batches, initial, config, seed)

    def _shift_and_scale(self, training: TrainingSet, initial: InitialModel | None) -> Any:
        """Means and deviations of the columns, or one of all inputs; rounded as they are stored."""
        if isinstance(initial, QuantizedExpansion):  # which carries its own
            return initial.shift, initial.scale
        ranges = ColumnRanges.of(training.X)
        if not np.isfinite([ranges.low, ranges.high]).all():
            raise ValueError("Input X contains NaN or infinity.")
        _require_float32(max(ranges.largest, 1.0), "go up to")
        is_auto, is_refined = self.scale == "auto", initial is not None and initial.expansion
        if self.scale and not (is_auto and is_refined):
            scaling = column_scaling(training.X, ranges, training.weights, always=not is_auto)
            if scaling is not None:
                return scaling
        mean, deviation = mean_and_deviation(training.X, training.weights, ranges.largest)
        _require_float32(deviation, "have a deviation of")
        return float(np.float32(mean)), float(np.float32(deviation))

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
        """Train the plan of the parameters, or the best one where they leave it open."""
        if isinstance(initial, QuantizedExpansion):
            plan, reason = self._plan_of(initial), "the size of the machine to start from"
            return self._train_one(trainer, plan, progress, monitor, reason)
        batches = trainer.batches
        plan = replace(
            self._plan(trainer.training), scaling_bytes=scaling_bytes(batches.shift, batches.scale)
        )
        n_rows = len(trainer.training.train)
        max_centers = n_rows if initial is None else len(initial.points)
        if self.max_bytes is not None and self.n_centers == "auto":
            raise ValueError('n_centers="auto" and max_bytes both choose a size; give one of them.')
        if self.max_bytes is not None:
            if self.storage == "auto" or self.projection == "auto":
                self._require_validation(trainer.training, "What max_bytes leaves open")
            max_centers = min(max_centers, max(1, n_rows // 2), _MAX_CENTERS_IN_BUDGET)
            if self.n_centers is not None:
                max_centers = min(max_centers, int(self.n_centers))
            sizes = plan, int(self.max_bytes), n_rows, max_centers
            with progress.task("search", sequential=False) as search:
                run = self._trials(trainer, search)
                return search_bytes(run, *sizes, self.storage, self.projection)
        if self.n_centers == "auto":
            self._require_validation(trainer.training, 'n_centers="auto"')
            first = replace(plan, n_centers=max(2, plan.n_outputs))
            largest = max(1, min(_MAX_CENTERS_IN_PATH, max_centers // 2))
            with progress.task("search", sequential=False) as search:
                return search_sizes(self._trials(trainer, search), first, largest)
        n_centers = self.n_centers or (max_centers if initial is not None else _DEFAULT_CENTERS)
        plan = replace(plan, n_centers=min(n_centers, max_centers))
        return self._train_one(trainer, plan, progress, monitor)

    def _train_one(
        self,
        trainer: Trainer,
        plan: StoragePlan,
        progress: Progress,
        monitor: EpochMonitor,
        reason: str = "as the parameters say",
    ) -> tuple[Trial, list[PathPoint], str]:
        """Train one plan and report every epoch, with the held-out rows for scores."""
        held_out = trainer.training.held_out
        patience = self.n_iter_no_change if self.early_stopping and len(held_out) else None
        with progress.task("training") as task:
            is_held_out = np.isin(np.arange(trainer.batches.n_rows), held_out)
            task.data = task.data.subset(is_held_out) if task.data and len(held_out) else None
            monitor.watch(task, trainer.score, patience)
            trial = trainer.trial(plan, monitor=monitor)
        return trial, [trial.point], f"{trial.plan.describe()}: {reason}."

    def _trials(self, trainer: Trainer, search: Progress) -> RunTrials:
        """A function that trains plans in parallel, each as a task of a search."""
        n_jobs = self.n_jobs if trainer.batches.device.is_numpy else None
        numbers = count()

        def run(plans: Sequence[StoragePlan], epochs: float) -> list[Trial]:
            tasks = [search.task("trial", next(numbers), n_tasks=0) for _ in plans]
            return Parallel(n_jobs=n_jobs)(
                delayed(_run_trial)(trainer, plan, epochs, task)
                for plan, task in zip(plans, tasks, strict=True)
            )

        return run

    def _plan(self, training: TrainingSet) -> StoragePlan:
        """The plan of the parameters, with the default number of centers."""
        n_features = training.X.shape[1]
        rank = None if self.projection in (None, "auto") else int(self.projection)
        if rank is not None and rank > n_features:
            raise ValueError(
                f"projection={rank} is more than the {n_features} features; give at most that."
            )
        formats = STORAGE["float32" if self.storage == "auto" else self.storage]
        return StoragePlan(
            n_features,
            training.n_outputs,
            _DEFAULT_CENTERS,
            rank,
            formats,
            self.width,
            self._intercept_bytes,
        )

    def _plan_of(self, compact: QuantizedExpansion) -> StoragePlan:
        """The plan of a compact machine to start from, where the parameters allow it."""
        stored = compact.storage
        formats = (stored["centers"], stored["coef"], stored.get("projection", "float32"))
        plan = StoragePlan(
            compact.n_features,
            compact.n_outputs,
            compact.n_centers,
            compact.rank if "projection" in stored else None,
            formats if self.storage == "auto" else STORAGE[self.storage],
            "per_center" if len(compact.gamma) > 1 else self.width,
            self._intercept_bytes,
            scaling_bytes(compact.shift, compact.scale),
        )
        if isinstance(self.projection, Integral) and self.projection != plan.rank:
            raise ValueError(
                f"projection={self.projection}, but the machine to start from has {plan.rank}; "
                "leave projection out, or start afresh."
            )
        if isinstance(self.n_centers, Integral) and self.n_centers < plan.n_centers:
            raise ValueError(
                f"n_centers={self.n_centers}, but the machine to start from has "
                f"{plan.n_centers}; leave n_centers out, or start afresh."
            )
        if self.max_bytes is not None and plan.nbytes > self.max_bytes:
            raise ValueError(
                f"The machine to start from takes {plan.nbytes} bytes, more than "
                f"max_bytes={self.max_bytes}; give a smaller storage, or start afresh."
            )
        return plan

    def _require_validation(self, training: TrainingSet, what: str) -> None:
        if not len(training.held_out):
            raise ValueError(
                f"{what} is chosen on held-out rows: give validation_fraction, and enough rows "
                "for it."
            )


def _require_float32(size: float, what: str) -> None:
    if not FLOAT32_RANGE[0] < size < FLOAT32_RANGE[1]:
        raise ValueError(
            f"The numbers in X {what} {size:g}, beyond what float32 can hold. Scale the features "
            "first, for example with StandardScaler."
        )


@single_thread()
def _run_trial(trainer: Trainer, plan: StoragePlan, epochs: float, task: Progress) -> Trial:
    """A trial in any process; on one thread, so that its round-off is the same everywhere."""
    with task, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return trainer.trial(plan, epochs)


class CompactKernelClassifier(CompactMachine, ExpansionClassifier):
    """A Gaussian kernel machine of few centers, trained as a whole and stored in few bytes.

    f_c(x) = sum_j W[c, j] exp(-gamma |P x - z_j|^2) + b_c. Centers z, coefficients W, intercepts b,
    width gamma and, where it pays, a projection P to few dimensions are trained together by Adam
    on mini-batches, from k-means centers; tables of few bits are rounded during training. The
    numbers in X are standardised, together or (see ``scale``) by columns; the machine carries the
    means and deviations.

    Parameters
    ----------
    n_centers : int, "auto" or None, default=None
        Number of centers. "auto" doubles it and takes the smallest whose validated score is within
        one standard error of the best. None is 100, or with ``max_bytes`` as many as fit, or with
        ``init`` as many as it has. With ``max_bytes`` a number is an upper limit. Never more than
        there are rows or points to start from.
    max_bytes : int, default=None
        Budget for everything stored; storage, rank of the projection and number of centers are
        chosen by validation. ``choice_`` has the choice and its reason.
    storage : {"auto", "float32", "float16", "int8", "int4"}, default="auto"
        Format of centers, coefficients and projection. "auto" is float32 without ``max_bytes``;
        with it a mixture of 8, 6 and 4 bits and ternary numbers is chosen.
    projection : "auto", int or None, default="auto"
        Rank of the projection. "auto" is none without ``max_bytes``, and chosen by validation with
        it.
    scale : {"auto", True, False}, default="auto"
        Whether each column is standardised inside the machine, by its mean and deviation, which
        take about 4 bytes per column; columns of two values become 0 and 1. "auto" does so where
        the ranges of the columns are unlike, as those of units are, and those of pixels are not;
        not for an ``init`` that was trained on these columns as they are. Without, one mean and
        one deviation serve all columns. A compact machine to start from keeps its own scale.
    width : {"shared", "per_center"}, default="shared"
        One gamma, or one per center (4 bytes each).
    loss : {"cross_entropy", "squared_hinge"}, default="cross_entropy"
    smoothing : float, default=0.1
        Label smoothing, with cross-entropy.
    noise : float, default=0.1
        Deviation of the noise on the inputs in training, relative to that of the inputs.
    learning_rate : float, default=1.0
        Multiplies the learning rates (.1 for centers, .5 for coefficients).
    n_epochs : int, default=None
        Passes over the rows; by default clip(2.16e6 / n_rows, 10, 120). Training with rounding
        takes half as many more, and fine-tuning on all rows a quarter.
    batch_size : int, default=None
        By default 256, 512 with at least 50,000 rows, and an eighth of fewer than 2,048 rows.
    init : "kmeans", array-like or a fitted classifier, default="kmeans"
        The start: k-means in every class, given centers, or a model to refine: a kernlet
        classifier, an SVC or another fitted classifier that :func:`kernlet.compress` takes. With a
        smaller ``n_centers``, clusters of its centers; a compact machine keeps its size, projection
        and widths. Inside a grid search wrap it in a ``FrozenEstimator``, since scikit-learn clones
        parameters.
    class_weight : dict, "balanced" or None, default=None
    validation_fraction : float or None, default=0.2
        Share of the rows that is held out for choices and to calibrate probabilities; fine-tuning
        sees all rows. None trains on all rows from the beginning; nothing can be chosen then, and
        probabilities are not calibrated.
    early_stopping : bool, default=False
        Whether the first stage ends when the validated score has not risen for
        ``n_iter_no_change`` epochs, with the best network so far. Not in a search.
    n_iter_no_change : int, default=10
    warm_start : bool, default=False
        Whether to continue the last fit, with its size. That fit has seen all its rows: on the
        same rows again, scores and probabilities are validated on rows seen before.
    device : str, default=None
        "cuda" trains on a GPU, through torch; None and "cpu" with numpy.
    n_jobs : int, default=None
        Trials in parallel, where a size is chosen.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    expansion_ : QuantizedExpansion
    n_centers_ : int
    nbytes_ : int
        Bytes of everything stored; ``predict_proba`` needs the temperature in addition.
    classes_ : ndarray of shape (n_classes,)
    choice_ : str
        What was chosen, and why.
    path_ : tuple of PathPoint
        Sizes that were tried: centers, bytes, validated score, its standard error and more.
    validation_score_ : float
        Before fine-tuning; NaN without held-out rows.
    temperature_ : float
        By which decision values are divided for probabilities.
    history_ : list of dict
        Loss and validated score of every epoch; after a search those of fine-tuning only, which
        sees all rows and has no validated score.
    n_iter_ : int
        Epochs.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    CompactKernelRegressor : The same for regression.
    kernlet.compress : Approximates a trained model, without training.

    Notes
    -----
    An epoch takes about 4 n_rows n_centers n_features multiplications and additions, with a
    projection of rank r instead 4 n_rows r (n_features + n_centers). Memory is that of X, a
    float32 copy where that takes at most 1 GiB, a few matrices of batch_size x n_centers, and
    the sample that the initial network is computed from: 10,000 rows, or twenty per center if
    that is more.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from kernlet import CompactKernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    >>> machine = CompactKernelClassifier(40, storage="int4", n_epochs=40, random_state=0).fit(X, y)
    >>> machine.score(X_test, y_test) > 0.96, machine.nbytes_
    (True, 1540)
    """

    temperature_: float
    _takes_sources = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CompactMachine._parameter_constraints,
        "loss": [StrOptions({"cross_entropy", "squared_hinge"})],
        "smoothing": [Interval(Real, 0, 1, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        n_centers: Any = None,
        *,
        max_bytes: int | None = None,
        storage: str = "auto",
        projection: Any = "auto",
        scale: Any = "auto",
        width: str = "shared",
        loss: str = "cross_entropy",
        smoothing: float = 0.1,
        noise: float = 0.1,
        learning_rate: float = 1.0,
        n_epochs: int | None = None,
        batch_size: int | None = None,
        init: Any = "kmeans",
        class_weight: Any = None,
        validation_fraction: float | None = 0.2,
        early_stopping: bool = False,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        device: str | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_centers = n_centers
        self.max_bytes = max_bytes
        self.storage = storage
        self.projection = projection
        self.scale = scale
        self.width = width
        self.loss = loss
        self.smoothing = smoothing
        self.noise = noise
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.init = init
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CompactKernelClassifier:
        """Fit the machine.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowSource, dask collection} of shape (n_samples, n_features)
            Rows from a source that take more than 1 GiB in float32 are read in shuffled blocks.
        y : array-like of shape (n_samples,) or str
            The name of a column, where X is a source of rows that has one.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        is_warm = self.warm_start and hasattr(self, "expansion_")
        previous = (self.classes_, self.expansion_) if is_warm else None
        data = self._check_training_data(X, y, sample_weight)
        weights = error_weights(1.0, data.y, self.classes_, self.class_weight, data.sample_weight)
        data, weights = data.subset(weights > 0), weights[weights > 0]
        training = self._training_set(data, weights)
        initial = self._initial_model(previous, data.X.shape[1])
        attributes = {"classes_": self.classes_, "temperature_": 1.0}
        trial = self._train(
            data, training, initial, lambda expansion: {"expansion_": expansion, **attributes}
        )
        codes, weights = training.targets[training.held_out], weights[training.held_out]
        self.temperature_ = best_temperature(trial.outputs, codes, weights)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities: the softmax of the decision values over ``temperature_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        return self._link(X, expit, softmax)

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)
        """
        return self._link(X, log_expit, log_softmax)

    def _link(self, X: Any, of_two_classes: Any, of_many: Any) -> Floats:
        """A function of the decision values over the temperature, with a column per class."""
        values = to_numpy(self.decision_function(X)) / self.temperature_
        if values.ndim == 1:
            return np.stack([of_two_classes(-values), of_two_classes(values)], axis=1)
        return of_many(values, axis=1)

    def _initial_model(
        self, previous: tuple[Any, QuantizedExpansion] | None, n_features: int
    ) -> InitialModel | None:
        if previous is not None:
            classes, expansion = previous
            if not np.array_equal(classes, self.classes_) or expansion.n_features != n_features:
                raise ValueError(
                    "warm_start continues the last fit, which had other classes or features; "
                    "use a new estimator."
                )
            return expansion
        if isinstance(self.init, str):
            return None
        return initial_classifier(self.init, n_features, self.classes_)

    def _training_set(self, data: TrainingData, weights: Floats) -> TrainingSet:
        n_classes = len(self.classes_)
        codes = np.searchsorted(self.classes_, data.y)
        train, held_out = self._split(codes)
        is_hinge = self.loss == "squared_hinge"
        loss = SquaredHingeLoss() if is_hinge else CrossEntropy(self.smoothing)
        table = initial_table = loss.target_table(n_classes)
        if not is_hinge:
            gap = _INITIAL_OUTPUT_GAP
            several = gap * (np.eye(n_classes) - 1 / n_classes)
            initial_table = np.array([[-gap], [gap]]) if n_classes == 2 else several
        return TrainingSet(
            RowReader(data.X) if isinstance(data.X, RowSource) else data.X,
            weights,
            codes,
            loss,
            accuracy,
            train,
            held_out,
            table,
            initial_table,
        )


def accuracy(outputs: Floats, codes: Indices, weights: Floats) -> tuple[float, float]:
    """Weighted accuracy of outputs and its standard error."""
    predicted = outputs[:, 0] > 0 if outputs.shape[1] == 1 else outputs.argmax(axis=1)
    return mean_and_standard_error(predicted == codes, weights)


def mean_and_standard_error(values: Any, weights: Floats) -> tuple[float, float]:
    """The weighted mean of the values of rows, and its standard error."""
    shares = weights / weights.sum()
    mean = float(shares @ values)
    return mean, float(np.sqrt(np.sum(shares**2 * (values - mean) ** 2)))

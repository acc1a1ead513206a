"""What the compact classifier and regressor share."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackContext, CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from kernlet.compact.initialise import Initial, Starts
from kernlet.compact.network import Examples, JointMargin, Machine, Task, mean_and_deviation
from kernlet.compact.plan import STORAGE, Layout, layout_of
from kernlet.compact.search import RunTrials, spend_bytes, walk_sizes
from kernlet.compact.train import (
    RATES,
    SECOND_RATE,
    Effort,
    PathPoint,
    Trial,
    Workshop,
    pack,
    usual_batch,
    usual_epochs,
)
from kernlet.devices import find_device
from kernlet.quantization import QuantizedExpansion


class Monitor:
    """Looks at every epoch of a training.

    Parameters
    ----------
    estimator : CompactKernelClassifier or CompactKernelRegressor
        Its ``history_`` grows.
    shop : Workshop
    task : Task
    layout : Layout
        Of the machine that is trained.
    context : CallbackContext
        Of the fit; the training becomes a task below it, and every epoch one below that.
    name : {"training", "settling"}
    """

    def __init__(
        self,
        estimator: Any,
        shop: Workshop,
        task: Task,
        layout: Layout,
        context: CallbackContext,
        name: str,
    ) -> None:
        self.estimator, self.shop, self.layout = estimator, shop, layout
        self.is_first = name == "training"  # the second one sees the rows held out
        self.rows = task.validation_for_callbacks() if self.is_first else {}
        self.stops = estimator.early_stopping and len(task.held_out) > 0 and self.is_first
        self.context = context.subcontext(task_name=name, max_subtasks=None)
        self.context.call_on_fit_task_begin(estimator=estimator)
        self.best: tuple[float, Machine | None] = (-math.inf, None)
        self.waited = 0

    def on_epoch(self, epoch: int, loss: float, machine: Machine) -> bool:
        """Keep what happened; true to end the training."""
        score = self.shop.score(machine) if self.is_first else math.nan
        self.estimator.history_.append({"loss": loss, "score": score})
        task = self.context.subcontext(task_name="epoch")
        task.call_on_fit_task_begin(estimator=self.estimator, **self.rows)
        wants_stop = task.call_on_fit_task_end(
            estimator=self.estimator,
            **self.rows,
            reconstruction_attributes=lambda: self._so_far(machine),
        )
        self.estimator._was_stopped |= bool(wants_stop)
        return bool(wants_stop) or self._has_waited_enough(score, machine)

    def pick(self, trained: Machine) -> Machine:
        """The machine to go on with: the best one seen where training stops early."""
        self.stops = False  # what comes after the first training goes on to its end
        return trained if self.best[1] is None else self.best[1]

    def end(self) -> None:
        """The training is over."""
        self.context.call_on_fit_task_end(estimator=self.estimator)

    def _has_waited_enough(self, score: float, machine: Machine) -> bool:
        if not self.stops:
            return False
        if score > self.best[0]:
            self.best, self.waited = (score, machine), 0
            return False
        self.waited += 1
        return self.waited >= self.estimator.n_iter_no_change

    def _so_far(self, machine: Machine) -> dict[str, Any]:
        plain = replace(self.layout, formats=STORAGE["float32"])
        scaling = self.shop.kept.shift, self.shop.kept.scale
        return self.estimator._reconstruction(pack(machine, {}, plain, *scaling))


class CompactPathDisplay:
    """Validated score against size, with standard errors and the size that was chosen.

    Use :meth:`from_estimator`, or ``plot_path`` of a fitted compact machine.

    Parameters
    ----------
    sizes, scores, standard_errors : ndarray of shape (n_sizes,)
    chosen : float
        The size of the fitted machine.
    size_name, score_name : str
        Labels of the axes.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure
    errorbar_ : matplotlib container
    line_ : matplotlib artist
        The line at the chosen size.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kernlet import CompactKernelClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> machine = CompactKernelClassifier("auto", n_epochs=5, random_state=0).fit(X, y)
    >>> display = machine.plot_path()
    >>> display.ax_.get_xlabel()
    'Centers'
    """

    def __init__(
        self,
        *,
        sizes: Any,
        scores: Any,
        standard_errors: Any,
        chosen: float,
        size_name: str = "Centers",
        score_name: str = "Score",
    ) -> None:
        self.sizes, self.scores, self.standard_errors = sizes, scores, standard_errors
        self.chosen, self.size_name, self.score_name = chosen, size_name, score_name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, by: str = "n_centers", **line: Any
    ) -> CompactPathDisplay:
        """Draw the path of a fitted compact machine.

        Parameters
        ----------
        estimator : CompactKernelClassifier or CompactKernelRegressor
        ax : matplotlib axes, default=None
        by : {"n_centers", "nbytes"}, default="n_centers"
        **line : dict
            Passed on to matplotlib's ``errorbar``.

        Returns
        -------
        display : CompactPathDisplay
        """
        check_is_fitted(estimator)
        if by not in ("n_centers", "nbytes"):
            raise ValueError(f'by={by!r} must be "n_centers" or "nbytes".')
        path = [point for point in estimator.path_ if point.is_full]
        path = sorted(path, key=lambda point: getattr(point, by))
        is_classifier = estimator.__sklearn_tags__().estimator_type == "classifier"
        return cls(
            sizes=np.array([getattr(point, by) for point in path]),
            scores=np.array([point.score for point in path]),
            standard_errors=np.array([point.standard_error for point in path]),
            chosen=getattr(estimator, f"{by}_"),
            size_name="Centers" if by == "n_centers" else "Bytes",
            score_name="Validated accuracy" if is_classifier else "Validated R²",
        ).plot(ax=ax, **line)

    def plot(self, *, ax: Any = None, **line: Any) -> CompactPathDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
        **line : dict
            Passed on to matplotlib's ``errorbar``.

        Returns
        -------
        display : CompactPathDisplay
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots()
        options = {"marker": "o", "capsize": 3, **line}
        self.errorbar_ = ax.errorbar(self.sizes, self.scores, self.standard_errors, **options)
        self.line_ = ax.axvline(
            self.chosen, color="gray", linestyle=":", label=f"chosen: {self.chosen:,}"
        )
        ax.set_xscale("log", base=2)
        ax.set(xlabel=self.size_name, ylabel=self.score_name)
        ax.legend(loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self


_USUAL_CENTERS = 100
_LARGEST_IN_BUDGET = 4096  # centers, beyond which training is slow and gains little
_LARGEST_AUTO = 1024  # centers at which a path of sizes ends

#: Constraints on the parameters that both estimators have.
COMPACT_CONSTRAINTS: dict[str, list[Any]] = {
    "n_centers": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), None],
    "max_bytes": [Interval(Integral, 1, None, closed="left"), None],
    "storage": [StrOptions({*STORAGE, "auto"})],
    "projection": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), None],
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
    "random_state": ["random_state"],
}


class CompactMachine(CallbackSupportMixin, BaseEstimator, ABC):
    """A Gaussian machine of few centers, trained as a whole and stored in few bytes."""

    expansion_: Any
    path_: tuple[PathPoint, ...]
    history_: list[dict[str, float]]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = COMPACT_CONSTRAINTS
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
            What goes along the horizontal axis.
        **line : dict
            Passed on to matplotlib's ``errorbar``.

        Returns
        -------
        display : CompactPathDisplay
        """
        return CompactPathDisplay.from_estimator(self, ax=ax, by=by, **line)

    def _fit_task(self, task: Task, initial: Initial | None) -> Trial:
        """Set the fitted attributes; the trial that the machine comes from is returned."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        shop = self._workshop(task, initial, seed)
        self.history_ = []
        self._was_stopped = False
        context = self._init_callback_context(max_subtasks=2)
        context.call_on_fit_task_begin(estimator=self, X=task.X, y=task.y)
        trial, path, self.choice_ = self._choose(shop, task, initial, context)
        if trial.trained.n_halvings and len(path) > 1:
            warnings.warn(
                "The loss was no longer finite in the trial that was chosen; its last steps were "
                "undone and the learning rates halved. A smaller learning_rate may do better.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.path_ = tuple(path)
        trained = trial.trained
        if len(task.held_out) and not self._was_stopped:
            monitor = Monitor(self, shop, task, trial.layout, context, "settling")
            trained = shop.settle(trial, monitor.on_epoch)
            monitor.end()
        self.expansion_ = trained.expansion
        self.n_iter_ = len(trained.losses)
        context.call_on_fit_task_end(
            estimator=self, X=task.X, y=task.y, reconstruction_attributes={}
        )
        return trial

    def _workshop(self, task: Task, initial: Initial | None, seed: int) -> Workshop:
        device = find_device(self.device)
        scaling = initial.scaling if initial is not None else None
        # in float32 as they are stored: what is trained is what predicts
        found = scaling or mean_and_deviation(task.X, task.weights)
        if np.isnan(found[1]):
            raise ValueError("Input X contains NaN or infinity.")
        if not 1e-30 < found[1] < 1e30:
            raise ValueError(
                f"The numbers in X have a deviation of {found[1]:g}, beyond what float32 can hold. "
                "Scale the features first, for example with StandardScaler."
            )
        shift, scale = (float(np.float32(value)) for value in found)
        everything = Examples(
            task.X,
            task.targets,
            task.weights / task.weights.mean(),
            table=task.table,
            shift=shift,
            scale=scale,
            device=device,
        )
        kept = everything.part(task.kept)
        return Workshop(
            JointMargin(task.loss),
            kept,
            everything.part(task.held_out),
            everything,
            Starts(task, kept, initial, self.noise),
            self._judge(task),
            self._effort(len(task.kept), initial),
            seed,
        )

    def _effort(self, n_rows: int, initial: Initial | None) -> Effort:
        """A compact machine to start from has been trained before, and goes on slowly."""
        goes_on = initial is not None and isinstance(initial.machine, QuantizedExpansion)
        return Effort(
            self.n_epochs or usual_epochs(n_rows),
            self.batch_size or usual_batch(n_rows),
            self.noise,
            self.learning_rate * (SECOND_RATE if goes_on else 1.0),
            self._rates,
        )

    @abstractmethod
    def _judge(self, task: Task) -> Any:
        """How outputs of the rows held out are scored."""

    @abstractmethod
    def _reconstruction(self, expansion: QuantizedExpansion) -> dict[str, Any]:
        """What makes an estimator that predicts with a machine under way."""

    def _choose(
        self, shop: Workshop, task: Task, initial: Initial | None, context: CallbackContext
    ) -> tuple[Trial, list[PathPoint], str]:
        """Train, after choosing what the parameters leave open."""
        if initial is not None and isinstance(initial.machine, QuantizedExpansion):
            layout = self._same_layout(initial.machine)
            why = "the size of the machine to start from"
            return self._train_one(shop, task, layout, context, why)
        layout = self._plain_layout(task)
        most = len(task.kept) if initial is None else initial.n_centers
        if self.max_bytes is not None:
            if self.n_centers == "auto":
                raise ValueError(
                    'n_centers="auto" and max_bytes both choose a size; give one of them.'
                )
            return self._choose_in_budget(shop, task, layout, most, context)
        if self.n_centers == "auto":
            self._require_validation(task, 'n_centers="auto"')
            first = replace(layout, n_centers=max(2, task.n_outputs))
            largest = max(1, min(_LARGEST_AUTO, most // 2))
            with self._trials(shop, context) as run:
                return walk_sizes(run, first, largest)
        wanted = self.n_centers or (most if initial is not None else _USUAL_CENTERS)
        layout = replace(layout, n_centers=min(wanted, most))
        return self._train_one(shop, task, layout, context)

    def _choose_in_budget(
        self, shop: Workshop, task: Task, layout: Layout, most: int, context: CallbackContext
    ) -> tuple[Trial, list[PathPoint], str]:
        if self.storage == "auto" or self.projection == "auto":
            self._require_validation(task, "What max_bytes leaves open")
        most = min(most, max(1, len(task.kept) // 2), _LARGEST_IN_BUDGET)
        if isinstance(self.n_centers, Integral):
            most = min(most, int(self.n_centers))
        sizes = layout, int(self.max_bytes), len(task.kept), most
        with self._trials(shop, context) as run:
            return spend_bytes(run, *sizes, self.storage, self.projection)

    def _plain_layout(self, task: Task) -> Layout:
        """What the parameters say, with "auto" as none."""
        n_features = task.X.shape[1]
        rank = None if self.projection in (None, "auto") else int(self.projection)
        if rank is not None and rank > n_features:
            raise ValueError(
                f"projection={rank} is more than the {n_features} features; give at most that."
            )
        formats = STORAGE["float32" if self.storage == "auto" else self.storage]
        return Layout(
            n_features,
            task.n_outputs,
            _USUAL_CENTERS,
            rank,
            formats,
            self.width,
            self._intercept_bytes,
        )

    def _same_layout(self, machine: QuantizedExpansion) -> Layout:
        """The layout of a compact machine to start from, where the parameters allow it."""
        layout = layout_of(machine, self._intercept_bytes)
        if self.storage != "auto":
            layout = replace(layout, formats=STORAGE[self.storage])
        if self.width == "per_center":
            layout = replace(layout, width="per_center")
        if isinstance(self.projection, Integral) and self.projection != layout.rank:
            raise ValueError(
                f"projection={self.projection}, but the machine to start from has {layout.rank}; "
                "leave projection out, or start afresh."
            )
        if isinstance(self.n_centers, Integral) and int(self.n_centers) < layout.n_centers:
            raise ValueError(
                f"n_centers={self.n_centers}, but the machine to start from has "
                f"{layout.n_centers}; leave n_centers out, or start afresh."
            )
        if self.max_bytes is not None and layout.nbytes > self.max_bytes:
            raise ValueError(
                f"The machine to start from takes {layout.nbytes} bytes, more than "
                f"max_bytes={self.max_bytes}; give a smaller storage, or start afresh."
            )
        return layout

    def _require_validation(self, task: Task, what: str) -> None:
        if not len(task.held_out):
            raise ValueError(
                f"{what} is chosen on a validation part: give validation_fraction, and enough "
                "rows for it."
            )

    def _train_one(
        self,
        shop: Workshop,
        task: Task,
        layout: Layout,
        context: CallbackContext,
        why: str = "as the parameters say",
    ) -> tuple[Trial, list[PathPoint], str]:
        """One layout, with a look at every epoch."""
        monitor = Monitor(self, shop, task, layout, context, "training")
        trial = shop.trial(layout, on_epoch=monitor.on_epoch, pick=monitor.pick)
        monitor.end()
        return trial, [trial.point], f"{trial.layout.describe()}: {why}."

    @contextmanager
    def _trials(self, shop: Workshop, context: CallbackContext) -> Iterator[RunTrials]:
        """Trains layouts side by side, each as a task."""
        search = context.subcontext(
            task_name="search", max_subtasks=None, sequential_subtasks=False
        )
        search.call_on_fit_task_begin(estimator=self)
        n_jobs = self.n_jobs if shop.kept.device.is_numpy else None
        ids = count()

        def run(layouts: Sequence[Layout], share: float) -> list[Trial]:
            tasks = [search.subcontext(task_name="trial", task_id=next(ids)) for _ in layouts]
            return Parallel(n_jobs=n_jobs)(
                delayed(_one_trial)(self, task, shop, layout, share)
                for task, layout in zip(tasks, layouts, strict=True)
            )

        yield run
        search.call_on_fit_task_end(estimator=self)


def _one_trial(
    estimator: CompactMachine, task: CallbackContext, shop: Workshop, layout: Layout, share: float
) -> Trial:
    """A trial in whatever process it is sent to; one BLAS thread, for equal rounding everywhere."""
    task.call_on_fit_task_begin(estimator=estimator)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trial = shop.trial(layout, share)
    task.call_on_fit_task_end(estimator=estimator)
    return trial

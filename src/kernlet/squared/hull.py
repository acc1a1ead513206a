"""The hull perceptron classifier and support-vector removal."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.callback import CallbackContext
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.parallel import Parallel, delayed

from kernlet._typing import Floats, Indices
from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram
from kernlet.sklearn_base import (
    KERNEL_CONSTRAINTS,
    ExpansionClassifier,
    TrainingData,
    join_centers,
    one_vs_rest_signs,
)
from kernlet.squared.mdm import HullProgress, HullSolution, Method, find_nearest_point
from kernlet.squared.problem import Hull

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


_WORTH_A_WARNING = 1e-8
_REASONS = {
    "iteration limit": "the steps reached max_iter. Raise it.",
    "rounding": "kernel values times C leave no more digits. Scale the features, or lower C.",
}


class HullPerceptronClassifier(ExpansionClassifier):
    """Kernel perceptron of largest margin, with squared errors and the removal of [1]_.

    Finds the point W of the convex hull of the signed training rows nearest the origin, in
    the feature space of::

        Q_ij = d_i d_j (1 + k(x_i, x_j)) + delta_ij / (2 C_i)

    which is the machine of least 1/2 |w|^2 + sum_i C_i slack_i^2 with the intercept in w. The
    decision values are W . X / |W|^2: 1 for a row without slack, as for an SVM.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared errors.
    kernel : {"rbf", "poly", "linear"} or Kernel, default="rbf"
        Positive semi-definite: not the sigmoid.
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Width of the "rbf" and "poly" kernels; ``"scale"`` and ``"auto"`` as in scikit-learn,
        ``"mean_distance"`` one over the mean squared distance of two rows.
    degree : int, default=3
        Of the "poly" kernel.
    coef0 : float, default=0.0
        Of the "poly" kernel.
    solver : {"mdm", "sk"}, default="mdm"
        ``"mdm"`` moves weight between pairs of rows; ``"sk"`` takes the steps of Schlesinger
        and Kozinec, as the paper does, and needs ten to fifty times as long for the same gap.
    tol : float, default=1e-3
        Relative gap to reach, see ``gap_``. Below 1e-7 and for up to 2,500 support vectors an
        active set finds the last digits.
    max_iter : int, default=-1
        Steps allowed for each training; -1 for no limit. A fit that stops at the limit warns
        with the gap that it reached. The paper takes 10,000 ``"sk"`` steps.
    removal : {"iterative"} or None, default=None
        ``"iterative"`` trains again and again without the rows of small alpha. See Notes:
        there are better ways to have few centers.
    removal_start, removal_step : float, default=0.5 and 0.025
        Rows with alpha below (removal_start + k removal_step) / N leave after training k; the
        factors lie in [0, 1) by intent.
    removal_rounds : int, default=20
        Removals at most.
    removal_size : {"initial", "current"}, default="initial"
        Whether N counts all rows or those left.
    removal_cv : int or None, default=None
        When to stop: a number of folds for the paper's rule, by which the accuracy on removed
        rows changes by more than its deviation over folds; None for the same rule in a
        single training, with the binomial deviation.
    class_weight : dict, "balanced" or None, default=None
        Multiplies C for the rows of a class.
    cache_size : float, default=2000
        Memory in MB for columns of Q, for each output under way.
    n_jobs : int or None, default=None
        Outputs solved at the same time.
    random_state : int, RandomState instance or None, default=None
        Draws the folds of ``removal_cv``; nothing else is random.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The machine.
    n_centers_ : int
        Distinct centers.
    classes_ : ndarray of shape (n_classes,)
    center_indices_ : ndarray of shape (n_centers_,)
        Training rows that are the centers; equal rows are one center.
    support_indices_ : ndarray of shape (n_support,)
        Training rows with a positive alpha in at least one output.
    alpha_ : ndarray of shape (n_outputs, n_support)
        Their alpha; each line has sum 1.
    gap_ : float
        Relative gap 1 - min_i W . X_i / |W|^2 of the worst output: the norm of the nearest point
        is at least (1 - gap_) |W|, and a gap of 1 or more says nothing. Computed from scratch
        over all rows trained on: the certificate.
    margin_ : ndarray of shape (n_outputs,)
        min_i W . X_i / |W|; at the optimum the norm of W.
    n_iter_ : int
        Steps, of all outputs and trainings.
    removal_path_ : list of RemovalRound
        With ``removal``, one record a training: threshold, rows left, support vectors,
        accuracies, gap.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names for all its columns, and all are strings.

    See Also
    --------
    kernlet.compression.refit : The best machine over few given centers, from all rows.
    MinimalKernelClassifier : Few centers by a concave penalty.

    Notes
    -----
    At the optimum alpha_i = 2 C_i |W|^2 slack_i: the support vectors of *large* alpha are the
    outliers, and removal keeps those. In the paper and here it leaves 63 to 90 % of the support
    vectors. Refitting all rows on a few dozen centers (:func:`kernlet.compression.refit`) often has
    the same accuracy with a fraction of that. Removal is here to compare with.

    More than two classes make one hull a class, one against the rest, each with its own
    removal; the outputs share one set of centers.

    Scale the features: over unscaled ones the steps may be many, and beyond 2,500 support
    vectors there is no active set to help.

    Time is about one column of Q, n_rows kernel values, for each support vector, and a few
    steps of n_rows operations each. Memory is 8 bytes a row and column, at most
    ``cache_size``, besides copies of X and up to 150 MB for the active set; the matrix is never
    stored as a whole.

    References
    ----------
    .. [1] D. Garcia, A. Gonzalez and J. R. Dorronsoro, "Optimal support vector selection for
       kernel perceptrons", Learning 2006.

    Examples
    --------
    >>> from kernlet import HullPerceptronClassifier
    >>> from kernlet.datasets import make_checkerboard
    >>> board = make_checkerboard(random_state=0)
    >>> machine = HullPerceptronClassifier(C=100.0, gamma=4.0).fit(board.X, board.y)
    >>> bool(machine.gap_ <= 1e-3)
    True
    >>> machine.score(board.X_test, board.y_test) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        **KERNEL_CONSTRAINTS,
        "solver": [StrOptions({"mdm", "sk"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left"), Options(Integral, {-1})],
        "removal": [StrOptions({"iterative"}), None],
        "removal_start": [Interval(Real, 0, None, closed="left")],
        "removal_step": [Interval(Real, 0, None, closed="left")],
        "removal_rounds": [Interval(Integral, 1, None, closed="left")],
        "removal_size": [StrOptions({"initial", "current"})],
        "removal_cv": [Interval(Integral, 2, None, closed="left"), None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | Kernel = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        solver: Literal["mdm", "sk"] = "mdm",
        tol: float = 1e-3,
        max_iter: int = -1,
        removal: Literal["iterative"] | None = None,
        removal_start: float = 0.5,
        removal_step: float = 0.025,
        removal_rounds: int = 20,
        removal_size: Literal["initial", "current"] = "initial",
        removal_cv: int | None = None,
        class_weight: Any = None,
        cache_size: float = 2000,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.removal = removal
        self.removal_start = removal_start
        self.removal_step = removal_step
        self.removal_rounds = removal_rounds
        self.removal_size = removal_size
        self.removal_cv = removal_cv
        self.class_weight = class_weight
        self.cache_size = cache_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> HullPerceptronClassifier:
        """Fit the machine.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), default=None
            Multiplies C for each row: a weight of 2 is the row given twice.

        Returns
        -------
        self : object
        """
        data = self._check_training_data(X, y, sample_weight)
        kernel = self._make_kernel(data)
        data, costs = self._drop_zero_cost(data)
        gram = Gram(kernel, data.X, hold=True)
        hulls = [Hull(gram, signs, costs) for signs in one_vs_rest_signs(data.y, self.classes_)]
        outcomes = self._solve_all(hulls, data)
        self._warn_if_unfinished(outcomes)
        self._set_machine(Gram(kernel, data.X), data, outcomes)
        self._callback_fit_ctx.call_on_fit_task_end(
            estimator=self, **data.for_callbacks, reconstruction_attributes={}
        )
        return self

    def _setting(self) -> Setting:
        schedule = Schedule(
            self.removal_start, self.removal_step, self.removal_rounds, self.removal_size
        )
        return Setting(
            method=self.solver,
            tol=self.tol,
            max_iter=None if self.max_iter == -1 else int(self.max_iter),
            max_bytes=int(self.cache_size * 2**20),
            removal=None if self.removal is None else Removal(schedule, self.removal_cv),
            seed=self._seed(),
        )

    def _seed(self) -> int:
        if self.removal_cv is None:
            return 0
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _solve_all(self, hulls: list[Hull], data: TrainingData) -> list[HullOutcome]:
        """Solve all outputs, each on its own."""
        setting = self._setting()
        context = self._init_callback_context(max_subtasks=len(hulls), sequential_subtasks=False)
        context.call_on_fit_task_begin(estimator=self, **data.for_callbacks)
        outputs = [
            context.subcontext(task_name="output", task_id=number, max_subtasks=None)
            for number in range(len(hulls))
        ]
        outcomes: list[HullOutcome] = Parallel(n_jobs=self.n_jobs)(
            delayed(solve_hull_output)(self, hull, data, setting, number, output)
            for number, (hull, output) in enumerate(zip(hulls, outputs, strict=True))
        )
        return outcomes

    def _warn_if_unfinished(self, outcomes: list[HullOutcome]) -> None:
        unfinished = [o.solution for o in outcomes if self._is_unfinished(o)]
        if unfinished:
            worst = max(unfinished, key=lambda s: s.gap)
            warnings.warn(
                f"{len(unfinished)} of {len(outcomes)} outputs ended at a relative gap of up to "
                f"{worst.gap:.1e} (tol={self.tol:.1e}): {_REASONS[worst.status]}",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _is_unfinished(self, outcome: HullOutcome) -> bool:
        if outcome.was_stopped or outcome.solution.status == "optimal":
            return False
        limited = outcome.solution.status == "iteration limit"
        return outcome.solution.gap > (self.tol if limited else max(self.tol, _WORTH_A_WARNING))

    def _set_machine(self, gram: Gram, data: TrainingData, outcomes: list[HullOutcome]) -> None:
        """Set the fitted attributes."""
        self.expansion_, centers = join_centers(gram, outcomes)
        self.center_indices_ = data.rows[centers]
        support = np.unique(np.concatenate([o.centers for o in outcomes]))
        self.support_indices_ = data.rows[support]
        self.alpha_ = np.zeros((len(outcomes), len(support)))
        for line, outcome in zip(self.alpha_, outcomes, strict=True):
            line[np.searchsorted(support, outcome.centers)] = outcome.alpha
        self.gap_ = max(o.solution.gap for o in outcomes)
        self.margin_ = np.array([o.solution.margin for o in outcomes])
        self.n_iter_ = sum(o.n_iter for o in outcomes)
        self.__dict__.pop("removal_path_", None)
        if self.removal is not None:
            self.removal_path_ = [record for o in outcomes for record in o.path]

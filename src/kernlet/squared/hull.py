"""The hull perceptron classifier, and the removal of its support vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import (
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils.parallel import Parallel, delayed

from kernlet._typing import Floats, Indices
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram
from kernlet.progress import Progress
from kernlet.sklearn_base import (
    KERNEL_CONSTRAINTS,
    ExpansionClassifier,
    TrainingData,
    fit_method,
    fit_task,
    join_centers,
    one_vs_rest_signs,
    warn_unconverged,
)
from kernlet.squared.mdm import find_nearest_point
from kernlet.squared.problem import ROUNDING, Solution, SquaredMargin, report_to

#: Trains on a subset of the rows: the problem of these rows, their numbers, and weights alpha to
#: start from.
Solve = Callable[[SquaredMargin, Indices, Floats | None], Solution]

# What max_iter="auto" allows: half a minute or so, whatever the number of rows. A step on few rows
# takes as long as one on 2,000.
_AUTO_STEPS, _LEAST_STEPS, _AUTO_KERNEL_VALUES = 2e9, 20_000, 1e9
_STEP_ROWS = 2000
_MANY_ROWS = 10_000  # beyond this, samples first

_REASONS = {
    "iteration limit": "the steps reached max_iter. Raise it (-1 for no limit), or use "
    "CompactKernelClassifier or L1KernelClassifier, which are faster on many noisy rows.",
    "rounding": ROUNDING,
}


@dataclass(frozen=True)
class Removal:
    """How :class:`HullPerceptronClassifier` removes support vectors.

    After training k = 0, 1, ... the rows with alpha below (start + k step) / N are removed and the
    others are trained on again. ``Removal(size="current", which="support", cv=10)`` is the reading
    of [1]_ that fits its tables, and ``stop="fall"`` the rule to add to it.

    Parameters
    ----------
    start, step : float, default=0.5 and 0.025
        The factors start + k step, meant to lie in [0, 1).
    rounds : int, default=20
        Removals at most.
    size : {"initial", "current"}, default="initial"
        Whether N counts all rows or those left. With those left 1 / N is the mean alpha in
        every round, and more rows are removed.
    cv : int or None, default=None
        Folds over which the rule to stop takes mean and standard deviation, as in the paper;
        None for a single training, with the binomial standard deviation.
    which : {"rows", "support"}, default="rows"
        What is removed: all rows below the threshold, or support vectors only, so that rows of
        zero alpha stay and can become support vectors later. With ``"rows"`` little is left to
        remove after the first round.
    stop : {"change", "fall"}, default="change"
        When to stop, by the accuracy a_k on the rows removed up to round k and its deviation
        sigma_k. ``"change"``, the paper's rule: ``|a_(k-1) - a_k| > sigma_(k-1)``. ``"fall"``:
        ``a_k < a_j - sigma_j`` for an earlier round j, which a slow decline meets too, and an
        increase does not; over folds, sigma_j is then at least the binomial deviation, as no
        error in any fold would otherwise count as certain.

    References
    ----------
    .. [1] D. Garcia, A. Gonzalez and J. R. Dorronsoro, "Optimal support vector selection for
       kernel perceptrons", Learning 2006.

    Examples
    --------
    >>> from kernlet import HullPerceptronClassifier, Removal
    >>> from kernlet.datasets import make_checkerboard
    >>> board = make_checkerboard(random_state=0)
    >>> model = HullPerceptronClassifier(C=10.0, gamma=4.0, removal=Removal(rounds=3))
    >>> path = model.fit(board.X, board.y).removal_path_
    >>> path[-1].n_support < path[0].n_support
    True
    """

    start: float = 0.5
    step: float = 0.025
    rounds: int = 20
    size: Literal["initial", "current"] = "initial"
    cv: int | None = None
    which: Literal["rows", "support"] = "rows"
    stop: Literal["change", "fall"] = "change"

    def __post_init__(self) -> None:
        constraints = {
            "start": [Interval(Real, 0, None, closed="left")],
            "step": [Interval(Real, 0, None, closed="left")],
            "rounds": [Interval(Integral, 1, None, closed="left")],
            "size": [StrOptions({"initial", "current"})],
            "cv": [Interval(Integral, 2, None, closed="left"), None],
            "which": [StrOptions({"rows", "support"})],
            "stop": [StrOptions({"change", "fall"})],
        }
        validate_parameter_constraints(constraints, vars(self), caller_name="Removal")

    def factor(self, k: int) -> float:
        """The factor start + k step."""
        return self.start + k * self.step


@dataclass(frozen=True)
class RemovalRound:
    """One training of a removal.

    Parameters
    ----------
    output : int
        The output that was trained.
    round : int
        0 for the training before any removal.
    factor : float
        start + k step; 0 in round 0.
    threshold : float
        factor / N: rows with a smaller alpha were removed before this training.
    n_rows, n_support : int
        Rows trained on, and those with a positive alpha.
    train_accuracy : float
        On the rows trained on.
    validation_accuracy : float
        On the rows removed so far; nan where there are none.
    deviation : float
        Binomial standard deviation of that, with one hit and one miss added (so that no error in
        a few rows does not count as certain); nan where there are none.
    gap : float
        Relative gap of the training.
    stop : float
        By how much the rule to stop is exceeded: the first positive number stops; nan before the
        second removal. With ``Removal(cv=...)`` it is that of the folds.
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
    stop: float = np.nan


def removal_rounds(
    problem: SquaredMargin, weights: Floats, removal: Removal, solve: Solve, output: int = 0
) -> Iterator[tuple[Solution, RemovalRound]]:
    """Train, remove, train on the rows left, and so on; solutions over the rows of ``problem``.

    A row of sample weight w counts as w rows. The rounds end early where a removal would leave one
    class only.
    """
    rows, factor, threshold = np.arange(problem.n_rows), 0.0, 0.0
    solution = solve(problem, rows, None)
    for k in range(1 + removal.rounds):
        if k:
            factor = removal.factor(k - 1)
            alpha = solution.spread(solution.alpha, len(rows))
            total = weights.sum() if removal.size == "initial" else weights[rows].sum()
            threshold = factor / total
            kept = alpha >= threshold * weights[rows]
            if removal.which == "support":
                kept |= alpha == 0
            if len(np.unique(problem.signs[rows[kept]])) < len(np.unique(problem.signs)):
                return
            if not kept.all():
                rows = rows[kept]
                start = alpha[kept] if alpha[kept].any() else None
                solution = solve(problem.subset(rows), rows, start)
        whole = replace(solution, rows=rows[solution.rows])
        alpha = whole.spread(whole.alpha, problem.n_rows)
        is_right = problem.margins(alpha) - problem.ridge * alpha > 0
        left = np.delete(np.arange(problem.n_rows), rows)
        accuracy, deviation = _accuracy(is_right[left], weights[left])
        yield (
            whole,
            RemovalRound(
                output=output,
                round=k,
                factor=factor,
                threshold=threshold,
                n_rows=len(rows),
                n_support=len(solution.rows),
                train_accuracy=_accuracy(is_right[rows], weights[rows])[0],
                validation_accuracy=accuracy,
                deviation=deviation,
                gap=solution.gap,
            ),
        )


def _accuracy(is_right: NDArray[np.bool_], weights: Floats) -> tuple[float, float]:
    """Share of the weight that is right, and its binomial standard deviation."""
    if not len(weights):
        return np.nan, np.nan
    n = float(weights.sum())
    right = float(weights[is_right].sum())
    share = (right + 1) / (n + 2)
    return right / n, float(np.sqrt(share * (1 - share) / n))


def stop_criteria(rule: str, accuracy: ArrayLike, deviation: ArrayLike) -> Floats:
    """By how much each removal exceeds a rule to stop, see :class:`Removal`; nan for the first.

    Accuracies on removed rows, and their binomial deviations, by round or by fold and round.
    """
    mean, sigma = np.array(accuracy, dtype=float), np.array(deviation, dtype=float)
    if mean.ndim == 2:
        spread = mean.std(axis=0)
        sigma = spread if rule == "change" else np.maximum(spread, sigma.mean(axis=0))
        mean = mean.mean(axis=0)
    criteria = np.full(len(mean), np.nan)
    if rule == "change":
        criteria[1:] = np.abs(mean[:-1] - mean[1:]) - sigma[:-1]
    elif len(mean) > 1:
        criteria[1:] = np.fmax.accumulate(mean[:-1] - sigma[:-1]) - mean[1:]
    return criteria


def first_stop(criteria: Floats) -> int:
    """The number of the removal that a rule stops after, from 1; the last, where none does."""
    is_past = criteria > 0
    return int(is_past.argmax()) + 1 if is_past.any() else len(criteria)


@dataclass(eq=False)
class _Training:
    """All trainings of one output; a callback that stops one stops those after it too."""

    problem: SquaredMargin
    data: TrainingData
    find: Callable[..., Solution]
    removal: Removal | None
    seed: int
    progress: Progress
    output: int
    is_only: bool
    n_iter: int = 0
    was_stopped: bool = False

    @fit_task
    def run(self) -> tuple[Solution, list[RemovalRound]]:
        """Train, with removal where asked for, in any process."""
        path: list[RemovalRound] = []
        with self.progress:
            if self.removal is None:
                solution = self.solve(self.problem, np.arange(self.problem.n_rows), None)
            else:
                solution, path = self._remove(self.removal)
        status = "stopped" if self.was_stopped else solution.status
        return replace(solution, n_iter=self.n_iter, status=status), path

    def solve(self, problem: SquaredMargin, rows: Indices, start: Floats | None) -> Solution:
        """Train on a subset of the rows."""
        kernel, X = self.problem.gram.kernel, self.data.X
        report_all = report_to(self.progress, kernel, X, is_only=self.is_only)

        def report(state: Solution) -> bool:
            whole = replace(state, rows=rows[state.rows])
            self.was_stopped = self.was_stopped or report_all(whole)
            return self.was_stopped

        solution = self.find(problem, start=start, report=report)
        self.n_iter += solution.n_iter
        return solution

    def _remove(self, removal: Removal) -> tuple[Solution, list[RemovalRound]]:
        """The last training of a removal, and the records of all, up to where a rule stops it."""
        weights, n_rounds = self.data.sample_weight, removal.rounds
        of_folds: Floats = np.empty(0)
        if removal.cv is not None:
            of_folds = self._criteria_by_folds(removal, removal.cv)
            n_rounds = first_stop(of_folds)
        path: list[RemovalRound] = []
        rounds = removal_rounds(self.problem, weights, removal, self.solve, self.output)
        for solution, record in rounds:  # noqa: B007  the last one is returned
            path.append(record)
            if record.round and removal.cv is None:
                accuracy = [record.validation_accuracy for record in path[1:]]
                deviation = [record.deviation for record in path[1:]]
                stop = stop_criteria(removal.stop, accuracy, deviation)[-1]
                path[-1] = replace(record, stop=float(stop))
            elif record.round:
                path[-1] = replace(record, stop=float(of_folds[record.round - 1]))
            if self.was_stopped or record.round == n_rounds or path[-1].stop > 0:
                break
        return solution, path

    def _criteria_by_folds(self, removal: Removal, n_folds: int) -> Floats:
        """The criteria of the rule to stop, with accuracy and deviation over folds."""
        weights, random_state = self.data.sample_weight, np.random.RandomState(self.seed)
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=random_state)
        paths = []
        for kept, _ in folds.split(weights, self.problem.signs):

            def solve(
                problem: SquaredMargin, rows: Indices, start: Floats | None, kept: Indices = kept
            ) -> Solution:
                return self.solve(problem, kept[rows], start)

            fold = self.problem.subset(kept)
            path = []
            for _, record in removal_rounds(fold, weights[kept], removal, solve):
                path.append((record.validation_accuracy, record.deviation))
                if self.was_stopped:
                    return np.empty(0)
            paths.append(path[1:])
        n_rounds = min(len(path) for path in paths)
        table = np.array([path[:n_rounds] for path in paths]).reshape(n_folds, n_rounds, 2)
        return stop_criteria(removal.stop, table[..., 0], table[..., 1])


def _find_within_limits(
    problem: SquaredMargin, *, start: Floats | None = None, **options: Any
) -> Solution:
    """The nearest point by steps of limited work: of many rows, over larger and larger samples.

    Each sample starts from the solution on the last. Where one reaches the limit, the last
    solution is the answer, judged on all rows: steps that are cut short know the rows that
    were let in last too well and classify poorly, while the optimum on a sample is an SVM.
    """
    n_rows, n_iter, n_values = problem.n_rows, 0, 0.0
    sizes = [n_rows]
    while start is None and sizes[0] > _MANY_ROWS:
        sizes.insert(0, max(_MANY_ROWS // 2, sizes[0] // 2))
    order = np.random.RandomState(0).permutation(n_rows)
    alpha = np.zeros(n_rows) if start is None else start
    for size in sizes:
        rows = np.sort(order[:size])
        solution = find_nearest_point(
            problem.subset(rows) if size < n_rows else problem,
            start=alpha[rows] if alpha.any() else None,
            max_iter=max(_LEAST_STEPS, int(_AUTO_STEPS / max(size, _STEP_ROWS))),
            max_columns=int((_AUTO_KERNEL_VALUES - n_values) / size),
            **options if size == n_rows else options | {"report": None},
        )
        n_iter, n_values = n_iter + solution.n_iter, n_values + size * solution.n_columns
        if solution.status == "iteration limit" and alpha.any():
            solution = find_nearest_point(problem, start=alpha, max_iter=0, **options)
            break
        alpha = np.zeros(n_rows)
        alpha[rows[solution.rows]] = solution.alpha
    return replace(solution, n_iter=n_iter)


class HullPerceptronClassifier(ExpansionClassifier):
    """Kernel perceptron of maximal margin, with squared slacks and removal of support vectors.

    The method and the removal are those of [1]_. Minimises::

        1/2 (|w|^2 + b^2) + C sum_i max(0, 1 - d_i (w.f(x_i) + b))^2

    as the point W nearest the origin in the convex hull of the signed training rows, in the feature
    space of ``Q_ij = d_i d_j (1 + k(x_i, x_j)) + delta_ij / (2 C)``. The decision values are
    ``W . X / |W|^2``: 1 for a row without slack, as for an SVM.

    :class:`CoreVectorClassifier` minimises the same objective by another algorithm, with C/2 in the
    place of C: ``HullPerceptronClassifier(C)`` and ``CoreVectorClassifier(2 * C)`` have the same
    optimum.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared slacks: half the C of :class:`CoreVectorClassifier`.
    kernel : {"rbf", "laplacian", "poly", "linear"} or Kernel, default="rbf"
        Kernel function: a name, or an object of a class derived from
        :class:`kernlet.kernels.Kernel`. It must be positive semi-definite, which the sigmoid is
        not.
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Width of all kernels but "linear". ``"scale"`` is 1 / (n_features X.var()) and ``"auto"``
        1 / n_features, as in scikit-learn; ``"mean_distance"`` is one over the mean squared
        distance between two rows. For "laplacian", a rule is the square root of its value divided
        by n_features.
    degree : int, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant of the "poly" kernel.
    solver : {"mdm", "sk"}, default="mdm"
        ``"mdm"`` moves weight between pairs of rows; ``"sk"`` takes the steps of Schlesinger
        and Kozinec, as in the paper, and takes ten to fifty times as long for the same gap.
    tol : float, default=1e-3
        Relative gap to reach, see ``gap_``. Below 1e-7 and for up to 2,500 support vectors an
        active set finds the last digits.
    max_iter : "auto" or int, default="auto"
        Steps allowed for each training; -1 for no limit. ``"auto"`` allows 2e9 / n_rows steps, at
        least 20,000 and at most 1,000,000, and 1e9 kernel values: clean data need fewer. A fit
        that stops at the limit warns with the gap that it reached. The paper takes 10,000
        ``"sk"`` steps.
    removal : Removal or None, default=None
        Train repeatedly without the rows of small alpha, see :class:`Removal` and Notes: there are
        better ways to have few centers.
    class_weight : dict, "balanced" or None, default=None
        Multiplies C for the rows of a class. ``"balanced"`` weighs classes inversely to their
        numbers of rows.
    cache_size : float, default=2000
        Memory in MB for columns of Q, per output that is being solved.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    n_jobs : int or None, default=None
        Outputs solved at the same time.
    random_state : int, RandomState instance or None, default=None
        Draws the folds of ``Removal(cv=...)``; nothing else is random.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The decision function.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    nbytes_ : int
        Bytes of everything that a prediction needs.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    center_indices_ : ndarray of shape (n_centers,)
        Training rows that are the centers; equal rows are one center.
    support_indices_ : ndarray of shape (n_support,)
        Training rows with a positive alpha in at least one output.
    alpha_ : ndarray of shape (n_outputs, n_support)
        Weights alpha of these rows; each line has sum 1.
    gap_ : float
        The certificate, computed from scratch over all rows trained on: the relative gap
        ``1 - min_i W . X_i / |W|^2`` of the worst output. The norm of the nearest point is at least
        ``(1 - gap_) |W|``, and a gap of 1 or more is not a bound.
    margin_ : ndarray of shape (n_outputs,)
        ``min_i W . X_i / |W|``; at the optimum the norm of W.
    n_iter_ : int
        Steps, of all outputs and trainings.
    removal_path_ : list of RemovalRound
        With ``removal``, one record per training: threshold, rows left, support vectors,
        accuracies, gap, and ``stop``, the criterion of the rule to stop.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

    See Also
    --------
    CoreVectorClassifier : The same objective, for C twice as large, by core sets.
    kernlet.compression.refit : The best classifier over few given centers, from all rows.
    MinimalKernelClassifier : Few centers by a concave penalty.

    Notes
    -----
    At the optimum ``alpha_i = 2 C_i |W|^2 slack_i``: the support vectors of *large* alpha are the
    outliers, and removal keeps those. In the paper and here it leaves 63 to 90 % of the support
    vectors. Refitting all rows on a few dozen centers (:func:`kernlet.compression.refit`) often has
    the same accuracy with a fraction of that. Removal is implemented for comparison.

    More than two classes make one hull per class, one-vs-rest, each with a separate removal; the
    outputs share one set of centers.

    Scale the features: with unscaled ones the steps may be many, and beyond 2,500 support
    vectors the active set is not used.

    With ``max_iter="auto"`` and more than 10,000 rows, larger and larger samples are solved, each
    from the solution on the last, and all rows at the end. On noisy data most rows become
    support vectors: there a limit is reached beyond some 20,000 rows, and the answer is the
    machine on the last sample. ``gap_`` holds for all rows nevertheless, and says so.

    Time is about one column of Q, n_rows kernel values, per support vector, and a few
    steps of n_rows operations each. Memory is 8 bytes per row and column, at most
    ``cache_size``, besides copies of X and up to 200 MB for the active set; the matrix is never
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
        "max_iter": [
            Interval(Integral, 0, None, closed="left"),
            Options(Integral, {-1}),
            StrOptions({"auto"}),
        ],
        "removal": [Removal, None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "verbose": ["verbose"],
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
        max_iter: str | int = "auto",
        removal: Removal | None = None,
        class_weight: Any = None,
        cache_size: float = 2000,
        verbose: int = 0,
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
        self.class_weight = class_weight
        self.cache_size = cache_size
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> HullPerceptronClassifier:
        """Fit the classifier.

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
        with np.errstate(over="ignore"):  # a cost that overflows gets a message in the problem
            costs = 2.0 * costs  # C sum slack^2 = c/2 sum slack^2
        signs = one_vs_rest_signs(data.y, self.classes_)
        problems = [SquaredMargin(gram, row, costs) for row in signs]
        with Progress.start(self, data, n_tasks=len(problems), sequential=False) as progress:
            outputs = self._solve_all(problems, data, progress)
            solutions = [solution for solution, _ in outputs]
            warn_unconverged(solutions, self.tol, "outputs", _REASONS)
            self.expansion_, centers = join_centers(Gram(kernel, data.X), solutions)
            self.center_indices_ = data.rows[centers]
            support = np.unique(np.concatenate([s.rows for s in solutions]))
            self.support_indices_ = data.rows[support]
            self.alpha_ = np.zeros((len(solutions), len(support)))
            for line, solution in zip(self.alpha_, solutions, strict=True):
                line[np.searchsorted(support, solution.rows)] = solution.alpha
            self.gap_ = float(np.max([s.gap for s in solutions]))
            self.margin_ = np.array([s.margin for s in solutions])
            self.n_iter_ = sum(s.n_iter for s in solutions)
        self.__dict__.pop("removal_path_", None)
        if self.removal is not None:
            self.removal_path_ = [record for _, path in outputs for record in path]
        return self

    def _solve_all(
        self, problems: list[SquaredMargin], data: TrainingData, progress: Progress
    ) -> list[tuple[Solution, list[RemovalRound]]]:
        """Solve all outputs, in parallel."""
        max_bytes = int(self.cache_size * 2**20)
        options: dict[str, Any] = {"method": self.solver, "tol": self.tol, "max_bytes": max_bytes}
        if isinstance(self.max_iter, str):
            find: Callable[..., Solution] = partial(_find_within_limits, **options)
        else:
            max_iter = None if self.max_iter == -1 else int(self.max_iter)
            find = partial(find_nearest_point, max_iter=max_iter, **options)
        seed, removal, is_only = 0, self.removal, len(problems) == 1
        if removal is not None and removal.cv is not None:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        tasks = [progress.task("output", k) for k in range(len(problems))]
        trainings = [
            _Training(problem, data, find, removal, seed, task, k, is_only)
            for k, (problem, task) in enumerate(zip(problems, tasks, strict=True))
        ]
        outputs: list[tuple[Solution, list[RemovalRound]]] = Parallel(n_jobs=self.n_jobs)(
            delayed(_Training.run)(training) for training in trainings
        )
        return outputs

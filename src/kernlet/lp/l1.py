"""The 1-norm kernel classifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.parallel import Parallel, delayed

from kernlet._typing import Floats, Indices
from kernlet.atomic import Checkpoint, stored_numbers
from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram
from kernlet.lp.generation import ColumnGeneration
from kernlet.lp.linearization import LinearizationPath, solve_once
from kernlet.lp.problem import L1Margin, PrimalDual, Solution
from kernlet.lp.streaming import StreamingL1Solver, StreamingPass, is_tall
from kernlet.progress import Progress
from kernlet.rows import as_rows
from kernlet.rows.source import RowSource
from kernlet.sampling import (
    Candidates,
    choose_candidates,
    spread_candidates,
    stratified_sample,
)
from kernlet.sklearn_base import (
    GAP_WORTH_WARNING,
    KERNEL_CONSTRAINTS,
    ExpansionClassifier,
    TrainingData,
    error_weights,
    fit_method,
    fit_task,
    is_unconverged,
    join_centers,
    warn_unconverged,
    warn_user,
)

#: ``method(solver, tol=..., start=..., report=...)`` solves the outputs of ``solver.problem``:
#: :func:`solve_once` or :func:`linearize` with its settings.
Method = Callable[..., list[LinearizationPath]]

_MAX_FALLBACK_ROWS = 100_000  # that generation solves where streaming ends without a certificate
#: The file in the folder ``checkpoint``.
CHECKPOINT_NAME = "streaming.npz"
# Parameters that do not change the first linear program; candidates are compared as points.
_NOT_IN_CHECKPOINT = (
    *("candidates", "checkpoint", "n_jobs", "cache_size"),
    *("tol", "max_iter", "solver", "verbose"),
)
_REASONS = {
    "iteration limit": "the simplex method reached max_iter. Raise it.",
    "stalled": "programs over more rows near the margin came no closer. Lower C, or give fewer "
    "candidates.",
    "failed": "the simplex method failed. Scale the features, or lower C.",
    "optimal": "kernel values times C leave no more digits. Scale the features, or lower C.",
}


def margin_problem(
    data: TrainingData, kernel: Kernel, points: Any, classes: Any, costs: Floats
) -> L1Margin:
    """The one-vs-rest problems of the classes over candidate ``points``, None for the rows."""
    positives = classes if len(classes) > 2 else classes[1:]
    # An eighth of the memory of floats.
    signs = np.where(data.y[:, None] == positives, np.int8(1), np.int8(-1))
    if len(costs) and (costs == costs[0]).all():
        costs = np.broadcast_to(costs[0], costs.shape)  # one number in place of a column
    return L1Margin.of_rows(data.X, kernel, points, signs, costs)


# -- Generation: one output per task ---------------------------------------------------------


def solve_by_generation(
    problem: L1Margin,
    method: Method,
    progress: Progress,
    *,
    seed: int,
    max_bytes: int,
    n_jobs: int | None,
) -> list[LinearizationPath]:
    """Solve the linear programs of all outputs, each apart."""
    tasks = [progress.task("output", number) for number in range(problem.n_outputs)]
    paths: list[LinearizationPath] = Parallel(n_jobs=n_jobs)(
        delayed(solve_output)(problem.outputs([number]), method, task, seed, max_bytes, len(tasks))
        for number, task in enumerate(tasks)
    )
    return paths


@fit_task
def solve_output(
    problem: L1Margin, method: Method, task: Progress, seed: int, max_bytes: int, n_outputs: int
) -> LinearizationPath:
    """Solve one of the outputs, in the process of a worker; each round is a step of the task."""

    def report(pair: PrimalDual) -> bool:
        arrays = pair.centers, pair.coef[None, :], np.array([pair.intercept])
        # One output of several is not a machine that could predict.
        attributes = partial(_attributes, problem, *arrays) if n_outputs == 1 else None
        return task.step("round", attributes)

    with task:
        solver = ColumnGeneration(problem, np.random.RandomState(seed), max_bytes=max_bytes)
        (path,) = method(solver, report=report)
    return path


def _attributes(
    problem: L1Margin, centers: Indices, coef: Floats, intercept: Floats
) -> dict[str, Any]:
    """What a copy of the estimator needs to predict with the machine so far."""
    return {"expansion_": KernelExpansion(problem.kernel, problem.points[centers], coef, intercept)}


# -- Streaming: all outputs in one task ------------------------------------------------------


def solve_by_streaming(
    problem: L1Margin,
    method: Method,
    progress: Progress,
    *,
    seed: int,
    max_bytes: int,
    checkpoint: Checkpoint | None,
) -> tuple[list[LinearizationPath], float]:
    """Solve all outputs over shared passes, and count these; each pass is a step of the task.

    After every pass over all rows of the first linear program its machine is written to the
    checkpoint, and a later fit starts from it.
    """
    solver = StreamingL1Solver(problem, seed, max_bytes=max_bytes)

    def report(state: StreamingPass) -> bool:
        """Write the checkpoint and report the pass; true where a callback asks to stop."""
        is_first = solver.problem is problem  # later programs have other costs
        if checkpoint is not None and is_first and not state.is_sample:
            checkpoint.save({}, coef=state.coef)
        name = f"pass {state.passes:.1f}, gap {state.gap:.1e}, {state.rows_per_second:.2g} rows/s"
        used, coef = np.flatnonzero(state.coef[:-1].any(axis=1)), state.coef
        # Stationary outputs take no part in later programs.
        is_whole = coef.shape[1] == problem.n_outputs
        attributes = partial(_attributes, problem, used, coef[used].T, coef[-1])
        return progress.step(name, attributes if is_whole else None)

    start = None
    if checkpoint is not None:
        shape = (problem.shape[1] + 1, problem.n_outputs)
        start = checkpoint.load(lambda _, arrays: stored_numbers(arrays["coef"], *shape))
    try:
        return method(solver, start=start, report=report), solver.passes
    finally:
        solver.close()


# -- Candidates that machines on samples choose ----------------------------------------------

_N_SAMPLES, _SAMPLE_ROWS = 10, 1000
_SAMPLE_TOL = 1e-3  # candidates need no exact optimum
_SAMPLE_SEED = int(np.random.RandomState(0).randint(2**31 - 1))


@fit_task
def _centers_of_sample(
    sample: TrainingData, kernel: Kernel, method: Method, costs: Floats, max_bytes: int
) -> Indices:
    """The rows that a machine on a sample, with all of its rows as candidates, chooses."""
    problem = margin_problem(sample, kernel, None, np.unique(sample.y), costs)
    solutions = []
    for number in range(problem.n_outputs):
        random = np.random.RandomState(_SAMPLE_SEED)
        solver = ColumnGeneration(problem.outputs([number]), random, max_bytes=max_bytes)
        (path,) = method(solver, tol=_SAMPLE_TOL)
        solutions.append(path.solution)
    return sample.rows[join_centers(Gram(kernel, sample.X), solutions)[1]]


# -- Whether all rows can be candidates ------------------------------------------------------

_ALL_ROWS = 2000  # rows up to which all of them are automatic candidates
_LEAST_CANDIDATES, _MOST_CANDIDATES = 100, 500  # automatic ones, where there are more rows
_TRIAL_ROWS, _MAX_TRIALS = 500, 4  # rows of the larger sample, and outputs that are tried
_LEAST_GROWTH = 0.25  # exponent: two samples tell the growth of small numbers poorly
# Rows with a positive dual times centers, for one output: 20 s. The square of this number is
# proportional to time.
_MAX_ENTRIES = 5e5


@fit_task
def is_quick(problem: L1Margin, max_bytes: int) -> bool:
    """Whether all rows as candidates take seconds, judged by machines on 250 and 500 rows.

    The rows with a positive dual and the centers of each grow like a power of the rows: below 1
    on clean data, 1 on noisy data.
    """
    n_rows, n_outputs = problem.shape[0], problem.n_outputs
    largest = np.argsort(-(problem.signs > 0).sum(axis=0), kind="stable")[:_MAX_TRIALS]
    for output in largest:
        signs, weights = problem.signs[:, output], problem.error_weights[:, output]
        sizes = []
        for size in (_TRIAL_ROWS // 2, _TRIAL_ROWS):
            random = np.random.RandomState(_SAMPLE_SEED)
            rows = stratified_sample(signs, np.arange(n_rows), size, random)
            X, kernel = problem.X[rows], problem.kernel
            sample = L1Margin.of_rows(X, kernel, None, signs[rows], weights[rows])
            (solution,) = ColumnGeneration(sample, random).solve(tol=_SAMPLE_TOL)
            sizes.append([len(solution.rows) + 1, len(solution.centers) + 1])
        half, whole = np.array(sizes, dtype=float)
        growth = np.clip(np.log2(whole / half), _LEAST_GROWTH, 1.0)
        n_duals, n_centers = whole * (n_rows / _TRIAL_ROWS) ** growth
        # The largest outputs are tried: most others are smaller (letter: 26 outputs, 23 s).
        is_small = n_duals * n_centers <= _MAX_ENTRIES / n_outputs**0.25
        if not is_small or 4 * n_rows * (n_duals + n_centers) > max_bytes:
            return False
    return True


# -- All outputs together --------------------------------------------------------------------


def better_of(one: LinearizationPath, two: LinearizationPath) -> LinearizationPath:
    """Of two answers for an output the one with the smaller gap, with the iterations of both."""
    better = min(one, two, key=lambda path: path.solution.gap)
    n_iter = one.solution.n_iter + two.solution.n_iter
    return replace(better, solution=replace(better.solution, n_iter=n_iter))


def join_duals(solutions: Sequence[Solution]) -> tuple[Indices, Floats]:
    """The rows with a positive dual in any output, and the duals (n_outputs, n_rows) there."""
    rows = np.flatnonzero(_is_any([s.rows for s in solutions]))
    duals = np.zeros((len(solutions), len(rows)))
    for output, solution in zip(duals, solutions, strict=True):
        output[np.searchsorted(rows, solution.rows)] = solution.duals
    return rows, duals


def loo_error_bound(
    n_rows: int, candidate_rows: Indices | None, solutions: Sequence[Solution], tol: float
) -> float:
    """Share of the rows whose absence could change a machine (Proposition 3.1).

    A row that is not a center and has neither a positive dual nor an error can be left out
    without changing the answer, which classifies it correctly in every output. That holds at an
    optimum, a gap of at most ``tol``; anywhere else the bound is 1. ``candidate_rows`` are the
    rows that candidates are, None for points that stay whichever row is left out.
    """
    if not all(s.gap <= tol for s in solutions):
        return 1.0
    moving = [s.rows for s in solutions] + [np.flatnonzero(s.slacks > 0) for s in solutions]
    if candidate_rows is not None:
        moving += [candidate_rows[s.centers] for s in solutions]
    return np.count_nonzero(_is_any(moving)) / n_rows


def _is_any(arrays: Sequence[Indices]) -> Any:
    """Which row numbers are in any of the arrays; sorting them would take longer."""
    mask = np.zeros(1 + max(int(numbers.max(initial=-1)) for numbers in arrays), dtype=bool)
    for numbers in arrays:
        mask[numbers] = True
    return mask


class L1KernelClassifier(ExpansionClassifier):
    """Kernel classifier with a 1-norm penalty on its coefficients: few centers by design.

    Solves linear program (10) of [1]_::

        minimise  C sum_i y_i + sum_j |beta_j|
        subject to  d_i (sum_j k(x_i, z_j) beta_j + intercept) + y_i >= 1,   y >= 0

    over candidate centers z_j, exactly: the answer is a vertex with a duality gap of about
    1e-12. The 1-norm makes most beta_j zero. The kernel need not be positive definite: the
    sigmoid kernel is allowed.

    Parameters
    ----------
    C : float, default=3.0
        Weight of the errors; the paper's nu.
    kernel : {"rbf", "laplacian", "poly", "linear", "sigmoid"} or Kernel, default="rbf"
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Width of all kernels but "linear"; ``"scale"`` and ``"auto"`` as in scikit-learn,
        ``"mean_distance"`` one over the mean squared distance of two rows. For "laplacian" a rule
        is the square root of these divided by n_features: ``"scale"`` is
        1 / (n_features X.std()) and ``"auto"`` again 1 / n_features.
    degree : int, default=3
        Of the "poly" kernel.
    coef0 : float, default=0.0
        Of the "poly" and "sigmoid" kernels.
    candidates : "auto", None, int, float, "union" or array-like of shape (n_candidates, \
            n_features), default="auto"
        Points that may become centers: all rows (None), a number or a fraction of rows drawn at
        random (the reduced kernel), the union of the centers that machines on a sample of
        each tenth of the rows choose, or the given points. ``"auto"`` takes all rows where that
        is quick, and otherwise 100 to 500 rows that cover the data: see Notes.
    class_weight : dict, "balanced" or None, default=None
        Multiplies C for the rows of a class.
    solver : {"auto", "generation", "streaming"}, default="auto"
        Column and row ``"generation"``, or ``"streaming"`` for many more rows than candidates:
        ten to twenty passes over all rows. ``"auto"`` takes the latter with at least 5,000 rows
        and at least 20 rows per candidate, and for rows that are not in memory. Both end at the
        same optimum with the same certificate; where streaming ends without one (many rows that
        are nearly equal), ``"auto"`` continues by generation if at most 100,000 rows are in
        memory. ``"tall"`` is another name of ``"streaming"``.
    tol : float, default=1e-9
        Relative duality gap to reach.
    max_iter : int, default=-1
        Simplex iterations allowed for each linear program; -1 for no limit. A fit that stops
        at the limit warns with the gap that it reached.
    cache_size : float, default=2000
        Memory in MB for kernel columns, for each linear program under way; for kernel blocks
        with streaming, shared by the workers of a cluster.
    checkpoint : str, Path or None, default=None
        Folder to which streaming writes its machine after every pass over all rows. A fit
        with the same parameters and data starts from it; ``random_state`` must be a number.
        Generation writes nothing.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    n_jobs : int or None, default=None
        Classes solved at the same time; with streaming they share their passes instead.
    random_state : int, RandomState instance or None, default=None
        Draws random candidates and the solver's first working set. The optimum does not
        depend on the latter.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The machine.
    n_centers_ : int
        Distinct centers.
    n_candidates_ : int
        Points that could become centers.
    nbytes_ : int
        Bytes of everything that a prediction needs.
    classes_ : ndarray of shape (n_classes,)
    center_indices_ : ndarray of shape (n_centers_,)
        Training rows that are the centers (the paper's m2 rows); with given points as
        candidates, the numbers of those points.
    margin_indices_ : ndarray of shape (n_margin_rows,)
        Training rows with a positive dual in at least one output (the paper's m1 rows).
    duals_ : ndarray of shape (n_outputs, n_margin_rows)
        The duals of these rows.
    objective_ : ndarray of shape (n_outputs,)
        Value of the linear program of each output.
    duality_gap_ : ndarray of shape (n_outputs,)
        Relative duality gap of each output's linear program, all rows and all candidates
        priced in float64: the certificate.
    loo_error_bound_ : float
        Upper bound on the leave-one-out error (Proposition 3.1): the share of rows that are
        a center, have a positive dual or an error in any output. It holds for the kernel, the
        weights and the candidates as they are, and is loose: show it as a bound. 1 where a
        linear program was not solved to its optimum.
    n_iter_ : int
        Simplex iterations, and steps of the interior point method that takes over where noisy
        rows need very many of these.
    n_passes_ : float
        Passes of streaming over the rows, those over samples counted as their share; 0 where
        generation alone was used.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names for all its columns, and all are strings.

    See Also
    --------
    MinimalKernelClassifier : Fewer centers still, by a concave penalty.

    Notes
    -----
    More than two classes make one linear program per class, one against the rest, and share
    one set of centers.

    Time depends on the number of rows with a positive dual, not on the number of rows: 60,000
    rows of MNIST take a minute. Memory is 4 bytes per row for each point that was ever active, at
    most ``cache_size``; the kernel matrix is never stored. On noisy data, where the rows with a
    positive dual and the centers grow with the rows, time grows with the cube of the rows:
    2,000 rows take about 10 s, and rows in the hundred thousands are out of reach.

    ``candidates="auto"`` takes all rows up to 2,000. Beyond that it trains on 250 and on 500 rows
    and extrapolates the numbers of centers and of rows with a positive dual. Where the linear
    program would be too large (noisy data), the candidates are the rows nearest to the means of
    k-means, at most 500 and fewer for many rows or classes: their square times the rows times the
    outputs is limited, so that time grows slowly with the rows. All rows stay in the errors,
    and the certificate is that of the linear program over these candidates.

    With s candidates and many more rows, streaming takes ten to twenty passes of n_rows * s
    kernel values for each linear program; half a million rows and 100 candidates take a few
    seconds. Memory is about 60 bytes per row and output, ``cache_size`` and one block of rows. X
    may then lie on disk or on a Dask cluster: see :mod:`kernlet.rows`.

    References
    ----------
    .. [1] G. M. Fung, O. L. Mangasarian and A. J. Smola, "Minimal kernel classifiers",
       Journal of Machine Learning Research 3, 303-321, 2002.

    Examples
    --------
    >>> from kernlet import L1KernelClassifier
    >>> from kernlet.datasets import make_checkerboard
    >>> board = make_checkerboard(random_state=0)
    >>> machine = L1KernelClassifier(C=100.0, gamma=4.0, random_state=0).fit(board.X, board.y)
    >>> machine.n_centers_ < 50
    True
    >>> bool(machine.duality_gap_.max() < 1e-9)
    True
    """

    n_passes_: float
    _takes_sources = True
    # n_rows * n_outputs^power * s^2 for s automatic candidates: 500 for 50,000 rows, 10 to 15 s.
    # Outputs share kernel values, but each has its linear program.
    _auto_work, _auto_power = 1.25e10, 0.5
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        **KERNEL_CONSTRAINTS,
        "candidates": [
            StrOptions({"auto", "union"}),
            None,
            Integral,
            Real,
            "array-like",
            "sparse matrix",
        ],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "solver": [StrOptions({"auto", "generation", "streaming", "tall"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left"), Options(Integral, {-1})],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "checkpoint": [str, Path, None],
        "verbose": ["verbose"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C: float = 3.0,
        *,
        kernel: str | Kernel = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        candidates: Any = "auto",
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-9,
        max_iter: int = -1,
        cache_size: float = 2000,
        checkpoint: Any = None,
        verbose: int = 0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.candidates = candidates
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowSource, dask collection} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or str
            Labels: numbers, strings or booleans. The name of a column of X, where X is a
            source of rows that has one.
        sample_weight : array-like of shape (n_samples,), default=None
            Multiplies C for each row: a weight of 2 is the row given twice.

        Returns
        -------
        self : object
        """
        data = self._check_training_data(X, y, sample_weight)
        self._train(data, self._make_kernel(data), self.candidates, solve_once)
        return self

    def _train(
        self, data: TrainingData, kernel: Kernel, n_candidates: Any, method: Method
    ) -> tuple[list[LinearizationPath], Candidates]:
        """Choose candidates, solve all outputs by ``method`` and set the fitted attributes."""
        max_iter = None if self.max_iter == -1 else int(self.max_iter)
        method = partial(method, tol=self.tol, max_iter=max_iter)
        random_state = check_random_state(self.random_state)
        costs = error_weights(self.C, data.y, self.classes_, self.class_weight, data.sample_weight)
        candidates = self._candidates(n_candidates, data, kernel, costs, method, random_state)
        seed, max_bytes = random_state.randint(2**31 - 1), int(self.cache_size * 2**20)
        problem = margin_problem(data, kernel, candidates.points, self.classes_, costs)
        generate = partial(
            solve_by_generation, problem, method, seed=seed, max_bytes=max_bytes, n_jobs=self.n_jobs
        )
        is_streaming = self._is_streaming(data, problem)
        checkpoint = self._open_checkpoint(problem, is_streaming)
        n_tasks = None if is_streaming else problem.n_outputs
        with Progress.start(self, data, n_tasks, sequential=is_streaming) as progress:
            if is_streaming:
                paths, self.n_passes_ = solve_by_streaming(
                    problem, method, progress, seed=seed, max_bytes=max_bytes, checkpoint=checkpoint
                )
                if self._needs_generation(data, paths):
                    with progress.task(
                        "generation", n_tasks=problem.n_outputs, sequential=False
                    ) as task:
                        paths = list(map(better_of, paths, generate(task)))
            else:
                paths, self.n_passes_ = generate(progress), 0.0
            solutions = [path.solution for path in paths]
            warn_unconverged(solutions, self.tol, "linear programs", _REASONS)
            self._set_attributes(problem, data.rows, candidates.rows, solutions)
        return paths, candidates

    def _candidates(
        self,
        candidates: Any,
        data: TrainingData,
        kernel: Kernel,
        costs: Floats,
        method: Method,
        random_state: np.random.RandomState,
    ) -> Candidates:
        """The points that the parameter ``candidates`` stands for."""
        if not isinstance(candidates, str):
            return choose_candidates(candidates, data.X, random_state)
        if candidates == "union":
            return self._union_of_centers(data, kernel, method, random_state.randint(2**31 - 1))
        n_rows = len(data.y)
        if not isinstance(data.X, RowSource) and n_rows <= _ALL_ROWS:
            return choose_candidates(None, data.X, random_state)
        if not isinstance(data.X, RowSource) and self.solver not in ("streaming", "tall"):
            problem = margin_problem(data, kernel, None, self.classes_, costs)
            if is_quick(problem, int(self.cache_size * 2**20)):
                return choose_candidates(None, data.X, random_state)
        n_outputs = len(self.classes_) if len(self.classes_) > 2 else 1
        count = int(np.sqrt(self._auto_work / (n_rows * n_outputs**self._auto_power)))
        count = min(n_rows, max(_LEAST_CANDIDATES, min(count, _MOST_CANDIDATES)))
        return spread_candidates(data.X, count, random_state)

    def _union_of_centers(
        self, data: TrainingData, kernel: Kernel, method: Method, seed: int
    ) -> Candidates:
        """The centers of machines on a sample of each tenth of the rows, which are shuffled.

        Each machine may choose from all rows of its sample, at the C that makes the errors of
        the sample weigh as much as those of all rows.
        """
        rows = as_rows(data.X)
        order = np.random.RandomState(seed).permutation(np.flatnonzero(data.sample_weight))
        tasks = []
        for tenth in np.array_split(order, min(_N_SAMPLES, len(order))):
            numbers = np.sort(tenth[:_SAMPLE_ROWS])
            y, weights = data.y[numbers], np.ascontiguousarray(data.sample_weight[numbers])
            classes, C = np.unique(y), self.C * len(order) / len(numbers)
            if len(classes) > 1:
                sample = TrainingData(rows.take(numbers), y, weights, numbers)
                tasks.append((sample, error_weights(C, y, classes, self.class_weight, weights)))
        centers = Parallel(n_jobs=self.n_jobs)(
            delayed(_centers_of_sample)(sample, kernel, method, costs, int(self.cache_size * 2**20))
            for sample, costs in tasks
        )
        if not sum(map(len, centers)):
            raise ValueError(
                'candidates="union" found no center: the samples of all parts hold one class '
                "only, or their machines are constant. Give candidates as a number of rows."
            )
        numbers = np.unique(np.concatenate(centers))
        return Candidates(rows.take(numbers), numbers)

    def _is_streaming(self, data: TrainingData, problem: L1Margin) -> bool:
        is_source = isinstance(data.X, RowSource)
        if self.solver == "generation" and is_source:
            raise ValueError(
                'solver="generation" needs the rows in memory; they are read block by block here. '
                'Use solver="streaming" or "auto".'
            )
        if self.solver != "auto":
            return self.solver != "generation"
        return is_source or is_tall(*problem.shape)

    def _open_checkpoint(self, problem: L1Margin, is_streaming: bool) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        if not is_streaming:
            warn_user(
                "checkpoint has no effect: it is written by the streaming solver alone, and these "
                "rows are solved by generation.",
                UserWarning,
            )
            return None
        parameters = self.get_params(deep=False)
        settings = {k: value for k, value in parameters.items() if k not in _NOT_IN_CHECKPOINT}
        # A thousand rows tell one data set from another; hashing all would cost a pass.
        sample = np.unique(np.linspace(0, len(problem.rows) - 1, 1000).astype(np.intp))
        weights = problem.error_weights
        costs = np.concatenate([weights[sample], weights.sum(axis=0, keepdims=True)])
        arrays = problem.rows.take(sample), problem.points, problem.signs, costs
        return Checkpoint.of_fit(Path(self.checkpoint) / CHECKPOINT_NAME, settings, *arrays)

    def _needs_generation(self, data: TrainingData, paths: list[LinearizationPath]) -> bool:
        """Whether streaming has no certificate, and generation can be tried."""
        if self.solver != "auto" or isinstance(data.X, RowSource):
            return False
        if len(data.y) > _MAX_FALLBACK_ROWS:
            return False
        solutions = [p.solution for p in paths if p.solution.status != "iteration limit"]
        return any(is_unconverged(solution, self.tol) for solution in solutions)

    def _set_attributes(
        self,
        problem: L1Margin,
        rows: Indices,
        candidate_rows: Indices | None,
        solutions: list[Solution],
    ) -> None:
        """Set the fitted attributes; ``rows`` are those of the problem in the user's data."""
        gram = Gram(problem.kernel, problem.points[:0], problem.points)
        self.expansion_, centers = join_centers(gram, solutions)
        self.center_indices_ = centers if candidate_rows is None else rows[candidate_rows[centers]]
        margin_rows, self.duals_ = join_duals(solutions)
        self.margin_indices_ = rows[margin_rows]
        self.loo_error_bound_ = loo_error_bound(
            len(rows), candidate_rows, solutions, max(self.tol, GAP_WORTH_WARNING)
        )
        self.n_candidates_ = problem.shape[1]
        self.objective_ = np.array([s.objective for s in solutions])
        self.duality_gap_ = np.array([s.gap for s in solutions])
        self.n_iter_ = sum(s.n_iter for s in solutions)

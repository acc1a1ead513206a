"""The 1-norm kernel classifier."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.callback import CallbackContext
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.parallel import Parallel, delayed

from kernlet._typing import Floats, Indices
from kernlet.atomic import DAMAGE, atomic_write, fingerprint
from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram
from kernlet.lp.generation import Generation, Progress, Report
from kernlet.lp.problem import L1Margin, MarginSolution, TallMargin
from kernlet.lp.streaming import TallLP, TallProgress, TallReport
from kernlet.rows import as_rows
from kernlet.rows.source import RowSource
from kernlet.sampling import Candidates, choose_candidates
from kernlet.sklearn_base import (
    KERNEL_CONSTRAINTS,
    ExpansionClassifier,
    TrainingData,
    error_weights,
    join_centers,
    one_vs_rest_signs,
)

#: A relative duality gap beyond this is told.
WORTH_A_WARNING = 1e-8
_REASONS = {
    "iteration limit": "the simplex method reached max_iter. Raise it.",
    "stalled": "programs over more rows near the margin came no closer. Lower C, or give fewer "
    "candidates.",
    "failed": "the simplex method failed. Scale the features, or lower C.",
    "optimal": "kernel values times C leave no more digits. Scale the features, or lower C.",
}


def join_duals(solutions: Sequence[MarginSolution]) -> tuple[Indices, Floats]:
    """The rows with a positive dual in any output, and the duals of all outputs there.

    Parameters
    ----------
    solutions : sequence of MarginSolution

    Returns
    -------
    rows : ndarray of shape (n_rows,)
    duals : ndarray of shape (n_outputs, n_rows)
    """
    rows = np.flatnonzero(_is_any([s.rows for s in solutions]))
    duals = np.zeros((len(solutions), len(rows)))
    for output, solution in zip(duals, solutions, strict=True):
        output[np.searchsorted(rows, solution.rows)] = solution.duals
    return rows, duals


def loo_error_bound(
    n_rows: int,
    candidate_rows: Indices | None,
    solutions: Sequence[MarginSolution],
    tol: float,
) -> float:
    """Share of the rows whose absence could change a machine (Proposition 3.1).

    A row that is no center, has no positive dual and no error can be left out without
    changing the answer, which classifies it correctly in every output. That holds at an
    optimum; anywhere else the bound is 1.

    Parameters
    ----------
    n_rows : int
    candidate_rows : ndarray of shape (n_candidates,) or None
        The row that each candidate is; None where candidates are no rows and stay in place
        whichever row is left out.
    solutions : sequence of MarginSolution
    tol : float
        Relative duality gap up to which a solution counts as optimal.

    Returns
    -------
    bound : float
    """
    if not all(s.gap <= tol for s in solutions):
        return 1.0
    moving = [s.rows for s in solutions] + [np.flatnonzero(s.slacks > 0) for s in solutions]
    if candidate_rows is not None:
        moving += [candidate_rows[s.centers] for s in solutions]
    return np.count_nonzero(_is_any(moving)) / n_rows


def _is_any(numbers: Sequence[Indices]) -> Any:
    """Which row numbers are in any of the arrays; to sort millions takes longer than a pass."""
    found = np.zeros(1 + max(int(part.max(initial=-1)) for part in numbers), dtype=bool)
    for part in numbers:
        found[part] = True
    return found


def warn_if_unfinished(solutions: Sequence[MarginSolution], tol: float) -> None:
    """Warn of linear programs that ended far from their optimum, with the gap and a remedy.

    Parameters
    ----------
    solutions : sequence of MarginSolution
    tol : float
        Relative duality gap that was wanted.
    """
    unfinished = [solution for solution in solutions if is_unfinished(solution, tol)]
    if unfinished:
        worst = max(unfinished, key=lambda s: s.gap)
        warnings.warn(
            f"{len(unfinished)} of {len(solutions)} linear programs ended at a relative "
            f"duality gap of up to {worst.gap:.1e} (tol={tol:.1e}): {_REASONS[worst.status]}",
            ConvergenceWarning,
            stacklevel=6,
        )


def is_unfinished(solution: MarginSolution, tol: float) -> bool:
    """Whether a linear program ended far from its optimum without being told to stop.

    Parameters
    ----------
    solution : MarginSolution
    tol : float
        Relative duality gap that was wanted.

    Returns
    -------
    answer : bool
    """
    if solution.status == "stopped":
        return False
    return solution.gap > (
        tol if solution.status == "iteration limit" else max(tol, WORTH_A_WARNING)
    )


@dataclass(frozen=True, eq=False)
class Outcome:
    """The solution of an output, and how it was come by.

    Parameters
    ----------
    solution : MarginSolution
        Of the last linear program.
    n_lps : int
        Linear programs solved.
    is_stationary : bool
        Whether more of them would not change the machine.
    first : MarginSolution or None, default=None
        Of the first linear program, where there are several.
    """

    solution: MarginSolution
    n_lps: int = 1
    is_stationary: bool = True
    first: MarginSolution | None = None


def better_of(one: Outcome, two: Outcome) -> Outcome:
    """Of two answers for an output the one with the smaller gap, with the iterations of both."""
    better = min(one, two, key=lambda outcome: outcome.solution.gap)
    n_iter = one.solution.n_iter + two.solution.n_iter
    return replace(better, solution=replace(better.solution, n_iter=n_iter))


class MarginEstimator(Protocol):
    """What solving an output needs of an estimator."""

    classes_: Any
    cache_size: float

    def _solve(self, generation: Generation, report: Report) -> Outcome: ...


def solve_output(
    estimator: MarginEstimator,
    problem: L1Margin,
    data: TrainingData,
    seed: int,
    context: CallbackContext,
) -> Outcome:
    """Solve one output in whatever process it is sent to.

    Parameters
    ----------
    estimator : estimator
        With ``classes_``, ``cache_size`` and a method ``_solve(generation, report)``.
    problem : L1Margin
    data : TrainingData
    seed : int
    context : CallbackContext
        Of the output; every round becomes a task below it, and a callback may stop there.

    Returns
    -------
    outcome : Outcome
    """

    def report(progress: Progress) -> bool:
        """Make a task of the round; true where a callback asks to stop."""
        task = context.subcontext(task_name="round")
        task.call_on_fit_task_begin(estimator=estimator, **data.for_callbacks)
        stop = task.call_on_fit_task_end(
            estimator=estimator,
            **data.for_callbacks,
            reconstruction_attributes=lambda: _machine_so_far(estimator, problem, progress),
        )
        return bool(stop)

    context.call_on_fit_task_begin(estimator=estimator, **data.for_callbacks)
    generation = Generation(
        problem, np.random.RandomState(seed), max_bytes=int(estimator.cache_size * 2**20)
    )
    outcome = estimator._solve(generation, report)
    context.call_on_fit_task_end(estimator=estimator, **data.for_callbacks)
    return outcome


def _machine_so_far(
    estimator: MarginEstimator, problem: L1Margin, progress: Progress
) -> dict[str, Any] | None:
    """What makes an estimator that predicts with the machine of this round.

    With more than two classes there is no such machine: the outputs come one by one.
    """
    if len(estimator.classes_) > 2:
        return None
    machine = progress.machine
    centers = problem.gram.z.X[machine.centers]
    intercept = np.array([machine.intercept])
    expansion = KernelExpansion(problem.gram.kernel, centers, machine.coef[None, :], intercept)
    return {"expansion_": expansion}


_SOME_ROWS = 1000


class TallCheckpoint:
    """Coefficients in a folder, for one fit: these parameters on these rows.

    Parameters
    ----------
    folder : str or Path
        Made where it does not exist.
    fingerprint : str
        Of parameters, labels and some of the rows; a checkpoint of another fit is refused.
    """

    def __init__(self, folder: str | Path, fingerprint: str) -> None:
        self.path = Path(folder) / "tall.npz"
        self.fingerprint = fingerprint
        self.path.parent.mkdir(parents=True, exist_ok=True)

    @classmethod
    def of(
        cls, folder: str | Path, parameters: dict[str, Any], problem: TallMargin
    ) -> TallCheckpoint:
        """The checkpoint of a fit."""
        settings = {
            name: value
            for name, value in parameters.items()
            if name not in ("checkpoint", "n_jobs", "cache_size", "tol", "max_iter", "candidates")
        }
        n_rows = len(problem.rows)
        some = np.unique(np.linspace(0, n_rows - 1, _SOME_ROWS).astype(np.intp))
        weights = problem.error_weights
        costs = np.concatenate([weights[some], weights.sum(axis=0, keepdims=True)])
        arrays = (problem.rows.take(some), problem.centers, problem.signs, costs)
        return cls(folder, fingerprint(settings, *arrays))

    def save(self, coef: Floats) -> None:
        """Write the machine; the file is there whole or not at all."""
        with atomic_write(self.path) as temporary, open(temporary, "wb") as file:
            np.savez(file, coef=coef, fingerprint=np.array(self.fingerprint))

    def load(self) -> Floats | None:
        """The machine to go on from; None where there is no file."""
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                coef, found = stored["coef"], str(stored["fingerprint"])
        except DAMAGE as error:
            raise ValueError(
                f"The checkpoint {self.path} is damaged ({error}). Delete it to start anew."
            ) from error
        if found != self.fingerprint:
            raise ValueError(
                f"The checkpoint {self.path} belongs to another fit: parameters or data differ. "
                "Give another folder, or delete it to start anew."
            )
        return np.asarray(coef, dtype=np.float64)


_FEWEST_ROWS, _ROWS_A_CANDIDATE = 5000, 20


class TallEstimator(Protocol):
    """What solving all outputs needs of an estimator."""

    C: float
    class_weight: Any
    cache_size: float
    checkpoint: str | Path | None
    classes_: Any
    n_passes_: float

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters."""
        ...

    def _solve_lock_step(
        self, lp: TallLP, start: Floats | None, report: TallReport
    ) -> list[Outcome]: ...


def is_tall(n_rows: int, n_candidates: int) -> bool:
    """Whether rows far outnumber candidates: 5,000 of them, and twenty for each candidate."""
    return n_rows >= max(_FEWEST_ROWS, _ROWS_A_CANDIDATE * n_candidates)


def require_seed(estimator: Any) -> None:
    """Refuse a checkpoint of a fit that no later fit repeats."""
    if not isinstance(estimator.random_state, Integral):
        raise ValueError(
            "checkpoint needs random_state as a number: without one a later fit draws other "
            "candidates, and cannot go on from it."
        )


def solve_tall(
    estimator: TallEstimator,
    kernel: Kernel,
    points: Any,
    data: TrainingData,
    seed: int,
    context: CallbackContext,
) -> list[Outcome]:
    """Solve all outputs in lock-step; every pass over rows becomes a task of the callbacks.

    The name of the task says how many passes there were, the duality gap (infinite
    before the finish) and the rows read in a second. After every pass over all rows of the first
    linear program the machine is kept in the folder ``checkpoint``, where that is given, and a
    later fit starts from it.

    Parameters
    ----------
    estimator : estimator
    kernel : Kernel
    points : {ndarray, sparse matrix} of shape (n_candidates, n_features)
    data : TrainingData
    seed : int
    context : CallbackContext

    Returns
    -------
    outcomes : list of Outcome
    """
    problem = _problem(estimator, kernel, points, data)
    checkpoint = None
    if estimator.checkpoint is not None:
        require_seed(estimator)
        checkpoint = TallCheckpoint.of(estimator.checkpoint, estimator.get_params(False), problem)
    start = None if checkpoint is None else checkpoint.load()

    def report(progress: TallProgress) -> bool:
        """Make a task of the pass and keep its machine; true where a callback asks to stop."""
        task = context.subcontext(
            task_name=f"pass {progress.passes:.1f}, gap {progress.gap:.1e}, "
            f"{progress.rows_per_second:.2g} rows/s"
        )
        task.call_on_fit_task_begin(estimator=estimator, **data.for_callbacks)
        is_first = lp.problem is problem  # later programs have other costs
        if checkpoint is not None and is_first and not progress.is_sample:
            checkpoint.save(progress.coef)
        stop = task.call_on_fit_task_end(
            estimator=estimator,
            **data.for_callbacks,
            reconstruction_attributes=lambda: _machine_so_far_tall(problem, progress),
        )
        return bool(stop)

    lp = TallLP(problem, seed, max_bytes=int(estimator.cache_size * 2**20))
    try:
        outcomes = estimator._solve_lock_step(lp, start, report)
    finally:
        lp.close()
    estimator.n_passes_ = lp.passes
    return outcomes


def _problem(
    estimator: TallEstimator, kernel: Kernel, points: Any, data: TrainingData
) -> TallMargin:
    classes = estimator.classes_
    positives = classes if len(classes) > 2 else classes[1:]
    signs = np.empty((len(data.y), len(positives)), np.int8)
    for column, label in zip(signs.T, positives, strict=True):
        column[:] = np.where(data.y == label, 1, -1)
    weights = error_weights(
        estimator.C, data.y, classes, estimator.class_weight, data.sample_weight
    )
    if len(weights) and (weights == weights[0]).all():
        weights = np.broadcast_to(weights[0], weights.shape)  # one number in place of a column
    return TallMargin(
        as_rows(data.X),
        kernel,
        points,
        signs,
        np.broadcast_to(weights[:, None], signs.shape),
        np.ones((points.shape[0], len(positives))),
    )


def _machine_so_far_tall(problem: TallMargin, progress: TallProgress) -> dict[str, Any] | None:
    """What makes an estimator that predicts with the machine of this pass."""
    coef = progress.coef
    if coef.shape[1] != problem.shape[2]:
        return None  # some outputs are stationary: not all of them are here
    used = np.flatnonzero(coef[:-1].any(axis=1))
    expansion = KernelExpansion(problem.kernel, problem.centers[used], coef[used].T, coef[-1])
    return {"expansion_": expansion}


_PARTS, _ROWS_A_PART = 10, 1000


def union_of_choices(estimator: Any, kernel: Kernel, data: TrainingData, seed: int) -> Candidates:
    """The centers of machines on a sample of each tenth of the rows, which are shuffled.

    Each machine may choose from all rows of its sample, at the C that makes the errors of
    the sample weigh as much as those of all rows.

    Parameters
    ----------
    estimator : L1KernelClassifier
    kernel : Kernel
    data : TrainingData
    seed : int

    Returns
    -------
    candidates : Candidates
    """
    rows = as_rows(data.X)
    random = np.random.RandomState(seed)
    weighing = random.permutation(np.flatnonzero(data.sample_weight))
    chosen = []
    for part in np.array_split(weighing, min(_PARTS, len(weighing))):
        numbers = np.sort(part[:_ROWS_A_PART])
        labels = data.y[numbers]
        if len(np.unique(labels)) < 2:
            continue
        machine = clone(estimator).set_params(
            C=estimator.C * len(weighing) / len(numbers),
            kernel=kernel,
            candidates=None,
            solver="generation",
            tol=1e-3,
            checkpoint=None,
            random_state=0,
        )
        machine.fit(rows.take(numbers), labels, np.ascontiguousarray(data.sample_weight[numbers]))
        chosen.append(numbers[machine.center_indices_])
    if not chosen or not sum(map(len, chosen)):
        raise ValueError(
            'candidates="union" found no center: the samples of all parts hold one class only, or '
            "their machines are constant. Give candidates as a number of rows."
        )
    numbers = np.unique(np.concatenate(chosen))
    return Candidates(rows.take(numbers), numbers)


_MOST_AGAIN = 100_000  # rows that generation solves where the tall method has no certificate
_NO_CHECKPOINT = (
    "checkpoint has no effect: it is kept by the tall method alone, and these rows are solved by "
    "generation."
)


class L1KernelClassifier(ExpansionClassifier):
    """Kernel classifier with a 1-norm penalty on its coefficients: few centers by design.

    Solves linear program (10) of [1]_::

        minimise  C sum_i y_i + sum_j |beta_j|
        subject to  d_i (sum_j k(x_i, z_j) beta_j + intercept) + y_i >= 1,   y >= 0

    over candidate centers z_j, exactly: the answer is a vertex with a duality gap of about
    1e-12. The 1-norm makes most beta_j zero. No property of the kernel is used, so that the
    sigmoid kernel is allowed.

    Parameters
    ----------
    C : float, default=3.0
        Weight of the errors; the paper's nu.
    kernel : {"rbf", "poly", "linear", "sigmoid"} or Kernel, default="rbf"
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Width of the "rbf", "poly" and "sigmoid" kernels; ``"scale"`` and ``"auto"`` as in
        scikit-learn, ``"mean_distance"`` one over the mean squared distance of two rows.
    degree : int, default=3
        Of the "poly" kernel.
    coef0 : float, default=0.0
        Of the "poly" and "sigmoid" kernels.
    candidates : None, int, float, "union" or array-like of shape (n_candidates, n_features), \
            default=None
        Points that may become centers: all rows, a number or a fraction of rows drawn at
        random (the reduced kernel), the union of the centers that machines on a sample of
        each tenth of the rows choose, or the given points. See Notes on when to use fewer.
    class_weight : dict, "balanced" or None, default=None
        Multiplies C for the rows of a class.
    solver : {"auto", "generation", "tall"}, default="auto"
        ``"generation"`` of rows and centers, or the ``"tall"`` method for many more rows than
        candidates, which goes over all rows some ten or twenty times. ``"auto"`` takes the
        latter from 5,000 rows on that are twenty for each candidate, and for rows that are
        not in memory. Both end at the same optimum with the same certificate; where the tall
        method ends without one (many rows that are nearly equal), ``"auto"`` goes on by
        generation if at most 100,000 rows are in memory.
    tol : float, default=1e-9
        Relative duality gap to reach.
    max_iter : int, default=-1
        Simplex iterations allowed for each linear program; -1 for no limit. A fit that stops
        at the limit warns with the gap that it reached.
    cache_size : float, default=2000
        Memory in MB for kernel columns, for each linear program under way; for kernel blocks
        with the tall method, shared by the workers of a cluster.
    checkpoint : str, Path or None, default=None
        Folder in which the tall method keeps its machine after every pass over all rows. A fit
        with the same parameters and data starts from it; ``random_state`` must be a number.
        Generation keeps nothing.
    n_jobs : int or None, default=None
        Classes solved at the same time; with the tall method they share their passes instead.
    random_state : int, RandomState instance or None, default=None
        Draws random candidates and the solver's first working set. The optimum does not
        depend on the latter.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The machine.
    n_centers_ : int
        Distinct centers.
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
        Simplex iterations.
    n_passes_ : float
        Passes of the tall method over the rows, those over samples counted as their share; 0
        where generation alone was asked.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names for all its columns, and all are strings.

    See Also
    --------
    MinimalKernelClassifier : Fewer centers still, by a concave penalty.

    Notes
    -----
    More than two classes make one linear program a class, one against the rest, and share
    one set of centers.

    Time is governed by the number of rows with a positive dual, not by the number of rows:
    60,000 rows of MNIST take a minute. Memory is 4 bytes a row for each point that was ever
    active, at most ``cache_size``; the kernel matrix is never stored. Noisy data, on which
    over half of the rows have a positive dual, become slow beyond 10,000 rows: give
    ``candidates`` a few hundred there.

    With s candidates and many more rows, the tall method takes some ten or twenty passes of
    n_rows * s kernel values for each linear program; half a million rows and 100 candidates take
    a few seconds. Memory is about 60 bytes a row and output, ``cache_size`` and one block of
    rows. X may then lie on disk or on a Dask cluster: see :mod:`kernlet.rows`.

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
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        **KERNEL_CONSTRAINTS,
        "candidates": [StrOptions({"union"}), None, Integral, Real, "array-like", "sparse matrix"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "solver": [StrOptions({"auto", "generation", "tall"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left"), Options(Integral, {-1})],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "checkpoint": [str, Path, None],
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
        candidates: Any = None,
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-9,
        max_iter: int = -1,
        cache_size: float = 2000,
        checkpoint: Any = None,
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
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
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
        return self._fit(data, self._make_kernel(data))

    def _fit(self, data: TrainingData, kernel: Kernel, wanted: Any = None) -> Self:
        """Fit the machine to data that are checked, with ``wanted`` in place of ``candidates``."""
        random_state = check_random_state(self.random_state)
        if isinstance(self.candidates, str):
            candidates = union_of_choices(self, kernel, data, random_state.randint(2**31 - 1))
        else:
            wanted = self.candidates if wanted is None else wanted
            candidates = choose_candidates(wanted, data.X, random_state)
        seed = random_state.randint(2**31 - 1)
        if self._is_tall(data, candidates):
            gram, outcomes = self._solve_tall(kernel, candidates, data, seed)
        else:
            if self.checkpoint is not None:
                warnings.warn(_NO_CHECKPOINT, stacklevel=4)
            self.n_passes_ = 0.0
            context = self._init_callback_context(
                max_subtasks=self._n_outputs, sequential_subtasks=False
            )
            context.call_on_fit_task_begin(estimator=self, **data.for_callbacks)
            gram, outcomes = self._solve_all(kernel, candidates, data, seed, context)
        self._warn_if_unfinished(outcomes)
        self._set_machine(gram, data.rows, candidates.rows, outcomes)
        self._callback_fit_ctx.call_on_fit_task_end(
            estimator=self, **data.for_callbacks, reconstruction_attributes={}
        )
        return self

    def _is_tall(self, data: TrainingData, candidates: Candidates) -> bool:
        n_rows = data.X.shape[0]
        is_source = isinstance(data.X, RowSource)
        if self.solver == "auto":
            n_candidates = n_rows if candidates.points is None else candidates.points.shape[0]
            return is_source or is_tall(n_rows, n_candidates)
        if self.solver == "generation" and is_source:
            raise ValueError(
                'solver="generation" needs the rows in memory; they are read block by block here. '
                'Use solver="tall" or "auto".'
            )
        return self.solver == "tall"

    def _solve_tall(
        self, kernel: Kernel, candidates: Candidates, data: TrainingData, seed: int
    ) -> tuple[Gram, list[Outcome]]:
        """Solve the linear programs of all outputs over shared passes."""
        points = data.X if candidates.points is None else candidates.points
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self, **data.for_callbacks)
        outcomes = solve_tall(self, kernel, points, data, seed, context)
        if not self._needs_generation(data, outcomes):
            return Gram(kernel, points[:0], points), outcomes
        again = context.subcontext(
            task_name="generation", max_subtasks=self._n_outputs, sequential_subtasks=False
        )
        again.call_on_fit_task_begin(estimator=self, **data.for_callbacks)
        gram, others = self._solve_all(kernel, candidates, data, seed, again)
        again.call_on_fit_task_end(estimator=self, **data.for_callbacks)
        pairs = zip(outcomes, others, strict=True)
        return gram, [better_of(mine, other) for mine, other in pairs]

    def _needs_generation(self, data: TrainingData, outcomes: list[Outcome]) -> bool:
        """Whether the tall method has no certificate, and the other may be asked for one."""
        if self.solver != "auto" or isinstance(data.X, RowSource) or len(data.y) > _MOST_AGAIN:
            return False
        solutions = [o.solution for o in outcomes if o.solution.status != "iteration limit"]
        return any(is_unfinished(solution, self.tol) for solution in solutions)

    @property
    def _n_outputs(self) -> int:
        return len(self.classes_) if len(self.classes_) > 2 else 1

    def _solve_lock_step(
        self, lp: TallLP, start: Floats | None, report: TallReport
    ) -> list[Outcome]:
        solutions = lp.solve(tol=self.tol, max_iter=self._max_iter, start=start, report=report)
        return [Outcome(solution) for solution in solutions]

    def _solve_all(
        self,
        kernel: Kernel,
        candidates: Candidates,
        data: TrainingData,
        seed: int,
        context: CallbackContext,
    ) -> tuple[Gram, list[Outcome]]:
        """Solve the linear programs of all outputs, each on its own."""
        gram = Gram(kernel, data.X, candidates.points)
        weights = error_weights(
            self.C, data.y, self.classes_, self.class_weight, data.sample_weight
        )
        problems = [
            L1Margin(gram, signs, weights, np.ones(gram.shape[1]))
            for signs in one_vs_rest_signs(data.y, self.classes_)
        ]
        outputs = [
            context.subcontext(task_name="output", task_id=number, max_subtasks=None)
            for number in range(len(problems))
        ]
        outcomes: list[Outcome] = Parallel(n_jobs=self.n_jobs)(
            delayed(solve_output)(self, problem, data, seed, output)
            for problem, output in zip(problems, outputs, strict=True)
        )
        return gram, outcomes

    def _solve(self, generation: Generation, report: Report) -> Outcome:
        """Solve one output."""
        return Outcome(generation.solve(tol=self.tol, max_iter=self._max_iter, report=report))

    @property
    def _max_iter(self) -> int | None:
        return None if self.max_iter == -1 else int(self.max_iter)

    def _warn_if_unfinished(self, outcomes: list[Outcome]) -> None:
        warn_if_unfinished([outcome.solution for outcome in outcomes], self.tol)

    def _set_machine(
        self,
        gram: Gram,
        rows: Indices,
        candidate_rows: Indices | None,
        outcomes: list[Outcome],
    ) -> None:
        """Set the fitted attributes; ``rows`` are the rows of ``gram`` in the user's data."""
        solutions = [outcome.solution for outcome in outcomes]
        self.expansion_, centers = join_centers(gram, solutions)
        self.center_indices_ = centers if candidate_rows is None else rows[candidate_rows[centers]]
        margin_rows, self.duals_ = join_duals(solutions)
        self.margin_indices_ = rows[margin_rows]
        self.loo_error_bound_ = loo_error_bound(
            len(rows), candidate_rows, solutions, max(self.tol, WORTH_A_WARNING)
        )
        self.objective_ = np.array([s.objective for s in solutions])
        self.duality_gap_ = np.array([s.gap for s in solutions])
        self.n_iter_ = sum(s.n_iter for s in solutions)

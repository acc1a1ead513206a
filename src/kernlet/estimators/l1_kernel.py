"""The 1-norm kernel machine."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.callback import CallbackContext
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.parallel import Parallel, delayed

from kernlet.estimators.base import KERNEL_CONSTRAINTS, ExpansionClassifier, TrainingData
from kernlet.estimators.candidates import Candidates, choose_candidates
from kernlet.estimators.outputs import (
    WORTH_A_WARNING,
    is_unfinished,
    join_centers,
    join_duals,
    loo_error_bound,
    warn_if_unfinished,
)
from kernlet.estimators.rounds import Outcome, better_of, solve_output
from kernlet.estimators.tall import is_tall, solve_tall
from kernlet.estimators.union import union_of_choices
from kernlet.kernels import Kernel
from kernlet.kernels.columns import Indices
from kernlet.kernels.gram import Gram
from kernlet.kernels.kernel import Floats
from kernlet.problems.l1_margin import L1Margin
from kernlet.problems.labels import error_weights, one_vs_rest_signs
from kernlet.rows import Rows
from kernlet.solvers import Generation, TallLP
from kernlet.solvers.highs_generation import Report
from kernlet.solvers.tall_lp import TallReport

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
        X : {array-like, sparse matrix, Rows, dask collection} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or str
            Labels: numbers, strings or booleans. The name of a column of X, where X is a
            source of rows that has one.
        sample_weight : array-like of shape (n_samples,), default=None
            Multiplies C for each row: a weight of 2 is the row given twice.

        Returns
        -------
        self : object
        """
        data = self._validate_training_data(X, y, sample_weight)
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
        is_source = isinstance(data.X, Rows)
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
        if self.solver != "auto" or isinstance(data.X, Rows) or len(data.y) > _MOST_AGAIN:
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

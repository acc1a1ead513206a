"""The 1-norm kernel classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.parallel import Parallel, delayed

from kernlet._typing import Floats, Indices
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram
from kernlet.lp.generation import ColumnGeneration
from kernlet.lp.linearization import solve_once
from kernlet.lp.machine import (
    SAMPLE_SEED,
    SAMPLE_TOL,
    L1Machine,
    Method,
    is_any,
    join_duals,
)
from kernlet.lp.problem import L1Margin, Solution
from kernlet.rows import as_rows
from kernlet.sampling import Candidates
from kernlet.sklearn_base import (
    GAP_WORTH_WARNING,
    ExpansionClassifier,
    TrainingData,
    error_weights,
    fit_method,
    fit_task,
    join_centers,
)


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


# -- Candidates that machines on samples choose ----------------------------------------------

_N_SAMPLES, _SAMPLE_ROWS = 10, 1000


@fit_task
def _centers_of_sample(
    sample: TrainingData, kernel: Kernel, method: Method, costs: Floats, max_bytes: int
) -> Indices:
    """The rows that a machine on a sample, with all of its rows as candidates, chooses."""
    problem = margin_problem(sample, kernel, None, np.unique(sample.y), costs)
    solutions = []
    for number in range(problem.n_outputs):
        random = np.random.RandomState(SAMPLE_SEED)
        solver = ColumnGeneration(problem.outputs([number]), random, max_bytes=max_bytes)
        (path,) = method(solver, tol=SAMPLE_TOL)
        solutions.append(path.solution)
    return sample.rows[join_centers(Gram(kernel, sample.X), solutions)[1]]


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
    return np.count_nonzero(is_any(moving)) / n_rows


class L1KernelClassifier(L1Machine, ExpansionClassifier):
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
        Kernel function: a name, or an object of a class derived from
        :class:`kernlet.kernels.Kernel`.
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Width of all kernels but "linear". ``"scale"`` is 1 / (n_features X.var()) and ``"auto"``
        1 / n_features, as in scikit-learn; ``"mean_distance"`` is one over the mean squared
        distance between two rows. For "laplacian", a rule is the square root of its value divided
        by n_features.
    degree : int, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant of the "poly" and "sigmoid" kernels.
    candidates : "auto", "union", None, int, float or array-like, default="auto"
        Points that may become centers. None takes all rows; a number or a fraction draws rows at
        random (the reduced kernel); ``"union"`` takes the centers that machines on a sample of each
        tenth of the rows choose; an array of shape (n_candidates, n_features) holds the points
        themselves. ``"auto"`` takes all rows where that is quick, and otherwise 100 to 500 rows
        that cover the data: see Notes.
    class_weight : dict, "balanced" or None, default=None
        Multiplies C for the rows of a class. ``"balanced"`` weighs classes inversely to their
        numbers of rows.
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
        The fitted decision function: kernel, centers, coefficients and intercepts.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    n_candidates_ : int
        Points that could become centers.
    nbytes_ : int
        Bytes of everything that a prediction needs.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    center_indices_ : ndarray of shape (n_centers,)
        Training rows that are the centers (the paper's m2 rows); with given points as
        candidates, the numbers of those points.
    margin_indices_ : ndarray of shape (n_margin_rows,)
        Training rows with a positive dual in at least one output (the paper's m1 rows).
    duals_ : ndarray of shape (n_outputs, n_margin_rows)
        Dual variables of these rows.
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
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **L1Machine._parameter_constraints,
        "candidates": [StrOptions({"union"}), *L1Machine._parameter_constraints["candidates"]],
        "class_weight": [StrOptions({"balanced"}), dict, None],
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

    def _problem(self, data: TrainingData, kernel: Kernel, points: Any) -> L1Margin:
        costs = error_weights(self.C, data.y, self.classes_, self.class_weight, data.sample_weight)
        return margin_problem(data, kernel, points, self.classes_, costs)

    def _count_outputs(self, data: TrainingData) -> int:
        return len(self.classes_) if len(self.classes_) > 2 else 1

    def _candidates(
        self,
        candidates: Any,
        data: TrainingData,
        kernel: Kernel,
        method: Method,
        random_state: np.random.RandomState,
    ) -> Candidates:
        """The points that the parameter ``candidates`` stands for."""
        if isinstance(candidates, str) and candidates == "union":
            return self._union_of_centers(data, kernel, method, random_state.randint(2**31 - 1))
        return super()._candidates(candidates, data, kernel, method, random_state)

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

    def _set_attributes(
        self,
        problem: L1Margin,
        rows: Indices,
        candidate_rows: Indices | None,
        solutions: list[Solution],
    ) -> None:
        super()._set_attributes(problem, rows, candidate_rows, solutions)
        margin_rows, self.duals_ = join_duals(solutions)
        self.margin_indices_ = rows[margin_rows]
        self.loo_error_bound_ = loo_error_bound(
            len(rows), candidate_rows, solutions, max(self.tol, GAP_WORTH_WARNING)
        )

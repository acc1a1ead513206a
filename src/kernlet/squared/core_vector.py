"""The core vector machine: an enclosing ball of few rows."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options, StrOptions

from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import ColumnCache, Gram
from kernlet.progress import Progress
from kernlet.sklearn_base import (
    KERNEL_CONSTRAINTS,
    ExpansionClassifier,
    TrainingData,
    check_cost_overflow,
    fit_method,
    join_centers,
    one_vs_rest_signs,
    warn_user,
)
from kernlet.squared.core_set import REASONS, CoreRule, find_core_set
from kernlet.squared.problem import Solution, SquaredMargin, report_to


class CoreVectorClassifier(ExpansionClassifier):
    """Core vector machine: the SVM with squared slacks, as the enclosing ball of few rows.

    Minimises, by the method of [1]_::

        1/2 (|w|^2 + b^2) + C/2 sum_i max(0, 1 - d_i (w.f(x_i) + b))^2

    whose dual is the smallest ball around the signed rows in the feature space of
    d_i d_j (k + 1) + delta_ij / C. The ball of a small core set is computed exactly; the furthest
    row outside is added to it, until no row is far outside.

    :class:`HullPerceptronClassifier` minimises the same objective by another algorithm, with C in
    the place of C/2: ``CoreVectorClassifier(C)`` and ``HullPerceptronClassifier(C / 2)`` have the
    same optimum.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared slacks: the paper's C, and twice the C of
        :class:`HullPerceptronClassifier`. See Notes on C and eps.
    kernel : {"rbf", "laplacian", "poly", "linear"} or Kernel, default="rbf"
        Kernel function: a name, or an object of a class derived from
        :class:`kernlet.kernels.Kernel`. It must be positive semi-definite, which the sigmoid is
        not.
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Width of all kernels but "linear". ``"scale"`` is 1 / (n_features X.var()) and ``"auto"`` 1
        / n_features, as in scikit-learn; ``"mean_distance"`` is one over the mean squared distance
        between two rows, the paper's choice. For "laplacian", a rule is the square root of its
        value divided by n_features.
    degree : int, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant of the "poly" kernel.
    tol : float, default=1e-3
        Relative gap of the objective to reach, see ``gap_``. Not used where ``eps`` is given.
    eps : float or None, default=None
        The paper's rule instead of ``tol``: stop when no row that was examined is further from
        the center than 1 + eps radii. The paper takes 0.001.
    sample_size : int or None, default=None
        Search the furthest row among that many random rows; the paper takes 59. None scans
        all rows, by blocks, and adds many at once.
    n_tries : int, default=1
        Consecutive samples without a row outside that end the search. With ``tol`` all rows are
        scanned then, and the search continues where rows lie outside.
    max_iter : int, default=-1
        Quadratic programs allowed per output; -1 for no limit. A fit that stops at the
        limit warns with the gap that it reached.
    class_weight : dict, "balanced" or None, default=None
        Multiplies C for the rows of a class. ``"balanced"`` weighs classes inversely to their
        numbers of rows.
    cache_size : float, default=2000
        Memory in MB for kernel columns, which all outputs share, and as much for the quadratic
        program.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws the first rows and the samples.

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
    core_indices_ : ndarray of shape (n_core,)
        Training rows in the core set of at least one output.
    center_indices_ : ndarray of shape (n_centers,)
        Training rows that are the centers; equal rows are one center.
    ball_gap_ : float
        The true eps: over all training rows and outputs, the furthest row lies ``1 + ball_gap_``
        radii from the center of its ball. Computed from scratch at the end: the certificate, and
        often larger than an ``eps`` that samples were judged by.
    gap_ : float
        Relative duality gap (objective - bound) / objective of the worst output, over all rows.
    objective_ : ndarray of shape (n_outputs,)
        Primal values over all rows.
    n_iter_ : int
        Quadratic programs, of all outputs.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

    See Also
    --------
    MMDA : Features from such classifiers, each orthogonal to those before.
    HullPerceptronClassifier : The same objective, for C half as large, by nearest-point steps.

    Notes
    -----
    What eps means. The squared radius holds the constant k + 1 + 1 / C, against which the
    objective may be small: at C = 1 an eps of 0.001 is met by some hundreds of rows, at most about
    1 / (eps k), whatever the data. That is why time looks independent of the number of rows, and
    why such classifiers underfit; a larger C makes eps mean even less. A single sample of 59 rows
    moreover ends at a true eps several times the requested one. ``tol`` is relative to the
    objective and has none of these faults, but needs all support vectors that the optimum has to
    that precision.

    More than two classes make one ball per class, one-vs-rest; the outputs are solved one after
    the other, share kernel columns, and share one set of centers. Where C differs by row or
    the kernel is not constant on the diagonal, every row has the difference to the largest norm
    in a separate coordinate.

    Time is n_rows kernel values per row of the core set, and the square of the core set per step.
    Memory is 8 bytes per row and column, at most ``cache_size``, a copy of X, and 48 bytes
    times the square of the core set. Noisy data make large core sets: use ``eps``,
    :class:`CompactKernelClassifier` or ``MMDA(solver="landmarks")`` there.

    References
    ----------
    .. [1] I. W. Tsang, J. T. Kwok and P.-M. Cheung, "Core vector machines: fast SVM training on
       very large data sets", Journal of Machine Learning Research 6, 363-392, 2005.

    Examples
    --------
    >>> from kernlet import CoreVectorClassifier
    >>> from kernlet.datasets import make_checkerboard
    >>> board = make_checkerboard(random_state=0)
    >>> model = CoreVectorClassifier(C=100.0, gamma=4.0, random_state=0).fit(board.X, board.y)
    >>> bool(model.gap_ <= 1e-3)
    True
    >>> model.score(board.X_test, board.y_test) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        **KERNEL_CONSTRAINTS,
        "tol": [Interval(Real, 0, None, closed="left")],
        "eps": [Interval(Real, 0, None, closed="left"), None],
        "sample_size": [Interval(Integral, 1, None, closed="left"), None],
        "n_tries": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left"), Options(Integral, {-1})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "verbose": ["verbose"],
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
        tol: float = 1e-3,
        eps: float | None = None,
        sample_size: int | None = None,
        n_tries: int = 1,
        max_iter: int = -1,
        class_weight: Any = None,
        cache_size: float = 2000,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.eps = eps
        self.sample_size = sample_size
        self.n_tries = n_tries
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.cache_size = cache_size
        self.verbose = verbose
        self.random_state = random_state

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CoreVectorClassifier:
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
        check_cost_overflow(costs)
        gram = Gram(kernel, data.X, hold=True)
        signs = one_vs_rest_signs(data.y, self.classes_)
        problems = [SquaredMargin(gram, row, costs) for row in signs]
        with Progress.start(self, data, n_tasks=len(problems)) as progress:
            solutions = self._solve_all(problems, data, progress)
            self.expansion_, centers = join_centers(Gram(kernel, data.X), solutions)
            self.center_indices_ = data.rows[centers]
            self.core_indices_ = data.rows[np.unique(np.concatenate([s.core for s in solutions]))]
            self.ball_gap_ = float(np.max([s.ball_gap for s in solutions]))
            self.gap_ = float(np.max([s.gap for s in solutions]))
            self.objective_ = np.array([s.objective for s in solutions])
            self.n_iter_ = sum(s.n_iter for s in solutions)
        return self

    def _solve_all(
        self, problems: list[SquaredMargin], data: TrainingData, progress: Progress
    ) -> list[Solution]:
        """Solve one output after the other, with one cache of kernel columns."""
        rule = CoreRule(
            tol=self.tol,
            eps=self.eps,
            sample_size=self.sample_size,
            n_tries=self.n_tries,
            max_iter=None if self.max_iter == -1 else int(self.max_iter),
            max_bytes=int(self.cache_size * 2**20),
        )
        gram, random_state = problems[0].gram, check_random_state(self.random_state)
        columns, solutions = ColumnCache(gram, rule.max_bytes), []
        for problem in problems:
            with progress.task("output") as output:
                report = report_to(output, gram.kernel, data.X, is_only=len(problems) == 1)
                solutions.append(
                    find_core_set(problem, columns, rule, random_state=random_state, report=report)
                )
        missed = [solution for solution in solutions if rule.is_missed(solution)]
        if missed:
            warn_user(
                f"{len(missed)} of {len(solutions)} outputs ended at a relative duality gap of up "
                f"to {max(s.gap for s in missed):.1e} and a ball gap of up to "
                f"{max(s.ball_gap for s in missed):.1e}: {REASONS[missed[0].status]}"
            )
        return solutions

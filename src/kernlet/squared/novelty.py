"""One-class core vector machine: novelty detection by an enclosing ball of few rows."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options, StrOptions

from kernlet._typing import Floats
from kernlet.expansion import KernelExpansion
from kernlet.kernels.bandwidth import KERNEL_NAMES, make_kernel
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import ColumnCache, Gram
from kernlet.progress import Progress
from kernlet.sklearn_base import (
    ExpansionDetector,
    TrainingData,
    check_cost_overflow,
    check_unlabelled_data,
    error_weights,
    fit_method,
    join_centers,
    warn_unlike_columns,
    warn_user,
)
from kernlet.squared.core_set import REASONS, CoreRule, find_core_set
from kernlet.squared.problem import Report, Solution, SquaredMargin

# How this works
# --------------
# The smallest ball around f(x_i), with squared slacks, is the smallest ball around the points
# X_i = (f(x_i), e_i / sqrt(c_i)). If k(x, x) is constant, all |X_i|^2 are equal (or are made so,
# see SquaredMargin.ball_gap), and its center W = sum alpha_i X_i is the point of their convex hull
# nearest the origin: the problem of this folder with d_i = 1 and without intercept. So core sets
# solve it. With a the solution of that, alpha = a / sum a, and
#
#   |f(x) - sum alpha_j f(x_j)|^2 = k(x, x) - 2 sum_j alpha_j k(x, x_j) + constant
#
# falls where the score sum_j alpha_j k(x, x_j) rises. The dual's threshold is rho = |W|^2. At the
# optimum score_i + alpha_i / c_i = rho on the support and score_i >= rho elsewhere: with squared
# slacks every support vector lies outside, by alpha_i / c_i.
#
# A contamination sets the threshold by the scores that the rows would have if they were left out of
# the training, since training rows score higher than new ones. No second fit is needed:
#
#   - leaving out a row that is not a support vector changes nothing;
#   - leaving out support vector i, with the other rows of the support S fixed, changes a by
#     a_i / q_i times column i of Q_SS^-1, where q_i is its diagonal element. The value at x_i
#     becomes 1 - a_i / q_i, and the sum of a falls by a_i^2 / q_i. (Of a row of weight v > 1 one
#     copy is left out, which changes c_i = C v to C (v - 1).)
#
# The second is exact if no other row enters or leaves the support. Where one enters, the row scores
# higher than that; it is an outlier of the ball without it in any case. So the threshold is exact
# where there are fewer support vectors than outliers are asked for.
#
# The width "support". A narrow kernel follows the density of the rows and detects more outliers,
# but makes more rows support vectors, until all are. So it is as narrow as a number of support
# vectors allows: half of a sample of 1,000 rows or, for more than 4,000 rows, a share with which
# about 1,000 of all rows are expected if their number grows with the square root of the rows.

_WIDTH_ROWS = 1000
_MOST_SEARCHED_ROWS = 100_000  # beyond, what a sample says of the support is too little: "scale"
_LARGEST_SHARE, _EXPECTED_SUPPORT = 0.5, 1000
# Factors on gamma="mean_distance" between which the width is searched; each step halves their log.
# Wider kernels, by which all rows are alike, make more rows support vectors again.
_WIDTHS, _WIDTH_STEPS = (1.0, 1e4), 8
_WIDTH_TOL = 1e-6
_EQUAL_SCORES = 1e-12  # differences of scores, relative to the largest, that are round-off

_REASONS = {
    **REASONS,
    "memory limit": "the core set reached cache_size. Lower gamma, or raise cache_size.",
}


class CoreVectorNovelty(ExpansionDetector):
    """Novelty detection by the smallest ball around the rows in feature space, to a certificate.

    This is support vector data description with squared slacks, or the one-class SVM of squared
    slacks [1]_. Maximises::

        rho - 1/2 |w|^2 - C/2 sum_i max(0, rho - w.f(x_i))^2

    whose dual is the smallest ball around the rows in the feature space of k + delta_ij / C. The
    ball of a small core set is computed exactly; rows outside are added to it, until none is far
    outside. The machine depends on the rows at the border of the data only.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared slacks. A large C encloses all rows; a small one takes more rows as
        support vectors and tends to a kernel density estimate of all rows.
    kernel : {"rbf", "laplacian"} or Kernel, default="rbf"
        A positive semi-definite kernel with constant k(x, x).
    gamma : {"support", "scale", "auto", "mean_distance"} or float, default="support"
        Width of the kernel. "support" takes the narrowest with which at most half of 1,000 random
        rows are support vectors, and fewer for more than 4,000 rows, see Notes; for more than
        100,000 rows it is "scale", with which a million take seconds. ``"scale"`` is 1 /
        (n_features X.var()) and ``"auto"`` 1 / n_features, as in scikit-learn; ``"mean_distance"``
        is one over the mean squared distance between two rows. For "laplacian", these rules are the
        square root of their value divided by n_features.
    contamination : float in (0, 0.5] or "auto", default=0.1
        The share of new rows like the training rows that may be outliers: the threshold is this
        quantile of the scores that training rows have when left out. Of the training rows
        themselves fewer are outliers where many of them are support vectors. "auto" takes
        the dual's rho: all support vectors are outside.
    tol : float, default=1e-3
        Relative gap of the objective to reach, see ``gap_``. Not used where ``eps`` is given.
    eps : float or None, default=None
        Stop instead when no row that was examined is further from the center than 1 + eps radii.
    sample_size : int or None, default=None
        Search the furthest row among that many random rows. None scans all rows, by blocks, and
        adds many at once.
    max_iter : int, default=-1
        Quadratic programs allowed; -1 for no limit. A fit that stops at the limit warns with the
        gap that it reached.
    cache_size : float, default=2000
        Memory in MB for kernel columns, and as much for the quadratic program.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws the rows for "support", the first row and the samples.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The decision function ``sum_j alpha_j k(x, x_j) - offset_``, where the alpha sum to 1.
    offset_ : float
        The threshold: rows that score below it are outliers.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    nbytes_ : int
        Bytes of everything that a prediction needs.
    radius_ : float
        Radius of the ball of the core set, in the feature space of k + delta_ij / C: at most that
        of the smallest ball around all rows, which is at most ``1 + ball_gap_`` times as large.
    ball_gap_ : float
        The certificate: over all training rows, the furthest lies ``1 + ball_gap_`` times
        ``radius_`` from the center. Computed from scratch at the end.
    gap_ : float
        Relative duality gap (objective - bound) / objective over all rows. The objective is
        ``1/2 |w|^2 + C/2 sum_i max(0, 1 - w.f(x_i))^2``, which has the same optimum up to a factor.
    core_indices_ : ndarray of shape (n_core,)
        Training rows in the core set.
    center_indices_ : ndarray of shape (n_centers,)
        Training rows that are the centers; equal rows are one center.
    n_iter_ : int
        Quadratic programs.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

    See Also
    --------
    CoreVectorClassifier : The same for classes.
    sklearn.svm.OneClassSVM : Absolute slacks, by nu; time grows with the square of the rows.

    Notes
    -----
    The kernel's width and C decide the number of support vectors, and with it everything else. A
    wide kernel and a large C make a coarse border of some hundred rows. A narrow kernel follows the
    density, detects more, and makes most rows support vectors; some thousands are the limit, and a
    fit of more ends at ``cache_size`` with a warning. "support" is as narrow as allows for half of
    1,000 rows or, of m > 4,000 rows, for a share of 1 / sqrt(m / 1000) of them, but not wider than
    "mean_distance"; that made 170 to 2,000 support vectors of 20,000 to 100,000 rows. A few
    thousand rows afford 10 to 30 times ``gamma="scale"``, which detects more.

    As in :class:`CoreVectorClassifier`, ``eps`` is relative to a radius that holds the constant
    k + 1 / C: a narrow kernel meets an eps of 0.001 with about a thousand rows, the outermost ones,
    and such a machine may rank rows worse than chance. Prefer ``tol`` with such kernels.

    Other kernels than those with constant k(x, x) have no such machine: the distance to the
    center contains k(x, x) then, and is not a kernel expansion.

    Time is n_rows kernel values per row of the core set, and the square of the core set per step.
    Memory is 8 bytes per row and column, at most ``cache_size``, a copy of X, and 48 bytes
    times the square of the core set. A contamination takes the cube of the support vectors more.

    References
    ----------
    .. [1] I. W. Tsang, J. T. Kwok and P.-M. Cheung, "Core vector machines: fast SVM training on
       very large data sets", Journal of Machine Learning Research 6, 363-392, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet import CoreVectorNovelty
    >>> X = np.random.RandomState(0).randn(10_000, 2)
    >>> model = CoreVectorNovelty(100.0, gamma=0.5, contamination=0.01, random_state=0).fit(X)
    >>> bool(model.gap_ <= 1e-3)
    True
    >>> model.n_centers_ < 500
    True
    >>> model.predict([[0.0, 1.0], [5.0, 5.0]])
    array([ 1, -1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions(set(KERNEL_NAMES)), Kernel],
        "gamma": [
            StrOptions({"support", "scale", "auto", "mean_distance"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "contamination": [StrOptions({"auto"}), Interval(Real, 0, 0.5, closed="right")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "eps": [Interval(Real, 0, None, closed="left"), None],
        "sample_size": [Interval(Integral, 1, None, closed="left"), None],
        "max_iter": [Interval(Integral, 0, None, closed="left"), Options(Integral, {-1})],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | Kernel = "rbf",
        gamma: str | float = "support",
        contamination: str | float = 0.1,
        tol: float = 1e-3,
        eps: float | None = None,
        sample_size: int | None = None,
        max_iter: int = -1,
        cache_size: float = 2000,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.contamination = contamination
        self.tol = tol
        self.eps = eps
        self.sample_size = sample_size
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.verbose = verbose
        self.random_state = random_state

    @fit_method
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CoreVectorNovelty:
        """Fit the detector.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows most of which are normal.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Multiplies C for each row: a weight of 2 is the row given twice.

        Returns
        -------
        self : object
        """
        data = check_unlabelled_data(self, X, sample_weight, order="C")
        random_state = check_random_state(self.random_state)
        kernel = self._detector_kernel(data, random_state)
        costs = error_weights(self.C, None, None, None, data.sample_weight)
        data, costs = data.subset(costs > 0), costs[costs > 0]
        check_cost_overflow(costs)
        gram = Gram(kernel, data.X, hold=True)
        problem = SquaredMargin(gram, np.ones(len(costs)), costs, bias=0.0)
        with Progress.start(self, data, n_tasks=1) as progress:
            solution = self._solve(problem, data, progress, random_state)
            ball = _Ball(problem, solution)
            self.offset_ = ball.rho
            if not isinstance(self.contamination, str):
                scores = ball.left_out_scores(data.sample_weight)
                self.offset_ = _threshold(scores, data.sample_weight, self.contamination)
            if not self.offset_ > 0:
                warn_user(
                    "A row that is left out scores 0, so that contamination cannot set a "
                    "threshold: only rows next to training rows will be normal. Lower gamma, or "
                    "give more rows.",
                    UserWarning,
                )
                self.offset_ = 0.5 * float(ball.alpha[ball.alpha > 0].min())
            output = replace(solution, coef=ball.alpha, intercept=-self.offset_)
            self.expansion_, centers = join_centers(Gram(kernel, data.X), [output])
            self.center_indices_ = data.rows[centers]
            self.core_indices_ = data.rows[np.sort(solution.core)]
            self.radius_, self.ball_gap_ = ball.radius, ball.gap
            self.gap_ = solution.gap
            self.n_iter_ = solution.n_iter
        return self

    def _detector_kernel(self, data: TrainingData, random_state: np.random.RandomState) -> Kernel:
        """The kernel that ``kernel`` and ``gamma`` name, of constant k(x, x)."""
        name = self.kernel if isinstance(self.kernel, str) else type(self.kernel).__name__
        is_constant = name in ("rbf", "laplacian") or (
            isinstance(self.kernel, Kernel) and self.kernel.is_translation_invariant
        )
        if not is_constant:
            raise ValueError(
                f"CoreVectorNovelty takes the kernels 'rbf' and 'laplacian', whose k(x, x) is "
                f"constant, and not {name!r}, with which the distance to the center of a ball is "
                "not a kernel expansion."
            )
        gamma: str | float = self.gamma
        is_searched = False
        if isinstance(gamma, str) and gamma == "support":
            is_searched = data.X.shape[0] <= _MOST_SEARCHED_ROWS
            gamma = "mean_distance" if is_searched else "scale"
        kernel = make_kernel(
            self.kernel, data.X, data.sample_weight, gamma=gamma, degree=1, coef0=0.0
        )
        warn_unlike_columns(self, kernel, data.X, data.sample_weight)
        if is_searched and isinstance(self.kernel, str):
            return _search_width(kernel, data, self.C, random_state)
        return kernel

    def _solve(
        self,
        problem: SquaredMargin,
        data: TrainingData,
        progress: Progress,
        random_state: np.random.RandomState,
    ) -> Solution:
        """Find the core set, and warn where it ends early."""
        rule = CoreRule(
            tol=self.tol,
            eps=self.eps,
            sample_size=self.sample_size,
            max_iter=None if self.max_iter == -1 else int(self.max_iter),
            max_bytes=int(self.cache_size * 2**20),
        )
        columns = ColumnCache(problem.gram, rule.max_bytes)
        with progress.task("ball") as task:
            report = _report_to(task, problem.gram.kernel, data.X)
            solution = find_core_set(
                problem, columns, rule, random_state=random_state, report=report
            )
        if rule.is_missed(solution):
            warn_user(
                f"The ball ended at a relative duality gap of {solution.gap:.1e} and a ball gap of "
                f"{solution.ball_gap:.1e}: {_REASONS[solution.status]}"
            )
        return solution


class _Ball:
    """The ball of a solution: weights alpha of its center, and what all rows say about it."""

    def __init__(self, problem: SquaredMargin, solution: Solution) -> None:
        self.problem, self.solution = problem, solution
        self.total = float(solution.coef.sum())
        if not self.total > 0.0:
            raise ValueError("All weights underflow. Raise C, or scale sample_weight.")
        self.alpha = solution.coef / self.total
        self.scores: Floats = solution.values / self.total  # sum_j alpha_j k(x_i, x_j), all rows
        margins = self.scores.copy()
        margins[solution.rows] += problem.ridge[solution.rows] * self.alpha
        self.rho = float(self.alpha @ margins[solution.rows])  # |W|^2
        self.gap = problem.ball_gap(self.rho, float(margins.min()))

    @property
    def radius(self) -> float:
        """sqrt(kappa - |W|^2), the dual's bound on the radius of the smallest ball."""
        return float(np.sqrt(max(0.0, self.problem.kappa - self.rho)))

    def left_out_scores(self, weights: Floats) -> Floats:
        """Scores of all rows, each left out of the training in turn; ``weights`` are copies."""
        rows, a = self.solution.rows, self.solution.coef
        scores = self.scores.copy()
        try:
            factor = cho_factor(self.problem.products(rows, rows), lower=True, overwrite_a=True)
            q = np.diagonal(cho_solve(factor, np.eye(len(rows)), overwrite_b=True))
        except LinAlgError:  # round-off: the training scores are an upper bound
            return scores
        copies = np.maximum(1.0, weights[rows])
        q = q + (copies - 1.0) * self.problem.costs[rows]
        totals = self.total - a**2 / q
        is_known = totals > np.finfo(float).eps * self.total
        values = np.maximum(0.0, 1.0 - copies * a / q)
        scores[rows] = np.divide(values, totals, out=np.zeros(len(rows)), where=is_known)
        return scores


def _search_width(
    kernel: Kernel, data: TrainingData, C: float, random_state: np.random.RandomState
) -> Kernel:
    """The narrowest kernel that makes at most a given share of a sample support vectors."""
    n_rows = data.X.shape[0]
    rows = np.arange(n_rows)
    if n_rows > _WIDTH_ROWS:
        rows = np.sort(random_state.choice(n_rows, _WIDTH_ROWS, replace=False))
    expected = _EXPECTED_SUPPORT / np.sqrt(len(rows) * n_rows)
    limit = min(_LARGEST_SHARE, expected) * data.sample_weight[rows].sum()
    gamma, (low, high) = kernel.gamma, np.log(_WIDTHS)  # type: ignore[attr-defined]
    costs = error_weights(C, None, None, None, data.sample_weight[rows])
    X, costs, rows = data.X[rows[costs > 0]], costs[costs > 0], rows[costs > 0]
    for _ in range(_WIDTH_STEPS):
        middle = 0.5 * (low + high)
        narrower = replace(kernel, gamma=gamma * float(np.exp(middle)))  # type: ignore[type-var]
        gram = Gram(narrower, X, hold=True)
        problem = SquaredMargin(gram, np.ones(len(costs)), costs, bias=0.0)
        solution = find_core_set(
            problem,
            ColumnCache(gram, 8 * len(rows) ** 2),
            CoreRule(tol=_WIDTH_TOL, sample_size=None),
            random_state=np.random.RandomState(0),
        )
        if data.sample_weight[rows[solution.rows]].sum() > limit:
            high = middle
        else:
            low = middle
    return replace(kernel, gamma=gamma * float(np.exp(low)))  # type: ignore[type-var]


def _threshold(scores: Floats, weights: Floats, contamination: float) -> float:
    """A number that about this share of the scores lie below, halfway between two of them."""
    order = np.argsort(scores, kind="stable")
    scores, below = scores[order], np.append(0.0, np.cumsum(weights[order]))
    misses = np.abs(below[:-1] - contamination * below[-1])
    misses[1:][np.diff(scores) <= _EQUAL_SCORES * scores[-1]] = np.inf
    n_below = int(misses.argmin())
    return float(scores[max(0, n_below - 1) : n_below + 1].mean())


def _report_to(progress: Progress, kernel: Kernel, X: Any) -> Report:
    """Report the steps; the solution of each can predict."""

    def report(solution: Solution) -> bool:
        def attributes() -> dict[str, Any]:
            total = float(solution.coef.sum())
            coef, rows, offset = solution.coef / total, X[solution.rows], 1.0 / total
            expansion = KernelExpansion(kernel, rows, coef, np.array([-offset]))
            return {"expansion_": expansion, "offset_": offset}

        return progress.step("round", attributes)

    return report

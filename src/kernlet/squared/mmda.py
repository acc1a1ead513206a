"""Maximum margin discriminant analysis: supervised kernel features."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel, require_mercer
from kernlet.progress import Progress
from kernlet.rows.source import RowReader, RowSource
from kernlet.sklearn_base import (
    GAP_WORTH_WARNING,
    KERNEL_CONSTRAINTS,
    ExpansionTransformer,
    check_cost_overflow,
    check_finite_fit,
    fit_method,
    one_vs_rest_signs,
    warn_user,
)
from kernlet.squared.core_set import REASONS, CoreRule
from kernlet.squared.features import (
    ERROR_WORTH_WARNING,
    FeatureSequence,
    LandmarkFeatures,
    MarginData,
    core_features,
    exact_features,
)
from kernlet.squared.problem import ROUNDING, Solution

_ADVICE = {
    "landmarks": "scale the features, lower C, or set tol below 1e-6, which means float64.",
    "core": "scale the features, or lower C.",
    "exact": "scale the features, or lower C.",
}
_DEFAULT_TOL = {"landmarks": 1e-5, "core": 1e-3, "exact": 1e-8}


class MMDA(ExpansionTransformer):
    """Maximum margin discriminant analysis: features that are normals of margin classifiers.

    The first feature of a class is the normal w of the squared-hinge classifier that separates
    it from the rest; each further one is that of the best w orthogonal to all before [1]_::

        minimise  1/2 (|w|^2 + b^2) + C/2 sum_i max(0, 1 - d_i (w.f(x_i) + b))^2
        subject to  w . u_q = 0   for the features u_q of this class so far

    where ``u = w / |w|``. The feature of a row is u.f(x), a sum of kernel values. All features of
    all classes are sums over one set of points: ``transform`` costs one block of kernel values.

    Parameters
    ----------
    n_features_per_class : int, default=1
        Features of each class against the rest; 3 or 5 are often better. Two classes have one
        sequence of features between them, as their two problems mirror each other.
    solver : {"landmarks", "core", "exact"}, default="landmarks"
        ``"landmarks"`` finds all features in the span of ``n_landmarks`` random rows, by Newton's
        method over all rows: time grows with the number of rows, memory is one block.
        ``"core"`` is the paper's: enclosing balls of core sets over any rows, where a later feature
        of a class uses points of an earlier one before any others. ``"exact"`` holds the
        kernel matrix, for up to 10,000 rows or so, for comparison.
    n_landmarks : int, default=500
        Number of landmarks with ``solver="landmarks"``; all rows where there are fewer.
    C : float, default=1.0
        Weight of the squared slacks, as in :class:`CoreVectorClassifier`.
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
    tol : float or None, default=None
        Relative duality gap of every feature's problem to reach; None for 1e-5 by landmarks and
        1e-8 exactly. Below 1e-6, or where C adds up to more than a million over the rows, landmarks
        compute in float64, in twice the time and memory. For core sets, used where ``eps`` is
        None, with 1e-3 for None.
    eps : float or None, default=0.001
        Of ``solver="core"``: stop when no row examined is further than 1 + eps radii from
        the center. None for ``tol``, which is relative to the objective; see the Notes of
        :class:`CoreVectorClassifier` on what eps means.
    sample_size : int or None, default=59
        Of ``solver="core"``: random rows among which the furthest is searched; None for all.
    class_weight : dict, "balanced" or None, default=None
        Multiplies C for the rows of a class. ``"balanced"`` weighs classes inversely to their
        numbers of rows.
    cache_size : float, default=2000
        Memory in MB for blocks of all rows (landmarks), which are recomputed in every pass where
        they do not fit, for kernel columns (core) or for the kernel matrix (exact).
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws landmarks and samples.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The features: one output each, with intercepts of zero.
    components_ : ndarray of shape (n_features_out, n_points)
        Coefficients over the points ``expansion_.centers``. Feature r of class c is line
        r * n_outputs + c: the first features of all classes come first. Lines of one class are
        orthonormal in feature space; a line of zeros means that no direction was left.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    point_indices_ : ndarray of shape (n_points,)
        Training rows that the points are.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    gap_ : ndarray of shape (n_features_out,)
        Relative duality gap of each feature's problem: the certificate.
    error_bound_ : ndarray of shape (n_features_out,)
        What round-off may add to ``gap_``. It contains the directions that are left out because
        round-off hides them beside much larger kernel values. Above 1e-4, or 0.1 with landmarks,
        there is a warning.
    ball_gap_ : float
        Of ``solver="core"``: the true eps of the worst feature, over all rows.
    n_iter_ : int
        Passes over the rows, quadratic programs or linear systems.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

    See Also
    --------
    KernelFisherDiscriminant : One feature fewer than classes, by class means and scatter.
    sklearn.decomposition.KernelPCA : Features that do not use the labels.

    Notes
    -----
    With landmarks time is n_rows * n_landmarks^2 operations once, and per feature
    five to ten times n_rows * n_landmarks for each class, and about n_landmarks^2 for each row
    with a positive slack. Memory is one block and about 60 bytes per row, and 30 per row and
    class beyond the first, besides the data, if ``cache_size`` is 0. Core sets take n_rows kernel
    values per point and feature, and different features have different points: a ten-class
    problem soon has most of its rows among them.

    References
    ----------
    .. [1] I. W. Tsang, A. Kocsor and J. T. Kwok, "Efficient kernel feature extraction for
       massive data sets", KDD 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from kernlet import MMDA
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(MMDA(3, n_landmarks=200, random_state=0), KNeighborsClassifier(1))
    >>> model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.94
    True
    >>> model[0].transform(X[:2]).shape
    (2, 30)
    """

    _takes_sources = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_features_per_class": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"landmarks", "core", "exact"})],
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
        "C": [Interval(Real, 0, None, closed="neither")],
        **KERNEL_CONSTRAINTS,
        "tol": [Interval(Real, 0, None, closed="neither"), None],
        "eps": [Interval(Real, 0, None, closed="left"), None],
        "sample_size": [Interval(Integral, 1, None, closed="left"), None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "cache_size": [Interval(Real, 0, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_features_per_class: int = 1,
        *,
        solver: Literal["landmarks", "core", "exact"] = "landmarks",
        n_landmarks: int = 500,
        C: float = 1.0,
        kernel: str | Kernel = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float | None = None,
        eps: float | None = 1e-3,
        sample_size: int | None = 59,
        class_weight: Any = None,
        cache_size: float = 2000,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_features_per_class = n_features_per_class
        self.solver = solver
        self.n_landmarks = n_landmarks
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.eps = eps
        self.sample_size = sample_size
        self.class_weight = class_weight
        self.cache_size = cache_size
        self.verbose = verbose
        self.random_state = random_state

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MMDA:
        """Find the features.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowSource, dask collection} of shape (n_samples, n_features)
            A source of rows (:mod:`kernlet.rows`) is read block by block, with
            ``solver="landmarks"`` only.
        y : array-like of shape (n_samples,) or str
            Labels: numbers, strings or booleans. The name of a column of X, where X is a
            source of rows that has one.
        sample_weight : array-like of shape (n_samples,), default=None
            Multiplies C for each row.

        Returns
        -------
        self : object
        """
        data = self._check_training_data(X, y, sample_weight)
        is_source = isinstance(data.X, RowSource)
        if is_source and self.solver != "landmarks":
            raise ValueError(
                f'solver="{self.solver}" needs the rows in memory; they are read block by block '
                'here. Use solver="landmarks".'
            )
        kernel = self._make_kernel(data)
        require_mercer(kernel, "A direction in feature space")
        data, costs = self._drop_zero_cost(data)
        check_cost_overflow(costs)
        signs = one_vs_rest_signs(data.y, self.classes_)
        rows = RowReader(data.X) if is_source else data.X
        margin_data = MarginData(kernel, rows, signs, costs, int(self.cache_size * 2**20))
        sequence = self._make_sequence(margin_data)
        if self.n_features_per_class > len(data.y):
            raise ValueError(
                f"n_features_per_class={self.n_features_per_class} is more than the "
                f"{len(data.y)} rows, which span no more directions; give fewer features."
            )
        with Progress.start(self, data, n_tasks=self.n_features_per_class) as progress:
            solutions: list[Solution] = []
            for _ in range(self.n_features_per_class):
                solutions += sequence.extend()
                if progress.step(
                    "round", lambda: {"expansion_": _expansion(margin_data, sequence)}
                ):
                    break
            self.expansion_ = _expansion(margin_data, sequence)
            self.point_indices_ = data.rows[sequence.features()[0]]
            self._set_certificates(solutions, sequence.n_iter)
        return self

    def _rule(self) -> CoreRule:
        """What a core set is to reach; the other solvers use its ``tol``."""
        return CoreRule(
            tol=_DEFAULT_TOL[self.solver] if self.tol is None else self.tol,
            eps=self.eps,
            sample_size=self.sample_size,
            max_bytes=int(self.cache_size * 2**20),
        )

    def _make_sequence(self, data: MarginData) -> FeatureSequence:
        rule, random_state = self._rule(), check_random_state(self.random_state)
        if self.solver == "landmarks":
            n_landmarks = min(self.n_landmarks, data.n_rows)
            return LandmarkFeatures(data, n_landmarks, rule.tol, random_state)
        if self.solver == "core":
            return core_features(data, rule, random_state)
        return exact_features(data, rule.tol)

    def _set_certificates(self, solutions: list[Solution], n_iter: int) -> None:
        rule, reason = self._rule(), None
        self.gap_ = np.array([solution.gap for solution in solutions])
        self.error_bound_ = np.array([solution.gap_error for solution in solutions])
        self.n_iter_ = n_iter
        self.__dict__.pop("ball_gap_", None)
        check_finite_fit(self)  # else a warning would name a gap that is not a number
        is_by_eps = self.solver == "core" and self.eps is not None
        if not is_by_eps and not self.gap_.max() <= max(rule.tol, GAP_WORTH_WARNING):
            reason = _ADVICE[self.solver]
        if self.solver == "core":
            self.ball_gap_ = float(np.max([solution.ball_gap for solution in solutions]))
            missed = [solution for solution in solutions if rule.is_missed(solution)]
            if missed:
                reason = f"ball_gap_ is {self.ball_gap_:.1e}, and {REASONS[missed[0].status]}"
        if not self.error_bound_.max() <= ERROR_WORTH_WARNING[self.solver]:
            reason = f"error_bound_ is {self.error_bound_.max():.1e}, and {ROUNDING}"
        if reason is not None:
            warn_user(
                f"Features ended at a relative duality gap of up to {self.gap_.max():.1e} "
                f"(tol={rule.tol:.1e}): {reason}"
            )


def _expansion(data: MarginData, sequence: FeatureSequence) -> KernelExpansion:
    rows, coef = sequence.features()
    return KernelExpansion(data.kernel, data.X[rows], coef, np.zeros(len(coef)))

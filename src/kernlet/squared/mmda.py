"""Maximum margin discriminant analysis: supervised kernel features."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel, require_mercer
from kernlet.rows.source import RowReader, RowSource
from kernlet.sklearn_base import (
    KERNEL_CONSTRAINTS,
    ExpansionTransformer,
    TrainingData,
    check_cost_overflow,
    one_vs_rest_signs,
)
from kernlet.squared.core_set import REASONS, CoreRule
from kernlet.squared.features import (
    Chains,
    Features,
    LandmarkChains,
    MarginTask,
    Round,
    core_chains,
    exact_chains,
)

_WORTH_A_WARNING = 1e-8
_ADVICE = {
    "landmarks": "scale the features, lower C, or set tol below 1e-6, which means float64.",
    "core": "scale the features, or lower C.",
    "exact": "scale the features, or lower C.",
}
_TOL = {"landmarks": 1e-5, "core": 1e-3, "exact": 1e-8}


class MMDA(ExpansionTransformer):
    """Maximum margin discriminant analysis: features that are the normals of margin machines.

    The first feature of a class is the normal w of the machine of squared errors that tells
    it from the rest; each further one is that of the best machine orthogonal to all before [1]_::

        minimise  1/2 (|w|^2 + b^2) + C/2 sum_i max(0, 1 - d_i (w.f(x_i) + b))^2
        subject to  w . u_q = 0   for the features u_q of this class so far

    u = w / |w|. The feature of a row is u.f(x), a sum of kernel values; all features of all classes
    are sums over one set of points, so that ``transform`` costs one block of kernel values.

    Parameters
    ----------
    n_features_per_class : int, default=1
        Features of each class against the rest; 3 or 5 are often better. Two classes have one
        chain between them, as their two problems mirror each other.
    solver : {"landmarks", "core", "exact"}, default="landmarks"
        ``"landmarks"`` finds all features in the span of ``n_landmarks`` random rows, by Newton's
        method over all rows: time grows with the number of rows, memory is one block.
        ``"core"`` is the paper's: enclosing balls of core sets over any rows, where a later feature
        of a class takes points that an earlier one has before any others. ``"exact"`` holds the
        kernel matrix, for up to 10,000 rows or so, as something to compare with.
    n_landmarks : int, default=500
        All rows where there are fewer. Not used by the other solvers.
    C : float, default=1.0
        Weight of the squared errors.
    kernel : {"rbf", "poly", "linear"} or Kernel, default="rbf"
        Positive semi-definite: not the sigmoid.
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Width of the "rbf" and "poly" kernels; the paper takes ``"mean_distance"``, one over
        the mean squared distance of two rows.
    degree : int, default=3
        Of the "poly" kernel.
    coef0 : float, default=0.0
        Of the "poly" kernel.
    tol : float or None, default=None
        Relative duality gap of every feature's problem to reach; None for 1e-5 by landmarks and
        1e-8 exactly. Below 1e-6, or where C adds up to more than a million over the rows, landmarks
        compute in float64, in twice the time and memory. For core sets, used where ``eps`` is
        None, with 1e-3 for None.
    eps : float or None, default=0.001
        Of ``solver="core"``: stop when no row looked at is further than 1 + eps radii from
        the center. None for ``tol``, which is relative to the objective; see
        :class:`CoreVectorClassifier` on what eps does not do.
    sample_size : int or None, default=59
        Of ``solver="core"``: random rows among which the furthest is looked for; None for all.
    class_weight : dict, "balanced" or None, default=None
        Multiplies C for the rows of a class.
    cache_size : float, default=2000
        Memory in MB for blocks of all rows (landmarks), which are computed again and again where
        they do not fit, for kernel columns (core) or for the kernel matrix (exact).
    random_state : int, RandomState instance or None, default=None
        Draws landmarks and samples.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The features: one output each, with intercepts of zero.
    components_ : ndarray of shape (n_features_out, n_points)
        Coefficients over the points ``expansion_.centers``. Feature r of class c is line
        r * n_chains + c: the first features of all classes come first. Lines of one class are
        orthonormal in feature space; a line of zeros says that no direction was left.
    n_centers_ : int
        Points.
    point_indices_ : ndarray of shape (n_points,)
        Training rows that the points are.
    classes_ : ndarray of shape (n_classes,)
    gap_ : ndarray of shape (n_features_out,)
        Relative duality gap of each feature's problem: the certificate.
    ball_gap_ : float
        Of ``solver="core"``: the true eps of the worst feature, over all rows.
    n_iter_ : int
        Passes over the rows, quadratic programs or linear systems.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names for all its columns, and all are strings.

    See Also
    --------
    KernelFisherDiscriminant : One feature fewer than classes, by class means and scatter.
    sklearn.decomposition.KernelPCA : Features that do not look at the labels.

    Notes
    -----
    With landmarks time is n_rows * n_landmarks^2 operations to begin with, and for each feature
    five to ten times n_rows * n_landmarks for each class, and about n_landmarks^2 for each row
    that has an error. Memory is one block and some 60 bytes for each row, and 30 for each row and
    class beyond the first, besides the data, if ``cache_size`` is 0. Core sets take n_rows kernel
    values for each point and feature, and different features have different points: a ten-class
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
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
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
        self._require_landmarks(data)
        kernel = self._make_kernel(data)
        require_mercer(kernel, "A direction in feature space")
        data, costs = self._drop_zero_cost(data)
        check_cost_overflow(costs)
        signs = one_vs_rest_signs(data.y, self.classes_)
        rows = RowReader(data.X) if isinstance(data.X, RowSource) else data.X
        task = MarginTask(kernel, rows, signs, costs, int(self.cache_size * 2**20))
        chains = self._make_chains(task)
        rounds = self._extend(chains, task, data)
        features = chains.features()
        self.expansion_ = _expansion(task, features)
        self.point_indices_ = data.rows[features.rows]
        self._set_certificates(rounds)
        self._callback_fit_ctx.call_on_fit_task_end(
            estimator=self, **data.for_callbacks, reconstruction_attributes={}
        )
        return self

    def _require_landmarks(self, data: TrainingData) -> None:
        if isinstance(data.X, RowSource) and self.solver != "landmarks":
            raise ValueError(
                f'solver="{self.solver}" needs the rows in memory; they are read block by block '
                'here. Use solver="landmarks".'
            )

    @property
    def _tol(self) -> float:
        return _TOL[self.solver] if self.tol is None else self.tol

    def _make_chains(self, task: MarginTask) -> Chains:
        random_state, tol = check_random_state(self.random_state), self._tol
        if self.solver == "landmarks":
            return LandmarkChains(task, min(self.n_landmarks, task.n_rows), tol, random_state)
        if self.solver == "core":
            return core_chains(task, self._rule(), random_state)
        return exact_chains(task, tol)

    def _rule(self) -> CoreRule:
        return CoreRule(
            tol=self._tol,
            eps=self.eps,
            sample_size=self.sample_size,
            max_bytes=int(self.cache_size * 2**20),
        )

    def _extend(self, chains: Chains, task: MarginTask, data: TrainingData) -> list[Round]:
        """One feature more of every class, until there are enough or a callback stops."""
        context = self._init_callback_context(max_subtasks=self.n_features_per_class)
        context.call_on_fit_task_begin(estimator=self, **data.for_callbacks)
        rounds = []
        for _ in range(self.n_features_per_class):
            part = context.subcontext(task_name="round")
            part.call_on_fit_task_begin(estimator=self, **data.for_callbacks)
            rounds.append(chains.extend())
            stop = part.call_on_fit_task_end(
                estimator=self,
                **data.for_callbacks,
                reconstruction_attributes=lambda: {
                    "expansion_": _expansion(task, chains.features())
                },
            )
            if stop:
                break
        return rounds

    def _set_certificates(self, rounds: list[Round]) -> None:
        self.gap_ = np.concatenate([r.gap for r in rounds])
        self.n_iter_ = sum(r.n_iter for r in rounds)
        self.__dict__.pop("ball_gap_", None)
        if self.solver == "core":
            self.ball_gap_ = float(max(r.eps.max() for r in rounds))
        reason = self._why_core_sets_ended(rounds)
        is_by_eps = self.solver == "core" and self.eps is not None
        if not is_by_eps and not self.gap_.max() <= max(self._tol, _WORTH_A_WARNING):
            reason = reason or _ADVICE[self.solver]
        if reason is not None:
            warnings.warn(
                f"Features ended at a relative gap of up to {self.gap_.max():.1e} "
                f"(tol={self._tol:.1e}): {reason}",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _why_core_sets_ended(self, rounds: list[Round]) -> str | None:
        """Of the first one that ended early, None where all did as asked."""
        rule = self._rule()
        for part in rounds:
            for status, gap, eps in zip(part.status, part.gap, part.eps, strict=True):
                if rule.is_missed(status, gap, eps):
                    return f"ball_gap_ is {self.ball_gap_:.1e}, and {REASONS[status]}"
        return None


def _expansion(task: MarginTask, features: Features) -> KernelExpansion:
    points = task.X[features.rows]
    return KernelExpansion(task.kernel, points, features.coef, np.zeros(len(features.coef)))

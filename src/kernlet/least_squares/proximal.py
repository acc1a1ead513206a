"""The proximal classifier."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Number, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from kernlet._typing import Floats
from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import RowFeatures, as_dense, round_to_float32
from kernlet.kernels.linear import Linear
from kernlet.least_squares.normal_equations import (
    Moments,
    collect,
    normalization,
    one_against_rest,
    solve_normal_equations,
)
from kernlet.progress import Progress
from kernlet.rows.source import RowSource
from kernlet.sampling import LANDMARK_CONSTRAINTS, choose_landmarks
from kernlet.sklearn_base import (
    KERNEL_CONSTRAINTS,
    ExpansionClassifier,
    TrainingData,
    check_classes,
    check_training_data,
    error_weights,
    fit_method,
)

# The constant value of an output that has rows on one side only: larger than any other output's,
# and still finite when a model is exported in float32.
_CERTAIN = float(np.finfo(np.float32).max)
# "balanced" and "normalized" depend on the weights of all rows, which are known at the end: each
# class needs separate moments, and the rule may change between calls. Other class weights are
# part of the row weights from the start, and the classes share one matrix of products.
_BY_CLASS = "by class"


@dataclass(frozen=True, eq=False)
class SufficientStatistics:
    """All that is remembered of the rows: moments of features, by class.

    Learning and forgetting return a new value; if they are refused, the old one is unchanged.
    ``kernel`` and ``landmarks`` are None where the features are the columns themselves. The sorted
    ``classes`` are those seen so far or, if ``is_closed``, all that may come. ``parameters`` are
    those of the estimator that the moments depend on.
    """

    kernel: Kernel | None
    landmarks: Any
    classes: Any
    is_closed: bool
    moments: Moments
    parameters: dict[str, Any]

    def check_unchanged(self, parameters: dict[str, Any], classes: Any = None) -> None:
        """Refuse other parameters, and other classes, than those of the first call."""
        changed = [k for k in parameters if not _is_equal(parameters[k], self.parameters[k])]
        if changed:
            raise ValueError(
                f"The rows learned so far were summed with another {changed[0]}. Call fit to "
                "change it."
            )
        if classes is not None and not np.array_equal(np.unique(classes), self.classes):
            raise ValueError(
                f"classes={np.unique(classes).tolist()} differs from the classes so far, "
                f"{self.classes.tolist()}. Give all classes at the first call, or none."
            )

    def learn(self, data: TrainingData) -> SufficientStatistics:
        """With more rows; those of a row source are summed block by block where they are."""
        larger = self._with_classes(data.y)
        moments = _reduce(data, larger._moments_of, operator.add)
        return replace(larger, moments=larger.moments + moments)

    def reduce_rows(
        self, data: TrainingData, function: Callable[..., Any], combine: Callable[[Any, Any], Any]
    ) -> Any:
        """``function(blocks, codes, weights)`` of the features of all rows, combined."""
        return _reduce(data, partial(self._on_features, function), combine)

    def forget(self, data: TrainingData) -> SufficientStatistics:
        """Without rows that were learned before."""
        unknown = np.setdiff1d(data.y, self.classes)
        if len(unknown):
            raise ValueError(
                f"Rows of the classes {unknown.tolist()} are to be forgotten, which were never "
                "learned."
            )
        moments = self.moments - self._moments_of(data.X, data.y, data.sample_weight)
        left = np.flatnonzero(moments.counts)
        if not len(left):
            raise ValueError(
                "No row would be left to predict with. Keep some, or call fit with others."
            )
        if self.is_closed or len(left) == len(self.classes):
            return replace(self, moments=moments)
        if len(left) < 2:
            raise ValueError(
                f"Rows of one class only ({self.classes[left].tolist()[0]!r}) would be left. Keep "
                "two classes, or give classes= in the first call of partial_fit."
            )
        return replace(self, classes=self.classes[left], moments=moments.select_classes(left))

    def _with_classes(self, y: Any) -> SufficientStatistics:
        """The same statistics with room for the labels of y."""
        labels = np.unique(y)
        if len(self.classes) and isinstance(labels[0], str) != isinstance(self.classes[0], str):
            raise ValueError(
                f"The labels {labels.tolist()} are of another type than those before, "
                f"{self.classes.tolist()}. Give labels of one type."
            )
        unseen = np.setdiff1d(labels, self.classes)
        if not len(unseen):
            return self
        if self.is_closed:
            raise ValueError(
                f"The labels {unseen.tolist()} are not among the classes given at the first call, "
                f"{self.classes.tolist()}."
            )
        classes = np.union1d(self.classes, unseen) if len(self.classes) else unseen
        positions = np.searchsorted(classes, self.classes)
        moments = self.moments.expand_classes(positions, len(classes))
        return replace(self, classes=classes, moments=moments)

    def _moments_of(self, X: Any, y: Any, sample_weight: Floats) -> Moments:
        return collect(
            RowFeatures(X, self.kernel, self.landmarks),
            np.searchsorted(self.classes, y),
            len(self.classes),
            weights=self._weights(y, sample_weight),
            shift=self.moments.shift,
            by_class=self.moments.is_by_class,
        )

    def _on_features(
        self, function: Callable[..., Any], X: Any, y: Any, sample_weight: Floats
    ) -> Any:
        features = RowFeatures(X, self.kernel, self.landmarks)
        codes, weights = np.searchsorted(self.classes, y), self._weights(y, sample_weight)
        return function(features.blocks(dense=True), codes, weights)

    def _weights(self, y: Any, sample_weight: Floats) -> Floats:
        """Weights of the rows, with those of their class where these are known beforehand."""
        if self.moments.is_by_class:
            return sample_weight
        class_weight = self.parameters["class_weight"]
        return error_weights(1.0, y, self.classes, class_weight, sample_weight)


def _reduce(
    data: TrainingData, function: Callable[..., Any], combine: Callable[[Any, Any], Any]
) -> Any:
    """``function(X, y, sample_weight)``; of a row source block by block where these are."""
    columns = (data.y, data.sample_weight)
    if isinstance(data.X, RowSource):
        return data.X.map_reduce(function, combine, by_row=columns)
    return function(data.X, *columns)


def _is_equal(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are equal; arrays element by element."""
    if one is other:
        return True
    plain = str | Number | dict | Kernel | None
    if isinstance(one, plain) or isinstance(other, plain):
        return type(one) is type(other) and one == other
    return np.array_equal(as_dense(one), as_dense(other))


class ProximalClassifier(ExpansionClassifier):
    """Proximal SVM: least squares on the signs of the classes, in one pass and closed form.

    The method is that of [1]_ and [2]_. Each output minimises, with the features h of a row (the
    row itself, or its kernel values with a few landmarks)::

        1/2 (|w|^2 + b^2) + C/2 sum_i n_i (d_i - h_i.w - b)^2

    with d the signs of one class against the rest and n the weights of ``class_weight``. Sums over
    rows are sufficient statistics: the classifier learns block by block, forgets by subtraction,
    and is the same as if all remaining rows had been given at once. If the equations are singular
    to round-off, the shortest solution is taken, in columns scaled to one size and about a point
    near the rows.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the errors; the papers' nu.
    kernel : {"rbf", "laplacian", "poly", "linear", "sigmoid"} or Kernel, default="rbf"
        Kernel function: a name, or an object of a class derived from
        :class:`kernlet.kernels.Kernel`. ``"linear"`` works on the columns themselves, without
        landmarks.
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Width of all kernels but "linear". ``"scale"`` is 1 / (n_features X.var()) and ``"auto"``
        1 / n_features, as in scikit-learn; ``"mean_distance"`` is one over the mean squared
        distance between two rows. For "laplacian", a rule is the square root of its value divided
        by n_features. A rule uses the first block only.
    degree : int, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant of the "poly" and "sigmoid" kernels.
    landmarks : int, float, array-like or None, default=500
        Points with which kernel values are computed: a number of rows drawn at random from the
        first block (all of them if it has fewer), a fraction of them, given points, or None
        for all of its rows. Not used by ``"linear"``.
    class_weight : "balanced", "normalized", dict or None, default="balanced"
        ``"balanced"``: in each output the rows of the class and those of the rest weigh m / 2 in
        sum, m the weight of all rows. ``"normalized"``: 1 in sum, as in [2]_, so that C must
        grow with the data. A dict has one weight per class for all outputs; None weighs nothing.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The decision function: its centers are the landmarks, or for ``"linear"`` the weight
        vectors.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    nbytes_ : int
        Bytes of everything that a prediction needs.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    coef_ : ndarray of shape (n_outputs, n_features)
        Weight vectors, with ``kernel="linear"`` only.
    intercept_ : ndarray of shape (n_outputs,)
        Intercepts.
    objective_ : ndarray of shape (n_outputs,)
        The minimum of each output, as stated above, up to a relative error of ``gap_``.
    gap_ : float
        The certificate: a bound on (objective - optimum) / objective of the worst output, for the
        features as computed in float64. It includes the rounding errors of all sums times the
        condition number, and above 1e-6 there is a warning; 1 certifies nothing. For an objective
        below 1e-7 of that of the zero machine it is relative to the latter number.
    residual_ : float
        Relative residual of the normal equations of the worst output, scaled to a unit diagonal.
        Small residuals alone do not make an accurate machine: see ``gap_``.
    moments_ : Moments
        Sums over the rows, all that is remembered of them.
    n_samples_seen_ : int
        Rows learned and not forgotten.
    n_iter_ : int
        Factorisations: one per output, or one for all if ``class_weight`` is None or a dict and
        the problem is not ill-conditioned.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

    See Also
    --------
    TypicalCondenser, BoundaryCondenser : Fewer training rows, chosen by this classifier.
    CompactKernelClassifier : More accurate with the same number of centers, and slower to train.

    Notes
    -----
    The intercept is penalised, as in the papers: this matters for rows far from the origin if C
    times their weight is small.

    Sums of squares square the condition number of the features. If their ``gap_`` exceeds 1e-6,
    ``fit`` reads the rows again, solves by orthogonal factorisations and refines in extended
    precision: polynomial kernels far from the origin, for instance. ``fit_blocks``,
    ``partial_fit`` and ``partial_forget`` have no rows to read again, and warn.

    Time is n_rows p^2 for p columns or landmarks, and p^3 / 3 per factorisation; memory one block
    of rows and p^2 numbers per class, or once for all classes with ``class_weight`` None or a
    dict; three times that while a block is learned or forgotten. Sparse rows stay sparse with
    ``"linear"`` unless rows before them were dense; the sums are dense.

    ``partial_fit`` solves at the end of each call; ``fit_blocks`` solves once.

    References
    ----------
    .. [1] G. Fung and O. L. Mangasarian, "Proximal support vector machine classifiers", KDD 2001.
    .. [2] S. V. N. Vishwanathan and M. N. Murty, "Use of multi-category proximal SVM for data
       set reduction", Hybrid Information Systems, 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kernlet import ProximalClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> machine = ProximalClassifier(landmarks=200, random_state=0).fit(X[:900], y[:900])
    >>> machine.score(X[900:], y[900:]) > 0.93
    True
    >>> machine.gap_ < 1e-9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        **KERNEL_CONSTRAINTS,
        "landmarks": LANDMARK_CONSTRAINTS,
        "class_weight": [StrOptions({"balanced", "normalized"}), dict, None],
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
        landmarks: Any = 500,
        class_weight: Any = "balanced",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state

    @property
    def moments_(self) -> Moments:
        """Moments of the rows learned and not forgotten."""
        return self._statistics.moments

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned and not forgotten."""
        return int(self.moments_.counts.sum())

    @property
    def intercept_(self) -> Any:
        """Intercept of each output."""
        return self.expansion_.intercept

    @property
    def coef_(self) -> Any:
        """Weight vectors, of ``kernel="linear"`` only."""
        if self._statistics.kernel is not None:
            raise AttributeError(
                'coef_ is for kernel="linear"; the coefficients of the landmarks are '
                "expansion_.coef."
            )
        return self.expansion_.centers

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ProximalClassifier:
        """Fit the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowSource, dask collection} of shape (n_samples, n_features)
            A row source (:mod:`kernlet.rows`) is summed block by block, where its blocks are.
        y : array-like of shape (n_samples,) or str
            Labels: numbers, strings or booleans; or the name of a column of X, where X is a row
            source that has one.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 counts a row twice.

        Returns
        -------
        self : object
        """
        data = check_training_data(self, X, y, sample_weight, takes_sources=True)
        check_classes(np.unique(data.y), sample_weight)
        with Progress.start(self, data, n_tasks=1) as progress:
            with progress.task("block", n_tasks=0):
                statistics = self._empty_statistics(data).learn(data)
            self._solve(statistics, data)
        return self

    @fit_method
    def fit_blocks(self, blocks: Iterable[Any], classes: Any = None) -> ProximalClassifier:
        """Fit the classifier to rows that come in blocks and are not kept.

        Parameters
        ----------
        blocks : iterable of (X, y) or (X, y, sample_weight)
            Read once, from the first to the last.
        classes : array-like of shape (n_classes,), default=None
            Labels that may come; any may, unless given.

        Returns
        -------
        self : object

        Examples
        --------
        >>> import numpy as np
        >>> from kernlet import ProximalClassifier
        >>> X, y = np.arange(12.0).reshape(6, 2), np.array([0, 0, 0, 1, 1, 1])
        >>> blocks = ((X[rows], y[rows]) for rows in (slice(0, 3), slice(3, 6)))
        >>> ProximalClassifier(kernel="linear").fit_blocks(blocks).n_samples_seen_
        6
        """
        statistics = None
        with Progress.start(self) as progress:
            for block in blocks:
                if not isinstance(block, tuple | list) or len(block) not in (2, 3):
                    raise ValueError(
                        "Each block must be (X, y) or (X, y, sample_weight); there is one of type "
                        f"{type(block).__name__}."
                    )
                data = check_training_data(self, *block, reset=statistics is None)
                progress.data = data
                if statistics is None:
                    statistics = self._empty_statistics(data, classes)
                statistics = statistics.learn(data)
                if progress.step("block"):
                    break
            if statistics is None:
                raise ValueError("There are no blocks of rows to fit to.")
            check_classes(statistics.classes)
            self._solve(statistics)
        return self

    @fit_method
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> ProximalClassifier:
        """Learn more rows, exactly as if they had been given with the others.

        C may be changed between calls, and so may ``"balanced"`` to ``"normalized"``; parameters
        that the moments depend on may not.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            At the first call, all labels that may come: others are refused later, and a class
            without rows is never predicted. Unless given, new labels are accepted at any call, and
            the first call needs two.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        self._validate_params()  # scikit-learn does so at the first call only
        is_first = not hasattr(self, "_statistics")
        if not is_first:
            self._statistics.check_unchanged(self._moment_parameters(), classes)
        data = check_training_data(self, X, y, sample_weight, reset=is_first)
        statistics = self._empty_statistics(data, classes) if is_first else self._statistics
        statistics = statistics.learn(data)
        check_classes(statistics.classes, sample_weight)
        return self._solve(statistics)

    @fit_method
    def partial_forget(self, X: Any, y: Any, sample_weight: Any = None) -> ProximalClassifier:
        """Forget rows learned before, as if they had never been given.

        A class without rows leaves ``classes_``; two must stay. If ``classes`` was given at the
        first call, the class stays there and is not predicted. That the rows are among those
        learned is not checked beyond their number, their weight and the signs of the sums of
        squares that are left.

        The sums that are left have an error of 1e-16 times those forgotten: if these rows are k
        times as large, or k^2 times as many, 2 log10(k) of 16 digits are lost.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            The weights with which the rows were learned.

        Returns
        -------
        self : object
        """
        check_is_fitted(self)
        self._statistics.check_unchanged(self._moment_parameters())
        data = check_training_data(self, X, y, sample_weight, reset=False)
        return self._solve(self._statistics.forget(data))

    def _empty_statistics(self, data: TrainingData, classes: Any = None) -> SufficientStatistics:
        """Statistics of no rows; kernel width, landmarks and shift come from the first rows."""
        kernel: Kernel | None = self._make_kernel(data)
        landmarks = None
        if isinstance(kernel, Linear):
            kernel = None  # the features are the columns themselves
        else:
            random_state = check_random_state(self.random_state)
            landmarks = choose_landmarks(self.landmarks, data.X, random_state)
        X = data.X.read(data.X.slices()[0]) if isinstance(data.X, RowSource) else data.X
        features = RowFeatures(X, kernel, landmarks)
        labels = np.empty(0) if classes is None else np.unique(classes)
        parameters = self._moment_parameters()
        moments = Moments.empty(
            features.n_features,
            len(labels),
            # With a shift that float32 can hold, x - shift is exact for float32 rows near it.
            shift=round_to_float32(features.middle),
            by_class=parameters["class_weight"] == _BY_CLASS,
        )
        is_closed = classes is not None
        return SufficientStatistics(kernel, landmarks, labels, is_closed, moments, parameters)

    def _moment_parameters(self) -> dict[str, Any]:
        """The parameters that the moments depend on."""
        names = ("kernel", "gamma", "degree", "coef0", "landmarks", "class_weight")
        parameters = {name: getattr(self, name) for name in names}
        if isinstance(self.class_weight, str):
            parameters["class_weight"] = _BY_CLASS
        return parameters

    def _solve(
        self, statistics: SufficientStatistics, data: TrainingData | None = None
    ) -> ProximalClassifier:
        """Solve the equations, and set the fitted attributes; ``data`` has all rows, if known."""
        moments, n_classes = statistics.moments, len(statistics.classes)
        signs = one_against_rest(n_classes, [1] if n_classes == 2 else None)
        weights = None
        if moments.is_by_class:
            balanced = self.class_weight == "balanced"
            weights = normalization(signs, moments.totals, balanced=balanced)
        rows = None if data is None else partial(statistics.reduce_rows, data)
        solution = solve_normal_equations(moments, self.C, signs, weights, rows)
        # A class that was announced but has no rows must never be predicted, and with one class
        # left it always must: least squares on one side only would give values near 1.
        no_own, no_rest = ((side @ moments.counts) == 0 for side in (signs > 0, signs < 0))
        certain = _CERTAIN * (no_rest.astype(float) - no_own)
        coef = np.where(certain[:, None] == 0, solution.coef, 0.0)
        intercept = np.where(certain == 0, solution.intercept, certain)
        if statistics.kernel is None:
            self.expansion_ = KernelExpansion(Linear(), coef, np.eye(len(coef)), intercept)
        else:
            self.expansion_ = KernelExpansion(
                statistics.kernel, statistics.landmarks, coef, intercept
            )
        self._statistics, self.classes_ = statistics, statistics.classes
        self.objective_, self.gap_ = solution.objective, solution.gap
        self.residual_, self.n_iter_ = solution.residual, solution.n_factorizations
        return self

"""The proximal classifier."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Number, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from kernlet._typing import Floats, Indices
from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import round_to_float32
from kernlet.kernels.landmarks import RowFeatures
from kernlet.kernels.linear import Linear
from kernlet.least_squares.moments import Moments, collect, empty
from kernlet.least_squares.solve import (
    Proximal,
    ProximalSolution,
    normalization,
    one_against_rest,
    solve_proximal,
)
from kernlet.rows import is_source
from kernlet.rows.source import RowSource
from kernlet.sampling import LANDMARK_CONSTRAINTS, choose_landmarks
from kernlet.sklearn_base import (
    KERNEL_CONSTRAINTS,
    ExpansionClassifier,
    TrainingData,
    check_classes,
    check_training_data,
    error_weights,
    require_memory,
)

_MOST_BYTES = 8 * 2**30
_ADVICE = ", or class_weight=None, which needs one sum for all classes"


@dataclass(frozen=True, eq=False)
class LearnedRows:
    """Sums over rows, with the classes they are sorted by and the features they are sums of.

    Learning and forgetting make a new value; where they are refused, the old one is as it was.

    Parameters
    ----------
    kernel : Kernel or None
        None where the features are the columns themselves.
    landmarks : {ndarray, sparse matrix} or None
    classes : ndarray of shape (n_classes,)
        Labels met so far, or all that may come, ascending.
    is_closed : bool
        Whether no other labels may come.
    moments : Moments
    settled : dict
        The parameters, by name, that the sums depend on.
    """

    kernel: Kernel | None
    landmarks: Any
    classes: Any
    is_closed: bool
    moments: Moments
    settled: dict[str, Any]

    def features(self, X: Any) -> RowFeatures:
        """Rows as they are summed."""
        return RowFeatures(X, self.kernel, self.landmarks)

    def require_same(self, settled: dict[str, Any], classes: Any = None) -> None:
        """Refuse other parameters, and other classes, than those at first.

        Parameters
        ----------
        settled : dict
        classes : array-like or None, default=None
        """
        changed = [name for name in settled if not _is_same(settled[name], self.settled[name])]
        if changed:
            raise ValueError(
                f"The rows learned so far were summed with another {changed[0]}. Fit anew to "
                "change it."
            )
        if classes is not None and not np.array_equal(np.unique(classes), self.classes):
            raise ValueError(
                f"classes={np.unique(classes).tolist()} differs from the classes so far, "
                f"{self.classes.tolist()}. Give all classes at the first call, or none."
            )

    def learn(self, data: TrainingData, class_weight: Any) -> LearnedRows:
        """With these rows.

        Parameters
        ----------
        data : TrainingData
        class_weight : dict, "balanced", "normalized" or None

        Returns
        -------
        learned : LearnedRows
        """
        larger = self._with_classes(data.y)
        return replace(larger, moments=larger.moments + larger._sums(data, class_weight))

    def learn_rows(self, data: TrainingData, class_weight: Any) -> LearnedRows:
        """With the rows of a source, summed block by block where they are.

        Parameters
        ----------
        data : TrainingData
            Its X is a source of rows.
        class_weight : dict, "balanced", "normalized" or None

        Returns
        -------
        learned : LearnedRows
        """
        larger = self._with_classes(data.y)
        sums = data.X.map_reduce(
            _sums_of_block,
            operator.add,
            by_row=(data.y, data.sample_weight),
            shared=(larger, class_weight),
        )
        return replace(larger, moments=larger.moments + sums)

    def forget(self, data: TrainingData, class_weight: Any) -> LearnedRows:
        """Without these rows.

        Parameters
        ----------
        data : TrainingData
        class_weight : dict, "balanced", "normalized" or None

        Returns
        -------
        learned : LearnedRows
        """
        unknown = np.setdiff1d(data.y, self.classes)
        if len(unknown):
            raise ValueError(
                f"Rows of the classes {unknown.tolist()} are to be forgotten, which were never "
                "learned."
            )
        moments = self.moments - self._sums(data, class_weight)
        if not moments.counts.any():
            raise ValueError(
                "No row would be left to predict with. Keep some, or fit anew on others."
            )
        left = np.flatnonzero(moments.counts)
        if self.is_closed or len(left) == len(self.classes):
            return replace(self, moments=moments)
        if len(left) < 2:
            raise ValueError(
                f"Rows of one class only ({self.classes[left].tolist()[0]!r}) would be left. Keep "
                "two classes, or fit anew with classes= in the first call of partial_fit."
            )
        return replace(self, classes=self.classes[left], moments=moments.of_classes(left))

    def _with_classes(self, y: Any) -> LearnedRows:
        labels = np.unique(y)
        if len(self.classes) and _is_text(labels) != _is_text(self.classes):
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
        places = np.searchsorted(classes, self.classes)
        check_size(
            len(self.moments.shift), len(classes), by_class=self.moments.is_by_class, advice=_ADVICE
        )
        return replace(self, classes=classes, moments=self.moments.placed(places, len(classes)))

    def _sums(self, data: TrainingData, class_weight: Any) -> Moments:
        by_class = self.moments.is_by_class
        weights = data.sample_weight
        if not by_class:
            weights = error_weights(1.0, data.y, self.classes, class_weight, weights)
        return collect(
            self.features(data.X),
            self._codes(data.y),
            len(self.classes),
            weights=None if (weights == 1.0).all() else weights,
            shift=self.moments.shift,
            by_class=by_class,
        )

    def _codes(self, y: Any) -> Indices:
        return np.searchsorted(self.classes, y)


def _sums_of_block(
    X: Any, y: Any, sample_weight: Any, learned: LearnedRows, class_weight: Any
) -> Moments:
    """Sums over a block of rows, those of no weight left out."""
    rows = np.flatnonzero(sample_weight)
    if len(rows) < len(y):
        X, y, sample_weight = X[rows], y[rows], sample_weight[rows]
    return learned._sums(TrainingData(X, y, sample_weight, rows), class_weight)


def nothing_learned(
    data: TrainingData,
    kernel: Kernel | None,
    landmarks: Any,
    *,
    classes: Any = None,
    class_weight: Any = None,
    settled: dict[str, Any],
) -> LearnedRows:
    """Sums over no rows.

    Parameters
    ----------
    data : TrainingData
        Some rows, near which the others lie.
    kernel : Kernel or None
    landmarks : {ndarray, sparse matrix} or None
    classes : array-like or None, default=None
        All labels that may come; None for any.
    class_weight : dict, "balanced", "normalized" or None, default=None
    settled : dict
        The parameters that the sums depend on.

    Returns
    -------
    learned : LearnedRows
    """
    some = data.X.read(data.X.slices()[0]) if isinstance(data.X, RowSource) else data.X
    features = RowFeatures(some, kernel, landmarks)
    labels = np.empty(0) if classes is None else np.unique(classes)
    by_class = is_by_class(class_weight)
    check_size(
        features.n_features,
        len(labels) or len(np.unique(data.y)),
        by_class=by_class,
        advice=_ADVICE,
    )
    shift = round_to_float32(features.middle)
    moments = empty(features.n_features, len(labels), shift=shift, by_class=by_class)
    return LearnedRows(kernel, landmarks, labels, classes is not None, moments, settled)


def is_by_class(class_weight: Any) -> bool:
    """Whether each class needs products of its own: their weights come to be known at the end."""
    return isinstance(class_weight, str)


def _is_text(labels: Any) -> bool:
    return isinstance(labels[0], str) if len(labels) else False


def _is_same(one: Any, other: Any) -> bool:
    """Whether parameters are equal; arrays number by number."""
    if one is other:
        return True
    if isinstance(one, str | Number | dict | None) or isinstance(other, str | Number | dict | None):
        return type(one) is type(other) and one == other
    if isinstance(one, Kernel):
        return bool(one == other)
    one, other = (A.toarray() if sparse.issparse(A) else np.asarray(A) for A in (one, other))
    return np.array_equal(one, other)


def check_size(n_features: int, n_classes: int, *, by_class: bool = True, advice: str = "") -> None:
    """Refuse sums that would not fit into memory.

    Parameters
    ----------
    n_features, n_classes : int
    by_class : bool, default=True
        Whether each class has sums of its own.
    advice : str, default=""
        What else can be done about it.
    """
    size = 8 * n_features**2 * (n_classes if by_class else 1)
    if size > _MOST_BYTES:
        each = f"each of {n_classes} classes" if by_class else "all classes together"
        raise ValueError(
            f"Sums over {n_features} features for {each} take {size / 2**30:.0f} GB. Use a kernel "
            f"with a few hundred landmarks, or fewer features (TruncatedSVD){advice}."
        )


#: What an output says where one side has no rows: beyond all others, finite in float32 too.
CERTAIN = float(np.finfo(np.float32).max)


def proximal_machine(
    learned: LearnedRows, C: float, class_weight: Any
) -> tuple[KernelExpansion, ProximalSolution]:
    """Solve the machine of the rows learned.

    Two classes make one output. A class of which there are no rows is never predicted.

    Parameters
    ----------
    learned : LearnedRows
    C : float
    class_weight : dict, "balanced", "normalized" or None

    Returns
    -------
    expansion : KernelExpansion
    solution : ProximalSolution
    """
    moments, n_classes = learned.moments, len(learned.classes)
    signs = one_against_rest(n_classes, [1] if n_classes == 2 else None)
    weights = None
    if moments.is_by_class:
        weights = normalization(signs, moments.totals, balanced=class_weight == "balanced")
    solution = solve_proximal(Proximal(moments, C, signs, weights))
    certain = _certain(signs, moments.counts)
    coef = np.where(certain[:, None] == 0, solution.weights, 0.0)
    intercept = np.where(certain == 0, solution.intercept, certain)
    if learned.kernel is None:
        return KernelExpansion(Linear(), coef, np.eye(len(coef)), intercept), solution
    return KernelExpansion(learned.kernel, learned.landmarks, coef, intercept), solution


def _certain(signs: Floats, counts: Indices) -> Floats:
    """What outputs say that have rows on one side only; 0 for the others."""
    no_own, no_rest = ((side @ counts) == 0 for side in (signs > 0, signs < 0))
    return CERTAIN * (no_rest.astype(float) - no_own)


class ProximalClassifier(ExpansionClassifier):
    """Proximal SVM: the signs by least squares, in one pass and closed form ([1]_, [2]_).

    Each output minimises, over the features h of a row (itself, or its kernel values with a few
    landmarks)::

        1/2 (|w|^2 + b^2) + C/2 sum_i n_i (d_i - h_i.w - b)^2

    with d the signs of one class against the rest and n the weights of ``class_weight``. All it
    needs of the data are sums over rows: it learns block by block, forgets by subtraction, and
    comes to the same machine as if all rows left had been given at once. Where the equations are
    singular up to rounding, of all answers the shortest is taken, in columns scaled to one size
    and about a point near the rows.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the errors; the papers' nu.
    kernel : {"rbf", "poly", "linear", "sigmoid"} or Kernel, default="rbf"
        ``"linear"`` works on the columns themselves, without landmarks.
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Width of the "rbf", "poly" and "sigmoid" kernels; ``"scale"`` and ``"auto"`` as in
        scikit-learn, ``"mean_distance"`` one over the mean squared distance of two rows. A rule
        looks at the first block only.
    degree : int, default=3
        Of the "poly" kernel.
    coef0 : float, default=0.0
        Of the "poly" and "sigmoid" kernels.
    landmarks : int, float, array-like or None, default=500
        Points with which kernel values are taken: a number of rows drawn at random from the
        first block (all of them where it has no more), a fraction of them, given points, or None
        for all of its rows. Not used by ``"linear"``.
    class_weight : "balanced", "normalized", dict or None, default="balanced"
        ``"balanced"``: in each output the rows of the class and those of the rest weigh m / 2 in
        sum, m the weight of all rows. ``"normalized"``: 1 in sum, as in [2]_, so that C must
        grow with the data. A dict weighs classes alike in all outputs; None weighs nothing.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The machine. Its centers are the landmarks, or for ``"linear"`` the weight vectors.
    n_centers_ : int
        Distinct centers.
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_outputs, n_features_in_)
        Weight vectors; of ``kernel="linear"`` only.
    intercept_ : ndarray of shape (n_outputs,)
    residual_ : float
        What is left of the normal equations of the worst output against their right side, scaled
        to a unit diagonal: the certificate. Above 1e-6 there is a warning. It does not bound the
        errors of single weights, which nearly dependent columns leave open where C is large.
    moments_ : Moments
        The sums, all that is remembered of the rows.
    n_samples_seen_ : int
        Rows learned and not forgotten.
    n_iter_ : int
        Factorisations: one for each output, or one for all where they share their weights
        (``class_weight`` None or a dict).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names for all its columns, and all are strings.

    See Also
    --------
    TypicalCondenser, BoundaryCondenser : Fewer training rows by means of this machine.
    CompactKernelClassifier : More accurate for as many centers, and slower to train.

    Notes
    -----
    The intercept is penalised, as in the papers: rows far from the origin against their spread
    make a difference where C times their weight is small.

    Time is n_rows p^2 for p columns or landmarks, and p^3 / 3 for each factorisation; memory one
    block of rows and p^2 numbers for each class, or once for all classes with ``class_weight``
    None or a dict; while a block is learned or forgotten, three times that. Sparse rows stay
    sparse with ``"linear"`` unless rows before them were dense; the sums are dense.

    ``partial_fit`` solves at the end of each call, so that the machine can be used after it;
    ``fit_blocks`` solves once.

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
    >>> machine.residual_ < 1e-9
    True
    """

    _takes_sources = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        **KERNEL_CONSTRAINTS,
        "landmarks": LANDMARK_CONSTRAINTS,
        "class_weight": [StrOptions({"balanced", "normalized"}), dict, None],
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
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.class_weight = class_weight
        self.random_state = random_state

    @property
    def moments_(self) -> Moments:
        """Sums over the rows learned."""
        return self._learned.moments

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned and not forgotten."""
        return int(self.moments_.counts.sum())

    @property
    def intercept_(self) -> Any:
        """What each output adds."""
        return self.expansion_.intercept

    @property
    def coef_(self) -> Any:
        """Weight vectors of a linear machine."""
        if self._learned.kernel is not None:
            raise AttributeError(
                'coef_ is for kernel="linear"; the coefficients of the landmarks are '
                "expansion_.coef."
            )
        return self.expansion_.centers

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ProximalClassifier:
        """Fit the machine.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowSource, dask collection} of shape (n_samples, n_features)
            A source of rows (:mod:`kernlet.rows`) is summed block by block, where its blocks are;
        y : array-like of shape (n_samples,) or str
            Labels: numbers, strings or booleans. The name of a column of X, where X is a
            source of rows that has one.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is the row given twice.

        Returns
        -------
        self : object
        """
        if is_source(X):
            return self._fit_rows(self._check_training_data(X, y, sample_weight))
        return self._fit_anew([(X, y, sample_weight)], None)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_blocks(self, blocks: Iterable[Any], classes: Any = None) -> ProximalClassifier:
        """Fit the machine to rows that come in blocks and are not kept.

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
        return self._fit_anew(blocks, classes)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> ProximalClassifier:
        """Learn some more rows, exactly as if they had been given with the others.

        C and the rule of ``class_weight`` may be changed between calls; what the sums depend on
        may not.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            At the first call, the labels that may come; others are refused then, and one of
            which there is no row is never predicted. Unless given, new labels are taken as they
            come, from two in the first call on.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
        """
        self._validate_params()  # scikit-learn does so at the first call only
        require_memory(self, X)
        is_first = not hasattr(self, "_learned")
        if not is_first:
            self._learned.require_same(self._settled(), classes)
        data = check_training_data(self, X, y, sample_weight, reset=is_first)
        learned = self._start(data, classes) if is_first else self._learned
        learned = learned.learn(data, self.class_weight)
        check_classes(learned.classes)
        return self._set_machine(learned)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_forget(self, X: Any, y: Any, sample_weight: Any = None) -> ProximalClassifier:
        """Forget rows learned before, as if they had never been given.

        A class of which no row is left leaves ``classes_``; two must stay. Where ``classes`` was
        given at first, it stays there and is not predicted. That the rows are among those
        learned is not checked, beyond their number, their weight and that the sums left can be
        sums of squares: the sums do not know rows.

        The sums left are right to 1e-16 of those forgotten: where these rows are k times as
        large, or k^2 times as many, 2 log10(k) of 16 digits are lost.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            As they were when the rows were learned.

        Returns
        -------
        self : object
        """
        check_is_fitted(self)
        self._learned.require_same(self._settled())
        data = check_training_data(self, X, y, sample_weight, reset=False)
        return self._set_machine(self._learned.forget(data, self.class_weight))

    def _fit_anew(self, blocks: Iterable[Any], classes: Any) -> ProximalClassifier:
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self)
        learned = None
        for block in blocks:
            X, y, *weights = _parts(block)
            task = context.subcontext(task_name="block")
            data = check_training_data(self, X, y, *weights, reset=learned is None)
            task.call_on_fit_task_begin(estimator=self, **data.for_callbacks)
            learned = self._start(data, classes) if learned is None else learned
            learned = learned.learn(data, self.class_weight)
            if task.call_on_fit_task_end(estimator=self, **data.for_callbacks):
                break
        if learned is None:
            raise ValueError("There are no blocks of rows to fit to.")
        check_classes(learned.classes)
        self._set_machine(learned)
        context.call_on_fit_task_end(
            estimator=self, **data.for_callbacks, reconstruction_attributes={}
        )
        return self

    def _fit_rows(self, data: TrainingData) -> ProximalClassifier:
        """Fit to a source of rows, in one pass for the kernel and one for the sums."""
        context = self._init_callback_context(max_subtasks=0)
        context.call_on_fit_task_begin(estimator=self)
        self._set_machine(self._start(data, None).learn_rows(data, self.class_weight))
        context.call_on_fit_task_end(estimator=self, reconstruction_attributes={})
        return self

    def _start(self, data: TrainingData, classes: Any) -> LearnedRows:
        """Kernel and landmarks by the first rows."""
        kernel, points = self._make_kernel(data), None
        if not isinstance(kernel, Linear):
            random = check_random_state(self.random_state)
            points = choose_landmarks(self.landmarks, data.X, random)
        return nothing_learned(
            data,
            None if points is None else kernel,
            points,
            classes=classes,
            class_weight=self.class_weight,
            settled=self._settled(),
        )

    def _settled(self) -> dict[str, Any]:
        """The parameters that the sums depend on; a rule for weights of classes comes later."""
        names = ("kernel", "gamma", "degree", "coef0", "landmarks", "class_weight")
        values = {name: getattr(self, name) for name in names}
        if is_by_class(self.class_weight):
            values["class_weight"] = "by class"
        return values

    def _set_machine(self, learned: LearnedRows) -> ProximalClassifier:
        """Solve, and set the fitted attributes."""
        expansion, solution = proximal_machine(learned, self.C, self.class_weight)
        self.expansion_, self._learned, self.classes_ = expansion, learned, learned.classes
        self.residual_, self.n_iter_ = solution.residual, solution.n_factorizations
        return self


def _parts(block: Any) -> tuple[Any, ...]:
    """Rows, labels and perhaps weights."""
    if not isinstance(block, tuple | list) or len(block) not in (2, 3):
        raise ValueError(
            f"Each block must be (X, y) or (X, y, sample_weight); there is one of type "
            f"{type(block).__name__}."
        )
    return tuple(block)

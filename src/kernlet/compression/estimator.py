"""Meta-estimators that fit a kernel machine and rebuild it from few centers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import (
    ClassifierMixin,
    MetaEstimatorMixin,
    OutlierMixin,
    RegressorMixin,
    clone,
)
from sklearn.utils import _safe_indexing, check_array, check_random_state, indexable
from sklearn.utils._metadata_requests import _routing_enabled
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    StrOptions,
)
from sklearn.utils._tags import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d

from kernlet._typing import Floats, Indices
from kernlet.compression.choice import ValidationData, choose_size, compress_model
from kernlet.compression.record import Compression, TriedSize
from kernlet.expansion import KernelExpansion
from kernlet.input_errors import explained, numeric_targets
from kernlet.model.convert import summary_of, unwrapped
from kernlet.model.model import Kind, Model, as_classifier, probability_method
from kernlet.model.scoring import SCORING_CONSTRAINTS, QuantileScoreMixin
from kernlet.notebook import input_and_output
from kernlet.progress import Progress
from kernlet.sampling import hold_out
from kernlet.sklearn_base import (
    KernletEstimator,
    check_label_types,
    check_weights,
    checked_method,
    documentation_page,
    is_source,
    values_of_rows,
    warn_user,
)
from kernlet.threads import single_thread

_TRAINING_ROWS = "the training rows"  # what the rows of a record are, in words

_MANY_ROWS = 20_000  # for which a support vector machine takes minutes


def _machine(model: Any, kind: Kind) -> Model:
    """The Model of a machine of one kind, with the steps of its Pipeline as they are."""
    if kind == "classifier":
        return as_classifier(model)
    machine = unwrapped(model)
    if machine.kind == kind:
        return machine
    wanted = "regressor. Give a fitted SVR, NuSVR, KernelRidge, GaussianProcessRegressor"
    if kind == "novelty":
        wanted = "novelty detector. Give a fitted OneClassSVM"
    raise TypeError(
        f"{type(model).__name__} is not a kernel {wanted} or kernlet estimator, a Pipeline that "
        "ends in one, or the path of a LIBSVM model file."
    )


def has_class_weight(model: Any) -> bool:
    """Whether the model was trained with a class_weight, whose row weights are not known here."""
    parameters = model.get_params() if hasattr(model, "get_params") else {}
    return any(
        name.endswith("class_weight") and value is not None for name, value in parameters.items()
    )


def _fitted(estimator: Any, X: Any, y: Any, params: dict[str, Any]) -> Any:
    """A fitted clone of the estimator; its errors name the column and what to do."""
    try:
        return clone(estimator).fit(X, y, **params)
    except ValueError as error:
        raise explained(error, X, estimator) from None


def _checked_weights(name: str, value: Any, X: Any) -> Any:
    """Weights of rows, which SVC takes even if negative; other parameters of a fit as they are."""
    is_weight = name.rpartition("__")[2] == "sample_weight" and value is not None
    return check_weights(value, X) if is_weight else value


def _check_numbers(y: Any) -> None:
    """Refuse targets that are not finite numbers."""
    if np.asarray(y).dtype.kind == "c":
        raise ValueError("Complex data not supported: give real numbers as y.")
    values = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y")
    if values.dtype.kind == "O":
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                "y holds values that are not numbers, and a regression needs numbers."
            ) from None
    numeric_targets(values)


def _warn_of_many_rows(estimator: Any, X: Any) -> None:
    """Say before the fit of a support vector machine that it will take long."""
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    other = _OTHERS.get(getattr(last, "_impl", ""))  # of SVC, NuSVC, SVR and NuSVR
    if other is not None and _num_samples(X) > _MANY_ROWS:
        warn_user(
            f"{type(last).__name__} takes minutes to hours for {_num_samples(X):,} rows: its time "
            f"grows faster than their square. {other} trains on all of them in seconds to a "
            "minute; or give fewer rows.",
            UserWarning,
        )


_OTHERS = dict.fromkeys(("c_svc", "nu_svc"), "CompactKernelClassifier")
_OTHERS |= dict.fromkeys(("epsilon_svr", "nu_svr"), "CompactKernelRegressor")


class Compressed(MetaEstimatorMixin, KernletEstimator):
    """What the estimators below share: their parameters, the compression, and its result."""

    model_: Model
    compression_: Compression
    classes_: Any
    _kind: ClassVar[Kind]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "n_centers": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
        ],
        "n_starts": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "scoring": SCORING_CONSTRAINTS,
        "keep_estimator": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        n_centers: Any = 100,
        *,
        n_starts: int = 1,
        max_iter: int = 200,
        validation_fraction: float = 0.2,
        scoring: Any = None,
        keep_estimator: bool = False,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_centers = n_centers
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
        self.scoring = scoring
        self.keep_estimator = keep_estimator
        self.verbose = verbose
        self.random_state = random_state

    def _fit(self, X: Any, y: Any, params: dict[str, Any]) -> Any:
        """Fit the estimator and compress it."""
        if _routing_enabled():
            params = process_routing(self, "fit", **params).estimator.fit
        params = {name: _checked_weights(name, value, X) for name, value in params.items()}
        _warn_of_many_rows(self.estimator, X)
        n_centers: Any = self.n_centers
        path: tuple[TriedSize, ...] = ()
        with Progress.start(self) as progress:
            if n_centers == "auto":
                n_centers, path = self._choose_size(X, y, params, progress)
            with progress.task("estimator"):
                fitted = _fitted(self.estimator, X, y, params)
            original, given = _machine(fitted, self._kind), (X, y, params.get("sample_weight"))
            small, record = self._compress(
                fitted, original, n_centers, given, _TRAINING_ROWS, progress
            )
        self.__dict__.pop("estimator_", None)  # of an earlier fit
        if self.keep_estimator:
            self.estimator_ = fitted
        return self._set_model(small, replace(record, path=path))

    @single_thread()
    def _compress(
        self,
        model: Any,
        original: Model,
        n_centers: Any,
        given: tuple[Any, Any, Any],
        rows_are: str,
        progress: Progress,
    ) -> tuple[Model, Compression]:
        """A fitted machine with few centers, and a record of what was done."""
        (X, y, sample_weight), data = given, None
        if original.missing == "distance":
            raise ValueError(
                "The machine leaves missing features out of its distances, and compress computes "
                "with all features: train a smaller one with max_bytes instead."
            )
        if self._kind == "novelty" and (y is not None or self.scoring is not None):
            raise ValueError(
                "A novelty detector is made small by its own labels, not by given ones: leave out "
                "y and scoring."
            )
        if is_source(X):
            raise TypeError(
                "X is read block by block, and compress takes an array: give some of its rows."
            )
        if X is not None:
            estimator = model if hasattr(model, "n_features_in_") else None
            is_model = isinstance(model, Model)
            rows = original.features(X) if is_model else original.rows(X, estimator)
            data = ValidationData.of(
                original,
                rows,
                y,
                sample_weight,
                (self.validation_fraction, check_random_state(self.random_state)),
                not has_class_weight(model),
                self.scoring,
                model.predict_proba(X) if hasattr(model, "predict_proba") else None,
            )
        elif any(part is not None for part in (y, sample_weight, self.scoring)):
            raise ValueError("y, sample_weight and scoring need rows X; give X too.")
        small, record = compress_model(original, n_centers, data, progress, **self._search)
        return small, replace(record, rows="" if data is None else rows_are)

    def _choose_size(
        self, X: Any, y: Any, params: dict[str, Any], progress: Progress
    ) -> tuple[int, tuple[TriedSize, ...]]:
        """The number of centers, by an estimator that has not seen the held-out rows."""
        if y is None and self._kind != "novelty":
            raise ValueError(
                f"This {self._kind} requires y to be passed, but the target y is None."
            )
        X, y = indexable(X, y)
        kept, held_out = self._split(X, y, check_random_state(self.random_state))
        shape = (_num_samples(X),)
        kept_params = {
            name: _safe_indexing(value, kept) if np.shape(value)[:1] == shape else value
            for name, value in params.items()
        }
        with progress.task("trial estimator"):
            kept_rows = _safe_indexing(X, kept)
            kept_labels = None if y is None else _safe_indexing(y, kept)
            trial = _fitted(self.estimator, kept_rows, kept_labels, kept_params)
        model = _machine(trial, self._kind)
        weights, may_refit = params.get("sample_weight"), not has_class_weight(self.estimator)
        rows = model.rows(X, trial)
        data = ValidationData.of(model, rows, y, weights, held_out, may_refit, self.scoring)
        return choose_size(model, data, progress, **self._search)

    def _split(self, X: Any, y: Any, random: np.random.RandomState) -> tuple[Indices, Indices]:
        """Rows to fit a trial estimator to, and held-out rows."""
        n_rows = _num_samples(X)
        order = random.permutation(n_rows)
        n_held_out = min(max(1, round(self.validation_fraction * n_rows)), n_rows - 1)
        return np.sort(order[n_held_out:]), np.sort(order[:n_held_out])

    @property
    def _search(self) -> dict[str, Any]:
        names = ("n_starts", "max_iter", "random_state")
        return {name: getattr(self, name) for name in names}

    def _set_model(self, model: Model, compression: Compression) -> Any:
        self.compression_ = compression
        self.n_iter_ = compression.n_steps
        if model.kind == "classifier":
            self.classes_ = model.classes
        names: Any = model.feature_names_in
        names = None if names is None else np.array(names, dtype=object)
        for name, value in (("n_features_in_", model.n_features_in), ("feature_names_in_", names)):
            self.__dict__.pop(name, None)  # of an earlier fit
            if value is not None:
                setattr(self, name, value)
        self.model_ = replace(model, summary=summary_of(self))
        return self

    def _facts(self) -> list[tuple[str, str]]:
        if not hasattr(self, "compression_"):
            return []
        facts = [*self.compression_._facts(), *input_and_output(self).items()]
        if self.nbytes_ != self.compression_.bytes_after:
            facts.append(("bytes stored", f"{self.nbytes_:,}, preprocessing included"))
        return facts

    @property
    def expansion_(self) -> KernelExpansion:
        """The smaller machine."""
        return self.model_.expansion

    @property
    def n_centers_(self) -> int:
        """Distinct centers: the kernel evaluations that one prediction costs."""
        return self.model_.expansion.n_centers

    @property
    def nbytes_(self) -> int:
        """Bytes of everything that :func:`kernlet.save` stores, steps of a Pipeline included."""
        return self.model_.nbytes

    def _outputs(self, X: Any) -> Floats:
        check_is_fitted(self, "model_")
        return self.model_.outputs(self.model_.rows(X, self))

    def get_metadata_routing(self) -> MetadataRouter:
        """Where metadata go: to the estimator's ``fit``."""
        return MetadataRouter(owner=self).add(
            estimator=self.estimator,
            method_mapping=MethodMapping().add(caller="fit", callee="fit"),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        is_file = not hasattr(self.estimator, "__sklearn_tags__")  # of LIBSVM
        tags.input_tags.sparse = is_file or get_tags(self.estimator).input_tags.sparse
        if not is_file:
            tags.target_tags.multi_output = get_tags(self.estimator).target_tags.multi_output
        return tags


class CompressedClassifier(ClassifierMixin, Compressed):
    """A kernel SVM rebuilt from few synthetic centers.

    Fits the estimator, approximates its decision functions in the kernel's feature space by
    ``n_centers`` points that all outputs share, and takes the coefficients that do best on a
    validation part. :func:`compress` does the same to a classifier that is already fitted.

    Parameters
    ----------
    estimator : classifier
        What is fitted and compressed: an SVC or NuSVC, a OneVsRestClassifier or Pipeline of them,
        or a kernlet classifier.
    n_centers : int, float or "auto", default=100
        Centers to keep: a number, a fraction of those of the estimator, or the smallest number
        on a geometric path whose loss in accuracy, on rows that neither a trial estimator nor
        its compression has seen, is within one standard error of that loss.
    n_starts : int, default=1
        Searches for centers, of which the best is kept.
    max_iter : int, default=200
        Steps of a search.
    validation_fraction : float, default=0.2
        Share of the rows on which choices are made, and probabilities calibrated.
    scoring : str, callable or None, default=None
        The score by which coefficients and numbers of centers are chosen: accuracy, or a scorer
        of scikit-learn such as "balanced_accuracy", "f1_macro" or "neg_log_loss". A callable
        ``(estimator, X, y)`` is given row numbers as X.
    keep_estimator : bool, default=False
        Whether to keep the fitted original as ``estimator_``, with all its support vectors.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws the validation part and the starts of the search.

    Attributes
    ----------
    estimator_ : estimator
        The fitted original, with ``keep_estimator=True``.
    model_ : Model
        The smaller machine with its classes, its preprocessing and the meaning of its outputs.
    expansion_ : KernelExpansion
        The smaller machine, behind the preprocessing of a Pipeline.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    nbytes_ : int
        Bytes of everything that :func:`kernlet.save` stores, steps of a Pipeline included.
    compression_ : Compression
        Centers, bytes and accuracy before and after.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    n_iter_ : int
        Steps of the search for centers.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

    Notes
    -----
    The estimator comes first: the time of an SVC grows faster than the square of the rows. Each of
    the at most ``n_starts * max_iter`` steps of the search then takes ``n_centers`` times the
    centers of the estimator times (features + outputs) multiplications, and choosing coefficients
    ``n_rows * n_centers ** 2`` per output. An SVC of k classes has k (k - 1) / 2 outputs: beyond
    some 50 classes give a OneVsRestClassifier of it, which has k, or use CompactKernelClassifier.
    ``n_centers="auto"`` fits the estimator twice and searches for every size it tries.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> from kernlet import CompressedClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> svm = make_pipeline(StandardScaler(), SVC())
    >>> small = CompressedClassifier(svm, n_centers=10, random_state=0).fit(X, y)
    >>> small.n_centers_, small.compression_.agreement > 0.97
    (10, True)
    """

    _kind = "classifier"

    @partial(checked_method, skip_nested_validation=False)
    def fit(self, X: Any, y: Any, **params: Any) -> CompressedClassifier:
        """Fit the estimator and compress it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **params : dict
            Passed on to the estimator's ``fit``.

        Returns
        -------
        self : object
        """
        check_label_types(y)
        return self._fit(X, y, params)

    def _split(self, X: Any, y: Any, random: np.random.RandomState) -> tuple[Indices, Indices]:
        labels = column_or_1d(y)
        check_classification_targets(labels)
        return hold_out(labels, self.validation_fraction, random)

    def decision_function(self, X: Any) -> Floats:
        """Decision values, of the shape that the estimator's have.

        One-vs-one machines whose coefficients were refitted have one value per class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A source of rows (:mod:`kernlet.rows`) or a Dask collection is read block by block.

        Returns
        -------
        values : ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
        """
        if is_source(X):
            return values_of_rows(self, X, self.decision_function)
        outputs = self._outputs(X)  # first: it checks that there is a model
        return self.model_.scores(outputs)

    def predict(self, X: Any) -> Any:
        """Class labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        if is_source(X):
            return values_of_rows(self, X, self.predict)
        outputs = self._outputs(X)
        return self.classes_[self.model_.codes(outputs)]

    @probability_method
    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities: the softmax of the decision values over one temperature.

        They exist where labels were given to compress by, or where the original had some. Of a
        machine with an output per pair of classes the largest one may, as of an SVC, belong to
        another class than the one that wins most pairs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        if is_source(X):
            return values_of_rows(self, X, self.predict_proba)
        outputs = self._outputs(X)
        return self.model_.probabilities(outputs)

    @probability_method
    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)
        """
        if is_source(X):
            return values_of_rows(self, X, self.predict_log_proba)
        outputs = self._outputs(X)
        return self.model_.probabilities(outputs, log=True)


class CompressedRegressor(QuantileScoreMixin, RegressorMixin, Compressed):
    """A kernel regressor rebuilt from few synthetic centers.

    Fits the estimator, approximates its functions in the kernel's feature space by ``n_centers``
    points that all targets share, and takes the coefficients that do best on a validation part:
    projected, fitted to the estimator's values, or fitted to y by ridge regression. Quantiles are
    not fitted to y, and are scored by D2 of the pinball loss.
    :func:`compress` does the same to a regressor that is already fitted.

    Parameters
    ----------
    estimator : regressor
        What is fitted and compressed: an SVR, NuSVR, KernelRidge or GaussianProcessRegressor, a
        Pipeline of one of them, or a kernlet regressor.
    n_centers : int, float or "auto", default=100
        Centers to keep: a number, a fraction of those of the estimator, or the smallest number
        on a geometric path whose loss in R2, on rows that neither a trial estimator nor its
        compression has seen, is within one standard error of that loss.
    n_starts : int, default=1
        Searches for centers, of which the best is kept.
    max_iter : int, default=200
        Steps of a search.
    validation_fraction : float, default=0.2
        Share of the rows on which choices are made.
    scoring : str, callable or None, default=None
        The score by which coefficients and numbers of centers are chosen: R2, or a scorer of
        scikit-learn such as "neg_mean_absolute_error". A callable ``(estimator, X, y)`` is given
        row numbers as X.
    keep_estimator : bool, default=False
        Whether to keep the fitted original as ``estimator_``, with all its centers.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws the validation part and the starts of the search.

    Attributes
    ----------
    estimator_ : estimator
        The fitted original, with ``keep_estimator=True``.
    model_ : Model
        The smaller machine with its preprocessing.
    expansion_ : KernelExpansion
        The smaller machine, behind the preprocessing of a Pipeline.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    nbytes_ : int
        Bytes of everything that :func:`kernlet.save` stores, steps of a Pipeline included.
    compression_ : Compression
        Centers, bytes and R2 before and after.
    quantiles_ : tuple of float or None
        The quantiles that the estimator predicts, or None.
    n_iter_ : int
        Steps of the search for centers.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

    Notes
    -----
    The estimator comes first: the time of an SVR grows faster than the square of the rows, that of
    KernelRidge and GaussianProcessRegressor with their cube. Each of the at most
    ``n_starts * max_iter`` steps of the search then takes ``n_centers`` times the centers of the
    estimator times (features + targets) multiplications, and choosing coefficients
    ``n_rows * n_centers ** 2``; memory is that of ``n_centers`` times the centers of the estimator.

    See Also
    --------
    kernlet.CompactKernelRegressor : Trains few centers from the start, also on many rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVR
    >>> from kernlet import CompressedRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> svm = make_pipeline(StandardScaler(), SVR(C=100.0, gamma=0.01))
    >>> small = CompressedRegressor(svm, n_centers=10, random_state=0).fit(X, y)
    >>> small.n_centers_, small.compression_.agreement > 0.95
    (10, True)
    """

    _kind = "regressor"

    @partial(checked_method, skip_nested_validation=False)
    def fit(self, X: Any, y: Any, **params: Any) -> CompressedRegressor:
        """Fit the estimator and compress it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        **params : dict
            Passed on to the estimator's ``fit``.

        Returns
        -------
        self : object
        """
        if y is not None:  # else the estimator says what it needs
            _check_numbers(y)
        return self._fit(X, y, params)

    def predict(self, X: Any) -> Floats:
        """Predicted numbers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A source of rows (:mod:`kernlet.rows`) or a Dask collection is read block by block.

        Returns
        -------
        values : ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        if is_source(X):
            return values_of_rows(self, X, self.predict)
        outputs = self._outputs(X)
        return self.model_.scores(outputs)

    @property
    def quantiles_(self) -> tuple[float, ...] | None:
        """Those that are predicted, in ascending order."""
        return self.model_.quantiles


class CompressedNoveltyDetector(OutlierMixin, Compressed):
    """A OneClassSVM rebuilt from few synthetic centers: what :func:`kernlet.compress` makes of one.

    Parameters
    ----------
    estimator : novelty detector
        What is fitted and compressed: a OneClassSVM, a Pipeline of one, or a kernlet detector.
    n_centers : int, float or "auto", default=100
        Centers to keep: a number, a fraction of those of the estimator, or the smallest number
        whose labels differ from those of the estimator by at most 0.01 of held-out rows.
    n_starts : int, default=1
        Searches for centers, of which the best is kept.
    max_iter : int, default=200
        Steps of a search.
    validation_fraction : float, default=0.2
        Share of the rows on which choices are made.
    scoring : None, default=None
        Not used: a novelty detector is compared with the labels of the estimator.
    keep_estimator : bool, default=False
        Whether to keep the fitted original as ``estimator_``, with all its centers.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws the validation part and the starts of the search.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import OneClassSVM
    >>> from kernlet import compress
    >>> X = np.random.RandomState(0).randn(500, 2)
    >>> small = compress(OneClassSVM(nu=0.1).fit(X), 20, X, random_state=0)
    >>> type(small).__name__, small.n_centers_
    ('CompressedNoveltyDetector', 20)
    >>> small.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    """

    _kind = "novelty"
    _doc_link_template = documentation_page("compress")

    @partial(checked_method, skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, **params: Any) -> CompressedNoveltyDetector:
        """Fit the estimator to X and compress it; y is ignored."""
        return self._fit(X, None, params)

    @property
    def offset_(self) -> float:
        """What ``score_samples`` exceeds ``decision_function`` by."""
        return self.model_.offset

    def decision_function(self, X: Any) -> Floats:
        """How normal rows are: negative for outliers."""
        if is_source(X):
            return values_of_rows(self, X, self.decision_function)
        outputs = self._outputs(X)
        return self.model_.scores(outputs)

    def score_samples(self, X: Any) -> Floats:
        """The same before the threshold ``offset_`` was subtracted."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> Any:
        """1 for inliers, where ``decision_function`` is at least 0, and -1 for outliers."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

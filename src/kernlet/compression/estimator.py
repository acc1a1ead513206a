"""The compressed classifier, and compress()."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context, clone
from sklearn.utils import (
    _safe_indexing,
    check_array,
    check_consistent_length,
    check_random_state,
    indexable,
)
from sklearn.utils._metadata_requests import _routing_enabled
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils._tags import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _num_samples,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from kernlet._typing import Floats
from kernlet.compression.compress import (
    Compression,
    Evidence,
    PathPoint,
    judge,
    original_score,
    predict_codes,
    shrink,
    sizes_to_try,
    weighs_classes,
)
from kernlet.expansion import KernelExpansion
from kernlet.model.model import Adopted, adopt, decision_values
from kernlet.rows import is_source
from kernlet.sampling import hold_out
from kernlet.sklearn_base import label_codes, values_of_rows


class CompressedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A kernel SVM rebuilt from few synthetic centers.

    Fits the estimator, approximates its decision functions in the kernel's feature space by
    ``n_centers`` points that all outputs share, and takes the coefficients that do best on a
    validation part. :func:`compress` does the same to a machine that is fitted already.

    Parameters
    ----------
    estimator : SVC, NuSVC, a OneVsRestClassifier or Pipeline of them, or a kernlet classifier
    n_centers : int, float or "auto", default=100
        Centers to keep: a number, a fraction of those of the estimator, or the smallest number
        on a geometric path that stays within one standard error of the estimator's accuracy
        on the validation part.
    n_starts : int, default=1
        Searches for centers, of which the best is kept.
    max_iter : int, default=200
        Steps of a search.
    validation_fraction : float, default=0.2
        Share of the rows on which choices are made.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    estimator_ : estimator
        The fitted original.
    adopted_ : Adopted
        The smaller machine with its classes, its preprocessing and the meaning of its outputs.
    expansion_ : KernelExpansion
        The smaller machine, behind the preprocessing of a Pipeline.
    n_centers_ : int
    compression_ : Compression
        Centers, bytes and accuracy before and after.
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Steps of the search for centers.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where the estimator has them.

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

    adopted_: Adopted
    compression_: Compression

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
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_centers = n_centers
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
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
        if _routing_enabled():
            params = process_routing(self, "fit", **params).estimator.fit
        n_centers: Any = self.n_centers
        path: tuple[PathPoint, ...] = ()
        if n_centers == "auto":
            n_centers, path = self._choose_size(X, y, params)
        self.estimator_ = clone(self.estimator).fit(X, y, **params)
        self._compress(adopt(self.estimator_), n_centers, X, y, params.get("sample_weight"))
        if path:
            self.compression_ = replace(self.compression_, path=path)
        return self

    def _choose_size(
        self, X: Any, y: Any, params: dict[str, Any]
    ) -> tuple[int, tuple[PathPoint, ...]]:
        """The number of centers, by an estimator that has not seen the validation part."""
        if y is None:
            raise ValueError("This classifier requires y to be passed, but the target y is None.")
        X, y = indexable(X, y)
        labels = column_or_1d(y)
        check_classification_targets(labels)
        random = check_random_state(self.random_state)
        kept, held_out = hold_out(labels, self.validation_fraction, random)
        some = {
            name: _safe_indexing(value, kept) if np.shape(value)[:1] == labels.shape else value
            for name, value in params.items()
        }
        trial = clone(self.estimator)
        trial.fit(_safe_indexing(X, kept), _safe_indexing(y, kept), **some)
        adopted = self._take_over(adopt(trial))
        evidence = self._evidence(adopted, X, y, held_out, params.get("sample_weight"))
        return self._walk(adopted, evidence)

    def _walk(self, adopted: Adopted, evidence: Evidence) -> tuple[int, tuple[PathPoint, ...]]:
        """Go up a path of sizes until one is good enough."""
        score, error = original_score(evidence)
        path: list[PathPoint] = []
        for size in sizes_to_try(adopted):
            path.append(PathPoint(size, judge(adopted, size, evidence, **self._search_options())))
            if path[-1].score >= score - error:
                return size, tuple(path)
        warnings.warn(
            f"No number of centers up to {path[-1].n_centers} came within one standard error "
            f"({error:.3f}) of the original's score {score:.3f} on the validation part: this "
            "machine does not compress. The largest number tried is used.",
            UserWarning,
            stacklevel=6,
        )
        return path[-1].n_centers, tuple(path)

    def _compress(self, adopted: Adopted, n_centers: Any, X: Any, y: Any, weights: Any) -> None:
        """Set the fitted attributes; without rows, the coefficients are projected."""
        self._take_over(adopted)
        evidence = None
        if X is not None:
            n_rows = _num_samples(X)
            random = check_random_state(self.random_state)
            count = max(1, round(self.validation_fraction * n_rows))
            held_out = random.permutation(n_rows)[:count]
            evidence = self._evidence(adopted, X, y, held_out, weights)
        path: tuple[PathPoint, ...] = ()
        if n_centers == "auto":
            if evidence is None or evidence.codes is None:
                raise ValueError('n_centers="auto" needs rows X and labels y to choose by.')
            n_centers, path = self._walk(adopted, evidence)
        elif not isinstance(n_centers, Integral):
            n_centers = max(1, round(n_centers * adopted.expansion.n_centers))
        self.adopted_, compression = shrink(
            adopted, int(n_centers), evidence, **self._search_options()
        )
        self.compression_ = replace(compression, path=path)
        self.n_iter_ = compression.n_steps

    def _take_over(self, adopted: Adopted) -> Adopted:
        """Be the adopted machine, as large as it is, so that its rows can be checked."""
        self.adopted_ = adopted
        self.classes_ = adopted.classes
        for name, value in (
            ("n_features_in_", adopted.n_features),
            ("feature_names_in_", adopted.feature_names),
        ):
            if value is not None:
                setattr(self, name, value)
            else:
                self.__dict__.pop(name, None)
        return adopted

    def _search_options(self) -> dict[str, Any]:
        return {
            "n_starts": self.n_starts,
            "max_iter": self.max_iter,
            "random_state": check_random_state(self.random_state),
        }

    def _evidence(self, adopted: Adopted, X: Any, y: Any, held_out: Any, weights: Any) -> Evidence:
        rows = self._rows(X)
        check_consistent_length(rows, y, weights)
        if rows.shape[0] < 2:
            raise ValueError("X has one row; give at least two to choose by, or none at all.")
        validation = np.zeros(rows.shape[0], dtype=bool)
        validation[held_out] = True
        return Evidence(
            rows,
            predict_codes(adopted, rows),
            None if y is None else label_codes(adopted.classes, y),
            np.ones(len(validation)) if weights is None else np.asarray(weights, dtype=float),
            validation,
            may_refit=not weighs_classes(self.estimator),
        )

    @property
    def expansion_(self) -> KernelExpansion:
        """The smaller machine."""
        return self.adopted_.expansion

    @property
    def n_centers_(self) -> int:
        """Distinct centers: the kernel evaluations that one prediction costs."""
        return self.adopted_.expansion.n_centers

    def decision_function(self, X: Any) -> Floats:
        """Decision values, of the shape that the estimator's have.

        One-vs-one machines whose coefficients were fitted anew have one value a class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A source of rows (:mod:`kernlet.rows`) or a Dask collection goes block by block.

        Returns
        -------
        values : ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
        """
        if is_source(X):
            return values_of_rows(self, X, self.decision_function)
        outputs = self._outputs(X)
        adopted = self.adopted_
        return decision_values(outputs, adopted.scheme, len(self.classes_), adopted.votes)

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
        rows = self._rows(X)
        return self.classes_[predict_codes(self.adopted_, rows)]

    def _outputs(self, X: Any) -> Floats:
        rows = self._rows(X)
        return self.adopted_.expansion.decision_values(rows)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "adopted_")
        if not self.adopted_.preprocessing:
            return validate_data(
                self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
            )
        for _, transformer in self.adopted_.preprocessing:
            X = transformer.transform(X)
        return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])

    def get_metadata_routing(self) -> MetadataRouter:
        """Where metadata go: to the estimator's ``fit``."""
        return MetadataRouter(owner=self).add(
            estimator=self.estimator,
            method_mapping=MethodMapping().add(caller="fit", callee="fit"),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        else:  # a LIBSVM model file
            tags.input_tags.sparse = True
        return tags


def compress(
    model: Any,
    n_centers: Any,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    n_starts: int = 1,
    max_iter: int = 200,
    validation_fraction: float = 0.2,
    random_state: Any = None,
) -> CompressedClassifier:
    """Make a fitted kernel machine small.

    Parameters
    ----------
    model : fitted classifier or path
        An SVC or NuSVC, a OneVsRestClassifier or OneVsOneClassifier of them, a Pipeline or
        search around one, a kernlet classifier, or the path of a LIBSVM model file.
    n_centers : int, float or "auto"
        A number of centers, a fraction of the model's, or the smallest number that stays within
        one standard error of the model's accuracy on part of X, y. Rows that the model was not
        trained on make that choice honest.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to choose the coefficients by, and to report agreement on. Without them the
        coefficients are projected in feature space.
    y : array-like of shape (n_samples,), default=None
        Labels. With them one-vs-rest coefficients fitted to y are tried too, unless the model has
        a ``class_weight``.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights that the model was trained with.
    n_starts, max_iter, validation_fraction, random_state : see CompressedClassifier

    Returns
    -------
    small : CompressedClassifier
        Fitted; its ``compression_`` tells what was done and what it cost.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import SVC
    >>> from kernlet import compress
    >>> X, y = load_digits(return_X_y=True)
    >>> small = compress(SVC().fit(X[:900], y[:900]), 50, X[:900], y[:900], random_state=0)
    >>> small.compression_.centers_before > 400, small.score(X[900:], y[900:]) > 0.9
    (True, True)
    """
    small = CompressedClassifier(
        model,
        n_centers,
        n_starts=n_starts,
        max_iter=max_iter,
        validation_fraction=validation_fraction,
        random_state=random_state,
    )
    constraints = dict(small._parameter_constraints)
    del constraints["estimator"]  # fitted already, and may be a file
    parameters = {name: getattr(small, name) for name in constraints}
    validate_parameter_constraints(constraints, parameters, caller_name="compress")
    small.estimator_ = model
    small._compress(adopt(model), n_centers, X, y, sample_weight)
    return small

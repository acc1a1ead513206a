"""Fewer centers for a trained classifier: the algorithm, compress() and CompressedClassifier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context, clone
from sklearn.utils import (
    _safe_indexing,
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
from sklearn.utils.validation import check_is_fitted, column_or_1d

from kernlet._typing import Floats, Indices
from kernlet.compression.refit import match, refit
from kernlet.compression.synthetic import synthesize
from kernlet.expansion import KernelExpansion
from kernlet.model.model import Model, Scheme, as_classifier, summary_of
from kernlet.sampling import hold_out
from kernlet.sklearn_base import (
    Progress,
    is_source,
    label_codes,
    one_vs_rest_signs,
    values_of_rows,
    warn_user,
)
from kernlet.threads import single_thread

# How this works
# --------------
# 1. Centers. `synthesize` searches for n_centers points whose span in the kernel's feature space
#    is closest to the original's outputs, all outputs sharing the points (the reduced set of
#    Burges, 1996; here by variable projection as in Gonzalez-Castano and Meyer, 2000). This needs
#    no data.
# 2. Coefficients. For given centers there are three kinds, in order of what they need:
#      projected  the orthogonal projection in feature space; no data;
#      matched    least squares onto the original's outputs on rows X; the rows say where in
#                 feature space closeness matters;
#      refit      a squared-hinge machine trained on X, y over these centers, for a few values
#                 of C; the only kind that may be better than the original, and one-vs-rest
#                 even where the original has an output per pair of classes.
#    Each is made from the rows outside the validation part and scored on the validation part;
#    the winner is made again from all rows.
# 3. Size. With n_centers="auto" sizes double until one is within one standard error of the
#    original. The validation part is split in two: one half chooses the kind of coefficients,
#    the other judges the size, so that the maximum over kinds does not flatter a small size.

Coefficients = Literal["projected", "matched", "refit"]

# C of the refits. The centers already limit the capacity, so that the errors may cost much; three
# values a decade apart are enough to see whether they should.
_REFIT_COSTS = (1.0, 10.0, 100.0)


@dataclass(frozen=True)
class TriedSize:
    """A number of centers that was tried, and its score on held-out rows."""

    n_centers: int
    score: float


@dataclass(frozen=True)
class Compression:
    """What a compression did.

    Parameters
    ----------
    centers_before, centers_after : int
    bytes_before, bytes_after : int
        Of centers, coefficients and intercepts in the precision they are held in; before, with
        the coefficients as LIBSVM stores them.
    residual : float
        Relative residual of the projected machine in feature space.
    n_steps : int
        Steps of the search for centers; 1 where no search is needed.
    coefficients : {"projected", "matched", "refit"}
        Origin of the coefficients: the projection in feature space, least squares onto the
        decision values of the original on X, or a squared-hinge fit to y, one class against the
        rest.
    agreement : float or None
        Share of the rows of X on which both predict the same.
    accuracy_before, accuracy_after : float or None
        On X, y: optimistic if the original was trained on them.
    path : tuple of TriedSize
        The numbers of centers tried by ``n_centers="auto"``.
    """

    centers_before: int
    centers_after: int
    bytes_before: int
    bytes_after: int
    residual: float
    n_steps: int
    coefficients: Coefficients
    agreement: float | None = None
    accuracy_before: float | None = None
    accuracy_after: float | None = None
    path: tuple[TriedSize, ...] = ()


@dataclass(frozen=True, eq=False)
class ValidationData:
    """Rows from which coefficients are made, and held-out rows on which choices are made.

    ``X`` are rows as the expansion takes them, ``original`` the classes (as numbers) that the
    original predicts, ``codes`` those of y where it is given, ``is_held_out`` a mask.
    """

    X: Any
    original: Indices
    codes: Indices | None
    weights: Floats
    is_held_out: Any
    may_refit: bool

    @classmethod
    def of(
        cls, model: Model, rows: Any, y: Any, weights: Any, held_out: Indices, may_refit: bool
    ) -> ValidationData:
        """Data for compressing a model, from rows of features."""
        check_consistent_length(rows, y, weights)
        if rows.shape[0] < 2:
            raise ValueError("X has one row; give at least two to choose by, or none at all.")
        is_held_out = np.zeros(rows.shape[0], dtype=bool)
        is_held_out[held_out] = True
        X = model.scaled(rows)
        return cls(
            X,
            predict_codes(model, X),
            None if y is None else label_codes(model.classes, y),
            np.ones(len(is_held_out)) if weights is None else np.asarray(weights, dtype=float),
            is_held_out,
            may_refit,
        )

    def score(self, codes: Indices, rows: Indices) -> float:
        """Weighted share of the given rows that are predicted as y or, without y, as before."""
        target = self.original if self.codes is None else self.codes
        return float(np.average(codes == target[rows], weights=self.weights[rows]))

    def split_half(self) -> tuple[Indices, Indices]:
        """The held-out rows, one half to choose by and one to judge by."""
        held_out = np.flatnonzero(self.is_held_out)
        return (held_out[::2], held_out[1::2]) if len(held_out) > 1 else (held_out, held_out)

    def original_score(self) -> tuple[float, float]:
        """The original's score on the rows to judge by, and its standard error."""
        _, to_judge = self.split_half()
        score, n = self.score(self.original[to_judge], to_judge), len(to_judge)
        # Laplace's rule: a perfect score on few rows would otherwise have no error at all.
        share = (n * score + 1) / (n + 2)
        return score, float(np.sqrt(share * (1 - share) / n))


def has_class_weight(model: Any) -> bool:
    """Whether the model was trained with a class_weight, whose row weights are not known here."""
    parameters = model.get_params() if hasattr(model, "get_params") else {}
    return any(
        name.endswith("class_weight") and value is not None for name, value in parameters.items()
    )


def predict_codes(model: Model, X: Any) -> Indices:
    """Class numbers for rows as the expansion takes them."""
    return model.codes(model.expansion.decision_values(X))


# -- The algorithm -----------------------------------------------------------------------------


def compress_model(
    model: Model, n_centers: Any, data: ValidationData | None, progress: Progress, **search: Any
) -> tuple[Model, Compression]:
    """A Model of few synthetic centers, and a record of what was done.

    Without data the coefficients are projected. ``search`` has ``n_starts``, ``max_iter`` and
    ``random_state`` of the search for centers.
    """
    path: tuple[TriedSize, ...] = ()
    if n_centers == "auto":
        if data is None or data.codes is None:
            raise ValueError('n_centers="auto" needs rows X and labels y to choose by.')
        n_centers, path = choose_size(model, data, progress, **search)
    elif not isinstance(n_centers, Integral):
        n_centers = max(1, round(n_centers * model.expansion.n_centers))
    with progress.task("compression"):
        reduction = synthesize(model.expansion, int(n_centers), **search)
        # The temperature belongs to the original's decision values.
        small = replace(model, expansion=reduction.expansion, temperature=None)
        kind: Coefficients = "projected"
        if data is not None:
            held_out, every = np.flatnonzero(data.is_held_out), np.arange(len(data.is_held_out))
            kind, C, _ = _choose_coefficients(model, small, data, held_out)
            small = _with_coefficients(kind, C, model, small, data, every)
    measured: dict[str, float] = {}
    if data is not None:
        codes = predict_codes(small, data.X)
        measured["agreement"] = float(np.mean(codes == data.original))
        if data.codes is not None:
            measured["accuracy_before"] = float(np.mean(data.original == data.codes))
            measured["accuracy_after"] = float(np.mean(codes == data.codes))
    return small, Compression(
        centers_before=model.expansion.n_centers,
        centers_after=small.expansion.n_centers,
        bytes_before=_libsvm_bytes(model),
        bytes_after=small.expansion.nbytes,
        residual=reduction.residual,
        n_steps=max(1, len(reduction.residuals) - 2),  # less the start and the last refit
        coefficients=kind,
        path=path,
        **measured,
    )


@single_thread()
def choose_size(
    model: Model, data: ValidationData, progress: Progress, **search: Any
) -> tuple[int, tuple[TriedSize, ...]]:
    """The smallest size on a geometric path within one standard error of the original's score."""
    score, error = data.original_score()
    path: list[TriedSize] = []
    for size in sizes_to_try(model):
        with progress.task(f"{size} centers"):
            path.append(TriedSize(size, _judge(model, size, data, **search)))
        if path[-1].score >= score - error:
            return size, tuple(path)
    warn_user(
        f"No number of centers up to {path[-1].n_centers} came within one standard error "
        f"({error:.3f}) of the original's score {score:.3f} on the validation part: this "
        "machine does not compress. The largest number tried is used.",
        UserWarning,
    )
    return path[-1].n_centers, tuple(path)


def sizes_to_try(model: Model) -> list[int]:
    """Powers of two times one center per class, up to half of the original."""
    size, sizes = 1 if model.expansion.n_outputs == 1 else len(model.classes), []
    while 2 * size <= max(model.expansion.n_centers, 4):
        sizes.append(size)
        size *= 2
    return sizes or [max(1, model.expansion.n_centers // 2)]


def _judge(model: Model, n_centers: int, data: ValidationData, **search: Any) -> float:
    """Score of a size on rows that neither coefficients nor the choice of their kind have seen."""
    projected = replace(model, expansion=synthesize(model.expansion, n_centers, **search).expansion)
    to_choose, to_judge = data.split_half()
    *_, best = _choose_coefficients(model, projected, data, to_choose)
    return data.score(predict_codes(best, data.X[to_judge]), to_judge)


def _choose_coefficients(
    model: Model, projected: Model, data: ValidationData, to_choose: Indices
) -> tuple[Coefficients, float, Model]:
    """The kind of coefficients, and C, that score best on some rows, made without the held-out."""
    kept = np.flatnonzero(~data.is_held_out)
    choices: list[tuple[Coefficients, float]] = [("projected", 0.0)]
    if projected.expansion.n_centers and len(kept):
        choices.append(("matched", 0.0))
        codes = data.codes if data.may_refit else None
        if codes is not None and len(np.unique(codes[kept])) == len(model.classes):
            choices += [("refit", C) for C in _REFIT_COSTS]
    trials = [_with_coefficients(kind, C, model, projected, data, kept) for kind, C in choices]
    scores = [data.score(predict_codes(t, data.X[to_choose]), to_choose) for t in trials]
    # Of equally good ones the smaller machine is taken, then the one that needs fewer data.
    best = max(range(len(trials)), key=lambda i: (scores[i], -trials[i].expansion.nbytes, -i))
    return (*choices[best], trials[best])


def _with_coefficients(
    kind: Coefficients,
    C: float,
    model: Model,
    projected: Model,
    data: ValidationData,
    rows: Indices,
) -> Model:
    """The machine over the centers of ``projected`` with coefficients made from some rows."""
    if kind == "projected":
        return projected
    kernel, centers, X = projected.expansion.kernel, projected.expansion.centers, data.X[rows]
    if kind == "matched":
        values = model.expansion.decision_values(X)
        return replace(projected, expansion=match(kernel, centers, X, values))
    assert data.codes is not None
    signs = one_vs_rest_signs(data.codes[rows], np.arange(len(model.classes)))
    expansion = refit(kernel, centers, X, signs, C=C, weights=data.weights[rows])
    scheme: Scheme = "one output" if len(signs) == 1 else "one vs rest"
    return replace(projected, expansion=expansion, scheme=scheme, votes=False)


def _libsvm_bytes(model: Model) -> int:
    """Bytes of the original: LIBSVM stores n_classes - 1 coefficients per center for all pairs."""
    expansion = model.expansion
    if model.scheme != "one vs one":
        return expansion.nbytes
    extra = expansion.n_outputs - (len(model.classes) - 1)
    return expansion.nbytes - extra * expansion.n_centers * expansion.coef.itemsize


# -- The function and the estimator ------------------------------------------------------------


@single_thread()
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
    verbose: int = 0,
    random_state: Any = None,
) -> CompressedClassifier:
    """Make a fitted kernel classifier small.

    Parameters
    ----------
    model : fitted classifier, Model or path
        An SVC or NuSVC, a OneVsRestClassifier or OneVsOneClassifier of them, a Pipeline or
        search around one, a kernlet classifier, or the path of a LIBSVM model file.
    n_centers : int, float or "auto"
        A number of centers, a fraction of the model's, or the smallest number that stays within
        one standard error of the model's accuracy on part of X, y. Rows that the model was not
        trained on make that choice honest.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to choose the coefficients by, and to report agreement on. Without them the
        coefficients are projected in feature space. For a Model, rows of features, behind its
        encoding.
    y : array-like of shape (n_samples,), default=None
        Labels. With them one-vs-rest coefficients fitted to y are tried too, unless the model has
        a ``class_weight``.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights that the model was trained with.
    n_starts, max_iter, validation_fraction, verbose, random_state : see CompressedClassifier

    Returns
    -------
    small : CompressedClassifier
        Fitted; its ``compression_`` records what was done and what it cost.

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
        verbose=verbose,
        random_state=random_state,
    )
    constraints = dict(small._parameter_constraints)
    del constraints["estimator"]  # fitted already, and may be a file
    parameters = {name: getattr(small, name) for name in constraints}
    validate_parameter_constraints(constraints, parameters, caller_name="compress")
    small.estimator_ = model
    original, data = as_classifier(model).unmapped(), None
    if X is not None:
        estimator = model if hasattr(model, "n_features_in_") else None
        is_model = isinstance(model, Model)
        rows = original.features(X) if is_model else original.rows(X, estimator)
        n_held_out = max(1, round(validation_fraction * rows.shape[0]))
        held_out = check_random_state(random_state).permutation(rows.shape[0])[:n_held_out]
        may_refit = not has_class_weight(model)
        data = ValidationData.of(original, rows, y, sample_weight, held_out, may_refit)
    progress = Progress.start(small)
    return small._set_model(*compress_model(original, n_centers, data, progress, **small._search))


class CompressedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A kernel SVM rebuilt from few synthetic centers.

    Fits the estimator, approximates its decision functions in the kernel's feature space by
    ``n_centers`` points that all outputs share, and takes the coefficients that do best on a
    validation part. :func:`compress` does the same to a classifier that is already fitted.

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
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    estimator_ : estimator
        The fitted original.
    model_ : Model
        The smaller machine with its classes, its preprocessing and the meaning of its outputs.
    expansion_ : KernelExpansion
        The smaller machine, behind the preprocessing of a Pipeline.
    n_centers_ : int
    nbytes_ : int
        Bytes of everything stored; the steps of a Pipeline are not counted.
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

    model_: Model
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
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_centers = n_centers
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
        self.verbose = verbose
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
        path: tuple[TriedSize, ...] = ()
        with Progress.start(self) as progress:
            if n_centers == "auto":
                n_centers, path = self._choose_size(X, y, params, progress)
            with progress.task("estimator"):
                self.estimator_ = clone(self.estimator).fit(X, y, **params)
            small = compress(
                self.estimator_,
                n_centers,
                X,
                y,
                sample_weight=params.get("sample_weight"),
                validation_fraction=self.validation_fraction,
                verbose=self.verbose,
                **self._search,
            )
        return self._set_model(small.model_, replace(small.compression_, path=path))

    def _choose_size(
        self, X: Any, y: Any, params: dict[str, Any], progress: Progress
    ) -> tuple[int, tuple[TriedSize, ...]]:
        """The number of centers, by an estimator that has not seen the held-out rows."""
        if y is None:
            raise ValueError("This classifier requires y to be passed, but the target y is None.")
        X, y = indexable(X, y)
        labels = column_or_1d(y)
        check_classification_targets(labels)
        random = check_random_state(self.random_state)
        kept, held_out = hold_out(labels, self.validation_fraction, random)
        kept_params = {
            name: _safe_indexing(value, kept) if np.shape(value)[:1] == labels.shape else value
            for name, value in params.items()
        }
        with progress.task("trial estimator"):
            trial = clone(self.estimator)
            trial.fit(_safe_indexing(X, kept), _safe_indexing(y, kept), **kept_params)
        model = as_classifier(trial).unmapped()
        weights, may_refit = params.get("sample_weight"), not has_class_weight(self.estimator)
        rows = model.rows(X, trial)
        data = ValidationData.of(model, rows, y, weights, held_out, may_refit)
        return choose_size(model, data, progress, **self._search)

    @property
    def _search(self) -> dict[str, Any]:
        names = ("n_starts", "max_iter", "random_state")
        return {name: getattr(self, name) for name in names}

    def _set_model(self, model: Model, compression: Compression) -> CompressedClassifier:
        self.compression_ = compression
        self.n_iter_ = compression.n_steps
        self.classes_ = model.classes
        names: Any = model.feature_names_in
        names = None if names is None else np.array(names, dtype=object)
        for name, value in (("n_features_in_", model.n_features_in), ("feature_names_in_", names)):
            self.__dict__.pop(name, None)  # of an earlier fit
            if value is not None:
                setattr(self, name, value)
        self.model_ = replace(model, summary=summary_of(self))
        return self

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
        """Bytes of everything stored; the steps of a Pipeline are not counted."""
        return self.model_.nbytes

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
        return tags

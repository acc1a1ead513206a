"""The portable model, and how fitted estimators become one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from types import MethodType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernlet._typing import Floats, Indices
from kernlet.affine import AffineMap, CurvedMap, compose, scaler_bytes
from kernlet.devices import is_sparse
from kernlet.expansion import KernelExpansion, finite_values
from kernlet.kernels.gram import row_slices
from kernlet.tables.encode import ColumnEncoding
from kernlet.warn import warn_caller

# How this works
# --------------
# Every trained machine, whoever trained it, is f(x) = coef k(x, centers) + intercept behind some
# preprocessing, and a rule that turns the outputs f into an answer. `Model` holds exactly that:
#
#     x -> steps -> encoding -> scaler -> expansion -> rule
#
# `steps` are fitted transformers of a Pipeline, untouched; `as_model` folds them into `encoding`
# and `scaler`, because a file or a C function cannot run a transformer.
# `as_classifier` leaves them, because compression only needs the rows behind them.
#
# The outputs of the expansion follow one of three schemes:
#
#   "one output"    two classes; positive means classes[1].
#   "one vs rest"   one output per class; the largest wins.
#   "one vs one"    one output per pair of classes i < j, in the order (0, 1), (0, 2), ...,
#                   (1, 2), ...; positive means classes[i]. This is what LIBSVM trains.
#
# LIBSVM (Chang and Lin, 2011, section 7) predicts the class that wins most pairs, ties going to
# the lowest class; scikit-learn's SVC does the same unless break_ties=True. Its decision values
# with decision_function_shape="ovr" are the number of pairs won plus a fraction for the margins.
# `votes` and `break_ties` say which of these the original did, so that a Model predicts what the
# original predicts to the last bit, ties and zeros included.
#
# A novelty detector is "one output" with the classes -1 (outlier) and 1 (inlier): it predicts 1
# where f >= 0, and -1 elsewhere, also where a feature is NaN. `offset` is scikit-learn's offset_:
# score_samples = decision_function + offset.
#
# A prediction needs NumPy alone. What trains or converts a model imports scikit-learn and SciPy
# in the functions that use them, so that kernlet.runtime can do without.

#: What the outputs of an expansion mean (see above).
Scheme = Literal["one output", "one vs rest", "one vs one"]
Kind = Literal["classifier", "regressor", "novelty", "transformer", "expansion"]

_LARGEST_SUM = 1e300  # three times this is finite


# -- Decision rules ----------------------------------------------------------------------------


def decision_values(outputs: Floats, scheme: Scheme, n_classes: int, votes: bool) -> Floats:
    """What ``decision_function`` returns: with two classes one value per row."""
    if scheme == "one output":
        return outputs[:, 0]
    if scheme == "one vs rest" or not votes:
        return outputs
    values = vote_values(outputs, n_classes)
    return values[:, 1] if n_classes == 2 else values


def predicted_codes(outputs: Floats, scheme: Scheme, n_classes: int, break_ties: bool) -> Indices:
    """The number of the class that ``predict`` returns for each row.

    ``break_ties`` takes the class of the largest decision value instead of the one that wins
    most pairs.
    """
    # An output of exactly 0 (far from all centers, without an intercept) belongs to the second
    # class of its pair by LIBSVM's vote, and to the first one by the largest decision value.
    if scheme == "one output":
        second = outputs[:, 0] > 0 if break_ties else outputs[:, 0] >= 0
        return second.astype(np.intp)
    if scheme == "one vs rest":
        return outputs.argmax(axis=1)
    if break_ties:
        return vote_values(outputs, n_classes).argmax(axis=1)
    return pairs_won(outputs > 0, n_classes).argmax(axis=1)


def vote_values(outputs: Floats, n_classes: int) -> Floats:
    """One value per class from one output per pair, as scikit-learn's SVC computes it.

    value_c = won_c + s_c / (3 (abs(s_c) + 1)), where s_c sums the outputs of the pairs of c,
    each counted positive in favour of c.
    """
    sums = pair_sums(outputs, n_classes)
    # The fraction is below 1/3, so that it only orders classes that win equally many pairs.
    return pairs_won(~(outputs < 0), n_classes) + sums / (3 * (np.abs(sums) + 1))


def pair_sums(outputs: Floats, n_classes: int) -> Floats:
    """Sums of the outputs of the pairs of each class, counted positive in its favour."""
    sums = np.zeros((len(outputs), n_classes))
    with np.errstate(over="ignore"):
        for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
            sums[:, i] += outputs[:, pair]
            sums[:, j] -= outputs[:, pair]
    return np.clip(sums, -_LARGEST_SUM, _LARGEST_SUM)


def pairs_won(first_wins: NDArray[np.bool_], n_classes: int) -> Floats:
    """How many pairs each class wins, given whether the first class wins each pair."""
    pairs = np.array(list(combinations(range(n_classes), 2)))
    numbers = np.arange(n_classes)
    first, second = pairs[:, :1] == numbers, pairs[:, 1:] == numbers
    gain = first.astype(np.float32) - second  # small integers: exact, and fast in float32
    return (first_wins.astype(np.float32) @ gain + second.sum(axis=0)).astype(np.float64)


def link(scores: Floats, temperature: float, offset: float, *, log: bool = False) -> Floats:
    """Probabilities of the classes, or their logarithms, with a column per class."""
    with np.errstate(over="ignore"):
        if scores.ndim == 1:
            values = (scores - offset) / temperature
            return np.stack([_sigmoid(-values, log), _sigmoid(values, log)], axis=1)
        # The largest becomes 0 before the division, which can then overflow to -infinity only.
        values = (scores - scores.max(axis=1, keepdims=True)) / temperature
    powers = np.exp(values)
    sums = powers.sum(axis=1, keepdims=True)
    return values - np.log(sums) if log else powers / sums


def _sigmoid(values: Floats, log: bool) -> Floats:
    """1 / (1 + exp(-v)), or its logarithm, for which exp(v) cannot overflow."""
    if not log:
        return 1 / (1 + np.exp(-values))
    return np.minimum(values, 0) - np.log1p(np.exp(-np.abs(values)))


def probability_method(method: Callable[[Any, Any], Floats]) -> Any:
    """A method of an estimator with a ``model_`` that only exists where it has probabilities.

    As scikit-learn's ``available_if``, with an AttributeError that says how to get them.
    """

    def get(self: Any) -> Any:
        model = getattr(self, "model_", None)  # before fit the method exists, and says so
        if model is not None and model.temperature is None:
            raise AttributeError(
                f"This {type(self).__name__} has no {method.__name__}: give X and y, rows to "
                "calibrate probabilities on, to compress(model, n_centers, X, y) or to "
                "save(model, path, X, y)."
            )
        return MethodType(method, self)

    return property(get, doc=method.__doc__)


# -- The model ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Model:
    """An expansion, what happens to the input before it, and how its outputs become answers.

    Parameters
    ----------
    expansion : KernelExpansion
        Over distinct centers.
    kind : {"classifier", "regressor", "novelty", "transformer", "expansion"}
        A novelty detector has one output f: its classes are -1 and 1, for f >= 0. The rule is
        fixed: classes, scheme, votes, break_ties and temperature are set here.
    classes : ndarray of shape (n_classes,) or None
        Of a classifier, in ascending order; [-1, 1] of a novelty detector.
    scheme : {"one output", "one vs rest", "one vs one"}
        What the outputs are: one for two classes, positive for ``classes[1]``; one per class;
        or one per pair i < j, positive for ``classes[i]``.
    votes : bool
        Whether decision values are the votes of the pairs, turned into one value per class.
    break_ties : bool
        Whether the largest decision value predicts, instead of LIBSVM's vote.
    temperature : float or None
        Probabilities, where there are any, are those of (class scores - offset) / temperature.
    offset : float
        Of two classes; see there. Of a novelty detector, what ``score_samples`` exceeds
        ``decision_function`` by.
    scaler : AffineMap or None
        A shift and a scale per feature before the expansion and, behind PCA and the like, a matrix.
    encoding : ColumnEncoding or None
        How a table becomes rows of features.
    steps : tuple of (str, transformer)
        Fitted steps of a Pipeline before all that; none in what :func:`as_model` returns.
    feature_names : tuple of str or None
        Names of the features, or of the input of the first step.
    is_flat : bool
        Whether a regressor predicts one number per row.
    quantiles : tuple of float or None
        Of a regressor whose outputs are quantiles of one target, in ascending order: a row's
        outputs are sorted, so that quantiles do not cross.
    output_names : tuple of str or None
        Names of the outputs of a regressor.
    summary : dict
        How the model was trained, as JSON values.
    """

    expansion: KernelExpansion
    kind: Kind = "expansion"
    classes: Any = None
    scheme: Scheme = "one vs rest"
    votes: bool = False
    break_ties: bool = True
    temperature: float | None = None
    offset: float = 0.0
    scaler: AffineMap | None = None
    encoding: ColumnEncoding | None = None
    steps: tuple[tuple[str, Any], ...] = ()
    feature_names: tuple[str, ...] | None = None
    is_flat: bool = True
    quantiles: tuple[float, ...] | None = None
    output_names: tuple[str, ...] | None = None
    summary: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind != "novelty":
            return
        if self.expansion.n_outputs != 1:
            raise ValueError(f"A novelty detector has one output, not {self.expansion.n_outputs}.")
        rule = {"classes": np.array([-1, 1]), "scheme": "one output", "votes": False}
        for name, value in (rule | {"break_ties": False, "temperature": None}).items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Model({self.kind}, {self.expansion!r})"

    def _repr_html_(self) -> str:
        from kernlet.model.describe import facts
        from kernlet.notebook import facts_table

        return facts_table(facts(self))

    def describe(self, digits: int = 4) -> dict[str, str]:
        """What the machine is made of: kernel, widths, coefficients, input map and formats."""
        from kernlet.model.describe import describe

        return describe(self.expansion, digits)

    @property
    def n_features(self) -> int:
        """Features of a row, after the steps and the encoding."""
        if self.scaler is not None and self.scaler.matrix is not None:
            return int(self.scaler.matrix.shape[1])
        return self.expansion.n_features

    @property
    def n_features_in(self) -> int | None:
        """Columns of the raw input; None where it is not a table, but text for example."""
        if self.steps:
            return getattr(self.steps[0][1], "n_features_in_", None)
        if self.encoding is None:
            return self.n_features
        names = self.feature_names_in
        return self.encoding.n_columns if names is None else len(names)

    @property
    def feature_names_in(self) -> tuple[str, ...] | None:
        """Names of these columns, where they are known."""
        if self.steps or self.encoding is None:
            return self.feature_names
        return self.encoding.names if self.encoding.has_names else None

    @property
    def sorts_outputs(self) -> bool:
        """Whether the outputs of a row are sorted, as quantiles are."""
        return self.quantiles is not None and len(self.quantiles) > 1

    @property
    def output_labels(self) -> tuple[str, ...]:
        """Names of the outputs, quantiles by their level; none where they have no names."""
        if self.output_names is not None:
            return self.output_names
        return tuple(f"q{level:g}" for level in self.quantiles or ())

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored, steps that a file can hold included.

        A scaler counts in float32.
        """
        try:
            model = self.folded()
        except ValueError:
            model = self
        return model.expansion.nbytes + scaler_bytes(model.scaler)

    @property
    def missing(self) -> str:
        """What a missing feature (NaN) is: "error", "median" or "distance", as in the expansion.

        A matrix in front of the expansion would spread it over all features.
        """
        has_matrix = self.scaler is not None and self.scaler.matrix is not None
        return "error" if has_matrix else self.expansion.missing

    @property
    def input_map(self) -> AffineMap | None:
        """Scaler and map of the expansion as one."""
        try:
            return compose(self.scaler, self.expansion.input_map)
        except ValueError:
            if isinstance(self.expansion.input_map, CurvedMap):
                raise ValueError(
                    "The machine has an asinh or steps in its features, and cannot be composed "
                    "with the PCA or other matrix before it: leave that out, or export "
                    "pipeline[-1] alone."
                ) from None
            raise ValueError(
                "The steps before the machine give more features than they have columns, and its "
                "own shift cannot be composed with them: leave out the FeatureUnion, or export "
                "pipeline[-1] alone."
            ) from None

    def folded(self) -> Model:
        """The same model with its steps in encoding and scaler; ValueError where they cannot be."""
        if not self.steps:
            return self
        if self.encoding is not None:
            raise ValueError("A model that takes a table of columns can have no step before it.")
        from kernlet.model.pipeline import fold_steps

        encoding, scaler = fold_steps(self.steps)
        names = self.feature_names if encoding is None else encoding.feature_names
        scaler = compose(scaler, self.scaler)
        return replace(self, steps=(), encoding=encoding, scaler=scaler, feature_names=names)

    def rows(self, X: Any, estimator: Any = None) -> Any:
        """Rows of features from the user's X: through the steps and the encoding, validated."""
        if not self.steps and self.encoding is None:
            return self.features(X, estimator)
        for _, step in self.steps:
            X = step.transform(X)
        return self.features(X if self.encoding is None else self.encoded(X))

    def encoded(self, X: Any) -> Floats:
        """Rows of features from a table, with a warning of columns that have no known category."""
        assert self.encoding is not None
        note = lambda _, message: warn_caller(message, UserWarning)  # noqa: E731
        return self.encoding.transform(X, np.float64, note)

    def features(self, X: Any, estimator: Any = None) -> Any:
        """Validated rows of features, as many (and of the names) as ``estimator`` was fitted to."""
        taken: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        if self.missing != "error":
            taken["ensure_all_finite"] = "allow-nan"
        if estimator is not None:
            from sklearn.utils.validation import validate_data

            return validate_data(estimator, X, reset=False, **taken)
        from sklearn.utils import check_array

        X = check_array(X, **taken)
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features, but the model takes {self.n_features}.")
        return X

    def scaled(self, X: Any) -> Any:
        """Rows of features as the expansion takes them."""
        return X if self.scaler is None else self.scaler(X)

    def outputs(self, X: Any) -> Floats:
        """Outputs of the expansion for rows of features; ValueError where one is not finite."""
        return finite_values(self._values, X)

    def _values(self, X: Any) -> Floats:
        values = self.expansion.decision_values
        if self.scaler is None or not is_sparse(X):
            return values(self.scaled(X))
        # The scaler makes sparse rows dense: block by block, because all of them may not fit.
        slices = row_slices(X.shape[0], 8 * X.shape[1])
        return np.concatenate([values(self.scaler(X[rows])) for rows in slices])

    def scores(self, outputs: Floats) -> Floats:
        """What ``decision_function``, ``predict`` of a regressor or ``transform`` returns."""
        if self.classes is not None:
            return decision_values(outputs, self.scheme, len(self.classes), self.votes)
        if self.sorts_outputs:
            outputs = np.sort(outputs, axis=1)
        return outputs[:, 0] if self.kind == "regressor" and self.is_flat else outputs

    def codes(self, outputs: Floats) -> Indices:
        """The number of the class that is predicted for each row."""
        return predicted_codes(outputs, self.scheme, len(self.classes), self.break_ties)

    def class_scores(self, outputs: Floats) -> Floats:
        """What probabilities are made of: one score per class, of two classes one per row.

        Of one output per pair of classes, its sums: votes jump where an output changes its sign.
        """
        if self.scheme != "one vs one":
            return self.scores(outputs)
        sums = pair_sums(outputs, len(self.classes))
        return sums[:, 1] if len(self.classes) == 2 else sums

    def probabilities(self, outputs: Floats, *, log: bool = False) -> Floats:
        """Probabilities of the classes, or their logarithms."""
        assert self.temperature is not None
        return link(self.class_scores(outputs), self.temperature, self.offset, log=log)


# -- Anything trained becomes a Model ----------------------------------------------------------


def as_model(model: Any) -> Model:
    """Gather what a prediction needs, in a form that can be saved and exported.

    Parameters
    ----------
    model : fitted estimator, KernelExpansion, Model, or the path of a LIBSVM model file
        A kernlet estimator, what :func:`kernlet.load` returned; an SVC, NuSVC, SVR, NuSVR,
        OneClassSVM, KernelRidge or GaussianProcessRegressor (its mean); a OneVsRestClassifier or
        OneVsOneClassifier; a TransformedTargetRegressor that scales the target; a search around
        one of these, or a Pipeline of imputers, encoders, scalers, selectors and linear maps such
        as PCA, also in a ColumnTransformer, in front of one. ``read_libsvm(path, n_features)``
        reads a file whose support vectors have fewer features than the data.

    Returns
    -------
    model : Model

    Raises
    ------
    TypeError
        For an estimator that has no centers.
    ValueError
        For a kernel that is a function or precomputed, a corrupt file, and a step of a Pipeline
        that a model cannot hold.
    NotFittedError

    Notes
    -----
    Of a Gaussian process, the kernels RBF (one length scale or one per feature),
    RationalQuadratic, DotProduct and its powers, and PairwiseKernel of a kernel here are taken,
    times and plus ConstantKernel and WhiteKernel; noise is not part of the mean.

    Decision values and classes are those of the original, with three exceptions. Where several
    classes win equally many pairs, a LIBSVM file gives the lowest label, as SVC does, and not
    the label that the file names first. Where the value of a pair is exactly 0, a
    OneVsOneClassifier gives the pair to its first class, as the decision values of SVC do. Where
    the value of a OneClassSVM is exactly 0, the row is an inlier, as for other novelty detectors.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> from kernlet.model.model import as_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = as_model(make_pipeline(StandardScaler(), SVC()).fit(X, y))
    >>> model.scheme, model.scaler.shift.round(1)
    ('one vs one', array([5.8, 3.1, 3.8, 1.2]))
    """
    from kernlet.model.convert import unwrapped

    return unwrapped(model).folded()


def as_classifier(model: Any) -> Model:
    """The Model of a trained classifier, with the steps of its Pipeline as they are."""
    from kernlet.model.convert import unwrapped

    classifier = unwrapped(model)
    if classifier.kind != "classifier":
        raise TypeError(
            f"{type(model).__name__} is not a kernel classifier. Give a fitted SVC, NuSVC or "
            "kernlet classifier, a OneVsRestClassifier or OneVsOneClassifier of them, a Pipeline "
            "that ends in one, or the path of a LIBSVM model file."
        )
    return classifier

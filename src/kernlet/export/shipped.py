"""What travels: a machine with all that a prediction needs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Literal

import numpy as np
from scipy.special import expit, softmax
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kernlet.affine import AffineMap
from kernlet.estimators.adopt import Adopted, Scheme, adopt
from kernlet.estimators.compact.regressor import CompactKernelRegressor
from kernlet.estimators.features import ExpansionTransformer
from kernlet.estimators.votes import decision_values, predicted_codes
from kernlet.expansion import KernelExpansion
from kernlet.export.encoding import ColumnEncoding
from kernlet.export.scaling import AffineStep, fold_steps, scaler_bytes
from kernlet.export.summary import summary_of
from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats

Kind = Literal["classifier", "regressor", "transformer", "expansion"]


@dataclass(frozen=True, eq=False)
class ShippedModel:
    """An expansion, and what turns its outputs into answers.

    Parameters
    ----------
    expansion : KernelExpansion
    kind : {"classifier", "regressor", "transformer", "expansion"}
    classes : ndarray of shape (n_classes,) or None
        Of a classifier.
    scheme, votes, break_ties : see :class:`~kernlet.estimators.adopt.Adopted`
    temperature : float or None
        By which decision values are divided for probabilities, where there are any.
    scaler : AffineMap or None
        A shift and a scale for every feature, in front of the expansion.
    encoding : ColumnEncoding or None
        How a table becomes rows of features.
    feature_names : tuple of str or None
    is_flat : bool
        Whether a regressor gives one number a row.
    summary : dict
        Where the machine comes from, as plain JSON values.
    """

    expansion: KernelExpansion
    kind: Kind = "expansion"
    classes: Any = None
    scheme: Scheme = "one vs rest"
    votes: bool = False
    break_ties: bool = True
    temperature: float | None = None
    scaler: AffineMap | None = None
    encoding: ColumnEncoding | None = None
    feature_names: tuple[str, ...] | None = None
    is_flat: bool = True
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        """Numbers that a row has."""
        return self.expansion.n_features

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored; a scaler counts in float32."""
        return self.expansion.nbytes + scaler_bytes(self.scaler)

    def outputs(self, X: Any) -> Floats:
        """Outputs of the expansion for rows of features."""
        return self.expansion.decision_values(X if self.scaler is None else self.scaler(X))

    def scores(self, outputs: Floats) -> Floats:
        """What ``decision_function``, ``predict`` of a regressor or ``transform`` gives."""
        if self.kind == "classifier":
            return decision_values(outputs, self.scheme, len(self.classes), self.votes)
        return outputs[:, 0] if self.kind == "regressor" and self.is_flat else outputs

    def codes(self, outputs: Floats) -> Indices:
        """The number of the class that is predicted for each row."""
        return predicted_codes(outputs, self.scheme, len(self.classes), self.votes, self.break_ties)

    def probabilities(self, outputs: Floats) -> Floats:
        """Probabilities of the classes."""
        assert self.temperature is not None
        values = self.scores(outputs) / self.temperature
        if values.ndim == 1:
            return np.stack([expit(-values), expit(values)], axis=1)
        return softmax(values, axis=1)

    @property
    def adopted(self) -> Adopted:
        """The classifier in the form in which it can be compressed."""
        steps: list[tuple[str, Any]] = []
        if self.encoding is not None:
            steps.append(("columns", self.encoding))
        if self.scaler is not None:
            steps.append(("scaler", AffineStep(self.scaler)))
        names = self.encoding.names if self.encoding else self.feature_names
        return Adopted(
            self.expansion,
            self.classes,
            self.scheme,
            self.votes,
            self.break_ties,
            tuple(steps),
            None if names is None else np.array(names, dtype=object),
            len(names) if self.encoding and names else self.n_features,
        )


def ship(model: Any) -> ShippedModel:
    """Gather what a prediction needs.

    Parameters
    ----------
    model : fitted estimator, KernelExpansion, ShippedModel or the path of a LIBSVM model file
        A kernlet estimator, what :func:`kernlet.load` gave, an SVC or another classifier that
        :func:`kernlet.estimators.adopt.adopt` takes; or a Pipeline of scalers and one of these.

    Returns
    -------
    shipped : ShippedModel

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> from kernlet.export import ship
    >>> X, y = load_iris(return_X_y=True)
    >>> shipped = ship(make_pipeline(StandardScaler(), SVC()).fit(X, y))
    >>> shipped.scheme, shipped.scaler.shift.round(1)
    ('one vs one', array([5.8, 3.1, 3.8, 1.2]))
    """
    if isinstance(model, ShippedModel):
        return model
    if isinstance(model, KernelExpansion):
        return ShippedModel(model)
    steps, last = _unwrapped(model)
    shipped = getattr(last, "shipped_", None)
    if shipped is not None:
        return _behind(shipped, steps)
    if isinstance(last, CompactKernelRegressor):
        return _shipped_plainly(last, "regressor", steps, last._is_flat)
    if isinstance(last, ExpansionTransformer):
        return _shipped_plainly(last, "transformer", steps)
    return _shipped_classifier(adopt(model), last)


def _unwrapped(model: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Steps in front of a fitted estimator, and the estimator."""
    if isinstance(model, str | PathLike):
        return [], model
    if isinstance(model, FrozenEstimator):
        return _unwrapped(model.estimator)
    if isinstance(model, Pipeline):
        steps, last = _unwrapped(model.steps[-1][1])
        return [*model.steps[:-1], *steps], last
    if hasattr(model, "best_estimator_"):
        return _unwrapped(model.best_estimator_)
    return [], model


def _behind(shipped: ShippedModel, steps: list[tuple[str, Any]]) -> ShippedModel:
    """A loaded machine behind the steps of a pipeline."""
    if not steps:
        return shipped
    if shipped.encoding is not None:
        raise ValueError("A machine that takes a table of columns can have no step in front.")
    inside = [] if shipped.scaler is None else [("scaler", AffineStep(shipped.scaler))]
    names = _names(getattr(steps[0][1], "feature_names_in_", None))
    return replace(shipped, scaler=fold_steps([*steps, *inside]), feature_names=names)


def _shipped_plainly(
    model: CompactKernelRegressor | ExpansionTransformer,
    kind: Kind,
    steps: list[tuple[str, Any]],
    is_flat: bool = False,
) -> ShippedModel:
    """A model whose answers are the outputs of its expansion."""
    check_is_fitted(model)
    names = getattr(steps[0][1] if steps else model, "feature_names_in_", None)
    return ShippedModel(
        model.expansion_,
        kind,
        scaler=fold_steps(steps),
        feature_names=_names(names),
        is_flat=is_flat,
        summary=summary_of(model),
    )


def _shipped_classifier(adopted: Adopted, last: Any) -> ShippedModel:
    steps = list(adopted.preprocessing)
    encoding = None
    if steps and isinstance(steps[0][1], ColumnEncoding):
        encoding = steps.pop(0)[1]
    names = encoding.feature_names if encoding else _names(adopted.feature_names)
    return ShippedModel(
        adopted.expansion,
        "classifier",
        classes=np.asarray(adopted.classes),
        scheme=adopted.scheme,
        votes=adopted.votes,
        break_ties=adopted.break_ties,
        temperature=getattr(last, "temperature_", None),
        scaler=fold_steps(steps),
        encoding=encoding,
        feature_names=names,
        summary=summary_of(last),
    )


def _names(names: Any) -> tuple[str, ...] | None:
    return None if names is None else tuple(str(name) for name in names)

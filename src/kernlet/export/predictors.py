"""The estimators that :func:`kernlet.load` returns: fitted and frozen."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import (
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    OutlierMixin,
    RegressorMixin,
    TransformerMixin,
)

from kernlet._typing import Floats
from kernlet.export.rounding import feature_rows
from kernlet.model.model import Model, probability_method
from kernlet.model.scoring import QuantileScoreMixin
from kernlet.sklearn_base import (
    KernletEstimator,
    documentation_page,
    is_source,
    rows_to_predict,
    values_of_rows,
)


class LoadedPredictor(KernletEstimator):
    """A model from a file: what the four kinds below share."""

    _doc_link_template = documentation_page("load")

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def model_(self) -> Model:
        """The model."""
        return self.model

    @property
    def expansion_(self) -> Any:
        """Its expansion."""
        return self.model.expansion

    @property
    def n_centers_(self) -> int:
        """Kernel evaluations per prediction."""
        return self.model.expansion.n_centers

    @property
    def nbytes_(self) -> int:
        """Bytes of everything stored."""
        return self.model.nbytes

    @property
    def summary_(self) -> dict[str, Any]:
        """How the model was trained."""
        return self.model.summary

    @property
    def n_features_in_(self) -> int | None:
        """Features per row, or columns of a table."""
        return self.model.n_features_in

    @property
    def feature_names_in_(self) -> Any:
        """Their names, where they are known."""
        names = self.model.feature_names_in
        if names is None:
            raise AttributeError("The features of this model have no names.")
        return np.array(names, dtype=object)

    def fit(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Change nothing."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Any:
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.model.encoding is None
        tags.input_tags.allow_nan = self.model.missing != "error"
        tags.requires_fit = False
        return tags

    def __repr__(self, **options: Any) -> str:
        return f"{type(self).__name__}({self.model.expansion!r})"

    def _outputs(self, X: Any) -> Floats:
        if self.model.encoding is not None:
            return self.model.outputs(feature_rows(self.model, X))
        if is_source(X):
            return values_of_rows(self, X, self.model.outputs)
        return self.model.outputs(rows_to_predict(self, X))


class LoadedClassifier(ClassifierMixin, LoadedPredictor):
    """A classifier from a file, as :func:`kernlet.load` returns it.

    It is fitted and frozen: ``fit`` changes nothing and a clone is the same object. Its methods
    take rows of features, dense or sparse, or, for a model with an encoding, a table with its
    columns.
    It has ``classes_`` and, where the file has a temperature, ``predict_proba``.

    Parameters
    ----------
    model : Model
        What was read.

    Attributes
    ----------
    model_ : Model
        What was read.
    expansion_ : KernelExpansion
        Kernel, centers, coefficients and intercepts, applied after encoding and scaler.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    nbytes_ : int
        Bytes of everything stored.
    summary_ : dict
        How the model was trained.
    n_features_in_ : int
        Features per row, or columns of a table.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these, where they are known.
    """

    @property
    def classes_(self) -> Any:
        """The classes, in ascending order."""
        return self.model.classes

    def decision_function(self, X: Any) -> Floats:
        """Decision values: (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)."""
        return self.model.scores(self._outputs(X))

    def predict(self, X: Any) -> Any:
        """Class labels."""
        return self.classes_[self.model.codes(self._outputs(X))]

    @probability_method
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, where the file has a temperature."""
        return self.model.probabilities(self._outputs(X))

    @probability_method
    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the probabilities."""
        return self.model.probabilities(self._outputs(X), log=True)


class LoadedRegressor(QuantileScoreMixin, RegressorMixin, LoadedPredictor):
    """A regressor from a file, as :func:`kernlet.load` returns it.

    It is fitted and frozen: ``fit`` changes nothing and a clone is the same object. Its methods
    take rows of features, dense or sparse, or, for a model with an encoding, a table with its
    columns.
    ``quantiles_`` are the levels of the quantiles that it predicts, or None.

    Parameters
    ----------
    model : Model
        What was read.

    Attributes
    ----------
    model_ : Model
        What was read.
    expansion_ : KernelExpansion
        Kernel, centers, coefficients and intercepts, applied after encoding and scaler.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    nbytes_ : int
        Bytes of everything stored.
    summary_ : dict
        How the model was trained.
    n_features_in_ : int
        Features per row, or columns of a table.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these, where they are known.
    """

    @property
    def quantiles_(self) -> tuple[float, ...] | None:
        """The levels of the quantiles that it predicts; None where it predicts means."""
        return self.model.quantiles

    def predict(self, X: Any) -> Floats:
        """Predict the targets of the rows of X; quantiles in ascending order."""
        return self.model.scores(self._outputs(X))


class LoadedNoveltyDetector(OutlierMixin, LoadedPredictor):
    """A novelty detector from a file, as :func:`kernlet.load` returns it.

    It is fitted and frozen: ``fit`` changes nothing and a clone is the same object. Its methods
    take rows of features, dense or sparse, or, for a model with an encoding, a table with its
    columns.
    It predicts 1 for inliers and -1 for outliers.

    Parameters
    ----------
    model : Model
        What was read.

    Attributes
    ----------
    model_ : Model
        What was read.
    expansion_ : KernelExpansion
        Kernel, centers, coefficients and intercepts, applied after encoding and scaler.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    nbytes_ : int
        Bytes of everything stored.
    summary_ : dict
        How the model was trained.
    n_features_in_ : int
        Features per row, or columns of a table.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these, where they are known.
    """

    @property
    def offset_(self) -> float:
        """What ``score_samples`` exceeds ``decision_function`` by."""
        return self.model.offset

    def decision_function(self, X: Any) -> Floats:
        """How normal rows are: negative for outliers."""
        return self.model.scores(self._outputs(X))

    def score_samples(self, X: Any) -> Floats:
        """The same before the threshold ``offset_`` was subtracted."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> Any:
        """1 for inliers, where ``decision_function`` is at least 0, and -1 for outliers."""
        return self.model.classes[self.model.codes(self._outputs(X))]


class LoadedTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LoadedPredictor):
    """A transformer from a file, as :func:`kernlet.load` returns it.

    It is fitted and frozen: ``fit`` changes nothing and a clone is the same object. Its methods
    take rows of features, dense or sparse, or, for a model with an encoding, a table with its
    columns.
    ``transform`` returns the features.

    Parameters
    ----------
    model : Model
        What was read.

    Attributes
    ----------
    model_ : Model
        What was read.
    expansion_ : KernelExpansion
        Kernel, centers, coefficients and intercepts, applied after encoding and scaler.
    n_centers_ : int
        Number of centers: kernel evaluations per prediction.
    nbytes_ : int
        Bytes of everything stored.
    summary_ : dict
        How the model was trained.
    n_features_in_ : int
        Features per row, or columns of a table.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these, where they are known.
    """

    @property
    def _n_features_out(self) -> int:
        return self.model.expansion.n_outputs

    def transform(self, X: Any) -> Floats:
        """Features of the rows of X."""
        return self.model.scores(self._outputs(X))


#: What :func:`kernlet.load` returns for each kind of model; a bare expansion is none of them.
PREDICTORS = {
    "classifier": LoadedClassifier,
    "regressor": LoadedRegressor,
    "novelty": LoadedNoveltyDetector,
    "transformer": LoadedTransformer,
}

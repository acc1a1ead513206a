"""The estimators that a file becomes: fitted, and not to be fitted again."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.metaestimators import available_if

from kernlet._typing import Floats
from kernlet.export.c_tables import rows_of
from kernlet.model.model import Model
from kernlet.sklearn_base import is_source, rows_to_predict, values_of_rows


class ShippedPredictor(BaseEstimator):
    """A machine that came out of a file.

    It is frozen: ``fit`` leaves it as it is and a clone is the machine itself, as of
    scikit-learn's FrozenEstimator. To train on, start from it:
    ``CompactKernelClassifier(init=...)``.

    Parameters
    ----------
    shipped : Model

    Attributes
    ----------
    model_ : Model
    expansion_ : KernelExpansion
        The machine, behind scaler and encoding.
    n_centers_ : int
    nbytes_ : int
        Bytes of everything stored.
    summary_ : dict
        Where the machine comes from.
    """

    def __init__(self, shipped: Model) -> None:
        self.shipped = shipped

    @property
    def model_(self) -> Model:
        """What travels."""
        return self.shipped

    @property
    def expansion_(self) -> Any:
        """The machine."""
        return self.shipped.expansion

    @property
    def n_centers_(self) -> int:
        """Kernel evaluations that one prediction costs."""
        return self.shipped.expansion.n_centers

    @property
    def nbytes_(self) -> int:
        """Bytes of everything stored."""
        return self.shipped.nbytes

    @property
    def summary_(self) -> dict[str, Any]:
        """Where the machine comes from."""
        return self.shipped.summary

    @property
    def n_features_in_(self) -> int | None:
        """Features that a row has, or columns that a table has."""
        return self.shipped.n_features_in

    @property
    def feature_names_in_(self) -> Any:
        """Their names, where they are known."""
        names = self.shipped.feature_names_in
        if names is None:
            raise AttributeError("The features of this machine have no names.")
        return np.array(names, dtype=object)

    def fit(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Leave the machine as it is."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Any:
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.shipped.encoding is None
        tags.requires_fit = False
        return tags

    def __repr__(self, **options: Any) -> str:
        return f"{type(self).__name__}({self.shipped.expansion!r})"

    def _outputs(self, X: Any) -> Floats:
        encoded = self.shipped.encoding is not None
        if is_source(X) and not encoded:
            return values_of_rows(self, X, self.shipped.outputs)
        rows = rows_of(self.shipped, X) if encoded else rows_to_predict(self, X)
        return self.shipped.outputs(rows)


def _has_probabilities(model: Any) -> bool:
    return model.shipped.temperature is not None


class ShippedClassifier(ClassifierMixin, ShippedPredictor):
    """A classifier that came out of a file; see :class:`ShippedPredictor`."""

    @property
    def classes_(self) -> Any:
        """The classes, in ascending order."""
        return self.shipped.classes

    def decision_function(self, X: Any) -> Floats:
        """Decision values, of the shape that the original's have.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or, for a machine with an encoding, a table with its columns.

        Returns
        -------
        values : ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
        """
        return self.shipped.scores(self._outputs(X))

    def predict(self, X: Any) -> Any:
        """Class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return self.classes_[self.shipped.codes(self._outputs(X))]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, where the original had them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        return self.shipped.probabilities(self._outputs(X))


class ShippedRegressor(RegressorMixin, ShippedPredictor):
    """A regressor that came out of a file; see :class:`ShippedPredictor`."""

    def predict(self, X: Any) -> Floats:
        """Predict the numbers of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        values : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        return self.shipped.scores(self._outputs(X))


class ShippedTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ShippedPredictor):
    """A transformer that came out of a file; see :class:`ShippedPredictor`."""

    @property
    def _n_features_out(self) -> int:
        return self.shipped.expansion.n_outputs

    def transform(self, X: Any) -> Floats:
        """Features of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        features : ndarray of shape (n_samples, n_features_out)
        """
        return self.shipped.scores(self._outputs(X))

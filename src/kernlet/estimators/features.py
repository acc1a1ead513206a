"""What transformers share: their features are the values of an expansion."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin

from kernlet.estimators.base import KernelTrainer, rows_to_predict
from kernlet.estimators.sources import values_of_rows
from kernlet.expansion import KernelExpansion
from kernlet.kernels.kernel import Floats
from kernlet.rows import as_rows, is_source


class ExpansionTransformer(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    CallbackSupportMixin,
    KernelTrainer,
    BaseEstimator,
):
    """A transformer whose features are sums of kernel values over one set of points."""

    expansion_: KernelExpansion

    @property
    def components_(self) -> Floats:
        """Coefficients of the features, of shape (n_features_out, n_points)."""
        return self.expansion_.coef

    @property
    def n_centers_(self) -> int:
        """Points: the kernel evaluations that a row costs, whatever the number of features."""
        return self.expansion_.n_centers

    @property
    def _n_features_out(self) -> int:
        return self.expansion_.n_outputs

    def transform(self, X: Any) -> Floats:
        """Features of the rows of X: one block of kernel values times a matrix.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A source of rows (:mod:`kernlet.rows`) or a Dask collection goes block by block.

        Returns
        -------
        features : ndarray of shape (n_samples, n_features_out)
            float32 for float32 rows.
        """
        if is_source(X):
            X = as_rows(X)
            features = values_of_rows(self, X)
        else:
            X = rows_to_predict(self, X)
            features = self.expansion_.decision_values(X)
        return features.astype(np.float32) if X.dtype == np.float32 else features

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

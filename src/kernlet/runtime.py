"""Predictions from a model file with NumPy and safetensors alone, for small serving images.

Nothing here imports scikit-learn, SciPy or pandas, and none of them needs to be installed. The
code that evaluates a model is that of :func:`kernlet.load`, and so are its answers.
"""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from kernlet._typing import Floats
from kernlet.devices import is_sparse
from kernlet.export.file import read_model
from kernlet.export.rounding import feature_rows
from kernlet.model.model import Model, probability_method
from kernlet.tables.encode import (
    ColumnEncoding,
    NumberColumn,
    as_columns,
    column_names,
    has_columns,
)


class Machine:
    """A model from a file: what :func:`kernlet.runtime.load` returns.

    Rows are array-like; a scipy.sparse matrix; or, where the model knows the names of its columns,
    a dict of columns, a list of dicts (one per row), or a pandas, polars or Arrow table. Tables are
    encoded as in training: categories, dates and missing cells.

    Parameters
    ----------
    model : Model
        What was read.

    Attributes
    ----------
    kind : {"classifier", "regressor", "novelty", "transformer", "expansion"}
        What the model does.
    classes : ndarray of shape (n_classes,) or None
        Of a classifier, in ascending order; [-1, 1] of a novelty detector.
    feature_names : tuple of str or None
        Names of the columns, where they are known.
    n_features : int
        Columns of X.
    """

    def __init__(self, model: Model) -> None:
        self.model_ = model
        self.kind, self.classes = model.kind, model.classes
        self.feature_names, self.n_features = model.feature_names_in, model.n_features_in

    def __repr__(self) -> str:
        return f"Machine({self.kind}, {self.model_.expansion!r})"

    def predict(self, X: Any) -> Any:
        """Labels of a classifier, targets of a regressor; decision values of other machines.

        Of a novelty detector, 1 for inliers and -1 for outliers.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a table

        Returns
        -------
        answers : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        """
        outputs = self._outputs(X)
        if self.classes is not None:
            return self.classes[self.model_.codes(outputs)]
        return self.model_.scores(outputs)

    def decision_function(self, X: Any) -> Floats:
        """Decision values: one per row for two classes, else one per class or pair of classes.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a table

        Returns
        -------
        values : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        """
        return self.model_.scores(self._outputs(X))

    def score_samples(self, X: Any) -> Floats:
        """Decision values of a novelty detector before its threshold was subtracted."""
        if self.kind != "novelty":
            raise AttributeError(f"A {self.kind} has no score_samples; a novelty detector does.")
        return self.decision_function(X) + self.model_.offset

    @probability_method
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, of shape (n_rows, n_classes), where the file has them."""
        return self.model_.probabilities(self._outputs(X))

    def _outputs(self, X: Any) -> Floats:
        model = self.model_
        X = as_columns(X)
        if model.encoding is not None:
            return model.outputs(feature_rows(model, X))
        if has_columns(X) and self.feature_names is not None and _has_names(X):
            dtypes = [getattr(X[name], "dtype", None) for name in column_names(X)]
            is_single = all(dtype == np.float32 for dtype in dtypes)
            X = self._columns.transform(X, np.float32 if is_single else np.float64)
        return model.outputs(self._checked(X))

    @cached_property
    def _columns(self) -> ColumnEncoding:
        """The features of a model that takes no categories, as columns of a table."""
        passes = self.model_.missing != "error"
        names = self.feature_names or ()
        return ColumnEncoding(tuple(NumberColumn(name, None, passes) for name in names))

    def _checked(self, X: Any) -> Any:
        """Rows of numbers in float64 or float32, as many as the model takes.

        They are finite, or NaN where the model takes missing features.
        """
        rows: Any = X.tocsr() if is_sparse(X) else _as_numbers(X)
        if rows.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {rows.ndim}D array instead. Reshape your data: a single "
                "column is X.reshape(-1, 1), a single row is X.reshape(1, -1)."
            )
        if rows.shape[1] != self.n_features:
            raise ValueError(
                f"X has {rows.shape[1]} features, but the model takes {self.n_features}."
            )
        if not rows.shape[0]:
            raise ValueError("X has no rows.")
        if rows.dtype not in (np.float64, np.float32):
            rows = rows.astype(np.float64)
        is_valid = np.isfinite(rows.data if is_sparse(rows) else rows)
        if self.model_.missing != "error" and not is_sparse(rows):
            is_valid |= np.isnan(rows)
        if not is_valid.all():
            raise ValueError(f"X holds NaN or infinity{self._first_wrong(rows)}.")
        return rows

    def _first_wrong(self, rows: Any) -> str:
        if is_sparse(rows):
            return ""
        is_wrong = np.isinf(rows) if self.model_.missing != "error" else ~np.isfinite(rows)
        row, column = np.argwhere(is_wrong)[0].tolist()
        name = column if self.feature_names is None else self.feature_names[column]
        return f", first in row {row} of column {name!r}, both counted from 0"


def _has_names(table: Any) -> bool:
    """Whether columns have names, and not the numbers that pandas gives them."""
    return any(isinstance(name, str) for name in column_names(table))


def _as_numbers(X: Any) -> Any:
    rows = np.asarray(X)
    if rows.dtype.kind in "biuf":
        return rows
    if rows.dtype.kind == "c":
        raise ValueError("Complex data not supported: give real numbers.")
    try:
        return rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must be rows of numbers: {error}.") from None


def load(path: str | PathLike[str], *, max_bytes: int = 1 << 30) -> Machine:
    """Read a machine that :func:`kernlet.save` wrote, to predict with NumPy alone.

    Importing this module, loading a machine and predicting take about 30 ms on top of
    ``import numpy``, and less than 40 MB in all; :func:`kernlet.load` imports scikit-learn. Files
    are checked in the same way.

    Parameters
    ----------
    path : str or path
        File to read.
    max_bytes : int, default=1 GiB
        Larger files are refused, and arrays that are larger when they are unpacked. Sparse centers
        become dense here.

    Returns
    -------
    machine : Machine
        Which has ``predict``, ``decision_function``, ``score_samples`` and ``predict_proba``.

    Raises
    ------
    ModelFileError
        A ValueError that says in one sentence what is wrong with the file.
    OSError
        Where it cannot be read at all.

    See Also
    --------
    kernlet.load : Returns a scikit-learn estimator.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> import kernlet
    >>> from kernlet.runtime import load
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kernlet.save(SVC().fit(X, y), Path(folder) / "iris.kernlet")
    ...     machine = load(Path(folder) / "iris.kernlet")
    >>> machine.predict([[5.1, 3.5, 1.4, 0.2]])
    array([0])
    >>> machine.predict([dict(zip(machine.feature_names, [6.3, 3.3, 6.0, 2.5]))])
    array([2])
    """
    return Machine(read_model(path, max_bytes, is_dense=True))

"""Sentences for input that scikit-learn refuses without saying where or what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array


def explained(error: ValueError, X: Any, estimator: Any) -> ValueError:
    """What to raise instead of an error of ``validate_data``: it names the column and a remedy."""
    message, name = str(error), type(estimator).__name__
    if message.startswith("y should be a 1d array"):
        return ValueError(
            f"{message.removesuffix(' instead.')}: {name} predicts one label per row. For several, "
            f"use MultiOutputClassifier({name}()), or OneVsRestClassifier({name}()) for indicators."
        )
    if message.startswith("could not convert string to float"):
        return _text_error(X) or error
    if message.startswith("Input X contains NaN"):
        return ValueError(
            f"Input X contains NaN, first {_first_missing(X)}, and {name} takes no missing values: "
            f"fill them in, for example with make_pipeline(SimpleImputer(), {name}())."
        )
    return error


def _text_error(X: Any) -> ValueError | None:
    """The error of the first column that holds text; None where it is y that does."""
    if sparse.issparse(X):
        return None
    for number, column in enumerate(np.asarray(X, dtype=object).T):
        text = next((value for value in column if _is_text(value)), None)
        if text is not None:
            return ValueError(
                f"Column {_column_name(X, number)} of X holds text ({str(text)!r}): encode it as "
                "numbers, for example with OneHotEncoder in a ColumnTransformer."
            )
    return None


def _is_text(value: Any) -> bool:
    try:
        float(value)
    except ValueError:
        return isinstance(value, str)
    except TypeError:  # such as None and dates
        return False
    return False


def _first_missing(X: Any) -> str:
    """The first column that holds NaN and its first row that does."""
    rows = check_array(X, accept_sparse="coo", dtype=np.float64, ensure_all_finite=False)
    if sparse.issparse(rows):
        missing = np.isnan(rows.data)
        at = np.stack([rows.col[missing], rows.row[missing]], axis=1)
    else:
        at = np.argwhere(np.isnan(rows.T))
    column, row = min(at.tolist())
    return f"in row {row} of column {_column_name(X, column)}"


def _column_name(X: Any, number: int) -> str:
    names = getattr(X, "column_names", getattr(X, "columns", None))  # pyarrow's, or others'
    return repr(number if names is None else list(names)[number])

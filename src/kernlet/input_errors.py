"""Sentences for input that scikit-learn refuses without saying where or what to do."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, InvalidParameterError


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
        if getattr(estimator, "missing", "error") != "error":  # auto, and nothing was missing
            return ValueError(
                f"Input X contains NaN, first {_first_missing(X)}, and this {name} was fitted to "
                'rows without missing values: give missing="median" or "distance", or fill them in.'
            )
        advice = 'give missing="auto", or ' if hasattr(estimator, "missing") else ""
        return ValueError(
            f"Input X contains NaN, first {_first_missing(X)}, and {name} takes no missing values: "
            f"{advice}fill them in, for example with make_pipeline(SimpleImputer(), {name}())."
        )
    if message.startswith("Expected 2D array"):  # followed by all the numbers
        return ValueError(
            f"{message.splitlines()[0].rstrip(':')}. Reshape your data: a single column is "
            "X.reshape(-1, 1), a single row is X.reshape(1, -1)."
        )
    if message.startswith("Complex data not supported"):  # followed by all the numbers
        return ValueError("Complex data not supported: give real numbers.")
    return error


def explained_weights(error: Exception, weights: Any) -> Exception:
    """What to raise instead of an error of scikit-learn's check of ``sample_weight``."""
    message = str(error)
    if message.startswith("Expected 2D array"):  # followed by all the numbers
        return ValueError(
            f"{message.splitlines()[0].rstrip(':')}: X must have rows and columns. A single column "
            "is X.reshape(-1, 1), a single row is X.reshape(1, -1)."
        )
    if message.startswith("Complex data not supported"):
        return ValueError("sample_weight holds complex numbers; give real ones.")
    values = np.asarray(weights, dtype=object).ravel()
    wrong = next((value for value in values if not _is_number(value)), None)
    if wrong is not None and not isinstance(error, MemoryError):
        return ValueError(
            f"sample_weight holds {str(wrong)[:50]!r} ({type(wrong).__name__}), which is not a "
            "number; give one number per row."
        )
    return error


def numeric_targets(y: Any) -> Any:
    """Targets of a regression, which must be finite numbers.

    scikit-learn converts None to NaN without a check, and leaves dates as they are.
    """
    if y.dtype.kind in "mM":
        unit = "timedelta64" if y.dtype.kind == "m" else "datetime64"
        raise ValueError(
            f"y holds dates or times ({unit}), and a regression predicts numbers: convert them, "
            f"for example to seconds with y.astype('{unit}[s]').astype(float)."
        )
    if y.dtype.kind not in "biuf":
        raise ValueError(f"y holds text ({str(y.flat[0])[:50]!r}), and a regression needs numbers.")
    missing = np.argwhere(~np.isfinite(y))
    if len(missing):
        raise ValueError(
            f"Row {missing[0][0]} of y, counted from 0, has no number (None, NaN or infinity). "
            "Leave out rows without a target."
        )
    return y


def check_number_types(parameters: dict[str, Any], constraints: dict[str, Any], name: str) -> None:
    """Refuse numbers that are not an int or a float: True and False, fractions and decimals.

    scikit-learn counts booleans as 0 and 1, and fails with fractions.
    """
    for parameter, value in parameters.items():
        allowed = constraints.get(parameter, "no_validation")
        if isinstance(allowed, str) or not isinstance(value, Number | np.bool_):
            continue
        is_usual = isinstance(value, int | float | np.integer | np.floating)
        is_bool = isinstance(value, bool | np.bool_)
        texts = {constraint for constraint in allowed if isinstance(constraint, str)}
        if is_bool and ({"boolean", "verbose"} & texts or not any(map(_takes_numbers, allowed))):
            continue
        if is_bool or not is_usual:
            raise InvalidParameterError(
                f"The {parameter!r} parameter of {name} must be an int, a float or another of the "
                f"values in its documentation. Got {value!r} instead."
            )


def _takes_numbers(constraint: Any) -> bool:
    if isinstance(constraint, type):
        return issubclass(constraint, Number)
    return isinstance(constraint, Interval)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return value is None
    return not isinstance(value, str)


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

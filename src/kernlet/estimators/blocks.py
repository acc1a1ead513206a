"""Blocks of rows that come one after the other, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from kernlet.estimators.base import TrainingData, check_label_types, require_memory
from kernlet.estimators.evidence import label_codes

_OF_FIRST_BLOCK = ("classes_", "n_features_in_", "feature_names_in_")


def checked_block(
    estimator: Any, X: Any, y: Any, classes: Any, sample_weight: Any, *, is_first: bool
) -> TrainingData:
    """Check a block of rows, all of whose labels must be known; a fault leaves no trace.

    Parameters
    ----------
    estimator : estimator
        Learns classes and features from the first block, and is asked for them later.
    X, y, sample_weight : array-like
    classes : array-like of shape (n_classes,) or None
        All labels that may come.
    is_first : bool

    Returns
    -------
    data : TrainingData
        Without the rows of no weight.
    """
    known = {name: getattr(estimator, name) for name in _OF_FIRST_BLOCK if hasattr(estimator, name)}
    try:
        return _checked(estimator, X, y, classes, sample_weight, is_first)
    except Exception:
        for name in _OF_FIRST_BLOCK:
            vars(estimator).pop(name, None)
        vars(estimator).update(known)
        raise


def _checked(
    estimator: Any, X: Any, y: Any, classes: Any, sample_weight: Any, is_first: bool
) -> TrainingData:
    require_memory(estimator, X)
    check_label_types(y)
    X, y = validate_data(
        estimator,
        X,
        y,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        order="C",
        reset=is_first,
    )
    check_classification_targets(y)
    weights = _check_sample_weight(
        sample_weight,
        X,
        dtype=np.float64,
        ensure_non_negative=True,
        allow_all_zero_weights=not is_first,
    )
    if is_first:
        estimator.classes_ = np.unique(y if classes is None else classes)
    elif classes is not None and not np.array_equal(np.unique(classes), estimator.classes_):
        raise ValueError(
            f"classes={classes!r} differ from those of the first call to partial_fit, "
            f"{estimator.classes_.tolist()}."
        )
    if len(estimator.classes_) < 2:
        raise ValueError(
            f"The first block holds one class only ({estimator.classes_[0]!r}); give all labels "
            "that may come as classes=[...]."
        )
    label_codes(estimator.classes_, y)
    rows = np.flatnonzero(weights)
    return TrainingData(X[rows], y[rows], weights[rows], rows)

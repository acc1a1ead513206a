"""A few words on where a machine comes from, as plain values."""

from __future__ import annotations

import math
from dataclasses import asdict
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np

_ATTRIBUTES = ("n_iter_", "loo_error_bound_", "validation_score_", "choice_", "gap_", "ball_gap_")
_LONGEST = 500  # characters of a parameter, entries of a list


def summary_of(model: Any) -> dict[str, Any]:
    """What is worth knowing of a fitted estimator, as JSON values.

    Parameters
    ----------
    model : fitted estimator or path

    Returns
    -------
    summary : dict
        ``estimator``, ``parameters`` and, where the estimator has them, ``n_iter``,
        ``duality_gap`` (the largest), ``loo_error_bound``, ``validation_score``, ``choice``,
        ``path`` and ``compression``.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from kernlet.export.summary import summary_of
    >>> summary_of(SVC(C=3.0))["parameters"]["C"]
    3.0
    """
    if isinstance(model, str | PathLike):
        return {"estimator": "LIBSVM model file"}
    summary: dict[str, Any] = {"estimator": type(model).__name__}
    if hasattr(model, "get_params"):
        summary["parameters"] = plain(model.get_params(deep=False))
    for name in _ATTRIBUTES:
        if hasattr(model, name):
            summary[name.strip("_")] = plain(getattr(model, name))
    if hasattr(model, "duality_gap_"):
        summary["duality_gap"] = plain(np.max(model.duality_gap_))
    compression = getattr(model, "compression_", None)
    if compression is not None:
        summary["compression"] = plain(asdict(compression))
    path = getattr(model, "path_", None) or getattr(compression, "path", ())
    if path:
        summary["path"] = [plain(asdict(point)) for point in path]
    return summary


def plain(value: Any) -> Any:
    """A value in terms of what JSON knows; anything else as a short text."""
    if value is None or isinstance(value, bool | str):
        return value if not isinstance(value, str) else value[:_LONGEST]
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value) if abs(int(value)) < 2**63 else str(value)[:_LONGEST]
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key)[:_LONGEST]: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1):
        return [plain(entry) for entry in value][:_LONGEST]
    return " ".join(repr(value).split())[:_LONGEST]

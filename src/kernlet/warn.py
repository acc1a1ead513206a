"""Warnings that point at the line of the user's code."""

from __future__ import annotations

import sys
import warnings

_HIDDEN_PACKAGES = {"contextlib", "joblib", "kernlet", "sklearn", "threadpoolctl"}


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called into the package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _HIDDEN_PACKAGES:
            break
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)

"""From class labels to signs, and from weights to the cost of an error."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from kernlet.kernels.kernel import Floats


def one_vs_rest_signs(y: Any, classes: Any) -> Floats:
    """Signs of the rows in each one-vs-rest problem.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Labels.
    classes : ndarray of shape (n_classes,)
        The distinct labels, two at least.

    Returns
    -------
    signs : ndarray of shape (n_outputs, n_rows)
        +1 or -1. Two classes make one output, positive for the second.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.problems.labels import one_vs_rest_signs
    >>> one_vs_rest_signs(np.array([0, 1, 1]), np.array([0, 1]))
    array([[-1.,  1.,  1.]])
    """
    positives = classes if len(classes) > 2 else classes[1:]
    return np.where(y == positives[:, None], 1.0, -1.0)


def error_weights(
    C: float, y: Any, classes: Any, class_weight: Any, sample_weight: Floats
) -> Floats:
    """The cost of a unit of error in each row: C times its class weight times its own.

    Parameters
    ----------
    C : float
    y : ndarray of shape (n_rows,)
        Labels.
    classes : ndarray of shape (n_classes,)
        The distinct labels, ascending.
    class_weight : dict of label to weight, "balanced" or None
    sample_weight : ndarray of shape (n_rows,)

    Returns
    -------
    weights : ndarray of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.problems.labels import error_weights
    >>> y = np.array(["a", "b", "b", "b"])
    >>> error_weights(3.0, y, np.unique(y), "balanced", np.ones(4))
    array([6., 2., 2., 2.])
    """
    if class_weight is None:
        return _cost(C, sample_weight)
    with np.errstate(divide="ignore"):
        by_class = compute_class_weight(
            class_weight, classes=classes, y=y, sample_weight=sample_weight
        )
    if not np.isfinite(by_class).all() or by_class.min() < 0 or by_class.max() == 0:
        raise ValueError(
            f"class_weight gives the weights {by_class.tolist()}; they must be finite, none "
            "negative and one positive."
        )
    return _cost(C, by_class[np.searchsorted(classes, y)] * sample_weight)


def require_squares(costs: Floats) -> None:
    """Refuse costs whose squares overflow: gaps of squared errors are made of them.

    Parameters
    ----------
    costs : ndarray of shape (n_rows,)
    """
    with np.errstate(over="ignore"):
        total = costs.sum()
        if not np.isfinite(total * total):
            raise ValueError("Weights times C overflow; give numbers nearer to 1.")


def _cost(C: float, weights: Floats) -> Floats:
    with np.errstate(over="ignore"):
        cost = C * weights
    if not np.isfinite(cost).all():
        raise ValueError("C times sample_weight overflows; give smaller numbers.")
    return cost

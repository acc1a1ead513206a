"""Fewer centers by leaving out those of small coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernlet.expansion import KernelExpansion
from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.reduce.refit import project, refit


def remove(
    expansion: KernelExpansion,
    n_centers: int,
    X: Any = None,
    signs: Floats | None = None,
    *,
    n_rounds: int = 1,
    C: float = 10.0,
    weights: Any = None,
) -> KernelExpansion:
    """Leave out the centers of smallest coefficients, and fit the others anew.

    With rows and signs the squared-hinge machine over the centers left is trained on all rows
    (:func:`~kernlet.reduce.refit`); without, the machine nearest in feature space is
    taken (:func:`~kernlet.reduce.project`). Several rounds leave out a like share each, and
    look at the new coefficients in between.

    The largest coefficients of an SVM belong to its outliers, so that centers drawn at random
    or by k-means are often the better choice for :func:`~kernlet.reduce.refit`.

    Parameters
    ----------
    expansion : KernelExpansion
    n_centers : int
        Centers to keep.
    X : {ndarray, sparse matrix} of shape (n_rows, n_features) or None
    signs : ndarray of shape (n_outputs, n_rows) or None
        One line for each output.
    n_rounds : int, default=1
    C : float, default=10.0
        Weight of the errors: 1/2 C sum slack^2, so twice the C of a hull perceptron.
    weights : ndarray of shape (n_rows,) or None
        Multiplies C row by row.

    Returns
    -------
    expansion : KernelExpansion

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet import KernelExpansion
    >>> from kernlet.kernels import RBF
    >>> from kernlet.reduce import remove
    >>> centers = np.array([[0.0], [1.0], [9.0]])
    >>> f = KernelExpansion(RBF(1.0), centers, np.array([[1.0, 2.0, 0.1]]), np.zeros(1))
    >>> remove(f, 2).centers.ravel()
    array([0., 1.])
    """
    expansion = expansion.unfolded()
    if not 1 <= n_centers <= expansion.n_centers:
        raise ValueError(
            f"n_centers={n_centers} is out of range: the machine has {expansion.n_centers} centers."
        )
    if n_rounds < 1:
        raise ValueError(f"n_rounds={n_rounds} is out of range: one round is the least.")
    if (X is None) != (signs is None):
        raise ValueError("Give both rows X and their signs to train on them, or neither.")
    if X is None and weights is not None:
        raise ValueError("weights belong to rows: give X and signs too.")
    for count in _counts(expansion.n_centers, n_centers, n_rounds):
        centers = expansion.centers[largest_coefficients(expansion, count)]
        if signs is None:
            expansion = project(expansion, centers)
        else:
            expansion = refit(expansion.kernel, centers, X, signs, C=C, weights=weights)
    return expansion


def largest_coefficients(expansion: KernelExpansion, n_centers: int) -> Indices:
    """The centers of largest |coef| in any output, ascending; of equals the first.

    Parameters
    ----------
    expansion : KernelExpansion
    n_centers : int

    Returns
    -------
    numbers : ndarray of shape (n_centers,)
    """
    largest = np.abs(expansion.coef).max(axis=0)
    return np.sort(np.argsort(-largest, kind="stable")[:n_centers])


def _counts(now: int, then: int, n_rounds: int) -> list[int]:
    """Centers after each round, in even ratios."""
    shares = np.arange(1, n_rounds + 1) / n_rounds
    counts = np.round(now * (then / now) ** shares).astype(int)
    return [*counts[:-1].tolist(), then]

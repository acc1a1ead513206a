"""From the outputs of an expansion to decision values and classes, as scikit-learn's SVC does."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats

#: What the outputs of an expansion are. "one output": positive means the second of two
#: classes; "one vs rest": one output a class; "one vs one": one output for each pair of
#: classes i < j, in the order (0, 1), (0, 2), ..., (1, 2), ..., positive for class i.
Scheme = Literal["one output", "one vs rest", "one vs one"]


def decision_values(outputs: Floats, scheme: Scheme, n_classes: int, votes: bool) -> Floats:
    """What ``decision_function`` returns.

    Parameters
    ----------
    outputs : ndarray of shape (n_rows, n_outputs)
        Of the expansion.
    scheme : {"one output", "one vs rest", "one vs one"}
    n_classes : int
    votes : bool
        Turn the outputs of pairs into one value a class (see :func:`vote_values`).

    Returns
    -------
    values : ndarray of shape (n_rows,), (n_rows, n_classes) or (n_rows, n_outputs)
        With two classes, one value a row, positive for the second class.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.estimators.votes import decision_values
    >>> pairs = np.array([[1.0, 2.0, -1.0]])
    >>> decision_values(pairs, "one vs one", n_classes=3, votes=False)
    array([[ 1.,  2., -1.]])
    >>> decision_values(pairs, "one vs one", n_classes=3, votes=True).round(3)
    array([[ 2.25 , -0.222,  0.833]])
    """
    if scheme == "one output":
        return outputs[:, 0]
    if scheme == "one vs rest" or not votes:
        return outputs
    values = vote_values(outputs, n_classes)
    return values[:, 1] if n_classes == 2 else values


def predicted_codes(
    outputs: Floats, scheme: Scheme, n_classes: int, votes: bool, break_ties: bool
) -> Indices:
    """The number of the class that ``predict`` returns for each row.

    Parameters
    ----------
    outputs : ndarray of shape (n_rows, n_outputs)
        Of the expansion.
    scheme : {"one output", "one vs rest", "one vs one"}
    n_classes : int
    votes : bool
        Whether decision values are one a class. The classes do not depend on it.
    break_ties : bool
        False for LIBSVM's vote: the class that wins most pairs, the lowest one of several;
        an output of exactly 0 is won by the second class of its pair. True for the class of
        the largest decision value; an output of exactly 0 is then won by the first class.
        One vs rest takes the largest output either way.

    Returns
    -------
    codes : ndarray of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.estimators.votes import predicted_codes
    >>> circle = np.array([[1.0, -3.0, 1.0]])  # 0 beats 1, 2 beats 0, 1 beats 2
    >>> predicted_codes(circle, "one vs one", n_classes=3, votes=True, break_ties=False)
    array([0])
    >>> predicted_codes(circle, "one vs one", n_classes=3, votes=True, break_ties=True)
    array([2])
    """
    if scheme == "one output":
        second = outputs[:, 0] > 0 if break_ties else outputs[:, 0] >= 0
        return second.astype(np.intp)
    if scheme == "one vs rest":
        return outputs.argmax(axis=1)
    if break_ties:
        return vote_values(outputs, n_classes).argmax(axis=1)
    return pairs_won(outputs > 0, n_classes).argmax(axis=1)


def vote_values(outputs: Floats, n_classes: int) -> Floats:
    """One value a class from one output a pair: the pairs won, and a fraction for the margins.

    value_c = won_c + s_c / (3 (abs(s_c) + 1)), where s_c sums the outputs of the pairs of c,
    each counted positive in favour of c. The fraction is below 1/3: it orders classes that
    have won equally many pairs and no others.

    Parameters
    ----------
    outputs : ndarray of shape (n_rows, n_pairs)
    n_classes : int

    Returns
    -------
    values : ndarray of shape (n_rows, n_classes)
    """
    sums = np.zeros((len(outputs), n_classes))
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        sums[:, i] += outputs[:, pair]
        sums[:, j] -= outputs[:, pair]
    return pairs_won(~(outputs < 0), n_classes) + sums / (3 * (np.abs(sums) + 1))


def pairs_won(first_wins: NDArray[np.bool_], n_classes: int) -> Floats:
    """How many pairs each class wins.

    Parameters
    ----------
    first_wins : ndarray of shape (n_rows, n_pairs)
        Whether the first class of each pair wins it.
    n_classes : int

    Returns
    -------
    won : ndarray of shape (n_rows, n_classes)
    """
    pairs = np.array(list(combinations(range(n_classes), 2)))
    numbers = np.arange(n_classes)
    first, second = pairs[:, :1] == numbers, pairs[:, 1:] == numbers
    gain = first.astype(np.float32) - second  # whole numbers: exact
    return (first_wins.astype(np.float32) @ gain + second.sum(axis=0)).astype(np.float64)


def pair_coefficients(dual_coef: Floats, n_support: Any) -> Floats:
    """One row of coefficients for each pair of classes, from LIBSVM's table of duals.

    LIBSVM keeps, for a support vector of class i, its n_classes - 1 duals against the other
    classes in their order. The pair i < j uses the support vectors of i, with their dual
    against j (row j - 1), and those of j, with their dual against i (row i).

    Parameters
    ----------
    dual_coef : ndarray of shape (n_classes - 1, n_centers)
        The support vectors ordered by class.
    n_support : sequence of int
        Support vectors of each class.

    Returns
    -------
    coef : ndarray of shape (n_pairs, n_centers)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.estimators.votes import pair_coefficients
    >>> pair_coefficients(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), [1, 1, 1])
    array([[1., 2., 0.],
           [4., 0., 3.],
           [0., 5., 6.]])
    """
    ends = np.cumsum(n_support)
    rows = [slice(end - count, end) for end, count in zip(ends, n_support, strict=True)]
    coef = np.zeros((len(rows) * (len(rows) - 1) // 2, dual_coef.shape[1]))
    for output, (i, j) in zip(coef, combinations(range(len(rows)), 2), strict=True):
        output[rows[i]] = dual_coef[j - 1, rows[i]]
        output[rows[j]] = dual_coef[i, rows[j]]
    return coef

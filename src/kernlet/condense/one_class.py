"""What both eliminations need: a class against the rest, and a floor under every class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernlet.condense.record import Elimination
from kernlet.kernels.columns import Indices
from kernlet.kernels.features import RowFeatures
from kernlet.kernels.kernel import Floats
from kernlet.problems.moments import Moments
from kernlet.problems.proximal import Proximal, normalization, one_against_rest
from kernlet.problems.row_sums import collect
from kernlet.solvers.normal_equations import solve_proximal


@dataclass(frozen=True, eq=False)
class OneClass:
    """The proximal machine of one class against the rest.

    Parameters
    ----------
    weights : ndarray of shape (n_features,)
    gamma : float
        It says w.x - gamma.
    residual : float
    n_rows : int
        Rows it was trained on.
    """

    weights: Floats
    gamma: float
    residual: float
    n_rows: int

    def values(self, features: RowFeatures, rows: Indices) -> Floats:
        """w.x - gamma for some rows."""
        return features.dot(self.weights, rows) - self.gamma

    def record(
        self, label: Any, count: int, inside: int, deleted: Indices, values: Floats
    ) -> Elimination:
        """What came of a round with this machine."""
        return Elimination(
            label,
            count,
            self.n_rows,
            self.weights,
            self.gamma,
            self.residual,
            inside,
            deleted,
            values,
        )


def train_one_class(sums: Moments, number: int, C: float, *, balanced: bool = True) -> OneClass:
    """Train on the rows of the sums.

    Parameters
    ----------
    sums : Moments
    number : int
        The class.
    C : float
    balanced : bool, default=True
        See :func:`~kernlet.problems.proximal.normalization`.

    Returns
    -------
    machine : OneClass
    """
    signs = one_against_rest(len(sums.counts), [number])
    weights = normalization(signs, sums.totals, balanced=balanced)
    solution = solve_proximal(Proximal(sums, C, signs, weights))
    return OneClass(
        solution.weights[0],
        -float(solution.intercept[0]),
        solution.residual,
        int(sums.counts.sum()),
    )


class Pool:
    """Rows still there, with their sums kept up as rows leave.

    Parameters
    ----------
    features : RowFeatures
    codes : ndarray of shape (n_rows,)
    sums : Moments
        Of the rows.
    rows : ndarray of row numbers, ascending
    """

    def __init__(self, features: RowFeatures, codes: Indices, sums: Moments, rows: Indices) -> None:
        self.features, self.codes, self.sums, self.rows = features, codes, sums, rows

    @classmethod
    def of_all(cls, features: RowFeatures, codes: Indices, n_classes: int) -> Pool:
        """All rows."""
        return cls(features, codes, collect(features, codes, n_classes), np.arange(len(codes)))

    def without(self, rows: Indices) -> Pool:
        """Some rows fewer; sums over whichever part is smaller."""
        if not len(rows):
            return self
        left = np.setdiff1d(self.rows, rows, assume_unique=True)
        fewer = rows if len(rows) <= len(left) else left
        part = collect(
            self.features, self.codes, len(self.sums.counts), shift=self.sums.shift, rows=fewer
        )
        return Pool(self.features, self.codes, part if fewer is left else self.sums - part, left)

    def against_rest(self, number: int) -> Pool:
        """The same rows as two classes: the rest, and a class."""
        codes = (self.codes == number).astype(np.intp)
        return Pool(self.features, codes, self.sums.against_rest(number), self.rows)

    def own(self, number: int) -> Indices:
        """Rows of a class."""
        return self.rows[self.codes[self.rows] == number]


def spare(
    rows: Indices, urgency: Floats, present: Indices, codes: Indices, floor: int
) -> NDArray[np.bool_]:
    """Which rows may leave without bringing a class below its floor.

    Parameters
    ----------
    rows : ndarray of row numbers
        To leave.
    urgency : ndarray of shape (n_rows,)
        How much each of them ought to; the others of its class stay first.
    present : ndarray of row numbers
        Still there, these among them.
    codes : ndarray of row codes
    floor : int
        Rows that every class keeps, if it has them.

    Returns
    -------
    may_leave : ndarray of bool

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.condense.one_class import spare
    >>> rows, codes = np.arange(3), np.zeros(3, dtype=int)
    >>> spare(rows, np.array([5.0, 1.0, 3.0]), rows, codes, 1)
    array([ True, False,  True])
    """
    counts = np.bincount(codes[present])
    may_leave = np.ones(len(rows), dtype=bool)
    for number in np.unique(codes[rows]):
        own = np.flatnonzero(codes[rows] == number)
        room = max(0, int(counts[number]) - floor)
        may_leave[own[np.argsort(-urgency[own], kind="stable")[room:]]] = False
    return may_leave

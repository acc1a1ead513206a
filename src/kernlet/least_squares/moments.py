"""Sums over rows, by class, that can be added and taken away."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dsyrk

from kernlet._typing import Floats, Indices
from kernlet.kernels.landmarks import RowFeatures

_ROUNDING = 1e-9  # a weight this small against what was there is none


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted sums of rows z = x - shift and of their products, by class.

    ``a + b`` holds the rows of both, ``a - b`` those of a without those of b.

    Parameters
    ----------
    shift : ndarray of shape (n_features,)
        A fixed point near the rows: far from the origin, sums about it keep their digits.
    counts : ndarray of shape (n_classes,)
        Rows of each class.
    firsts : ndarray of shape (n_classes, n_features + 1)
        Sums of weight (z, 1).
    seconds : ndarray of shape (n_classes or 1, n_features, n_features)
        Sums of weight z z', for each class or for all together.
    is_by_class : bool, default=True
        Which of the two.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.landmarks import RowFeatures
    >>> from kernlet.least_squares.moments import collect
    >>> X, codes = np.array([[1.0], [2.0], [4.0]]), np.array([0, 1, 1])
    >>> whole = collect(RowFeatures(X), codes, 2)
    >>> part = collect(RowFeatures(X[:2]), codes[:2], 2, shift=whole.shift)
    >>> (whole - part).counts
    array([0, 1])
    """

    shift: Floats
    counts: Indices
    firsts: Floats
    seconds: Floats
    is_by_class: bool = True

    @property
    def groups(self) -> Indices:
        """Those of the products that have rows."""
        return np.flatnonzero(self.counts) if self.is_by_class else np.arange(1)

    @property
    def totals(self) -> Floats:
        """Weight of the rows of each class."""
        return self.firsts[:, -1]

    def second(self, weights: Floats) -> Floats:
        """Sum of weight (z, 1) (z, 1)', the classes weighted.

        Parameters
        ----------
        weights : ndarray of shape (n_classes,)
            All 1 where the products are those of all classes together.

        Returns
        -------
        matrix : ndarray of shape (n_features + 1, n_features + 1)
        """
        n = len(self.shift)
        matrix = np.empty((n + 1, n + 1))
        groups = weights if self.is_by_class else np.ones(1)
        matrix[:n, :n] = np.tensordot(groups, self.seconds, 1)
        matrix[n] = weights @ self.firsts
        matrix[:n, n] = matrix[n, :n]
        return matrix

    def __add__(self, other: Moments) -> Moments:
        self._require_like(other)
        seconds = self.seconds.copy()
        for group in other.groups:
            seconds[group] += other.seconds[group]
        return replace(
            self,
            counts=self.counts + other.counts,
            firsts=self.firsts + other.firsts,
            seconds=seconds,
        )

    def __sub__(self, other: Moments) -> Moments:
        self._require_like(other)
        left = self.counts - other.counts
        self._require_part(left, self.totals - other.totals)
        gone = left == 0
        seconds = self.seconds.copy()
        for group in other.groups:
            seconds[group] -= other.seconds[group]
            if left[group] or not self.is_by_class:
                _clear_rounding(seconds[group], self.seconds[group].diagonal())
        if self.is_by_class:
            seconds[gone] = 0.0  # not what rounding leaves of them
        firsts = np.where(gone[:, None], 0.0, self.firsts - other.firsts)
        return replace(self, counts=left, firsts=firsts, seconds=seconds)

    def against_rest(self, number: int) -> Moments:
        """The rest of the classes as one, and a class.

        Parameters
        ----------
        number : int
            The class, which becomes class 1.

        Returns
        -------
        moments : Moments
            Of two classes.
        """
        if not self.is_by_class:
            raise ValueError("The sums of one class are not known apart from those of the others.")
        others = np.arange(len(self.counts)) != number
        counts, firsts, seconds = (
            np.stack([np.tensordot(others, each, 1), each[number]])
            for each in (self.counts, self.firsts, self.seconds)
        )
        return Moments(self.shift, counts, firsts, seconds)

    def placed(self, places: Indices, n_classes: int) -> Moments:
        """The same sums among more classes.

        Parameters
        ----------
        places : ndarray of shape (n_classes now,)
            The number that each class has among them.
        n_classes : int

        Returns
        -------
        moments : Moments
        """
        larger = empty(len(self.shift), n_classes, shift=self.shift, by_class=self.is_by_class)
        larger.counts[places] = self.counts
        larger.firsts[places] = self.firsts
        larger.seconds[places if self.is_by_class else slice(None)] = self.seconds
        return larger

    def of_classes(self, numbers: Indices) -> Moments:
        """The same sums without classes that have no rows.

        Parameters
        ----------
        numbers : ndarray of int
            The classes to stay.

        Returns
        -------
        moments : Moments
        """
        return replace(
            self,
            counts=self.counts[numbers],
            firsts=self.firsts[numbers],
            seconds=self.seconds[numbers] if self.is_by_class else self.seconds,
        )

    def _require_part(self, left: Indices, totals: Floats) -> None:
        """Refuse rows and weights that cannot be left of what is here."""
        none = totals <= _ROUNDING * self.totals
        lacking = (left < 0) | (totals < -_ROUNDING * self.totals)
        uneven = np.where(left == 0, ~none, none & (self.totals > 0))
        if (lacking | uneven).any():
            raise ValueError(
                "More rows, or more weight, of a class are to be forgotten than were learned, or "
                "its rows with other weights. Forget only what was learned before, with the same "
                "weights."
            )

    def _require_like(self, other: Moments) -> None:
        if self.seconds.shape != other.seconds.shape or self.counts.shape != other.counts.shape:
            raise ValueError("Sums over other classes or features cannot be added or taken away.")
        if not np.array_equal(self.shift, other.shift):
            raise ValueError("Sums about different points cannot be added: collect with one shift.")


def empty(
    n_features: int, n_classes: int, *, shift: Floats | None = None, by_class: bool = True
) -> Moments:
    """Sums over no rows.

    Parameters
    ----------
    n_features, n_classes : int
    shift : ndarray of shape (n_features,), default=None
    by_class : bool, default=True

    Returns
    -------
    moments : Moments
    """
    return Moments(
        np.zeros(n_features) if shift is None else shift,
        np.zeros(n_classes, dtype=np.intp),
        np.zeros((n_classes, n_features + 1)),
        np.zeros((n_classes if by_class else 1, n_features, n_features)),
        by_class,
    )


def _clear_rounding(left: Floats, before: Floats) -> None:
    """Clear columns of which rounding alone is left; refuse squares that are negative."""
    squares = left.diagonal()
    if (squares < -_ROUNDING * before).any():
        raise ValueError(
            "Rows are to be forgotten that were not learned: less than nothing would be left of "
            "the sums of squares. Forget only what was learned before, with the same weights."
        )
    lost = squares < 0
    left[lost] = 0.0
    left[:, lost] = 0.0


def collect(
    features: RowFeatures,
    codes: Indices,
    n_classes: int,
    *,
    weights: Floats | None = None,
    shift: Floats | None = None,
    by_class: bool = True,
    rows: Indices | None = None,
) -> Moments:
    """Sums over rows, in one pass of blocks.

    Time is n_rows n_features^2, memory one block besides the sums, n_features^2 for each class
    or for all together.

    Parameters
    ----------
    features : RowFeatures
    codes : ndarray of shape (n_rows,)
        The class of each row, from 0.
    n_classes : int
    weights : ndarray of shape (n_rows,), default=None
        1 for all rows unless given.
    shift : ndarray of shape (n_features,), default=None
        ``features.middle`` unless given.
    by_class : bool, default=True
        Keep the products of each class apart.
    rows : ndarray of row numbers, default=None
        Only these.

    Returns
    -------
    moments : Moments
    """
    shift = features.middle if shift is None else shift
    sums = empty(features.n_features, n_classes, shift=shift, by_class=by_class)
    if rows is not None:
        rows = rows[np.argsort(codes[rows], kind="stable")]
        codes, weights = codes[rows], None if weights is None else weights[rows]
    with np.errstate(over="ignore", invalid="ignore"):
        for part, block in features.blocks(rows, dense=bool(shift.any())):
            w = None if weights is None else weights[part]
            _add(sums, _about(shift, block), codes[part], w)
    for group in sums.groups:
        _mirror(sums.seconds[group])
    _require_finite(sums)
    return sums


def _about(shift: Floats, block: Any) -> Any:
    """Rows of a block about a point, in float64."""
    block = block.astype(np.float64, copy=False)
    return block - shift if shift.any() else block


def _add(sums: Moments, block: Any, codes: Indices, weights: Floats | None) -> None:
    """Add a block to the sums; of the products, the upper triangles."""
    counts = np.bincount(codes, minlength=len(sums.counts))
    sums.counts[:] += counts
    if not sums.is_by_class:
        _add_firsts(sums.firsts, block, codes, weights)
        _add_products(sums.seconds[0], block, weights)
        return
    if (np.diff(codes) < 0).any():
        order = np.argsort(codes, kind="stable")
        block, weights = block[order], None if weights is None else weights[order]
    ends = np.cumsum(counts)
    for number in np.flatnonzero(counts):
        rows = slice(ends[number] - counts[number], ends[number])
        some = None if weights is None else weights[rows]
        own = np.zeros(counts[number], dtype=np.intp)
        _add_firsts(sums.firsts[number : number + 1], block[rows], own, some)
        _add_products(sums.seconds[number], block[rows], some)


def _add_firsts(total: Floats, block: Any, codes: Indices, weights: Floats | None) -> None:
    ones = np.ones(len(codes)) if weights is None else weights
    total[:, -1] += np.bincount(codes, ones, len(total))
    if len(total) == 1:
        total[0, :-1] += ones @ block
        return
    shape = (len(total), len(codes))
    added = sparse.csr_array((ones, (codes, np.arange(len(codes)))), shape) @ block
    total[:, :-1] += added.toarray() if sparse.issparse(added) else added


def _add_products(total: Floats, block: Any, weights: Floats | None) -> None:
    if weights is not None:
        root = np.sqrt(weights)[:, None]
        block = block.multiply(root).tocsr() if sparse.issparse(block) else block * root
    if sparse.issparse(block):
        products = sparse.triu(block.T @ block, format="coo")
        total[products.row, products.col] += products.data
    elif total.size:
        dsyrk(1.0, block.T, beta=1.0, c=total.T, lower=1, overwrite_c=1)


def _mirror(matrix: Floats) -> None:
    """Fill the lower triangle, which is zero, with the upper one."""
    middle = matrix.diagonal().copy()
    matrix += matrix.T.copy()
    np.fill_diagonal(matrix, middle)


def _require_finite(sums: Moments) -> None:
    products = (sums.seconds[group] for group in sums.groups)
    if not (np.isfinite(sums.firsts).all() and all(np.isfinite(each).all() for each in products)):
        raise ValueError(
            "The features are so large that sums of their squares overflow. Scale them, for "
            "example with StandardScaler."
        )

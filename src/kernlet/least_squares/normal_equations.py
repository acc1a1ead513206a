"""Normal equations of least-squares classifiers: per-class moments, and their solution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.linalg.blas import dsyrk

from kernlet._typing import Floats, Indices
from kernlet.kernels.gram import RowFeatures, as_dense
from kernlet.sklearn_base import warn_user

# How this works
# --------------
# A proximal SVM (Fung and Mangasarian, KDD 2001) with the signs d_i of the rows, their weights n_i
# and H = [X, e] solves the normal equations
#
#     (I / C + H' N H) [w; b] = H' N d.
#
# Both sides are sums over rows. Within an output, sign and weight depend on the class of a row
# only, so that per-class sums of x and of x x' (sufficient statistics) are all that any output
# needs: blocks of rows are learned by adding their sums and forgotten by subtracting them, and
# class weights can be chosen after the last row has been seen.
#
# Three things keep the digits:
#
# - Shift. Sums of x x' far from the origin are large numbers with small differences. They are
#   taken about a fixed point s near the rows, z = x - s, which must not move while rows come and
#   go. In these coordinates the unknowns are w and b + s.w.
# - Border. The penalty b^2 of the papers becomes (v_last - s.w)^2, that is, the rank-one term u u'
#   with u = (-s, 1) / sqrt(C). Where |s| is large, adding it would drown the matrix M of the rows.
#   (M + u u') v = r is solved instead as the bordered system [[M, g], [g', -k^2]] with
#   u = g / k and |g| <= 1, in which nothing is large.
# - Scaling and refinement. Columns are scaled to a unit diagonal, which makes the result
#   independent of units, and up to three steps of iterative refinement bring the residual to
#   round-off. If the Cholesky factorisation fails, eigenvalues give the shortest solution.
#
# What forgetting costs: a sum S of p digits minus a part of it leaves an error of 1e-16 |S|. If
# the rows forgotten are k times as large as the rows left, or k^2 times as many, their squares
# made S k^2 times as large as what is left, and 2 log10(k) of 16 digits are lost. The residual
# cannot show this (the equations themselves are wrong); what it can show is checked: negative
# squares, more rows or more weight forgotten than learned.

# A weight, or a sum of squares, below this share of what it was before rows were forgotten is
# round-off of the subtraction: at most 1e7 additions of relative error 1e-16 each.
_ROUND_OFF = 1e-9
_MAX_MOMENT_BYTES = 8 * 2**30

# Refinement multiplies the error by about 1e-16 times the condition number: more than three steps
# help only where none will.
_MAX_REFINEMENTS = 3
_SMALL_RESIDUAL = 1e-14  # about 100 units of round-off: refining further would only add noise
_RESIDUAL_WORTH_WARNING = 1e-6


@dataclass(frozen=True, eq=False)
class Moments:
    """Per-class moments of rows z = x - shift that support addition and subtraction.

    ``a + b`` are the moments of the rows of both, ``a - b`` those of a without the rows of b.
    """

    shift: Floats  # a fixed point near the rows, of shape (n_features,)
    counts: Indices  # rows per class
    sums: Floats  # weighted sums of (z, 1), of shape (n_classes, n_features + 1)
    products: Floats  # weighted sums of z z', of shape (n_classes or 1, n_features, n_features)
    is_by_class: bool = True  # whether each class has separate products

    @classmethod
    def empty(
        cls, n_features: int, n_classes: int, *, shift: Floats | None = None, by_class: bool = True
    ) -> Moments:
        """Moments of no rows; refused if they would not fit into memory."""
        n_products = n_classes if by_class else 1
        size = 8 * n_features**2 * n_products
        if size > _MAX_MOMENT_BYTES:
            classes = f"each of {n_classes} classes" if by_class else "all classes together"
            raise ValueError(
                f"Sums over {n_features} features for {classes} take {size / 2**30:.0f} GB. Use a "
                "kernel with a few hundred landmarks, or fewer features (TruncatedSVD). "
                "class_weight=None of a classifier needs one sum for all classes, and "
                "CentroidCondenser needs none."
            )
        return cls(
            np.zeros(n_features) if shift is None else shift,
            np.zeros(n_classes, dtype=np.intp),
            np.zeros((n_classes, n_features + 1)),
            np.zeros((n_products, n_features, n_features)),
            by_class,
        )

    @property
    def totals(self) -> Floats:
        """Weight of the rows of each class."""
        return self.sums[:, -1]

    def matrix(self, weights: Floats) -> Floats:
        """Sum over classes of weight times sum of (z, 1) (z, 1)'."""
        n = len(self.shift)
        matrix = np.empty((n + 1, n + 1))
        matrix[:n, :n] = np.tensordot(weights if self.is_by_class else np.ones(1), self.products, 1)
        matrix[n] = weights @ self.sums
        matrix[:n, n] = matrix[n, :n]
        return matrix

    def __add__(self, other: Moments) -> Moments:
        self._check_compatible(other)
        counts, sums = self.counts + other.counts, self.sums + other.sums
        return replace(self, counts=counts, sums=sums, products=self.products + other.products)

    def __sub__(self, other: Moments) -> Moments:
        self._check_compatible(other)
        counts = self.counts - other.counts
        self._check_remainder(counts, self.totals - other.totals)
        # A class without rows has moments of exactly zero, not the round-off of a subtraction.
        is_gone = counts == 0
        products = self.products - other.products
        if self.is_by_class:
            products[is_gone] = 0.0
        for remainder, before in zip(products, self.products, strict=True):
            _clear_round_off(remainder, before.diagonal())
        sums = np.where(is_gone[:, None], 0.0, self.sums - other.sums)
        return replace(self, counts=counts, sums=sums, products=products)

    def against_rest(self, number: int) -> Moments:
        """Moments of two classes: all others as class 0, and one class as class 1."""
        if not self.is_by_class:
            raise ValueError("The sums of one class are not known apart from those of the others.")
        others = np.arange(len(self.counts)) != number
        counts, sums, products = (
            np.stack([np.tensordot(others, each, 1), each[number]])
            for each in (self.counts, self.sums, self.products)
        )
        return Moments(self.shift, counts, sums, products)

    def expand_classes(self, positions: Indices, n_classes: int) -> Moments:
        """The same moments among more classes; ``positions`` has the new number of each class."""
        larger = Moments.empty(
            len(self.shift), n_classes, shift=self.shift, by_class=self.is_by_class
        )
        larger.counts[positions] = self.counts
        larger.sums[positions] = self.sums
        larger.products[positions if self.is_by_class else slice(None)] = self.products
        return larger

    def select_classes(self, numbers: Indices) -> Moments:
        """The same moments of some classes; the others have no rows."""
        products = self.products[numbers] if self.is_by_class else self.products
        counts, sums = self.counts[numbers], self.sums[numbers]
        return replace(self, counts=counts, sums=sums, products=products)

    def _check_remainder(self, counts: Indices, totals: Floats) -> None:
        """Refuse numbers of rows and weights that forgetting learned rows cannot leave."""
        is_none = totals <= _ROUND_OFF * self.totals
        is_negative = (counts < 0) | (totals < -_ROUND_OFF * self.totals)
        # Rows without weight, or weight without rows, come of other weights than were learned.
        disagree = np.where(counts == 0, ~is_none, is_none & (self.totals > 0))
        if (is_negative | disagree).any():
            raise ValueError(
                "More rows, or more weight, of a class are to be forgotten than were learned, or "
                "its rows with other weights. Forget only what was learned before, with the same "
                "weights."
            )

    def _check_compatible(self, other: Moments) -> None:
        if self.products.shape != other.products.shape or self.counts.shape != other.counts.shape:
            raise ValueError("Sums over other classes or features cannot be added or subtracted.")
        if not np.array_equal(self.shift, other.shift):
            raise ValueError("Sums about different points cannot be added: collect with one shift.")


def _clear_round_off(products: Floats, squares_before: Floats) -> None:
    """Zero the columns of which only round-off is left; refuse squares that are negative."""
    squares = products.diagonal()
    if (squares < -_ROUND_OFF * squares_before).any():
        raise ValueError(
            "Rows are to be forgotten that were not learned: less than nothing would be left of "
            "the sums of squares. Forget only what was learned before, with the same weights."
        )
    is_lost = squares < 0
    products[is_lost] = 0.0
    products[:, is_lost] = 0.0


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
    """Moments of rows of the given classes, or of some of them, in one pass over blocks.

    Time is n_rows n_features^2, memory one block besides the moments.
    """
    shift = features.middle if shift is None else shift
    weights = np.ones(len(codes)) if weights is None else weights
    moments = Moments.empty(features.n_features, n_classes, shift=shift, by_class=by_class)
    if rows is not None:
        rows = rows[np.argsort(codes[rows], kind="stable")]
        codes, weights = codes[rows], weights[rows]
    with np.errstate(over="ignore", invalid="ignore"):  # checked at the end, once
        for own, block in features.blocks(rows, dense=bool(shift.any())):
            block = block.astype(np.float64, copy=False)
            block = block - shift if shift.any() else block
            _add_block(moments, block, codes[own], weights[own])
    products = [moments.products[k] for k in (np.flatnonzero(moments.counts) if by_class else [0])]
    for each in products:
        each += np.triu(each, 1).T  # only the upper triangles were summed
    if not (np.isfinite(moments.sums).all() and all(np.isfinite(each).all() for each in products)):
        raise ValueError(
            "The features are so large that sums of their squares overflow. Scale them, for "
            "example with StandardScaler."
        )
    return moments


def _add_block(moments: Moments, block: Any, codes: Indices, weights: Floats) -> None:
    """Add a block to the moments; of the products, to the upper triangles."""
    n_classes = len(moments.counts)
    counts = np.bincount(codes, minlength=n_classes)
    moments.counts[:] += counts
    moments.totals[:] += np.bincount(codes, weights, n_classes)
    if len(moments.products) < n_classes:  # the classes share one matrix
        entries = (weights, (codes, np.arange(len(codes))))
        membership = sparse.csr_array(entries, shape=(n_classes, len(codes)))
        moments.sums[:, :-1] += as_dense(membership @ block)
        _add_products(moments.products[0], block, weights)
        return
    # Sorted by class, the rows of a class are a slice, on which one BLAS call does.
    if (np.diff(codes) < 0).any():
        order = np.argsort(codes, kind="stable")
        block, weights = block[order], weights[order]
    ends = np.cumsum(counts)
    for number in np.flatnonzero(counts):
        own = slice(ends[number] - counts[number], ends[number])
        moments.sums[number, :-1] += weights[own] @ block[own]
        _add_products(moments.products[number], block[own], weights[own])


def _add_products(total: Floats, block: Any, weights: Floats) -> None:
    if (weights != 1.0).any():
        root = np.sqrt(weights)[:, None]
        block = block.multiply(root).tocsr() if sparse.issparse(block) else block * root
    if sparse.issparse(block):
        products = sparse.triu(block.T @ block, format="coo")
        total[products.row, products.col] += products.data
    elif total.size:
        # A symmetric rank-k update in place: half the multiplications of block.T @ block. BLAS
        # sees the transpose of the C-ordered matrix, so that "lower" fills the upper triangle.
        dsyrk(1.0, block.T, beta=1.0, c=total.T, lower=1, overwrite_c=1)


def one_against_rest(n_classes: int, positives: Any = None) -> Floats:
    """Signs of the classes, shape (n_outputs, n_classes), in one-against-rest outputs."""
    positives = np.arange(n_classes) if positives is None else np.asarray(positives)
    return np.where(positives[:, None] == np.arange(n_classes), 1.0, -1.0)


def normalization(signs: Floats, totals: Floats, *, balanced: bool = True) -> Floats:
    """Class weights N of Vishwanathan and Murty: both sides of an output have the same weight.

    With m the weight of all rows and p that of one side, m / (2 p) where ``balanced``, and the
    paper's 1 / p otherwise; 0 for a side without rows.
    """
    own, rest = (signs > 0) @ totals, (signs < 0) @ totals
    share = totals.sum() / 2 if balanced else 1.0
    sides = [np.divide(share, p, out=np.zeros_like(p), where=p > 0) for p in (own, rest)]
    return np.where(signs > 0, sides[0][:, None], sides[1][:, None])


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients (n_outputs, n_features) and intercepts of all outputs, with a certificate.

    ``residual`` is the norm of the residual over that of the right-hand side, for the worst output
    and with columns scaled to a unit diagonal. It bounds the error of the equations, not that of
    single coefficients, which nearly dependent columns leave undetermined where C is large.
    """

    coef: Floats
    intercept: Floats
    residual: float
    n_factorizations: int


def solve_normal_equations(
    moments: Moments, C: float, signs: Floats, weights: Floats | None = None
) -> Solution:
    """Solve (M + u u') v = r for all outputs, and warn of a residual above 1e-6.

    ``signs`` and ``weights`` have shape (n_outputs, n_classes). Weights of None are 1 for every
    class: all outputs share one matrix M and its Cholesky factor, n_features^3 / 3 operations.
    """
    if weights is not None and not moments.is_by_class:
        raise ValueError(
            "Class weights need sums by class; these were collected for all classes together."
        )
    if not C > 0 or not np.isfinite(1 / float(C)):
        raise ValueError(f"C={C} is too small: 1 / C is not a finite number.")
    shift = moments.shift
    border = np.append(-shift, 1.0) / np.sqrt(C)
    if weights is None:
        systems = [(np.ones(signs.shape[1]), signs)]
    else:
        systems = list(zip(weights, signs[:, None], strict=True))
    solutions: list[Floats] = []  # a row per output
    residuals = []
    for class_weights, outputs in systems:
        matrix = moments.matrix(class_weights)
        matrix[np.diag_indices(len(shift))] += 1.0 / C
        rights = (class_weights * outputs) @ moments.sums
        columns, residual = _solve(matrix, border, rights.T)
        solutions.extend(columns.T)
        residuals.append(residual)
    solution, residual = np.array(solutions), float(np.max(residuals))
    if not residual <= _RESIDUAL_WORTH_WARNING:
        warn_user(
            f"The normal equations are solved up to a residual of {residual:.1e} only: columns "
            "are nearly dependent or of very different sizes, or much larger rows were "
            "forgotten. Scale the columns, for example with StandardScaler, make C smaller, or "
            "fit again."
        )
    coef = solution[:, :-1]
    return Solution(coef, solution[:, -1] - coef @ shift, residual, len(residuals))


def _solve(matrix: Floats, border: Floats, rights: Floats) -> tuple[Floats, float]:
    """Solutions of (matrix + border border') v = rights, and the largest relative residual."""
    squares = matrix.diagonal()
    if not (squares >= 0).all() or not np.isfinite(rights).all():
        raise ValueError(
            "The sums are not those of any rows: rows were forgotten that had not been learned."
        )
    scale = 1.0 / np.sqrt(np.where(squares > 0, squares, 1.0))
    system = _Bordered(matrix * scale * scale[:, None], border * scale)
    rights = np.vstack([rights * scale[:, None], np.zeros(rights.shape[1])])
    solution = system.solve(rights)
    residual = rights - system.product(solution)
    for _ in range(_MAX_REFINEMENTS):
        if _largest_ratio(residual, rights) <= _SMALL_RESIDUAL:
            break
        solution += system.solve(residual)
        residual = rights - system.product(solution)
    return solution[:-1] * scale[:, None], _largest_ratio(residual, rights)


def _largest_ratio(residual: Floats, rights: Floats) -> float:
    """The largest ratio of the norms of two columns; NaN where a number is NaN."""
    small, large = np.linalg.norm(residual, axis=0), np.linalg.norm(rights, axis=0)
    return float(np.max(small / np.where(large == 0, 1.0, large), initial=0.0))


class _Bordered:
    """The matrix [[A, g], [g', -k^2]], with which (A + u u') v = r is solved for u = g / k.

    A has a unit diagonal, and k makes g at most 1 long. Solved by a Cholesky factor of A and the
    Schur complement or, where A is singular to round-off, by eigenvalues of the whole matrix.
    """

    def __init__(self, matrix: Floats, border: Floats) -> None:
        k = 1.0 / max(1.0, float(np.linalg.norm(border)))
        self.matrix, self.border, self.corner = matrix, k * border[:, None], k * k
        self.factor = None
        try:
            self.factor = cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:
            self._decompose()
        else:
            # A^-1 g is refined once, because every solution and every refinement step uses it.
            across = self._inverse(self.border)
            across += self._inverse(self.border - matrix @ across)
            self.across, self.pivot = across, self.corner + float(np.vdot(self.border, across))

    def product(self, columns: Floats) -> Floats:
        """The matrix times columns."""
        top, last = columns[:-1], columns[-1:]
        return np.vstack(
            [self.matrix @ top + self.border * last, self.border.T @ top - self.corner * last]
        )

    def solve(self, rights: Floats) -> Floats:
        """The inverse of the matrix times columns."""
        if self.factor is None:
            return self.vectors @ (self.inverses[:, None] * (self.vectors.T @ rights))
        top = self._inverse(rights[:-1])
        last = (self.border.T @ top - rights[-1:]) / self.pivot
        return np.vstack([top - self.across * last, last])

    def _inverse(self, rights: Floats) -> Floats:
        return cho_solve(self.factor, rights, check_finite=False)

    def _decompose(self) -> None:
        """Pseudoinverse: eigenvalues below n eps times the largest count as zero."""
        whole = np.block([[self.matrix, self.border], [self.border.T, np.array([[-self.corner]])]])
        values, self.vectors = eigh(whole)
        sizes = np.abs(values)
        used = sizes > len(whole) * np.finfo(float).eps * sizes.max()
        self.inverses = np.where(used, 1.0 / np.where(used, values, 1.0), 0.0)

"""Normal equations of least-squares classifiers: per-class moments, and their solution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpocon

from kernlet._typing import Floats, Indices
from kernlet.kernels.bandwidth import as_float
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
# cannot show this (the equations themselves are wrong); the moments therefore remember the
# largest squares that they have held. Negative squares, and more rows or more weight forgotten
# than learned, are refused.
#
# The certificate bounds the gap F(v) - F(v*) to the optimum. F is quadratic with the matrix
# S of the equations, so that F(v) - F(v*) = 1/2 g' S^-1 g, g = S v - r the gradient. Sums round:
# in columns of unit diagonal g is known up to e = eps sqrt(p) (|v| + |d|), whatever the residual
# says. With l the least eigenvalue of S, the gap is at most (|g| + e)^2 / (2 l). The penalty gives
# a bound on l, S >= I / C in the original coordinates; where that is not enough, a condition
# estimate of the Cholesky factor gives a better one, if l is above round-off. The objective, too,
# is a difference of sums, with errors of eps |v|^2, which the certificate contains.

# A weight, or a sum of squares, below this share of what it was before rows were forgotten is
# round-off of the subtraction: at most 1e7 additions of relative error 1e-16 each.
_ROUND_OFF = 1e-9
_MAX_MOMENT_BYTES = 8 * 2**30

# Refinement multiplies the error by about 1e-16 times the condition number: more than three steps
# help only where none will.
_MAX_REFINEMENTS = 3
_SMALL_RESIDUAL = 1e-14  # about 100 units of round-off: refining further would only add noise
#: Warn of a relative gap above this.
GAP_WORTH_WARNING = 1e-6
#: A gap is relative to the objective, or to this share of that of the zero machine if larger: a
#: machine that interpolates the signs has decision values right to 1e-6 there.
SMALLEST_OBJECTIVE = 1e-7
# A gap below this needs no better bound.
_SMALL_GAP = 1e-9
# Rounding errors of sums behave like random walks: a few units of round-off, not one per row.
_SUM_ERROR = 4 * np.finfo(float).eps
# Columns whose squares once were more than the square of this times those that are left.
_MUCH_FORGOTTEN = 3.0
# Fewer classes than this are summed directly: the recursion takes several passes over them too.
_MANY_CLASSES = 16


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
    largest: Floats | None = None  # squares (n_classes or 1, n_features) before rows were forgotten

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

    @property
    def squares(self) -> Floats:
        """Sums of squares whose rounding errors the products carry."""
        return self.products.diagonal(axis1=1, axis2=2) if self.largest is None else self.largest

    def matrices(self, weights: Floats) -> Iterator[Floats]:
        """For each row of class weights, the sum over classes of weight times (z, 1) (z, 1)'."""
        n_outputs, n_classes = weights.shape
        rest = np.roll(weights, 1, axis=1).diagonal()  # the weight of the class before
        is_rest = (weights == rest[:, None]) | np.eye(n_outputs, n_classes, dtype=bool)
        if n_outputs == n_classes > _MANY_CLASSES and self.is_by_class and is_rest.all():
            # One class against the rest: the sums of the rest, not as differences, which cancel.
            rests = _all_but_one(self.products, np.zeros(self.products.shape[1:]))
            for number, others in enumerate(rests):
                own = weights[number, number] * self.products[number]
                yield self._bordered(own + rest[number] * others, weights[number])
            return
        for each in weights:
            shares = each if self.is_by_class else np.ones(1)
            yield self._bordered(np.tensordot(shares, self.products, 1), each)

    def _bordered(self, products: Floats, weights: Floats) -> Floats:
        """The products with the sums as last row and column."""
        n = len(self.shift)
        matrix = np.empty((n + 1, n + 1))
        matrix[:n, :n] = products
        matrix[n] = weights @ self.sums
        matrix[:n, n] = matrix[n, :n]
        return matrix

    def __add__(self, other: Moments) -> Moments:
        self._check_compatible(other)
        if not self.counts.any() and self.largest is None:
            return other  # a copy would double the memory of a first block
        counts, sums = self.counts + other.counts, self.sums + other.sums
        has_forgotten = self.largest is not None or other.largest is not None
        return replace(
            self,
            counts=counts,
            sums=sums,
            products=self.products + other.products,
            largest=self.squares + other.squares if has_forgotten else None,
        )

    def __sub__(self, other: Moments) -> Moments:
        self._check_compatible(other)
        counts = self.counts - other.counts
        self._check_remainder(counts, self.totals - other.totals)
        # A class without rows has moments of exactly zero, not the round-off of a subtraction.
        is_gone = counts == 0
        products, largest = self.products - other.products, self.squares.copy()
        if self.is_by_class:
            products[is_gone] = 0.0
            largest[is_gone] = 0.0
        for remainder, before in zip(products, self.products, strict=True):
            _clear_round_off(remainder, before.diagonal())
        sums = np.where(is_gone[:, None], 0.0, self.sums - other.sums)
        return replace(self, counts=counts, sums=sums, products=products, largest=largest)

    def against_rest(self, number: int) -> Moments:
        """Moments of two classes: all others as class 0, and one class as class 1."""
        if not self.is_by_class:
            raise ValueError("The sums of one class are not known apart from those of the others.")
        others = np.arange(len(self.counts)) != number
        counts, sums, products, largest = (
            np.stack([np.tensordot(others, each, 1), each[number]])
            for each in (self.counts, self.sums, self.products, self.squares)
        )
        return Moments(self.shift, counts, sums, products, largest=largest)

    def expand_classes(self, positions: Indices, n_classes: int) -> Moments:
        """The same moments among more classes; ``positions`` has the new number of each class."""
        larger = Moments.empty(
            len(self.shift), n_classes, shift=self.shift, by_class=self.is_by_class
        )
        larger.counts[positions] = self.counts
        larger.sums[positions] = self.sums
        places = positions if self.is_by_class else slice(None)
        larger.products[places] = self.products
        if self.largest is None:
            return larger
        largest = np.zeros((len(larger.products), len(self.shift)))
        largest[places] = self.largest
        return replace(larger, largest=largest)

    def select_classes(self, numbers: Indices) -> Moments:
        """The same moments of some classes; the others have no rows."""
        counts, sums = self.counts[numbers], self.sums[numbers]
        products, largest = self.products, self.largest
        if self.is_by_class:
            products = products[numbers]
            largest = None if largest is None else largest[numbers]
        return replace(self, counts=counts, sums=sums, products=products, largest=largest)

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


def _all_but_one(stack: Floats, outside: Floats) -> Iterator[Floats]:
    """The sum of all matrices of a stack but one, and of ``outside``, for each in order."""
    # Halves, quarters and so on: n log2(n) sums and log2(n) matrices at a time for n matrices.
    if len(stack) == 1:
        yield outside
        return
    left, right = stack[: len(stack) // 2], stack[len(stack) // 2 :]
    yield from _all_but_one(left, outside + right.sum(axis=0))
    yield from _all_but_one(right, outside + left.sum(axis=0))


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

    ``gap`` bounds (objective - optimum) / objective of the worst output, with the rounding of the
    sums. ``residual`` is the norm of the residual over that of the right-hand side, for the worst
    output and with columns scaled to a unit diagonal; it says nothing about the conditioning.
    """

    coef: Floats
    intercept: Floats
    objective: Floats  # of each output, 1/2 (|w|^2 + b^2) + C/2 sum_i n_i (d_i - f_i)^2
    gap: float
    residual: float
    n_factorizations: int


def solve_normal_equations(
    moments: Moments, C: float, signs: Floats, weights: Floats | None = None, rows: Any = None
) -> Solution:
    """Solve (M + u u') v = r for all outputs, and warn of a relative gap above 1e-6.

    ``signs`` and ``weights`` have shape (n_outputs, n_classes). Weights of None are 1 for every
    class: all outputs share one matrix M and its Cholesky factor, n_features^3 / 3 operations.
    With ``rows``, as :func:`~kernlet.least_squares.triangles.solve_by_rows` takes them, a larger
    gap is first reduced by a solution from the rows themselves.
    """
    if weights is not None and not moments.is_by_class:
        raise ValueError(
            "Class weights need sums by class; these were collected for all classes together."
        )
    C = _checked_cost(C, float(moments.totals.sum()))
    with np.errstate(over="ignore", invalid="ignore"):
        solution = _solve_moments(moments, C, signs, weights)
    if not solution.gap <= GAP_WORTH_WARNING and rows is not None:
        from kernlet.least_squares.triangles import solve_by_rows  # late: it needs Solution

        weights = np.ones(signs.shape) if weights is None else weights
        better = solve_by_rows(rows, moments, C, signs, weights, solution)
        if better is not None and better.gap <= solution.gap:
            solution = better
    if not (np.isfinite(solution.coef).all() and np.isfinite(solution.intercept).all()):
        raise ValueError(
            "The weights of the classifier overflow. Scale the columns, for example with "
            "StandardScaler, or make C smaller."
        )
    if not solution.gap <= GAP_WORTH_WARNING:
        warn_user(
            f"The objective may be above its optimum by a relative gap of {solution.gap:.1e}, "
            f"which round-off hides (the equations have a residual of {solution.residual:.1e}): "
            "columns or kernel values are nearly dependent or very large, or much larger rows "
            "were forgotten. Centre and scale the columns, for example with StandardScaler, make "
            "C smaller, or fit again."
        )
    return solution


def _checked_cost(C: Any, total: float) -> float:
    """C as a float; refused where it, its inverse or C times the weight of the rows overflows."""
    cost = as_float("C", C)
    if not cost > 0 or not np.isfinite(1 / cost):
        raise ValueError(f"C={C} is too small: 1 / C is not a finite number.")
    if not np.isfinite(cost * max(1.0, total) * 10.0):
        raise ValueError(f"C={C:g} times the weight of the rows overflows; give smaller numbers.")
    return cost


def _solve_moments(moments: Moments, C: float, signs: Floats, weights: Floats | None) -> Solution:
    """The solution from the moments alone."""
    shift, n_features = moments.shift, len(moments.shift)
    border = np.append(-shift, 1.0) / np.sqrt(C)
    groups = [signs] if weights is None else list(signs[:, None])
    class_weights: Floats = np.ones((1, signs.shape[1])) if weights is None else weights
    parts = []
    for own, outputs, matrix in zip(
        class_weights, groups, moments.matrices(class_weights), strict=True
    ):
        matrix[np.diag_indices(n_features)] += 1.0 / C
        squares = own @ moments.squares if moments.is_by_class else moments.squares[0]
        total = float(own @ moments.totals)
        equations = _Equations(matrix, border, np.append(squares + 1.0 / C, total), total)
        parts.append(equations.solve(((own * outputs) @ moments.sums).T))
    columns, objectives, gaps, residuals = zip(*parts, strict=True)
    solution = np.hstack(columns).T
    coef = solution[:, :-1]
    return Solution(
        coef,
        solution[:, -1] - coef @ shift,
        C * np.concatenate(objectives),
        float(np.max(gaps)),
        float(np.max(residuals)),
        len(parts),
    )


class _Equations:
    """(matrix + border border') v = rights, in columns scaled to a unit diagonal.

    ``squares`` is the diagonal with all that was summed, also what was forgotten since, and
    ``total`` the weight of the rows.
    """

    def __init__(self, matrix: Floats, border: Floats, squares: Floats, total: float) -> None:
        diagonal = matrix.diagonal()
        if not (diagonal >= 0).all():
            raise ValueError(
                "The sums are not those of any rows: rows were forgotten that had not been learned."
            )
        size = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        self.scale, self.total = 1.0 / size, total
        self.border = border * self.scale
        self.noise = np.maximum(1.0, np.sqrt(squares) * self.scale)
        self.system = _Bordered(matrix * self.scale * self.scale[:, None], self.border)
        # S >= (|w|^2 + (v_last - s.w)^2) / C, whose matrix has determinant 1 and a largest
        # eigenvalue of at most 2 + |s|^2; the border is (-s, 1) / sqrt(C).
        point = border / border[-1]
        self.least = float(border[-1] ** 2 / (1.0 + point @ point) / size.max() ** 2)

    def solve(self, rights: Floats) -> tuple[Floats, Floats, float, float]:
        """Solutions, their objectives over C, and the largest relative gap and residual."""
        rights = np.vstack([rights * self.scale[:, None], np.zeros(rights.shape[1])])
        result = self._judge(*self.system.refined(rights), rights)
        if not result[2] <= GAP_WORTH_WARNING and self.noise.max() > _MUCH_FORGOTTEN:
            # Errors of the sums may exceed the eigenvalues that are left, and then solutions have
            # no limit. A ridge of the size of the errors keeps them sane.
            matrix = self.system.matrix.copy()
            ridge = _SUM_ERROR * np.sqrt(len(matrix)) * self.noise**2
            matrix[np.diag_indices_from(matrix)] += ridge
            solution, _, _ = _Bordered(matrix, self.border).refined(rights)
            residual = rights - self.system.product(solution)
            result = self._judge(solution, residual, _largest_ratio(residual, rights), rights)
        return result

    def _judge(
        self, solution: Floats, residual: Floats, ratio: float, rights: Floats
    ) -> tuple[Floats, Floats, float, float]:
        """A solution in the original columns, with its certificate."""
        objectives = self._objectives(solution[:-1], rights[:-1] + residual[:-1], residual[-1])
        floors = np.maximum(objectives, SMALLEST_OBJECTIVE * self.total / 2)
        gap = self._gap_bound(solution[:-1], residual, floors)
        if not gap <= _SMALL_GAP:
            errors = 20 * np.finfo(float).eps * float(self.noise @ self.noise)
            self.least = max(self.least, self.system.least_eigenvalue(errors))
            gap = self._gap_bound(solution[:-1], residual, floors)
        return solution[:-1] * self.scale[:, None], objectives, gap, ratio

    def _objectives(self, solution: Floats, sums: Floats, residual: Floats) -> Floats:
        """1/2 v'S v - r'v + total / 2, never negative.

        ``sums`` are r + the residual of the upper lines, which are r - A v - g l for the last
        unknown l, and ``residual`` is that of the last line, k^2 l - g'v.
        """
        across = self.system.border[:, 0] @ solution * residual / self.system.corner
        straight = np.einsum("ij,ij->j", solution, sums)
        return np.maximum(0.5 * (self.total - straight - across), 0.0)

    def _gap_bound(self, solution: Floats, residual: Floats, floors: Floats) -> float:
        """The largest 1/2 g' S^-1 g over ``floors``, with the rounding of the sums in g."""
        noise = self.noise
        sizes = np.linalg.norm(noise[:, None] * solution, axis=0) + np.sqrt(self.total)
        rounding = _SUM_ERROR * np.linalg.norm(noise) * sizes
        # What is wrong with the product of the border enters the objective as it is.
        across = np.abs(self.border) @ np.abs(solution) * _SUM_ERROR
        across += np.abs(residual[-1]) / np.sqrt(self.system.corner)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            gradient = (np.linalg.norm(residual[:-1], axis=0) + rounding) / np.sqrt(self.least)
            gaps = (0.5 * (gradient + across) ** 2 + _SUM_ERROR * sizes**2) / floors
        # The optimum is not negative, so that no gap exceeds the objective.
        return float(np.minimum(np.max(gaps), 1.0))


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
        self.factor: Any = None
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

    def refined(self, rights: Floats) -> tuple[Floats, Floats, float]:
        """The same with a residual of round-off, the residual and its relative size."""
        solution = self.solve(rights)
        for count in range(_MAX_REFINEMENTS + 1):
            residual = rights - self.product(solution)
            ratio = _largest_ratio(residual, rights)
            if ratio <= _SMALL_RESIDUAL or count == _MAX_REFINEMENTS:
                break
            solution += self.solve(residual)
        return solution, residual, ratio

    def least_eigenvalue(self, errors: float) -> float:
        """A lower estimate of the least eigenvalue of A, 0 where its ``errors`` hide it."""
        if self.factor is None:
            return 0.0
        # |A^-1| of the spectral norm is at most that of the 1-norm, which LAPACK estimates to
        # within a factor of about 3 in a few triangular solutions.
        least, _ = dpocon(self.factor[0], 1.0, uplo="L")
        return float(least) if least > errors else 0.0

    def _decompose(self) -> None:
        """Pseudoinverse: eigenvalues below n eps times the largest count as zero."""
        whole = np.block([[self.matrix, self.border], [self.border.T, np.array([[-self.corner]])]])
        values, self.vectors = eigh(whole)
        sizes = np.abs(values)
        used = sizes > len(whole) * np.finfo(float).eps * sizes.max()
        self.inverses = np.where(used, 1.0 / np.where(used, values, 1.0), 0.0)

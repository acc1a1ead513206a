"""Sequences of orthogonal features, one per output, as MMDA extracts them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import ColumnCache, Gram, LandmarkBlocks, row_slices
from kernlet.kernels.linalg import orthonormal_map, orthonormalized
from kernlet.sampling import landmark_rows
from kernlet.squared.core_set import CoreRule, find_core_set
from kernlet.squared.newton import FLOAT32_LARGEST_COST, LandmarkNewton, minimize_matrix
from kernlet.squared.problem import Solution, SquaredMargin, kernel_diagonal

# How this works
# --------------
# The first feature of an output is the unit normal u_1 = w / |w| of its squared-hinge solution;
# feature q is that of the best w orthogonal to u_1 .. u_(q-1). Two representations of u:
#
#   landmarks   coordinates in an orthonormal basis of the span of a few landmark rows. All
#               outputs share it, orthogonality is that of short vectors.
#   rows        coefficients over training rows, with u . f(x_i) at all rows kept as features F.
#               Gram-Schmidt happens in feature space, by kernel sums.
#
# Where rows depend on each other (low rank, equal rows), coefficients of a vector are not unique,
# and those that solvers find may be large and nearly cancel: every sum loses digits. ``shortest``
# replaces them by the shortest coefficients of the same vector. A vector that is small against
# the sum of its summands' norms is round-off: the feature is zero then.

_ROUNDOFF_SHARE = 1e-20  # a squared norm below this share of that of its summands is round-off
_CANCELLATION_SHARE = 1e-4  # below this share coefficients are replaced by the shortest ones
_UNCORRELATED_SHARE = 1e-3  # likewise, of what summands without correlation would add up to
_INTERCEPT_SHARE = 1e-6  # values below this share of the intercept are recomputed without it
_UNDERFLOW_SQUARED = 1e-290  # squared norms below this have lost digits to underflow

_FLOAT64_GAP = 1e-6  # gaps below this need float64 blocks
_ROUNDOFF_GAP = 1e-20  # gap to reach where a feature must be told from round-off
_DOUBTFUL_WEIGHT = 1e-6  # relative to its summands, a weight vector below this is doubtful
_ROUNDOFF_WEIGHT = 1e-10  # and below this it is round-off
_UNDERFLOW = 1e-145  # its square would underflow
#: Warn where round-off may add this to a gap. The basis of landmarks leaves out the smallest
#: eigenvalues, which may cost rows of two or three columns 0.02.
ERROR_WORTH_WARNING = {"landmarks": 0.1, "core": 1e-4, "exact": 1e-4}
_ROUGH_ROWS = 20  # rows per landmark of a first, rough solution
_ROUGH_GAP = 1e-4


class MatrixProducts:
    """Sums over rows with the whole kernel matrix K; ``shortest`` takes n_rows^3 once."""

    def __init__(self, K: Floats) -> None:
        self.K = K

    @cached_property
    def lengths(self) -> Floats:
        """|f(x_i)| of all rows."""
        return np.sqrt(np.maximum(0.0, np.diagonal(self.K)))

    @cached_property
    def _map(self) -> Floats:
        return orthonormal_map(self.K)

    def image(self, coef: Floats) -> Floats:
        """K coef."""
        return np.asarray(self.K @ coef)

    def cancels(self, coef: Floats, squared_norm: float, size: float) -> bool:
        """Whether the summands of a vector cancel, so that shorter coefficients are worth it.

        The shortest need all rows, support vectors or not. So a sum is not judged by its largest
        possible ``size``, which grows with the square of the number of its summands.
        """
        return not squared_norm > _UNCORRELATED_SHARE * float(np.square(coef * self.lengths).sum())

    def shortest(self, coef: Floats) -> Floats:
        """The shortest coefficients of the same vector: K^+ K coef."""
        return np.asarray(self._map @ (self._map.T @ self.image(coef)))


class ColumnProducts:
    """Sums over few rows with cached kernel columns; ``shortest`` takes n_coef^3."""

    def __init__(self, gram: Gram, columns: ColumnCache) -> None:
        self.gram, self.columns = gram, columns

    @cached_property
    def lengths(self) -> Floats:
        """|f(x_i)| of all rows."""
        return np.sqrt(np.maximum(0.0, kernel_diagonal(self.gram)))

    def image(self, coef: Floats) -> Floats:
        """K coef."""
        rows = np.flatnonzero(coef)
        return self.columns.combine(rows, coef[rows, None])[0]

    def cancels(self, coef: Floats, squared_norm: float, size: float) -> bool:
        """Whether a vector is much shorter than its summands together."""
        return not squared_norm > _CANCELLATION_SHARE * size

    def shortest(self, coef: Floats) -> Floats:
        """The shortest coefficients of the same vector, over the same rows."""
        rows = np.flatnonzero(coef)
        short = np.zeros_like(coef)
        short[rows] = MatrixProducts(self.gram.block(rows, rows)).shortest(coef[rows])
        return short


RowProducts = MatrixProducts | ColumnProducts


class OrthonormalRows:
    """Vectors u_q = sum_i coef_iq f(x_i), each orthogonal to those before and of norm 1.

    ``features`` are u_q . f(x_i) at all rows, of shape (n_rows, n_vectors) like ``coef``.
    """

    def __init__(self, n_rows: int, products: RowProducts) -> None:
        self.products = products
        self.coef: Floats = np.zeros((n_rows, 0))
        self.features: Floats = np.zeros((n_rows, 0))

    def append(self, coef: Floats, image: Floats | None) -> bool:
        """Orthonormalise and add a vector; False where nothing but round-off is left of it.

        ``image`` are its values at the rows, already orthogonal to the others, where known.
        """
        size = self._summand_norm(coef)
        coef = coef - self.coef @ (self.features.T @ coef)
        image = self.products.image(coef) if image is None else image
        size = max(size, self._summand_norm(coef))
        if not size > _UNDERFLOW_SQUARED:
            return False
        cancels = self.products.cancels(coef, float(coef @ image), size)
        for _ in range(3):  # each round leaves less of the round-off of the one before
            if cancels:
                coef = self.products.shortest(coef)
                image = self.products.image(coef)
            squared_norm = float(coef @ image)
            if not squared_norm > max(_ROUNDOFF_SHARE * size, _UNDERFLOW_SQUARED):
                return False
            coef, image = coef / np.sqrt(squared_norm), image / np.sqrt(squared_norm)
            along = self.features.T @ coef
            coef, image = coef - self.coef @ along, image - self.features @ along
            size = 0.0
        self.coef = np.column_stack([self.coef, coef])
        self.features = np.column_stack([self.features, image])
        return True

    def _summand_norm(self, coef: Floats) -> float:
        """(sum_i |coef_i| |f(x_i)|)^2."""
        return float(np.abs(coef) @ self.products.lengths) ** 2


@dataclass(frozen=True, eq=False)
class MarginData:
    """The one-vs-rest problems of all outputs; signs are of shape (n_outputs, n_rows)."""

    kernel: Kernel
    X: Any
    signs: Floats
    costs: Floats
    max_bytes: int

    @property
    def n_rows(self) -> int:
        """Training rows."""
        return int(self.signs.shape[1])


class LandmarkFeatures:
    """Features in the span of a few landmark rows, shared by all outputs.

    Time grows with n_rows; memory is one block of rows, or all of them where they fit.
    """

    def __init__(
        self, data: MarginData, n_landmarks: int, tol: float, random_state: np.random.RandomState
    ) -> None:
        self.data, self.tol = data, tol
        self.order = random_state.permutation(data.n_rows)
        self.rows = landmark_rows(self.order, n_landmarks, data.X)
        self.n_iter = 0
        self._start(tol < _FLOAT64_GAP or float(data.costs.sum()) > FLOAT32_LARGEST_COST)

    def _start(self, is_fine: bool) -> None:
        """Without features, in float64 or in float32."""
        data = self.data
        dtype = np.float64 if is_fine else np.float32
        gram = Gram(data.kernel, data.X, data.X[self.rows], dtype=dtype)
        self.blocks = LandmarkBlocks(gram, data.max_bytes)
        self.newton = LandmarkNewton(self.blocks, data.signs, data.costs)
        n_rough = _ROUGH_ROWS * len(self.rows)
        self.rough = self._rough_newton(n_rough) if 2 * n_rough < data.n_rows else None
        self.earlier: list[Floats] = [np.zeros((self.blocks.rank, 0)) for _ in data.signs]
        self.directions: list[Floats] = []

    def _rough_newton(self, n_rows: int) -> LandmarkNewton:
        """The problem of a sample of rows, whose solutions are a warm start."""
        data, gram = self.data, self.blocks.gram
        sample = np.sort(self.order[-n_rows:])
        landmarks = data.X[self.rows]
        rough = Gram(data.kernel, data.X[sample], landmarks, dtype=gram.x.dtype, shift=gram.z.shift)
        costs = data.costs[sample] * (data.costs.sum() / data.costs[sample].sum())
        blocks = LandmarkBlocks(rough, data.max_bytes, self.blocks.basis)
        return LandmarkNewton(blocks, data.signs[:, sample], costs)

    def extend(self) -> list[Solution]:
        """Find the next feature of every output.

        Where one cannot be told from round-off, all are computed again to a gap that tells.
        """
        solutions, is_sure = self._extend()
        if not is_sure and self.tol > _ROUNDOFF_GAP:
            n_rounds, self.tol = len(self.directions), _ROUNDOFF_GAP
            self._start(is_fine=True)
            for _ in range(n_rounds):
                solutions, _ = self._extend()
        return solutions

    def _extend(self) -> tuple[list[Solution], bool]:
        """The next solutions, and whether each one clearly has or has not a direction."""
        start = None
        if self.rough is not None:
            rough = self.rough.solve(self.earlier, tol=max(self.tol, _ROUGH_GAP))
            start = np.array([np.append(s.coef, s.intercept) for s in rough])
        solutions = self.newton.solve(self.earlier, start=start, tol=self.tol)
        self.n_iter += solutions[0].n_iter
        weights, sizes = np.array([s.coef for s in solutions]), self.newton.summand_norms(solutions)
        norms = np.linalg.norm(weights, axis=1)
        is_there = norms > np.maximum(_ROUNDOFF_WEIGHT * sizes, _UNDERFLOW)
        is_clear = norms > _DOUBTFUL_WEIGHT * sizes
        directions = np.zeros_like(weights)
        for number in np.flatnonzero(is_there):
            directions[number] = weights[number] / norms[number]
            self.earlier[number] = np.column_stack([self.earlier[number], directions[number]])
        self.directions.append(directions)
        return self._with_errors(solutions), bool((is_clear | ~is_there).all())

    def _with_errors(self, solutions: list[Solution]) -> list[Solution]:
        """The solutions with bounds on what their gaps may lack in the whole span of the landmarks.

        With v = sum_i c_i slack_i d_i f(x_i), P - D is 1/2 |w - v|^2. Newton's method has only seen
        the part of v in the basis, and that with the round-off of the blocks.
        """
        values = np.array([solution.values for solution in solutions])
        signs, costs = self.data.signs, self.data.costs
        duals = costs * signs * np.maximum(0.0, 1.0 - signs * values)
        doubled = 2.0 * np.array([max(s.objective, np.finfo(float).tiny) for s in solutions])
        squares = self._left_out(duals, ERROR_WORTH_WARNING["landmarks"] * doubled)
        squares = squares + np.square(duals) @ self.newton.squared_norms * self.blocks.noise
        errors = np.minimum(1.0, squares / doubled).tolist()  # D is at least 0
        return [replace(s, gap_error=error) for s, error in zip(solutions, errors, strict=True)]

    def _left_out(self, duals: Floats, negligible: Floats) -> Floats:
        """|v|^2 of each output along the directions that the basis leaves out.

        Computed, in a pass over the rows, where its estimate by eigenvalues is not negligible.
        """
        blocks, n_rows, n_landmarks = self.blocks, self.data.n_rows, len(self.rows)
        # The rows' products have about this many times the eigenvalues of the landmarks'.
        squares = np.square(duals).sum(axis=1) * (n_rows / n_landmarks)
        if (blocks.truncated * squares <= negligible).all():
            return blocks.truncated * squares
        gram = Gram(self.data.kernel, self.data.X, self.data.X[self.rows])
        along = sum(
            duals[:, rows] @ (gram.block(rows, slice(None)) @ blocks.left_out)
            for rows in row_slices(n_rows, 8 * max(n_landmarks, self.data.X.shape[1]))
        )
        return np.asarray(np.square(along).sum(axis=1) + blocks.unknown * squares)

    def features(self) -> tuple[Indices, Floats]:
        """Landmarks and coefficients; those of one output are orthonormal to the last digit."""
        directions = np.array(self.directions)  # round, output, coordinate
        coef = np.zeros((*directions.shape[:2], len(self.rows)))
        for number in range(directions.shape[1]):
            is_there = directions[:, number].any(axis=1)
            vectors = self.blocks.basis @ directions[is_there, number].T
            coef[is_there, number] = orthonormalized(vectors, self.blocks.products).T
        return self.rows, coef.reshape(-1, len(self.rows))


class SupportFeatures:
    """Features over any training rows.

    ``solve(signs, features, known)`` solves one output orthogonally to its earlier features;
    ``known`` are the rows that these are sums over.
    """

    def __init__(
        self,
        data: MarginData,
        products: RowProducts,
        solve: Callable[[Floats, Floats | None, Indices], Solution],
    ) -> None:
        self.data, self.solve = data, solve
        self.vectors = [OrthonormalRows(data.n_rows, products) for _ in data.signs]
        self.coef: list[Floats] = []
        self.n_iter = 0

    def extend(self) -> list[Solution]:
        """Find the next feature of every output."""
        solutions, n_rows = [], self.data.n_rows
        for signs, vectors in zip(self.data.signs, self.vectors, strict=True):
            known = np.flatnonzero(vectors.coef.any(axis=1))
            features = vectors.features if vectors.features.shape[1] else None
            solution = self.solve(signs, features, known)
            coef = solution.spread(solution.coef, n_rows)
            is_new = vectors.append(coef, _without_intercept(solution.values, coef))
            self.coef.append(vectors.coef[:, -1] if is_new else np.zeros(n_rows))
            error = self._excess(solution, signs, coef, vectors.features[:, -1]) if is_new else 0.0
            solutions.append(replace(solution, gap_error=error))
        self.n_iter += sum(solution.n_iter for solution in solutions)
        return solutions

    def _excess(self, solution: Solution, signs: Floats, coef: Floats, feature: Floats) -> float:
        """The share of P that a feature costs more than its solution, a part of which it may lack.

        ``feature`` are its values at the rows.
        """
        length = float(coef @ feature)  # of the solution along the feature
        slacks = np.maximum(0.0, 1.0 - signs * (length * feature + solution.intercept))
        squared_norm = length**2 + solution.intercept**2
        objective = 0.5 * (squared_norm + float(self.data.costs @ slacks**2))
        return max(0.0, objective - solution.objective) / max(objective, np.finfo(float).tiny)

    def features(self) -> tuple[Indices, Floats]:
        """The rows that any feature needs, and coefficients over them."""
        coef = np.array(self.coef)
        rows = np.flatnonzero(coef.any(axis=0))
        return rows, coef[:, rows]


def _without_intercept(values: Floats, coef: Floats) -> Floats | None:
    """Decision values less the intercept; None where that leaves round-off of the intercept."""
    intercept = float(coef.sum())
    image = values - intercept
    return image if np.abs(image).max() > _INTERCEPT_SHARE * abs(intercept) else None


#: ``extend`` finds the next feature of every output; ``features`` gives the rows that features are
#: sums over, and coefficients by round and output; ``n_iter`` counts the work.
FeatureSequence = LandmarkFeatures | SupportFeatures


def core_features(
    data: MarginData, rule: CoreRule, random_state: np.random.RandomState
) -> SupportFeatures:
    """Features by core sets, which share cached kernel columns."""
    gram = Gram(data.kernel, data.X, hold=True)
    columns = ColumnCache(gram, data.max_bytes)

    def solve(signs: Floats, features: Floats | None, known: Indices) -> Solution:
        problem = SquaredMargin(gram, signs, data.costs, features)
        return find_core_set(problem, columns, rule, random_state=random_state, known=known)

    return SupportFeatures(data, ColumnProducts(gram, columns), solve)


def exact_features(data: MarginData, tol: float) -> SupportFeatures:
    """Features with the whole kernel matrix."""
    needed = 8 * data.n_rows**2
    if needed > data.max_bytes:
        raise ValueError(
            f'solver="exact" holds the kernel matrix: {needed / 2**20:.1f} MB for {data.n_rows} '
            'rows, and cache_size allows less. Use solver="landmarks", or raise cache_size.'
        )
    gram, K = Gram(data.kernel, data.X), data.kernel(data.X, data.X)
    if not np.isfinite(K).all():
        raise ValueError("The kernel overflows at the rows. Scale the features.")

    def solve(signs: Floats, features: Floats | None, known: Indices) -> Solution:
        return minimize_matrix(SquaredMargin(gram, signs, data.costs, features), K, tol=tol)

    return SupportFeatures(data, MatrixProducts(K), solve)

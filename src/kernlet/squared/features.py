"""Sequences of orthogonal features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import ColumnCache, Gram
from kernlet.kernels.landmarks import LandmarkBlocks
from kernlet.kernels.linalg import orthonormal_map, orthonormalized
from kernlet.sampling import landmark_rows
from kernlet.squared.core_set import CoreRule, CoreStatus, find_core_set
from kernlet.squared.newton import FEW_DIGITS_DO, LandmarkNewton, NewtonDirections, solve_deflated
from kernlet.squared.problem import EnclosingBall

_DIAGONAL_ROWS = 64


class RowProducts(Protocol):
    """What sums over training rows need of a kernel."""

    @property
    def lengths(self) -> Floats:
        """|f(x_i)| of all rows."""
        ...

    def image(self, coef: Floats) -> Floats:
        """K coef."""
        ...

    def shortest(self, coef: Floats) -> Floats:
        """Coefficients of the same vector, without what adds up to nothing."""
        ...


class MatrixProducts:
    """Sums over rows whose whole kernel matrix is held.

    The first call of :meth:`shortest` takes the cube of the number of rows, and keeps a matrix
    as large as K.

    Parameters
    ----------
    K : ndarray of shape (n_rows, n_rows)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.squared.features import MatrixProducts
    >>> MatrixProducts(np.ones((2, 2))).shortest(np.array([1001.0, -999.0])).round(6)
    array([1., 1.])
    """

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

    def shortest(self, coef: Floats) -> Floats:
        """Coefficients of the same vector, without what adds up to nothing."""
        return np.asarray(self._map @ (self._map.T @ self.image(coef)))


class ColumnProducts:
    """Sums over few rows, by columns of the kernel matrix.

    :meth:`shortest` takes the cube of the number of coefficients.

    Parameters
    ----------
    gram : Gram
        K(X, X).
    columns : ColumnCache
        Of that matrix.
    """

    def __init__(self, gram: Gram, columns: ColumnCache) -> None:
        self.gram, self.columns = gram, columns

    @cached_property
    def lengths(self) -> Floats:
        """|f(x_i)| of all rows."""
        squares = np.empty(len(self.gram.x))
        for start in range(0, len(squares), _DIAGONAL_ROWS):
            rows = slice(start, min(start + _DIAGONAL_ROWS, len(squares)))
            squares[rows] = np.diagonal(self.gram.block(rows, rows))
        return np.sqrt(np.maximum(0.0, squares))

    def image(self, coef: Floats) -> Floats:
        """K coef."""
        rows = np.flatnonzero(coef)
        return self.columns.combine(rows, coef[rows, None])[0]

    def shortest(self, coef: Floats) -> Floats:
        """Coefficients of the same vector, without what adds up to nothing."""
        rows = np.flatnonzero(coef)
        short = np.zeros_like(coef)
        short[rows] = MatrixProducts(self.gram.block(rows, rows)).shortest(coef[rows])
        return short


_NOTHING = 1e-20  # a squared norm below this share of that of the summands is rounding
_FEW_DIGITS = 1e-4  # below this share the coefficients are shortened first
_TINY = 1e-290


class RowDirections:
    """Directions u_q = sum_i coef_iq f(x_i), each orthogonal to those before and of norm 1.

    Coefficients of a vector are not unique where rows depend on each other, and those that
    solvers find may be large and add up to little: digits are lost in every sum. Such ones are
    replaced by the shortest that make the same vector, and its values computed anew.

    Parameters
    ----------
    n_rows : int
    products : RowProducts

    Attributes
    ----------
    coef : ndarray of shape (n_rows, n_directions)
    images : ndarray of shape (n_rows, n_directions)
        u_q . f(x_i) at all rows.
    """

    def __init__(self, n_rows: int, products: RowProducts) -> None:
        self.products = products
        self.coef: Floats = np.zeros((n_rows, 0))
        self.images: Floats = np.zeros((n_rows, 0))

    def append(self, coef: Floats, image: Floats) -> bool:
        """Add the direction of a vector, after what it has in the others is taken off.

        Parameters
        ----------
        coef : ndarray of shape (n_rows,)
            Of the vector, the directions not yet taken off.
        image : ndarray of shape (n_rows,)
            Its values at the rows, the directions taken off already.

        Returns
        -------
        is_new : bool
            False, and nothing is added, where nothing is left of the vector.
        """
        size = self._size(coef)
        coef = coef - self.coef @ (self.images.T @ coef)
        size = max(size, self._size(coef))
        if not size > _TINY:
            return False
        is_long = not float(coef @ image) > _FEW_DIGITS * size
        for _ in range(3):
            if is_long:
                coef = self.products.shortest(coef)
                image = self.products.image(coef)
            squared_norm = float(coef @ image)
            if not squared_norm > max(_NOTHING * size, _TINY):
                return False
            coef, image = coef / np.sqrt(squared_norm), image / np.sqrt(squared_norm)
            along = self.images.T @ coef
            coef, image = coef - self.coef @ along, image - self.images @ along
            size = 0.0
        self.coef = np.column_stack([self.coef, coef])
        self.images = np.column_stack([self.images, image])
        return True

    def _size(self, coef: Floats) -> float:
        """The square of what the summands' norms add up to."""
        return float(np.abs(coef) @ self.products.lengths) ** 2


_FINE = 1e-6  # gaps below this are computed in float64
_FINEST = 1e-20  # gap where small features are at stake
_FEW_DIGITS_FEATURE_CHAINS = 1e-6  # of what its summands add up to, a weight below this is doubtful
_NOTHING_FEATURE_CHAINS = 1e-10  # and below this it is rounding
_TINY_FEATURE_CHAINS = 1e-145
_FEW_ROWS = 20  # times the landmarks: rows of a first, rough answer


@dataclass(frozen=True, eq=False)
class MarginTask:
    """What the chains are made of.

    Parameters
    ----------
    kernel : Kernel
    X : {ndarray, csr matrix, RowReader} of shape (n_rows, n_features)
    signs : ndarray of shape (n_outputs, n_rows)
    costs : ndarray of shape (n_rows,)
    max_bytes : int
    """

    kernel: Kernel
    X: Any
    signs: Floats
    costs: Floats
    max_bytes: int

    @property
    def n_rows(self) -> int:
        """Training rows."""
        return int(self.signs.shape[1])


@dataclass(frozen=True, eq=False)
class Features:
    """Features of all outputs over one set of points, the first of every output first.

    Parameters
    ----------
    rows : ndarray of shape (n_points,)
        The training rows that the points are.
    coef : ndarray of shape (n_features, n_points)
    """

    rows: Indices
    coef: Floats


@dataclass(frozen=True, eq=False)
class Round:
    """How the next feature of every output was come by.

    Parameters
    ----------
    gap : ndarray of shape (n_outputs,)
        Relative duality gaps.
    eps : ndarray of shape (n_outputs,)
        True distances of the furthest rows, in radii less one; NaN where there is no ball.
    n_iter : int
    status : tuple of CoreStatus
        How the core sets ended; "optimal" for the other solvers, which have none.
    """

    gap: Floats
    eps: Floats
    n_iter: int
    status: tuple[CoreStatus, ...]


class Chains(Protocol):
    """One chain of orthogonal features an output."""

    def extend(self) -> Round:
        """Find the next feature of every output."""
        ...

    def features(self) -> Features:
        """The features so far."""
        ...


class LandmarkChains:
    """Features in the span of a few landmark rows, shared by all outputs.

    Time grows with n_rows; memory is one block of rows, or all of them where they fit
    ``task.max_bytes``, and a few numbers for each row and output.
    """

    def __init__(
        self, task: MarginTask, n_landmarks: int, tol: float, random_state: np.random.RandomState
    ) -> None:
        self.task, self.tol = task, tol
        self.order = random_state.permutation(task.n_rows)
        self.rows = landmark_rows(self.order, n_landmarks, task.X)
        self._start(tol < _FINE or float(task.costs.sum()) > FEW_DIGITS_DO)

    def _start(self, is_fine: bool) -> None:
        """Without features, in float64 or in float32."""
        task = self.task
        dtype = np.float64 if is_fine else np.float32
        gram = Gram(task.kernel, task.X, task.X[self.rows], dtype=dtype)
        self.blocks = LandmarkBlocks(gram, task.max_bytes)
        self.newton = LandmarkNewton(self.blocks, task.signs, task.costs)
        n_few = _FEW_ROWS * len(self.rows)
        self.rough = self._rough(n_few) if 2 * n_few < task.n_rows else None
        self.taken: list[Floats] = [np.zeros((self.blocks.rank, 0)) for _ in task.signs]
        self.found: list[Floats] = []

    def _rough(self, n_few: int) -> LandmarkNewton:
        """The problem of some of the rows, whose answers are a start."""
        task, whole = self.task, self.blocks.gram
        few = np.sort(self.order[-n_few:])
        landmarks = task.X[self.rows]
        part = Gram(task.kernel, task.X[few], landmarks, dtype=whole.x.dtype, shift=whole.z.shift)
        costs = task.costs[few] * (task.costs.sum() / task.costs[few].sum())
        blocks = LandmarkBlocks(part, task.max_bytes, self.blocks.basis)
        return LandmarkNewton(blocks, task.signs[:, few], costs)

    def extend(self) -> Round:
        """Find the next feature of every output.

        Where one can not be told from nothing, all are found again to the last digit.
        """
        answer, is_sure = self._extend()
        n_iter = answer.n_iter
        if not is_sure and self.tol > _FINEST:
            n_rounds, self.tol = len(self.found), _FINEST
            self._start(is_fine=True)
            for _ in range(n_rounds):
                answer, _ = self._extend()
                n_iter += answer.n_iter
        status: tuple[CoreStatus, ...] = tuple("optimal" for _ in self.taken)
        return Round(answer.gap, np.full(len(self.taken), np.nan), n_iter, status)

    def _extend(self) -> tuple[NewtonDirections, bool]:
        """The next machines, and whether each one clearly has or has not a direction."""
        start = None
        if self.rough is not None:
            rough = self.rough.solve(self.taken, tol=max(self.tol, 1e-4))
            start = np.column_stack([rough.weights, rough.intercept])
        answer = self.newton.solve(self.taken, start=start, tol=self.tol)
        norms = np.linalg.norm(answer.weights, axis=1)
        is_there = norms > np.maximum(_NOTHING_FEATURE_CHAINS * answer.sizes, _TINY_FEATURE_CHAINS)
        is_clear = norms > _FEW_DIGITS_FEATURE_CHAINS * answer.sizes
        found = np.zeros_like(answer.weights)
        for number in np.flatnonzero(is_there):
            found[number] = answer.weights[number] / norms[number]
            self.taken[number] = np.column_stack([self.taken[number], found[number]])
        self.found.append(found)
        return answer, bool((is_clear | ~is_there).all())

    def features(self) -> Features:
        """The features so far; those of one output are orthonormal to the last digit."""
        found = np.array(self.found)  # round, output, coordinate
        coef = np.empty((*found.shape[:2], len(self.rows)))
        for number in range(found.shape[1]):
            there = found[:, number].any(axis=1)
            along = self.blocks.basis @ found[there, number].T
            coef[there, number] = orthonormalized(along, self.blocks.products).T
            coef[~there, number] = 0.0
        return Features(self.rows, coef.reshape(-1, len(self.rows)))


@dataclass(frozen=True, eq=False)
class Machine:
    """The machine of one output, over training rows.

    Parameters
    ----------
    coef : ndarray of shape (n_rows,)
        Their sum is the intercept.
    values : ndarray of shape (n_rows,)
        w.f(x_i) + intercept, the directions taken off.
    gap : float
    n_iter : int
    eps : float, default=nan
    status : CoreStatus, default="optimal"
    """

    coef: Floats
    values: Floats
    gap: float
    n_iter: int
    eps: float = np.nan
    status: CoreStatus = "optimal"


class RowChains:
    """Features as sums over any training rows; a solver finds the machine of one output.

    Parameters
    ----------
    task : MarginTask
    products : RowProducts
    solve : callable
        ``solve(signs, images, known)``: a machine orthogonal to the directions with these images,
        of which those rows are known that the directions are sums over.
    """

    def __init__(
        self,
        task: MarginTask,
        products: RowProducts,
        solve: Callable[[Floats, Floats, Indices], Machine],
    ) -> None:
        self.task, self.solve = task, solve
        self.directions = [RowDirections(task.n_rows, products) for _ in task.signs]
        self.found: list[Floats] = []

    def extend(self) -> Round:
        """Find the next feature of every output."""
        machines = []
        for signs, directions in zip(self.task.signs, self.directions, strict=True):
            known = np.flatnonzero(directions.coef.any(axis=1))
            machine = self.solve(signs, directions.images, known)
            is_new = directions.append(machine.coef, machine.values - machine.coef.sum())
            self.found.append(directions.coef[:, -1] if is_new else np.zeros(self.task.n_rows))
            machines.append(machine)
        return Round(
            gap=np.array([m.gap for m in machines]),
            eps=np.array([m.eps for m in machines]),
            n_iter=sum(m.n_iter for m in machines),
            status=tuple(m.status for m in machines),
        )

    def features(self) -> Features:
        """The features so far, over the rows that any of them needs."""
        coef = np.array(self.found)
        rows = np.flatnonzero(coef.any(axis=0))
        return Features(rows, coef[:, rows])


def core_chains(task: MarginTask, rule: CoreRule, random_state: np.random.RandomState) -> RowChains:
    """Features by core sets, which share the kernel columns that they need.

    Parameters
    ----------
    task : MarginTask
    rule : CoreRule
    random_state : RandomState

    Returns
    -------
    chains : RowChains
    """
    gram = Gram(task.kernel, task.X, hold=True)
    columns = ColumnCache(gram, task.max_bytes)

    def solve(signs: Floats, images: Floats, known: Indices) -> Machine:
        ball = EnclosingBall(gram, signs, task.costs, images if images.shape[1] else None)
        found = find_core_set(ball, columns, rule, random_state=random_state, known=known)
        coef = np.zeros(task.n_rows)
        coef[found.rows] = found.coef
        return Machine(coef, found.values, found.gap, found.n_iter, found.eps, found.status)

    return RowChains(task, ColumnProducts(gram, columns), solve)


def exact_chains(task: MarginTask, tol: float) -> RowChains:
    """Features by the whole kernel matrix.

    Parameters
    ----------
    task : MarginTask
    tol : float

    Returns
    -------
    chains : RowChains
    """
    needed = 8 * task.n_rows**2
    if needed > task.max_bytes:
        raise ValueError(
            f'solver="exact" holds the kernel matrix: {needed / 2**20:.1f} MB for {task.n_rows} '
            'rows, and cache_size allows less. Use solver="landmarks", or raise cache_size.'
        )
    K = task.kernel(task.X, task.X)
    if not np.isfinite(K).all():
        raise ValueError("The kernel overflows at the rows. Scale the features.")

    def solve(signs: Floats, images: Floats, known: Indices) -> Machine:
        found = solve_deflated(K, signs, task.costs, images, tol=tol)
        return Machine(found.coef, found.values, found.gap, found.n_iter)

    return RowChains(task, MatrixProducts(K), solve)

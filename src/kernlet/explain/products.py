"""Exact Shapley values of expansions in product kernels, by Gauss quadrature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import slices_of

# How this works
# --------------
# A product kernel is k(x, z) = prod_e k_e(x_e, z_e) over the players e, each a feature or a group
# of features. For one center z and one background row b, the game is v(S) = prod_{e in S} a_e
# prod_{e not in S} c_e with a_e = k_e(x_e, z_e) and c_e = k_e(b_e, z_e). By its multilinear
# extension (Owen, 1972), in s from -1 to 1,
#
#     phi_e = int step_e prod_{i != e} f_i(s) ds,  f_i(s) = half_i + s step_i,
#     half = (a + c) / 2,  step = (a - c) / 2.
#
# The integrand is a polynomial of degree p - 1 for p players: ceil(p / 2) Gauss-Legendre nodes are
# exact, or one node less between the ends with Gauss-Lobatto, whose other nodes are the ends -1 and
# 1. These cost nothing: there the product is that of the c, the same for all rows, or of the a, the
# same for all background rows. Values of an expansion are the coefficients times those of its
# centers, averaged over the background, so that all outputs share one pass.
#
# The product without e is the whole product over f_e. That division is safe: between the ends
# |step_e| / f_e <= 1 / (1 - |s|), and where the product underflows so does the value. Adding 1e-300
# to a and c turns 0 / 0 of a player with a = c = 0 into the right answer.
#
# Fewer nodes. Let E_m(s^k) be the size of the error of m nodes and the ends on s^k. It is 0 for odd
# k and for k < 2 m + 2, and the errors of all others have one sign.
# Replacing step by |step| makes no coefficient of any player's integrand smaller in size, so that
#
#     sum_e |error_e| <= prod(half) sum_k (k + 1) e_{k+1}(kappa) E_m(s^k),  kappa = |step| / half,
#
# where e_k are elementary symmetric polynomials, and e_k(kappa) <= C(p, k) (sum(kappa) / p)^k by
# Maclaurin's inequality. So the bound of a center and a background row follows from a product and a
# sum, before any node is computed: `_tails` has the sum over k for a table of sums of kappa. The
# number of nodes is the smallest whose bound is below what is allowed.

_TINY = 1e-300
# Numbers of an array that is worked on at once, a megabyte: the calls of smaller ones take longer
# than the cache saves.
_BLOCK = 2**17
_MOST_BACKGROUND = 512  # background rows of a block
_TABLE_STEP = 1 / 64  # of the roots of sums of kappa
_FEW_NODES = 6  # finding out whether fewer would do takes the time of two
_NODES = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    10,
    12,
    14,
    16,
    20,
    24,
    28,
    32,
    40,
    48,
    64,
    80,
    96,
    128,
    192,
    256,
)
# Where fewer players move than this share, leaving out the others pays for copying these.
_FEW_MOVING = 0.8
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class ProductGame:
    """An expansion whose coordinates each belong to one player.

    Parameters
    ----------
    kernel : Kernel
        A product kernel.
    centers : ndarray of shape (n_centers, n_coordinates)
    coef : ndarray of shape (n_outputs, n_centers)
    owner : ndarray of shape (n_coordinates,)
        The player of each coordinate, ascending.
    n_players : int
    """

    kernel: Kernel
    centers: Floats
    coef: Floats
    owner: Indices
    n_players: int

    def values(self, U: Floats, background: Floats, allowed: Floats) -> tuple[Floats, Floats]:
        """Shapley values (n_rows, n_players, n_outputs) and bounds (n_rows, n_outputs).

        Rows are points of the coordinates. A bound is on the sum of the errors of all players,
        without round-off, and at most what is ``allowed`` (n_rows, n_outputs). Time grows with
        rows x background x centers x players x nodes; memory is a few blocks.
        """
        values = np.zeros((len(U), self.n_players, len(self.coef)))
        bounds = np.zeros((len(U), len(self.coef)))
        n_players = len(np.unique(self.owner))
        share = min(len(background), _MOST_BACKGROUND, max(1, 4 * _BLOCK // max(1, n_players)))
        n_centers = max(1, min(len(self.centers), _BLOCK // (n_players * share)))
        # allocated once: the system would clear the pages of each new array
        scratch = np.empty((5, max(_BLOCK, n_players * n_centers * share)))
        for centers in slices_of(len(self.centers), n_centers):
            for some in slices_of(len(background), share):
                weight = (some.stop - some.start) / len(background)
                part = weight * (centers.stop - centers.start) / len(self.centers)
                block = _Block(self, centers, background[some], weight, scratch)
                size = n_players * (centers.stop - centers.start) * (some.stop - some.start)
                for rows in slices_of(len(U), max(1, _BLOCK // size)):
                    block.add(U[rows], part * allowed[rows], values[rows], bounds[rows])
        return values, bounds


class _Block:
    """Some centers and background rows, whose factors are computed once for all rows."""

    def __init__(
        self,
        game: ProductGame,
        centers: slice,
        background: Floats,
        weight: float,
        scratch: Floats,
    ) -> None:
        kernel: Any = game.kernel
        if np.ndim(getattr(kernel, "gamma", 0.0)) and len(kernel.gamma) > 1:
            kernel = replace(kernel, gamma=kernel.gamma[centers])
        self.kernel, self.points = kernel, game.centers[centers].T[:, :, None]
        self.coef, self.scratch = game.coef[:, centers] * (weight / len(background)), scratch
        # players without a coordinate have values of 0
        self.players, self.starts = np.unique(game.owner, return_index=True)
        self.background = background
        self.factors = self._factors(background)
        # what the end -1 needs: sums over the background of products of all c, and without one
        whole = 2 * self.factors
        product = whole.prod(axis=0)
        self.sums = self.factors.sum(axis=-1)[:, None]  # players, 1, centers
        self.products = product.sum(axis=-1)
        self.without = (product / whole).sum(axis=-1)[:, None]

    def _factors(self, U: Floats) -> Floats:
        """Half the factors of the players, of shape (n_players, n_centers, n_rows)."""
        logs = self.kernel.log_factor(U.T[:, None, :] - self.points)
        if len(self.starts) < len(logs):
            logs = np.add.reduceat(logs, self.starts, axis=0)
        factors = np.exp(logs, out=logs)
        factors *= 0.5
        factors += _TINY
        return factors

    def add(self, U: Floats, allowed: Floats, values: Floats, bounds: Floats) -> None:
        """Add the values of some rows and their bounds."""
        is_moving = self._moving(U)
        if not is_moving.any():
            return
        a, c = self._factors(U).transpose(0, 2, 1), self.factors  # players, rows, centers
        product, kept, fixed = (2 * a).prod(axis=0), slice(None), None
        without = product / (2 * a)
        if np.count_nonzero(is_moving) < _FEW_MOVING * len(is_moving):
            fixed, kept = (2 * a[~is_moving]).prod(axis=0), is_moving
        c = c[kept][:, None]  # players, 1, centers, background rows
        shape = (len(c), len(U), *c.shape[2:])
        size = len(c) * len(U) * c[0].size
        half, step, *others = (array[:size].reshape(shape) for array in self.scratch)
        np.add(a[kept][..., None], c, out=half)
        np.subtract(a[kept][..., None], c, out=step)
        m, bound = self._n_nodes(half, step, fixed, allowed, others[0])
        bounds += bound
        # the ends: the sum over the background of step times the products without a player
        games = a * self.without - 0.5 * self.products
        games += 0.5 * len(self.background) * product - self.sums * without
        games *= 2 / ((m + 1) * (m + 2))
        if m > 0:
            inside = _integrals(half, step, m, *others)
            games[kept] += inside if fixed is None else inside * fixed
        games[~is_moving] = 0.0
        added = (games @ self.coef.T).transpose(1, 0, 2)
        is_all = len(self.players) == values.shape[1]
        values[:, slice(None) if is_all else self.players] += added

    def _moving(self, U: Floats) -> Any:
        """Which players differ from a background row in one of the rows."""
        moves = np.zeros(U.shape[1], dtype=bool)
        for u in U:
            moves |= (u != self.background).any(axis=0)
        return np.logical_or.reduceat(moves, self.starts)

    def _n_nodes(
        self, half: Floats, step: Floats, fixed: Any, allowed: Floats, kappa: Floats
    ) -> tuple[int, Floats]:
        """The fewest nodes whose bounds are allowed, and these bounds (n_rows, n_outputs)."""
        n_players = len(half)
        exact = (n_players - 1) // 2
        if exact <= _FEW_NODES:
            return exact, np.zeros_like(allowed)
        choices, weights = [m for m in _NODES if m < exact], np.abs(self.coef)
        np.abs(step, out=kappa)
        kappa /= half
        sums = kappa.sum(axis=0)
        sums *= 1 + n_players * _EPS  # rounded up
        np.sqrt(sums, out=sums)
        sums /= _TABLE_STEP
        place = np.ceil(sums).astype(np.intp)
        products = half.prod(axis=0)

        def bound(m: int) -> Floats:
            with np.errstate(invalid="ignore"):  # 0 times infinity is NaN, which is not allowed
                tails = (products * _tails(n_players, m)[place]).sum(axis=-1)
            return (tails if fixed is None else tails * fixed) @ weights.T

        low, high = 0, len(choices)  # bounds fall with the nodes: bisect
        found = np.zeros_like(allowed)
        while low < high:
            middle = (low + high) // 2
            given = bound(choices[middle])
            if np.all(given <= allowed):
                high, found = middle, given
            else:
                low = middle + 1
        return (exact, np.zeros_like(allowed)) if high == len(choices) else (choices[high], found)


def _integrals(
    half: Floats, step: Floats, m: int, total: Floats, moved: Floats, f: Floats
) -> Floats:
    """Sums over the last axis of int step_e prod_{i != e} (half_i + s step_i) ds, without the ends.

    The last three arrays are overwritten.
    """
    is_first = True
    for node, weight in _nodes(m):
        np.multiply(step, node, out=moved)
        for add in (np.add, np.subtract) if node else (np.add,):  # nodes come in pairs
            add(half, moved, out=f)
            product = np.multiply.reduce(f, axis=0)
            product *= weight
            np.divide(product, f, out=total if is_first else f)
            if not is_first:
                np.add(total, f, out=total)
            is_first = False
    return np.vecdot(total, step)


@lru_cache(maxsize=512)
def _nodes(m: int) -> tuple[tuple[float, float], ...]:
    """The Gauss-Lobatto nodes from 0 on without the end, and their weights; m from end to end."""
    from scipy.special import eval_legendre, roots_jacobi

    if m == 0:
        return ()
    nodes = roots_jacobi(m, 1, 1)[0][m // 2 :]
    nodes[0] *= m % 2 == 0  # the middle one of an odd number is 0
    weights = 2 / ((m + 1) * (m + 2) * np.square(eval_legendre(m + 1, nodes)))
    return tuple(zip(nodes.tolist(), weights.tolist(), strict=True))


def _tails(n_players: int, m: int) -> Floats:
    """sum_{k > 2 m, even} (k + 1) C(p, k + 1) (K / p)^(k + 1) E_m(s^k), for a table of K."""
    # it grows with p: rounding p up lets many p share a table
    unit = max(1, 2 ** (n_players.bit_length() - 4))
    return _table(-(-n_players // unit) * unit, m)


@lru_cache(maxsize=512)
def _table(n_players: int, m: int) -> Floats:
    from scipy.special import gammaln

    powers = np.arange(2 * m + 2, n_players, 2)
    sums: Any = 4 / ((m + 1) * (m + 2))
    sums = sums + sum((1 if s == 0 else 2) * w * s**powers for s, w in _nodes(m))
    errors = np.maximum(sums - 2 / (powers + 1), 0.0) + 8 * _EPS  # of round-off
    log_choose = gammaln(n_players + 1) - gammaln(powers + 2) - gammaln(n_players - powers)
    logs = np.log((powers + 1) * errors) + log_choose
    roots = _TABLE_STEP * np.arange(1, np.ceil(np.sqrt(n_players) / _TABLE_STEP) + 2)
    with np.errstate(over="ignore"):  # infinity is a bound too
        terms = np.exp(logs + (powers + 1) * (2 * np.log(roots) - np.log(n_players))[:, None])
    return np.concatenate([[0.0], terms.sum(axis=1)])

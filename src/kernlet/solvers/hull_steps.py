"""Steps towards the point of a hull nearest the origin, on the rows that are in play."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.problems.hull import Hull
from kernlet.solvers.column_pool import ColumnPool

_LARGE = 2**20  # numbers in X beyond which a column costs less in company
_COMPANY = 24


class ActiveRows:
    """The rows in play: weights, margins and the columns of Q that are held.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
        Their numbers in the whole hull, ascending.
    alpha, margins : ndarrays of shape (n_rows,)
    n2 : float
        |W|^2.
    pool : ColumnPool
    """

    def __init__(self, whole: Hull, alpha: Floats, max_bytes: int) -> None:
        self.whole = whole
        self.hull = whole
        self.rows: Indices = np.arange(whole.n_rows)
        self.alpha = alpha.copy()
        self.margins = whole.margins(alpha)
        self.pool = ColumnPool(whole.n_rows, max_bytes)
        self.diagonal = whole.diagonal
        self.refresh_norm()

    @property
    def n_rows(self) -> int:
        """Rows in play."""
        return len(self.rows)

    @property
    def gap(self) -> float:
        """Relative gap over the rows in play."""
        return max(0.0, 1.0 - float(self.margins.min()) / self.n2)

    @property
    def noise(self) -> float:
        """Rounding of a margin: differences below it say nothing."""
        ridge = self.hull.ridge
        largest = max((self.diagonal - ridge).max(), (ridge * self.alpha).max())
        return float(np.finfo(float).eps * largest)

    def refresh_norm(self) -> None:
        """Compute |W|^2 anew."""
        self.n2 = self.hull.squared_norm(self.alpha, self.margins)

    def column(self, number: int) -> Floats:
        """Column of Q; holds until a second other column is asked for."""
        found = self.pool.get(number)
        if found is None:
            numbers = self._company(number)
            self.pool.put(numbers, self.hull.columns(numbers))
            found = self.pool.get(number)
            assert found is not None
        return found

    def _company(self, number: int) -> Indices:
        """The column, with those of the next smallest margins where one alone is wasteful."""
        alone = np.array([number])
        size = min(_COMPANY, self.pool.capacity // 4)
        if self.hull.gram.x.X.shape[0] * self.hull.gram.x.X.shape[1] < _LARGE or size < 2:
            return alone
        least = np.argpartition(self.margins, min(4 * size, self.n_rows - 1))[: 4 * size]
        least = least[np.argsort(self.margins[least], kind="stable")]
        others = [i for i in least.tolist() if i != number and i not in self.pool]
        return np.array([number, *others[: size - 1]])

    def spread_alpha(self) -> Floats:
        """Alpha of all rows, of sum 1 to the last digit."""
        alpha = np.zeros(self.whole.n_rows)
        alpha[self.rows] = self.alpha / self.alpha.sum()
        return alpha

    def shrink(self) -> None:
        """Leave rows out that have no weight, and a larger margin than any that has."""
        support = self.alpha > 0
        kept = np.flatnonzero(support | (self.margins <= self.margins[support].max()))
        if len(kept) <= 0.8 * self.n_rows:
            self.pool.keep_rows(kept)
            self._take(self.rows[kept], self.alpha[kept], self.margins[kept])

    def extend(self, margins: Floats) -> None:
        """Take in rows that turn out to matter, given the margins of all rows."""
        wanted = margins < self.n2
        wanted[self.rows] = True
        rows = np.flatnonzero(wanted)
        if len(rows) > self.n_rows:
            old_places = np.searchsorted(rows, self.rows)
            alpha = np.zeros(len(rows))
            alpha[old_places] = self.alpha
            new = np.setdiff1d(np.arange(len(rows)), old_places)
            self._take(rows, alpha, margins[rows])
            self.pool.add_rows(
                old_places, len(rows), lambda numbers: self.hull.columns(numbers, new)
            )

    def _take(self, rows: Indices, alpha: Floats, margins: Floats) -> None:
        self.rows, self.alpha, self.margins = rows, alpha, margins
        self.hull = self.whole.subset(rows)
        self.diagonal = self.whole.diagonal[rows]


Steps = Callable[[ActiveRows, int, float], int]


def sk_steps(active: ActiveRows, n_steps: int, tol: float) -> int:
    """Steps of Schlesinger and Kozinec: from W towards the row of least margin.

    With g the margins and l the row of the least::

        lambda = min(1, (n2 - g_l) / (n2 - 2 g_l + Q_ll))
        n2 <- (1 - lambda)^2 n2 + 2 lambda (1 - lambda) g_l + lambda^2 Q_ll
        alpha <- (1 - lambda) alpha + lambda e_l,  g <- (1 - lambda) g + lambda Q_l

    Parameters
    ----------
    active : ActiveRows
        Changed in place.
    n_steps : int
    tol : float
        Relative gap at which to stop.

    Returns
    -------
    n_done : int
        Less than ``n_steps`` where the gap is reached or rounding leaves no step.
    """
    alpha, g, n2 = active.alpha, active.margins, active.n2
    step, noise = np.empty_like(g), active.noise
    n_done = 0
    while n_done < n_steps:
        l = int(g.argmin())  # noqa: E741
        g_l, Q_ll = float(g[l]), float(active.diagonal[l])
        if n2 - g_l <= max(tol * n2, noise):
            break
        move = min(1.0, (n2 - g_l) / (n2 - 2 * g_l + Q_ll))
        alpha *= 1 - move
        alpha[l] += move
        n2 = (1 - move) ** 2 * n2 + 2 * move * (1 - move) * g_l + move**2 * Q_ll
        np.multiply(active.column(l), move, out=step)
        g *= 1 - move
        g += step
        n_done += 1
    active.n2 = n2
    return n_done


def mdm_steps(active: ActiveRows, n_steps: int, tol: float) -> int:
    """Steps of Mitchell, Demyanov and Malozemov: weight from a row j to that of least margin.

    With g the margins and l the row of the least, moving t off row j takes

        2 t (g_j - g_l) - t^2 (Q_ll + Q_jj - 2 Q_lj)

    off |W|^2; the best t is clipped at alpha_j, and the j that takes most is chosen.

    Parameters
    ----------
    active : ActiveRows
        Changed in place.
    n_steps : int
    tol : float
        Relative gap at which to stop.

    Returns
    -------
    n_done : int
        Less than ``n_steps`` where the gap is reached or rounding leaves no step.
    """
    alpha, g, n2 = active.alpha, active.margins, active.n2
    half, noise = 0.5 * active.diagonal, active.noise
    least_curvature = float(active.hull.ridge.min())
    difference, curvature, move = np.empty_like(g), np.empty_like(g), np.empty_like(g)
    n_done = 0
    while n_done < n_steps:
        l = int(g.argmin())  # noqa: E741
        g_l = float(g[l])
        if n2 - g_l <= max(tol * n2, noise):
            break
        column = active.column(l)
        np.subtract(half, column, out=curvature)
        curvature += half[l]  # half of it, so far
        np.maximum(curvature, least_curvature, out=curvature)  # rounding
        np.subtract(g, g_l, out=difference)
        np.divide(difference, curvature, out=move)
        move *= 0.5
        np.minimum(move, alpha, out=move)
        curvature *= move
        difference *= 2.0
        difference -= curvature
        difference -= curvature
        difference *= move
        j = int(difference.argmax())
        gain, t = float(difference[j]), float(move[j])
        if not gain > 0.0:
            break
        np.subtract(active.column(l), active.column(j), out=move)
        move *= t
        g += move
        alpha[l] += t
        alpha[j] = alpha[j] - t if t < alpha[j] else 0.0
        n2 -= gain
        n_done += 1
    active.n2 = n2
    return n_done

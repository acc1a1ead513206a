"""Nearest points of two hulls: MDM and SK steps, and a polish by Wolfe's method."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from kernlet._typing import Floats, Indices
from kernlet.kernels.gram import as_indices
from kernlet.squared.problem import Hull

_BATCH = 64  # columns completed at a time

Compute = Callable[[Indices], Floats]


class ColumnPool:
    """Columns in one buffer of limited size, computed when they are first asked for.

    The buffer is never copied: when the rows become fewer the columns move together in it,
    which makes room for more of them, and when rows come back they move apart.

    Parameters
    ----------
    n_rows : int
        Length of a column.
    max_bytes : int
        Of the buffer; room for two columns is taken in any case.
    """

    def __init__(self, n_rows: int, max_bytes: int) -> None:
        n_columns = min(max(2, max_bytes // (8 * max(1, n_rows))), max(2, n_rows))
        self._buffer = np.empty(n_columns * n_rows)
        self._slots: OrderedDict[int, int] = OrderedDict()  # least recently used first
        self._resize(n_rows)
        self.n_computed = 0

    def _resize(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.capacity = max(1, len(self._buffer) // max(1, n_rows))
        self._lines = self._buffer[: self.capacity * n_rows].reshape(self.capacity, n_rows)

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, number: int) -> bool:
        return number in self._slots

    @property
    def nbytes(self) -> int:
        """Of the columns held."""
        return 8 * len(self) * self.n_rows

    def get(self, number: int) -> Floats | None:
        """A column, or None where it is not here. A view that holds until the next put."""
        slot = self._slots.get(number)
        if slot is None:
            return None
        self._slots.move_to_end(number)
        return self._lines[slot]

    def put(self, numbers: Indices, columns: Floats) -> None:
        """Keep new columns, given as lines; the first of them is the last to give way again."""
        self.n_computed += len(numbers)
        for number, column in zip(numbers[::-1].tolist(), columns[::-1], strict=True):
            if len(self._slots) < self.capacity:
                slot = len(self._slots)
            else:
                _, slot = self._slots.popitem(last=False)
            self._lines[slot] = column
            self._slots[number] = slot

    def keep_rows(self, kept: Indices) -> None:
        """Leave rows out; columns of rows that go are dropped, and row numbers become new."""
        renamed = np.full(self.n_rows, -1)
        renamed[kept] = np.arange(len(kept))
        staying = [(number, slot) for number, slot in self._slots.items() if renamed[number] >= 0]
        order = [int(renamed[number]) for number, _ in staying]
        lines, n_rows = self._lines, len(kept)
        places = {}
        for place, (number, slot) in enumerate(sorted(staying, key=lambda pair: pair[1])):
            self._buffer[place * n_rows : (place + 1) * n_rows] = lines[slot][kept]
            places[int(renamed[number])] = place
        self._slots = OrderedDict((number, places[number]) for number in order)
        self._resize(n_rows)

    def add_rows(self, old_places: Indices, n_rows: int, compute: Compute) -> None:
        """Take rows in.

        Parameters
        ----------
        old_places : ndarray of shape (n_old_rows,)
            Where the present rows stand among the new ones.
        n_rows : int
            All rows then.
        compute : callable
            ``compute(columns)`` gives the values of the rows that are new, in ascending order,
            as lines, for columns numbered anew.
        """
        room = len(self._buffer) // n_rows
        while len(self._slots) > room:
            self._slots.popitem(last=False)
        is_new = np.ones(n_rows, dtype=bool)
        is_new[old_places] = False
        by_slot = sorted(self._slots.items(), key=lambda pair: pair[1])
        numbers = as_indices([old_places[number] for number, _ in by_slot])
        self._close_gaps(by_slot)
        for stop in range(len(by_slot), 0, -_BATCH):  # from the last: none is written over
            batch = slice(max(0, stop - _BATCH), stop)
            values = compute(numbers[batch])
            for place in range(stop - 1, batch.start - 1, -1):
                old = self._buffer[place * self.n_rows : (place + 1) * self.n_rows].copy()
                line = self._buffer[place * n_rows : (place + 1) * n_rows]
                line[old_places] = old
                line[is_new] = values[place - batch.start]
        places = {number: place for place, (number, _) in enumerate(by_slot)}
        self._slots = OrderedDict(
            (int(old_places[number]), places[number]) for number in self._slots
        )
        self._resize(n_rows)

    def _close_gaps(self, by_slot: list[tuple[int, int]]) -> None:
        """Move the columns together, in the order of their places."""
        for place, (_, slot) in enumerate(by_slot):
            if place < slot:
                self._lines[place] = self._lines[slot]


HullStatus = Literal["optimal", "iteration limit", "stopped", "rounding"]


@dataclass(frozen=True, eq=False)
class HullSolution:
    """A point W = sum_i alpha_i X_i of a :class:`~kernlet.squared.problem.Hull`.

    Parameters
    ----------
    rows : ndarray of shape (n_support,)
        Rows with a positive alpha, ascending: the support vectors.
    alpha : ndarray of shape (n_support,)
        Their weights, positive, of sum 1.
    margins : ndarray of shape (n_rows,)
        W . X_i for all rows, computed from scratch at the end.
    squared_norm : float
        |W|^2.
    n_iter : int
        Steps.
    n_columns : int
        Columns of Q computed; a column computed twice counts twice.
    status : {"optimal", "iteration limit", "stopped", "rounding"}
        How the steps ended: ``"stopped"`` on a caller's wish, ``"rounding"`` where no step
        takes anything off the norm any more. The gap holds in every case.
    """

    rows: Indices
    alpha: Floats
    margins: Floats
    squared_norm: float
    n_iter: int
    n_columns: int
    status: HullStatus

    @property
    def norm(self) -> float:
        """|W|, an upper bound on the norm of the nearest point."""
        return float(np.sqrt(self.squared_norm))

    @property
    def margin(self) -> float:
        """min_i W . X_i / |W|, a lower bound on the norm of the nearest point."""
        return float(self.margins.min()) / self.norm

    @property
    def gap(self) -> float:
        """(norm - margin) / norm: the certificate."""
        return relative_gap(self.squared_norm, float(self.margins.min()))

    def dense(self) -> Floats:
        """Alpha of all rows."""
        alpha = np.zeros(len(self.margins))
        alpha[self.rows] = self.alpha
        return alpha


@dataclass(frozen=True)
class HullProgress:
    """Where the steps stand, on the rows in play and without a recount.

    Parameters
    ----------
    n_iter : int
    gap : float
    rows : ndarray of shape (n_support,)
    alpha : ndarray of shape (n_support,)
    squared_norm : float
    n_in_play : int
        Rows not left out.
    nbytes : int
        Memory of the columns held.
    """

    n_iter: int
    gap: float
    rows: Indices
    alpha: Floats
    squared_norm: float
    n_in_play: int
    nbytes: int


def relative_gap(squared_norm: float, least_margin: float) -> float:
    """1 - min margin / |W|^2, not below 0."""
    return max(0.0, 1.0 - least_margin / squared_norm)


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


LARGEST_FACE = 2500  # rows of a dense factor: 50 MB


@dataclass(frozen=True, eq=False)
class Face:
    """Weights and margins of all rows, major steps taken and columns computed."""

    alpha: Floats
    margins: Floats
    n_iter: int
    n_columns: int


def polish(
    hull: Hull, alpha: Floats, margins: Floats, *, tol: float, max_iter: int | None = None
) -> Face:
    """Go on from a point of the hull to the nearest one, face by face.

    On the rows in the support the nearest point of their affine hull is a linear system,
    Q a = 1 but for scale. Where a weight would become negative the way there ends at the
    border and that row leaves; then the row of least margin enters. Each step factors a
    matrix of the size of the support.

    Parameters
    ----------
    hull : Hull
    alpha, margins : ndarrays of shape (n_rows,)
        Where to start, and Q alpha there.
    tol : float
        Relative gap to reach.
    max_iter : int or None, default=None

    Returns
    -------
    face : Face
        The best point met.
    """
    products = _Products(hull)
    n_iter = 0
    limit = np.inf if max_iter is None else max_iter
    support = np.flatnonzero(alpha)
    while n_iter < limit and len(support) <= LARGEST_FACE:
        n_iter += 1
        weights = _nearest_in(products.of(support), alpha[support])
        trial = np.zeros_like(alpha)
        trial[support] = weights
        trial_margins = hull.margins(trial)
        n2 = hull.squared_norm(trial, trial_margins)
        before = hull.squared_norm(alpha, margins)
        no_gain = n2 >= before and trial_margins.min() / n2 <= margins.min() / before
        if no_gain and (n_iter > 1 or n2 > (1 + 1e-9) * before):  # rounding
            break
        alpha, margins = trial, trial_margins
        least = int(margins.argmin())
        if n2 - margins[least] <= tol * n2 or alpha[least] > 0:
            break
        support = np.union1d(np.flatnonzero(alpha), [least])
    return Face(alpha, margins, n_iter, products.n_computed)


class _Products:
    """Q over a support that changes by few rows at a time."""

    def __init__(self, hull: Hull) -> None:
        self.hull = hull
        self.rows: Indices = np.empty(0, dtype=np.intp)
        self.values: Floats = np.empty((0, 0))
        self.n_computed = 0

    def of(self, rows: Indices) -> Floats:
        """Q[rows][:, rows]."""
        old = np.isin(rows, self.rows)
        places = np.searchsorted(self.rows, rows[old])
        values = np.empty((len(rows), len(rows)))
        values[np.ix_(old, old)] = self.values[np.ix_(places, places)]
        if not old.all():
            new = self.hull.columns(rows[~old], rows)
            values[~old], values[:, ~old] = new, new.T
            self.n_computed += len(new)
        self.rows, self.values = rows, values
        return values


def _nearest_in(Q: Floats, weights: Floats) -> Floats:
    """The nearest point of the hull of some rows, rows leaving it on the way as they must.

    A row that was taken in with weight zero moves inwards first, so that every step gains.
    """
    weights = weights.copy()
    inside = np.ones(len(weights), dtype=bool)
    while True:
        wanted = np.zeros_like(weights)
        wanted[inside] = _affine(Q[np.ix_(inside, inside)])
        if not np.isfinite(wanted).all():  # no digits left
            return weights
        falling = inside & (wanted <= 0)
        if not falling.any():
            return wanted
        way = np.full(len(weights), np.inf)
        way[falling & (weights == 0)] = 0.0
        moving = falling & (weights > 0)
        way[moving] = weights[moving] / (weights[moving] - wanted[moving])
        length = min(1.0, float(way.min()))
        weights += length * (wanted - weights)
        leaving = falling & (way <= length)
        weights[leaving] = 0.0
        inside &= ~leaving


def _affine(Q: Floats) -> Floats:
    """Weights of sum 1 of the point of an affine hull nearest the origin."""
    ones = np.ones(len(Q))
    try:
        raw = cho_solve(cho_factor(Q, lower=True), ones)
    except LinAlgError:  # the ridge is lost in rounding
        return np.full(len(Q), np.nan)
    return np.asarray(raw / raw.sum())


Method = Literal["mdm", "sk", "wolfe"]

_FINE = 1e-7  # gaps below this are left to the active set, where the support is small
_MANY_STEPS, _STEPS_A_ROW = 20_000, 20  # beyond these the problem is too ill-conditioned for steps
_INTERVAL = 1000  # steps between looks at what is left out
_PATIENCE = 20  # intervals that may pass without a smaller norm: the gap can still become less


Report = Callable[[HullProgress], bool]


def find_nearest_point(
    hull: Hull,
    *,
    method: Method = "mdm",
    tol: float = 1e-3,
    max_iter: int | None = None,
    max_bytes: int = 200 * 2**20,
    shrinking: bool = True,
    start: Floats | None = None,
    report: Report | None = None,
) -> HullSolution:
    """Find the point of a hull nearest the origin, to a relative gap.

    ``"mdm"`` moves weight from one row to the row of least margin, choosing the partner that
    takes most off the norm (Mitchell, Demyanov and Malozemov's step); ``"sk"`` is the step of
    Schlesinger and Kozinec, towards the row of least margin from where W is; ``"wolfe"`` is
    Wolfe's active set, for small problems and all digits. MDM hands its support, where that is
    small, over to the active set when ``tol`` asks for digits below 1e-7 or the steps are many.

    A step costs n_rows operations and the columns of Q that it meets for the first time. Rows
    that look out of play are left out meanwhile (``shrinking``, MDM only); at the end the
    margins of all rows are computed from scratch, and the steps go on where these say so.

    Parameters
    ----------
    hull : Hull
    method : {"mdm", "sk", "wolfe"}, default="mdm"
    tol : float, default=1e-3
        Relative gap 1 - min margin / |W|^2 to reach.
    max_iter : int or None, default=None
        Steps allowed.
    max_bytes : int, default=200 MB
        For columns of Q.
    shrinking : bool, default=True
    start : ndarray of shape (n_rows,) or None, default=None
        Weights to start from; None for the row nearest the origin.
    report : callable or None, default=None
        Hears of the progress now and then, and stops the steps by returning true.

    Returns
    -------
    solution : HullSolution

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.rbf import RBF
    >>> from kernlet.kernels.gram import Gram
    >>> from kernlet.squared.problem import Hull
    >>> from kernlet.squared.mdm import find_nearest_point
    >>> X = np.random.RandomState(0).randn(300, 2)
    >>> signs = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    >>> hull = Hull(Gram(RBF(1.0), X), signs, np.full(300, 10.0))
    >>> solution = find_nearest_point(hull, tol=1e-6)
    >>> solution.gap <= 1e-6, len(solution.rows) < 150
    (True, True)
    """
    if not hull.n_rows:
        raise ValueError("A hull without rows has no nearest point; give one row at least.")
    if method == "wolfe" and hull.n_rows > LARGEST_FACE:
        raise ValueError(
            f"Wolfe's active set is for up to {LARGEST_FACE} rows, and there are {hull.n_rows}. "
            'Use method="mdm".'
        )
    search = _Search(hull, max_bytes, _start(hull, start), max_iter, report)
    if method == "sk":
        search.run(sk_steps, tol, shrinking=False)
        return search.solution()
    if method == "mdm":
        budget = max(_MANY_STEPS, _STEPS_A_ROW * hull.n_rows)
        search.run(mdm_steps, max(tol, _FINE), shrinking=shrinking, budget=budget)
    search.finish(tol, shrinking=shrinking)
    return search.solution()


def _start(hull: Hull, start: Floats | None) -> Floats:
    """Weights of sum 1."""
    if start is None:
        alpha = np.zeros(hull.n_rows)
        alpha[hull.diagonal.argmin()] = 1.0
        return alpha
    alpha = np.array(start, dtype=float)
    if alpha.shape != (hull.n_rows,) or alpha.min() < 0 or not 0 < alpha.sum() < np.inf:
        raise ValueError(
            f"start must be {hull.n_rows} finite weights, none negative and one positive."
        )
    return alpha / alpha.sum()


class _Search:
    """Steps on rows in play, until all rows agree."""

    def __init__(
        self,
        hull: Hull,
        max_bytes: int,
        alpha: Floats,
        max_iter: int | None,
        report: Report | None,
    ) -> None:
        self.hull, self.max_bytes = hull, max_bytes
        self.active = ActiveRows(hull, alpha, max_bytes)
        self.alpha = alpha
        self.margins = self.active.margins.copy()
        self.max_iter = self.limit = np.inf if max_iter is None else max_iter
        self.report = report
        self.n_iter = 0
        self.status: HullStatus = "optimal"

    @property
    def gap(self) -> float:
        """Of the last recount."""
        return relative_gap(self.squared_norm, float(self.margins.min()))

    @property
    def squared_norm(self) -> float:
        """Of the last recount."""
        return self.hull.squared_norm(self.alpha, self.margins)

    def run(self, steps: Steps, tol: float, *, shrinking: bool, budget: float = np.inf) -> None:
        """Step until a recount of all rows shows the gap, or there is nothing to gain."""
        self.limit = min(self.max_iter, budget)
        while self.gap > tol:
            norm, gap = self.squared_norm, self.gap
            self.status = self._run_in_play(steps, tol, shrinking)
            self.recount()
            if self.status in ("iteration limit", "stopped"):
                return
            if self.squared_norm >= norm and self.gap >= gap:  # rounding
                break
            if self.gap > tol:
                self.active.extend(self.margins)
        self.status = "optimal" if self.gap <= tol else "rounding"

    def _run_in_play(self, steps: Steps, tol: float, shrinking: bool) -> HullStatus:
        active = self.active
        least, idle = active.n2, 0
        while True:
            interval = min(_INTERVAL, max(100, active.n_rows))
            allowed = int(min(interval, self.limit - self.n_iter))
            done = steps(active, allowed, tol)
            self.n_iter += done
            active.refresh_norm()
            if self.report is not None and self.report(self._progress()):
                return "stopped"
            if active.gap <= tol:
                return "optimal"
            if self.n_iter >= self.limit:
                return "iteration limit"
            idle = idle + 1 if active.n2 >= least else 0
            least = min(least, active.n2)
            if done < allowed or idle == _PATIENCE:
                return "rounding"
            if shrinking:
                active.shrink()

    def _progress(self) -> HullProgress:
        active = self.active
        support = np.flatnonzero(active.alpha)
        return HullProgress(
            n_iter=self.n_iter,
            gap=active.gap,
            rows=active.rows[support],
            alpha=active.alpha[support],
            squared_norm=active.n2,
            n_in_play=active.n_rows,
            nbytes=active.pool.nbytes,
        )

    def recount(self) -> None:
        """The margins of all rows, from scratch."""
        self.alpha = self.active.spread_alpha()
        self.margins = self.hull.margins(self.alpha)
        self.active.margins[:] = self.margins[self.active.rows]
        self.active.refresh_norm()

    def finish(self, tol: float, *, shrinking: bool) -> None:
        """The last digits: by the active set where the support is small enough, else by steps."""
        if self.status == "stopped" or self.gap <= tol:
            return
        if self.n_iter >= self.max_iter:
            self.status = "iteration limit"
            return
        if np.count_nonzero(self.alpha) > LARGEST_FACE:
            self.run(mdm_steps, tol, shrinking=shrinking)
            return
        before = self.alpha
        allowed = None if self.max_iter == np.inf else int(self.max_iter) - self.n_iter
        face = polish(self.hull, before, self.margins, tol=tol, max_iter=allowed)
        self.n_iter += face.n_iter
        self.active.pool.n_computed += face.n_columns
        self.alpha, self.margins = face.alpha, face.margins
        limited = allowed is not None and face.n_iter >= allowed
        if self.gap > tol and not limited and np.count_nonzero(self.alpha) >= LARGEST_FACE:
            self.active = ActiveRows(self.hull, self.alpha, self.max_bytes)
            self.run(mdm_steps, tol, shrinking=shrinking)
            return
        unfinished: HullStatus = "iteration limit" if limited else "rounding"
        self.status = "optimal" if self.gap <= tol else unfinished

    def solution(self) -> HullSolution:
        """What was found."""
        rows = np.flatnonzero(self.alpha)
        return HullSolution(
            rows=rows,
            alpha=self.alpha[rows],
            margins=self.margins,
            squared_norm=self.squared_norm,
            n_iter=self.n_iter,
            n_columns=self.active.pool.n_computed,
            status=self.status,
        )

"""The nearest point of a convex hull: MDM and Schlesinger-Kozinec steps, and an exact polish."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.kernels.gram import as_indices
from kernlet.squared.active_set import IncrementalNNQP
from kernlet.squared.problem import Report, Solution, SquaredMargin, Status, certified_gap

# How this works
# --------------
# The points X_i have the Gram matrix Q (problem.py). Sought is the point W = sum_i alpha_i X_i of
# their convex hull (alpha >= 0, sum alpha = 1) nearest the origin. With the margins g = Q alpha =
# (W.X_i)_i and n2 = |W|^2 = alpha.g:
#
#   certificate  no point of the hull is nearer than min_i g_i / |W|, the distance of the plane
#                orthogonal to W that has all X_i beyond it. So |W| exceeds the optimum by at most
#                the relative gap 1 - min g / n2, which is zero exactly at the optimum.
#
# Both kinds of steps pull the row l of least margin in, and differ in what makes room for it:
#
#   SK    W goes towards X_l as far as that shortens it: all weights shrink by a factor, so that a
#         row that was wrongly taken in decays geometrically and never leaves. This is Kozinec's
#         perceptron-like algorithm, which Schlesinger, Franc and Hlavac made a large-margin
#         classifier and Garcia, Gonzalez and Dorronsoro kernelised.
#   MDM   weight t moves from one row j to l: W changes along X_l - X_j, |W|^2 falls by
#           2 t (g_j - g_l) - t^2 (Q_ll + Q_jj - 2 Q_lj),   t <= alpha_j.
#         Mitchell, Demyanov and Malozemov take the j of largest margin with alpha_j > 0. Here the j
#         of the largest decrease is taken, which costs nothing more as column l is at hand: the
#         second-order rule of Fan, Chen and Lin for SMO. Rows leave for good when t = alpha_j.
#
# What else makes it fast:
#   cache      a step needs one or two columns of Q, mostly of rows that it has met before; they
#              are kept in a pool of limited size. With many numbers per row, several are computed
#              in one matrix product: the rows of least margin will be needed soon.
#   shrinking  rows of zero weight whose margin exceeds that of every support vector are left out
#              (Joachims 1999). At the end all margins are computed from scratch, and rows that
#              turn out to matter return.
#   polish     steps converge linearly. Below a gap of 1e-7 the support hardly changes, and the
#              active set (active_set.py) solves its linear system exactly.
#
# B. F. Mitchell, V. F. Demyanov, V. N. Malozemov, SIAM J. Control 12, 1974.
# V. Franc, V. Hlavac, "An iterative algorithm learning the maximal margin classifier", Pattern
#   Recognition 36, 2003.
# D. Garcia, A. Gonzalez, J. R. Dorronsoro, "Optimal support vector selection for kernel
#   perceptrons", Learning 2006.
# R.-E. Fan, P.-H. Chen, C.-J. Lin, Journal of Machine Learning Research 6, 2005.

Method = Literal["mdm", "sk", "active set"]

LARGEST_ACTIVE_SET = 2500  # rows of a dense factor: 50 MB
_POLISH_GAP = 1e-7  # gaps below this are left to the active set, where the support is small
# steps, in all and per row, beyond which the problem is too ill-conditioned for steps
_MANY_STEPS, _STEPS_PER_ROW = 20_000, 20
_INTERVAL = 1000  # steps between reports, and between looks at rows to leave out
_IDLE_INTERVALS = 20  # intervals without a smaller norm to wait: the gap can still become smaller
_PREFETCH_SIZE = 2**20  # numbers in X beyond which one column alone wastes memory bandwidth
_PREFETCH_COLUMNS = 24  # columns computed at once then
_BATCH = 64  # columns completed at a time when rows return
_EQUAL_NORMS = 1e-9  # relative difference of squared norms that counts as round-off
_LEAST_ENTERING, _ENTERING_SHARE = 10, 5  # rows that enter the active set: ten, or a fifth of it


class ColumnPool:
    """Columns of Q in one buffer of limited size, the least recently used giving way.

    Unlike :class:`~kernlet.kernels.gram.ColumnCache`, which sums many columns in one product, a
    step needs single columns at once, and shrinking changes their length: the buffer is never
    copied, the columns move together in it (room for more of them) and apart again. (A dictionary
    of separate arrays is simpler, and was measured 12 % slower in a fit of 4,000 rows.)
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

    def __contains__(self, number: int) -> bool:
        return number in self._slots

    @property
    def nbytes(self) -> int:
        """Memory of the columns held."""
        return 8 * len(self._slots) * self.n_rows

    def get(self, number: int) -> Floats | None:
        """A column, or None where it is not here; a view, valid while it is among the last two."""
        slot = self._slots.get(number)
        if slot is None:
            return None
        self._slots.move_to_end(number)
        return self._lines[slot]

    def put(self, numbers: Indices, columns: Floats) -> None:
        """Store new columns, given as lines; the first of them counts as the most recently used."""
        self.n_computed += len(numbers)
        for number, column in zip(numbers[::-1].tolist(), columns[::-1], strict=True):
            if len(self._slots) < self.capacity:
                slot = len(self._slots)
            else:
                _, slot = self._slots.popitem(last=False)
            self._lines[slot] = column
            self._slots[number] = slot

    def keep_rows(self, kept: Indices) -> None:
        """Leave rows out, and their columns; the rows left are renumbered."""
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

    def add_rows(
        self, old_places: Indices, n_rows: int, compute: Callable[[Indices], Floats]
    ) -> None:
        """Let rows return: ``old_places`` are the places of the present rows among them.

        ``compute(columns)`` gives the entries of the new rows, ascending, in the given columns.
        """
        room = len(self._buffer) // n_rows
        while len(self._slots) > room:
            self._slots.popitem(last=False)
        is_new = np.ones(n_rows, dtype=bool)
        is_new[old_places] = False
        by_slot = sorted(self._slots.items(), key=lambda pair: pair[1])
        numbers = as_indices([old_places[number] for number, _ in by_slot])
        for place, (_, slot) in enumerate(by_slot):  # move the columns together
            if place < slot:
                self._lines[place] = self._lines[slot]
        for stop in range(len(by_slot), 0, -_BATCH):  # from the last: none is overwritten
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


class WorkingSet:
    """The rows not left out by shrinking: weights alpha, margins Q alpha, and columns of Q."""

    def __init__(self, whole: SquaredMargin, alpha: Floats, max_bytes: int) -> None:
        self.whole = self.problem = whole
        self.rows: Indices = np.arange(whole.n_rows)  # their numbers in the whole problem
        self.alpha = alpha.copy()
        self.margins = whole.margins(alpha)
        self.pool = ColumnPool(whole.n_rows, max_bytes)
        self.diagonal = whole.diagonal
        self.refresh_norm()

    @property
    def n_rows(self) -> int:
        """Rows not left out."""
        return len(self.rows)

    @property
    def gap(self) -> float:
        """Relative gap over the working set."""
        return relative_gap(self.n2, self.margins)

    @property
    def noise(self) -> float:
        """Round-off of a margin: smaller differences mean nothing."""
        ridge = self.problem.ridge
        largest = max((self.diagonal - ridge).max(), (ridge * self.alpha).max())
        return float(np.finfo(float).eps * largest)

    def refresh_norm(self) -> None:
        """Recompute n2 = |W|^2, which the steps update."""
        self.n2 = self.problem.squared_norm(self.alpha, self.margins)

    def column(self, number: int) -> Floats:
        """A column of Q; valid until a second other column is asked for."""
        column = self.pool.get(number)
        if column is None:
            numbers = self._prefetch(number)
            self.pool.put(numbers, self.problem.products(numbers))
            column = self.pool.get(number)
            assert column is not None
        return column

    def _prefetch(self, number: int) -> Indices:
        """The columns to compute in one product: this one, and those of least margin."""
        size = min(_PREFETCH_COLUMNS, self.pool.capacity // 4)
        X = self.problem.gram.x.X
        if X.shape[0] * X.shape[1] < _PREFETCH_SIZE or size < 2:
            return np.array([number])
        least = np.argpartition(self.margins, min(4 * size, self.n_rows - 1))[: 4 * size]
        least = least[np.argsort(self.margins[least], kind="stable")]
        others = [i for i in least.tolist() if i != number and i not in self.pool]
        return np.array([number, *others[: size - 1]])

    def spread_alpha(self) -> Floats:
        """Weights of all rows."""
        alpha = np.zeros(self.whole.n_rows)
        alpha[self.rows] = self.alpha
        return alpha

    def shrink(self) -> None:
        """Leave out rows of zero weight whose margin exceeds that of every support vector."""
        support = self.alpha > 0
        kept = np.flatnonzero(support | (self.margins <= self.margins[support].max()))
        if len(kept) <= 0.8 * self.n_rows:  # else moving the columns costs more than it saves
            self.pool.keep_rows(kept)
            self._take(self.rows[kept], self.alpha[kept], self.margins[kept])

    def extend(self, margins: Floats) -> None:
        """Let the rows return that violate the certificate, given the margins of all rows."""
        matters = margins < self.n2
        matters[self.rows] = True
        rows = np.flatnonzero(matters)
        if len(rows) > self.n_rows:
            old_places = np.searchsorted(rows, self.rows)
            alpha = np.zeros(len(rows))
            alpha[old_places] = self.alpha
            new = np.setdiff1d(np.arange(len(rows)), old_places)
            self._take(rows, alpha, margins[rows])
            self.pool.add_rows(
                old_places, len(rows), lambda numbers: self.problem.products(numbers, new)
            )

    def _take(self, rows: Indices, alpha: Floats, margins: Floats) -> None:
        self.rows, self.alpha, self.margins = rows, alpha, margins
        self.problem = self.whole.subset(rows)
        self.diagonal = self.whole.diagonal[rows]


def relative_gap(squared_norm: float, margins: Floats) -> float:
    """1 - min margin / |W|^2, not below 0."""
    gap = 1.0 - float(margins.min()) / squared_norm
    return 0.0 if gap <= 0.0 else gap  # max(0, gap) would be 0 for a gap that is not a number


Steps = Callable[[WorkingSet, int, float], int]


def sk_steps(working: WorkingSet, n_steps: int, tol: float) -> int:
    """Schlesinger-Kozinec steps until the gap is ``tol`` or round-off ends them; how many.

    t = min(1, (n2 - g_l) / (n2 - 2 g_l + Q_ll)) minimises |(1 - t) W + t X_l|^2.
    """
    alpha, g, n2 = working.alpha, working.margins, working.n2
    step, noise = np.empty_like(g), working.noise
    n_done = 0
    while n_done < n_steps:
        l = int(g.argmin())  # noqa: E741
        g_l, Q_ll = float(g[l]), float(working.diagonal[l])
        if n2 - g_l <= max(tol * n2, noise):
            break
        move = min(1.0, (n2 - g_l) / (n2 - 2 * g_l + Q_ll))
        alpha *= 1 - move
        alpha[l] += move
        n2 = (1 - move) ** 2 * n2 + 2 * move * (1 - move) * g_l + move**2 * Q_ll
        np.multiply(working.column(l), move, out=step)
        g *= 1 - move
        g += step
        n_done += 1
    working.n2 = n2
    return n_done


def mdm_steps(working: WorkingSet, n_steps: int, tol: float) -> int:
    """MDM steps until the gap is ``tol`` or round-off ends them; how many were taken."""
    alpha, g, n2 = working.alpha, working.margins, working.n2
    half, noise = 0.5 * working.diagonal, working.noise
    least_curvature = float(working.problem.ridge.min())  # of |X_l - X_j|^2 / 2, each has a ridge
    difference, curvature, move = np.empty_like(g), np.empty_like(g), np.empty_like(g)
    n_done = 0
    while n_done < n_steps:
        l = int(g.argmin())  # noqa: E741
        g_l = float(g[l])
        if n2 - g_l <= max(tol * n2, noise):
            break
        column = working.column(l)
        np.subtract(half, column, out=curvature)
        curvature += half[l]  # |X_l - X_j|^2 / 2
        np.maximum(curvature, least_curvature, out=curvature)  # round-off
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
        np.subtract(column, working.column(j), out=move)
        move *= t
        g += move
        alpha[l] += t
        alpha[j] = alpha[j] - t if t < alpha[j] else 0.0
        n2 -= gain
        n_done += 1
    working.n2 = n2
    return n_done


def find_nearest_point(
    problem: SquaredMargin,
    *,
    method: Method = "mdm",
    tol: float = 1e-3,
    max_iter: int | None = None,
    max_columns: int | None = None,
    max_bytes: int = 200 * 2**20,
    shrinking: bool = True,
    start: Floats | None = None,
    report: Report | None = None,
) -> Solution:
    """Find the point of the hull nearest the origin, to a relative gap of ``tol``.

    ``start`` are weights to start from, by default those of the row nearest the origin (the first
    row, where several are equally near), where "sk" always starts. ``max_bytes`` limits the columns
    of Q that are kept, ``max_columns`` those that are computed, checked now and then. ``report`` is
    called now and then and may end the steps.
    """
    if not problem.n_rows:
        raise ValueError("A hull without rows has no nearest point; give at least one row.")
    if method == "active set" and problem.n_rows > LARGEST_ACTIVE_SET:
        raise ValueError(
            f"The active set alone is for up to {LARGEST_ACTIVE_SET} rows, and there are "
            f'{problem.n_rows}. Use method="mdm".'
        )
    alpha = _start(problem, None if method == "sk" else start)
    search = _Search(problem, alpha, max_bytes, np.inf if max_iter is None else max_iter, report)
    search.max_columns = np.inf if max_columns is None else max_columns
    if method == "sk":
        search.run(sk_steps, tol, shrinking=False)
        return search.solution()
    if method == "mdm":
        budget = max(_MANY_STEPS, _STEPS_PER_ROW * problem.n_rows)
        search.run(mdm_steps, max(tol, _POLISH_GAP), shrinking=shrinking, budget=budget)
    search.finish(tol, shrinking=shrinking)
    return search.solution()


def _start(problem: SquaredMargin, start: Floats | None) -> Floats:
    """Weights of sum 1; without ``start``, the first row among those of least norm."""
    if start is None:
        # The norms of an rbf kernel are equal but for round-off, which is not to choose the row:
        # SK steps that are cut short depend on it.
        lengths = problem.diagonal
        is_least = lengths - _EQUAL_NORMS * problem.squared_lengths <= lengths.min()
        alpha = np.zeros(problem.n_rows)
        alpha[is_least.argmax()] = 1.0
        return alpha
    alpha = np.array(start, dtype=float)
    if alpha.shape != (problem.n_rows,) or alpha.min() < 0 or not 0 < alpha.sum() < np.inf:
        raise ValueError(
            f"start must be {problem.n_rows} finite weights, none negative and one positive."
        )
    return alpha / alpha.sum()


@dataclass(eq=False)
class _Search:
    """Steps on a working set, until the margins of all rows confirm the gap."""

    problem: SquaredMargin
    alpha: Floats  # of all rows, like margins
    max_bytes: int
    max_iter: float
    report: Report | None
    max_columns: float = np.inf
    n_iter: int = 0
    status: Status = "optimal"

    def __post_init__(self) -> None:
        self.working = WorkingSet(self.problem, self.alpha, self.max_bytes)
        self.margins = self.working.margins.copy()

    @property
    def squared_norm(self) -> float:
        """|W|^2, by the last margins of all rows."""
        return self.problem.squared_norm(self.alpha, self.margins)

    @property
    def gap(self) -> float:
        """Relative gap, by the last margins of all rows, and with their round-off."""
        gap = relative_gap(self.squared_norm, self.margins)
        support = np.flatnonzero(self.alpha)
        errors = self.problem.value_errors(support, self.alpha[support])
        n2 = self.squared_norm + float(self.alpha @ errors)
        return certified_gap(gap, relative_gap(n2, self.margins - errors))

    def run(self, steps: Steps, tol: float, *, shrinking: bool, budget: float = np.inf) -> None:
        """Step until the margins of all rows show the gap, or there is nothing to gain."""
        limit = min(self.max_iter, budget)
        while not self.gap <= tol:
            norm, gap = self.squared_norm, self.gap
            # Round-off that is added to the gap leaves the steps less of ``tol``.
            round_off = gap - relative_gap(norm, self.margins)
            step_tol = tol - round_off if round_off < tol else tol
            self.status = self._run_working_set(steps, step_tol, limit, shrinking)
            self.alpha = self.working.spread_alpha() / self.working.alpha.sum()  # round-off
            self.margins = self.problem.margins(self.alpha)
            self.working.margins[:] = self.margins[self.working.rows]
            self.working.refresh_norm()
            if self.status in ("iteration limit", "stopped"):
                return
            if self.squared_norm >= norm and not self.gap < gap:  # round-off
                break
            if not self.gap <= tol:
                self.working.extend(self.margins)
        self.status = "optimal" if self.gap <= tol else "rounding"

    def _run_working_set(self, steps: Steps, tol: float, limit: float, shrinking: bool) -> Status:
        working = self.working
        least, idle = working.n2, 0
        while True:
            interval = min(_INTERVAL, max(100, working.n_rows))
            allowed = int(min(interval, limit - self.n_iter))
            done = steps(working, allowed, tol)
            self.n_iter += done
            working.refresh_norm()
            state = working.spread_alpha(), working.n2, working.gap
            if self.report is not None and self.report(self._solution(*state, "running")):
                return "stopped"
            if working.gap <= tol:
                return "optimal"
            if self.n_iter >= limit:
                return "iteration limit"
            if working.pool.n_computed >= self.max_columns:
                self.max_iter = self.n_iter  # no polish either
                return "iteration limit"
            idle = idle + 1 if working.n2 >= least else 0
            least = min(least, working.n2)
            if done < allowed or idle == _IDLE_INTERVALS:
                return "rounding"
            if shrinking:
                working.shrink()

    def finish(self, tol: float, *, shrinking: bool) -> None:
        """The last digits: by the active set where the support is small enough, else by steps."""
        if self.status == "stopped" or self.gap <= tol:
            return
        is_large = bool(np.count_nonzero(self.alpha) > LARGEST_ACTIVE_SET)
        if not is_large and self.n_iter < self.max_iter:
            is_large = self._polish(tol) >= LARGEST_ACTIVE_SET
            if is_large:  # the steps start again from here
                n_computed = self.working.pool.n_computed
                self.working = WorkingSet(self.problem, self.alpha, self.max_bytes)
                self.working.pool.n_computed = n_computed
        if self.gap <= tol:
            self.status = "optimal"
        elif self.n_iter >= self.max_iter:
            self.status = "iteration limit"
        elif not is_large:
            self.status = "rounding"
        else:
            self.run(mdm_steps, tol, shrinking=shrinking)

    def _polish(self, tol: float) -> int:
        """Go to the nearest point by the active set, or until it is full; its size."""
        problem, n2 = self.problem, self.squared_norm
        members = np.flatnonzero(self.alpha)
        program = IncrementalNNQP()
        program.add(problem.products(members, members), self.alpha[members] / n2)
        is_first = True
        while self.n_iter < self.max_iter:
            self.n_iter += 1
            program.solve()
            trial = np.zeros_like(self.alpha)
            trial[members] = program.weights / program.weights.sum()
            margins = problem.margins(trial)
            trial_n2 = problem.squared_norm(trial, margins)
            # `not <`: also where the numbers are not finite
            no_gain = not trial_n2 < n2 and not margins.min() / trial_n2 > self.margins.min() / n2
            if no_gain and not (is_first and trial_n2 <= (1 + 1e-9) * n2):  # round-off
                break
            self.alpha, self.margins, n2, is_first = trial, margins, trial_n2, False
            outside = np.setdiff1d(np.flatnonzero(margins < n2), members)
            room = LARGEST_ACTIVE_SET - len(members)
            if n2 - margins.min() <= tol * n2 or not len(outside) or room <= 0:
                break
            size = min(len(outside), room, max(_LEAST_ENTERING, len(members) // _ENTERING_SHARE))
            new = outside[np.argpartition(margins[outside], size - 1)[:size]]
            members = np.append(members, new)
            program.add(problem.products(new, members))
        self.working.pool.n_computed += len(members)
        return len(members)

    def solution(self) -> Solution:
        """The solution, judged on all rows."""
        return self._solution(self.alpha, self.squared_norm, self.gap, self.status)

    def _solution(self, alpha: Floats, n2: float, gap: float, status: Status) -> Solution:
        rows = np.flatnonzero(alpha)
        alpha = alpha[rows]
        coef = alpha * self.problem.signs[rows] / n2  # of W.X / |W|^2: 1 for rows without slack
        return Solution(
            rows=rows,
            coef=coef,
            intercept=float(coef.sum()),
            gap=gap,
            n_iter=self.n_iter,
            status=status,
            alpha=alpha,
            squared_norm=n2,
            margin=float(self.margins.min()) / float(np.sqrt(n2)),
            n_columns=self.working.pool.n_computed,
        )

"""The point of a hull nearest the origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from kernlet.kernels.kernel import Floats
from kernlet.problems.hull import Hull
from kernlet.solvers.hull_solution import HullProgress, HullSolution, HullStatus, relative_gap
from kernlet.solvers.hull_steps import ActiveRows, Steps, mdm_steps, sk_steps
from kernlet.solvers.wolfe import LARGEST_FACE, polish

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
    >>> from kernlet.kernels import RBF, Gram
    >>> from kernlet.problems.hull import Hull
    >>> from kernlet.solvers.nearest_point import find_nearest_point
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

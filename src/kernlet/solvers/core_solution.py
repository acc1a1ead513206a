"""A machine over a core set, and how one is grown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats

CoreStatus = Literal["optimal", "iteration limit", "memory limit", "stopped", "rounding"]

#: What a core set that ended early says to its user.
REASONS: dict[CoreStatus, str] = {
    "iteration limit": "the core set reached max_iter. Raise it.",
    "memory limit": "the core set reached cache_size. Raise it, lower C, or allow a larger eps.",
    "rounding": "kernel values times C leave no more digits. Scale the features, or lower C.",
}
_WORTH_A_WARNING = 1e-8  # rounding above this


@dataclass(frozen=True, eq=False)
class CoreSolution:
    """A machine over a core set, judged on all rows.

    Parameters
    ----------
    core : ndarray of shape (n_core,)
        Rows of the core set, in the order in which they came.
    rows : ndarray of shape (n_support,)
        Those with a positive weight, ascending.
    coef : ndarray of shape (n_support,)
        Their coefficients d_i a_i.
    intercept : float
    values : ndarray of shape (n_rows,)
        w.f(x_i) + intercept at all rows, the directions taken off.
    squared_norm : float
        |w|^2 + intercept^2.
    objective : float
        Primal value over all rows.
    bound : float
        Dual value: a lower bound on it.
    eps : float
        True distance of the furthest row: (1 + eps) radii.
    n_iter : int
        Quadratic programs solved.
    n_scans : int
        Times that all rows were looked at.
    status : {"optimal", "iteration limit", "memory limit", "stopped", "rounding"}
    """

    core: Indices
    rows: Indices
    coef: Floats
    intercept: float
    values: Floats
    squared_norm: float
    objective: float
    bound: float
    eps: float
    n_iter: int
    n_scans: int
    status: CoreStatus

    @property
    def centers(self) -> Indices:
        """The rows, as the centers of a machine."""
        return self.rows

    @property
    def gap(self) -> float:
        """(objective - bound) / objective: the certificate."""
        return max(0.0, (self.objective - self.bound) / self.objective)


@dataclass(frozen=True)
class CoreProgress:
    """Where the growth of a core set stands.

    Parameters
    ----------
    rows : ndarray of shape (n_support,)
    coef : ndarray of shape (n_support,)
    intercept : float
    n_iter : int
    """

    rows: Indices
    coef: Floats
    intercept: float
    n_iter: int


Report = Callable[[CoreProgress], bool]


@dataclass(frozen=True)
class CoreRule:
    """How a core set grows, and when it is large enough.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative gap of the objective to reach, on all rows. Not looked at where ``eps`` is given.
    eps : float or None, default=None
        The paper's rule instead: stop when no row found is further than 1 + eps radii.
    sample_size : int or None, default=59
        The furthest row is looked for among that many random rows; among 59, it is one of the
        furthest 5 % with a probability of 95 %. None looks at all rows.
    n_tries : int, default=1
        Samples without a row outside that end the search (with ``tol``, that lead to a scan of all
        rows).
    max_iter : int or None, default=None
        Quadratic programs allowed.
    max_bytes : int, default=2000 MB
        For the quadratic program.
    """

    tol: float = 1e-3
    eps: float | None = None
    sample_size: int | None = 59
    n_tries: int = 1
    max_iter: int | None = None
    max_bytes: int = 2000 * 2**20

    @property
    def largest(self) -> int:
        """Rows of a core set that fit the memory."""
        return max(2, int(np.sqrt(self.max_bytes / 48)))

    def is_missed(self, status: CoreStatus, gap: float, eps: float) -> bool:
        """Whether a core set ended early and short of the rule.

        Parameters
        ----------
        status : CoreStatus
        gap, eps : float
            Of the solution, over all rows.

        Returns
        -------
        is_missed : bool
        """
        if status in ("optimal", "stopped"):
            return False
        left, wanted = (gap, self.tol) if self.eps is None else (eps, self.eps)
        return not left <= (max(wanted, _WORTH_A_WARNING) if status == "rounding" else wanted)

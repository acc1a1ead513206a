"""Joining the machines of several outputs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kernlet.expansion import KernelExpansion, distinct_rows
from kernlet.kernels.columns import Indices
from kernlet.kernels.gram import Gram
from kernlet.kernels.kernel import Floats
from kernlet.solvers import MarginSolution

#: A relative duality gap beyond this is told.
WORTH_A_WARNING = 1e-8
_REASONS = {
    "iteration limit": "the simplex method reached max_iter. Raise it.",
    "stalled": "programs over more rows near the margin came no closer. Lower C, or give fewer "
    "candidates.",
    "failed": "the simplex method failed. Scale the features, or lower C.",
    "optimal": "kernel values times C leave no more digits. Scale the features, or lower C.",
}


class Output(Protocol):
    """The machine of one output over some of the candidates."""

    @property
    def centers(self) -> Indices:
        """The candidates, ascending."""
        ...

    @property
    def coef(self) -> Floats:
        """Their coefficients."""
        ...

    @property
    def intercept(self) -> float:
        """What is added."""
        ...


def join_centers(gram: Gram, solutions: Sequence[Output]) -> tuple[KernelExpansion, Indices]:
    """One expansion for all outputs over the centers that any of them uses.

    Parameters
    ----------
    gram : Gram
    solutions : sequence of MarginSolution or another machine of one output

    Returns
    -------
    expansion : KernelExpansion
        Equal candidates are one center.
    centers : ndarray of shape (n_centers,)
        The candidate that each center is.
    """
    used = np.unique(np.concatenate([s.centers for s in solutions]))
    group, first = distinct_rows(gram.z.X[used])
    coef = np.zeros((len(solutions), len(first)))
    for output, solution in zip(coef, solutions, strict=True):
        np.add.at(output, group[np.searchsorted(used, solution.centers)], solution.coef)
    intercept = np.array([s.intercept for s in solutions])
    centers = used[first]
    return KernelExpansion(gram.kernel, gram.z.X[centers], coef, intercept), centers


def join_duals(solutions: Sequence[MarginSolution]) -> tuple[Indices, Floats]:
    """The rows with a positive dual in any output, and the duals of all outputs there.

    Parameters
    ----------
    solutions : sequence of MarginSolution

    Returns
    -------
    rows : ndarray of shape (n_rows,)
    duals : ndarray of shape (n_outputs, n_rows)
    """
    rows = np.flatnonzero(_is_any([s.rows for s in solutions]))
    duals = np.zeros((len(solutions), len(rows)))
    for output, solution in zip(duals, solutions, strict=True):
        output[np.searchsorted(rows, solution.rows)] = solution.duals
    return rows, duals


def loo_error_bound(
    n_rows: int,
    candidate_rows: Indices | None,
    solutions: Sequence[MarginSolution],
    tol: float,
) -> float:
    """Share of the rows whose absence could change a machine (Proposition 3.1).

    A row that is no center, has no positive dual and no error can be left out without
    changing the answer, which classifies it correctly in every output. That holds at an
    optimum; anywhere else the bound is 1.

    Parameters
    ----------
    n_rows : int
    candidate_rows : ndarray of shape (n_candidates,) or None
        The row that each candidate is; None where candidates are no rows and stay in place
        whichever row is left out.
    solutions : sequence of MarginSolution
    tol : float
        Relative duality gap up to which a solution counts as optimal.

    Returns
    -------
    bound : float
    """
    if not all(s.gap <= tol for s in solutions):
        return 1.0
    moving = [s.rows for s in solutions] + [np.flatnonzero(s.slacks > 0) for s in solutions]
    if candidate_rows is not None:
        moving += [candidate_rows[s.centers] for s in solutions]
    return np.count_nonzero(_is_any(moving)) / n_rows


def _is_any(numbers: Sequence[Indices]) -> Any:
    """Which row numbers are in any of the arrays; to sort millions takes longer than a pass."""
    found = np.zeros(1 + max(int(part.max(initial=-1)) for part in numbers), dtype=bool)
    for part in numbers:
        found[part] = True
    return found


def warn_if_unfinished(solutions: Sequence[MarginSolution], tol: float) -> None:
    """Warn of linear programs that ended far from their optimum, with the gap and a remedy.

    Parameters
    ----------
    solutions : sequence of MarginSolution
    tol : float
        Relative duality gap that was wanted.
    """
    unfinished = [solution for solution in solutions if is_unfinished(solution, tol)]
    if unfinished:
        worst = max(unfinished, key=lambda s: s.gap)
        warnings.warn(
            f"{len(unfinished)} of {len(solutions)} linear programs ended at a relative "
            f"duality gap of up to {worst.gap:.1e} (tol={tol:.1e}): {_REASONS[worst.status]}",
            ConvergenceWarning,
            stacklevel=6,
        )


def is_unfinished(solution: MarginSolution, tol: float) -> bool:
    """Whether a linear program ended far from its optimum without being told to stop.

    Parameters
    ----------
    solution : MarginSolution
    tol : float
        Relative duality gap that was wanted.

    Returns
    -------
    answer : bool
    """
    if solution.status == "stopped":
        return False
    return solution.gap > (
        tol if solution.status == "iteration limit" else max(tol, WORTH_A_WARNING)
    )

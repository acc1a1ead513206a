"""From the sums over rows to the machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernlet.estimators.learned_rows import LearnedRows
from kernlet.expansion import KernelExpansion
from kernlet.kernels import Linear
from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.problems.proximal import Proximal, normalization, one_against_rest
from kernlet.solvers.normal_equations import ProximalSolution, solve_proximal

#: What an output says where one side has no rows: beyond all others, finite in float32 too.
CERTAIN = float(np.finfo(np.float32).max)


def proximal_machine(
    learned: LearnedRows, C: float, class_weight: Any
) -> tuple[KernelExpansion, ProximalSolution]:
    """Solve the machine of the rows learned.

    Two classes make one output. A class of which there are no rows is never predicted.

    Parameters
    ----------
    learned : LearnedRows
    C : float
    class_weight : dict, "balanced", "normalized" or None

    Returns
    -------
    expansion : KernelExpansion
    solution : ProximalSolution
    """
    moments, n_classes = learned.moments, len(learned.classes)
    signs = one_against_rest(n_classes, [1] if n_classes == 2 else None)
    weights = None
    if moments.is_by_class:
        weights = normalization(signs, moments.totals, balanced=class_weight == "balanced")
    solution = solve_proximal(Proximal(moments, C, signs, weights))
    certain = _certain(signs, moments.counts)
    coef = np.where(certain[:, None] == 0, solution.weights, 0.0)
    intercept = np.where(certain == 0, solution.intercept, certain)
    if learned.kernel is None:
        return KernelExpansion(Linear(), coef, np.eye(len(coef)), intercept), solution
    return KernelExpansion(learned.kernel, learned.landmarks, coef, intercept), solution


def _certain(signs: Floats, counts: Indices) -> Floats:
    """What outputs say that have rows on one side only; 0 for the others."""
    no_own, no_rest = ((side @ counts) == 0 for side in (signs > 0, signs < 0))
    return CERTAIN * (no_rest.astype(float) - no_own)

"""The pound loss: the size of an error plus a price for its presence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from kernlet.kernels.kernel import Floats
from kernlet.problems.l1_margin import L1Margin
from kernlet.problems.tall_margin import TallMargin

Problem = TypeVar("Problem", L1Margin, TallMargin)


@dataclass(frozen=True)
class PoundLoss:
    """x + mu (1 - exp(-alpha x)) for x >= 0, the smooth form of x + mu [x > 0].

    Equation (24) of Fung, Mangasarian and Smola (2002); concave on x >= 0.

    Parameters
    ----------
    mu : float
        Price of being nonzero.
    alpha : float
        Steepness of the step.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.problems.pound import PoundLoss
    >>> PoundLoss(mu=10.0, alpha=5.0).value(np.array([0.0, 1.0])).round(2)
    array([ 0.  , 10.93])
    """

    mu: float
    alpha: float

    def value(self, x: Floats) -> Floats:
        """The loss at x >= 0."""
        return x - self.mu * np.expm1(-self.alpha * x)

    def slope(self, x: Floats) -> Floats:
        """Its derivative, 1 + mu alpha exp(-alpha x)."""
        return 1.0 + self.mu * self.alpha * np.exp(-self.alpha * x)

    def objective(
        self, problem: L1Margin | TallMargin, slacks: Floats, absolute_coef: Floats
    ) -> Any:
        """The machine's objective with this loss in place of absolute values, (25)."""
        return problem.objective(self.value(slacks), self.value(absolute_coef))

    def linearized(self, problem: Problem, slacks: Floats, absolute_coef: Floats) -> Problem:
        """The linear program (26) at a point: ``problem`` with its costs scaled by the slopes."""
        return replace(
            problem,
            error_weights=problem.error_weights * self.slope(slacks),
            coef_weights=problem.coef_weights * self.slope(absolute_coef),
        )

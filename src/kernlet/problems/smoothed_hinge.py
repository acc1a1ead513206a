"""The hinge with a rounded corner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernlet.kernels.kernel import Floats


@dataclass(frozen=True)
class SmoothedHinge:
    """max(0, r), a parabola in place of the corner.

    0 for r <= -w/2, (r + w/2)^2 / (2 w) for |r| <= w/2, r beyond: convex, with a continuous
    slope, and above the hinge by w/8 at most.

    Parameters
    ----------
    width : float
        w > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.problems.smoothed_hinge import SmoothedHinge
    >>> SmoothedHinge(2.0).value(np.array([-1.0, 0.0, 1.0, 2.0]))
    array([0.  , 0.25, 1.  , 2.  ])
    """

    width: float

    def value(self, r: Floats) -> Floats:
        """The loss at r."""
        inner = np.clip(r + 0.5 * self.width, 0.0, self.width)
        return inner * inner * (0.5 / self.width) + np.maximum(0.0, r - 0.5 * self.width)

    def slope(self, r: Floats) -> Floats:
        """Its derivative, between 0 and 1."""
        return np.clip(r * (1.0 / self.width) + 0.5, 0.0, 1.0)

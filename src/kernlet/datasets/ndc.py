"""NDC: normally distributed clusters around random centers."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, validate_params

from kernlet.datasets.dataset import Dataset, Labels

Floats = NDArray[np.float64]

# NDC stretches a root by the width of the box over 50; the box is [-1, 1] here.
STRETCH = 2.0 / 50.0


@dataclass(frozen=True, eq=False)
class Plane:
    """The hyperplane of the points x with <normal, x> = offset.

    Parameters
    ----------
    normal : ndarray of shape (n_features,)
    offset : float
    """

    normal: Floats
    offset: float

    def heights(self, X: Floats) -> Floats:
        """<normal, x> - offset of each row."""
        return X @ self.normal - self.offset

    def sides(self, X: Floats) -> Labels:
        """1 for the rows on the plane or above it, 0 for those below."""
        return (self.heights(X) >= 0.0).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Clouds:
    """Normal distributions around centers: N(center, (STRETCH expansion)^2 root' root).

    Parameters
    ----------
    centers : ndarray of shape (n_centers, n_features)
    labels : ndarray of shape (n_centers,)
    fractions : ndarray of shape (n_centers,)
        Share of the points that each center gets; they sum to one.
    roots : ndarray of shape (n_centers, n_features, n_features)
    """

    centers: Floats
    labels: Labels
    fractions: Floats
    roots: Floats

    def draw(
        self, members: NDArray[np.intp], expansion: float, random_state: np.random.RandomState
    ) -> Floats:
        """One point for each member, which is the number of its center."""
        X = self.centers[members]
        for center in np.unique(members):
            rows = np.flatnonzero(members == center)
            deviations = random_state.standard_normal((len(rows), X.shape[1])) @ self.roots[center]
            X[rows] += STRETCH * expansion * deviations
        return X

    def separability(self, plane: Plane, expansion: float) -> float:
        """Probability that a point lies on its center's side of a plane."""
        return float(self.fractions @ ndtr(self._margins(plane) / expansion))

    def expansion_for(self, plane: Plane, separability: float) -> float:
        """The expansion with a given separability, which falls from 1 to 1/2 as it grows."""
        # If all centers had the same margin, it would be margin / quantile: a bracket.
        bracket = self._margins(plane) / ndtri(separability)
        return float(
            brentq(
                lambda expansion: self.separability(plane, expansion) - separability,
                0.99 * bracket.min(),
                1.01 * bracket.max(),
            )
        )

    def _margins(self, plane: Plane) -> Floats:
        """Distances of the centers from a plane, in standard deviations at expansion 1."""
        deviations = STRETCH * np.linalg.norm(self.roots @ plane.normal, axis=1)
        return np.abs(plane.heights(self.centers)) / deviations


@validate_params(
    {
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "n_centers": [Interval(Integral, 2, None, closed="left")],
        "expansion": [Interval(Real, 0, None, closed="neither")],
        "separability": [None, Interval(Real, 0.5, 1, closed="neither")],
        "test_size": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_ndc(
    n_samples: int = 1000,
    n_features: int = 10,
    *,
    n_centers: int = 20,
    expansion: float = 10.0,
    separability: float | None = None,
    test_size: int = 0,
    random_state: Any = None,
) -> Dataset:
    """Normally distributed clusters (NDC): overlapping clouds, nearly separated by a plane.

    Centers are uniform on the box [-1, 1]^n_features, and a random plane gives each the
    class of its side. A point chooses its center by random fractions, has the center's
    class, and lies at::

        x = center + (expansion / 25) root' e,   e ~ N(0, I)

    where each center has a root of its own, a square matrix of numbers uniform on [0, 1].
    The larger the expansion, the more points are on the wrong side of the plane.

    Parameters
    ----------
    n_samples : int, default=1000
        Training points. From two points on, both classes occur.
    n_features : int, default=10
    n_centers : int, default=20
        Centers; both classes occur among them.
    expansion : float, default=10.0
        Spread of the clouds: the expected squared distance of a point from its center is
        (expansion * n_features / 25)^2 / 3. Not used where ``separability`` is given.
    separability : float in (0.5, 1) or None, default=None
        Expected share of points on their center's side of the plane: the expansion is then
        chosen so that it is met. The share among n points differs from it by chance, with a
        standard error of sqrt(separability * (1 - separability) / n).
    test_size : int, default=0
        Points of a test part from the same clouds; 0 for no test part. The training part
        does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Draws all; None takes numpy's global generator, as in scikit-learn. With the same
        seed, another expansion moves each point along the same line.

    Returns
    -------
    clusters : Dataset
        Labels are 0 and 1.

    See Also
    --------
    make_noisy_digits : The same clouds around digits.

    Notes
    -----
    Papers use NDC [1]_ without spelling it out. What is random here, and the default number
    of centers and expansion, are those of its author's program, from which no code was
    taken. Different are: the box, there [-50, 50] with clouds larger in proportion; the
    numbers, there rounded to integers; and ``separability``, which there is only reported.
    So a set made here is of the same kind as one in a paper, but not the same set.

    The entries of a root have mean 1/2, so that all clouds are longest along the diagonal
    of the box. Memory is n_centers * n_features^2 numbers for the roots.

    References
    ----------
    .. [1] D. R. Musicant, "NDC: Normally distributed clustered datasets", 1998.

    Examples
    --------
    >>> from kernlet.datasets import make_ndc
    >>> make_ndc(500, 5, separability=0.9, test_size=200, random_state=0)
    Dataset('ndc', 500 rows x 5 features, 2 classes, 200 test rows)
    """
    random_state = check_random_state(random_state)
    clouds, plane = draw_problem(n_centers, n_features, random_state)
    if separability is not None:
        expansion = clouds.expansion_for(plane, separability)
    members = _choose_members(clouds, n_samples, random_state)
    X = clouds.draw(members, expansion, random_state)
    y = clouds.labels[members]
    if test_size == 0:
        return Dataset("ndc", X, y)
    members = random_state.choice(n_centers, test_size, p=clouds.fractions)
    X_test = clouds.draw(members, expansion, random_state)
    return Dataset("ndc", X, y, X_test, clouds.labels[members])


def draw_problem(
    n_centers: int, n_features: int, random_state: np.random.RandomState
) -> tuple[Clouds, Plane]:
    """Centers in the box, a plane with some of them on either side, and their clouds."""
    while True:
        centers = random_state.uniform(-1.0, 1.0, (n_centers, n_features))
        normal = random_state.uniform(-1.0, 1.0, n_features)
        # Close to the middle of the box, in the proportions of the original.
        plane = Plane(normal, random_state.uniform(-0.05, 0.05))
        labels = plane.sides(centers)
        if labels.min() < labels.max():
            return draw_clouds(centers, labels, random_state), plane


def draw_clouds(centers: Floats, labels: Labels, random_state: np.random.RandomState) -> Clouds:
    """Random fractions and random roots for given centers."""
    n_centers, n_features = centers.shape
    fractions = random_state.uniform(size=(n_centers,))
    roots = random_state.uniform(size=(n_centers, n_features, n_features))
    return Clouds(centers, labels, fractions / fractions.sum(), roots)


def _choose_members(
    clouds: Clouds, n_samples: int, random_state: np.random.RandomState
) -> NDArray[np.intp]:
    """Centers by their fractions, of both classes if there are two points at least."""
    while True:
        members = random_state.choice(len(clouds.centers), n_samples, p=clouds.fractions)
        labels = clouds.labels[members]
        if n_samples == 1 or labels.min() < labels.max():
            return members

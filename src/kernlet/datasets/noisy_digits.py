"""Noisy digits: clouds around images, a problem that no machine solves well."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state, check_X_y
from sklearn.utils._param_validation import Interval, validate_params

from kernlet.datasets.dataset import Dataset, Labels
from kernlet.datasets.loaders import load
from kernlet.datasets.ndc import STRETCH, Clouds, Floats, draw_clouds

POSITIVE_DIGIT = 8
N_POSITIVE = 90
N_EACH_OTHER = 10
# Standard deviations of a pixel that are brought into [-1, 1].
REACH = 5.0


@validate_params(
    {
        "n_samples": [Interval(Integral, 2, None, closed="left")],
        "expansion": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "centers": [tuple, list, None],
    },
    prefer_skip_nested_validation=True,
)
def make_noisy_digits(
    n_samples: int = 8000,
    *,
    expansion: float = 16.0,
    random_state: Any = None,
    centers: Any = None,
) -> Dataset:
    """Eights against the other digits, under heavy noise: the modified USPS of [1]_.

    The centers are 90 random eights and 10 random images of each other digit from the
    training part of USPS, its pixels brought to [-1, 1]. Around each lies a cloud as in
    `make_ndc`, and the whole is shrunk until its pixels are about in [-1, 1] again::

        x = (center + (expansion / 25) root' e) / (1 + 5 s),   e ~ N(0, I)

    where each center has a root of its own, a square matrix of numbers uniform on [0, 1],
    and s = (expansion / 25) sqrt(n_features / 3) is the root mean square of the noise of a
    pixel. Points of an eight have label 1, the others label 0.

    Parameters
    ----------
    n_samples : int, default=8000
        Training points, half of each class (of an odd number, one more with label 0).
        Centers of a class share its points by random fractions.
    expansion : float, default=16.0
        Spread of the clouds against the differences between digits; see Notes.
    random_state : int, RandomState instance or None, default=None
        Draws all; None takes numpy's global generator, as in scikit-learn.
    centers : (X, y) or None, default=None
        Centers of your own with features in [-1, 1], and their labels 0 and 1; None chooses
        digits from ``load("usps")``.

    Returns
    -------
    digits : Dataset
        The test part is a fresh draw from the same clouds, of the same size.

    See Also
    --------
    make_ndc : The same clouds around random centers.

    Notes
    -----
    The paper names the generator NDC with an expansion factor of 25, but neither its
    formula nor the scale of the points, and says that the factor was chosen for the
    separability that it gave. In the unit used here 25 gives too noisy a set (67 % with 2000
    rows). So the shrinking and the default expansion were calibrated on the paper's results,
    for kernel exp(-||x - y||^2 / 128) and C = 10; they are not known to be what its authors
    did. Without the shrinking, this kernel is so narrow that the machine with all rows learns
    its training points by heart.

    Test accuracies of `L1KernelClassifier` in percent, with all rows, 100 or 10 random rows as
    candidates, the paper's in brackets (means over five sets that the calibration did not
    use, each with 8000 test points; the standard deviation is 1.4 to 3.8 points)::

        rows    all            100            10
         500    69.0           65.0           52.8
        1000    73.6 (73.3)    68.6 (68.5)    55.5 (55.6)
        2000    75.9 (75.5)    70.4 (70.8)    59.1 (57.7)

    References
    ----------
    .. [1] F. J. González-Castaño and R. R. Meyer, "Chunking-synthetic approaches to
       large-scale kernel machines", University of Wisconsin-Madison.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.datasets import make_noisy_digits
    >>> make_noisy_digits(random_state=0)  # doctest: +SKIP
    Dataset('noisy_digits', 8000 rows x 256 features, 2 classes, 8000 test rows)
    >>> corners = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    >>> make_noisy_digits(100, centers=(corners, [0, 1, 1, 0]), random_state=0)
    Dataset('noisy_digits', 100 rows x 2 features, 2 classes, 100 test rows)
    """
    random_state = check_random_state(random_state)
    points, labels = _choose_digits(random_state) if centers is None else _check(centers)
    clouds = draw_clouds(points, labels, random_state)
    train = _draw(clouds, n_samples, expansion, random_state)
    test = _draw(clouds, n_samples, expansion, random_state)
    return Dataset("noisy_digits", *train, *test)


def _choose_digits(random_state: np.random.RandomState) -> tuple[Floats, Labels]:
    """Images of USPS, half of them eights."""
    usps = load("usps")
    rows = [
        random_state.choice(
            np.flatnonzero(usps.y == digit),
            N_POSITIVE if digit == POSITIVE_DIGIT else N_EACH_OTHER,
            replace=False,
        )
        for digit in range(10)
    ]
    chosen = np.concatenate(rows)
    labels = (usps.y[chosen] == POSITIVE_DIGIT).astype(np.int64)
    return 2.0 * usps.X[chosen].astype(np.float64) - 1.0, labels


def _check(centers: Any) -> tuple[Floats, Labels]:
    if len(centers) != 2:
        raise ValueError(
            f"centers has {len(centers)} parts; give a pair (X, y) of points and their labels."
        )
    points, labels = check_X_y(*centers, dtype=np.float64)
    if set(labels.tolist()) != {0, 1}:
        raise ValueError(
            f"The labels of the centers are {sorted(set(labels.tolist()))}; give 0 and 1, "
            "and at least one center of each."
        )
    return points, labels.astype(np.int64)


def _draw(
    clouds: Clouds, n_samples: int, expansion: float, random_state: np.random.RandomState
) -> tuple[Floats, Labels]:
    """Points in random order, half of each class, shrunk."""
    n_positive = n_samples // 2
    members = np.concatenate(
        [
            _choose_members(clouds, label, count, random_state)
            for label, count in enumerate((n_samples - n_positive, n_positive))
        ]
    )
    members = random_state.permutation(members)
    X = clouds.draw(members, expansion, random_state)
    noise = STRETCH * expansion * np.sqrt(X.shape[1] / 3.0)
    return X / (1.0 + REACH * noise), clouds.labels[members]


def _choose_members(
    clouds: Clouds, label: int, count: int, random_state: np.random.RandomState
) -> Any:
    """Centers of a class, by their fractions within it."""
    candidates = np.flatnonzero(clouds.labels == label)
    fractions = clouds.fractions[candidates]
    return random_state.choice(candidates, count, p=fractions / fractions.sum())

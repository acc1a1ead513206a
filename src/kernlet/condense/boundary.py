"""EliminateBoundary: shrink to the rows between the planes until few are left, and delete these."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval

from kernlet._typing import Floats
from kernlet.condense.base import Elimination, EliminationCondenser, RemainingRows
from kernlet.kernels.base import Kernel


class BoundaryCondenser(EliminationCondenser):
    """Deletes rows near the boundary between a class and the rest.

    This is EliminateBoundary of [1]_. For each class a proximal classifier is trained on the
    candidates, at first all rows; those with w.x - gamma in (-1, 1) are the next candidates. Once
    fewer than ``threshold`` are left, these are deleted.

    Parameters
    ----------
    threshold : int, default=50
        The paper's T: fewer candidates than this are deleted. 1 deletes nothing in the repaired
        form.
    C : float, default=1.0
        Weight of the errors of the classifiers; the paper's nu.
    kernel : {"linear", "rbf", "laplacian", "poly", "sigmoid"} or Kernel, default="linear"
        Kernel of the classifiers. Kernels other than ``"linear"`` use kernel values with
        ``landmarks``.
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Width of all kernels but "linear". ``"scale"`` is 1 / (n_features X.var()) and ``"auto"``
        1 / n_features, as in scikit-learn; ``"mean_distance"`` is one over the mean squared
        distance between two rows. For "laplacian", a rule is the square root of its value divided
        by n_features.
    degree : int, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant of the "poly" and "sigmoid" kernels.
    landmarks : int, float, array-like or None, default=500
        Points with which kernel values are computed: a number of random rows, a fraction of the
        rows, given points, or None for all rows. Not used by ``"linear"``.
    max_rounds : int, default=20
        The paper's M, which it does not state: at most this number of trainings per class.
    form : {"repaired", "literal"}, default="repaired"
        ``"literal"`` takes candidates from all rows, as Algorithm 1 of the paper is written, so
        that they may stall or grow, and deletes those of the last round however many they are.
        ``"repaired"`` takes them from the previous candidates, and deletes nothing if
        ``threshold`` is not reached.
    class_weight : {"balanced", "normalized"}, default="balanced"
        Weights of the p rows of a class and of the m - p others: m / (2 p) and m / (2 (m - p)), or
        the paper's 1 / p and 1 / (m - p), with which the result depends on the scale of the
        features and on C.
    min_per_class : int, default=1
        Rows that each class keeps, if it has them: those farthest from the plane.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks.

    Attributes
    ----------
    sample_indices_ : ndarray of shape (n_kept,)
        Rows kept, ascending.
    condensation_ : Condensation
        What was deleted, by class and round, with the classifiers.
    sampling_strategy_ : dict
        Rows kept of each class.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    n_features_in_ : int
        Number of features seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if all columns of X have names that are strings.

    See Also
    --------
    TypicalCondenser : Deletes rows far from the boundary instead.

    Notes
    -----
    In our measurements nearest neighbours lose more accuracy by this than by a random subset of
    the same size: use it for comparison, and to find outliers.

    As with :class:`TypicalCondenser`, columns far from the origin should be centred first.

    Time is that of :class:`TypicalCondenser`, plus n_features^2 per candidate that leaves and
    n_features^3 / 3 per round.

    References
    ----------
    .. [1] S. V. N. Vishwanathan and M. N. Murty, "Use of multi-category proximal SVM for data
       set reduction", Hybrid Information Systems, 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kernlet import BoundaryCondenser
    >>> X, y = load_digits(return_X_y=True)
    >>> rows, labels = BoundaryCondenser(threshold=100).fit_resample(X, y)
    >>> len(X) - len(rows) < 10 * 100
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **EliminationCondenser._parameter_constraints,
        "threshold": [Interval(Integral, 1, None, closed="left")],
        "max_rounds": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        threshold: int = 50,
        *,
        C: float = 1.0,
        kernel: str | Kernel = "linear",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        landmarks: Any = 500,
        max_rounds: int = 20,
        form: Literal["repaired", "literal"] = "repaired",
        class_weight: Literal["balanced", "normalized"] = "balanced",
        min_per_class: int = 1,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            C,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            landmarks=landmarks,
            form=form,
            class_weight=class_weight,
            min_per_class=min_per_class,
            verbose=verbose,
            random_state=random_state,
        )
        self.threshold = threshold
        self.max_rounds = max_rounds

    def _eliminate(self, remaining: RemainingRows, number: int, label: Any) -> list[Elimination]:
        """Shrink the candidates to those with |w.x - gamma| < 1, and delete the last of them."""
        everyone = candidates = remaining.against_rest(number)
        rounds = []
        for count in range(1, self.max_rounds + 1):
            machine = self._train(candidates, 1, label, count)
            # The paper takes the next candidates from all rows, and they may stall or grow; the
            # repaired form takes them from the candidates, which become fewer.
            pool = everyone if self.form == "literal" else candidates
            values = pool.features.dot(machine.weights, pool.rows) - machine.gamma
            is_inside = np.abs(values) < 1
            inside, values = pool.rows[is_inside], values[is_inside]
            rounds.append(replace(machine, inside=len(inside)))
            if len(inside) < self.threshold or np.array_equal(inside, candidates.rows):
                break  # few enough, or a fixed point
            # Moments of the next candidates, from whichever set holds them and is smaller.
            is_nested = np.isin(inside, candidates.rows, assume_unique=True).all()
            start = candidates if is_nested else everyone
            candidates = start.without(np.setdiff1d(start.rows, inside, assume_unique=True))
        if self.form == "literal" or len(inside) < self.threshold:
            is_deleted = remaining.deletable(inside, -np.abs(values), self.min_per_class)
            deleted, values = inside[is_deleted], values[is_deleted]
            rounds[-1] = replace(rounds[-1], deleted=deleted, values=values)
        return rounds

    def _clearest_first(self, values: Floats) -> Floats:
        return np.abs(values)

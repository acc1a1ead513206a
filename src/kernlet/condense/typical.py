"""EliminateTypical: rows far on their own side of the plane are not needed."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import Interval

from kernlet._typing import Floats
from kernlet.condense.base import Elimination, EliminationCondenser, RemainingRows
from kernlet.kernels.base import Kernel


class TypicalCondenser(EliminationCondenser):
    """Deletes the rows that lie far on the side of their class.

    This is EliminateTypical of [1]_. For each class a proximal classifier is trained against the
    rest, and rows with w.x - gamma > level are deleted: nearest neighbours do not need them.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the errors of the classifiers; the paper's nu.
    level : float, default=1.0
        Rows beyond the plane w.x - gamma = level are deleted. The paper's plane is 1, the target
        of the rows of the class; lower levels delete more, and 0 is the boundary itself.
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
    form : {"repaired", "literal"}, default="repaired"
        ``"literal"`` deletes such rows of any class, as Algorithm 2 of the paper is written:
        misclassified ones, too. ``"repaired"`` deletes rows of the class itself only.
    class_weight : {"balanced", "normalized"}, default="balanced"
        Weights of the p rows of a class and of the m - p others: m / (2 p) and m / (2 (m - p)), or
        the paper's 1 / p and 1 / (m - p), with which the result depends on the scale of the
        features and on C.
    min_per_class : int, default=1
        Rows that each class keeps, if it has them: the least typical.
    verbose : int, default=0
        Print progress: 1 for each task of the fit, 2 for the steps below them.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks.

    Attributes
    ----------
    sample_indices_ : ndarray of shape (n_kept,)
        Rows kept, ascending.
    condensation_ : Condensation
        What was deleted, by class, with the classifiers.
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
    CentroidCondenser : Far fewer rows for the same accuracy, but new ones.
    BoundaryCondenser : Deletes rows near the boundary instead.

    Notes
    -----
    Classes are processed in the order of their labels, each on the rows left by those before it.
    A second pass over the rows left would be worse than a random subset.

    A lower ``level`` deletes more rows, and in the round of the first class the same ones and
    more. Later classifiers are then trained on fewer rows, so that a few rows may be kept that a
    higher level deletes.

    With ``kernel="linear"`` the result depends on the origin and on the scale of the columns,
    because w and the intercept are penalised, as in the paper. Far from the origin fewer rows are
    deleted: of iris 17 of 150, and 24 after centring. Centre the columns first with
    StandardScaler(with_std=False), which does not affect nearest neighbours.

    Time is n_rows p^2 for p columns or landmarks and p^3 / 3 per class; memory p^2 numbers per
    class, up to three times. More than 8 GB for them is refused.

    References
    ----------
    .. [1] S. V. N. Vishwanathan and M. N. Murty, "Use of multi-category proximal SVM for data
       set reduction", Hybrid Information Systems, 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kernlet import TypicalCondenser
    >>> X, y = load_digits(return_X_y=True)
    >>> condenser = TypicalCondenser()
    >>> rows, labels = condenser.fit_resample(X, y)
    >>> condenser.condensation_
    Condensation(1,256 of 1,797 rows kept, 10 rounds)

    A lower level for a smaller set:

    >>> len(TypicalCondenser(level=0.8).fit_resample(X, y)[0])
    689
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **EliminationCondenser._parameter_constraints,
        "level": [Interval(Real, None, None, closed="neither")],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        level: float = 1.0,
        kernel: str | Kernel = "linear",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        landmarks: Any = 500,
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
        self.level = level

    def _eliminate(self, remaining: RemainingRows, number: int, label: Any) -> list[Elimination]:
        """Delete the rows with w.x - gamma > level (Algorithm 2 of the paper has level 1)."""
        machine = self._train(remaining, number, label, 1)
        rows = remaining.rows
        # The paper deletes rows of every class there, misclassified ones too: exactly those that
        # the neighbours of a boundary need. The repaired form deletes rows of the class itself.
        if self.form == "repaired":
            rows = rows[remaining.codes[rows] == number]
        values = remaining.features.dot(machine.weights, rows) - machine.gamma
        is_typical = values > self.level
        rows, values = rows[is_typical], values[is_typical]
        deleted = remaining.deletable(rows, values, self.min_per_class)
        # One pass only: a second pass over the rows left was measured to be worse than a random
        # subset of the same size.
        return [replace(machine, inside=len(rows), deleted=rows[deleted], values=values[deleted])]

    def _clearest_first(self, values: Floats) -> Floats:
        return -values

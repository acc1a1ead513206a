"""Algorithm 2: rows far on their own side of the plane are not needed."""

from __future__ import annotations

from typing import Any, Literal

from kernlet._typing import Indices
from kernlet.condense.base import Condensation, EliminationCondenser, Pool, spare, train_one_class
from kernlet.kernels.base import Kernel
from kernlet.kernels.landmarks import RowFeatures


def eliminate_typical(
    features: RowFeatures,
    codes: Indices,
    classes: Any,
    *,
    C: float = 1.0,
    form: Literal["repaired", "literal"] = "repaired",
    balanced: bool = True,
    min_per_class: int = 1,
) -> Condensation:
    """Delete, class after class, the rows with w.x - gamma > 1.

    The machine of a class is trained on the rows left by the classes before it. One pass: more
    of them are worse than a random subset.

    Parameters
    ----------
    features : RowFeatures
    codes : ndarray of shape (n_rows,)
        The class of each row.
    classes : ndarray of shape (n_classes,)
    C : float, default=1.0
    form : {"repaired", "literal"}, default="repaired"
        ``"literal"`` deletes rows of any class there, as the paper writes it; ``"repaired"``
        those of the class itself.
    balanced : bool, default=True
        Weights m / (2 p); otherwise the paper's 1 / p.
    min_per_class : int, default=1
        Rows that every class keeps: those of smallest w.x - gamma.

    Returns
    -------
    condensation : Condensation

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.condense.typical import eliminate_typical
    >>> from kernlet.kernels.landmarks import RowFeatures
    >>> X, codes = np.array([[-9.0], [-1.0], [1.0], [9.0]]), np.array([0, 0, 1, 1])
    >>> eliminate_typical(RowFeatures(X), codes, np.array(["a", "b"])).kept
    array([1, 2])
    """
    pool = Pool.of_all(features, codes, len(classes))
    rounds = []
    for number, label in enumerate(classes.tolist()):
        machine = train_one_class(pool.sums, number, C, balanced=balanced)
        rows = pool.rows if form == "literal" else pool.own(number)
        values = machine.values(features, rows)
        rows, values = rows[values > 1], values[values > 1]
        leaving = spare(rows, values, pool.rows, codes, min_per_class)
        rounds.append(machine.record(label, 1, len(rows), rows[leaving], values[leaving]))
        pool = pool.without(rows[leaving])
    return Condensation(classes, codes, pool.rows, rounds)


class TypicalCondenser(EliminationCondenser):
    """Leaves out the rows that a plane puts far on the side of their class (EliminateTypical [1]_).

    For each class a proximal machine is trained against the rest, and rows with w.x - gamma > 1
    leave: nearest neighbours do not need them.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the errors of the machines; the paper's nu.
    kernel : {"linear", "rbf", "poly", "sigmoid"} or Kernel, default="linear"
        Other kernels than ``"linear"`` work on kernel values with ``landmarks``.
    gamma, degree, coef0 : see ProximalClassifier
    landmarks : int, float, array-like or None, default=500
        See ProximalClassifier; not used by ``"linear"``.
    form : {"repaired", "literal"}, default="repaired"
        ``"literal"`` leaves out rows of any class there, as Algorithm 2 of the paper is written:
        wrong ones, too. ``"repaired"`` leaves out rows of the class itself only.
    class_weight : {"balanced", "normalized"}, default="balanced"
        Weights m / (2 p) and m / (2 (m - p)), or the paper's 1 / p and 1 / (m - p), with
        which the outcome depends on the scale of the features and on C.
    min_per_class : int, default=1
        Rows that each class keeps, if it has them: the least typical.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks.

    Attributes
    ----------
    sample_indices_ : ndarray of shape (n_kept,)
        Rows kept, ascending.
    condensation_ : Condensation
        What left, by class, with the machines.
    sampling_strategy_ : dict
        Rows left of each class.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names for all its columns, and all are strings.

    See Also
    --------
    CentroidCondenser : Far fewer rows for the same accuracy, but new ones.
    BoundaryCondenser : Leaves out rows about the boundary instead.

    Notes
    -----
    Classes come one after the other, in the order of their labels, and see what is left by those
    before. Once is enough: a second pass over what is left is worse than a random subset.

    With ``kernel="linear"`` the outcome depends on the origin and on the scale of the columns, for
    w and the intercept of the machines are penalised, as in the paper. Far from the origin fewer
    rows are left out: of iris 17 of 150, and 24 about its mean. Centre the columns first,
    StandardScaler(with_std=False); nearest neighbours do not notice.

    Time is n_rows p^2 for p columns or landmarks and p^3 / 3 for each class; memory p^2 numbers
    for each class, up to three times. More than 8 GB for them is refused.

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
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | Kernel = "linear",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        landmarks: Any = 500,
        form: Literal["repaired", "literal"] = "repaired",
        class_weight: Literal["balanced", "normalized"] = "balanced",
        min_per_class: int = 1,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.form = form
        self.class_weight = class_weight
        self.min_per_class = min_per_class
        self.random_state = random_state

    def _condensation(self, X: Any, codes: Indices) -> Condensation:
        return eliminate_typical(
            self._features(X),
            codes,
            self.classes_,
            C=self.C,
            form=self.form,
            balanced=self.class_weight == "balanced",
            min_per_class=self.min_per_class,
        )

"""Algorithm 1: rows between the planes, round after round, until few are left; these leave."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval

from kernlet._typing import Floats, Indices
from kernlet.condense.base import (
    Condensation,
    Elimination,
    EliminationCondenser,
    OneClass,
    Pool,
    spare,
    train_one_class,
)
from kernlet.kernels.base import Kernel
from kernlet.kernels.landmarks import RowFeatures


def eliminate_boundary(
    features: RowFeatures,
    codes: Indices,
    classes: Any,
    *,
    threshold: int = 50,
    max_rounds: int = 20,
    C: float = 1.0,
    form: Literal["repaired", "literal"] = "repaired",
    balanced: bool = True,
    min_per_class: int = 1,
) -> Condensation:
    """Delete, class after class, rows about the boundary between it and the rest.

    A machine is trained on the candidates, at first all rows left, and those with w.x - gamma
    in (-1, 1) are the next candidates, until fewer than ``threshold`` are left.

    Parameters
    ----------
    features : RowFeatures
    codes : ndarray of shape (n_rows,)
        The class of each row.
    classes : ndarray of shape (n_classes,)
    threshold : int, default=50
        The paper's T.
    max_rounds : int, default=20
        The paper's M, for each class.
    C : float, default=1.0
    form : {"repaired", "literal"}, default="repaired"
        ``"repaired"`` takes candidates from candidates, so that they become fewer, and deletes
        nothing where ``threshold`` is not reached. ``"literal"`` takes them from all rows left,
        as the paper writes it, so that they may stall or grow, and deletes those of the last
        round however many they are.
    balanced : bool, default=True
        Weights m / (2 p); otherwise the paper's 1 / p.
    min_per_class : int, default=1
        Rows that every class keeps: those farthest from the plane.

    Returns
    -------
    condensation : Condensation

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.condense.boundary import eliminate_boundary
    >>> from kernlet.kernels.landmarks import RowFeatures
    >>> X, codes = np.array([[-9.0], [-1.0], [1.0], [9.0]]), np.array([0, 0, 1, 1])
    >>> eliminate_boundary(RowFeatures(X), codes, np.array(["a", "b"]), threshold=3).kept
    array([0, 3])
    """
    pool = Pool.of_all(features, codes, len(classes))
    rounds: list[Elimination] = []
    for number, label in enumerate(classes.tolist()):
        search = _search(pool, number, threshold, max_rounds, C, form, balanced)
        last = search[-1]
        leaving = np.zeros(len(last.inside), dtype=bool)
        if form == "literal" or len(last.inside) < threshold:
            nearness = -np.abs(last.values)
            leaving = spare(last.inside, nearness, pool.rows, codes, min_per_class)
        for count, step in enumerate(search, start=1):
            gone = leaving if step is last else np.zeros(len(step.inside), dtype=bool)
            rounds.append(
                step.machine.record(
                    label, count, len(step.inside), step.inside[gone], step.values[gone]
                )
            )
        pool = pool.without(last.inside[leaving])
    return Condensation(classes, codes, pool.rows, rounds)


@dataclass(frozen=True, eq=False)
class _Step:
    """A machine, the rows between its planes, and what it says of them."""

    machine: OneClass
    inside: Indices
    values: Floats


def _search(
    pool: Pool,
    number: int,
    threshold: int,
    max_rounds: int,
    C: float,
    form: str,
    balanced: bool,
) -> list[_Step]:
    """The rounds of one class."""
    pool = pool.against_rest(number)
    candidates, steps = pool, []
    for _ in range(max_rounds):
        machine = train_one_class(candidates.sums, 1, C, balanced=balanced)
        source = pool if form == "literal" else candidates
        values = machine.values(pool.features, source.rows)
        within = np.abs(values) < 1
        steps.append(_Step(machine, source.rows[within], values[within]))
        inside = steps[-1].inside
        if len(inside) < max(threshold, 1) or np.array_equal(inside, candidates.rows):
            break  # few enough, or the same for ever
        candidates = _candidates(source, candidates, inside)
    return steps


def _candidates(source: Pool, before: Pool, inside: Indices) -> Pool:
    """The next candidates, by way of whichever pool differs in fewer rows."""
    leaving = np.setdiff1d(source.rows, inside, assume_unique=True)
    if source is before or len(np.setdiff1d(inside, before.rows, assume_unique=True)):
        return source.without(leaving)
    return before.without(np.setdiff1d(before.rows, inside, assume_unique=True))


class BoundaryCondenser(EliminationCondenser):
    """Leaves out rows about the boundary between a class and the rest (EliminateBoundary [1]_).

    For each class a proximal machine is trained on the candidates, at first all rows; those with
    w.x - gamma in (-1, 1) are the next candidates. Once fewer than ``threshold`` are left, these
    leave.

    Parameters
    ----------
    threshold : int, default=50
        The paper's T: fewer candidates than this leave. 1 leaves everything as it is in
        the repaired form.
    C : float, default=1.0
        Weight of the errors of the machines; the paper's nu.
    kernel : {"linear", "rbf", "poly", "sigmoid"} or Kernel, default="linear"
        Other kernels than ``"linear"`` work on kernel values with ``landmarks``.
    gamma, degree, coef0 : see ProximalClassifier
    landmarks : int, float, array-like or None, default=500
        See ProximalClassifier; not used by ``"linear"``.
    max_rounds : int, default=20
        The paper's M, which it does not state: trainings for each class at most.
    form : {"repaired", "literal"}, default="repaired"
        ``"literal"`` takes candidates from all rows, as Algorithm 1 of the paper is written, so
        that they may stall or grow, and deletes those of the last round however many they are.
        ``"repaired"`` takes them from the candidates before, and deletes nothing where
        ``threshold`` is not reached.
    class_weight : {"balanced", "normalized"}, default="balanced"
        See TypicalCondenser.
    min_per_class : int, default=1
        Rows that each class keeps, if it has them: those farthest from the plane.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks.

    Attributes
    ----------
    sample_indices_ : ndarray of shape (n_kept,)
        Rows kept, ascending.
    condensation_ : Condensation
        What left, by class and round, with the machines.
    sampling_strategy_ : dict
        Rows left of each class.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names for all its columns, and all are strings.

    See Also
    --------
    TypicalCondenser : Leaves out rows far from the boundary instead.

    Notes
    -----
    In our measurements this costs nearest neighbours more accuracy than a random subset of the
    same size: it is here to compare with, and to find outliers.

    As with :class:`TypicalCondenser`, columns far from the origin should be centred first.

    Time is that of :class:`TypicalCondenser`, plus n_features^2 for each candidate that leaves
    and n_features^3 / 3 for each round.

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
        random_state: Any = None,
    ) -> None:
        self.threshold = threshold
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.max_rounds = max_rounds
        self.form = form
        self.class_weight = class_weight
        self.min_per_class = min_per_class
        self.random_state = random_state

    def _condensation(self, X: Any, codes: Indices) -> Condensation:
        return eliminate_boundary(
            self._features(X),
            codes,
            self.classes_,
            threshold=self.threshold,
            max_rounds=self.max_rounds,
            C=self.C,
            form=self.form,
            balanced=self.class_weight == "balanced",
            min_per_class=self.min_per_class,
        )

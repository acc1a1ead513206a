"""EliminateBoundary: shrink to the rows between the planes until few are left, and delete these."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval

from kernlet._typing import Floats, Indices
from kernlet.condense.base import (
    Condensation,
    Elimination,
    EliminationCondenser,
    OneAgainstRest,
    RemainingRows,
    respect_class_minimum,
)
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import RowFeatures

#: A classifier, the rows between its planes, and their decision values.
Round = tuple[OneAgainstRest, Indices, Floats]


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
    report: Callable[[str], Any] = str,
) -> Condensation:
    """Delete, class by class, rows near the boundary to the rest (Algorithm 1 of the paper).

    The parameters are those of :class:`BoundaryCondenser`; ``report`` is called with the name of
    each class done.
    """
    remaining = RemainingRows.all(features, codes, len(classes))
    records: list[Elimination] = []
    for number, label in enumerate(classes.tolist()):
        rounds = _shrink(
            remaining.against_rest(number), threshold, max_rounds, C, form == "literal", balanced
        )
        _, inside, values = rounds[-1]
        is_deleted = np.zeros(len(inside), dtype=bool)
        if form == "literal" or len(inside) < threshold:
            nearness = -np.abs(values)
            is_deleted = respect_class_minimum(
                inside, nearness, remaining.rows, codes, min_per_class
            )
        for count, (machine, rows, row_values) in enumerate(rounds, start=1):
            mask = is_deleted if count == len(rounds) else np.zeros(len(rows), dtype=bool)
            records.append(machine.record(label, count, len(rows), rows[mask], row_values[mask]))
        remaining = remaining.without(inside[is_deleted])
        report(f"class {label}")
    return Condensation(classes, codes, remaining.rows, records)


def _shrink(
    everyone: RemainingRows,
    threshold: int,
    max_rounds: int,
    C: float,
    is_literal: bool,
    balanced: bool,
) -> list[Round]:
    """Train on the candidates, and make those with |w.x - gamma| < 1 the next candidates."""
    candidates, rounds = everyone, []
    for _ in range(max_rounds):
        machine = OneAgainstRest.train(candidates.moments, 1, C, balanced=balanced)
        # The paper takes the next candidates from all rows, and they may stall or grow; the
        # repaired form takes them from the candidates, which become fewer.
        pool = everyone if is_literal else candidates
        values = machine.values(everyone.features, pool.rows)
        is_inside = np.abs(values) < 1
        inside = pool.rows[is_inside]
        rounds.append((machine, inside, values[is_inside]))
        if len(inside) < max(threshold, 1) or np.array_equal(inside, candidates.rows):
            break  # few enough, or a fixed point
        candidates = _restricted(pool, candidates, inside)
    return rounds


def _restricted(pool: RemainingRows, before: RemainingRows, rows: Indices) -> RemainingRows:
    """The given rows with their moments, from whichever set differs in fewer rows."""
    if pool is before or len(np.setdiff1d(rows, before.rows, assume_unique=True)):
        return pool.without(np.setdiff1d(pool.rows, rows, assume_unique=True))
    return before.without(np.setdiff1d(before.rows, rows, assume_unique=True))


class BoundaryCondenser(EliminationCondenser):
    """Deletes rows near the boundary between a class and the rest (EliminateBoundary [1]_).

    For each class a proximal classifier is trained on the candidates, at first all rows; those
    with w.x - gamma in (-1, 1) are the next candidates. Once fewer than ``threshold`` are left,
    these are deleted.

    Parameters
    ----------
    threshold : int, default=50
        The paper's T: fewer candidates than this are deleted. 1 deletes nothing in the repaired
        form.
    C : float, default=1.0
        Weight of the errors of the classifiers; the paper's nu.
    kernel : {"linear", "rbf", "poly", "sigmoid"} or Kernel, default="linear"
        Kernels other than ``"linear"`` use kernel values with ``landmarks``.
    gamma, degree, coef0 : see ProximalClassifier
    landmarks : int, float, array-like or None, default=500
        See ProximalClassifier; not used by ``"linear"``.
    max_rounds : int, default=20
        The paper's M, which it does not state: at most this number of trainings per class.
    form : {"repaired", "literal"}, default="repaired"
        ``"literal"`` takes candidates from all rows, as Algorithm 1 of the paper is written, so
        that they may stall or grow, and deletes those of the last round however many they are.
        ``"repaired"`` takes them from the previous candidates, and deletes nothing if
        ``threshold`` is not reached.
    class_weight : {"balanced", "normalized"}, default="balanced"
        See TypicalCondenser.
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
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names for all its columns, and all are strings.

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
        self.verbose = verbose
        self.random_state = random_state

    def _condensation(self, X: Any, codes: Indices, report: Callable[[str], Any]) -> Condensation:
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
            report=report,
        )

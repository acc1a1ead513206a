"""Algorithm 1: rows between the planes, round after round, until few are left; these leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kernlet.condense.one_class import OneClass, Pool, spare, train_one_class
from kernlet.condense.record import Condensation, Elimination
from kernlet.kernels.columns import Indices
from kernlet.kernels.features import RowFeatures
from kernlet.kernels.kernel import Floats


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
    >>> from kernlet.condense import eliminate_boundary
    >>> from kernlet.kernels.features import RowFeatures
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

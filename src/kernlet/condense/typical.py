"""Algorithm 2: rows far on their own side of the plane are not needed."""

from __future__ import annotations

from typing import Any, Literal

from kernlet.condense.one_class import Pool, spare, train_one_class
from kernlet.condense.record import Condensation
from kernlet.kernels.columns import Indices
from kernlet.kernels.features import RowFeatures


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
    >>> from kernlet.condense import eliminate_typical
    >>> from kernlet.kernels.features import RowFeatures
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

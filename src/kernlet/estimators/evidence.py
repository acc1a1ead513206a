"""Rows by which a smaller machine is made, chosen and judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows by which a smaller machine is made and chosen.

    Parameters
    ----------
    X : {ndarray, sparse matrix}
        Rows as the expansion takes them, behind the preprocessing.
    original : ndarray of shape (n_rows,)
        Class numbers that the original predicts.
    codes : ndarray of shape (n_rows,) or None
        Class numbers of y.
    weights : ndarray of shape (n_rows,)
    validation : ndarray of bool of shape (n_rows,)
        The rows on which choices are made.
    may_refit : bool
        Whether coefficients may be fitted to y: not where the original weighs the rows in a way
        that is not known here.
    """

    X: Any
    original: Indices
    codes: Indices | None
    weights: Floats
    validation: Any
    may_refit: bool

    @property
    def target(self) -> Indices:
        """What a smaller machine should predict: y, or the original where there is none."""
        return self.original if self.codes is None else self.codes

    def score(self, codes: Indices, rows: Indices) -> float:
        """Weighted share of some rows that are predicted as wanted."""
        return float(np.average(codes == self.target[rows], weights=self.weights[rows]))


def halves(evidence: Evidence) -> tuple[Indices, Indices]:
    """The validation rows, one half to choose by and one to judge by."""
    check = np.flatnonzero(evidence.validation)
    return (check[::2], check[1::2]) if len(check) > 1 else (check, check)


def original_score(evidence: Evidence) -> tuple[float, float]:
    """The original's score on the rows to judge by, and its standard error."""
    _, to_judge = halves(evidence)
    score = evidence.score(evidence.original[to_judge], to_judge)
    n = len(to_judge)
    share = (n * score + 1) / (n + 2)  # a perfect score on few rows is not certain
    return score, float(np.sqrt(share * (1 - share) / n))


def weighs_classes(model: Any) -> bool:
    """Whether a class_weight, which is not known here row by row, shaped the model."""
    parameters = model.get_params() if hasattr(model, "get_params") else {}
    return any(
        name.endswith("class_weight") and value is not None for name, value in parameters.items()
    )


def label_codes(classes: Any, y: Any) -> Indices:
    """Class numbers of labels, all of which must be known."""
    labels = column_or_1d(y)
    strange = np.setdiff1d(labels, classes).tolist()
    if strange:
        raise ValueError(
            f"y holds the label {strange[0]!r}, which the model does not know; its classes are "
            f"{classes.tolist()}."
        )
    return np.searchsorted(classes, labels)

"""What condensing did, class by class and round by round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats


@dataclass(frozen=True, eq=False)
class Elimination:
    """One round for one class.

    Parameters
    ----------
    label : object
        The class that was set against the rest.
    round : int
        From 1.
    n_rows : int
        Rows that the machine was trained on.
    weights : ndarray of shape (n_features,)
        w of the machine: over the columns or, with a kernel, over the landmarks.
    gamma : float
        The machine says w.x - gamma.
    residual : float
        Of its normal equations: the certificate.
    inside : int
        Rows that the rule of the round named.
    deleted : ndarray of shape (n_deleted,)
        Rows that left in this round, ascending.
    values : ndarray of shape (n_deleted,)
        w.x - gamma of these.
    """

    label: Any
    round: int
    n_rows: int
    weights: Floats
    gamma: float
    residual: float
    inside: int
    deleted: Indices
    values: Floats

    def __repr__(self) -> str:
        return (
            f"Elimination({self.label!r} round {self.round}: trained on {self.n_rows:,}, "
            f"{self.inside:,} named, {len(self.deleted):,} deleted)"
        )


@dataclass(frozen=True, eq=False)
class Condensation:
    """Which rows were kept, and why the others were not.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
    codes : ndarray of shape (n_rows,)
        The class of each row before.
    kept : ndarray of shape (n_kept,)
        Rows kept, ascending.
    rounds : list of Elimination
        In the order in which they were done.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernlet import TypicalCondenser
    >>> condenser = TypicalCondenser()
    >>> rows, labels = condenser.fit_resample(*load_iris(return_X_y=True))
    >>> condenser.condensation_.kept_per_class
    {0: 34, 1: 50, 2: 44}
    """

    classes: Any
    codes: Indices
    kept: Indices
    rounds: list[Elimination]

    @property
    def deleted(self) -> Indices:
        """Rows that left, ascending."""
        return np.setdiff1d(np.arange(len(self.codes)), self.kept)

    @property
    def fraction_kept(self) -> float:
        """Share of the rows."""
        return len(self.kept) / len(self.codes)

    @property
    def kept_per_class(self) -> dict[Any, int]:
        """Rows left of each class."""
        return self._count(self.kept)

    @property
    def deleted_per_class(self) -> dict[Any, int]:
        """Rows that left of each class."""
        return self._count(self.deleted)

    def _count(self, rows: Indices) -> dict[Any, int]:
        counts = np.bincount(self.codes[rows], minlength=len(self.classes))
        return dict(zip(self.classes.tolist(), counts.tolist(), strict=True))

    def __repr__(self) -> str:
        return (
            f"Condensation({len(self.kept):,} of {len(self.codes):,} rows kept, "
            f"{len(self.rounds)} rounds)"
        )

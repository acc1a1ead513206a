"""A figure of a paper and ours beside it: difference in standard errors, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Kind = Literal["accuracy", "size", "time", "other"]
#: Kinds that a verdict is given on.
JUDGED = ("accuracy", "size")
NOT_PUBLIC = "data not public"
NOT_YET = "not measured yet"


@dataclass(frozen=True)
class Ours:
    """What we measured for a figure.

    Parameters
    ----------
    values : sequence of float
        One a fold or seed.
    n_test : int or None
        Test rows where all values are shares of the same official test part, in %.
    seconds : float or None
        CPU time of the whole measurement: choosing, training and testing.
    parameters : str
        All of them.
    chosen : str
        How they were chosen.
    beside : str
        Other ways to the same figure.
    why : str
        Why the paper's figure is not reached.
    """

    values: Sequence[float]
    n_test: int | None = None
    seconds: float | None = None
    parameters: str = ""
    chosen: str = ""
    beside: str = ""
    why: str = ""

    @property
    def mean(self) -> float:
        """Over folds or seeds."""
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float | None:
        """Between folds or seeds; None for a single value."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    @property
    def standard_error(self) -> float:
        """Of the mean: that of folds or seeds, and on one test part its binomial error too.

        Examples
        --------
        >>> from kernlet.reproduce.figures import Ours
        >>> round(Ours([90.0], n_test=900).standard_error, 6)
        1.0
        >>> round(Ours([8.0, 10.0]).standard_error, 6)
        1.0
        """
        error = 0.0 if self.deviation is None else self.deviation**2 / len(self.values)
        if self.n_test:
            share = min(max(self.mean / 100, 0.0), 1.0)
            error += 1e4 * share * (1 - share) / self.n_test
        return math.sqrt(error)


@dataclass(frozen=True)
class Figure:
    """One figure of a paper with ours.

    Parameters
    ----------
    row, what : str
        Where it stands in the paper, and what it counts.
    kind : {"accuracy", "size", "time", "other"}
        Verdicts are given on accuracies and sizes; times on machines of their day and other
        figures are shown.
    paper : float or None
        None where the paper has none.
    ours : Ours or str
        A sentence where there is nothing of ours, as for data that are not public.
    larger_is_better : bool, default=True
    """

    row: str
    what: str
    kind: Kind
    paper: float | None
    ours: Ours | str
    larger_is_better: bool = True

    @property
    def difference(self) -> float | None:
        """Ours less the paper's in standard errors, positive where ours is better."""
        if self.paper is None or isinstance(self.ours, str):
            return None
        ahead = self.ours.mean - self.paper
        ahead = ahead if self.larger_is_better else -ahead
        if abs(ahead) < 1e-9:
            return 0.0
        error = self.ours.standard_error
        return math.copysign(math.inf, ahead) if error == 0 else ahead / error

    @property
    def verdict(self) -> str:
        """Beaten, met (within one standard error), not met, or a dash where none is given.

        Examples
        --------
        >>> from kernlet.reproduce.figures import Figure, Ours
        >>> [
        ...     Figure("usps", "test, %", "accuracy", paper, Ours([90.0], n_test=900)).verdict
        ...     for paper in (88.0, 90.5, 92.0)
        ... ]
        ['beaten', 'met', 'not met']
        """
        difference = self.difference
        if self.kind not in JUDGED or difference is None:
            return "-"
        return "met" if abs(difference) <= 1 else "beaten" if difference > 0 else "not met"

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON holds it."""
        facts: dict[str, Any] = {
            "row": self.row,
            "what": self.what,
            "kind": self.kind,
            "paper": self.paper,
            "larger_is_better": self.larger_is_better,
            "verdict": self.verdict,
        }
        if isinstance(self.ours, str):
            return facts | {"missing": self.ours}
        difference = self.difference
        exact = difference is not None and math.isinf(difference)
        return facts | {
            "ours": round(self.ours.mean, 4),
            "deviation": _rounded(self.ours.deviation),
            "runs": len(self.ours.values),
            "test_rows": self.ours.n_test,
            "standard_error": _rounded(self.ours.standard_error),
            "difference": None if exact else _rounded(difference),
            "seconds": _rounded(self.ours.seconds),
            "parameters": self.ours.parameters,
            "chosen": self.ours.chosen,
            "beside": self.ours.beside,
            "why": self.ours.why if self.verdict == "not met" else "",
        }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


@dataclass(frozen=True)
class Table:
    """A table of a paper, measured.

    Parameters
    ----------
    paper, number : str
        As in the names of the files.
    title : str
    figures : list of Figure
    notes : list of str
        Sentences under the table.
    pictures : dict of name to matplotlib Figure
    """

    paper: str
    number: str
    title: str
    figures: list[Figure]
    notes: list[str] = field(default_factory=list)
    pictures: dict[str, Any] = field(default_factory=dict)

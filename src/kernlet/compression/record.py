"""The record of a compression, as numbers, as text and as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernlet.notebook import facts_table

Coefficients = Literal["projected", "matched", "refit"]

_ORIGINS = {
    "projected": "projected in feature space",
    "matched": "fitted to the values of the original",
    "refit": "fitted to y",
}


@dataclass(frozen=True)
class TriedSize:
    """A number of centers that ``n_centers="auto"`` tried, and its score on held-out rows.

    Parameters
    ----------
    n_centers : int
        Number of centers.
    score : float
        Score on held-out rows.
    loss : float
        What it lost against the original on the same rows.
    standard_error : float
        Standard error of the loss. A size is accepted if its loss is not larger or, where the
        original itself is what the rows are compared with, at most 0.01.
    """

    n_centers: int
    score: float
    loss: float = 0.0
    standard_error: float = 0.0


@dataclass(frozen=True, repr=False)
class Compression:
    """What a compression did, and what it cost.

    Parameters
    ----------
    centers_before, centers_after : int
        Number of centers.
    bytes_before, bytes_after : int
        Bytes of centers, coefficients and intercepts in the precision they are held in; before,
        with the coefficients as LIBSVM stores them.
    residual : float
        Relative distance of the projected machine in feature space, from 0 to 1. It need not be
        small: decisions survive much better than the function.
    n_steps : int
        Steps of the search for centers; 1 where no search is needed.
    converged : bool
        Whether the search ended by itself, and not at ``max_iter`` steps.
    coefficients : {"projected", "matched", "refit"}
        Origin of the coefficients: the projection in feature space, least squares onto the
        decision values of the original on X, or a fit to y: squared hinge, one class against
        the rest, or ridge regression.
    n_rows : int or None
        Rows that agreement, accuracies and scores were measured on.
    rows : str
        What these rows are. Accuracies are optimistic on rows that the original was trained on.
    agreement : float or None
        Share of these rows on which both predict the same; of regressors, R2 of the smaller one
        with the predictions of the original as targets.
    accuracy_before, accuracy_after : float or None
        Accuracy on these rows, where y was given.
    scoring : str or None
        Name of the scorer, where ``scoring`` was given; "r2" of regressors where y was, or "D2", of
        the pinball loss, where they predict quantiles.
    score_before, score_after : float or None
        Scores by this scorer.
    path : tuple of TriedSize
        The numbers of centers tried by ``n_centers="auto"``.
    kind : {"classifier", "regressor", "novelty"}
        What was compressed.
    """

    centers_before: int
    centers_after: int
    bytes_before: int
    bytes_after: int
    residual: float
    n_steps: int
    coefficients: Coefficients
    converged: bool = True
    n_rows: int | None = None
    rows: str = ""
    agreement: float | None = None
    accuracy_before: float | None = None
    accuracy_after: float | None = None
    scoring: str | None = None
    score_before: float | None = None
    score_after: float | None = None
    path: tuple[TriedSize, ...] = ()
    kind: str = "classifier"

    def __repr__(self) -> str:
        lines = [f"  {name:<12} {value}" for name, value in self._facts()]
        return "\n".join(["Compression", *lines])

    def _repr_html_(self) -> str:
        return facts_table(self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        """Names and values, rounded for reading."""
        lines = [
            ("centers", f"{self.centers_before:,} before, {self.centers_after:,} after"),
            ("bytes", f"{self.bytes_before:,} before, {self.bytes_after:,} after"),
        ]
        if self.accuracy_before is not None and self.accuracy_after is not None:
            after = f"{100 * self.accuracy_after:.2f} % after"
            lines.append(("accuracy", f"{100 * self.accuracy_before:.2f} % before, {after}"))
        if self.score_before is not None and self.score_after is not None:
            after = f"{self.score_after:.4f} after"
            lines.append((self.scoring or "score", f"{self.score_before:.4f} before, {after}"))
        if self.agreement is not None:
            same = f"same class for {100 * self.agreement:.2f} % of the rows"
            same = (
                f"R2 {self.agreement:.4f} with the original" if self.kind == "regressor" else same
            )
            lines.append(("agreement", same))
            lines.append(("measured on", f"{self.n_rows:,} rows: {self.rows}"))
        lines.append(("coefficients", _ORIGINS[self.coefficients]))
        ended = "converged" if self.converged else "stopped at max_iter"
        lines.append(("steps", f"{self.n_steps} ({ended})"))
        meaning = "relative distance in feature space; need not be small"
        lines.append(("residual", f"{self.residual:.3f} ({meaning})"))
        if self.path:
            tried = ", ".join(f"{size.n_centers}: {size.score:.3f}" for size in self.path)
            lines.append(("sizes tried", f"{tried} (score on held-out rows)"))
        return lines

"""The machine that kernlet fit trains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernlet.estimators import (
    CompactKernelClassifier,
    CompactKernelRegressor,
    L1KernelClassifier,
    MinimalKernelClassifier,
)

_CANDIDATES = 300
_ERRORS = 5000.0  # C times the number of rows
_EXACT = {"l1": L1KernelClassifier, "minimal": MinimalKernelClassifier}


@dataclass(frozen=True)
class MachineChoice:
    """What the options say of the machine.

    Parameters
    ----------
    kind : {"compact", "l1", "minimal"}
    size : int, "auto" or None
        Centers of a compact machine, candidates of the others.
    C : float or None
        Of the others; None for 5,000 over the number of rows, 3 at most.
    checkpoint : Path or None
        Of the others, the folder in which the machine of every pass is kept.
    jobs : int or None
    seed : int
    """

    kind: str
    size: Any
    C: float | None
    checkpoint: Path | None
    jobs: int | None
    seed: int

    def require(self, *, regression: bool, max_bytes: int | None) -> None:
        """Refuse options that do not go together."""
        if self.kind == "compact":
            if self.C is not None or self.checkpoint is not None:
                raise ValueError("--C and --checkpoint are for --machine l1 and minimal.")
        elif regression or max_bytes is not None or self.size == "auto":
            raise ValueError(
                f"--machine {self.kind} takes --centers, the points that it may choose from, and "
                "neither --regression, --bytes nor --auto."
            )

    def make(self, n_rows: int, *, regression: bool, max_bytes: int | None) -> Any:
        """The machine, not fitted yet."""
        if self.kind == "compact":
            make = CompactKernelRegressor if regression else CompactKernelClassifier
            return make(self.size, max_bytes=max_bytes, n_jobs=self.jobs, random_state=self.seed)
        return _EXACT[self.kind](
            min(3.0, _ERRORS / n_rows) if self.C is None else self.C,
            candidates=min(n_rows, self.size or _CANDIDATES),
            tol=1e-6,
            checkpoint=self.checkpoint,
            n_jobs=self.jobs,
            random_state=self.seed,
        )

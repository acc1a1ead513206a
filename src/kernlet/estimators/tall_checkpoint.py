"""The machine of the last pass, kept for a fit that is interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kernlet.estimators.checkpoint import DAMAGE, fingerprint
from kernlet.files import written_whole
from kernlet.kernels.kernel import Floats
from kernlet.problems.tall_margin import TallMargin

_SOME_ROWS = 1000


class TallCheckpoint:
    """Coefficients in a folder, for one fit: these parameters on these rows.

    Parameters
    ----------
    folder : str or Path
        Made where it does not exist.
    fingerprint : str
        Of parameters, labels and some of the rows; a checkpoint of another fit is refused.
    """

    def __init__(self, folder: str | Path, fingerprint: str) -> None:
        self.path = Path(folder) / "tall.npz"
        self.fingerprint = fingerprint
        self.path.parent.mkdir(parents=True, exist_ok=True)

    @classmethod
    def of(
        cls, folder: str | Path, parameters: dict[str, Any], problem: TallMargin
    ) -> TallCheckpoint:
        """The checkpoint of a fit."""
        settings = {
            name: value
            for name, value in parameters.items()
            if name not in ("checkpoint", "n_jobs", "cache_size", "tol", "max_iter", "candidates")
        }
        n_rows = len(problem.rows)
        some = np.unique(np.linspace(0, n_rows - 1, _SOME_ROWS).astype(np.intp))
        weights = problem.error_weights
        costs = np.concatenate([weights[some], weights.sum(axis=0, keepdims=True)])
        arrays = (problem.rows.take(some), problem.centers, problem.signs, costs)
        return cls(folder, fingerprint(settings, *arrays))

    def save(self, coef: Floats) -> None:
        """Write the machine; the file is there whole or not at all."""
        with written_whole(self.path) as temporary, open(temporary, "wb") as file:
            np.savez(file, coef=coef, fingerprint=np.array(self.fingerprint))

    def load(self) -> Floats | None:
        """The machine to go on from; None where there is no file."""
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                coef, found = stored["coef"], str(stored["fingerprint"])
        except DAMAGE as error:
            raise ValueError(
                f"The checkpoint {self.path} is damaged ({error}). Delete it to start anew."
            ) from error
        if found != self.fingerprint:
            raise ValueError(
                f"The checkpoint {self.path} belongs to another fit: parameters or data differ. "
                "Give another folder, or delete it to start anew."
            )
        return np.asarray(coef, dtype=np.float64)

"""Gradient boosting of numbers with as many rounds as fit, stored as in its classifier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.competitors.hist_gradient_boosting import Boosted, packed, settings
from kernlet.quantization import best_step

TITLE = "gradient boosting regressor"
TASK = "regression"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 1

__all__ = ["IS_KERNLET", "IS_RANDOM", "TASK", "TITLE", "VERSION", "build", "settings"]


@dataclass(frozen=True, eq=False)
class BoostedNumbers(Boosted):
    """Boosted trees whose sum is the prediction."""

    def predict(self, X: Any) -> Any:
        """Numbers for rows."""
        return self.outputs(X)[:, 0]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> BoostedNumbers:
    machine = HistGradientBoostingRegressor(
        **setting,
        min_samples_leaf=int(np.clip(len(X) // 40, 2, 20)),
        early_stopping=False,
        random_state=seed,
    ).fit(X, y)
    exact, baseline = packed(machine, X)
    step = np.float32(best_step(exact.leaves, 127))
    codes = np.clip(np.rint(exact.leaves / step), -127, 127).astype(np.int8)
    return BoostedNumbers(replace(exact, leaves=codes), baseline, step)

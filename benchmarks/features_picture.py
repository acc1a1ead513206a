"""Digits in two features: python -m benchmarks.features_picture draws docs/images/features.png.

The test digits 0, 6 and 9 of optdigits, trained on the training digits: the two kernel Fisher
directions, and the first margin features of 0 and of 6 against the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.feature_tasks import official
from kernlet import MMDA, KernelFisherDiscriminant

DIGITS = (0, 6, 9)
_COLOURS = {0: "#2b6cb0", 6: "#c05621", 9: "#2f855a"}


def main() -> None:
    task = official("optdigits")
    train, test = (np.isin(y, DIGITS) for y in (task.y, task.y_test))
    figure = Figure(figsize=(9, 4), layout="constrained")
    models: dict[str, Any] = {
        "kernel Fisher": KernelFisherDiscriminant(alpha=0.1, gamma="mean_distance"),
        "MMDA": MMDA(gamma="mean_distance", random_state=0),
    }
    for axes, (name, model) in zip(figure.subplots(1, 2), models.items(), strict=True):
        model.fit(task.X[train], task.y[train])
        features = model.transform(task.X_test[test])[:, :2]
        for digit in DIGITS:
            shown = features[task.y_test[test] == digit]
            axes.scatter(*shown.T, s=18, marker=f"${digit}$", color=_COLOURS[digit])
        axes.set(title=name, xlabel="feature 1", ylabel="feature 2")
    figure.savefig("docs/images/features.png", dpi=120)


if __name__ == "__main__":
    main()

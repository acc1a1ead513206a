"""Garcia, Gonzalez and Dorronsoro (Learning 2006): support vectors of kernel perceptrons."""

from __future__ import annotations

from kernlet.reproduce.cells import Cell
from kernlet.reproduce.removal_paths import follow_removal

#: Patterns, and support vectors at the start and at the end, by set.
REDUCTION = {
    "cleveland": (290, 164.9, 109.1),
    "breastw_699": (690, 117.1, 89.4),
    "ionosphere": (340, 134.8, 84.5),
    "sonar": (200, 136.1, 88.0),
    "pima": (760, 542.0, 416.0),
    "thyroid": (7190, 1121.5, 953.8),
}


def cells(quick: bool) -> dict[str, list[Cell]]:
    """The measurements: ten folds of each set."""
    names = ("cleveland",) if quick else tuple(REDUCTION)
    return {
        f"{name} {solver}": [
            Cell(
                follow_removal,
                {"name": name, "n_rows": REDUCTION[name][0], "fold": fold, "solver": solver},
            )
            for fold in range(3 if quick else 10)
        ]
        for name in names
        for solver in ("sk", "exact")
    }

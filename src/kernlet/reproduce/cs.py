"""Gonzalez-Castano and Meyer (2000): chunking-synthetic approaches."""

from __future__ import annotations

from kernlet.reproduce.cells import Cell
from kernlet.reproduce.stage_runs import N_RUNS, SIZES, fit_whole, run_stages

GRID = [0.5, 1.5, 5.0, 15.0]
#: The paper's nu, which it chose on its test rows.
PAPER_C = {"usps": [1.4, 1.6, 3.0, 6.0], "noisy": [10.0] * 4}


def cells(quick: bool) -> dict[str, list[Cell]]:
    """The measurements."""
    sizes = list(SIZES[: 2 if quick else 4])
    runs = 3 if quick else N_RUNS
    found = {}
    for data, Cs in PAPER_C.items():
        for way, values in (("validated", [GRID] * 4), ("paper's C", [[C] for C in Cs])):
            parameters = {
                "data": data,
                "Cs": values[: len(sizes)],
                "sizes": sizes,
                "n_runs": runs,
            }
            found[f"{data} {way}"] = [Cell(run_stages, parameters)]
    for way, C in (("validated", GRID), ("paper's C", 12.0)):
        parameters_of = [{"C": C, "final": "union", "seed": seed} for seed in range(3)]
        found[f"whole {way}"] = [Cell(fit_whole, p) for p in parameters_of[: 1 if quick else 3]]
    return found

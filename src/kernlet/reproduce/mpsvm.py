"""Vishwanathan and Murty (2002): proximal machines for data set reduction."""

from __future__ import annotations

from kernlet.reproduce.cells import Cell
from kernlet.reproduce.condensed_sets import N_SEEDS, score_all_rows, score_peers, score_rule

#: (T, nu) to rows eliminated, k and accuracy, from Table 3.
REDUCED = {
    (50, 1): (3103, 3, 94.120578),
    (100, 1): (3831, 1, 93.771799),
    (150, 1): (3980, 1, 93.423019),
    (200, 1): (4710, 1, 92.575984),
    (250, 1): (4886, 1, 92.426507),
    (300, 1): (5126, 1, 92.326856),
    (50, 5): (3083, 1, 94.020927),
    (100, 5): (3802, 5, 93.373194),
    (150, 5): (4112, 1, 93.124066),
    (200, 5): (4424, 1, 92.924763),
    (250, 5): (4851, 1, 92.526158),
    (300, 5): (5198, 1, 91.778774),
}


def cells(quick: bool) -> dict[str, list[Cell]]:
    """The measurements."""
    n_rows = 2000 if quick else None
    found = {"all rows": [Cell(score_all_rows, {"n_rows": n_rows})]}
    for (threshold, nu), (count, _, _) in list(REDUCED.items())[: 1 if quick else None]:
        given = {"threshold": threshold, "nu": float(nu), "n_rows": n_rows}
        count = round(count * (n_rows or 7291) / 7291)
        found |= {
            f"{threshold} {nu} matched": [
                Cell(score_rule, {**given, "form": "repaired", "count": count})
            ],
            f"{threshold} {nu} repaired": [
                Cell(score_rule, {**given, "form": "repaired", "count": None})
            ],
            f"{threshold} {nu} literal": [
                Cell(score_rule, {**given, "form": "literal", "count": None})
            ],
            f"{threshold} {nu} peers": [
                Cell(score_peers, {"count": count, "n_rows": n_rows, "n_seeds": N_SEEDS})
            ],
        }
    return found

"""The relevance vector machine; its size is not a parameter.

No maintained package has an RVM classifier, so this is ``papers.rvm``, our implementation of the
published algorithm. It is trained on a sample of the rows, rounded as its relevance vectors will
be, and with more than two classes stops after ``MOST_CHANGES`` additions per output.
"""

from __future__ import annotations

from typing import Any

from benchmarks.competitors.contract import Shape, grid, subsample
from benchmarks.competitors.expansions import ExpansionMachine, pack, rounded_rows, widths
from papers.rvm import RelevanceVectorClassifier

TITLE = "RVM"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 2
MOST_ROWS = 2000
CANDIDATES = 500
MOST_CHANGES = 100
_FACTORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    # With several outputs most bytes are coefficients; with one, int8 is too coarse for them.
    small = ("int4", "float16" if shape.n_outputs == 1 else "int8")
    return grid(storage=[("int8", "float16"), small], gamma=widths(shape, _FACTORS))


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> ExpansionMachine:
    many = int(y.max()) > 1
    rows = subsample(y, MOST_ROWS, seed)
    points, coef = setting["storage"]
    rounded, step = rounded_rows(X[rows], points)
    machine = RelevanceVectorClassifier(
        gamma=setting["gamma"],
        n_candidates=CANDIDATES,
        tol=0.1,
        max_iter=MOST_CHANGES if many else 1000,
        random_state=seed,
    )
    return pack(machine.fit(rounded, y[rows]).expansion_, points, coef, step)

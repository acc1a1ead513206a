"""Missing values: medians, distances over present features, and the choice between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.tables import Table
from kernlet import CompactKernelClassifier
from kernlet.datasets import load

SETS = ("satimage", "letter", "thyroid", "pendigits")
SHARES = (0.1, 0.3)
MAX_ROWS = 4000
MAX_BYTES = "2k"
TREATMENTS = ("median", "distance", "auto")


def missing(quick: bool) -> Iterator[Table]:
    """Test accuracy with cells deleted at random, from training and test rows alike."""
    table = Table(
        f"Cells deleted at random from at most {MAX_ROWS:,} training and {MAX_ROWS:,} test rows; "
        f"test accuracy in %, its standard error, of machines of {MAX_BYTES}B "
        '(effort="quick") and of HistGradientBoostingClassifier, which takes NaN and has any size',
        ["set", "deleted", *TREATMENTS, "auto takes", "boosting"],
    )
    for name in SETS[:1] if quick else SETS:
        for share in SHARES[:1] if quick else SHARES:
            click.echo(f"{name}: {share:.0%}", err=True)
            table.add(name, f"{share:.0%}", *_cells(name, share))
    yield table


def _cells(name: str, share: float) -> list[str]:
    data, random = load(name), np.random.RandomState(0)
    X, y = _some(data.X, data.y, random)
    X_test, y_test = _some(data.X_test, data.y_test, random)
    for rows in (X, X_test):
        rows[random.uniform(size=rows.shape) < share] = np.nan
    accuracies, taken = [], ""
    for treatment in TREATMENTS:
        machine = CompactKernelClassifier(
            max_bytes=MAX_BYTES, missing=treatment, effort="quick", random_state=0
        ).fit(X, y)
        accuracies.append(machine.score(X_test, y_test))
        taken = machine.expansion_.missing
    boosting = HistGradientBoostingClassifier(random_state=0).fit(X, y)
    accuracies.append(boosting.score(X_test, y_test))
    errors = [np.sqrt(a * (1 - a) / len(y_test)) for a in accuracies]
    pairs = zip(accuracies, errors, strict=True)
    cells = [f"{100 * accuracy:.1f} ± {100 * error:.1f}" for accuracy, error in pairs]
    return [*cells[:3], taken, cells[3]]


def _some(X: Any, y: Any, random: np.random.RandomState) -> tuple[Any, Any]:
    """A copy of at most 4,000 random rows."""
    rows = random.permutation(len(y))[:MAX_ROWS]
    return np.array(X[rows], dtype=np.float64), y[rows]


BENCHMARKS = {"missing": missing}

"""Blocks of rows one after the other: what a machine loses that keeps few of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.tables import Table, spread
from kernlet import MinimalKernelClassifier

_RULES = ("last", "both")


def board(seed: int) -> tuple[Any, Any, Any, Any]:
    """Four by four fields: 1,600 rows to train on, 4,000 to test with."""
    random = np.random.RandomState(seed)
    X = 4 * random.rand(5600, 2)
    y = np.floor(X).sum(axis=1) % 2
    return X[:1600], y[:1600], X[1600:], y[1600:]


def digits(seed: int) -> tuple[Any, Any, Any, Any]:
    """Digits up to 4 against the others: 1,200 rows to train on, 597 to test with."""
    X, y = load_digits(return_X_y=True)
    order = np.random.RandomState(seed).permutation(len(y))
    X, y = X[order] / 16, y[order] > 4
    return X[:1200], y[:1200], X[1200:], y[1200:]


_TASKS = {"checkerboard": (board, 100.0, 4.0), "digits": (digits, 30.0, 0.05)}


def after_blocks(data: Any, machine: MinimalKernelClassifier, n_blocks: int) -> tuple[float, int]:
    """Test accuracy in percent after all blocks, and the rows kept then."""
    X, y, X_test, y_test = data
    for rows in np.array_split(np.arange(len(y)), n_blocks):
        machine.partial_fit(X[rows], y[rows], classes=np.unique(y))
    return 100 * machine.score(X_test, y_test), len(machine.retained_.y)


def blocks(quick: bool) -> Iterator[Table]:
    """partial_fit by either rule of what to keep, beside one fit to all rows."""
    n_seeds, counts = (2, (4,)) if quick else (5, (2, 4, 8, 16))
    for name, (make, C, gamma) in _TASKS.items():
        table = Table(
            f"partial_fit on {name}, {n_seeds} seeds: test accuracy in %, mean ± deviation",
            ["blocks", 'retain="last"', "rows kept", 'retain="both"', "rows kept"],
        )
        data = [make(seed) for seed in range(n_seeds)]
        whole = [
            100 * MinimalKernelClassifier(C, gamma=gamma, random_state=0).fit(X, y).score(Z, z)
            for X, y, Z, z in data
        ]
        table.add("one fit to all rows", spread(whole), "", "", "")
        for n_blocks in counts:
            cells: list[str] = []
            for rule in _RULES:
                runs = [
                    after_blocks(
                        part,
                        MinimalKernelClassifier(C, gamma=gamma, retain=rule, random_state=0),
                        n_blocks,
                    )
                    for part in data
                ]
                kept = np.mean([rows for _, rows in runs])
                cells += [spread([score for score, _ in runs]), f"{kept:.0f}"]
            table.add(n_blocks, *cells)
        yield table


BENCHMARKS = {"tall-blocks": blocks}

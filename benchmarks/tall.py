"""Many rows, few candidates: time, passes and memory of the tall method, and growth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.isolated import measure
from benchmarks.tables import Table
from kernlet import L1KernelClassifier
from kernlet.datasets import load

_TOL = 1e-6
_BYTES_A_PASS = 8 + 1 + 8 + 1 + 8  # value, side, dual and sign of a row go out, a value comes back


def covertype(n_rows: int = 561_012) -> tuple[Any, Any]:
    """Class 2 against the rest, standardised, the rows in a random order; 20,000 are left out."""
    data = load("covertype")
    order = np.random.RandomState(0).permutation(len(data.y))[:n_rows]
    X = data.X[order].astype(np.float32)
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return X.astype(np.float32), data.y[order] == 2


def synthetic(n_rows: int, n_features: int = 20) -> tuple[Any, Any]:
    """Two classes that differ by the sign of a noisy product of sums."""
    random = np.random.default_rng(0)
    X = random.standard_normal((n_rows, n_features), dtype=np.float32)
    half = n_features // 2
    score = X[:, :half].sum(axis=1) * X[:, half:].sum(axis=1)
    return X, score + 3.0 * random.standard_normal(n_rows, dtype=np.float32) > 0


def digits(n_rows: int = 60_000) -> tuple[Any, Any]:
    """MNIST, ten classes, pixels in [0, 1]."""
    data = load("mnist")
    return data.X[:n_rows].astype(np.float32) / 255, data.y[:n_rows]


_TASKS = {
    "covertype": (covertype, 1 / 54),
    "synthetic": (synthetic, 1 / 20),
    "digits": (digits, 0.02),
}


def make_machine(s: int, C: float, gamma: float, **parameters: Any) -> L1KernelClassifier:
    """The machine that is measured."""
    return L1KernelClassifier(
        C, gamma=gamma, candidates=s, tol=_TOL, random_state=0, **({"solver": "tall"} | parameters)
    )


def prepare(name: str, n_rows: int, s: int, C: float) -> tuple[Any, Any, L1KernelClassifier]:
    """Rows, labels and the machine, by name."""
    make, gamma = _TASKS[name]
    X, y = make(n_rows)
    return X, y, make_machine(s, C, gamma)


def fit(prepared: Any) -> dict[str, Any]:
    """A fit, and what it says of itself."""
    X, y, machine = prepared
    machine.fit(X, y)
    return {
        "gap": machine.duality_gap_.max(),
        "passes": machine.n_passes_,
        "objective": machine.objective_.sum(),
        "centers": machine.n_centers_,
    }


def speed(quick: bool) -> Iterator[Table]:
    """Seconds, passes and memory of the fits that the method is for."""
    table = Table(
        "The 1-norm machine on many rows, to a gap of 1e-6",
        [
            "rows",
            "features",
            "candidates",
            "C",
            "CPU seconds",
            "passes",
            "peak MB",
            "gap",
            "centers",
        ],
    )
    cases = [
        ("covertype", 561_012, 54, 100, 0.01),
        ("covertype", 561_012, 54, 300, 0.01),
        ("covertype", 561_012, 54, 500, 0.01),
        ("covertype", 561_012, 54, 300, 0.1),
        ("synthetic", 1_000_000, 20, 100, 0.01),
        ("synthetic", 1_000_000, 20, 500, 0.01),
        ("synthetic", 5_000_000, 20, 100, 0.01),
    ]
    for name, n_rows, n_features, s, C in cases[:1] if quick else cases:
        run = measure(prepare, fit, name, n_rows, s, C)
        answer = run.answer
        table.add(
            f"{name} {n_rows:,}",
            n_features,
            s,
            C,
            f"{run.seconds:.1f}",
            f"{answer['passes']:.1f}",
            f"{run.peak:.0f}",
            f"{answer['gap']:.0e}",
            answer["centers"],
        )
    yield table


def growth(quick: bool) -> Iterator[Table]:
    """Time, passes and memory as the rows grow."""
    table = Table(
        "Growth with the rows: synthetic, 20 features, 100 candidates, C = 1000 / rows",
        ["rows", "CPU seconds", "passes", "µs a row", "peak MB", "gap"],
    )
    sizes = [10_000, 100_000, 1_000_000, 10_000_000]
    per_row = passes = 0.0
    for n_rows in sizes[:2] if quick else sizes:
        run = measure(prepare, fit, "synthetic", n_rows, 100, 1000 / n_rows)
        per_row = 1e6 * run.seconds / n_rows
        table.add(
            f"{n_rows:,}",
            f"{run.seconds:.2f}",
            f"{run.answer['passes']:.1f}",
            f"{per_row:.1f}",
            f"{run.peak:.0f}",
            f"{run.answer['gap']:.0e}",
        )
        passes = run.answer["passes"]
    yield table
    yield on_paper(per_row, passes)


def on_paper(per_row: float, passes: float) -> Table:
    """What 10^9 rows would cost, from the cost of a row and what a row sends to the client."""
    rows, workers = 1e9, 100
    working = per_row * 1e-6 * rows / workers
    traffic = _BYTES_A_PASS * passes * rows
    table = Table("10^9 rows on 100 workers with Dask, on paper", ["what", "cost"])
    table.add(f"work: {per_row:.1f} µs a row, shared by {workers} workers", f"{working:.0f} s")
    table.add(
        f"numbers of rows through the client: {_BYTES_A_PASS} bytes a row at most in each of "
        f"{passes:.0f} passes, {traffic / 1e9:.0f} GB at 1.25 GB/s",
        f"{traffic / 1.25e9:.0f} s",
    )
    table.add("memory of the client: 60 bytes a row", f"{60 * rows / 1e9:.0f} GB")
    table.add("not in these figures", "Dask's own work, and reading the rows at every pass")
    return table


def lock_step(quick: bool) -> Iterator[Table]:
    """Ten classes over shared passes, and one by one."""
    n_rows, s = (10_000, 100) if quick else (60_000, 500)
    together = measure(prepare, fit, "digits", n_rows, s, 0.1)
    alone = measure(prepare, one_by_one, "digits", n_rows, s, 0.1)
    table = Table(
        f"MNIST, {n_rows:,} rows, ten classes, {s} candidates, C = 0.1",
        ["", "CPU seconds", "passes", "objective"],
    )
    for name, run in (("in lock-step", together), ("one by one", alone)):
        answer = run.answer
        table.add(
            name, f"{run.seconds:.1f}", f"{answer['passes']:.1f}", f"{answer['objective']:.6f}"
        )
    table.add("ratio", f"{alone.seconds / together.seconds:.2f}", "", "")
    yield table


def one_by_one(prepared: Any) -> dict[str, Any]:
    """Ten fits, one against the rest each."""
    X, y, machine = prepared
    answers = [fit((X, y == label, machine)) for label in np.unique(y)]
    return {
        "passes": sum(answer["passes"] for answer in answers),
        "objective": sum(answer["objective"] for answer in answers),
    }


BENCHMARKS = {
    "tall-speed": speed,
    "tall-growth": growth,
    "tall-lock-step": lock_step,
}

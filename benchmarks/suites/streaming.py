"""Many rows, few candidates: time, passes, memory and growth of the streaming solver."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.svm import LinearSVC

from benchmarks.tables import Table
from benchmarks.timing import measure
from kernlet import L1KernelClassifier, MinimalKernelClassifier
from kernlet.datasets import load
from kernlet.kernels.gram import kernel_matrix
from kernlet.kernels.rbf import RBF
from kernlet.rows import FileRows, RowSource
from papers.cache import timed
from papers.tables import mean_and_deviation

_TOL = 1e-6
# Sent per row and pass: value, side, dual and sign to the client, a value back.
_BYTES_PER_PASS = 8 + 1 + 8 + 1 + 8


def covertype(n_rows: int = 561_012) -> tuple[Any, Any]:
    """Class 2 against the rest, standardised, in random order; 20,000 rows are left out."""
    data = load("covertype")
    order = np.random.RandomState(0).permutation(len(data.y))[:n_rows]
    X = data.X[order].astype(np.float32)
    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    return X.astype(np.float32), data.y[order] == 2


def synthetic(n_rows: int, n_features: int = 20) -> tuple[Any, Any]:
    """Two classes by the sign of a noisy product of sums."""
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
    """A fit, with its gap, passes, objective and centers."""
    X, y, machine = prepared
    machine.fit(X, y)
    return {
        "gap": machine.duality_gap_.max(),
        "passes": machine.n_passes_,
        "objective": machine.objective_.sum(),
        "centers": machine.n_centers_,
    }


def speed(quick: bool) -> Iterator[Table]:
    """Seconds, passes and memory of typical fits."""
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
    """Time, passes and memory by number of rows."""
    table = Table(
        "Growth with the rows: synthetic, 20 features, 100 candidates, C = 1000 / rows",
        ["rows", "CPU seconds", "passes", "µs per row", "peak MB", "gap"],
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
    yield extrapolated(per_row, passes)


def extrapolated(per_row: float, passes: float) -> Table:
    """Extrapolation to 10^9 rows, from the CPU time and the bytes sent per row."""
    rows, workers = 1e9, 100
    working = per_row * 1e-6 * rows / workers
    traffic = _BYTES_PER_PASS * passes * rows
    table = Table("10^9 rows on 100 workers with Dask, on paper", ["what", "cost"])
    table.add(f"work: {per_row:.1f} µs per row, shared by {workers} workers", f"{working:.0f} s")
    table.add(
        f"numbers of rows through the client: {_BYTES_PER_PASS} bytes per row at most in each of "
        f"{passes:.0f} passes, {traffic / 1e9:.0f} GB at 1.25 GB/s",
        f"{traffic / 1.25e9:.0f} s",
    )
    table.add("memory of the client: 60 bytes per row", f"{60 * rows / 1e9:.0f} GB")
    table.add("not in these figures", "Dask's own work, and reading the rows at every pass")
    return table


def lock_step(quick: bool) -> Iterator[Table]:
    """Ten classes with shared passes, and one after the other."""
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
    """Ten fits, each of one class against the rest."""
    X, y, machine = prepared
    answers = [fit((X, y == label, machine)) for label in np.unique(y)]
    return {
        "passes": sum(answer["passes"] for answer in answers),
        "objective": sum(answer["objective"] for answer in answers),
    }


_SWEEPS = (10, 100, 1000)


def nystroem(n_rows: int, s: int, C: float) -> tuple[Any, Any, float]:
    """The features of the peers, on the same rows."""
    X, y = covertype(n_rows)
    features = Nystroem(gamma=1 / 54, n_components=s, random_state=0).fit_transform(X)
    return features.astype(np.float64), np.where(y, 1.0, -1.0), C


def linear_svc(prepared: Any) -> dict[str, Any]:
    """LinearSVC(loss="hinge") with increasing max_iter: seconds and objectives."""
    features, signs, C = prepared
    runs = []
    for sweeps in _SWEEPS:
        machine = LinearSVC(loss="hinge", C=C, tol=1e-12, max_iter=sweeps, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            _, seconds = timed(machine.fit, features, signs)
        w, b = machine.coef_[0], machine.intercept_[0]
        errors = np.maximum(0, 1 - signs * (features @ w + b))
        runs.append((sweeps, seconds, 0.5 * (w @ w + b * b) + C * errors.sum()))
    return {"runs": runs}


def one_call(prepared: Any) -> dict[str, Any]:
    """The linear program of our machine in one HiGHS call, by its dual simplex method."""
    X, y, machine = prepared
    n_rows, s = len(X), machine.candidates
    random = np.random.RandomState(0)
    points = X[np.sort(random.permutation(n_rows)[:s])].astype(np.float64)
    K = machine_kernel(X, points, machine.gamma)
    d = np.where(y, 1.0, -1.0)[:, None]
    signed = d * np.hstack([K, -K, np.ones((n_rows, 1))])
    lines = sparse.hstack([sparse.csr_array(signed), sparse.eye_array(n_rows)], format="csr")
    costs = np.concatenate([np.ones(2 * s), [0.0], np.full(n_rows, machine.C)])
    bounds = [(0, None)] * (2 * s) + [(None, None)] + [(0, None)] * n_rows
    answer = linprog(costs, -lines, -np.ones(n_rows), bounds=bounds, method="highs")
    return {"objective": answer.fun}


def machine_kernel(X: Any, points: Any, gamma: float) -> Any:
    """Kernel values of all rows."""
    return kernel_matrix(RBF(gamma), X.astype(np.float64), points)


def peers(quick: bool) -> Iterator[Table]:
    """Against LinearSVC on Nystroem features, and against one HiGHS call."""
    n_rows = 20_000 if quick else 561_012
    table = Table(
        f"covertype, {n_rows:,} rows, 100 centers",
        ["method", "C", "CPU seconds", "times ours", "relative accuracy of its objective"],
    )
    for C in (0.01, 1.0, 10.0):
        ours = measure(prepare, fit, "covertype", n_rows, 100, C)
        gap = f"gap {ours.answer['gap']:.0e}"
        table.add("kernlet, streaming", C, f"{ours.seconds:.1f}", "1", gap)
        runs = measure(nystroem, linear_svc, n_rows, 100, C).answer["runs"]
        best = min(objective for _, _, objective in runs)
        for sweeps, seconds, objective in runs:
            away = (objective - best) / best
            table.add(
                f'LinearSVC(loss="hinge") on Nystroem features, at most {sweeps:,} sweeps',
                C,
                f"{seconds:.1f}",
                f"{seconds / ours.seconds:.1f}",
                f"{away:.0e} above its best" if away else "its best; unknown",
            )
    yield table
    n_rows = 5_000 if quick else 50_000
    table = Table(
        f"covertype, {n_rows:,} rows, 100 candidates, C = 0.01",
        ["method", "CPU seconds", "times ours", "peak MB", "objective"],
    )
    one = measure(prepare, fit, "covertype", n_rows, 100, 0.01)
    two = measure(prepare, one_call, "covertype", n_rows, 100, 0.01)
    for name, run in (("kernlet, streaming", one), ("one call of HiGHS", two)):
        table.add(
            name,
            f"{run.seconds:.1f}",
            f"{run.seconds / one.seconds:.1f}",
            f"{run.peak:.0f}",
            f"{run.answer['objective']:.6f}",
        )
    yield table


def write_rows(folder: str, n_rows: int, n_features: int) -> tuple[RowSource, Any]:
    """A file of synthetic rows, written block by block, and their labels."""
    path, labels = Path(folder) / "rows.bin", []
    with open(path, "wb") as file:
        for block in range(0, n_rows, 500_000):
            random = np.random.default_rng(block)
            count = min(500_000, n_rows - block)
            X = random.standard_normal((count, n_features), dtype=np.float32)
            noise = random.standard_normal(count, dtype=np.float32)
            score = X[:, : n_features // 2].sum(axis=1) / np.sqrt(n_features / 2)
            labels.append(score + 0.5 * noise > 0)
            file.write(X.tobytes())
    return FileRows(path, (n_rows, n_features), np.float32), np.concatenate(labels)


def prepare_file(folder: str, n_rows: int, n_features: int) -> tuple[Any, Any, L1KernelClassifier]:
    """Rows on disk, and a machine that caches no kernel blocks."""
    rows, y = write_rows(folder, n_rows, n_features)
    return rows, y, make_machine(100, 0.01, 1 / n_features, cache_size=1)


def prepare_both(folder: str, n_rows: int, n_features: int) -> Any:
    """The first rows of the file, on disk and in memory."""
    rows, y = write_rows(folder, n_rows, n_features)
    return rows, rows.read(slice(0, n_rows)), y, make_machine(100, 0.01, 1 / n_features)


def both(prepared: Any) -> dict[str, Any]:
    """Relative difference of the objectives with rows on disk and in memory."""
    rows, X, y, machine = prepared
    one, two = (machine.fit(given, y).objective_[0] for given in (rows, X))
    return {"difference": abs(one - two) / two}


def disk(quick: bool) -> Iterator[Table]:
    """More rows on disk than fit into memory."""
    n_rows, n_features = (400_000, 128) if quick else (20_000_000, 128)
    table = Table(
        f"Rows on disk: {n_rows * n_features * 4 / 1e9:.1f} GB, {n_features} features, "
        "100 candidates, C = 0.01",
        ["rows", "CPU seconds", "passes", "peak MB", "gap", "disk and memory apart (200,000 rows)"],
    )
    with tempfile.TemporaryDirectory() as folder:
        part = measure(prepare_both, both, folder, 200_000, n_features)
        run = measure(prepare_file, fit, folder, n_rows, n_features)
    table.add(
        f"{n_rows:,}",
        f"{run.seconds:.1f}",
        f"{run.answer['passes']:.1f}",
        f"{run.peak:.0f}",
        f"{run.answer['gap']:.0e}",
        f"{part.answer['difference']:.0e}",
    )
    yield table


def on_dask(quick: bool) -> Iterator[Table]:
    """A cluster of two workers against one process."""
    import dask.array as da
    from distributed import Client, LocalCluster

    n_rows = 100_000 if quick else 561_012
    X, y = covertype(n_rows)
    machine = make_machine(100, 0.01, 1 / 54)
    alone = median(_seconds(machine, X, y) for _ in range(3))
    serial = machine.decision_function(X[:1000])
    trim = {"MALLOC_TRIM_THRESHOLD_": 2**30, "MALLOC_MMAP_THRESHOLD_": 2**30}
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    import dask

    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": trim}),
        LocalCluster(**options) as cluster,
        Client(cluster) as client,
    ):
        rows = da.from_array(X, chunks=(262_144, 54)).persist()
        client.run(_nothing)
        runs = []
        for _ in range(3):
            before = sum(client.run(time.process_time).values())
            here = _seconds(machine, rows, y)
            runs.append((here, sum(client.run(time.process_time).values()) - before))
        values = machine.decision_function(X[:1000])
    here, there = sorted(runs, key=sum)[1]
    table = Table(
        f"covertype, {n_rows:,} rows, 100 candidates, C = 0.01: medians of three fits",
        ["", "CPU seconds", "same bits"],
    )
    table.add("one process", f"{alone:.1f}", "")
    table.add(
        "two workers and the client",
        f"{there:.1f} + {here:.1f}",
        "yes" if np.array_equal(values, serial) else "no",
    )
    table.add("ratio", f"{(here + there) / alone:.2f}", "")
    yield table


def _seconds(machine: L1KernelClassifier, X: Any, y: Any) -> float:
    return timed(machine.fit, X, y)[1]


def _nothing() -> None:
    import kernlet.lp.streaming  # noqa: F401


_RULES = ("last", "both")


def board(seed: int) -> tuple[Any, Any, Any, Any]:
    """A 4 x 4 checkerboard: 1,600 training rows, 4,000 test rows."""
    random = np.random.RandomState(seed)
    X = 4 * random.rand(5600, 2)
    y = np.floor(X).sum(axis=1) % 2
    return X[:1600], y[:1600], X[1600:], y[1600:]


def digits_up_to_four(seed: int) -> tuple[Any, Any, Any, Any]:
    """Digits up to 4 against the others: 1,200 training rows, 597 test rows."""
    X, y = load_digits(return_X_y=True)
    order = np.random.RandomState(seed).permutation(len(y))
    X, y = X[order] / 16, y[order] > 4
    return X[:1200], y[:1200], X[1200:], y[1200:]


_BLOCK_TASKS = {"checkerboard": (board, 100.0, 4.0), "digits": (digits_up_to_four, 30.0, 0.05)}


def after_blocks(data: Any, machine: MinimalKernelClassifier, n_blocks: int) -> tuple[float, int]:
    """Test accuracy in percent after all blocks, and the number of retained rows."""
    X, y, X_test, y_test = data
    for rows in np.array_split(np.arange(len(y)), n_blocks):
        machine.partial_fit(X[rows], y[rows], classes=np.unique(y))
    return 100 * machine.score(X_test, y_test), len(machine.retained_.y)


def blocks(quick: bool) -> Iterator[Table]:
    """partial_fit with either retention rule, against one fit to all rows."""
    n_seeds, counts = (2, (4,)) if quick else (5, (2, 4, 8, 16))
    for name, (make, C, gamma) in _BLOCK_TASKS.items():
        table = Table(
            f"partial_fit on {name}, {n_seeds} seeds: test accuracy in %, mean ± deviation",
            ["blocks", 'retain="last"', "rows kept", 'retain="both"', "rows kept"],
        )
        data = [make(seed) for seed in range(n_seeds)]
        whole = [
            100
            * MinimalKernelClassifier(C, gamma=gamma, candidates=None, random_state=0)
            .fit(X, y)
            .score(Z, z)
            for X, y, Z, z in data
        ]
        table.add("one fit to all rows", mean_and_deviation(whole), "", "", "")
        for n_blocks in counts:
            cells: list[str] = []
            for rule in _RULES:
                runs = [
                    after_blocks(
                        part,
                        MinimalKernelClassifier(
                            C, gamma=gamma, candidates=None, retain=rule, random_state=0
                        ),
                        n_blocks,
                    )
                    for part in data
                ]
                kept = np.mean([rows for _, rows in runs])
                cells += [mean_and_deviation([score for score, _ in runs]), f"{kept:.0f}"]
            table.add(n_blocks, *cells)
        yield table


BENCHMARKS = {
    "tall-speed": speed,
    "tall-growth": growth,
    "tall-lock-step": lock_step,
    "tall-peers": peers,
    "tall-disk": disk,
    "tall-dask": on_dask,
    "tall-blocks": blocks,
}

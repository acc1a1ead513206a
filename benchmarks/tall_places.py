"""The tall method on rows that are elsewhere: in a file, and on a Dask cluster."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.isolated import measure
from benchmarks.tables import Table
from benchmarks.tall import covertype, fit, make_machine
from kernlet import L1KernelClassifier
from kernlet.rows import FileRows, Rows


def write_rows(folder: str, n_rows: int, n_features: int) -> tuple[Rows, Any]:
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
    """Rows on disk, and a machine that keeps no kernel blocks."""
    rows, y = write_rows(folder, n_rows, n_features)
    return rows, y, make_machine(100, 0.01, 1 / n_features, cache_size=1)


def prepare_part(folder: str, n_rows: int, n_features: int) -> Any:
    """The first rows of the file, on disk and in memory."""
    rows, y = write_rows(folder, n_rows, n_features)
    return rows, rows.read(slice(0, n_rows)), y, make_machine(100, 0.01, 1 / n_features)


def both(prepared: Any) -> dict[str, Any]:
    """How far the objectives of rows on disk and in memory are apart."""
    rows, X, y, machine = prepared
    one, two = (machine.fit(given, y).objective_[0] for given in (rows, X))
    return {"difference": abs(one - two) / two}


def disk(quick: bool) -> Iterator[Table]:
    """Rows on disk that would not fit into memory."""
    n_rows, n_features = (400_000, 128) if quick else (20_000_000, 128)
    table = Table(
        f"Rows on disk: {n_rows * n_features * 4 / 1e9:.1f} GB, {n_features} features, "
        "100 candidates, C = 0.01",
        ["rows", "CPU seconds", "passes", "peak MB", "gap", "disk and memory apart (200,000 rows)"],
    )
    with tempfile.TemporaryDirectory() as folder:
        part = measure(prepare_part, both, folder, 200_000, n_features)
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
    """A cluster of two workers beside one process."""
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
    start = time.process_time()
    machine.fit(X, y)
    return time.process_time() - start


def _nothing() -> None:
    import kernlet.solvers  # noqa: F401


BENCHMARKS = {"tall-disk": disk, "tall-dask": on_dask}

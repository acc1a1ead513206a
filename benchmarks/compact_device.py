"""Compact kernel machines on the device that ``KERNLET_BENCH_DEVICE`` names (cpu unless given)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.tables import Table
from kernlet import CompactKernelClassifier
from kernlet.datasets import Dataset, load
from kernlet.devices import find_device

DEVICE = os.environ.get("KERNLET_BENCH_DEVICE", "cpu")


def device(quick: bool) -> Iterator[Table]:
    """Training and predicting on the device that KERNLET_BENCH_DEVICE names."""
    data = load("mnist")
    _fit_on_device(data, 200, n_epochs=1)  # start-up
    table = Table(
        f"mnist, 200 centers, on {device_name()}; start-up excluded, wall-clock seconds",
        ["epochs", "fit s", "test %", "rows a second in training"],
    )
    for n_epochs in (12, 24, 36):
        start = time.perf_counter()
        machine = _fit_on_device(data, 200, n_epochs=n_epochs)
        seconds = time.perf_counter() - start
        score = 100 * machine.score(data.X_test, data.y_test)
        table.add(
            n_epochs, f"{seconds:.2f}", f"{score:.2f}", f"{n_epochs * len(data.X) / seconds:,.0f}"
        )
    yield table
    yield _predict_table()


def _fit_on_device(data: Dataset, n_centers: int, n_epochs: int) -> CompactKernelClassifier:
    machine = CompactKernelClassifier(
        n_centers, n_epochs=n_epochs, validation_fraction=None, device=DEVICE, random_state=0
    )
    return machine.fit(data.X, data.y)


def _predict_table() -> Table:
    """Rows a second where the rows are on the device already."""
    table = Table(
        f"Decision values of 100 features, 200 centers, 10 outputs, on {device_name()}",
        ["rows", "s", "rows a second"],
    )
    generator = np.random.default_rng(0)
    X = generator.standard_normal((20_000, 100), dtype=np.float32)
    machine = CompactKernelClassifier(200, n_epochs=1, random_state=0)
    machine.fit(X, np.arange(len(X)) % 10)
    place = find_device(DEVICE)
    for n_rows in (10**5, 2 * 10**6):
        rows = place.send(np.tile(X, (n_rows // len(X), 1)))
        machine.expansion_.decision_values(rows)
        _wait(place)
        start = time.perf_counter()
        for _ in range(10):
            machine.expansion_.decision_values(rows)
        _wait(place)
        seconds = (time.perf_counter() - start) / 10
        table.add(f"{n_rows:,}", f"{seconds:.4f}", f"{n_rows / seconds:.2e}")
    return table


def _wait(place: Any) -> None:
    """Until all work on a GPU is done."""
    if place.place is not None and place.place.type == "cuda":
        import torch

        torch.cuda.synchronize()


def device_name() -> str:
    """The device in words."""
    if not DEVICE.startswith("cuda"):
        return f"{DEVICE}, one core"
    import torch

    return f"{torch.cuda.getdevice_name()}, torch {torch.__version__}"


BENCHMARKS = {"compact-device": device}

"""Compact kernel machines beside a tuned perceptron of the same bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import compact_mlp
from benchmarks.compact_device import DEVICE, device_name
from benchmarks.tables import Table, spread
from kernlet import CompactKernelClassifier
from kernlet.datasets import load
from kernlet.devices import find_device
from papers.cache import ResultCache, key_of

SEEDS = range(5)
CELLS = Path("docs/results/compact-cells.json")
#: Data, bytes and the accuracy wanted, where one was set.
PAIRS: list[tuple[str, int, float | None]] = [
    ("mnist", 63_400, 98.5),
    ("mnist", 16_000, 98.2),
    ("mnist", 4_000, 96.4),
    ("letter", 63_400, 98.1),
    ("letter", 16_000, 98.0),
    ("letter", 4_000, 96.4),
    ("usps", 63_400, 95.1),
    ("usps", 16_000, 95.1),
    ("usps", 4_000, 94.5),
    ("satimage", 16_000, None),
    ("satimage", 4_000, 91.0),
    ("optdigits", 16_000, None),
    ("optdigits", 4_000, 97.9),
    ("pendigits", 4_000, 97.7),
]


def by_bytes(quick: bool) -> Iterator[Table]:
    """Accuracy at equal bytes, the perceptron tuned over its settings for each size."""
    cells = ResultCache(CELLS)
    pairs = PAIRS[-3:] if quick else PAIRS
    cells.fill("compact", _compact, [(name, n, seed) for name, n, _ in pairs for seed in SEEDS])
    _tune(cells, [(name, n) for name, n, _ in pairs])
    cells.fill(
        "perceptron",
        _perceptron,
        [
            (name, n, seed, cells.get("tuned", name, n)["setting"])
            for name, n, _ in pairs
            for seed in SEEDS
        ],
        n_keys=3,
    )
    yield _bytes_table(cells, pairs)
    yield _choices_table(cells, pairs)


def _compact(name: str, max_bytes: int, seed: int) -> dict[str, Any]:
    data = load(name)
    start = time.process_time()
    machine = CompactKernelClassifier(max_bytes=max_bytes, random_state=seed, device=DEVICE)
    machine.fit(data.X, data.y)
    expansion = machine.expansion_
    return {
        "score": float(machine.score(data.X_test, data.y_test)),
        "validated": machine.validation_score_,
        "nbytes": machine.nbytes_,
        "centers": machine.n_centers_,
        "rank": None if expansion.tables["projection"] is None else expansion.rank,
        "storage": list(expansion.storage.values()),
        "seconds": time.process_time() - start,
        "device": device_name(),
    }


def _tune(cells: ResultCache, pairs: list[tuple[str, int]]) -> None:
    """Choose a setting for every size, on training rows held out."""
    for name, max_bytes in pairs:
        if key_of("tuned", (name, max_bytes)) in cells.results:
            continue
        data = load(name)
        grid = compact_mlp.settings(data.X.shape[1], data.n_classes, max_bytes)
        numbers = range(len(grid))
        cells.fill("setting", _setting, [(name, max_bytes, number) for number in numbers])
        scores = [cells.get("setting", name, max_bytes, number) for number in numbers]
        best = int(np.argmax(scores))
        cells.put(
            {"setting": asdict(grid[best]), "n_settings": len(grid), "validated": scores[best]},
            "tuned",
            name,
            max_bytes,
        )


def _setting(name: str, max_bytes: int, number: int) -> float:
    data = load(name)
    classes, codes = np.unique(data.y, return_inverse=True)
    setting = compact_mlp.settings(data.X.shape[1], len(classes), max_bytes)[number]
    return compact_mlp.validated(setting, data.X, codes, len(classes), find_device(DEVICE), seed=0)


def _perceptron(name: str, max_bytes: int, seed: int, setting: dict[str, Any]) -> dict[str, Any]:
    data = load(name)
    classes, codes = np.unique(data.y, return_inverse=True)
    setting = {**setting, "hidden": tuple(setting["hidden"])}
    network = compact_mlp.fit(
        compact_mlp.Setting(**setting), data.X, codes, len(classes), find_device(DEVICE), seed
    )
    if network.nbytes > max_bytes:
        raise ValueError(f"{network.nbytes} bytes are more than {max_bytes}.")
    score = np.mean(classes[network.predict(data.X_test)] == data.y_test)
    return {"score": float(score), "nbytes": network.nbytes}


def _bytes_table(cells: ResultCache, pairs: list[tuple[str, int, float | None]]) -> Table:
    table = Table(
        "Test accuracy in % at equal bytes, mean and deviation of 5 seeds; "
        "ahead or behind by more than one standard error of the test part",
        ["data", "bytes", "compact", "wanted", "perceptron", "settings", "difference", "verdict"],
    )
    for name, max_bytes, wanted in pairs:
        ours, theirs = (
            [100 * cells.get(kind, name, max_bytes, seed)["score"] for seed in SEEDS]
            for kind in ("compact", "perceptron")
        )
        n_test = len(load(name).y_test)
        chance = np.mean(ours) / 100
        error = 100 * np.sqrt(chance * (1 - chance) / n_test)
        difference = float(np.mean(ours) - np.mean(theirs))
        verdict = "tied" if abs(difference) <= error else "ahead" if difference > 0 else "behind"
        table.add(
            name,
            f"{max_bytes:,}",
            spread(ours),
            wanted or "",
            spread(theirs),
            cells.get("tuned", name, max_bytes)["n_settings"],
            f"{difference:+.2f} (se {error:.2f})",
            verdict,
        )
    return table


def _choices_table(cells: ResultCache, pairs: list[tuple[str, int, float | None]]) -> Table:
    table = Table(
        "What was chosen by validation, seed by seed: centers, rank of the projection, storage",
        ["data", "bytes", "chosen", "bytes used", "perceptron chosen"],
    )
    for name, max_bytes, _ in pairs:
        found = [cells.get("compact", name, max_bytes, seed) for seed in SEEDS]
        chosen = "; ".join(
            f"{f['centers']} r{f['rank'] or '-'} {'/'.join(f['storage'])}" for f in found
        )
        setting = cells.get("tuned", name, max_bytes)["setting"]
        table.add(
            name,
            f"{max_bytes:,}",
            chosen,
            f"{max(f['nbytes'] for f in found):,}",
            f"{setting['hidden']} rank {setting['rank']} {setting['first']}/{setting['others']}",
        )
    return table


BENCHMARKS = {"compact-bytes": by_bytes}

"""Tuning, refitting and measuring a competitor; every result is kept."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import Cells, key_of
from benchmarks.frontier.competitors import COMPETITORS
from benchmarks.frontier.contract import Machine
from benchmarks.frontier.data import Split, folds, has_test_part, seeds_of, split

#: Results of single fits: not for the repository, but for a run that goes on where it stopped.
FOLDER = Path("benchmarks/results/frontier")


def cells_of(name: str) -> Cells:
    """What has been measured on a data set."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return Cells(FOLDER / f"{name}.json")


def measure(cells: Cells, name: str, max_bytes: int, competitor: str) -> dict[str, Any]:
    """The record of a competitor on a data set within a number of bytes."""
    module = COMPETITORS[competitor]
    data = split(name, 0)
    tried = [
        (setting, _tuned(cells, name, competitor, setting))
        for setting in module.settings(data.shape, max_bytes)
    ]
    record: dict[str, Any] = {
        "set": name,
        "budget": max_bytes,
        "competitor": competitor,
        "n_settings": len(tried),
        "tuning_seconds": round(sum(found["seconds"] for _, found in tried), 3),
        "fits": False,
    }
    fitting = [(s, found) for s, found in tried if found["nbytes"] <= max_bytes]
    for setting, found in sorted(fitting, key=lambda pair: -pair[1]["score"]):
        runs = _runs(cells, name, competitor, setting, max_bytes)
        if runs is not None:
            return {**record, **_summary(setting, found["score"], runs), "fits": True}
    return record


def _tuned(cells: Cells, name: str, competitor: str, setting: dict[str, Any]) -> dict[str, Any]:
    """The score of a setting on the rows held out of the first split."""
    place = ("tuned", competitor, json.dumps(setting, sort_keys=True))
    if key_of(place[0], place[1:]) not in cells.cells:
        data = split(name, 0)
        found = []
        for train, check in folds(name, data):
            part = Split(data.X[train], data.y[train], data.X[check], data.y[check])
            found.append(_run(part, competitor, setting, 0))
        cells.put(
            {
                "score": float(np.mean([run["score"] for run in found])),
                "nbytes": max(run["nbytes"] for run in found),
                "seconds": sum(run["fit_seconds"] for run in found),
            },
            *place,
        )
    return cells.get(*place)


def _runs(
    cells: Cells, name: str, competitor: str, setting: dict[str, Any], max_bytes: int
) -> list[dict[str, Any]] | None:
    """The setting on every seed; None where a machine turns out too large."""
    repeats = COMPETITORS[competitor].IS_RANDOM or not has_test_part(name)
    runs = []
    for seed in seeds_of(name) if repeats else [0]:
        place = ("run", competitor, json.dumps(setting, sort_keys=True), seed)
        if key_of(place[0], place[1:]) not in cells.cells:
            cells.put(_run(split(name, seed), competitor, setting, seed), *place)
        runs.append(cells.get(*place))
        if runs[-1]["nbytes"] > max_bytes:
            return None
    return runs


def _run(data: Split, competitor: str, setting: dict[str, Any], seed: int) -> dict[str, Any]:
    """Fit, store, predict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        machine: Machine = COMPETITORS[competitor].build(setting, data.X, data.y, seed)
        middle = time.process_time()
        predicted = machine.predict(data.X_test)
        end = time.process_time()
    run = {
        "score": float(np.mean(predicted == data.y_test)),
        "nbytes": int(machine.nbytes),
        "centers": machine.n_centers,
        "fit_seconds": middle - start,
        "predict_seconds": 1000 * (end - middle) / len(data.X_test),
    }
    if hasattr(machine, "nbytes_from_seed"):
        run["nbytes_from_seed"] = machine.nbytes_from_seed
    return run


def _summary(setting: dict[str, Any], score: float, runs: list[dict[str, Any]]) -> dict[str, Any]:
    summary = {
        "setting": setting,
        "validated": round(score, 5),
        "accuracies": [round(run["score"], 5) for run in runs],
        "nbytes": max(run["nbytes"] for run in runs),
        "centers": max((run["centers"] or 0) for run in runs) or None,
        "fit_seconds": round(float(np.median([run["fit_seconds"] for run in runs])), 4),
        "predict_seconds_per_1000": round(
            float(np.median([run["predict_seconds"] for run in runs])), 5
        ),
    }
    if "nbytes_from_seed" in runs[0]:
        summary["nbytes_from_seed"] = max(run["nbytes_from_seed"] for run in runs)
    return summary

"""Tuning, refitting and measuring a competitor; every result is kept."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.competitors import COMPETITORS
from benchmarks.competitors.contract import N_FINALISTS, Machine
from benchmarks.frontier.data import (
    Split,
    budgets_of,
    final_folds,
    folds,
    has_test_part,
    seeds_of,
    split,
)
from papers.cache import ResultCache, key_of

ROOT = Path(__file__).parents[2]
#: Results of single fits: not for the repository, but for a run that goes on where it stopped.
FOLDER = ROOT / "benchmarks" / "results" / "frontier"
TOO_MANY = 2**40  # bytes: of a setting whose training breaks down
Judged = tuple[dict[str, Any], dict[str, Any]]  # a setting and what it came to


def cells_of(name: str) -> ResultCache:
    """What has been measured on a data set."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return ResultCache(FOLDER / f"{name}.json")


def kept(cells: ResultCache, work: Callable[[], Any], name: str, *arguments: Any) -> Any:
    """What was measured before, or is now."""
    if key_of(name, arguments) not in cells.results:
        cells.put(work(), name, *arguments)
    return cells.get(name, *arguments)


def key_parts(competitor: str, setting: dict[str, Any]) -> tuple[str, str, str]:
    """What a result depends on: the code of the competitor, by its version, and the setting."""
    version = f"v{COMPETITORS[competitor].VERSION}"
    return competitor, version, json.dumps(setting, sort_keys=True)


def measure(cells: ResultCache, name: str, max_bytes: int, competitor: str) -> dict[str, Any]:
    """The record of a competitor on a data set within a number of bytes."""
    tried, finalists = _tuned(cells, name, max_bytes, competitor)
    judged = [found for _, found in [*tried, *finalists]]
    record: dict[str, Any] = {
        "set": name,
        "budget": max_bytes,
        "competitor": competitor,
        "n_settings": len(tried),
        "tuning_seconds": round(sum(found["seconds"] for found in judged), 3),
        "fits": False,
    }
    for setting, found in finalists:
        runs = _runs(cells, name, competitor, setting, max_bytes)
        if runs is not None:
            return {**record, **_summary(setting, found["score"], runs), "fits": True}
    return record


def tuned_setting(
    cells: ResultCache, name: str, max_bytes: int, competitor: str, limit: int | None
) -> dict[str, Any]:
    """The setting that validates best, of those within a limit of bytes where there is one."""
    if limit is not None:
        return _tuned(cells, name, max_bytes, competitor)[1][0][0]
    tried = tried_settings(cells, name, max_bytes, competitor)
    return _finalists(cells, name, competitor, tried, TOO_MANY - 1)[0][0]


def _tuned(
    cells: ResultCache, name: str, max_bytes: int, competitor: str
) -> tuple[list[Judged], list[Judged]]:
    """What was tried at this number of bytes and at smaller ones, and the finalists of all."""
    tried: dict[str, Judged] = {}
    finalists: dict[str, Judged] = {}
    for budget in [*(b for b in budgets_of(name) if b < max_bytes), max_bytes]:
        here = tried_settings(cells, name, budget, competitor)
        tried |= {json.dumps(pair[0]): pair for pair in here}
        best = _finalists(cells, name, competitor, here, budget)
        finalists |= {json.dumps(pair[0]): pair for pair in best}
    return list(tried.values()), _best_first(list(finalists.values()))


def tried_settings(cells: ResultCache, name: str, max_bytes: int, competitor: str) -> list[Judged]:
    """All settings with what they came to on few rows, the best first."""
    settings = COMPETITORS[competitor].settings(split(name, 0).shape, max_bytes)
    return _best_first(
        [(setting, _judged(cells, name, competitor, setting, "tuned")) for setting in settings]
    )


def _finalists(
    cells: ResultCache, name: str, competitor: str, tried: list[Judged], max_bytes: int
) -> list[Judged]:
    """The best settings that fit, judged again on more rows, where they have to fit as well."""
    found: list[Judged] = []
    for setting, before in tried:
        if len(found) < N_FINALISTS and before["nbytes"] <= max_bytes:
            judged = _judged(cells, name, competitor, setting, "final")
            found += [(setting, judged)] if judged["nbytes"] <= max_bytes else []
    return _best_first(found)


def _best_first(judged: list[Judged]) -> list[Judged]:
    return sorted(judged, key=lambda pair: -pair[1]["score"])


def _judged(
    cells: ResultCache, name: str, competitor: str, setting: dict[str, Any], stage: str
) -> dict[str, Any]:
    """The score of a setting on rows held out of the training part of the first split."""
    rows_of = folds if stage == "tuned" else final_folds

    def work() -> dict[str, Any]:
        data = split(name, 0)
        found = [
            run_once(
                Split(data.X[train], data.y[train], data.X[check], data.y[check]),
                competitor,
                setting,
                0,
            )
            for train, check in rows_of(name, data)
        ]
        return {
            "score": float(np.mean([run["score"] for run in found])),
            "nbytes": max(run["nbytes"] for run in found),
            "seconds": sum(run["fit_seconds"] for run in found),
        }

    return kept(cells, work, stage, *key_parts(competitor, setting))


def _runs(
    cells: ResultCache, name: str, competitor: str, setting: dict[str, Any], max_bytes: int
) -> list[dict[str, Any]] | None:
    """The setting on every seed; None where a machine turns out too large."""
    repeats = COMPETITORS[competitor].IS_RANDOM or not has_test_part(name)
    runs = []
    for seed in seeds_of(name) if repeats else [0]:
        runs.append(
            kept(
                cells,
                lambda seed=seed: run_once(split(name, seed), competitor, setting, seed),
                "run",
                *key_parts(competitor, setting),
                seed,
            )
        )
        if runs[-1]["nbytes"] > max_bytes:
            return None
    return runs


def run_once(data: Split, competitor: str, setting: dict[str, Any], seed: int) -> dict[str, Any]:
    """Fit, store, predict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        try:
            machine: Machine = COMPETITORS[competitor].build(setting, data.X, data.y, seed)
        except np.linalg.LinAlgError as error:
            seconds = time.process_time() - start
            return {"score": 0.0, "nbytes": TOO_MANY, "fit_seconds": seconds, "failed": str(error)}
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
        "centers": None if runs[0]["centers"] is None else max(run["centers"] for run in runs),
        "fit_seconds": round(float(np.median([run["fit_seconds"] for run in runs])), 4),
        "predict_seconds_per_1000": round(
            float(np.median([run["predict_seconds"] for run in runs])), 5
        ),
    }
    if "nbytes_from_seed" in runs[0]:
        summary["nbytes_from_seed"] = max(run["nbytes_from_seed"] for run in runs)
    return summary

"""Tuning, refitting and measuring a competitor; every result is cached."""

from __future__ import annotations

import json
import os
import subprocess
import time
import warnings
from collections.abc import Callable
from functools import cache as memoized
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.competitors import COMPETITORS
from benchmarks.competitors.contract import N_FINALISTS, Machine, device
from benchmarks.frontier.data import (
    Split,
    budgets_of,
    final_folds,
    folds,
    has_test_set,
    seeds_of,
    split,
)
from benchmarks.frontier.rows import pack_rows
from papers.cache import ResultCache, key_of

ROOT = Path(__file__).parents[2]
#: Results of single fits: not in the repository, but an interrupted run resumes from them.
FOLDER = ROOT / "benchmarks" / "results" / "frontier"
TOO_MANY = 2**40  # bytes, of a setting whose training fails
#: A setting and its score, bytes and seconds.
Scored = tuple[dict[str, Any], dict[str, Any]]


class NotMeasuredError(LookupError):
    """A result is not in the cache, and the environment forbids to measure."""


def cache_of(name: str) -> ResultCache:
    """Cached results of a data set."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return ResultCache(FOLDER / f"{name}.json")


def cached(cache: ResultCache, compute: Callable[[], Any], name: str, *arguments: Any) -> Any:
    """The cached result of a name and its arguments, computed if it is missing.

    With ``KERNLET_FRONTIER_CACHED`` in the environment nothing is computed.
    """
    if key_of(name, arguments) not in cache.results:
        if os.environ.get("KERNLET_FRONTIER_CACHED"):
            raise NotMeasuredError(key_of(name, arguments))
        cache.put(compute(), name, *arguments)
    return cache.get(name, *arguments)


@memoized
def commit() -> str:
    """The commit of the code: that of the environment, or git's."""
    if named := os.environ.get("KERNLET_FRONTIER_COMMIT"):
        return named
    try:
        command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def key_parts(competitor: str, setting: dict[str, Any]) -> tuple[str, str, str]:
    """What a result depends on: the competitor, the version of its code, and the setting."""
    version = f"v{COMPETITORS[competitor].VERSION}"
    return competitor, version, json.dumps(setting, sort_keys=True)


def measure(cache: ResultCache, name: str, max_bytes: int, competitor: str) -> dict[str, Any]:
    """The record of a competitor on a data set within a budget."""
    if getattr(COMPETITORS[competitor], "IS_TUNED", True):
        tried, finalists = _tuned(cache, name, max_bytes, competitor)
    else:
        (setting,) = COMPETITORS[competitor].settings(split(name, 0).shape, max_bytes)
        tried = finalists = [(setting, {"score": None, "seconds": 0.0})]
    scores = [score for _, score in [*tried, *finalists]]
    record: dict[str, Any] = {
        "set": name,
        "budget": max_bytes,
        "competitor": competitor,
        "version": COMPETITORS[competitor].VERSION,
        "n_settings": len(tried),
        "tuning_seconds": round(sum(score["seconds"] for score in scores), 3),
        "fits": False,
    }
    for setting, score in finalists:
        runs = _runs(cache, name, competitor, setting, max_bytes)
        if runs is not None:
            return {**record, **_summary(setting, score["score"], runs), "fits": True}
    return record


def tuned_setting(
    cache: ResultCache, name: str, max_bytes: int, competitor: str, limit: int | None
) -> dict[str, Any]:
    """The setting with the best validation score, of those within ``limit`` bytes if given."""
    if limit is not None:
        return _tuned(cache, name, max_bytes, competitor)[1][0][0]
    tried = tried_settings(cache, name, max_bytes, competitor)
    return _finalists(cache, name, competitor, tried, TOO_MANY - 1)[0][0]


def _tuned(
    cache: ResultCache, name: str, max_bytes: int, competitor: str
) -> tuple[list[Scored], list[Scored]]:
    """Settings tried at this budget and at smaller ones, and the finalists of all."""
    tried: dict[str, Scored] = {}
    finalists: dict[str, Scored] = {}
    for budget in [*(b for b in budgets_of(name) if b < max_bytes), max_bytes]:
        scored = tried_settings(cache, name, budget, competitor)
        tried |= {json.dumps(pair[0]): pair for pair in scored}
        best = _finalists(cache, name, competitor, scored, budget)
        finalists |= {json.dumps(pair[0]): pair for pair in best}
    return list(tried.values()), _best_first(list(finalists.values()))


def tried_settings(cache: ResultCache, name: str, max_bytes: int, competitor: str) -> list[Scored]:
    """All settings with their scores on few rows, the best first."""
    settings = COMPETITORS[competitor].settings(split(name, 0).shape, max_bytes)
    return _best_first(
        [(setting, _scored(cache, name, competitor, setting, "tuned")) for setting in settings]
    )


def _finalists(
    cache: ResultCache, name: str, competitor: str, tried: list[Scored], max_bytes: int
) -> list[Scored]:
    """The best settings that fit, scored again on more rows; they must fit there too."""
    finalists: list[Scored] = []
    for setting, before in tried:
        if len(finalists) < N_FINALISTS and before["nbytes"] <= max_bytes:
            score = _scored(cache, name, competitor, setting, "final")
            finalists += [(setting, score)] if score["nbytes"] <= max_bytes else []
    return _best_first(finalists)


def _best_first(scored: list[Scored]) -> list[Scored]:
    return sorted(scored, key=lambda pair: -pair[1]["score"])


def _scored(
    cache: ResultCache, name: str, competitor: str, setting: dict[str, Any], stage: str
) -> dict[str, Any]:
    """The score of a setting on held-out training rows of the first split."""
    make_folds = folds if stage == "tuned" else final_folds

    def compute() -> dict[str, Any]:
        data = split(name, 0)
        runs = [
            run_once(
                Split(data.X[train], data.y[train], data.X[check], data.y[check]),
                competitor,
                setting,
                0,
            )
            for train, check in make_folds(name, data)
        ]
        return {
            "score": float(np.mean([run["score"] for run in runs])),
            "nbytes": max(run["nbytes"] for run in runs),
            "seconds": sum(run["fit_seconds"] for run in runs),
        }

    return cached(cache, compute, stage, *key_parts(competitor, setting))


def _runs(
    cache: ResultCache, name: str, competitor: str, setting: dict[str, Any], max_bytes: int
) -> list[dict[str, Any]] | None:
    """Runs of a setting with every seed; None if a machine exceeds the budget.

    Where nothing may be measured, those that are in the cache, of the first seed at least.
    """
    repeats = COMPETITORS[competitor].IS_RANDOM or not has_test_set(name)
    runs: list[dict[str, Any]] = []
    for seed in seeds_of(name) if repeats else [0]:
        try:
            runs.append(run_of_seed(cache, name, competitor, setting, seed))
        except NotMeasuredError:
            if not runs:
                raise
            break
        if runs[-1]["nbytes"] > max_bytes:
            return None
    return runs


def run_of_seed(
    cache: ResultCache, name: str, competitor: str, setting: dict[str, Any], seed: int
) -> dict[str, Any]:
    """A fit on all training rows, tested."""

    def compute() -> dict[str, Any]:
        made = {"commit": commit(), "device": device() or "cpu"}
        return {**run_once(split(name, seed), competitor, setting, seed), "made": made}

    return cached(cache, compute, "run", *key_parts(competitor, setting), seed)


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
    is_number = data.shape.n_classes == 0
    run = {
        "score": _r2(predicted, data.y_test)
        if is_number
        else float(np.mean(predicted == data.y_test)),
        "nbytes": int(machine.nbytes),
        "centers": machine.n_centers,
        "fit_seconds": middle - start,
        "predict_seconds": 1000 * (end - middle) / len(data.X_test),
    }
    if not is_number:
        run["right"] = pack_rows(predicted == data.y_test)
    if hasattr(machine, "nbytes_from_seed"):
        run["nbytes_from_seed"] = machine.nbytes_from_seed
    return run


def _accuracy(predicted: Any, codes: Any) -> float:
    return float(np.mean(predicted == codes))


def _r2(predicted: Any, targets: Any) -> float:
    """One minus the mean squared error over the variance of the targets."""
    return float(1 - np.mean((predicted - targets) ** 2) / np.var(targets))


def _summary(
    setting: dict[str, Any], score: float | None, runs: list[dict[str, Any]]
) -> dict[str, Any]:
    summary = {
        "setting": setting,
        "validated": None if score is None else round(score, 5),
        "accuracies": [round(run["score"], 5) for run in runs],
        "nbytes": max(run["nbytes"] for run in runs),
        "centers": None if runs[0]["centers"] is None else max(run["centers"] for run in runs),
        "fit_seconds": round(float(np.median([run["fit_seconds"] for run in runs])), 4),
        "predict_seconds_per_1000": round(
            float(np.median([run["predict_seconds"] for run in runs])), 5
        ),
    }
    if "made" in runs[0]:
        summary["made"] = [dict(of) for of in {tuple(run["made"].items()): 0 for run in runs}]
    if all("right" in run for run in runs):
        summary["right"] = [run["right"] for run in runs]
    if "nbytes_from_seed" in runs[0]:
        summary["nbytes_from_seed"] = max(run["nbytes_from_seed"] for run in runs)
    return summary

"""Cells of the frontier in parallel processes, for a machine with many cores and little time.

``python -m benchmarks.frontier.sweep run --jobs 16 --seconds 540 --out FILE`` runs cells in order
of importance, stops in time, and writes what is finished; ``--skip FILE`` leaves out the cells of
earlier files, ``--only PATTERN`` chooses cells, ``--device cuda`` trains there. ``list`` prints the
cells with estimated CPU seconds, ``merge FILE...`` puts the results of such files into the cache of
``make bench ARGS=frontier``; with ``KERNLET_FRONTIER_CACHED=1`` that measures nothing else.

A cell is a line: data set, bytes, competitor, and a seed, or ``-`` for a tuned competitor with all
of its seeds, at these and all smaller budgets, whose settings it tries anyway. Only the competitors
that are asked for are imported.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.competitors import COMPETITORS
from benchmarks.frontier.data import (
    LARGE,
    MEDIUM,
    MORE_ROWS,
    REGRESSION,
    SMALL,
    budgets_of,
    seeds_of,
    split,
)
from benchmarks.frontier.goals import GOALS
from benchmarks.frontier.measure import ROOT, cache_of, commit, measure, run_of_seed
from kernlet.atomic import atomic_write
from papers.cache import ResultCache

CALLS = ("compact_call", "mlp_call")
FIRST_SEEDS = range(3)
#: Peers that are measured on data sets and budgets which earlier results do not have.
CHEAP_PEERS = ("hist_gradient_boosting", "random_forest", "nystroem")
NEW_PEERS = ("shared_trees", "seeded_features")
NEW_SETS = ("iris", "wine", "breast_cancer", "breastw_699", "digits")
REGRESSORS = ("nystroem_regressor", "forest_regressor", "boosting_regressor")
TUNED = ("mlp", "compact")
EFFORTS = ("compact_quick", "compact_thorough")
#: Pairs at which the other efforts are measured.
EFFORT_PAIRS = (
    ("checkerboard_generated", 256),
    ("thyroid", 1024),
    ("satimage", 1024),
    ("letter", 1024),
    ("pendigits", 1024),
    ("usps", 4096),
    ("letter", 4096),
)
AUGMENTED = ("compact_augmented", "mlp_augmented")
AUGMENTED_PAIRS = (("usps", 4096), ("optdigits", 1024), ("mnist", 16_384))
MOST_BYTES = 16_384  # larger budgets come last
_WRITE_EVERY = 20.0  # seconds
_POLL = 0.1  # seconds
#: Seconds that a cell may run longer than estimated before the end is planned without it.
_RESERVE = 1.15


@dataclass(frozen=True)
class Cell:
    """A competitor on a data set within a budget.

    Without a seed it is tuned first, and measured within all smaller budgets too.
    """

    name: str
    budget: int
    competitor: str
    seed: int | None

    def __str__(self) -> str:
        seed = "-" if self.seed is None else self.seed
        return f"{self.name} {self.budget} {self.competitor} {seed}"


def cells_of(line: str) -> Cell:
    """The cell of a line."""
    name, budget, competitor, seed = line.split()
    return Cell(name, int(budget), competitor, None if seed == "-" else int(seed))


def plan() -> list[Cell]:
    """All cells, the most important first."""
    return list(dict.fromkeys(_planned()))


def _planned() -> Iterator[Cell]:
    pairs = [(name, b) for name in SMALL + MEDIUM + LARGE for b in budgets_of(name)]
    usual = [pair for pair in pairs if pair[1] <= MOST_BYTES]
    goals = [pair for pair in dict.fromkeys(GOALS) if pair[0] not in MORE_ROWS]
    yield from _calls(goals, CALLS, FIRST_SEEDS)
    yield from _calls(usual, CALLS, FIRST_SEEDS)
    yield from _tuned(NEW_SETS, (*NEW_PEERS, *CHEAP_PEERS))
    yield from _tuned(REGRESSION, REGRESSORS)
    numbers = [(name, b) for name in REGRESSION for b in budgets_of(name)]
    yield from _calls(numbers, ("compact_regressor", "mlp_regressor"), range(10))
    yield from _tuned([name for name in SMALL if name not in NEW_SETS], NEW_PEERS)
    yield from _calls([p for p in pairs if p[0] in SMALL], CALLS, range(3, 10))
    yield from _calls(AUGMENTED_PAIRS, AUGMENTED, FIRST_SEEDS)
    yield from (Cell(n, 256, c, None) for n in MEDIUM if n not in NEW_SETS for c in CHEAP_PEERS)
    yield from _tuned(MEDIUM + LARGE, NEW_PEERS)
    yield from _calls(EFFORT_PAIRS, EFFORTS, FIRST_SEEDS)
    yield from _calls(usual, ("mlp_symmetric",), FIRST_SEEDS)
    yield from _calls([p for p in pairs if p[1] > MOST_BYTES], CALLS, range(2))
    yield from _tuned(SMALL, TUNED)
    yield from _calls([p for p in usual if p[0] in MEDIUM], CALLS, range(3, 5))
    yield from (Cell(n, b, c, None) for b in (1024, 4096) for n in MEDIUM for c in TUNED)
    more = [(name, b) for name in MORE_ROWS for b in budgets_of(name)]
    yield from _calls(more, CALLS, range(2))
    yield from _calls(more[-1:], AUGMENTED, range(2))


def _calls(pairs: Any, competitors: tuple[str, ...], seeds: range) -> Iterator[Cell]:
    """Seeds outermost: an interrupted sweep has the first seeds of everything."""
    for seed, (name, budget), competitor in product(seeds, pairs, competitors):
        if seed in seeds_of(name):
            yield Cell(name, budget, competitor, seed)


def _tuned(names: Any, competitors: tuple[str, ...]) -> Iterator[Cell]:
    """Tuned competitors at all budgets but the largest one of sets of medium size."""
    for name, competitor in product(names, competitors):
        yield Cell(name, max(b for b in budgets_of(name) if b <= MOST_BYTES), competitor, None)


# Costs --------------------------------------------------------------------------------------------


def estimates(cells: list[Cell]) -> list[float]:
    """CPU seconds of each cell, from those of earlier records at the nearest budget."""
    path = ROOT / "docs" / "results" / "frontier.json"
    records = json.loads(path.read_text("utf-8"))["records"] if path.exists() else []
    fits: dict[str, dict[int, float]] = {}
    for record in records:
        if record["competitor"] in ("compact_call", "first_call") and record["fits"]:
            fits.setdefault(record["set"], {})[record["budget"]] = record["fit_seconds"]
    return [_estimate(cell, fits) for cell in cells]


#: CPU seconds over those of the earlier version's call; a tuned competitor with all its seeds.
_FACTORS = {
    "compact_call": 1.5,
    "compact_quick": 0.7,
    "compact_thorough": 4.0,
    "compact_augmented": 2.0,
    "compact_regressor": 1.0,
    "mlp_call": 1.5,
    "mlp_symmetric": 1.5,
    "mlp_augmented": 2.0,
    "mlp_regressor": 1.0,
    "mlp": 12.0,
    "compact": 12.0,
}


def _estimate(cell: Cell, fits: dict[str, dict[int, float]]) -> float:
    known = fits.get(MORE_ROWS.get(cell.name, (cell.name,))[0], {1024: 2.0})
    nearest = min(known, key=lambda budget: abs(np.log(budget / cell.budget)))
    seconds = known[nearest] * max(1.0, cell.budget / nearest) ** 0.7
    return float(
        seconds * _FACTORS.get(cell.competitor, 4.0) * (3 if cell.name in MORE_ROWS else 1)
    )


# Running ------------------------------------------------------------------------------------------


class _Memory(ResultCache):
    """A cache without a file."""

    def __init__(self) -> None:
        super().__init__(Path(os.devnull) / "none")

    def _write(self) -> None:
        pass


def run_cell(cell: Cell) -> tuple[Cell, dict[str, Any], float]:
    """The results of a cell by their keys in the cache of its data set, and its CPU seconds."""
    start, cache = time.process_time(), _Memory()
    if cell.seed is None:
        for budget in budgets_of(cell.name):
            if budget <= cell.budget:
                measure(cache, cell.name, budget, cell.competitor)
    else:
        settings = COMPETITORS[cell.competitor].settings(split(cell.name, 0).shape, cell.budget)
        run_of_seed(cache, cell.name, cell.competitor, settings[0], cell.seed)
    return cell, cache.results, time.process_time() - start


class Sweep:
    """Cells in processes until the time is over; results are written again and again.

    A cell is left out where its estimated seconds, scaled by what earlier cells of its competitor
    took, are more than what is left.
    """

    def __init__(self, cells: list[Cell], jobs: int, seconds: float, out: Path) -> None:
        self.waiting = list(zip(cells, estimates(cells), strict=True))
        self.jobs, self.out = jobs, out
        self.end = time.monotonic() + seconds
        self.taken: dict[str, list[tuple[float, float]]] = {}
        self.document: dict[str, Any] = {
            "commit": commit(),
            "packages": {"numpy": np.__version__},
            "cells": [],
            "left_out": [],
            "failed": {},
            "results": {},
        }

    def run(self) -> None:
        """Run what there is time for."""
        running: list[tuple[Cell, float, Any]] = []
        written = time.monotonic()
        with get_context("spawn").Pool(self.jobs) as pool:
            while (self.waiting or running) and time.monotonic() < self.end:
                while self.waiting and len(running) < self.jobs:
                    cell, estimate = self.waiting.pop(0)
                    if _RESERVE * self._scaled(cell, estimate) > self.end - time.monotonic():
                        self.document["left_out"].append(str(cell))
                    else:
                        running.append((cell, estimate, pool.apply_async(run_cell, (cell,))))
                for task in [task for task in running if task[2].ready()]:
                    running.remove(task)
                    self._finish(*task)
                if time.monotonic() > written + _WRITE_EVERY:
                    self.write()
                    written = time.monotonic()
                time.sleep(_POLL)
            pool.terminate()
        self.document["left_out"] += [str(task[0]) for task in [*running, *self.waiting]]
        self.write()

    def _scaled(self, cell: Cell, estimate: float) -> float:
        pairs = self.taken.get(cell.competitor)
        if not pairs:
            return estimate
        return estimate * sum(actual for actual, _ in pairs) / sum(guess for _, guess in pairs)

    def _finish(self, cell: Cell, estimate: float, result: Any) -> None:
        try:
            _, results, seconds = result.get()
        except Exception as error:  # a broken cell must not end the sweep
            self.document["failed"][str(cell)] = f"{type(error).__name__}: {error}"
            print(f"{cell}: {error!r}", flush=True)
            return
        self.taken.setdefault(cell.competitor, []).append((seconds, estimate))
        self.document["cells"].append([str(cell), round(seconds, 2)])
        self.document["results"].setdefault(cell.name, {}).update(results)
        scores = [100 * of["score"] for key, of in results.items() if key.startswith("run")]
        text = f"{np.mean(scores):.2f}" if scores else "does not fit"
        print(f"{cell}: {text}, {seconds:.1f} s (estimated {estimate:.1f})", flush=True)

    def write(self) -> None:
        """Write everything that is finished."""
        with atomic_write(self.out) as temporary:
            temporary.write_text(json.dumps(self.document), encoding="utf-8")


def merge(paths: list[Path]) -> None:
    """Put the results of sweeps into the caches of their data sets."""
    for path in paths:
        document = json.loads(path.read_text("utf-8"))
        for name, results in document["results"].items():
            cache = cache_of(name)
            cache.results.update(results)
            cache._write()
        print(f"{path}: {len(document['cells'])} cells, {len(document['failed'])} failed")
        for cell, why in document["failed"].items():
            print(f"  {cell}: {why}")


def chosen_cells(only: list[str], skip: list[Path]) -> list[Cell]:
    """The plan, or the part of it that matches a pattern, without the cells of earlier files.

    A pattern that has no wildcard is a cell itself; one that starts with ``!`` excludes.
    """
    done = {cell for path in skip for cell, _ in json.loads(path.read_text("utf-8"))["cells"]}
    wanted = [pattern for pattern in only if not pattern.startswith("!")]
    unwanted = [pattern[1:] for pattern in only if pattern.startswith("!")]
    cells = [
        cell
        for cell in plan()
        if not wanted or any(fnmatch(str(cell), pattern) for pattern in wanted)
    ]
    exact = [cells_of(pattern) for pattern in wanted if not set(pattern) & set("*?[")]
    cells += [cell for cell in exact if cell not in cells]
    return [
        cell
        for cell in cells
        if str(cell) not in done and not any(fnmatch(str(cell), pattern) for pattern in unwanted)
    ]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("run", "list", "merge"))
    parser.add_argument("files", nargs="*", type=Path, help="of merge")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--out", type=Path, default=Path("sweep.json"))
    parser.add_argument("--only", action="append", default=[], help='such as "letter * mlp_call *"')
    parser.add_argument("--skip", action="append", default=[], type=Path)
    parser.add_argument("--device", default="")
    options = parser.parse_args()
    if options.action == "merge":
        merge(options.files)
        return
    cells = chosen_cells(options.only, options.skip)
    if options.action == "list":
        for cell, seconds in zip(cells, estimates(cells), strict=True):
            print(f"{cell}  # {seconds:.0f} s")
        print(f"# {len(cells)} cells, {sum(estimates(cells)) / 3600:.2f} CPU hours")
        return
    # Before the processes start and load their BLAS.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    os.environ["KERNLET_FRONTIER_DEVICE"] = options.device
    os.environ["KERNLET_FRONTIER_COMMIT"] = commit()
    Sweep(cells, options.jobs, options.seconds, options.out).run()


if __name__ == "__main__":
    main()

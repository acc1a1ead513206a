"""The frontier: accuracy against bytes, on every data set, for every competitor.

Small data sets come first, then by cost; an interrupted run resumes. Environment variables:
``KERNLET_FRONTIER_SETS`` limits it to data sets (comma-separated names),
``KERNLET_FRONTIER_MACHINES`` to competitors, the others keep their results;
``KERNLET_FRONTIER_BYTES`` is the largest budget.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from benchmarks.competitors import COMPETITORS
from benchmarks.competitors.contract import N_FINALISTS, N_SETTINGS
from benchmarks.competitors.trees import MOST_LEAVES
from benchmarks.frontier.data import (
    BUDGETS,
    CHECKING_ROWS,
    FINAL_ROWS,
    LARGE,
    LARGE_BUDGETS,
    MEDIUM,
    MOST_ROWS,
    N_FOLDS,
    N_REPEATS,
    NAMES,
    SMALL,
    SMALL_BUDGETS,
    SMALL_ROWS,
    TUNING_ROWS,
    facts_of,
)
from benchmarks.frontier.measure import ROOT, cache_of, measure
from benchmarks.frontier.summary import UNLIMITED, set_table, verdict_table
from benchmarks.tables import Table
from kernlet.atomic import atomic_write
from papers.cache import timed

RESULTS = ROOT / "docs" / "results" / "frontier.json"
COMMAND = "make bench ARGS=frontier"


#: Data sets and budgets in the order they run, the cheap ones first.
STAGES = (
    (SMALL, SMALL_BUDGETS),
    (MEDIUM, BUDGETS[:3]),
    (LARGE, LARGE_BUDGETS),
    (MEDIUM, BUDGETS[3:]),
)


def frontier(quick: bool) -> Iterator[Table]:
    """Measure what is not cached, write the JSON file, and yield its tables."""
    if quick:
        document = _document([*_records_of(SMALL[0], SMALL_BUDGETS[:1])])
    else:
        chosen = named("KERNLET_FRONTIER_SETS", NAMES)
        machines = named("KERNLET_FRONTIER_MACHINES", tuple(COMPETITORS))
        most = int(os.environ.get("KERNLET_FRONTIER_BYTES", max(BUDGETS)))
        for names, budgets in STAGES:
            within = tuple(budget for budget in budgets if budget <= most)
            for name in names if within else ():
                if name in chosen:
                    _write([*_records_of(name, within, machines)])
        for name in chosen if "svc" in machines else ():
            _write([measure(cache_of(name), name, UNLIMITED, "svc")])
        document = json.loads(RESULTS.read_text(encoding="utf-8"))
    yield verdict_table(document)
    for name in document["sets"]:
        yield set_table(document, name)


def named(variable: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The names in an environment variable, or all if it is not set."""
    if variable not in os.environ:
        return known
    names = tuple(name.strip() for name in os.environ[variable].split(","))
    for name in names:
        if name not in known:
            raise ValueError(f"{variable} has {name!r}; allowed are {', '.join(known)}.")
    return names


def _records_of(
    name: str, budgets: tuple[int, ...], machines: tuple[str, ...] = tuple(COMPETITORS)
) -> Iterator[dict[str, Any]]:
    cache = cache_of(name)
    for max_bytes in budgets:
        for competitor in machines:
            record, seconds = timed(measure, cache, name, max_bytes, competitor)
            print(f"{name} {max_bytes} {competitor}: {seconds:.1f} s", flush=True)
            yield record


def _command() -> str:
    """The command, with the largest budget if that was set."""
    most = os.environ.get("KERNLET_FRONTIER_BYTES")
    return COMMAND if most is None else f"KERNLET_FRONTIER_BYTES={most} {COMMAND}"


def _write(records: list[dict[str, Any]]) -> None:
    """Replace records of the file by new ones."""
    before = []
    if RESULTS.exists():
        before = json.loads(RESULTS.read_text(encoding="utf-8"))["records"]
    new = {_position(record) for record in records}
    merged = [record for record in before if _position(record) not in new] + records
    with atomic_write(RESULTS) as part:
        part.write_text(_lines(_document(sorted(merged, key=_position))), encoding="utf-8")


def _document(records: list[dict[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(record["set"] for record in records)
    return {
        "command": _command(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("scikit-learn", "numpy", "highspy")},
        "n_settings": N_SETTINGS,
        "competitors": {
            name: {
                "title": module.TITLE,
                "is_kernlet": module.IS_KERNLET,
                "version": module.VERSION,
            }
            for name, module in COMPETITORS.items()
        },
        "limits": limits(),
        "sets": {name: facts_of(name) for name in names},
        "records": records,
    }


def limits() -> dict[str, int | float]:
    """Limits of the competitors and of their tuning, for readers of the results."""
    of = COMPETITORS
    return {
        "most_rows": MOST_ROWS,
        "tuning_rows": TUNING_ROWS,
        "checking_rows": CHECKING_ROWS,
        "small_rows": SMALL_ROWS,
        "n_folds": N_FOLDS,
        "n_finalists": N_FINALISTS,
        "final_rows": FINAL_ROWS,
        "n_repeats": N_REPEATS,
        "minimal_rows": of["minimal_kernel"].MOST_ROWS,
        "minimal_candidates": of["minimal_kernel"].CANDIDATES,
        "chunking_rows": of["chunking_synthetic"].MOST_ROWS,
        "chunking_points": of["chunking_synthetic"].MOST_POINTS,
        "rvm_rows": of["rvm"].MOST_ROWS,
        "rvm_candidates": of["rvm"].CANDIDATES,
        "rvm_changes": of["rvm"].MOST_CHANGES,
        "compressed_rows": of["compressed_svc"].MOST_ROWS,
        "compressed_centers": of["compressed_svc"].MOST_CENTERS,
        "landmarks": of["nystroem"].MOST_LANDMARKS,
        "least_eigenvalue": of["nystroem"].SMALLEST_EIGENVALUE,
        "directions": of["rbf_sampler"].MOST_DIRECTIONS,
        "rounds": of["hist_gradient_boosting"].MOST_ROUNDS,
        "judged_rows": of["hist_gradient_boosting"].JUDGED_ROWS,
        "leaves": MOST_LEAVES,
    }


def _lines(document: dict[str, Any]) -> str:
    """JSON with one line per record."""
    lines = [
        f" {json.dumps(name)}: {json.dumps(value)},"
        for name, value in document.items()
        if name != "records"
    ]
    records = ",\n".join(f"  {json.dumps(record)}" for record in document["records"])
    return "\n".join(["{", *lines, ' "records": [', records, " ]", "}"]) + "\n"


def _position(record: dict[str, Any]) -> tuple[int, int, int]:
    """Sort key: data set, budget, competitor."""
    names = list(COMPETITORS)
    return (
        NAMES.index(record["set"]),
        record["budget"],
        names.index(record["competitor"]),
    )


BENCHMARKS = {"frontier": frontier}

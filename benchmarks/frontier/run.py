"""The frontier: accuracy against bytes, on every data set, for every competitor.

Small data sets come first, then by cost; an interrupted run resumes. Environment variables:
``KERNLET_FRONTIER_SETS`` limits it to data sets (comma-separated names),
``KERNLET_FRONTIER_MACHINES`` to competitors, the others keep their results;
``KERNLET_FRONTIER_BYTES`` is the largest budget. With ``KERNLET_FRONTIER_CACHED`` nothing is
measured: records are made of what a sweep has put into the cache (``benchmarks.frontier.sweep``).

A record of the file that was made by the present version of a competitor is kept: it is measured
again only where its competitor is named in ``KERNLET_FRONTIER_MACHINES``.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from benchmarks.competitors import COMPETITORS, task_of
from benchmarks.competitors.contract import N_FINALISTS, N_SETTINGS
from benchmarks.competitors.trees import MOST_LEAVES
from benchmarks.frontier.data import (
    BUDGETS,
    CHECKING_ROWS,
    FINAL_ROWS,
    LARGE,
    MEDIUM,
    MORE_ROWS,
    MOST_ROWS,
    N_FOLDS,
    N_REPEATS,
    NAMES,
    REGRESSION,
    SMALL,
    SMALL_BUDGETS,
    SMALL_ROWS,
    TUNING_ROWS,
    budgets_of,
    facts_of,
    kind_of_test,
    seeds_of,
)
from benchmarks.frontier.measure import ROOT, NotMeasuredError, cache_of, measure
from benchmarks.frontier.summary import UNLIMITED, set_table, verdict_table
from benchmarks.tables import Table, record_lines
from kernlet.atomic import atomic_write
from papers.cache import timed

RESULTS = ROOT / "docs" / "results" / "frontier.json"
#: Which test rows each record gets right, by seed, for pairing.
ROWS = RESULTS.with_name("frontier-rows.json")
COMMAND = "make bench ARGS=frontier"
#: Records of code that has been replaced. They are kept for comparison and cannot be repeated.
ARCHIVED = {
    "first_tuned": {"title": "compact, earlier version, tuned", "is_kernlet": True},
    "first_call": {"title": "compact, earlier version, one call", "is_kernlet": True},
    "earlier_call": {"title": "compact, one call, first measurement", "is_kernlet": True},
    "first_mlp": {"title": "MLP, earlier version, tuned", "is_kernlet": False},
}


def frontier(quick: bool) -> Iterator[Table]:
    """Measure what is not cached, write the JSON files, and yield their tables."""
    if quick:
        document = _document([*_records_of(SMALL[0], SMALL_BUDGETS[:1])])
    else:
        chosen = named("KERNLET_FRONTIER_SETS", NAMES)
        machines = named("KERNLET_FRONTIER_MACHINES", tuple(COMPETITORS))
        most = int(os.environ.get("KERNLET_FRONTIER_BYTES", max(BUDGETS)))
        # Cheap sets first, the largest budget of those of medium size last.
        for names, larger in (
            (SMALL + REGRESSION + MEDIUM + LARGE, False),
            (MEDIUM, True),
            (tuple(MORE_ROWS), False),
        ):
            for name in names:
                within = [b for b in budgets_of(name) if b <= most and (b > 16_384) == larger]
                if name in chosen and within:
                    _write([*_records_of(name, tuple(within), machines)])
        if "svc" in machines:
            for name in chosen:
                if name in SMALL + MEDIUM + LARGE:
                    _write([*_records_of(name, (UNLIMITED,), ("svc",))])
        document = read_document()
    yield verdict_table(document)
    for name in document["sets"]:
        yield set_table(document, name)


def read_document() -> dict[str, Any]:
    """The stored results, each record with the rows that it gets right."""
    document: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    rows = json.loads(ROWS.read_text(encoding="utf-8")) if ROWS.exists() else {}
    for record in document["records"]:
        if key_of_rows(record) in rows:
            record["right"] = rows[key_of_rows(record)]
    return document


def key_of_rows(record: dict[str, Any]) -> str:
    """What names the rows of a record."""
    return f"{record['set']} {record['budget']} {record['competitor']}"


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
    """Records of a data set; those that are not in the cache where nothing may be measured."""
    cache = cache_of(name)
    kept = {} if "KERNLET_FRONTIER_MACHINES" in os.environ else _kept(name)
    for max_bytes in budgets:
        for competitor in machines:
            if (max_bytes, competitor) in kept or not is_measured(name, competitor):
                continue
            try:
                record, seconds = timed(measure, cache, name, max_bytes, competitor)
            except NotMeasuredError:
                continue
            print(f"{name} {max_bytes} {competitor}: {seconds:.1f} s", flush=True)
            yield record


def is_measured(name: str, competitor: str) -> bool:
    """Whether a competitor is for a data set at all."""
    module = COMPETITORS[competitor]
    task = "regression" if name in REGRESSION else "classification"
    if name in MORE_ROWS and getattr(module, "IS_TUNED", True):
        return False
    return task_of(competitor) == task and name in getattr(module, "SETS", (name,))


def _kept(name: str) -> set[tuple[int, str]]:
    """Budgets and competitors whose records in the file are up to date.

    Calls with fewer than all seeds are not: new seeds may have come into the cache.
    """
    if not RESULTS.exists():
        return set()
    n_seeds = len(seeds_of(name))
    kept = set()
    for record in json.loads(RESULTS.read_text(encoding="utf-8"))["records"]:
        if record["set"] == name and record["competitor"] in COMPETITORS:
            module = COMPETITORS[record["competitor"]]
            is_call = not getattr(module, "IS_TUNED", True)
            is_whole = not is_call or len(record.get("accuracies", ())) == n_seeds
            if record["version"] == module.VERSION and is_whole:
                kept.add((record["budget"], record["competitor"]))
    return kept


def _command() -> str:
    """The command, with the largest budget if that was set."""
    most = os.environ.get("KERNLET_FRONTIER_BYTES")
    return COMMAND if most is None else f"KERNLET_FRONTIER_BYTES={most} {COMMAND}"


def _write(records: list[dict[str, Any]]) -> None:
    """Replace records of the file by new ones, and their rows in the other file."""
    if not records:
        return
    before = read_document()["records"] if RESULTS.exists() else []
    new = {_position(record) for record in records}
    merged = [record for record in before if _position(record) not in new] + records
    merged.sort(key=_position)
    rows = {key_of_rows(r): r["right"] for r in merged if "right" in r and _needs_rows(r["set"])}
    plain = [{key: r[key] for key in r if key != "right"} for r in merged]
    with atomic_write(ROWS) as part:
        part.write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")
    with atomic_write(RESULTS) as part:
        part.write_text(record_lines(_document(plain)), encoding="utf-8")


def _needs_rows(name: str) -> bool:
    """Whether comparisons are paired by row: others are paired by split."""
    return kind_of_test(name) in ("official", "samples")


def _document(records: list[dict[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(record["set"] for record in records)
    return {
        "command": _command(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("scikit-learn", "numpy", "highspy")},
        "n_settings": N_SETTINGS,
        "competitors": {**_current(), **{n: {**of, "version": 1} for n, of in ARCHIVED.items()}},
        "limits": limits(),
        "sets": {name: facts_of(name) for name in names},
        "records": records,
    }


def _current() -> dict[str, dict[str, Any]]:
    return {
        name: {
            "title": module.TITLE,
            "is_kernlet": module.IS_KERNLET,
            "version": module.VERSION,
            "is_tuned": getattr(module, "IS_TUNED", True),
            "task": task_of(name),
        }
        for name, module in COMPETITORS.items()
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
        "seeded_directions": of["seeded_features"].MOST_DIRECTIONS,
        "shared_rounds": of["shared_trees"].MOST_ROUNDS,
        "shared_trees": of["shared_trees"].MOST_TREES,
    }


def _position(record: dict[str, Any]) -> tuple[int, int, int]:
    """Sort key: data set, budget, competitor."""
    names = [*COMPETITORS, *ARCHIVED]
    return (
        NAMES.index(record["set"]),
        record["budget"],
        names.index(record["competitor"]),
    )


BENCHMARKS = {"frontier": frontier}

"""kernlet's C on microcontrollers beside that of emlearn, m2cgen and micromlgen."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from benchmarks.device.data import NAMES, three_way
from benchmarks.device.measure import ALL, Record, measured, missing_libraries
from benchmarks.device.summary import (
    Document,
    accuracy_table,
    family_table,
    flash_table,
    missing_table,
    peer_table,
    small_target_table,
    standard_error,
)
from benchmarks.frontier.measure import ROOT
from benchmarks.tables import Table, record_lines
from kernlet.atomic import atomic_write
from kernlet.export.toolchain import TARGETS

RESULTS = ROOT / "docs" / "results" / "device.json"
_NO_TENSORFLOW = (
    "The package tflite-micro of PyPI has an interpreter for this computer and no sources to build "
    "for a microcontroller"
)


def device(quick: bool) -> Iterator[Table]:
    """Measure what is not cached, write the JSON file of a whole run, and yield the tables."""
    names = ("iris",) if quick else NAMES
    document = document_of(names, [record for name in names for record in measured(name)])
    if not quick:
        with atomic_write(RESULTS) as part:
            part.write_text(record_lines(document), encoding="utf-8")
    yield peer_table(document)
    yield peer_table(document, "instructions")
    yield accuracy_table(document)
    yield flash_table(document)
    for name in names:
        yield family_table(document, name)
    yield small_target_table(document)
    yield missing_table(document)


def document_of(names: tuple[str, ...], records: list[Record]) -> Document:
    """Records with what a reader must know of them."""
    missing = missing_libraries()
    libraries = sorted({family.library for family in ALL.values()} - set(missing))
    return {
        "command": "make bench ARGS=device",
        "packages": {name: version(name) for name in ("scikit-learn", *libraries)},
        "compilers": {name: _compiler(name) for name in TARGETS if name != "host"},
        "families": {key: family.title for key, family in ALL.items()},
        "missing": {"TensorFlow Lite Micro": _NO_TENSORFLOW, **missing},
        "sets": {name: _facts(name, records) for name in names},
        "records": records,
    }


def _compiler(target: str) -> str:
    command = [TARGETS[target].compiler, "-dumpversion"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return f"{TARGETS[target].compiler} {run.stdout.strip()}"


def _facts(name: str, records: list[Record]) -> dict[str, Any]:
    data = three_way(name)
    best = max((r["test"] for r in records if r["set"] == name and "test" in r), default=0.5)
    return {
        "rows": len(data.X),
        "validation_rows": len(data.X_validation),
        "test_rows": len(data.X_test),
        "features": data.X.shape[1],
        "classes": data.n_classes,
        "test_error": standard_error(best, len(data.X_test)),
    }


BENCHMARKS = {"device": device}

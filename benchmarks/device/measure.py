"""Measurements of every family on a data set, cached; machines that others beat are left out."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.device.data import ThreeWaySplit, three_way
from benchmarks.device.ours import FOLDER, OURS
from benchmarks.device.peers import FAMILIES, LARGEST_FLASH, Setting, TooLargeError
from benchmarks.device.program import Program
from benchmarks.frontier.measure import cached
from kernlet.export.toolchain import ToolError
from papers.cache import ResultCache

TARGET, SMALL_TARGET = "Cortex-M0", "ATmega328P"
SMALL_FLASH, SMALL_RAM = 32 * 1024, 2048  # of the ATmega328P
LEAST_AGREEMENT = 0.99  # of the labels of C and Python on the validation rows
ALL = {**OURS, **FAMILIES}
#: A machine of a family on a data set, with its figures.
Record = dict[str, Any]


def missing_libraries() -> dict[str, str]:
    """Libraries that are not installed, with what to do."""
    missing = {}
    for name in {family.library for family in ALL.values()}:
        try:
            version(name)
        except PackageNotFoundError:
            missing[name] = f"not measured: {name} is not installed (pip install {name})"
    return missing


def measured(name: str, families: Iterable[str] = tuple(ALL)) -> Iterator[Record]:
    """Records of the families on a data set; of peers, those on the front of each family."""
    missing = missing_libraries()
    for key in families:
        if key in OURS:
            records = _our_records(name, key)
        elif ALL[key].library not in missing:
            records = _peer_records(name, key)
        else:
            continue
        for record in records:
            yield {"set": name, "family": key, **record}


def _our_records(name: str, key: str) -> Iterator[Record]:
    """All sizes, never cached: their export is quick, and may have changed."""
    data = three_way(name)
    for setting in OURS[key].settings:
        try:
            program = OURS[key].build(data, setting)
        except ValueError as error:  # the export refuses the machine
            yield {"setting": setting, "problem": str(error)}
        else:
            sizes = _sizes(program, data)
            yield {"setting": setting, **sizes, **_runs(program, data, flash=sizes["flash"])}


def _peer_records(name: str, key: str) -> Iterator[Record]:
    sized = []
    for setting in FAMILIES[key].settings:
        if sizes := _cached(name, key, setting, "size", _sizes):
            sized.append({"setting": setting, **sizes})
    for record in front(sized):
        count = partial(_runs, flash=record["flash"])
        yield {**record, **(_cached(name, key, record["setting"], "run", count) or {})}


def front(records: list[Record]) -> list[Record]:
    """Records that no other one of less flash equals in validation accuracy, smallest first."""
    kept: list[Record] = []
    for record in sorted(records, key=lambda r: (r["flash"], -r["validation"])):
        if not kept or record["validation"] > kept[-1]["validation"]:
            kept.append(record)
    return kept


def _cached(
    name: str,
    key: str,
    setting: Setting,
    stage: str,
    measure: Callable[[Program, ThreeWaySplit], Record],
) -> Record | None:
    """The record of a stage and a setting of a peer; None where the machine is too large."""

    def compute() -> Record | None:
        data = three_way(name)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # of MLPs, at their limit
                program = FAMILIES[key].build(data, setting)
            return measure(program, data)
        except TooLargeError:
            return None

    place = (stage, key, json.dumps(setting, sort_keys=True))
    record: Record | None = cached(_cache(name), compute, *place)
    return record


@cache
def _cache(name: str) -> ResultCache:
    FOLDER.mkdir(parents=True, exist_ok=True)
    return ResultCache(FOLDER / f"{name}.json")


def _sizes(program: Program, data: ThreeWaySplit) -> Record:
    """Flash, RAM and accuracies of the C."""
    flash, ram = program.flash(TARGET)
    if flash > LARGEST_FLASH:
        raise TooLargeError
    labels = program.labels(np.concatenate([data.X_validation, data.X_test]))
    of_validation, of_test = np.split(labels, [len(data.X_validation)])
    agreement = float(np.mean(of_validation == program.predict(data.X_validation)))
    if agreement < LEAST_AGREEMENT:
        raise ValueError(f"C and Python agree on {100 * agreement:.2f} % of the rows only.")
    return {
        "flash": flash,
        "ram": ram,
        "agreement": agreement,
        "validation": float(np.mean(of_validation == data.y_validation)),
        "test": float(np.mean(of_test == data.y_test)),
    }


def _runs(program: Program, data: ThreeWaySplit, *, flash: int) -> Record:
    """Instructions and stack, and the same of the small target where the machine fits it."""
    n_instructions, n_cycles, stack = program.execution(TARGET, data.measured)
    record: Record = {
        "instructions": round(n_instructions),
        "cycles": round(n_cycles),
        "stack": stack,
    }
    if flash > 2 * SMALL_FLASH:  # doubles have half the size on the small target, not less
        return record
    try:
        flash, ram = program.flash(SMALL_TARGET)
        if flash <= SMALL_FLASH and ram <= SMALL_RAM:
            n_instructions, n_cycles, stack = program.execution(SMALL_TARGET, data.measured)
            if ram + stack <= SMALL_RAM:
                record["avr"] = {
                    "flash": flash,
                    "ram": ram,
                    "stack": stack,
                    "instructions": round(n_instructions),
                    "cycles": round(n_cycles),
                }
    except ToolError as error:
        record["avr_problem"] = str(error)
    return record

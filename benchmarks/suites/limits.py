"""Costs on a device: the model behind DeviceLimits, calibrated and checked on random machines.

``python -m benchmarks.suites.limits`` measures machines and writes device_costs.csv;
``make bench ARGS=ship-limits`` compares its estimates with other machines.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import click
import numpy as np
from scipy.optimize import linprog

from benchmarks.random_plans import random_machine, random_plan
from benchmarks.tables import Table
from kernlet.compact.plan import StoragePlan
from kernlet.export.limits import (
    COSTS,
    PROCESSORS,
    DeviceCost,
    DeviceLimits,
    array_bytes,
    part_counts,
    stored_plan,
    table_bytes,
)

ARITHMETICS = ("float", "integer")
_ANY_SEEDS, _SEARCHED_SEEDS, _CHECKED_SEEDS = range(250), range(250, 400), range(30_000, 30_040)
_MARGIN = 1.05  # for machines that were not measured
_LEAST_BYTES = 1.0


class Machine(NamedTuple):
    """A plan, whether a scaler is in front, and costs by processor."""

    plan: StoragePlan
    has_scaler: bool
    costs: dict[str, DeviceCost]


def measured(
    arithmetic: str, seeds: range, make_plan: Callable[[Any], StoragePlan] = random_plan
) -> Iterator[Machine]:
    """Random machines that can be exported."""
    for seed in seeds:
        random = np.random.default_rng(seed)
        plan, has_scaler = make_plan(random), bool(random.random() < 0.4)
        model, rows = random_machine(random, plan, has_scaler)
        try:
            costs = {name: limits_of(name, arithmetic).measure(model, rows) for name in PROCESSORS}
        except ValueError as error:  # random numbers may be too large for integers
            click.echo(f"seed {seed}: {error}", err=True)
            continue
        if missing := [name for name, cost in costs.items() if cost.estimated]:
            raise RuntimeError(f"A compiler or an emulator for {missing[0]} is not installed.")
        yield Machine(plan, has_scaler, costs)


def searched_plan(random: Any) -> StoragePlan:
    """A plan of formats and a size that a search chooses."""
    table = str(random.choice(["int4", "int8"]))
    projection = str(random.choice(["ternary", "int4", "int6", "int8"]))
    n_centers = int(random.choice([10, 20, 40, 80]))
    return replace(random_plan(random), formats=(table, table, projection), n_centers=n_centers)


def limits_of(processor: str, arithmetic: str, has_scaler: bool = False) -> DeviceLimits:
    """Limits that no machine exceeds."""
    return DeviceLimits(processor, instructions="1G", arithmetic=arithmetic, has_scaler=has_scaler)


def least_upper(counts: Any, costs: Any) -> Any:
    """Nonnegative constants c with counts c >= costs, and the least sum of relative excesses."""
    relative = (counts / costs[:, None]).sum(axis=0)
    solution = linprog(relative, A_ub=-counts, b_ub=-costs, bounds=(0, None))
    if solution.status != 0:
        raise RuntimeError(solution.message)
    return _MARGIN * solution.x


def constants(processor: str, arithmetic: str, machines: list[Machine]) -> dict[Any, float]:
    """Costs by what they are of and part."""
    found = {}
    counts = []
    rest: dict[str, list[float]] = {"code": [], "stack": [], "instructions": []}
    for plan, has_scaler, costs in machines:
        stored, cost = stored_plan(plan, arithmetic), costs[processor]
        counts.append(part_counts(stored, arithmetic, has_scaler))
        rest["code"].append(cost.flash - table_bytes(stored, arithmetic, has_scaler))
        rest["stack"].append(cost.ram - array_bytes(stored, processor, arithmetic))
        rest["instructions"].append(cost.instructions)
    parts = list(dict.fromkeys(part for each in counts for part in each))
    numbers = np.array([[each.get(part, 0) for part in parts] for each in counts], float)
    for of, values in rest.items():
        used = numbers if of == "instructions" else (numbers > 0).astype(float)
        solved = least_upper(used, np.maximum(values, _LEAST_BYTES))
        found |= {(of, part): c for part, c in zip(parts, solved, strict=True)}
    return found


def write_costs(arithmetic: str, machines: list[Machine]) -> None:
    """Write the constants of measured machines into device_costs.csv, beside those it has."""
    columns = [f"{processor} {name}" for processor in PROCESSORS for name in ARITHMETICS]
    table: dict[Any, dict[str, str]] = {}
    if COSTS.exists():
        with COSTS.open(encoding="utf-8", newline="") as file:
            table = {(line["of"], line["part"]): line for line in csv.DictReader(file)}
    for processor in PROCESSORS:
        column = f"{processor} {arithmetic}"
        for line in table.values():
            line[column] = ""
        for (of, part), value in constants(processor, arithmetic, machines).items():
            line = table.setdefault((of, part), {"of": of, "part": part})
            line[column] = _rounded_up(value)
    lines = [line for _, line in sorted(table.items()) if any(line.get(name) for name in columns)]
    with COSTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["of", "part", *columns], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def _rounded_up(value: float) -> str:
    return f"{math.ceil(10 * value) / 10:g}" if value < 100 else str(math.ceil(value))


def limits(quick: bool) -> Iterator[Table]:
    """Estimates over measured costs, on machines that were not calibrated on."""
    seeds = _CHECKED_SEEDS[: 3 if quick else None]
    table = Table(
        f"Estimates of DeviceLimits over what was measured, {len(seeds)} machines of random shapes "
        "in formats that a search chooses",
        ["processor", "arithmetic", "cost", "least", "median", "90 %", "largest"],
    )
    for arithmetic in ARITHMETICS:
        machines = list(measured(arithmetic, seeds, searched_plan))
        for processor, (target, _) in PROCESSORS.items():
            ratios: dict[str, list[float]] = {"flash": [], "ram": [], "instructions": []}
            for plan, has_scaler, costs in machines:
                estimate = limits_of(processor, arithmetic, has_scaler).estimate(plan)
                for name, values in ratios.items():
                    values.append(getattr(estimate, name) / getattr(costs[processor], name))
            for name, values in ratios.items():
                shown = np.quantile(values, [0, 0.5, 0.9, 1])
                table.add(target, arithmetic, name, *(f"{ratio:.2f}" for ratio in shown))
    yield table


BENCHMARKS = {"ship-limits": limits}

if __name__ == "__main__":
    for name in sys.argv[1:] or ARITHMETICS:
        of_any_shape = list(measured(name, _ANY_SEEDS))
        write_costs(name, of_any_shape + list(measured(name, _SEARCHED_SEEDS, searched_plan)))

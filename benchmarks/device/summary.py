"""Machines of equal accuracy or equal flash beside each other, as tables.

Two machines are equally accurate if their accuracies on the validation rows differ by at most one
standard error. Pairs are made with these; test accuracies are only printed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.device.measure import SMALL_TARGET, TARGET, Record
from benchmarks.device.ours import FLOAT, INTEGER
from benchmarks.device.peers import LARGEST_FLASH
from benchmarks.tables import Table

Document = dict[str, Any]
JUDGED = (1024, 2048, 4096)  # bytes of the machines that are judged
MIDDLE = 2048
FLASH_LIMITS = (2048, 4096, 8192, 16_384, 65_536)


def of_family(document: Document, name: str, family: str) -> list[Record]:
    """Records of a family on a data set, without machines that were not exported."""
    records = (r for r in document["records"] if (r["set"], r["family"]) == (name, family))
    return [record for record in records if "problem" not in record]


def peers(document: Document) -> list[str]:
    """Families of other libraries."""
    return [family for family in document["families"] if family not in (INTEGER, FLOAT)]


def standard_error(accuracy: float, n_rows: int) -> float:
    """Of a share of ``n_rows`` independent rows."""
    return float(np.sqrt(max(accuracy * (1 - accuracy), 0.0) / n_rows))


def is_reached(document: Document, record: Record, goal: Record) -> bool:
    """Whether a record is at most one standard error below another in validation accuracy."""
    n_rows = document["sets"][goal["set"]]["validation_rows"]
    error = standard_error(goal["validation"], n_rows)
    return bool(record["validation"] >= goal["validation"] - error)


def smallest(document: Document, family: str, goal: Record) -> Record | None:
    """The machine of a family with the least flash that is as accurate as the goal."""
    records = of_family(document, goal["set"], family)
    reaching = [record for record in records if is_reached(document, record, goal)]
    return min(reaching, key=lambda record: record["flash"], default=None)


def best_peer(document: Document, goal: Record, measure: str = "flash") -> Record | None:
    """The machine of another library that is as accurate as the goal and has the least measure."""
    records = [r for family in peers(document) for r in of_family(document, goal["set"], family)]
    reaching = [record for record in records if is_reached(document, record, goal)]
    return min(reaching, key=lambda record: record[measure], default=None)


def ours_of(document: Document, name: str, max_bytes: int, family: str = INTEGER) -> Record | None:
    """The machine of a budget, None where it was not exported."""
    records = of_family(document, name, family)
    return next((r for r in records if r["setting"]["max_bytes"] == max_bytes), None)


def peer_table(document: Document, measure: str = "flash") -> Table:
    """Each judged machine beside the peer of equal accuracy that has the least measure."""
    least = {"flash": "the least flash", "instructions": "the fewest instructions"}[measure]
    table = Table(
        f"kernlet in integers beside the peer of equal accuracy with {least}, {TARGET}",
        [
            *("data", "kernlet", "test", "flash", "instructions"),
            *("best peer", "test", "flash", "instructions"),
            *("flash, peer / kernlet", "instructions, peer / kernlet"),
        ],
    )
    for name in document["sets"]:
        for sizes, ours in _different_machines(document, name):
            if ours is None:
                table.add(name, sizes, "refused: not exported", *"--------")
                continue
            peer = best_peer(document, ours, measure)
            table.add(
                name,
                sizes,
                *_figures(ours),
                *(["none", *"---"] if peer is None else [_title(document, peer), *_figures(peer)]),
                *_ratios(ours, peer),
            )
    return table


def _different_machines(document: Document, name: str) -> list[tuple[str, Record | None]]:
    """Judged machines with their budgets; one that is not filled up gives the machine below it."""
    machines: dict[tuple[Any, ...], Record | None] = {}
    budgets: dict[tuple[Any, ...], list[str]] = {}
    for max_bytes in JUDGED:
        ours = ours_of(document, name, max_bytes)
        key = (None,) if ours is None else (ours["flash"], ours["validation"], ours["test"])
        machines[key] = ours
        budgets.setdefault(key, []).append(f"{max_bytes:,}")
    return [(f"{', '.join(budgets[key])} bytes", ours) for key, ours in machines.items()]


def family_table(document: Document, name: str) -> Table:
    """Every family at the accuracy of the machine in the middle, in integers where it can be."""
    ours = ours_of(document, name, MIDDLE) or ours_of(document, name, MIDDLE, FLOAT)
    error = document["sets"][name]["test_error"]
    table = Table(
        f"{name}: machines as accurate as kernlet's of {MIDDLE:,} bytes, {TARGET} "
        f"(standard error of a test accuracy: {100 * error:.2f} points)",
        [
            *("machine", "test", "flash", "RAM + stack", "instructions"),
            *("flash / kernlet", "instructions / kernlet"),
        ],
    )
    for family, title in document["families"].items() if ours else ():
        record = ours if family == ours["family"] else smallest(document, family, ours)
        if record is None:
            table.add(title, f"not reached: {_best_test(document, name, family)}", *"-----")
            continue
        test, flash, n_instructions = _figures(record)
        memory = f"{record['ram'] + record['stack']:,}"
        machine = _title(document, record)
        table.add(machine, test, flash, memory, n_instructions, *_ratios(ours, record))
    return table


def accuracy_table(document: Document) -> Table:
    """The most accurate machine of all peers, and the smallest of kernlet's that is as accurate."""
    table = Table(
        f"The peer that is most accurate on the validation rows within {LARGEST_FLASH // 1024} kB "
        f"of flash, and the smallest machine of kernlet that is as accurate, {TARGET}",
        ["data", "peer", "test", "flash", "instructions", "kernlet", *_FIGURES],
    )
    for name in document["sets"]:
        records = [r for family in peers(document) for r in of_family(document, name, family)]
        if not records:
            continue
        peer = max(records, key=lambda record: record["validation"])
        ours = smallest(document, INTEGER, peer)
        cells = ["not reached", _best_test(document, name, INTEGER), "-", "-"]
        if ours:
            cells = [f"{ours['setting']['max_bytes']:,} bytes", *_figures(ours)]
        table.add(name, _title(document, peer), *_figures(peer), *cells)
    return table


def flash_table(document: Document) -> Table:
    """Test accuracies within the same flash."""
    table = Table(
        f"Test accuracy within the same flash, {TARGET}; of each family the machine with the best "
        "validation accuracy",
        ["data", "flash", *document["families"].values()],
    )
    for name in document["sets"]:
        for limit in FLASH_LIMITS:
            cells = []
            for family in document["families"]:
                records = [r for r in of_family(document, name, family) if r["flash"] <= limit]
                best = max(records, key=lambda record: record["validation"], default=None)
                cells.append("-" if best is None else _percent(best["test"]))
            table.add(name, f"{limit // 1024} kB", *cells)
    return table


def small_target_table(document: Document) -> Table:
    """What fits the small target."""
    table = Table(
        f"The machine of each family that is most accurate on the validation rows and fits an "
        f"{SMALL_TARGET} (32 kB of flash, 2 kB of RAM with the stack): test accuracy, bytes of "
        "flash, cycles",
        ["data", *document["families"].values()],
    )
    for name in document["sets"]:
        cells = []
        for family in document["families"]:
            records = [r for r in of_family(document, name, family) if "avr" in r]
            best = max(records, key=lambda record: record["validation"], default=None)
            cells.append(
                "-"
                if best is None
                else f"{_percent(best['test'])}, {best['avr']['flash']:,}, "
                f"{best['avr']['cycles']:,}"
            )
        table.add(name, *cells)
    return table


def missing_table(document: Document) -> Table:
    """What was not measured, and why."""
    table = Table("Not measured", ["machine", "reason"])
    for library, reason in document["missing"].items():
        table.add(library, reason)
    for record in document["records"]:
        if "problem" in record:
            title = _title(document, record)
            table.add(f"{title}, on {record['set']}", f"the export refuses it: {record['problem']}")
    return table


_FIGURES = ("test", "flash", "instructions")


def _figures(record: Record) -> tuple[str, str, str]:
    """Test accuracy, flash and instructions."""
    return _percent(record["test"]), f"{record['flash']:,}", f"{record['instructions']:,}"


def _ratios(ours: Record, peer: Record | None) -> tuple[str, str]:
    if peer is None:
        return "-", "-"
    return tuple(_ratio(peer[key] / ours[key]) for key in ("flash", "instructions"))  # type: ignore[return-value]


def _ratio(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _percent(accuracy: float) -> str:
    return f"{100 * accuracy:.2f} %"


def _best_test(document: Document, name: str, family: str) -> str:
    """The test accuracy of the family's machine that validates best."""
    records = of_family(document, name, family)
    if not records:
        return "nothing fits"
    return f"at most {_percent(max(records, key=lambda r: r['validation'])['test'])}"


def _title(document: Document, record: Record) -> str:
    """The family, and what its setting says of the size."""
    setting, title = record["setting"], document["families"][record["family"]]
    if "max_bytes" in setting:
        return f"{title}, {setting['max_bytes']:,} bytes"
    if "hidden" in setting:
        return f"{title}, {' + '.join(map(str, setting['hidden']))} hidden"
    if "n_rows" in setting:
        return f"{title}, {setting['n_rows']:,} rows"
    leaves = "" if setting["leaves"] is None else f" of {setting['leaves']} leaves"
    vote = ", soft votes" if setting.get("leaf_bits") else ""
    kind = setting["model"] if setting["n_trees"] == 1 else f"{setting['n_trees']} trees"
    extra = " (extra trees)" if setting["model"] == "extra trees" else ""
    return f"{title}: {kind}{leaves}{extra}{vote}"

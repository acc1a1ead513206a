"""Flash, RAM and instructions of a processor as limits of a search, and what a machine takes."""

from __future__ import annotations

import csv
import math
import tempfile
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.export.c import to_c
from kernlet.export.c_integer import FEW_FEATURES, WIDE_ROW
from kernlet.model.model import Model, as_model
from kernlet.quantization import FORMATS, QuantizedExpansion
from kernlet.units import parse_bytes, parse_count

# How this works
# --------------
# The cost of a machine is a sum over its parts (``part_counts``): reading a number of the centers,
# of the projection or of the coefficients in one of the formats, evaluating a kernel, mapping a
# feature, and so on.
#
#     instructions = sum of number of the part * instructions of the part
#     flash        = tables + sum of bytes of code of the parts that occur
#     RAM          = row + scores + mapped features + outputs + sum of stack of the parts that occur
#
# device_costs.csv has these constants for every processor and arithmetic. ``python -m
# benchmarks.suites.limits`` measures random machines of every shape and solves a linear program for
# the constants: the least estimates that are nowhere below what was measured, plus five percent for
# other machines. An estimate is therefore an upper one, and a search that stays within it rarely
# exceeds a limit; whoever needs to be sure measures the machine.

#: Bytes and instructions of each part, by processor and arithmetic.
COSTS = Path(__file__).parent / "device_costs.csv"
#: Targets of :mod:`kernlet.export.toolchain`, and the arithmetic that suits them.
PROCESSORS = {
    "cortex-m0": ("Cortex-M0", "integer"),
    "cortex-m4f": ("Cortex-M4F", "float"),
    "atmega328p": ("ATmega328P", "integer"),
}
_MEMORY = {"atmega328p": {"flash": 32 * 1024, "ram": 2 * 1024}}  # Cortex-M have any
_UNITS = {
    "flash": "bytes of flash",
    "ram": "bytes of RAM",
    "instructions": "instructions per prediction",
}
_MOST_CENTERS = 65_536
_SCALER_BYTES = 8  # per column: shift and scale in float32
_INPUT_BYTES = {"float": 4, "integer": 2}
_SCORE_BYTES = 4
# Codes that integer code reads at once, where a row has no others; else its reading is split.
_GROUPS = {"int4": 2, "int6": 4, "ternary": 5}
_SPLIT = ", split"


@dataclass(frozen=True)
class DeviceCost:
    """What a machine takes on a processor.

    Parameters
    ----------
    flash : int
        Bytes by which a program grows that calls ``predict``: code, tables and run-time library.
    ram : int
        Bytes of the row, the scores and the stack of a prediction.
    instructions : int
        Per prediction.
    estimated : tuple of str
        Which of these are estimates, because a compiler or emulator is missing.
    """

    flash: int
    ram: int
    instructions: int
    estimated: tuple[str, ...] = tuple(_UNITS)


@dataclass(frozen=True)
class DeviceLimits:
    """What a machine may take on a processor, as ``max_bytes`` and ``max_centers`` of a search.

    Both come from a model of the costs, which is calibrated on measured machines and estimates
    more rather than less. :meth:`measure` says what a fitted machine takes.

    Parameters
    ----------
    processor : {"cortex-m0", "cortex-m4f", "atmega328p"}
        The processor.
    flash, ram : int or str, default=None
        Bytes, such as 8000, "8k" or "8Ki". Of an ATmega328P by default all it has. Flash holds
        code, tables and the run-time library that the code needs; RAM the row, the scores and the
        stack.
    instructions : int or str, default=None
        Per prediction, such as 200000 or "200k".
    arithmetic : {"auto", "integer", "float"}, default="auto"
        Of the exported code. "auto" is "float" for the Cortex-M4F and "integer" for others.
    has_scaler : bool, default=False
        Whether a scaler of the columns, such as StandardScaler, is in front of the machine.
    share : float, default=1.0
        Share of the limits that estimates may take.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernlet import CompactKernelClassifier
    >>> from kernlet.export import DeviceLimits
    >>> X, y = load_iris(return_X_y=True)
    >>> limits = DeviceLimits("cortex-m4f", flash="2k", instructions="10k")
    >>> machine = CompactKernelClassifier(
    ...     max_bytes=limits.max_bytes(n_features=4, n_outputs=3),
    ...     max_centers=limits.max_centers,
    ...     n_epochs=5,
    ...     random_state=0,
    ... ).fit(X, y)
    >>> limits.exceeded(limits.measure(machine, X))
    []
    """

    processor: str
    flash: int | str | None = None
    ram: int | str | None = None
    instructions: int | str | None = None
    arithmetic: str = "auto"
    has_scaler: bool = False
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.processor not in PROCESSORS:
            raise ValueError(f"processor={self.processor!r} is not one of {', '.join(PROCESSORS)}.")
        if self.arithmetic not in ("auto", "integer", "float"):
            raise ValueError(f"arithmetic={self.arithmetic!r} is not auto, integer or float.")
        if self.arithmetic == "auto":
            object.__setattr__(self, "arithmetic", PROCESSORS[self.processor][1])
        for name in _UNITS:
            has = _MEMORY.get(self.processor, {}).get(name)
            limit = getattr(self, name)
            if limit is not None:
                limit = (parse_count if name == "instructions" else parse_bytes)(limit)
            if has is not None and limit is not None and limit > has:
                raise ValueError(f"{name}={limit:,}, but the {self.target} has {has:,} bytes.")
            object.__setattr__(self, name, has if limit is None else limit)
        if self.flash is None and self.instructions is None:
            raise ValueError("Give flash or instructions: RAM does not limit the tables.")

    @property
    def target(self) -> str:
        """The processor as :func:`kernlet.export.size_report` names it."""
        return PROCESSORS[self.processor][0]

    @property
    def limits(self) -> dict[str, int]:
        """Those that are given, by name."""
        limits = {name: getattr(self, name) for name in _UNITS}
        return {name: limit for name, limit in limits.items() if limit is not None}

    # -- Limits of a search ------------------------------------------------------------------------

    def max_bytes(self, n_features: int, n_outputs: int) -> int:
        """Bytes that the limits leave for the tables of a machine, without those of a scaler.

        Parameters
        ----------
        n_features : int
        n_outputs : int
            One for two classes and for a number, else one per class.

        Returns
        -------
        n_bytes : int

        Raises
        ------
        ValueError
            Where not even a machine of a single center stays within the limits.
        """
        plain = StoragePlan(n_features, n_outputs, 1, formats=STORAGE["int4"])
        least = self.estimate(plain)
        if self._exceeded(least, self.share):
            raise ValueError(self._refusal(plain, least))
        wide = replace(plain, formats=STORAGE["int8"])
        bounds = []
        if self.flash is not None:
            code = min(self.estimate(plan).flash - plan.nbytes for plan in (plain, wide))
            bounds.append(int(self.share * self.limits["flash"]) - code)
        if self.instructions is not None:
            # Of all formats that a search chooses, int8 has the most bytes per instruction.
            fast = replace(self, flash=None, ram=None)
            n_centers = max(1, fast.max_centers(wide))
            bounds.append(replace(wide, n_centers=n_centers, width="per_center").nbytes)
        return max(plain.nbytes, min(bounds))

    def max_centers(self, plan: StoragePlan) -> int:
        """The most centers of a machine of a shape that stays within the limits.

        Parameters
        ----------
        plan : StoragePlan
            Its number of centers does not matter.

        Returns
        -------
        n_centers : int
        """

        def is_too_large(n_centers: int) -> bool:
            cost = self.estimate(replace(plan, n_centers=n_centers))
            return bool(self._exceeded(cost, self.share))

        return bisect_left(range(1, _MOST_CENTERS + 1), True, key=is_too_large)

    def estimate(self, plan: StoragePlan) -> DeviceCost:
        """What a machine of a plan takes at most, by the model of the costs.

        Parameters
        ----------
        plan : StoragePlan

        Returns
        -------
        cost : DeviceCost
        """
        plan = stored_plan(plan, self.arithmetic)
        costs = _costs(self.processor, self.arithmetic)
        counts = part_counts(plan, self.arithmetic, self.has_scaler)
        used = [part for part, count in counts.items() if count]
        tables = table_bytes(plan, self.arithmetic, self.has_scaler)
        arrays = array_bytes(plan, self.processor, self.arithmetic)
        return DeviceCost(
            math.ceil(tables + sum(costs["code"][part] for part in used)),
            math.ceil(arrays + sum(costs["stack"][part] for part in used)),
            math.ceil(sum(costs["instructions"][part] * counts[part] for part in used)),
        )

    # -- Machines ----------------------------------------------------------------------------------

    def measure(self, model: Any, X: Any = None) -> DeviceCost:
        """What a fitted machine takes, measured as far as compilers and emulators are installed.

        Parameters
        ----------
        model : fitted estimator, or a loaded model
            That of a compact machine.
        X : array-like of shape (n_samples, n_features), default=None
            Rows for :func:`kernlet.to_c`.

        Returns
        -------
        cost : DeviceCost
        """
        model = as_model(model)
        with tempfile.TemporaryDirectory() as folder:
            source = to_c(model, folder, X=X, arithmetic=self.arithmetic)
            (size,) = source.size_report(targets=(self.target,))
        n_features, n_outputs = model.n_features, model.expansion.n_outputs
        measured: dict[str, Any] = {"flash": size.flash, "instructions": size.instructions}
        if size.ram is not None and size.stack is not None:
            row = _INPUT_BYTES[self.arithmetic] * n_features + _SCORE_BYTES * n_outputs
            measured["ram"] = size.ram + size.stack + row
        measured = {name: number for name, number in measured.items() if number is not None}
        missing = tuple(name for name in _UNITS if name not in measured)
        cost = self._estimate_of(model) if missing else DeviceCost(0, 0, 0)
        return replace(cost, **measured, estimated=missing)

    def _estimate_of(self, model: Model) -> DeviceCost:
        """The estimate for a fitted machine."""
        if not isinstance(model.expansion, QuantizedExpansion):
            raise ValueError(
                "Costs are estimated for compact machines alone, and this one cannot be measured: "
                f"install a compiler and an emulator for the {self.target}."
            )
        limits = replace(self, has_scaler=model.scaler is not None)
        return limits.estimate(StoragePlan.of(model.expansion))

    def exceeded(self, cost: DeviceCost) -> list[str]:
        """Which limits a machine exceeds, in words.

        Parameters
        ----------
        cost : DeviceCost

        Returns
        -------
        sentences : list of str
            Such as "8,100 of 8,000 bytes of flash"; none where it stays within all of them.
        """
        return [self._part(cost, name) for name in self._exceeded(cost)]

    def describe(self, cost: DeviceCost) -> str:
        """What a machine takes of every limit, in words.

        Parameters
        ----------
        cost : DeviceCost

        Returns
        -------
        text : str
        """
        return ", ".join(self._part(cost, name) for name in _UNITS)

    def tightened(self, cost: DeviceCost) -> DeviceLimits:
        """Limits of a new search, after a machine has exceeded some.

        Parameters
        ----------
        cost : DeviceCost
            Of that machine.

        Returns
        -------
        limits : DeviceLimits
            With a smaller share, by the ratio of limit and cost.
        """
        ratios = [limit / getattr(cost, name) for name, limit in self.limits.items()]
        return replace(self, share=self.share * min(1.0, *ratios))

    def _exceeded(self, cost: DeviceCost, share: float = 1.0) -> list[str]:
        limits = self.limits
        return [name for name in limits if not getattr(cost, name) <= share * limits[name]]

    def _part(self, cost: DeviceCost, name: str) -> str:
        limit = f" of {self.limits[name]:,}" if name in self.limits else ""
        how = " (estimated)" if name in cost.estimated else ""
        return f"{getattr(cost, name):,}{limit} {_UNITS[name]}{how}"

    def _refusal(self, plan: StoragePlan, least: DeviceCost) -> str:
        needs = [
            f"about {getattr(least, name):,} {_UNITS[name]}, more than "
            f"{int(self.share * self.limits[name]):,}"
            for name in self._exceeded(least, self.share)
        ]
        outputs = f"{plan.n_outputs} output{'s' if plan.n_outputs > 1 else ''}"
        return (
            f"On a {self.target} in {self.arithmetic} arithmetic, a single center for "
            f"{plan.n_features} features and {outputs} takes {' and '.join(needs)}: raise the "
            "limits, or leave out features."
        )


# -- The model of the costs ------------------------------------------------------------------------


def stored_plan(plan: StoragePlan, arithmetic: str) -> StoragePlan:
    """The plan as the code stores it: integers round floating point to eight bits."""
    if arithmetic == "float":
        return plan
    centers, coef, projection = (
        "int8" if FORMATS[name].n_levels is None else name for name in plan.formats
    )
    return replace(plan, formats=(centers, coef, projection))


def table_bytes(plan: StoragePlan, arithmetic: str, has_scaler: bool) -> int:
    """Bytes of the tables that a prediction reads."""
    scaling = _SCALER_BYTES * plan.n_features
    if arithmetic == "float":  # a scaler and the machine share shift and scale
        return plan.nbytes + has_scaler * max(0, scaling - plan.scaling_bytes)
    # Inputs are scaled before a prediction. Intercepts have 32 bits, a jump 16 instead of 8, and a
    # row of a ternary projection may end within a byte.
    more = (_SCORE_BYTES - plan.intercept_bytes) * plan.n_outputs + plan.n_steps
    more += plan.rank if plan.rank is not None and plan.formats[2] == "ternary" else 0
    return plan.nbytes - min(plan.scaling_bytes, scaling) + more


def array_bytes(plan: StoragePlan, processor: str, arithmetic: str) -> int:
    """Bytes of the row and the scores, and of the arrays that a prediction has on the stack."""
    rank = plan.n_inputs if plan.rank is None else plan.rank
    scores = 2 * _SCORE_BYTES * plan.n_outputs
    if arithmetic == "float":
        return 4 * plan.n_features + scores + 4 * rank
    is_short = processor == "atmega328p" or rank > FEW_FEATURES
    before_projection = 2 * plan.n_inputs if plan.rank is not None else 0
    return 2 * plan.n_features + scores + (2 if is_short else 4) * rank + before_projection


def part_counts(plan: StoragePlan, arithmetic: str, has_scaler: bool) -> dict[str, int]:
    """How often a prediction executes each part of the code."""
    is_float = arithmetic == "float"
    n_inputs, n_centers = plan.n_inputs, plan.n_centers
    rank = n_inputs if plan.rank is None else plan.rank
    centers, coef, projection = plan.formats
    n_entries = plan.n_outputs if plan.keeps_all else plan.n_entries or 0
    # integers are scaled before a prediction; a scaler in front takes over the scales of a machine
    packed_columns = is_float and plan.has_scaled_columns and not has_scaler
    counts = {
        "prediction": 1,
        "feature": plan.n_features,
        "scaled column": plan.n_features * (is_float and has_scaler),
        "packed column": plan.n_features * packed_columns,
        "pixel of a block": plan.n_features * (plan.block > 1),
        "block by division": n_inputs * (is_float and _divides(plan)),
        "asinh": n_inputs * plan.is_asinh,
        "feature before steps": n_inputs * bool(plan.n_steps),
        "step": plan.n_steps,
        "kernel value": n_centers,
        "rational quadratic": n_centers * (plan.kernel == "rational_quadratic"),
        "width": n_centers * plan.has_widths,
        "weight": n_centers * rank * (plan.kernel == "diagonal_rbf"),
        "class number": 0 if plan.keeps_all else n_centers * n_entries,
        "output": plan.n_outputs,
        "several outputs": int(plan.n_outputs > 1),
        f"center {_reader(centers, rank, is_float)}": n_centers * rank,
        "feature of 16 bits": n_centers * rank * (not is_float and rank > FEW_FEATURES),
        f"coefficient {_reader(coef, n_entries, is_float)}": n_centers * n_entries,
    }
    if plan.rank is not None:
        is_filled = projection == "ternary" and n_inputs >= WIDE_ROW
        row = -(-n_inputs // 5) * 5 if is_filled else n_inputs
        counts["projected feature"] = rank
        counts[f"projection {_reader(projection, row, is_float)}"] = rank * row
    return counts


def _divides(plan: StoragePlan) -> bool:
    """Whether line and column of a block are found by a division, not by shifting bits."""
    n_blocks = math.isqrt(plan.n_inputs)
    return plan.block > 1 and n_blocks & (n_blocks - 1) != 0


def _reader(format: str, row: int, is_float: bool) -> str:
    """How numbers of a format are read: integers in groups, where those fill a row."""
    is_split = not is_float and row % _GROUPS.get(format, 1)
    return format + _SPLIT if is_split else format


@cache
def _costs(processor: str, arithmetic: str) -> Mapping[str, Mapping[str, float]]:
    """Bytes of code, bytes of stack and instructions of each part."""
    costs: dict[str, dict[str, float]] = {"code": {}, "stack": {}, "instructions": {}}
    with COSTS.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            if number := line[f"{processor} {arithmetic}"]:
                costs[line["of"]][line["part"]] = float(number)
    for parts in costs.values():
        for part in [part for part in parts if part.endswith(_SPLIT)]:
            parts.setdefault(part.removesuffix(_SPLIT), parts[part])  # not measured, but faster
    return costs

"""Multi-layer perceptrons that may be chosen within a number of bytes.

The values that are offered follow those of the compact kernel machine: shapes that fill the budget
first, then one factor at a time around the best so far; with few rows widths that double.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.competitors.mlp_plan import SYMMETRIC, Plan, Setting, Task, format_of
from kernlet.compact.space import smoothings

_NOISE, _NOISE_FACTORS = (
    0.1,
    (0.0, 0.5, 1.0, 2.0, 4.0),
)  # the first is the compact machine's default
_MORE_NOISE = 3  # times the usual noise, with few rows
_RATES = (0.5, 1.0, 2.0)
_MAX_WIDTH = 4096
_ROWS_PER_UNIT = 4  # with few rows
_FEWER_UNITS = (1 / 2, 1 / 4, 1 / 8)
_SMALL_RANK = 8
_RANKS = (8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
_MAX_SQUARE = 32  # inputs of a square projection
_PROJECTION_SHARE = (0.03, 0.65)  # of the bytes
_FORMATS = ("ternary", "int4", "int6", "int8")
_MAX_INPUTS_IN_8_BITS, _MAX_INPUTS_IN_4_BITS = 16, 60
_MAX_TABLE_INPUTS, _MAX_TABLE_NUMBERS = 40, 150  # of tables that a step map may suit
_STEPS, _MORE_STEPS = 8, (4, 16)
_MIN_IMAGE_INPUTS = 144


@dataclass(frozen=True)
class Space:
    """What may be chosen: networks of these depths, in all formats or in one without zero."""

    task: Task
    max_bytes: int
    n_rows: int
    depths: tuple[int, ...] = (1, 2)
    is_symmetric: bool = False
    asinh_bytes: int = 0
    effort: str = "default"

    @property
    def plan(self) -> Plan:
        """What all candidates share."""
        return Plan(self.task, (1,) * self.depths[0], formats=self.formats(None, 1))

    @property
    def is_table(self) -> bool:
        """Whether an asinh or step map may suit the data."""
        n, m = self.task.n_features, self.task.n_outputs
        return n <= _MAX_TABLE_INPUTS and n * m <= _MAX_TABLE_NUMBERS

    @property
    def blocks(self) -> tuple[int, ...]:
        """Sides of blocks to average: 2 for square images of an even side, too."""
        side = math.isqrt(self.task.n_features)
        is_image = side**2 == self.task.n_features >= _MIN_IMAGE_INPUTS and side % 2 == 0
        return (1, 2) if is_image else (1,)

    def formats(self, rank: int | None, block: int) -> tuple[str, str]:
        """Four bits; of a small projection eight, of a first table with many inputs ternary."""
        if self.is_symmetric:
            return SYMMETRIC, SYMMETRIC
        n_inputs = self.task.n_features // block**2
        if n_inputs > _MAX_INPUTS_IN_4_BITS:
            return "ternary", "int4"
        if rank is None:
            return "int4", "int4"
        return "int8" if n_inputs <= _MAX_INPUTS_IN_8_BITS else "int6", "int4"

    def filled(self, plan: Plan, depth: int, limit: int = _MAX_WIDTH) -> Plan | None:
        """The plan with layers as wide as fit; None where two units do not."""
        widths = range(1, limit + 1)
        fits = bisect_right(
            widths, self.max_bytes, key=lambda width: replace(plan, hidden=depth * (width,)).nbytes
        )
        return replace(plan, hidden=depth * (fits,)) if fits > 1 else None

    def setting(self, plan: Plan) -> Setting:
        """A plan with the first noise and smoothing that are tried."""
        return Setting(plan, _NOISE, self.smoothings[0])

    @property
    def smoothings(self) -> tuple[float, ...]:
        """Those that the compact machine tries, the usual one first."""
        return smoothings(self.n_rows, self.task.n_outputs, self.max_bytes)

    def varied(self, best: Setting, **changes: Any) -> list[Setting]:
        """The best with another plan, as wide as fits if the best is."""
        plan, depth = replace(best.plan, **changes), len(best.plan.hidden)
        full = self.filled(best.plan, depth)
        if full is None or full.hidden == best.plan.hidden:
            wide = self.filled(plan, depth)
            return [replace(best, plan=wide)] if wide is not None else []
        return [replace(best, plan=plan)] if plan.nbytes <= self.max_bytes else []


def first_settings(space: Space) -> list[Setting]:
    """Networks that fill the budget: depths, ranks of a projection, and input maps."""
    plans = list(_layouts(space))
    if space.is_table:
        mapped = replace(space.plan, is_asinh=True, scaling_bytes=space.asinh_bytes)
        for plan in (mapped, replace(mapped, n_steps=_STEPS)):
            plans += [space.filled(plan, depth) for depth in space.depths[:2]]
        plans.append(space.filled(replace(space.plan, n_steps=_STEPS), space.depths[0]))
    return [space.setting(plan) for plan in dict.fromkeys(plans) if plan is not None]


def _layouts(space: Space) -> Iterator[Plan | None]:
    shallow, *deep = space.depths
    for block in space.blocks:
        plan = replace(space.plan, block=block, formats=space.formats(None, block))
        for depth in space.depths:
            yield space.filled(plan, depth)
        fair = _fair_ranks(space, block)
        ranks = sorted({fair[0], fair[len(fair) // 2], fair[-1]}) if fair else []
        for rank in ranks if space.effort != "quick" else ranks[len(ranks) // 2 :][:1]:
            of_rank = replace(plan, rank=rank, formats=space.formats(rank, block))
            yield space.filled(of_rank, shallow)
            if rank == ranks[len(ranks) // 2]:
                for depth in deep:
                    yield space.filled(of_rank, depth)


def _fair_ranks(space: Space, block: int) -> list[int]:
    """Ranks whose matrix takes a reasonable share of the bytes."""
    n_inputs = space.task.n_features // block**2
    format = format_of(space.formats(1, block)[0])
    low, high = (share * space.max_bytes for share in _PROJECTION_SHARE)
    ranks = [r for r in _RANKS if r < n_inputs and format.n_bytes(r * n_inputs) <= high]
    if n_inputs <= _MAX_SQUARE and format.n_bytes(n_inputs**2) <= high:
        ranks.append(n_inputs)
    return [r for r in ranks if format.n_bytes(r * n_inputs) >= low] or ranks


def variations(space: Space) -> dict[str, Callable[[Space, Setting], list[Setting]]]:
    """What is varied of the best so far, one factor after the other."""
    varied: dict[str, Callable[[Space, Setting], list[Setting]]] = {
        "depths": _depths,
        "formats": _formats,
        "input maps": _maps,
        "rates": _rates,
        "smoothing": _smoothings,
        "noise": _noises,
        "more or less noise": _further_noise,
        "sizes": _sizes,
    }
    if space.effort == "quick":
        for name in ("formats", "input maps", "smoothing", "more or less noise"):
            del varied[name]
    return varied


def _depths(space: Space, best: Setting) -> list[Setting]:
    """The same with another number of layers."""
    plans = [space.filled(best.plan, d) for d in space.depths if d != len(best.plan.hidden)]
    return [replace(best, plan=plan) for plan in plans if plan is not None]


def _formats(space: Space, best: Setting) -> list[Setting]:
    """A first table of more and of fewer bits."""
    if space.is_symmetric:
        return []
    first, others = best.plan.formats
    place = _FORMATS.index(first)
    settings = []
    for other in {*_FORMATS[max(0, place - 1) : place + 2]} - {first}:
        settings += space.varied(best, formats=(other, others))
    return sorted(settings, key=lambda setting: _FORMATS.index(setting.plan.formats[0]))


def _maps(space: Space, best: Setting) -> list[Setting]:
    """Fewer and more steps; a projection in front of a map of a table."""
    settings = []
    for n_steps in _MORE_STEPS if best.plan.n_steps else ():
        settings += space.varied(best, n_steps=n_steps)
    if any(best.plan.kind[:2]) and best.plan.rank is None and best.plan.n_inputs > _SMALL_RANK:
        formats = space.formats(_SMALL_RANK, best.plan.block)
        settings += space.varied(best, rank=_SMALL_RANK, formats=formats)
    return settings


def _rates(space: Space, best: Setting) -> list[Setting]:
    return [replace(best, rate=rate) for rate in _RATES if rate != best.rate]


def _smoothings(space: Space, best: Setting) -> list[Setting]:
    if not space.task.n_classes:
        return []
    return [replace(best, smoothing=s) for s in space.smoothings if s != best.smoothing]


def _noises(space: Space, best: Setting) -> list[Setting]:
    """Half and twice the noise."""
    return [replace(best, noise=factor * _NOISE) for factor in _NOISE_FACTORS[1::2]]


def _further_noise(space: Space, best: Setting) -> list[Setting]:
    """None or four times as much, where the best has less or more than at first."""
    if best.noise in (0.0, _NOISE):
        return []
    return [replace(best, noise=0.0 if best.noise < _NOISE else _NOISE_FACTORS[-1] * _NOISE)]


def _sizes(space: Space, best: Setting) -> list[Setting]:
    """Fewer units, in eight bits where the formats are open."""
    formats = best.plan.formats if space.is_symmetric else ("int8", "int8")
    if space.formats(best.plan.rank, best.plan.block)[0] == "ternary":
        formats = (best.plan.formats[0], "int8")
    settings = []
    for share in _FEWER_UNITS:
        hidden = tuple(int(share * width) for width in best.plan.hidden)
        plan = replace(best.plan, hidden=hidden, formats=formats)
        if min(hidden) > 1 and plan.nbytes <= space.max_bytes:
            settings.append(replace(best, plan=plan))
    return settings


def small_settings(space: Space) -> list[Setting]:
    """For few rows: widths that double from two units, in the most bits in which they fit."""
    limit = max(2, space.n_rows // _ROWS_PER_UNIT)
    families: list[tuple[int, int | None]] = [(depth, None) for depth in space.depths]
    if space.task.n_features > _SMALL_RANK:
        families.append((space.depths[0], _SMALL_RANK))
    settings = []
    for depth, rank in families:
        formats = [("int8", "int8"), ("int4", "int4"), ("ternary", "int4")]
        if space.is_symmetric:
            formats = [(SYMMETRIC, SYMMETRIC)]
        plans = [replace(space.plan, rank=rank, formats=f) for f in formats]
        wide = [plan for plan in (space.filled(p, depth, limit) for p in plans) if plan]
        for width in _doubled(max((plan.hidden[0] for plan in wide), default=0)):
            plan = next(plan for plan in wide if plan.hidden[0] >= width)
            first = space.setting(replace(plan, hidden=depth * (width,)))
            noises = [first.noise, _MORE_NOISE * first.noise]
            settings += [replace(first, noise=n) for n in noises[: 1 + (space.effort != "quick")]]
    return settings


def _doubled(largest: int) -> list[int]:
    """Widths from two to the largest, without one just below that."""
    widths = [2] if largest >= 2 else []
    while widths and widths[-1] < largest:
        widths.append(2 * widths[-1] if 3 * widths[-1] <= largest else largest)
    return widths


def small_shapes(space: Space, best: Setting) -> list[Setting]:
    """For few rows: input maps and training parameters around the best."""
    plan = best.plan
    asinh = replace(plan, is_asinh=True, scaling_bytes=space.asinh_bytes)
    plans = [replace(plan, n_steps=n) for n in (_STEPS, *_MORE_STEPS)] if space.is_table else []
    plans += [asinh, replace(asinh, n_steps=_STEPS)] if space.is_table else []
    shapes = [replace(best, plan=p) for p in plans if p.nbytes <= space.max_bytes]
    if space.effort == "quick":
        return shapes[:3]
    return shapes + _smoothings(space, best) + _rates(space, best)[:1]

"""The machines that may be chosen: what the parameters leave open, and candidates for it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.compact.trainer import Candidate
from kernlet.quantization import FORMATS, index_bits

# How this works
# --------------
# A candidate is a storage plan (kernel, widths, number of centers, rank of the projection, classes
# per center, steps, formats), the noise on the inputs and the label smoothing. All combinations
# would be thousands. The plain machine (Gaussian kernel, one width, all coefficients, no steps) is
# tried in several sizes or ranks first; then one factor at a time is varied around the best so far.
#
# Which values are offered, and where:
#   projection      8 bits for up to 16 inputs, 4 bits for up to 60, else ternary; then its
#                   neighbours in bits. Its matrix takes a fair share of the bytes.
#   step map        tables of few inputs and classes, whose classes end at thresholds: with a width
#                   per feature or over an asinh map; 8 steps, then 4 and 16
#   block means     square images of an even side
#   few classes     coefficients of 2 or 3 classes per center, where that takes fewer bytes
#   missing values  medians first, then distances over the present features, without a projection
#   noise           times 0, 1/2, 1, 2 and 4 of the parameter
#   smoothing       0, 0.03 and 0.1
# A box kernel, a product of soft windows per feature, was tried and left out: on held-out training
# rows of thyroid 99.4 % in 772 bytes against 99.6 % in 426 by a step map, on the checkerboard 98.1
# against 98.6 % in 160 bytes, at five times the time.
# These values, and 0.03 as the first smoothing, come from a study of 4,000 settings on thirteen
# data sets whose test figures were seen; what is chosen among them is chosen on held-out rows.

#: From this number of rows on, one held-out part replaces the folds.
MANY_ROWS = 2000
SMOOTHINGS = (0.0, 0.03, 0.1)
# With fewer bytes per class, training does not come near the labels, and smoothing only costs:
# on letter in 1 kB, 2.4 points in the study. Short trials do not show it.
_FEW_BYTES_PER_CLASS = 64
NOISE_FACTORS = (0.0, 0.5, 1.0, 2.0, 4.0)
_MORE_NOISE = 3  # times the usual noise, with few rows
_SMALL_RANKS = (8, 16)
_ROWS_PER_CENTER = 4
_FEWER_CENTERS = (1 / 2, 1 / 8)
_MAX_CENTERS_IN_BUDGET = 4096  # more train slowly and gain little
_MAX_CENTERS_BY_FOLDS = 128  # without a budget
_RANKS = (8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
# With few features a square matrix, which is a learned metric, costs little and often pays.
_MAX_METRIC_FEATURES = 32
# Share of the budget that a projection may take. With less its rank is too low to carry the
# classes; with more too few bytes are left for centers.
_PROJECTION_SHARE = (0.03, 0.65)
# One of more than three values takes at most this share of 1 kB, and of larger budgets less: the
# best machines of the study had 9 to 19 % of 1 kB, 6 to 16 % of 4 kB, 2 to 8 % of 16 kB. Short
# trials on few rows mislead here: they favour high ranks and few centers.
_DENSE_SHARE = 0.2
#: Formats of a projection from few bits to many, and the most inputs for which each is the first.
_PROJECTION_FORMATS = ("ternary", "int4", "int6", "int8")
_MAX_INPUTS_IN_8_BITS, _MAX_INPUTS_IN_4_BITS = 16, 60
# A table for a step map. Others have more inputs, or more classes, than a few steps can separate.
_MAX_TABLE_INPUTS, _MAX_TABLE_NUMBERS = 40, 150  # inputs; inputs times outputs
_STEPS, _MORE_STEPS = 8, (4, 16)
_STEP_CENTERS = (12, 40)
_MIN_IMAGE_INPUTS = 144  # below, 2 x 2 means leave too few pixels to see anything


@dataclass(frozen=True)
class Space:
    """What the parameters say and leave open ("auto"); ``plan`` has what all candidates share.

    ``n_centers`` is None where it is open; ``max_centers`` follows from rows, points to start
    from and the parameter. ``centers_of_shape`` has the most centers of a plan of its shape.
    ``asinh_bytes`` are the scaling bytes of an asinh map. ``missing`` is "auto" where both medians,
    which the plan has then, and distances over present features are open.
    """

    plan: StoragePlan
    noise: float
    n_rows: int
    max_centers: int
    max_bytes: int | None = None
    n_centers: int | None = None
    storage: str = "auto"
    projection: Any = "auto"
    kernel: str = "rbf"
    width: str = "shared"
    n_entries: Any = None
    n_steps: Any = 0
    block: Any = 1
    smoothing: Any = None
    effort: str = "default"
    asinh_bytes: int = 0
    centers_of_shape: Callable[[StoragePlan], int] | None = None
    missing: str = "error"

    @property
    def first_size(self) -> int:
        """One center per class, or two."""
        return min(self.max_centers, max(2, self.plan.n_outputs))

    @property
    def small_ranks(self) -> list[Any]:
        """No projection and few ranks, or what is given."""
        if self.projection != "auto":
            return [self.projection]
        return [None, *(rank for rank in _SMALL_RANKS if rank <= self.plain.n_inputs)]

    @property
    def plain(self) -> StoragePlan:
        """What is given, and the plain machine where it is open."""
        given = {
            "kernel": (self.kernel, "rbf"),
            "width": (self.width, "shared"),
            "n_entries": (self.n_entries, None),
            "n_steps": (self.n_steps, 0),
            "block": (self.block, 1),
        }
        shape: dict[str, Any] = {
            name: usual if value == "auto" else value for name, (value, usual) in given.items()
        }
        return replace(self.plan, **shape)

    @property
    def is_table(self) -> bool:
        """Whether a step map may suit the data, and what is given."""
        n_inputs = self.plan.n_features
        is_small = n_inputs <= _MAX_TABLE_INPUTS
        is_small &= n_inputs * self.plan.n_outputs <= _MAX_TABLE_NUMBERS
        return is_small and self.block != 2 and self.max_bytes is not None

    def over_asinh(self, plan: StoragePlan) -> StoragePlan:
        """The plan with an asinh map in front."""
        scaling = self.asinh_bytes or plan.scaling_bytes
        return replace(plan, is_asinh=True, scaling_bytes=scaling)

    def over_present(self, plan: StoragePlan) -> StoragePlan:
        """The plan with distances over present features, without what mixes features."""
        return replace(plan, missing="distance", rank=None, block=1)

    def sizes(self, largest: int) -> list[int]:
        """Doubled from the first size up to the largest, without one just below that.

        Or the given one, if that fits.
        """
        if self.n_centers is not None:
            return [self.n_centers] if self.n_centers <= largest else []
        sizes = [min(self.first_size, largest)] if largest else []
        while sizes and sizes[-1] < largest:
            sizes.append(2 * sizes[-1] if 3 * sizes[-1] <= largest else largest)
        return sizes

    def candidate(self, plan: StoragePlan) -> Candidate:
        """A plan with the first noise and smoothing that are tried."""
        return Candidate(plan, self.noise, self.first_smoothing)

    @property
    def first_smoothing(self) -> float | None:
        """The first of those that are tried; None is that of the loss."""
        if self.smoothing != "auto":
            return None
        return smoothings(self.n_rows, self.plan.n_outputs, self.max_bytes)[0]

    @property
    def limit(self) -> int:
        """The most centers that may fill a budget."""
        return min(self.max_centers, max(1, self.n_rows // 2), _MAX_CENTERS_IN_BUDGET)

    def filled(self, plan: StoragePlan, limit: int) -> StoragePlan | None:
        """The plan with as many centers as fit and are allowed, or with the given number.

        None where it does not fit.
        """
        largest = self.largest(plan, limit if self.n_centers is None else self.n_centers)
        if largest is None or self.n_centers not in (None, largest.n_centers):
            return None
        return largest

    def largest(self, plan: StoragePlan, limit: int) -> StoragePlan | None:
        """The plan with as many centers as fit, at most ``limit``; None where not even one fits."""
        limit = min(limit, self.most_centers(plan))
        if self.max_bytes is None:
            return replace(plan, n_centers=limit) if limit else None
        return largest_within(plan, self.max_bytes, limit)

    def most_centers(self, plan: StoragePlan) -> int:
        """The most centers that a plan of this shape may have, whatever its bytes."""
        if self.centers_of_shape is None:
            return self.max_centers
        return min(self.max_centers, int(self.centers_of_shape(plan)))

    def fits(self, plan: StoragePlan) -> bool:
        """Whether a plan has neither too many bytes nor too many centers."""
        if self.max_bytes is not None and plan.nbytes > self.max_bytes:
            return False
        return plan.n_centers <= self.most_centers(plan)

    def refusal(self) -> ValueError:
        """That the budget is too small for any candidate."""
        plan, storage = self.plain, "int4" if self.storage == "auto" else self.storage
        n_centers = self.n_centers or 1
        least = replace(plan, n_centers=n_centers, rank=None, formats=STORAGE[storage]).nbytes
        advice = ["more bytes", "fewer features"]
        advice += ["fewer centers"] if n_centers > 1 else []
        advice += ['storage="auto"'] if self.storage != "auto" else []
        advice += ['projection="auto"'] if self.projection != "auto" else []
        what = "a single center takes" if n_centers == 1 else f"{n_centers} centers take"
        if self.max_bytes is None or least <= self.max_bytes:
            return ValueError(
                f"max_centers allows no machine of {plan.n_features} features and "
                f"{plan.n_outputs} output{'s' if plan.n_outputs > 1 else ''}"
                f"{'' if n_centers == 1 else f' with {n_centers} centers'}: allow more centers, or "
                "leave out features."
            )
        return ValueError(
            f"max_bytes={self.max_bytes} is too little for {plan.n_features} features and "
            f"{plan.n_outputs} output{'s' if plan.n_outputs > 1 else ''}: {what} {least} bytes. "
            f"Give {', '.join(advice[:-1])} or {advice[-1]}."
        )


def largest_within(plan: StoragePlan, max_bytes: int, max_centers: int) -> StoragePlan | None:
    """The plan with as many centers as fit in the bytes; None where not even one fits."""
    sizes = range(1, max_centers + 1)
    fits = bisect_right(sizes, max_bytes, key=lambda size: replace(plan, n_centers=size).nbytes)
    return replace(plan, n_centers=fits) if fits else None


# -- Few rows --------------------------------------------------------------------------------


def small_candidates(space: Space) -> list[Candidate]:
    """For few rows: every rank, size and noise, in the widest format in which it fits."""
    limit = space.max_centers
    if space.n_centers is None:
        limit = min(limit, max(space.first_size, space.n_rows // _ROWS_PER_CENTER))
    if space.max_bytes is None and space.n_centers is None:
        limit = min(limit, max(space.first_size, _MAX_CENTERS_BY_FOLDS))
    candidates = []
    for rank in space.small_ranks:
        plans = [replace(space.plain, rank=rank, formats=f) for f in _small_formats(space, rank)]
        filled = [plan for plan in (space.largest(plan, limit) for plan in plans) if plan]
        for size in space.sizes(max((plan.n_centers for plan in filled), default=0)):
            widest = next(plan for plan in filled if plan.n_centers >= size)
            first = space.candidate(replace(widest, n_centers=size))
            more = first.noise and space.effort != "quick"
            candidates += [first, replace(first, noise=_MORE_NOISE * first.noise)][: 1 + bool(more)]
    return candidates


def _small_formats(space: Space, rank: int | None) -> list[tuple[str, str, str]]:
    """Formats from many bits to few."""
    if space.storage != "auto":
        return [STORAGE[space.storage]]
    if space.max_bytes is None:
        return [STORAGE["float32"]]
    narrowest = [] if rank is None else [("int4", "int4", "ternary")]
    return [STORAGE["int8"], STORAGE["int4"], *narrowest]


def small_shapes(space: Space, best: Candidate) -> list[Candidate]:
    """For few rows: other shapes than that of the best plain machine, of about its size."""
    shapes: list[Candidate] = []
    if _may_step(space):
        plan = replace(best.plan, rank=None)
        plans = [replace(_step_plan(space, plan), n_steps=n) for n in (_STEPS, *_MORE_STEPS)]
        if space.width in ("auto", "shared"):
            plans.append(space.over_asinh(replace(plan, n_steps=_STEPS, width="shared")))
        shapes += [replace(best, plan=plan) for plan in plans]
    if space.kernel == "auto":
        shapes.append(replace(best, plan=replace(best.plan, kernel="rational_quadratic")))
    if space.effort == "quick":
        shapes = shapes[:3]
    if space.missing == "auto" and best.plan.missing == "median":
        shapes.append(replace(best, plan=space.over_present(best.plan)))
    shapes += _smoothings(space, best) if space.effort != "quick" else []
    return [each for each in shapes if space.fits(each.plan)]


# -- Many rows -------------------------------------------------------------------------------


class Stage(NamedTuple):
    """A step of a search: candidates that vary the best so far, None at first."""

    name: str
    candidates: Callable[[Any], list[Candidate]]


def stages(space: Space) -> list[Stage]:
    """What is tried for many rows, the shape first and then one factor after the other."""
    assert space.max_bytes is not None
    varied = {
        "missing values": _missing,
        "ranks": _ranks,
        "kernels": _kernels,
        "classes per center": _entries,
        "formats": _formats,
        "steps": _steps,
        "smoothing": _smoothings,
        "noise": _noises,
        "more or less noise": _further_noise,
        "sizes": _sizes,
        "further sizes": _further_sizes,
    }
    left_out: dict[str, tuple[str, ...]] = {
        "quick": ("formats", "ranks", "smoothing", "more or less noise", "further sizes"),
        "default": ("ranks",),
        "thorough": (),
    }

    def stage(name: str, vary: Callable[[Space, Candidate], list[Candidate]]) -> Stage:
        return Stage(name, lambda best: _fitting(space, vary(space, best)))

    return [Stage("shapes", lambda _: first_candidates(space))] + [
        stage(name, vary) for name, vary in varied.items() if name not in left_out[space.effort]
    ]


def most_trials(space: Space) -> int:
    """The most candidates that the stages can have."""
    most = {"quick": 8, "default": 16, "thorough": 20}[space.effort]
    more = (space.centers_of_shape is not None) + (space.missing == "auto")
    return len(first_candidates(space)) + most + more


def first_candidates(space: Space) -> list[Candidate]:
    """Plain machines that fill the budget, and machines with a step map."""
    candidates = layouts(space)
    candidates += _stepped(space) if _may_step(space) else []
    return candidates


def layouts(space: Space) -> list[Candidate]:
    """Plain machines that fill the budget, without a projection and of three ranks."""
    assert space.max_bytes is not None
    candidates = []
    for block in _blocks(space):
        plain = replace(space.plain, block=block)
        ranks: list[Any] = [space.projection]
        if space.projection == "auto":
            ranks = [*([None] if block == 1 else []), *_first_ranks(space, plain.n_inputs)]
        for rank in [each for each in ranks if each is None or each <= plain.n_inputs]:
            formats = usual_formats(rank, plain.n_inputs)
            formats = formats if space.storage == "auto" else STORAGE[space.storage]
            plan = space.filled(replace(plain, rank=rank, formats=formats), space.limit)
            candidates += [space.candidate(plan)] if plan else []
    return candidates


def _blocks(space: Space) -> list[int]:
    if space.block != "auto":
        return [space.block]
    return [1, 2] if space.plan.n_features >= _MIN_IMAGE_INPUTS else [1]


def _spread(ranks: list[int], effort: str) -> list[int]:
    """Ranks that are spread over the fair ones: 1, 3 or 5 of them."""
    n_ranks = {"quick": 1, "default": 3, "thorough": 5}[effort]
    places = {(2 * i + 1) * len(ranks) // (2 * n_ranks) for i in range(n_ranks)}
    return [ranks[place] for place in sorted(places)] if ranks else []


def _first_ranks(space: Space, n_inputs: int) -> list[int]:
    """Some of the fair ranks, and that of a square matrix if it is among them."""
    assert space.max_bytes is not None
    fair = fair_ranks(n_inputs, space.max_bytes)
    return sorted({*_spread(fair, space.effort), *(rank for rank in fair if rank == n_inputs)})


def fair_ranks(n_inputs: int, max_bytes: int) -> list[int]:
    """Ranks whose matrix takes a reasonable share of the bytes."""
    format = FORMATS[usual_formats(1, n_inputs)[2]]
    low, high = (share * max_bytes for share in _PROJECTION_SHARE)
    if format.name != "ternary":
        high = min(high, _DENSE_SHARE * max_bytes * min(1.0, (1024 / max_bytes) ** 0.4))
    ranks = [r for r in _RANKS if r < n_inputs and format.n_bytes(r * n_inputs) <= high]
    if n_inputs <= _MAX_METRIC_FEATURES and format.n_bytes(n_inputs**2) <= high:
        ranks.append(n_inputs)
    return [r for r in ranks if format.n_bytes(r * n_inputs) >= low] or ranks


def usual_formats(rank: int | None, n_inputs: int) -> tuple[str, str, str]:
    """Four bits; a small projection in eight bits, a large one in ternary numbers."""
    if rank is None:
        return STORAGE["int4"]
    if n_inputs <= _MAX_INPUTS_IN_8_BITS:
        return ("int4", "int4", "int8")
    return ("int4", "int4", "int4" if n_inputs <= _MAX_INPUTS_IN_4_BITS else "ternary")


def _may_step(space: Space) -> bool:
    return space.n_steps == "auto" and space.is_table and space.projection in ("auto", None)


def _stepped(space: Space) -> list[Candidate]:
    """Machines of few centers behind a step map, with a width per feature or over an asinh map."""
    formats = STORAGE["int8" if space.storage == "auto" else space.storage]
    plan = replace(space.plain, rank=None, n_steps=_STEPS, formats=formats)
    plans = [_step_plan(space, plan)]
    if space.width in ("auto", "shared"):
        plans.append(space.over_asinh(replace(plan, width="shared")))
    filled = [
        space.filled(each, min(size, space.limit)) for size in _STEP_CENTERS for each in plans
    ]
    return [space.candidate(each) for each in dict.fromkeys(filled) if each is not None]


def _step_plan(space: Space, plan: StoragePlan) -> StoragePlan:
    return replace(plan, width="per_feature" if space.width == "auto" else space.width)


# -- Variations ------------------------------------------------------------------------------


def _fitting(space: Space, candidates: list[Candidate]) -> list[Candidate]:
    return [each for each in dict.fromkeys(candidates) if space.fits(each.plan)]


def _varied(space: Space, best: Candidate, changes: Iterable[dict[str, Any]]) -> list[Candidate]:
    """The best with each of some changes; they fill the budget if the best does."""
    plans: list[StoragePlan | None] = [replace(best.plan, **each) for each in changes]
    filled = space.filled(best.plan, space.limit)
    if filled is None or filled.n_centers == best.plan.n_centers:
        plans = [space.filled(plan, space.limit) for plan in plans if plan is not None]
    return [replace(best, plan=plan) for plan in plans if plan is not None]


def _missing(space: Space, best: Candidate) -> list[Candidate]:
    """Distances over the features that are present, in place of medians."""
    if space.missing != "auto" or best.plan.missing != "median":
        return []
    return _varied(space, best, [{"missing": "distance", "rank": None, "block": 1}])


def _kernels(space: Space, best: Candidate) -> list[Candidate]:
    """The rational quadratic kernel, and widths of single centers."""
    kernels = ("rbf", "rational_quadratic") if space.kernel == "auto" else (best.plan.kernel,)
    widths = ("shared", "per_center") if space.width == "auto" else (best.plan.width,)
    if best.plan.width == "per_feature":
        widths = ("per_feature",)
    shapes = [{"kernel": kernel, "width": width} for kernel in kernels for width in widths]
    if space.effort != "thorough" and len(shapes) == 4:
        shapes.remove({"kernel": "rbf", "width": "per_center"})
    if space.effort == "quick":
        shapes = shapes[-1:]
    return _varied(space, best, shapes)


def _entries(space: Space, best: Candidate) -> list[Candidate]:
    """Coefficients of few classes per center, where they take fewer bytes than all."""
    n_outputs, bits = best.plan.n_outputs, FORMATS[best.plan.formats[1]].bits
    if space.n_entries != "auto":
        return []
    numbers = {"quick": (2,), "default": (2, 3, 1), "thorough": (2, 3, 1, 4)}[space.effort]
    # One class per center is too few, except where there are very many classes.
    numbers = tuple(n for n in numbers if n > 1 or n_outputs >= 16)
    saving = [n for n in numbers if n * (bits + index_bits(n_outputs)) < bits * n_outputs]
    return _varied(space, best, ({"n_entries": n} for n in saving))


def _formats(space: Space, best: Candidate) -> list[Candidate]:
    """A projection of more and of fewer bits."""
    *tables, projection = best.plan.formats
    if best.plan.rank is None or space.storage != "auto":
        return []
    if projection == "int8" and space.effort != "thorough":  # small, and worth its bits
        return []
    place = _PROJECTION_FORMATS.index(projection)
    others = _PROJECTION_FORMATS[max(0, place - 1) : place + 2]
    return _varied(space, best, ({"formats": (*tables, other)} for other in others))


def _ranks(space: Space, best: Candidate) -> list[Candidate]:
    """The next smaller and larger ranks."""
    if best.plan.rank is None or space.projection != "auto":
        return []
    assert space.max_bytes is not None
    fair = fair_ranks(best.plan.n_inputs, space.max_bytes)
    place = fair.index(best.plan.rank) if best.plan.rank in fair else 0
    return _varied(space, best, ({"rank": rank} for rank in fair[max(0, place - 1) : place + 2]))


def with_other_ranks(space: Space, best: Candidate) -> list[Candidate]:
    """The best with each of the ranks; without a projection, with one."""
    plan = best.plan
    if space.projection != "auto" or plan.n_steps or plan.missing == "distance":
        return []
    assert space.max_bytes is not None
    changes: dict[str, Any] = {}
    if plan.rank is None:
        if space.width == "auto":
            changes["width"] = "shared"
        if space.storage == "auto":
            changes["formats"] = (*plan.formats[:2], usual_formats(1, plan.n_inputs)[2])
    ranks = fair_ranks(plan.n_inputs, space.max_bytes)
    return _fitting(space, _varied(space, best, ({"rank": rank, **changes} for rank in ranks)))


def _steps(space: Space, best: Candidate) -> list[Candidate]:
    """Fewer and more steps."""
    if not best.plan.n_steps or space.n_steps != "auto":
        return []
    return [replace(best, plan=replace(best.plan, n_steps=n)) for n in _MORE_STEPS]


def _smoothings(space: Space, best: Candidate) -> list[Candidate]:
    if space.smoothing != "auto":
        return []
    offered = smoothings(space.n_rows, space.plan.n_outputs, space.max_bytes)
    return [replace(best, smoothing=smoothing) for smoothing in offered]


def smoothings(n_rows: int, n_outputs: int, max_bytes: int | None) -> tuple[float, ...]:
    """Label smoothings to try, the usual one first: with few rows more is better."""
    if n_rows < MANY_ROWS:
        return SMOOTHINGS[::-1]
    if max_bytes is not None and max_bytes < _FEW_BYTES_PER_CLASS * max(2, n_outputs):
        return SMOOTHINGS[:1]
    return SMOOTHINGS[1], SMOOTHINGS[0], SMOOTHINGS[2]


def _noises(space: Space, best: Candidate) -> list[Candidate]:
    """Half and twice the noise."""
    return _with_noise(space, best, NOISE_FACTORS[1::2])


def _further_noise(space: Space, best: Candidate) -> list[Candidate]:
    """None or four times as much, where the best has less or more than at first."""
    if best.noise in (0.0, space.noise):
        return []
    return _with_noise(space, best, NOISE_FACTORS[:1] if best.noise < space.noise else (4.0,))


def _with_noise(space: Space, best: Candidate, factors: Any) -> list[Candidate]:
    if not space.noise:
        return []
    return [replace(best, noise=factor * space.noise) for factor in factors]


def _sizes(space: Space, best: Candidate) -> list[Candidate]:
    """Fewer centers, in eight bits where the formats are open; with a step map more too."""
    resized = _resized(space, best, (0.5, 2.0) if best.plan.n_steps else _FEWER_CENTERS)
    if space.centers_of_shape is None or space.storage != "auto":
        return resized
    # Where not the bytes limit the centers, eight bits may leave as many of them.
    formats = ("int8", "int8", best.plan.formats[2])
    return _varied(space, best, [{"formats": formats}]) + resized


def _further_sizes(space: Space, best: Candidate) -> list[Candidate]:
    """Half and twice as many again, where the best has another size than at first."""
    if best.plan == space.filled(best.plan, space.limit):
        return []
    return _resized(space, best, (0.5, 2.0))


def _resized(space: Space, best: Candidate, shares: Sequence[float]) -> list[Candidate]:
    if space.n_centers is not None:
        return []
    plan = best.plan
    if space.storage == "auto":
        plan = replace(plan, formats=("int8", "int8", plan.formats[2]))
    sizes = [int(share * plan.n_centers) for share in shares]
    least = min(space.first_size, plan.n_centers)
    sizes = [size for size in sizes if least <= size <= space.limit]
    return [replace(best, plan=replace(plan, n_centers=size)) for size in sizes]

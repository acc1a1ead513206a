"""Which plans fill a number of bytes, choosing among plans by validation, and its picture."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernlet.compact.network import STORAGE, StoragePlan
from kernlet.compact.train import PathPoint, Trial
from kernlet.extras import require
from kernlet.quantization import FORMATS
from kernlet.selection import one_standard_error
from kernlet.sklearn_base import warn_user

# How this works
# --------------
# Without a budget only the number of centers is open. Sizes double from the number of outputs, two
# per round so that two workers are busy, and the one-standard-error rule takes the smallest machine
# that is not measurably worse than the best.
#
# In a budget of bytes the number of centers follows from rank and formats, since each plan is
# filled up; what is open is how to divide the bytes. A full training per plan would be too slow,
# and rank and formats hardly interact, so that they are searched one after the other:
#   1. a third of the epochs for each rank, in the usual formats;
#   2. the same for the other formats at the best rank and without a projection, and for half as
#      many centers where there are more than one per ten rows, which overfit;
#   3. all epochs for the best three; the best of them is chosen.
# Short trials rank plans well enough to select three, but their scores are not comparable with
# those of full ones, so that a short trial is never chosen itself. This is one round of successive
# halving (Jamieson and Talwalkar, 2016).

#: Trains several plans, for a share of the epochs.
RunTrials = Callable[[Sequence[StoragePlan], float], list[Trial]]

_SHORT_TRIAL = 1 / 3  # of the epochs
_N_FINALISTS = 3
_MIN_CENTERS_TO_STOP = 64  # below, two sizes without a gain may be chance
_CROWDED = 0.1  # centers per row above which fewer may generalise better
_RANKS = (8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
_MAX_RANKS_TRIED = 5
# With few features a square matrix, which is a learned metric, costs little and often pays.
_MAX_METRIC_FEATURES = 32
# Share of the budget that a projection may take. With less its rank is too low to carry the
# classes; with more too few bytes are left for centers.
_PROJECTION_SHARE = (0.03, 0.65)


def search_sizes(
    run: RunTrials, plan: StoragePlan, max_centers: int
) -> tuple[Trial, list[PathPoint], str]:
    """Double the centers; the smallest size within one standard error of the best is chosen.

    Beyond 64 centers the search ends where two sizes in a row are no better than the best before.
    """
    sizes = [min(plan.n_centers, max_centers)]
    while sizes[-1] < max_centers:
        sizes.append(min(2 * sizes[-1], max_centers))
    trials: list[Trial] = []
    for start in range(0, len(sizes), 2):
        pair = [replace(plan, n_centers=size) for size in sizes[start : start + 2]]
        best_before = max((t.score for t in trials), default=-np.inf)
        trials += run(pair, 1.0)
        may_stop = pair[-1].n_centers >= _MIN_CENTERS_TO_STOP
        if may_stop and max(t.score for t in trials[start:]) <= best_before:
            break
    best = max(trials, key=lambda t: t.score)
    sizes = [t.plan.n_centers for t in trials]
    chosen = trials[one_standard_error([t.score for t in trials], best.standard_error, sizes)]
    reason = (
        f"{chosen.plan.n_centers} centers: the smallest of {sizes} "
        f"with a validated score ({chosen.score:.4f}) within one standard error "
        f"({best.standard_error:.4f}) of the best ({best.score:.4f}, "
        f"{best.plan.n_centers} centers)."
    )
    best_before = max((t.score for t in trials[:-1]), default=np.inf)
    if chosen is trials[-1] and chosen.score > best_before + chosen.standard_error:
        warn_user(
            "This data does not compress: the validated score still rises at "
            f"{chosen.plan.n_centers} centers, the largest number tried. A larger machine may "
            "do better.",
            UserWarning,
        )
    return chosen, [t.point for t in trials], reason


def search_bytes(
    run: RunTrials,
    plan: StoragePlan,
    max_bytes: int,
    n_rows: int,
    max_centers: int,
    storage: str,
    projection: Any,
) -> tuple[Trial, list[PathPoint], str]:
    """Choose rank, formats and number of centers that fill a number of bytes."""
    by_rank, other_formats = plans_within(plan, max_bytes, max_centers, storage, projection)
    if not by_rank:
        raise ValueError(_too_few_bytes(plan, max_bytes, storage, projection))
    path: list[PathPoint] = []
    finalists = [*by_rank, *other_formats]
    if len(finalists) > 1:
        trials = run(by_rank, _SHORT_TRIAL)
        ranks = {max(trials, key=lambda t: t.score).plan.rank, None}
        second_round = [other for other in other_formats if other.rank in ranks]
        second_round += [
            replace(t.plan, n_centers=t.plan.n_centers // 2)
            for t in trials
            if t.plan.rank in ranks and t.plan.n_centers > _CROWDED * n_rows
        ]
        trials += run(second_round, _SHORT_TRIAL)
        path = [t.point for t in trials]
        finalists = [t.plan for t in sorted(trials, key=lambda t: -t.score)[:_N_FINALISTS]]
    full = run(finalists, 1.0)
    path += [t.point for t in full]
    best = max(full, key=lambda t: t.score)
    reason = (
        f"{best.plan.describe()}; {best.plan.nbytes} of {max_bytes} bytes: the best "
        f"validated score, {best.score:.4f} (standard error {best.standard_error:.4f}), of "
        f"{len(path)} trials."
    )
    if best.plan.n_centers == max_centers:
        reason += f" {max_centers} centers are the most for these rows; bytes are left over."
    return best, path, reason


def _too_few_bytes(plan: StoragePlan, max_bytes: int, storage: str, projection: Any) -> str:
    formats = STORAGE["int4" if storage == "auto" else storage]
    least = replace(plan, n_centers=1, formats=formats).nbytes
    advice = ["more bytes", "fewer features"]
    advice += ['storage="auto"'] if storage != "auto" else []
    advice += ['projection="auto"'] if projection != "auto" else []
    return (
        f"max_bytes={max_bytes} is too little for {plan.n_features} features and "
        f"{plan.n_outputs} outputs: a single center takes {least} bytes. "
        f"Give {', '.join(advice[:-1])} or {advice[-1]}."
    )


def largest_within(plan: StoragePlan, max_bytes: int, max_centers: int) -> StoragePlan | None:
    """The plan with as many centers as fit in the bytes; None where not even one fits."""
    sizes = range(1, max_centers + 1)
    fits = bisect_right(sizes, max_bytes, key=lambda size: replace(plan, n_centers=size).nbytes)
    return replace(plan, n_centers=fits) if fits else None


def plans_within(
    plan: StoragePlan, max_bytes: int, max_centers: int, storage: str, projection: object
) -> tuple[list[StoragePlan], list[StoragePlan]]:
    """Plans that fill a number of bytes: one per rank worth trying, and their other formats."""
    by_rank: list[StoragePlan] = []
    other_formats: list[StoragePlan] = []
    for rank in _ranks(plan.n_features, max_bytes, projection):
        for number, formats in enumerate(_formats(storage, rank, plan.n_features)):
            filled = replace(plan, rank=rank, formats=formats)
            largest = largest_within(filled, max_bytes, max_centers)
            if largest is not None:
                (other_formats if number else by_rank).append(largest)
    return by_rank, other_formats


def _ranks(n_features: int, max_bytes: int, projection: object) -> list[int | None]:
    """No projection, and a few ranks whose matrix takes a reasonable share of the bytes."""
    if projection != "auto":
        return [projection]  # type: ignore[list-item]
    format = FORMATS[_usual_projection_format(n_features)]
    low, high = (share * max_bytes for share in _PROJECTION_SHARE)
    ranks = [r for r in _RANKS if r < n_features and format.n_bytes(r * n_features) <= high]
    if n_features <= _MAX_METRIC_FEATURES and format.n_bytes(n_features**2) <= high:
        ranks.append(n_features)
    ranks = [r for r in ranks if format.n_bytes(r * n_features) >= low] or ranks
    stride = max(1, -(-len(ranks) // _MAX_RANKS_TRIED))
    return [None, *ranks[-1::-stride][::-1]]


def _usual_projection_format(n_features: int) -> str:
    """Ternary for a large matrix, eight bits for a small one."""
    return "int8" if n_features <= _MAX_METRIC_FEATURES else "ternary"


def _formats(storage: str, rank: int | None, n_features: int) -> list[tuple[str, str, str]]:
    """Formats to try, the usual ones first."""
    if storage != "auto":
        return [STORAGE[storage]]
    if rank is None:
        return [("int4", "int4", "int4"), ("int8", "int8", "int8"), ("int6", "int4", "int4")]
    usual = _usual_projection_format(n_features)
    return [("int4", "int4", usual), ("int6", "int4", usual), ("int4", "int4", "int4")]


# -- The picture -----------------------------------------------------------------------------


class CompactPathDisplay:
    """Validated score against size, with standard errors and the size that was chosen.

    Use :meth:`from_estimator`, or ``plot_path`` of a fitted compact machine.

    Parameters
    ----------
    sizes, scores, standard_errors : ndarray of shape (n_sizes,)
    chosen : float
        The size of the fitted machine.
    size_name, score_name : str
        Labels of the axes.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure
    errorbar_ : matplotlib container
    line_ : matplotlib artist
        The line at the chosen size.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kernlet import CompactKernelClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> machine = CompactKernelClassifier("auto", n_epochs=5, random_state=0).fit(X, y)
    >>> display = machine.plot_path()
    >>> display.ax_.get_xlabel()
    'Centers'
    """

    def __init__(
        self,
        *,
        sizes: Any,
        scores: Any,
        standard_errors: Any,
        chosen: float,
        size_name: str = "Centers",
        score_name: str = "Score",
    ) -> None:
        self.sizes, self.scores, self.standard_errors = sizes, scores, standard_errors
        self.chosen, self.size_name, self.score_name = chosen, size_name, score_name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, by: str = "n_centers", **line: Any
    ) -> CompactPathDisplay:
        """Draw the path of a fitted compact machine, by "n_centers" or "nbytes"."""
        check_is_fitted(estimator)
        if by not in ("n_centers", "nbytes"):
            raise ValueError(f'by={by!r} must be "n_centers" or "nbytes".')
        path = [point for point in estimator.path_ if point.is_full]
        path = sorted(path, key=lambda point: getattr(point, by))
        is_classifier = estimator.__sklearn_tags__().estimator_type == "classifier"
        return cls(
            sizes=np.array([getattr(point, by) for point in path]),
            scores=np.array([point.score for point in path]),
            standard_errors=np.array([point.standard_error for point in path]),
            chosen=getattr(estimator, f"{by}_"),
            size_name="Centers" if by == "n_centers" else "Bytes",
            score_name="Validated accuracy" if is_classifier else "Validated R²",
        ).plot(ax=ax, **line)

    def plot(self, *, ax: Any = None, **line: Any) -> CompactPathDisplay:
        """Draw into axes; ``line`` is passed on to matplotlib's ``errorbar``."""
        plt = require("matplotlib.pyplot", f"{type(self).__name__}.plot", "plot")

        if ax is None:
            _, ax = plt.subplots()
        options = {"marker": "o", "capsize": 3, **line}
        self.errorbar_ = ax.errorbar(self.sizes, self.scores, self.standard_errors, **options)
        self.line_ = ax.axvline(
            self.chosen, color="gray", linestyle=":", label=f"chosen: {self.chosen:,}"
        )
        ax.set_xscale("log", base=2)
        ax.set(xlabel=self.size_name, ylabel=self.score_name)
        ax.legend(loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self

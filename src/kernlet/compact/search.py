"""Choosing a size and formats by validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernlet.compact.plan import STORAGE, StoragePlan, plans_within
from kernlet.compact.train import PathPoint, Trial
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
    chosen = next(t for t in trials if t.score >= best.score - best.standard_error)
    sizes = [t.plan.n_centers for t in trials]
    reason = (
        f"{chosen.plan.n_centers} centers: the smallest of {sizes} "
        f"with a validated score ({chosen.score:.4f}) within one standard error "
        f"({best.standard_error:.4f}) of the best ({best.score:.4f}, "
        f"{best.plan.n_centers} centers)."
    )
    if _is_rising(trials) and chosen is trials[-1]:
        warn_user(
            "This data does not compress: the validated score still rises at "
            f"{chosen.plan.n_centers} centers, the largest number tried. A larger machine may "
            "do better.",
            UserWarning,
        )
    return chosen, [t.point for t in trials], reason


def _is_rising(trials: list[Trial]) -> bool:
    """Whether the last size is better than all before by more than a standard error."""
    if len(trials) < 2:
        return False
    last, before = trials[-1], max(t.score for t in trials[:-1])
    return last.score > before + last.standard_error


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

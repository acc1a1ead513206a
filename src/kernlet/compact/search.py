"""Choosing a size and a storage by validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernlet.compact.plan import STORAGE, Layout, candidates
from kernlet.compact.train import PathPoint, Trial

#: Trains several layouts, for a share of the usual epochs.
RunTrials = Callable[[Sequence[Layout], float], list[Trial]]

_SHORT = 1 / 3  # of the epochs: the first round of a search in a budget
_FINALISTS = 3
_ENOUGH_CENTERS = 64  # to see whether more help
_MANY = 0.1  # centers over rows at which fewer may do better


def walk_sizes(run: RunTrials, layout: Layout, largest: int) -> tuple[Trial, list[PathPoint], str]:
    """Try ever larger machines; the smallest within one standard error of the best is chosen.

    Sizes double; beyond 64 centers the walk ends where two in a row are no better than the best
    before them.

    Parameters
    ----------
    run : callable
        Trains layouts for a share of the usual epochs.
    layout : Layout
        Its number of centers is the first to be tried.
    largest : int

    Returns
    -------
    trial : Trial
    path : list of PathPoint
    reason : str
    """
    sizes = [min(layout.n_centers, largest)]
    while sizes[-1] < largest:
        sizes.append(min(2 * sizes[-1], largest))
    trials: list[Trial] = []
    for start in range(0, len(sizes), 2):
        pair = [replace(layout, n_centers=size) for size in sizes[start : start + 2]]
        best_before = max((t.score for t in trials), default=-np.inf)
        trials += run(pair, 1.0)
        is_late = pair[-1].n_centers >= _ENOUGH_CENTERS
        if is_late and max(t.score for t in trials[start:]) <= best_before:
            break
    best = max(trials, key=lambda t: t.score)
    good = best.score - best.standard_error
    chosen = next(t for t in trials if t.score >= good)
    sizes = [t.layout.n_centers for t in trials]
    reason = (
        f"{chosen.layout.n_centers} centers: the smallest of {sizes} "
        f"with a validated score ({chosen.score:.4f}) within one standard error "
        f"({best.standard_error:.4f}) of the best ({best.score:.4f}, "
        f"{best.layout.n_centers} centers)."
    )
    if _is_rising(trials) and chosen is trials[-1]:
        warnings.warn(
            f"This data does not compress: the validated score still rises at "
            f"{chosen.layout.n_centers} centers, the largest number tried. A larger machine may "
            "do better.",
            UserWarning,
            stacklevel=5,
        )
    return chosen, [t.point for t in trials], reason


def spend_bytes(
    run: RunTrials,
    layout: Layout,
    max_bytes: int,
    n_rows: int,
    most: int,
    storage: str,
    projection: Any,
) -> tuple[Trial, list[PathPoint], str]:
    """Choose rank, formats and number of centers that fill a number of bytes.

    Short trials first settle the rank of the projection, then the formats; the best few are
    trained in full, and the best of them is chosen.

    Parameters
    ----------
    run : callable
        Trains layouts for a share of the usual epochs.
    layout : Layout
        Sizes of the problem.
    max_bytes : int
    n_rows : int
        To train on.
    most : int
        The largest number of centers.
    storage : str
    projection : None, int or "auto"

    Returns
    -------
    trial : Trial
    path : list of PathPoint
    reason : str

    Raises
    ------
    ValueError
        Where nothing fits.
    """
    first, second = candidates(layout, max_bytes, most, storage, projection)
    if not first:
        advice = ["more bytes", "fewer features"]
        advice += ['storage="auto"'] if storage != "auto" else []
        advice += ['projection="auto"'] if projection != "auto" else []
        raise ValueError(
            f"max_bytes={max_bytes} is too little for {layout.n_features} features and "
            f"{layout.n_outputs} outputs: a single center takes {_least(layout, storage)} bytes. "
            f"Give {', '.join(advice[:-1])} or {advice[-1]}."
        )
    path: list[PathPoint] = []
    finalists = [*first, *second]
    if len(finalists) > 1:
        tried = run(first, _SHORT)
        ranks = {max(tried, key=lambda t: t.score).layout.rank, None}
        others = [other for other in second if other.rank in ranks]
        others += [
            replace(t.layout, n_centers=t.layout.n_centers // 2)
            for t in tried
            if t.layout.rank in ranks and t.layout.n_centers > _MANY * n_rows
        ]
        tried += run(others, _SHORT)
        path = [t.point for t in tried]
        finalists = [t.layout for t in sorted(tried, key=lambda t: -t.score)[:_FINALISTS]]
    full = run(finalists, 1.0)
    path += [t.point for t in full]
    best = max(full, key=lambda t: t.score)
    reason = (
        f"{best.layout.describe()}; {best.layout.nbytes} of {max_bytes} bytes: the best "
        f"validated score, {best.score:.4f} (standard error {best.standard_error:.4f}), of "
        f"{len(path)} trials."
    )
    if best.layout.n_centers == most:
        reason += f" {most} centers are the most for these rows; bytes are left over."
    return best, path, reason


def _least(layout: Layout, storage: str) -> int:
    """Bytes of a machine of one center."""
    formats = STORAGE["int4" if storage == "auto" else storage]
    return replace(layout, n_centers=1, formats=formats).nbytes


def _is_rising(trials: list[Trial]) -> bool:
    """Whether the last size is better than all before by more than a standard error."""
    if len(trials) < 2:
        return False
    last, before = trials[-1], max(t.score for t in trials[:-1])
    return last.score > before + last.standard_error

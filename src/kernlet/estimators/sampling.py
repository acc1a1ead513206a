"""Drawing rows: parts held out, stratified samples, and seeds for parts of the work."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.reduce.synthetic import apportion


def hold_out(y: Any, fraction: float, random: np.random.RandomState) -> tuple[Indices, Indices]:
    """Rows to train on and rows to choose on, the classes in proportion.

    A class of at least four rows has one held out; every class keeps one to train on.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
    fraction : float
        To hold out.
    random : RandomState

    Returns
    -------
    kept, held_out : ndarray
        Row numbers, ascending.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.estimators.sampling import hold_out
    >>> y = np.repeat([0, 1], [8, 2])
    >>> kept, held_out = hold_out(y, 0.25, np.random.RandomState(0))
    >>> y[held_out]
    array([0, 0])
    """
    order = random.permutation(len(y))
    groups = [order[y[order] == label] for label in np.unique(y)]
    counts = [max(int(fraction * len(group)), int(len(group) >= 4)) for group in groups]
    chosen = [group[:count] for group, count in zip(groups, counts, strict=True)]
    held_out = np.sort(np.concatenate(chosen))
    return np.setdiff1d(np.arange(len(y)), held_out), held_out


def stratified_sample(y: Any, rows: Indices, size: int, random: np.random.RandomState) -> Indices:
    """Some of the rows, the classes in proportion and none missing.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Labels of all rows.
    rows : ndarray
        The rows to draw from.
    size : int
    random : RandomState

    Returns
    -------
    sample : ndarray
        Ascending; larger than ``size`` only where small classes need a row each.
    """
    order = random.permutation(rows)
    groups = [order[y[order] == label] for label in np.unique(y[rows])]
    shares = apportion(np.array([len(group) for group in groups]), size)
    chosen = [g[: max(1, share)] for g, share in zip(groups, shares, strict=True)]
    return np.sort(np.concatenate(chosen))


def some_rows(y: Any, rows: Indices, most: int, seed: int) -> Indices:
    """The rows themselves, or a stratified sample where they are too many."""
    if len(rows) <= most:
        return rows
    return stratified_sample(y, rows, most, np.random.RandomState(seed))


def seed_of(*parts: int) -> int:
    """A seed for one part of the work, whatever the order in which the parts are done."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0])

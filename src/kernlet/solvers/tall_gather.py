"""A float64 pass: decision values, the rows near the margin, and the sum of all others."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats
from kernlet.kernels.tiles import KernelTiles, TileMaker
from kernlet.problems.smoothed_hinge import SmoothedHinge
from kernlet.problems.tall_margin import TallMargin
from kernlet.solvers.near import TIE, Near


@dataclass(frozen=True, eq=False)
class Window:
    """Which rows count as near the margin.

    Parameters
    ----------
    reach : float
        |1 - d f| up to which a row is near; negative where an output is left out.
    width : float
        Of the smoothed hinge whose slope times nu is the t of far rows; 0 for a sharp one, with
        which rows on the margin keep the t they have.
    kept : float
        Share of the near rows that is taken, evenly spread: 1 unless too many are equal.
    most : float
        Near rows of a tile of kernel values, as a share of its rows.
    """

    reach: float
    width: float
    kept: float
    most: float = 1.0


class Gathered:
    """What a pass has gathered so far.

    Parameters
    ----------
    values : list of ndarray of shape (n_block_rows, n_outputs)
        Decision values, block by block.
    near : list of lists of (ndarray, ndarray)
        For each output, the numbers of near rows and their kernel values, block by block.
    far : ndarray of shape (n_outputs, 2, s + 1)
    """

    def __init__(self, values: Floats, near: list[list[tuple[Indices, Floats]]], far: Floats):
        self.values, self.near, self.far = [values], near, far
        self.n_rows = len(values)

    def __add__(self, other: Gathered) -> Gathered:
        for mine, theirs in zip(self.near, other.near, strict=True):
            mine += [(numbers + self.n_rows, K) for numbers, K in theirs]
        self.values += other.values
        self.far += other.far
        self.n_rows += other.n_rows
        return self

    def of_output(self, problem: TallMargin, number: int, duals: Floats) -> Near:
        """The near rows and the sum of the others, of one output with its t so far."""
        numbers = np.concatenate([numbers for numbers, _ in self.near[number]])
        return Near(
            numbers,
            np.concatenate([K for _, K in self.near[number]]),
            problem.signs[numbers, number].astype(np.float64),
            problem.error_weights[numbers, number],
            self.far[number],
            duals[numbers],
        )


def gather_block(
    tiles: KernelTiles,
    before: Floats,
    crossed: Any,
    duals: Floats,
    signs: Any,
    weights: Floats,
    coef: Floats,
    windows: list[Window],
) -> Gathered:
    """Decision values of a block of rows, those of them near the margin, the sum of the others.

    Parameters
    ----------
    tiles : KernelTiles
    before : ndarray of shape (n_block_rows, n_outputs)
        Earlier decision values: rows that changed sides since count as near.
    crossed : ndarray of bool of shape (n_block_rows, n_outputs)
        Rows that did so earlier, and count as near too.
    duals : ndarray of shape (n_block_rows, n_outputs)
        The t of rows so far.
    signs, weights : ndarray of shape (n_block_rows, n_outputs)
    coef : ndarray of shape (s + 1, n_outputs)
    windows : list of Window
        One for each output.
    """
    s, n_outputs = tiles.n_centers, len(windows)
    values = np.array(before, dtype=np.float64)
    far = np.zeros((n_outputs, 2, s + 1))
    near: list[list[tuple[Indices, Floats]]] = [[] for _ in windows]
    open_ = [number for number, window in enumerate(windows) if window.reach >= 0]
    for rows, K in tiles:
        values[rows, open_] = K @ coef[:-1, open_] + coef[-1, open_]
        for number in open_:
            d, nu, window = signs[rows, number], weights[rows, number], windows[number]
            r = 1.0 - d * values[rows, number]
            then = 1.0 - d * before[rows, number]
            inside = np.abs(r) <= window.reach
            crosses = crossed[rows, number] | changed_sides(then, r)
            numbers = np.flatnonzero((inside | crosses) & (nu > 0))
            numbers = _spread(numbers, window.kept, window.most * len(r))
            near[number].append((numbers + rows.start, K[numbers]))
            t = fixed_duals(nu, r, window.width, duals[rows, number])
            t[numbers] = 0.0
            for side, sign in enumerate((1, -1)):
                part = np.where(d == sign, t, 0.0)
                far[number, side, :-1] += part @ K
                far[number, side, -1] += part.sum()
    return Gathered(values, near, far)


def changed_sides(before: Floats, after: Floats) -> Any:
    """Which residuals went from one side of the margin to the other; ties have no side."""
    return ((before > TIE) & (after < -TIE)) | ((before < -TIE) & (after > TIE))


def fixed_duals(weights: Floats, residuals: Floats, width: float, duals: Floats) -> Floats:
    """The t that rows have outside the program: by the side they are on, as before for ties."""
    if width > 0:
        return weights * SmoothedHinge(width).slope(residuals)
    return np.where(np.abs(residuals) <= TIE, duals, weights * (residuals > 0))


def _spread(numbers: Indices, share: float, most: float) -> Indices:
    """Some of the numbers, evenly spread."""
    count = min(max(1, round(share * len(numbers))), math.ceil(most))
    if count >= len(numbers):
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, count).astype(np.intp)]


def gather(
    problem: TallMargin,
    before: Floats,
    crossed: Any,
    duals: Floats,
    coef: Floats,
    windows: list[Window],
) -> tuple[Floats, Gathered]:
    """A pass over all rows in float64; see :func:`gather_block`.

    Returns
    -------
    values : ndarray of shape (n_rows, n_outputs)
        Decision values.
    gathered : Gathered
    """
    total: Gathered = problem.rows.map_reduce(
        gather_block,
        operator.add,
        by_row=(before, crossed, duals, problem.signs, problem.error_weights),
        shared=(coef, windows),
        prepare=TileMaker(problem.kernel, problem.centers, np.float64),
    )
    values = np.concatenate(total.values)
    total.values = []
    return values, total

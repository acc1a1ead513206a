"""Slopes and curvature of the smoothed errors, summed over blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet.kernels.kernel import Floats
from kernlet.kernels.tiles import KernelTiles

_BAND_ROWS = 1024  # rows of a product for the Hessian, at least


@dataclass
class Curvature:
    """Sums over rows: K's values along directions, and slopes and curvature there.

    Parameters
    ----------
    moves : list of ndarray of shape (n_block_rows, n_outputs)
        What the directions add to the decision values, block by block.
    gradient : ndarray of shape (n_outputs, s + 1)
    hessian : ndarray of shape (n_outputs, s + 1, s + 1)
    """

    moves: list[Floats]
    gradient: Floats
    hessian: Floats

    def __add__(self, other: Curvature) -> Curvature:
        self.moves += other.moves
        self.gradient += other.gradient
        self.hessian += other.hessian
        return self


def curvature_of_block(
    tiles: KernelTiles,
    values: Floats,
    signs: Any,
    weights: Floats,
    directions: Floats,
    widths: Floats,
) -> Curvature:
    """Slopes and curvature of the smoothed errors a step away, over one block.

    Products within a tile have the precision of the tile; their sums are float64.

    Parameters
    ----------
    tiles : KernelTiles
    values, signs, weights : ndarray of shape (n_block_rows, n_outputs)
        Decision values before the step, d and nu.
    directions : ndarray of shape (s + 1, n_outputs)
        The steps in beta and, last, the intercept.
    widths : ndarray of shape (n_outputs,)
        Of the smoothed hinge; 0 leaves an output out.
    """
    n_outputs, s = len(widths), tiles.n_centers
    chosen = np.flatnonzero(widths)
    moves = np.zeros((tiles.n_rows, n_outputs), np.float32)
    gradient = np.zeros((n_outputs, s + 1))
    bands = [_Band(s) for _ in chosen]
    is_still = not directions.any()
    for rows, K in tiles:
        if not is_still:
            steps = directions[:, chosen].astype(K.dtype)
            moves[rows, chosen] = K @ steps[:-1] + steps[-1]
        r = 1.0 - signs[rows][:, chosen] * (values[rows] + moves[rows])[:, chosen]
        nu = weights[rows][:, chosen]
        slopes = np.clip(r / widths[chosen] + 0.5, 0.0, 1.0)
        pulls = -slopes * nu * signs[rows][:, chosen]
        gradient[chosen, :-1] += (K.T @ pulls.astype(K.dtype)).T
        gradient[chosen, -1] += pulls.sum(axis=0)
        for place, band in enumerate(bands):
            inside = np.flatnonzero((slopes[:, place] > 0) & (slopes[:, place] < 1))
            band.add(K, inside, nu[inside, place] / widths[chosen[place]])
    hessian = np.zeros((n_outputs, s + 1, s + 1))
    for number, band in zip(chosen, bands, strict=True):
        hessian[number] = band.total()
    return Curvature([moves], gradient, hessian)


class _Band:
    """Sums w_i (K_i, 1)(K_i, 1)' over rows, many of them at a time."""

    def __init__(self, s: int) -> None:
        self.sum = np.zeros((s + 1, s + 1))
        self._parts: list[Floats] = []
        self._count = 0

    def add(self, K: Floats, inside: Any, weights: Floats) -> None:
        """Count in the weighted products of some rows of a tile, with a column of ones."""
        part = np.empty((len(inside), K.shape[1] + 1))  # float32 products lose definiteness
        roots = np.sqrt(weights)
        np.multiply(K[inside], roots[:, None], out=part[:, :-1])
        part[:, -1] = roots
        self._parts.append(part)
        self._count += len(inside)
        if self._count >= _BAND_ROWS:
            self._flush()

    def total(self) -> Floats:
        self._flush()
        return self.sum

    def _flush(self) -> None:
        if self._count:
            part = np.concatenate(self._parts)
            self.sum += part.T @ part
        self._parts, self._count = [], 0

"""Shapley values of any game: over all coalitions of few players, or from random permutations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.kernels.gram import slices_of

# How this works
# --------------
# Coalitions are rows of which some players are those of x and the others those of a background row
# b. Behind a projection P every player moves all coordinates, and the kernel is not a product. The
# coordinates of a coalition are those of b plus the moves of its players, the columns of P times
# x - b: along a permutation they are cumulative sums, and P is multiplied once per pair (x, b).
#
# A permutation gives each player the difference that its arrival makes; the mean over permutations
# and background rows is unbiased (Castro, Gomez and Tejada, 2009). Each permutation is also used in
# reverse, and every background row equally often: at equal cost this takes a third off the error.
# Along every permutation the differences sum to f(x) - f(b), so that additivity is exact.

_CHUNK = 2**19  # numbers of an array that is worked on at once: 4 MB
_MOST_PLAYERS = 16  # of which all coalitions are tried


@dataclass(frozen=True, eq=False)
class MovedGame:
    """A function of coordinates, each of which any player may move.

    Parameters
    ----------
    function : callable
        Outputs (n, n_outputs) of coordinates (n, n_coordinates).
    matrix : ndarray of shape (n_coordinates, n_features) or None
        Coordinates per feature; None for the identity.
    owner : ndarray of shape (n_features,)
        The player of each feature.
    n_players, n_outputs, n_centers : int
    """

    function: Callable[[Floats], Floats]
    matrix: Floats | None
    owner: Indices
    n_players: int
    n_outputs: int
    n_centers: int

    def moves(self, difference: Floats) -> Floats:
        """What each player adds to the coordinates, of shape (n_players, n_coordinates)."""
        if self.matrix is None:
            moves = np.zeros((self.n_players, len(difference)))
            moves[self.owner, np.arange(len(difference))] = difference
            return moves
        players = np.zeros((self.n_players, len(difference)))
        players[self.owner, np.arange(len(difference))] = difference
        return players @ self.matrix.T

    def outputs(self, points: Floats) -> Floats:
        """Outputs of points in an array of any dimensions."""
        flat = self.function(points.reshape(-1, points.shape[-1]))
        return flat.reshape(*points.shape[:-1], -1)

    def numbers_per_point(self) -> int:
        """Numbers that one point takes while its outputs are computed."""
        n_coordinates = len(self.owner) if self.matrix is None else len(self.matrix)
        return max(n_coordinates, self.n_centers)


def has_few_coalitions(n_players: int, n_permutations: int) -> bool:
    """Whether all coalitions take no more evaluations than the permutations and their reverses."""
    return n_players <= _MOST_PLAYERS and 2**n_players <= 2 * n_permutations * (n_players + 1)


def all_coalitions(game: MovedGame, h: Floats, H: Floats, U: Floats) -> Floats:
    """Values (n_players, n_outputs) of a row, over the background rows H, by the definition.

    U are the coordinates of the background rows. Time grows with 2^n_players x background.
    """
    p = game.n_players
    masks = (np.arange(2**p)[:, None] >> np.arange(p)) & 1
    worth = np.zeros((2**p, game.n_outputs))
    step = max(1, _CHUNK // game.numbers_per_point())
    for features, coordinates in zip(H, U, strict=True):
        moves = game.moves(h - features)
        for some in slices_of(2**p, step):
            worth[some] += game.outputs(coordinates + masks[some] @ moves)
    worth /= len(H)
    sizes = masks.sum(axis=1)
    weights = np.array([factorial(s) * factorial(max(0, p - s - 1)) / factorial(p) for s in sizes])
    values = np.empty((p, game.n_outputs))
    for player in range(p):
        without = np.flatnonzero(masks[:, player] == 0)
        gains = worth[without + (1 << player)] - worth[without]
        values[player] = weights[without] @ gains
    return values


def permutations(n_players: int, n_background: int, n_per_row: int, random: Any) -> Indices:
    """Random orders of the players, of shape (n_background, n_per_row, n_players)."""
    keys = random.random_sample((n_background, n_per_row, n_players))
    return np.argsort(keys, axis=2, kind="stable")


def sampled_values(
    game: MovedGame, h: Floats, H: Floats, U: Floats, orders: Indices
) -> tuple[Floats, Floats]:
    """Values and standard errors (n_players, n_outputs) of a row, over the background rows H.

    ``orders`` of shape (n_background, n_per_row, n_players), two or more per row, are used forwards
    and backwards. Time grows with their number x n_players x centers.
    """
    n_background, n_per_row, p = orders.shape
    total, within = np.zeros((2, p, game.n_outputs))
    per_background = 2 * n_per_row * (p + 1) * game.numbers_per_point()
    for some in slices_of(n_background, max(1, _CHUNK // per_background)):
        moves = np.stack([game.moves(h - features) for features in H[some]])
        order = orders[some]
        pairs = np.zeros((len(order), n_per_row, p, game.n_outputs))
        for direction in (order, order[:, :, ::-1]):
            path = np.empty((len(order), n_per_row, p + 1, moves.shape[-1]))
            path[:, :, 0] = 0.0
            numbers = np.arange(len(order))[:, None, None]
            np.cumsum(moves[numbers, direction], axis=2, out=path[:, :, 1:])
            path += U[some][:, None, None]
            gains = np.diff(game.outputs(path), axis=2)
            places = np.broadcast_to(direction[..., None], gains.shape)
            found = np.empty_like(gains)
            np.put_along_axis(found, places, gains, axis=2)
            pairs += found
        pairs /= 2
        total += pairs.sum(axis=(0, 1))
        within += np.square(pairs - pairs.mean(axis=1, keepdims=True)).sum(axis=(0, 1))
    n_pairs = n_background * n_per_row
    # Permutations are independent within each background row, and these are all there are.
    variance = within / (n_background * (n_per_row - 1))
    return total / n_pairs, np.sqrt(variance / n_pairs)

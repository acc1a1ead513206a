"""Rows that are the pixels of square images: how to tell, block means, and random transforms."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from kernlet._typing import Array, Floats, Indices
from kernlet.devices import Device, array_namespace

#: Side of images, in pixels, that block means are tried for: they would leave little of smaller.
_LEAST_SIDE = 14
_SAMPLE_ROWS = 1000  # from which correlations of pixels are computed
_DISTANT = 4  # pixels
_LEAST_CORRELATION = 0.4


def image_side(n_features: int) -> int:
    """The side of square images of this many pixels."""
    side = math.isqrt(n_features)
    if side * side != n_features:
        raise ValueError(
            f"X has {n_features} columns, which are not the pixels of a square image ({side} x "
            f"{side} has {side * side}, {side + 1} x {side + 1} has {(side + 1) ** 2}): give "
            "images of that shape, or leave augment and block_means out."
        )
    return side


def block_means(rows: Array, block: int) -> Array:
    """Means of block x block pixels of square images, row by row, in an array of any library."""
    side = image_side(rows.shape[1])
    if side % block:
        raise ValueError(
            f"Images of {side} x {side} pixels cannot be divided into blocks of {block} x {block}: "
            "leave block means out."
        )
    xp = array_namespace(rows)
    images = xp.reshape(rows, (-1, side, side))
    total = images[:, ::block, ::block]
    for i in range(block):
        for j in range(block):
            if i or j:
                total = total + images[:, i::block, j::block]
    return xp.reshape(total / block**2, (rows.shape[0], -1))


def are_images(rows: Floats) -> bool:
    """Whether columns look like pixels of square images of even side, for which to try block means.

    Neighbours in both directions correlate, and much more than pixels at a distance of four do.
    """
    # In a time series of 16 x 16 numbers, neighbours in the second direction are 16 steps apart,
    # and correlate less than numbers 4 steps apart in the first. Least correlation of neighbours,
    # largest at a distance: usps 0.67, 0.14; mnist 0.70, 0.08; usps with its columns permuted 0.07,
    # 0.08; a random walk 0.90, 0.96; one-hot columns of mushroom -0.15, 0.03.
    side = math.isqrt(rows.shape[1])
    if side * side != rows.shape[1] or side % 2 or side < _LEAST_SIDE or len(rows) < 2:
        return False
    rows = rows[:: -(-len(rows) // _SAMPLE_ROWS)].astype(np.float64)
    rows -= rows.mean(axis=0)
    deviations = rows.std(axis=0)
    does_vary = deviations > 1e-6 * deviations.max()
    images = (rows / np.where(does_vary, deviations, 1.0)).reshape(-1, side, side)
    does_vary = does_vary.reshape(side, side)

    def correlation(down: int, right: int) -> float:
        first = (slice(0, side - down), slice(0, side - right))
        second = (slice(down, side), slice(right, side))
        every, both = slice(None), does_vary[first] & does_vary[second]
        products = np.einsum("nij,nij->ij", images[(every, *first)], images[(every, *second)])[both]
        return float(products.mean()) / len(images) if len(products) else 0.0

    near = min(correlation(0, 1), correlation(1, 0))
    far = max(correlation(0, _DISTANT), correlation(_DISTANT, 0))
    return near > _LEAST_CORRELATION and 1 - far > 2 * (1 - near)


# -- Random transforms -----------------------------------------------------------------------
#
# Training sees images moved a little, in other ways as it goes on. A transform takes each pixel
# from a place in the original, between four of its pixels, with weights by bilinear interpolation;
# pixels beyond the border have the value of the background. One transform for each image would take
# longer than training itself. Instead, images are the columns of a few groups of rows; a group is
# multiplied by one sparse matrix of a fixed collection, drawn at random, and half of the groups get
# another one in each epoch: a tenth of the time of training 100 centers.

#: Ranges of "affine", on either side: a digit stays a digit.
_DEGREES, _SCALING, _PIXELS = 9.0, 0.1, 1.1
_N_AFFINE = 256  # transforms in the collection
# Those that change nothing. Interpolation blurs, and machines that never saw a sharp image were 0.3
# to 1 points worse on held-out rows of usps (100 centers, 3,000 training rows).
_N_UNCHANGED = 64


def shifts() -> tuple[Floats, Floats]:
    """The nine shifts by up to a pixel in both directions, as matrices and moves."""
    moves = np.stack(np.meshgrid([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]), axis=-1).reshape(-1, 2)
    return np.broadcast_to(np.eye(2), (len(moves), 2, 2)), moves


def random_affine(count: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Rotations and scalings about the middle, with shifts, as matrices and moves."""
    angles = np.radians(random.uniform(-_DEGREES, _DEGREES, count))
    sizes = random.uniform(1 - _SCALING, 1 + _SCALING, count)
    cosines, sines = np.cos(angles) / sizes, np.sin(angles) / sizes
    matrices = np.stack([cosines, sines, -sines, cosines], axis=1).reshape(-1, 2, 2)
    return matrices, random.uniform(-_PIXELS, _PIXELS, size=(count, 2))


def affine_collection() -> tuple[Floats, Floats]:
    """The fixed collection of affine transforms, a quarter of which change nothing."""
    matrices, moves = random_affine(_N_AFFINE, np.random.default_rng(0))
    matrices[:_N_UNCHANGED], moves[:_N_UNCHANGED] = np.eye(2), 0.0
    return matrices, moves


def interpolate(matrix: Floats, move: Floats, side: int) -> tuple[Indices, Floats]:
    """The four pixels that each pixel is taken from, and their weights: (side^2, 4) each.

    Pixel p is taken from the place matrix (p - middle) + middle - move.
    """
    middle = (side - 1) / 2
    grid = np.stack(np.divmod(np.arange(side * side), side), axis=1)
    places = (grid - middle) @ matrix.T + middle - move
    corner = np.floor(places)
    shares = places - corner
    sources, weights = [], []
    for at in np.array([[0, 0], [0, 1], [1, 0], [1, 1]]):
        pixel = corner + at
        is_inside = ((pixel >= 0) & (pixel < side)).all(axis=1)
        sources.append(np.clip(pixel, 0, side - 1) @ (side, 1))
        weights.append(is_inside * np.abs(shares - (1 - at)).prod(axis=1))
    return np.stack(sources, axis=1).astype(np.intp), np.stack(weights, axis=1).astype(np.float32)


@lru_cache(maxsize=4)
def _collection(kind: str, side: int) -> list[tuple[Indices, Floats]]:
    """The transforms of a kind."""
    pairs = shifts() if kind == "shift" else affine_collection()
    return [interpolate(*pair, side) for pair in zip(*pairs, strict=True)]


def background(rows: Floats) -> float:
    """The value beyond the border of square images: the median of the pixels at it."""
    side = image_side(rows.shape[1])
    at_border = np.ones((side, side), dtype=bool)
    at_border[1:-1, 1:-1] = False
    return float(np.median(rows[:, at_border.ravel()]))


class Augmenter:
    """Transforms of square images with a background on a device, of the kind shift or affine."""

    def __init__(self, kind: str, side: int, empty: float, device: Device) -> None:
        self._empty, self._device = empty, device
        self.begin(0)
        drawn = _collection(kind, side)
        self.n_transforms = len(drawn)
        self._transforms: list[Any]
        if device.is_numpy:
            self._transforms = [_as_matrix(*each) for each in drawn]
        else:
            self._transforms = [
                (device.send(sources, floats=False), device.send(weights))
                for sources, weights in drawn
            ]

    def begin(self, seed: int) -> None:
        """Draw the transforms that follow from a seed."""
        self._random = np.random.RandomState(seed)

    def columns(self, rows: Any) -> Array:
        """Rows as columns on the device, with a background of 0."""
        return self._device.send(np.ascontiguousarray((rows - self._empty).T))

    def __call__(self, columns: Array) -> Array:
        """The rows of such columns, by a random transform."""
        return self.transformed(columns, self._random.randint(self.n_transforms))

    def transformed(self, columns: Array, number: int) -> Array:
        """The rows of such columns, by the transform of a number."""
        if self._device.is_numpy:
            moved = self._transforms[number] @ columns
        else:
            xp = self._device.namespace
            sources, weights = self._transforms[number]
            parts = [
                xp.take(columns, sources[:, q], axis=0) * weights[:, q, None] for q in range(4)
            ]
            moved = parts[0] + parts[1] + parts[2] + parts[3]
        return moved.T + self._empty


def _as_matrix(sources: Indices, weights: Floats) -> sparse.csr_array:
    """The transform as a sparse matrix, which multiplies columns faster than numpy selects them."""
    n_pixels = len(sources)
    is_used = weights != 0
    starts = np.concatenate([[0], np.cumsum(is_used.sum(axis=1))])
    return sparse.csr_array((weights[is_used], sources[is_used], starts), (n_pixels, n_pixels))

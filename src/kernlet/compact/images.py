"""Rows that are the pixels of square images: how to tell, block means, and random transforms."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

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
# Each epoch of training sees each image moved a little. A transform takes each pixel from a place
# in the original, between four of its pixels, with weights by bilinear interpolation; pixels
# beyond the border have the value of the background. With images as columns, that is four
# selections of rows per transform, about as fast as the memory. One transform for each image would
# take longer than training itself, so that groups of rows share one in an epoch; the groups stay,
# their transforms change.

#: Ranges of "affine", on either side: a digit stays a digit.
_DEGREES, _SCALING, _PIXELS = 9.0, 0.1, 1.1
KINDS = ("shift", "affine")


class Transforms(NamedTuple):
    """Transforms of square images: pixel p becomes sum_q weights[t, p, q] x[sources[t, p, q]]."""

    sources: Indices
    weights: Floats

    @classmethod
    def draw(cls, kind: str, side: int, count: int, random: np.random.Generator) -> Transforms:
        """Random ones of a kind: "shift" by up to a pixel, or "affine"."""
        matrices = np.broadcast_to(np.eye(2), (count, 2, 2))
        if kind == "shift":
            moves = random.integers(-1, 2, size=(count, 2)).astype(float)
        else:
            angles = np.radians(random.uniform(-_DEGREES, _DEGREES, count))
            sizes = random.uniform(1 - _SCALING, 1 + _SCALING, count)
            cosines, sines = np.cos(angles) / sizes, np.sin(angles) / sizes
            matrices = np.stack([cosines, sines, -sines, cosines], axis=1).reshape(-1, 2, 2)
            moves = random.uniform(-_PIXELS, _PIXELS, size=(count, 2))
        middle = (side - 1) / 2
        grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), axis=-1)
        places = (grid.reshape(-1, 2) - middle) @ matrices.transpose(0, 2, 1)
        return cls._interpolating(places + middle - moves[:, None], side)

    @classmethod
    def _interpolating(cls, places: Floats, side: int) -> Transforms:
        """From the places (t, p) that pixels are taken from, as row and column."""
        corner = np.floor(places)
        shares = places - corner
        sources, weights = [], []
        for down in (0, 1):
            for right in (0, 1):
                at = corner + np.array([down, right])
                share = np.abs(shares - (1 - down, 1 - right)).prod(axis=2)
                is_inside = ((at >= 0) & (at < side)).all(axis=2)
                at = np.clip(at, 0, side - 1).astype(np.intp)
                sources.append(at[..., 0] * side + at[..., 1])
                weights.append(np.where(is_inside, share, 0.0))
        return cls(np.stack(sources, axis=-1), np.stack(weights, axis=-1).astype(np.float32))

    def __call__(self, number: int, columns: Array, device: Device) -> Array:
        """Apply one to images that are the columns of an array on a device."""
        xp, total = device.namespace, None
        for corner in range(4):
            weights = self.weights[number, :, corner]
            if corner and not weights.any():
                continue
            sources = device.send(self.sources[number, :, corner], floats=False)
            part = xp.take(columns, sources, axis=0)
            part *= device.send(weights)[:, None]
            total = part if total is None else total + part
        return total


def background(rows: Floats) -> float:
    """The value beyond the border of square images: the median of the pixels at it."""
    side = image_side(rows.shape[1])
    at_border = np.ones((side, side), dtype=bool)
    at_border[1:-1, 1:-1] = False
    return float(np.median(rows[:, at_border.ravel()]))


class Augmenter:
    """Square images of an epoch, transformed at random, in groups of rows."""

    def __init__(self, kind: str, side: int, empty: float, device: Device) -> None:
        self.kind, self.side, self.empty, self.device = kind, side, empty, device
        self._n_drawn = 0

    def draw(self, n_groups: int, random: np.random.RandomState) -> None:
        """New transforms, of which each group of rows takes the next one."""
        generator = np.random.default_rng(random.randint(2**31 - 1))
        self._transforms = Transforms.draw(self.kind, self.side, n_groups, generator)
        self._n_drawn = 0

    def columns(self, rows: Any) -> Array:
        """Rows as columns on the device, with a background of 0."""
        return self.device.send(np.ascontiguousarray((rows - self.empty).T))

    def __call__(self, columns: Array) -> Array:
        """The images of a group as rows, by the next transform."""
        number = self._n_drawn % len(self._transforms.sources)
        self._n_drawn += 1
        return self._transforms(number, columns, self.device).T + self.empty

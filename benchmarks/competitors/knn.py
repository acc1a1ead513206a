"""Nearest neighbors among all training rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.competitors.contract import Shape, grid
from kernlet.quantization import FORMATS, PackedArray, encode

TITLE = "kNN"
IS_KERNLET = False
IS_RANDOM = False
VERSION = 1


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    if shape.n_rows * (shape.n_features / 2 + 1) > max_bytes:
        return []
    return grid(n_neighbors=[1, 3, 5, 9, 15, 25], storage=["int8", "int4"])


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> Neighbors:
    table = encode(X, FORMATS[setting["storage"]])
    return Neighbors(table, y.astype(np.uint8), setting["n_neighbors"])


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Points, each with a label of one byte."""

    points: PackedArray
    labels: Any
    n_neighbors: int

    @property
    def nbytes(self) -> int:
        """Bytes of points and labels."""
        return int(self.points.nbytes + self.labels.nbytes)

    @property
    def n_centers(self) -> int:
        """Points."""
        return len(self.labels)

    @cached_property
    def _search(self) -> Any:
        n = min(self.n_neighbors, self.n_centers)
        search = KNeighborsClassifier(n, algorithm="brute")
        return search.fit(self.points.decoded(), self.labels)

    def predict(self, X: Any) -> Any:
        """Class codes of rows."""
        return self._search.predict(X)

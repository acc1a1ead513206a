"""Nearest neighbors among k-means centers of every class."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans

from benchmarks.competitors.contract import Shape
from benchmarks.competitors.knn import Neighbors
from kernlet.quantization import FORMATS, encode

TITLE = "kNN prototypes"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 2
_MANY = 200  # with more clusters per class, mini-batch k-means is used
#: Share of the points that fit, how classes share them, and number of neighbors.
_CHOICES = (
    (1.0, "equal", 1),
    (1.0, "equal", 3),
    (1.0, "proportional", 1),
    (1.0, "proportional", 7),
    (0.3, "equal", 1),
    (0.3, "equal", 3),
)


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    settings = []
    for storage, (fraction, share, n_neighbors) in product(("int8", "int4"), _CHOICES):
        point_bytes = FORMATS[storage].bits / 8 * shape.n_features + 1
        n = min(int(fraction * (max_bytes - 5) / point_bytes), shape.n_rows)
        if n >= shape.n_classes:
            choice = {"share": share, "n_neighbors": n_neighbors}
            settings.append({"storage": storage, "n_points": n, **choice})
    return [setting for i, setting in enumerate(settings) if setting not in settings[:i]]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> Neighbors:
    points, labels = [], []
    for code, share in enumerate(_shares(np.bincount(y), setting)):
        points.append(_clusters(X[y == code], share, seed))
        labels.append(np.full(len(points[-1]), code, np.uint8))
    table = encode(np.vstack(points), FORMATS[setting["storage"]])
    return Neighbors(table, np.concatenate(labels), setting["n_neighbors"])


def _shares(counts: Any, setting: dict[str, Any]) -> list[int]:
    """Points per class: at least one, and at most its rows."""
    n = setting["n_points"]
    if setting["share"] == "equal":
        shares = np.full(len(counts), n // len(counts))
    else:
        shares = np.maximum(1, n * counts // counts.sum())
        while shares.sum() > n:
            shares[shares.argmax()] -= 1
    return [int(share) for share in np.minimum(shares, counts)]


def _clusters(rows: Any, n_clusters: int, seed: int) -> Any:
    if n_clusters == len(rows):
        return rows
    if n_clusters > _MANY:
        search = MiniBatchKMeans(n_clusters, n_init=1, random_state=seed)
    else:
        search = KMeans(n_clusters, n_init=1, max_iter=50, random_state=seed)
    return search.fit(rows).cluster_centers_

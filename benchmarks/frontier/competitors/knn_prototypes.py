"""Nearest neighbours among clusters of every class."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans

from benchmarks.frontier.competitors.knn import Neighbors
from benchmarks.frontier.contract import Shape, grid
from kernlet.tables import FORMATS, encode

TITLE = "kNN prototypes"
IS_KERNLET = False
IS_RANDOM = True
_MANY = 200  # clusters of a class, from which they are found on batches


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    found = grid(storage=["int8", "int4"], part=[1.0, 0.5, 0.25], n_neighbors=[1, 3])
    for setting in found:
        a_point = FORMATS[setting["storage"]].bits / 8 * shape.n_features + 1
        n = int(setting.pop("part") * (max_bytes - 5) / a_point)
        setting["n_points"] = min(n, shape.n_rows)
    enough = [setting for setting in found if setting["n_points"] >= shape.n_classes]
    return [setting for i, setting in enumerate(enough) if setting not in enough[:i]]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> Neighbors:
    counts = np.bincount(y)
    shares = np.full(len(counts), setting["n_points"] // len(counts))
    points, labels = [], []
    for code, share in enumerate(shares):
        points.append(_clusters(X[y == code], min(int(share), int(counts[code])), seed))
        labels.append(np.full(len(points[-1]), code, np.uint8))
    table = encode(np.vstack(points), FORMATS[setting["storage"]])
    return Neighbors(table, np.concatenate(labels), setting["n_neighbors"])


def _clusters(rows: Any, n_clusters: int, seed: int) -> Any:
    if n_clusters == len(rows):
        return rows
    if n_clusters > _MANY:
        search = MiniBatchKMeans(n_clusters, n_init=1, random_state=seed)
    else:
        search = KMeans(n_clusters, n_init=1, max_iter=50, random_state=seed)
    return search.fit(rows).cluster_centers_

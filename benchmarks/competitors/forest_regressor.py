"""A random forest of numbers with as many leaves as fit, eight bits per leaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from benchmarks.competitors.contract import Shape, grid
from benchmarks.competitors.trees import PackedTrees, in_preorder, leaves_within, pack_trees

TITLE = "random forest regressor"
TASK = "regression"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 1
_N_TREES = (1, 2, 4, 8, 16, 32)


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    room = max_bytes - 8  # without the step and the mean
    found = [
        {**setting, "leaves": leaves}
        for setting in grid(n_trees=_N_TREES, max_features=(1.0, 0.3))
        if (leaves := leaves_within(shape.n_features, room / setting["n_trees"], 1)) >= 2
    ]
    return [setting for setting in found if setting["n_trees"] > 1 or setting["max_features"] == 1]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> ForestNumbers:
    forest = RandomForestRegressor(
        setting["n_trees"],
        max_leaf_nodes=setting["leaves"],
        max_features=setting["max_features"],
        bootstrap=setting["n_trees"] > 1,
        random_state=seed,
    ).fit(X, y)
    mean = np.float32(y.mean())
    trees = [estimator.tree_ for estimator in forest.estimators_]
    largest = max(float(np.abs(tree.value - mean).max()) for tree in trees)
    step = np.float32(max(largest, 1e-12) / 127)
    preorder = [
        in_preorder(
            tree.children_left,
            tree.children_right,
            tree.feature,
            tree.threshold,
            np.rint((tree.value[:, 0] - mean) / step),
        )
        for tree in trees
    ]
    return ForestNumbers(pack_trees(preorder, X.shape[1], np.int8), step, mean)


@dataclass(frozen=True, eq=False)
class ForestNumbers:
    """Trees whose leaves are steps from the mean."""

    trees: PackedTrees
    step: np.float32
    mean: np.float32
    n_centers: None = None

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        return int(self.trees.nbytes + self.step.nbytes + self.mean.nbytes)

    def predict(self, X: Any) -> Any:
        """Numbers for rows."""
        leaves = self.trees.leaves[:, 0].astype(float)
        n = len(self.trees.roots)
        sums = np.zeros(len(X))
        for tree in range(n):
            sums += leaves[self.trees.reached(X, tree)]
        return float(self.mean) + float(self.step) * sums / n

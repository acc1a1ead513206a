"""A random forest of as many leaves as the bytes allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks.frontier.contract import N_SETTINGS, Shape, grid
from benchmarks.frontier.trees import PackedTrees, in_preorder, leaves_within, pack_trees

TITLE = "random forest"
IS_KERNLET = False
IS_RANDOM = True
_KINDS = (("class", "sqrt"), ("shares", "sqrt"), ("shares", 0.5))


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    found = []
    for setting in grid(n_trees=[1, 4, 16, 64], kind=_KINDS):
        leaf, max_features = setting.pop("kind")
        width = shape.n_classes if leaf == "shares" else 1
        leaves = leaves_within(shape.n_features, max_bytes / setting["n_trees"], width)
        if leaves >= 2:
            if setting["n_trees"] == 1 and max_features == "sqrt":  # a tree of its own sees all
                max_features = None
            found.append({**setting, "leaf": leaf, "max_features": max_features, "leaves": leaves})
    return found[:N_SETTINGS]


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> Forest:
    forest = RandomForestClassifier(
        setting["n_trees"],
        max_leaf_nodes=setting["leaves"],
        max_features=setting["max_features"],
        bootstrap=setting["n_trees"] > 1,
        random_state=seed,
    ).fit(X, y)
    trees = []
    for estimator in forest.estimators_:
        tree = estimator.tree_
        shares = tree.value[:, 0] / tree.value[:, 0].sum(axis=1, keepdims=True)
        is_class = setting["leaf"] == "class"
        codes = shares.argmax(axis=1)[:, None] if is_class else np.rint(255 * shares)
        trees.append(
            in_preorder(
                tree.children_left, tree.children_right, tree.feature, tree.threshold, codes
            )
        )
    packed = pack_trees(trees, X.shape[1], np.uint8)
    return Forest(packed, forest.n_classes_)


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees whose leaves hold a class, or the shares of the classes in 255ths."""

    trees: PackedTrees
    n_classes: int
    n_centers: None = None

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        return self.trees.nbytes

    def predict(self, X: Any) -> Any:
        """Class numbers of rows."""
        leaves = self.trees.leaves
        votes = np.eye(self.n_classes, dtype=int)[leaves[:, 0]] if leaves.shape[1] == 1 else leaves
        totals = np.zeros((len(X), self.n_classes), np.int64)
        for tree in range(len(self.trees.roots)):
            totals += votes[self.trees.reached(X, tree)]
        return totals.argmax(axis=1)

"""A random forest with as many leaves as fit the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks.competitors.contract import Shape
from benchmarks.competitors.trees import PackedTrees, in_preorder, leaves_within, pack_trees

TITLE = "random forest"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 2
_N_TREES = (1, 2, 4, 8, 16, 32, 64)
_KINDS = (("class", "sqrt"), ("shares", "sqrt"), ("shares", 0.5))


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    settings = []
    for leaf, max_features in _KINDS:
        width = shape.n_outputs if leaf == "shares" else 1
        leaves = {n: leaves_within(shape.n_features, max_bytes / n, width) for n in _N_TREES}
        fitting = [n for n in _N_TREES if leaves[n] >= 2]
        indices = np.linspace(0, len(fitting) - 1, 4).round().astype(int) if fitting else []
        for n in sorted({fitting[i] for i in indices}):
            # A single tree sees all features.
            features = None if n == 1 and max_features == "sqrt" else max_features
            setting = {"n_trees": n, "leaf": leaf, "max_features": features}
            settings.append({**setting, "leaves": leaves[n]})
    return settings


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> Forest:
    forest = unrounded(setting, X, y, seed)
    trees = []
    for estimator in forest.estimators_:
        tree = estimator.tree_
        shares = tree.value[:, 0] / tree.value[:, 0].sum(axis=1, keepdims=True)
        if setting["leaf"] == "class":
            codes = shares.argmax(axis=1)[:, None]
        else:  # with two classes the share of the second is enough
            codes = np.rint(255 * (shares[:, 1:] if shares.shape[1] == 2 else shares))
        trees.append(
            in_preorder(
                tree.children_left, tree.children_right, tree.feature, tree.threshold, codes
            )
        )
    packed = pack_trees(trees, X.shape[1], np.uint8)
    return Forest(packed, forest.n_classes_, setting["leaf"] == "class")


def unrounded(setting: dict[str, Any], X: Any, y: Any, seed: int) -> RandomForestClassifier:
    """The forest before its leaves and thresholds are rounded."""
    return RandomForestClassifier(
        setting["n_trees"],
        max_leaf_nodes=setting["leaves"],
        max_features=setting["max_features"],
        bootstrap=setting["n_trees"] > 1,
        random_state=seed,
    ).fit(X, y)


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees whose leaves have a class, or the shares of the classes in 255ths.

    With two classes it is the share of the second.
    """

    trees: PackedTrees
    n_classes: int
    holds_class: bool
    n_centers: None = None

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        return self.trees.nbytes

    def predict(self, X: Any) -> Any:
        """Class codes of rows."""
        votes = self.trees.leaves.astype(np.int64)
        if self.holds_class:
            votes = np.eye(self.n_classes, dtype=int)[votes[:, 0]]
        elif votes.shape[1] == 1:
            votes = np.hstack([255 - votes, votes])
        totals = np.zeros((len(X), self.n_classes), np.int64)
        for tree in range(len(self.trees.roots)):
            totals += votes[self.trees.reached(X, tree)]
        return totals.argmax(axis=1)

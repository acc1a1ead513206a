"""Gradient boosting with as many rounds as fit the budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.competitors.contract import Shape, subsample
from benchmarks.competitors.trees import (
    PackedTrees,
    between_rows,
    in_preorder,
    node_bytes,
    pack_trees,
)
from kernlet.quantization import best_step

TITLE = "gradient boosting"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 5
MOST_ROUNDS = 100  # to limit the time
#: Limits to which the logits of leaves may be clipped: a single leaf may have thousands, and would
#: determine the rounding step of all. The limit that changes the fewest predictions of
#: JUDGED_ROWS training rows is used.
CUTS = (8.0, 16.0, 32.0, 64.0)
JUDGED_ROWS = 1000
_LEAVES_AND_RATES = (
    *product((2, 4, 8), (0.1, 0.3, 1.0)),
    (16, 0.3),
    (16, 1.0),
    (31, 0.3),
)


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    settings = []
    for leaves, rate in _LEAVES_AND_RATES:
        tree_bytes = node_bytes(shape.n_features, leaves, 1)
        rounds = (max_bytes - 4 - 4 * shape.n_outputs) // (shape.n_outputs * tree_bytes)
        if rounds:
            setting = {"max_leaf_nodes": leaves, "learning_rate": rate}
            settings.append({**setting, "max_iter": min(MOST_ROUNDS, rounds)})
    return settings


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> Boosted:
    machine = unrounded(setting, X, y, seed)
    exact, baseline = packed(machine, X)
    candidates = [_rounded(exact, baseline, cut) for cut in _cuts(exact.leaves)]
    if len(candidates) == 1:
        return candidates[0]
    rows = X[subsample(y, JUDGED_ROWS, seed)]
    plain = machine.predict(rows)
    return max(candidates, key=lambda rounded: np.mean(rounded.predict(rows) == plain))


def packed(machine: Any, X: Any) -> tuple[PackedTrees, Any]:
    """Trees whose leaves are not rounded yet, and the baselines of the outputs."""
    trees = [
        in_preorder(
            np.where(tree.nodes["is_leaf"] == 1, -1, tree.nodes["left"].astype(np.int64)),
            tree.nodes["right"],
            tree.nodes["feature_idx"],
            tree.nodes["num_threshold"],
            tree.nodes["value"][:, None],
        )
        for trees_of_round in machine._predictors
        for tree in trees_of_round
    ]
    trees = [between_rows(tree, X) for tree in trees]
    baseline = np.asarray(machine._baseline_prediction, dtype=np.float32).ravel()
    return pack_trees(trees, X.shape[1], np.float64), baseline


def _cuts(leaves: Any) -> list[float]:
    """Limits below the largest leaf, and the largest leaf itself: no clipping."""
    largest = float(np.abs(leaves).max())
    return [*(cut for cut in CUTS if cut < largest), largest]


def _rounded(exact: PackedTrees, baseline: Any, cut: float) -> Boosted:
    """Leaves clipped and rounded to 255 levels."""
    values = np.clip(exact.leaves, -cut, cut)
    step = np.float32(best_step(values, 127))
    codes = np.clip(np.rint(values / step), -127, 127).astype(np.int8)
    return Boosted(replace(exact, leaves=codes), baseline, step)


def unrounded(setting: dict[str, Any], X: Any, y: Any, seed: int) -> HistGradientBoostingClassifier:
    """The model before its leaves and thresholds are rounded."""
    return HistGradientBoostingClassifier(
        **setting,
        min_samples_leaf=int(np.clip(len(X) // 40, 2, 20)),
        l2_regularization=1.0
        if int(y.max()) > 1
        else 0.0,  # multiclass boosting may diverge otherwise
        early_stopping=False,
        random_state=seed,
    ).fit(X, y)


@dataclass(frozen=True, eq=False)
class Boosted:
    """Trees with an eight-bit value per leaf; tree i belongs to output i % n_outputs."""

    trees: PackedTrees
    baseline: Any
    step: np.float32
    n_centers: None = None

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        return int(self.trees.nbytes + self.baseline.nbytes + self.step.nbytes)

    def outputs(self, X: Any) -> Any:
        """The sums of the leaves that rows reach."""
        n_outputs = len(self.baseline)
        outputs = np.tile(self.baseline.astype(float), (len(X), 1))
        values = self.trees.leaves[:, 0] * float(self.step)
        for tree in range(len(self.trees.roots)):
            outputs[:, tree % n_outputs] += values[self.trees.reached(X, tree)]
        return outputs

    def predict(self, X: Any) -> Any:
        """Class codes of rows."""
        outputs = self.outputs(X)
        return (outputs[:, 0] > 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(axis=1)

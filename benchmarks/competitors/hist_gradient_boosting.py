"""Gradient boosting with as many rounds as the bytes allow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.competitors.contract import Shape, sample_of
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
MOST_ROUNDS = 100  # for the sake of time
#: Logits that leaves may be cut at: single ones may be thousands, and would set the step of all.
#: That cut is taken which changes the fewest predictions of so many training rows.
CUTS = (8.0, 16.0, 32.0, 64.0)
JUDGED_ROWS = 1000
_LEAVES_AND_RATES = (
    *product((2, 4, 8), (0.1, 0.3, 1.0)),
    (16, 0.3),
    (16, 1.0),
    (31, 0.3),
)


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    found = []
    for leaves, rate in _LEAVES_AND_RATES:
        a_tree = node_bytes(shape.n_features, leaves, 1)
        rounds = (max_bytes - 4 - 4 * shape.n_outputs) // (shape.n_outputs * a_tree)
        if rounds:
            setting = {"max_leaf_nodes": leaves, "learning_rate": rate}
            found.append({**setting, "max_iter": min(MOST_ROUNDS, rounds)})
    return found


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> Boosted:
    machine = unrounded(setting, X, y, seed)
    trees = [
        in_preorder(
            np.where(tree.nodes["is_leaf"] == 1, -1, tree.nodes["left"].astype(np.int64)),
            tree.nodes["right"],
            tree.nodes["feature_idx"],
            tree.nodes["num_threshold"],
            tree.nodes["value"][:, None],
        )
        for of_round in machine._predictors
        for tree in of_round
    ]
    trees = [between_rows(tree, X) for tree in trees]
    exact = pack_trees(trees, X.shape[1], np.float64)
    baseline = np.asarray(machine._baseline_prediction, dtype=np.float32).ravel()
    found = [_rounded(exact, baseline, cut) for cut in _cuts(exact.leaves)]
    if len(found) == 1:
        return found[0]
    rows = X[sample_of(y, JUDGED_ROWS, seed)]
    plain = machine.predict(rows)
    return max(found, key=lambda rounded: np.mean(rounded.predict(rows) == plain))


def _cuts(leaves: Any) -> list[float]:
    """What leaves may be cut at: where they are small, not at all."""
    largest = float(np.abs(leaves).max())
    return [*(cut for cut in CUTS if cut < largest), largest]


def _rounded(exact: PackedTrees, baseline: Any, cut: float) -> Boosted:
    """Leaves in 255 steps up to a cut."""
    values = np.clip(exact.leaves, -cut, cut)
    step = np.float32(best_step(values, 127))
    codes = np.clip(np.rint(values / step), -127, 127).astype(np.int8)
    return Boosted(replace(exact, leaves=codes), baseline, step)


def unrounded(setting: dict[str, Any], X: Any, y: Any, seed: int) -> HistGradientBoostingClassifier:
    """The machine before its leaves and thresholds are rounded."""
    return HistGradientBoostingClassifier(
        **setting,
        min_samples_leaf=int(np.clip(len(X) // 40, 2, 20)),
        l2_regularization=1.0 if int(y.max()) > 1 else 0.0,  # several outputs may diverge without
        early_stopping=False,
        random_state=seed,
    ).fit(X, y)


@dataclass(frozen=True, eq=False)
class Boosted:
    """Trees with a number of eight bits in every leaf, the outputs in turn."""

    trees: PackedTrees
    baseline: Any
    step: np.float32
    n_centers: None = None

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        return int(self.trees.nbytes + self.baseline.nbytes + self.step.nbytes)

    def predict(self, X: Any) -> Any:
        """Class numbers of rows."""
        n_outputs = len(self.baseline)
        outputs = np.tile(self.baseline.astype(float), (len(X), 1))
        values = self.trees.leaves[:, 0] * float(self.step)
        for tree in range(len(self.trees.roots)):
            outputs[:, tree % n_outputs] += values[self.trees.reached(X, tree)]
        return (outputs[:, 0] > 0).astype(int) if n_outputs == 1 else outputs.argmax(axis=1)

"""Boosted trees whose thresholds and leaf values come from shared tables.

In the manner of ToaD (trees on a diet): a split is a number of bits that index one table of
(feature, threshold) pairs, a leaf indexes a codebook of values. Few bins per feature make trees
share thresholds; of the rounds trained, as many are stored as fit. Trees are a stream of bits in
preorder: a bit says whether a node is split, then comes its index. A device reads a tree from its
start, passing over the subtrees it does not enter; pointers would take more bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.competitors.contract import Shape
from benchmarks.competitors.trees import (
    PackedTrees,
    Tree,
    between_rows,
    in_preorder,
    pack_trees,
)

TITLE = "boosting with shared thresholds"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 1
MOST_ROUNDS = 150  # to limit the time
MOST_TREES = 1500
_LLOYD_STEPS = 30
#: Leaves per tree, learning rate, bins per feature, bits of a leaf's code.
_CHOICES = (
    (2, 0.3, 16, 4),
    (2, 0.3, 128, 5),
    (4, 0.1, 16, 4),
    (4, 0.3, 8, 4),
    (4, 0.3, 32, 5),
    (4, 0.3, 128, 5),
    (8, 0.3, 8, 4),
    (8, 0.3, 32, 5),
    (8, 0.1, 128, 5),
    (16, 0.3, 16, 4),
    (16, 0.3, 64, 6),
    (31, 0.3, 32, 5),
)


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    found = []
    for leaves, rate, bins, bits in _CHOICES:
        least = leaves * (1 + bits) + (leaves - 1) * 2  # bits per tree
        room = 8 * (max_bytes - 4 * shape.n_outputs - 2**bits) // (least * shape.n_outputs)
        rounds = min(MOST_ROUNDS, MOST_TREES // shape.n_outputs, room)
        if rounds > 0:
            setting = {"max_leaf_nodes": leaves, "learning_rate": rate, "max_bins": bins}
            found.append({**setting, "bits": bits, "max_iter": rounds, "max_bytes": max_bytes})
    return found


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> SharedTrees:
    machine = unrounded(setting, X, y, seed)
    rounds = [
        [
            between_rows(
                in_preorder(
                    np.where(tree.nodes["is_leaf"] == 1, -1, tree.nodes["left"].astype(np.int64)),
                    tree.nodes["right"],
                    tree.nodes["feature_idx"],
                    tree.nodes["num_threshold"],
                    tree.nodes["value"][:, None],
                ),
                X,
            )
            for tree in trees
        ]
        for trees in machine._predictors
    ]
    baseline = np.asarray(machine._baseline_prediction, dtype=np.float32).ravel()
    n_features, bits = X.shape[1], setting["bits"]

    def n_bytes(n_rounds: int) -> int:
        trees = [tree for of_round in rounds[:n_rounds] for tree in of_round]
        return _stored(trees, baseline, n_features, bits).nbytes

    # At least one round is stored: the result says by its bytes where even that does not fit.
    n_rounds = max(1, bisect_right(range(1, len(rounds) + 1), setting["max_bytes"], key=n_bytes))
    trees = [tree for of_round in rounds[:n_rounds] for tree in of_round]
    return _stored(trees, baseline, n_features, bits)


def unrounded(setting: dict[str, Any], X: Any, y: Any, seed: int) -> HistGradientBoostingClassifier:
    """The model before its leaves and thresholds are rounded, with all its rounds."""
    names = ("max_leaf_nodes", "learning_rate", "max_bins", "max_iter")
    return HistGradientBoostingClassifier(
        **{name: setting[name] for name in names},
        min_samples_leaf=int(np.clip(len(X) // 40, 2, 20)),
        # Multiclass boosting may diverge otherwise.
        l2_regularization=1.0 if int(y.max()) > 1 else 0.0,
        early_stopping=False,
        random_state=seed,
    ).fit(X, y)


def _stored(trees: list[Tree], baseline: Any, n_features: int, bits: int) -> SharedTrees:
    """Tables of the splits and of the leaves' values, and the stream of indices into them."""
    features = np.concatenate([tree.features for tree in trees])
    largest = float(np.finfo(np.float16).max)
    thresholds = np.clip(np.concatenate([tree.thresholds for tree in trees]), -largest, largest)
    values = np.concatenate([tree.values[:, 0] for tree in trees])
    is_leaf = features < 0
    # Complex numbers sort by real part, then by imaginary part: one key per (feature, threshold).
    keys = features[~is_leaf] + 1j * thresholds[~is_leaf].astype(np.float16)
    splits, indices = np.unique(keys, return_inverse=True)
    codebook = _codebook(values[is_leaf], 2**bits)
    codes = np.abs(values[is_leaf][:, None] - codebook.astype(float)).argmin(axis=1)
    split_bits, leaf_bits = (max(1, (len(of) - 1).bit_length()) for of in (splits, codebook))
    numbers = np.zeros(len(features), np.int64)
    numbers[is_leaf], numbers[~is_leaf] = codes, indices
    stream = [
        [int(not leaf), *(number >> i & 1 for i in range(leaf_bits if leaf else split_bits))]
        for leaf, number in zip(is_leaf.tolist(), numbers.tolist(), strict=True)
    ]
    kind = np.uint8 if n_features < 256 else np.uint16
    return SharedTrees(
        np.packbits(np.concatenate(stream).astype(np.uint8)),
        splits.real.astype(kind),
        splits.imag.astype(np.float16),
        codebook,
        baseline,
        np.uint16(len(trees)),
    )


def _codebook(values: Any, n_codes: int) -> Any:
    """k-means of numbers from quantiles, in float16."""
    centers = np.unique(np.quantile(values, (np.arange(n_codes) + 0.5) / n_codes))
    for _ in range(_LLOYD_STEPS):
        nearest = np.searchsorted((centers[1:] + centers[:-1]) / 2, values)
        counts = np.bincount(nearest, minlength=len(centers))
        sums = np.bincount(nearest, values, minlength=len(centers))
        centers = np.sort(sums[counts > 0] / counts[counts > 0])
    largest = float(np.finfo(np.float16).max)
    return np.unique(np.clip(centers, -largest, largest).astype(np.float16))


@dataclass(frozen=True, eq=False)
class SharedTrees:
    """A stream of bits, the tables it indexes, a baseline per output, the number of trees.

    Tree i belongs to output i % n_outputs. The numbers of bits follow from the sizes of the tables.
    """

    stream: Any
    features: Any
    thresholds: Any
    codebook: Any
    baseline: Any
    n_trees: np.uint16
    n_centers: None = None

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored; the sizes of the two tables take two bytes each."""
        arrays = (self.stream, self.features, self.thresholds, self.codebook, self.baseline)
        return int(sum(array.nbytes for array in arrays) + self.n_trees.nbytes + 4)

    @cached_property
    def trees(self) -> PackedTrees:
        """The stored trees, read from the stream."""
        bits = np.unpackbits(self.stream)
        widths = [max(1, (len(of) - 1).bit_length()) for of in (self.codebook, self.features)]
        position, trees = 0, []
        for _ in range(int(self.n_trees)):
            features, thresholds, values, rights = [], [], [], []
            waiting = [-1]  # split nodes whose right child is still to come; -1 is the root
            while waiting:
                parent = waiting.pop()
                if parent >= 0:
                    rights[parent] = len(features)
                while True:
                    is_split = int(bits[position])
                    width = widths[is_split]
                    word = bits[position + 1 : position + 1 + width]
                    number = int(word @ (1 << np.arange(width)))
                    position += 1 + width
                    rights.append(0)
                    features.append(int(self.features[number]) if is_split else -1)
                    thresholds.append(float(self.thresholds[number]) if is_split else 0.0)
                    values.append(0.0 if is_split else float(self.codebook[number]))
                    if not is_split:
                        break
                    waiting.append(len(features) - 1)
            trees.append(
                Tree(
                    np.array(features),
                    np.array(thresholds),
                    np.array(rights),
                    np.array(values)[:, None],
                )
            )
        return pack_trees(trees, int(max(self.features, default=0)) + 1, np.float64)

    def predict(self, X: Any) -> Any:
        """Class codes of rows."""
        n_outputs = len(self.baseline)
        outputs = np.tile(self.baseline.astype(float), (len(X), 1))
        for tree in range(int(self.n_trees)):
            reached = self.trees.reached(X, tree)
            outputs[:, tree % n_outputs] += self.trees.leaves[reached, 0]
        return (outputs[:, 0] > 0).astype(int) if n_outputs == 1 else outputs.argmax(axis=1)

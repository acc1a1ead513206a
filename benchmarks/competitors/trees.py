"""Packed decision trees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

MOST_LEAVES = 4096  # per tree


class Tree(NamedTuple):
    """A tree in preorder: the left child of a node is the next one.

    ``features`` is -1 at a leaf, ``rights`` the index of the right child, ``values`` the output of
    a leaf, one row per node.
    """

    features: Any
    thresholds: Any
    rights: Any
    values: Any


def in_preorder(left: Any, right: Any, features: Any, thresholds: Any, values: Any) -> Tree:
    """A tree from arrays of children; the left child of a leaf is -1."""
    order: list[int] = []
    index: dict[int, int] = {}
    stack = [0]
    while stack:
        node = stack.pop()
        index[node] = len(order)
        order.append(node)
        if left[node] > 0:
            stack += [right[node], left[node]]
    is_leaf = np.array([left[node] <= 0 for node in order])
    rights = np.array([0 if left[node] <= 0 else index[right[node]] for node in order])
    return Tree(
        np.where(is_leaf, -1, np.asarray(features)[order]),
        np.where(is_leaf, 0.0, np.asarray(thresholds)[order]),
        rights,
        np.asarray(values)[order],
    )


def between_rows(tree: Tree, X: Any) -> Tree:
    """The same tree with every threshold midway between the adjacent values of rows.

    A threshold equal to the value of many rows would move to the wrong side when rounded.
    """
    thresholds = tree.thresholds.astype(float)
    for feature in np.unique(tree.features[tree.features >= 0]):
        nodes = tree.features == feature
        values = np.unique(X[:, feature]).astype(float)
        above = np.searchsorted(values, thresholds[nodes], side="right").clip(1, len(values) - 1)
        middle = 0.5 * (values[above - 1] + values[above]) if len(values) > 1 else values
        thresholds[nodes] = middle
    return tree._replace(thresholds=thresholds)


def node_bytes(n_features: int, n_leaves: int, width: int) -> int:
    """Bytes of a tree with ``n_leaves`` leaves of ``width`` bytes each."""
    feature = 1 if n_features < 255 else 2
    right = 1 if 2 * n_leaves - 1 <= 256 else 2
    return (n_leaves - 1) * (feature + 2 + right) + n_leaves * (feature + width) + 2


def leaves_within(n_features: int, n_bytes: float, width: int) -> int:
    """The largest number of leaves of a tree within ``n_bytes``."""
    leaves = 1
    while leaves < MOST_LEAVES and node_bytes(n_features, leaves + 1, width) <= n_bytes:
        leaves += 1
    return leaves


@dataclass(frozen=True, eq=False)
class PackedTrees:
    """Trees as they are stored.

    Parameters
    ----------
    features : ndarray of uint8 or uint16, one per node
        The largest value marks a leaf.
    thresholds : ndarray of float16, one per inner node
        A row goes left if its feature is at most the threshold.
    rights : ndarray of uint8 or uint16, one per inner node
        The right child, counted from the root; the left child is the next node.
    leaves : ndarray of int8 or uint8 of shape (n_leaves, width)
    roots : ndarray of uint16, one per tree
    """

    features: Any
    thresholds: Any
    rights: Any
    leaves: Any
    roots: Any

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.features, self.thresholds, self.rights, self.leaves, self.roots)
        return sum(array.nbytes for array in arrays)

    @cached_property
    def _nodes(self) -> tuple[Any, ...]:
        """Feature (-1 at a leaf), threshold, right child and leaf index of every node."""
        is_leaf = self.features == np.iinfo(self.features.dtype).max
        features = np.where(is_leaf, -1, self.features.astype(np.int64))
        inner = np.cumsum(~is_leaf) - 1
        tree = np.searchsorted(self.roots, np.arange(len(is_leaf)), side="right") - 1
        thresholds, rights = np.zeros(len(is_leaf), np.float32), np.zeros(len(is_leaf), np.int64)
        split = ~is_leaf
        thresholds[split] = self.thresholds[inner[split]]
        rights[split] = self.roots[tree[split]].astype(np.int64) + self.rights[inner[split]]
        return features, thresholds, rights, np.cumsum(is_leaf) - 1

    def reached(self, X: Any, tree: int) -> Any:
        """The index in ``leaves`` that each row reaches in a tree."""
        features, thresholds, rights, leaf = self._nodes
        node = np.full(len(X), int(self.roots[tree]))
        active = np.arange(len(X))
        while True:
            active = active[features[node[active]] >= 0]
            if not len(active):
                return leaf[node]
            now = node[active]
            goes_left = X[active, features[now]] <= thresholds[now]
            node[active] = np.where(goes_left, now + 1, rights[now])


def pack_trees(trees: list[Tree], n_features: int, leaf_dtype: Any) -> PackedTrees:
    """Pack trees; the values of the leaves must be integer codes already."""
    sizes = [len(tree.features) for tree in trees]
    kind = np.uint8 if n_features < 255 else np.uint16
    features = np.concatenate([tree.features for tree in trees])
    is_leaf = features < 0
    right_kind = np.uint8 if max(sizes) <= 256 else np.uint16
    largest = float(np.finfo(np.float16).max)
    thresholds = np.clip(np.concatenate([tree.thresholds for tree in trees]), -largest, largest)
    return PackedTrees(
        np.where(is_leaf, np.iinfo(kind).max, features).astype(kind),
        thresholds[~is_leaf].astype(np.float16),
        np.concatenate([tree.rights for tree in trees])[~is_leaf].astype(right_kind),
        np.concatenate([tree.values for tree in trees])[is_leaf].astype(leaf_dtype),
        np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.uint16),
    )

"""Decision trees in a packed layout."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

MOST_LEAVES = 4096  # of a tree


class Tree(NamedTuple):
    """A tree in preorder: the left child of a node is the next one.

    ``features`` is -1 at a leaf; ``rights`` holds the number of the right child; ``values``
    what a leaf gives, one line a node.
    """

    features: Any
    thresholds: Any
    rights: Any
    values: Any


def in_preorder(left: Any, right: Any, features: Any, thresholds: Any, values: Any) -> Tree:
    """A tree from lists of children; the left child of a leaf is -1."""
    order: list[int] = []
    place: dict[int, int] = {}
    stack = [0]
    while stack:
        node = stack.pop()
        place[node] = len(order)
        order.append(node)
        if left[node] > 0:
            stack += [right[node], left[node]]
    is_leaf = np.array([left[node] <= 0 for node in order])
    rights = np.array([0 if left[node] <= 0 else place[right[node]] for node in order])
    return Tree(
        np.where(is_leaf, -1, np.asarray(features)[order]),
        np.where(is_leaf, 0.0, np.asarray(thresholds)[order]),
        rights,
        np.asarray(values)[order],
    )


def between_rows(tree: Tree, X: Any) -> Tree:
    """The same tree with every threshold midway between the values of rows that it parts.

    A threshold that is itself the value of many rows would not survive rounding.
    """
    thresholds = tree.thresholds.astype(float)
    for feature in np.unique(tree.features[tree.features >= 0]):
        mine = tree.features == feature
        values = np.unique(X[:, feature]).astype(float)
        above = np.searchsorted(values, thresholds[mine], side="right").clip(1, len(values) - 1)
        middle = 0.5 * (values[above - 1] + values[above]) if len(values) > 1 else values
        thresholds[mine] = middle
    return tree._replace(thresholds=thresholds)


def node_bytes(n_features: int, n_leaves: int, width: int) -> int:
    """Bytes of a tree of so many leaves, each with ``width`` bytes of values."""
    feature = 1 if n_features < 255 else 2
    right = 1 if 2 * n_leaves - 1 <= 256 else 2
    return (n_leaves - 1) * (feature + 2 + right) + n_leaves * (feature + width) + 2


def leaves_within(n_features: int, n_bytes: float, width: int) -> int:
    """The most leaves of a tree of so many bytes."""
    leaves = 1
    while leaves < MOST_LEAVES and node_bytes(n_features, leaves + 1, width) <= n_bytes:
        leaves += 1
    return leaves


@dataclass(frozen=True, eq=False)
class PackedTrees:
    """Trees as they are stored.

    Parameters
    ----------
    features : ndarray of uint8 or uint16, one a node
        The largest number marks a leaf.
    thresholds : ndarray of float16, one an inner node
        A row goes left where its feature is at most that.
    rights : ndarray of uint8 or uint16, one an inner node
        The right child, counted from the root; the left child is the next node.
    leaves : ndarray of int8 or uint8 of shape (n_leaves, width)
    roots : ndarray of uint16, one a tree
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
    def _walkable(self) -> tuple[Any, ...]:
        """Feature (-1 at a leaf), threshold, right child and number of the leaf of every node."""
        is_leaf = self.features == np.iinfo(self.features.dtype).max
        features = np.where(is_leaf, -1, self.features.astype(np.int64))
        inner = np.cumsum(~is_leaf) - 1
        tree = np.searchsorted(self.roots, np.arange(len(is_leaf)), side="right") - 1
        thresholds, rights = np.zeros(len(is_leaf), np.float32), np.zeros(len(is_leaf), np.int64)
        some = ~is_leaf
        thresholds[some] = self.thresholds[inner[some]]
        rights[some] = self.roots[tree[some]].astype(np.int64) + self.rights[inner[some]]
        return features, thresholds, rights, np.cumsum(is_leaf) - 1

    def reached(self, X: Any, tree: int) -> Any:
        """The line of ``leaves`` that each row comes to in a tree."""
        features, thresholds, rights, leaf = self._walkable
        node = np.full(len(X), int(self.roots[tree]))
        active = np.arange(len(X))
        while True:
            active = active[features[node[active]] >= 0]
            if not len(active):
                return leaf[node]
            at = node[active]
            goes_left = X[active, features[at]] <= thresholds[at]
            node[active] = np.where(goes_left, at + 1, rights[at])


def pack_trees(trees: list[Tree], n_features: int, leaf_dtype: Any) -> PackedTrees:
    """Trees in their layout; the values of the leaves must be codes already."""
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

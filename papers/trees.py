"""Decision trees of a limited number of nodes: pruned, or grown best node first."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.tree import DecisionTreeClassifier

Rule = Literal["pruned", "best first"]
RULES: tuple[Rule, ...] = ("pruned", "best first")


class SmallTree:
    """A decision tree of at most ``n_nodes`` nodes.

    ``"pruned"`` grows a full tree and cuts its weakest branches until it is small enough;
    ``"best first"`` always splits the leaf with the largest decrease of impurity.
    """

    def __init__(self, n_nodes: int, rule: Rule, random_state: int) -> None:
        self.n_nodes, self.rule, self.random_state = n_nodes, rule, random_state

    def fit(self, X: Any, y: Any) -> SmallTree:
        """Grow the tree, at least two rows per leaf."""
        n_leaves = None if self.rule == "pruned" else max(2, (self.n_nodes + 1) // 2)
        self.tree_ = DecisionTreeClassifier(
            min_samples_leaf=2, max_leaf_nodes=n_leaves, random_state=self.random_state
        ).fit(X, y)
        self.leaves_ = prune(self.tree_.tree_, max(1, self.n_nodes))
        is_leaf = self.tree_.tree_.children_left < 0
        self.node_count_ = 2 * len(np.unique(self.leaves_[is_leaf])) - 1
        return self

    def predict(self, X: Any) -> Any:
        """The most frequent class of a row's leaf."""
        tree = self.tree_
        votes = tree.tree_.value[self.leaves_[tree.apply(X)], 0]
        return tree.classes_[votes.argmax(axis=1)]


def prune(tree: Any, n_nodes: int) -> Any:
    """The leaf of the pruned tree that each leaf of a fitted tree belongs to.

    Minimal cost-complexity pruning: the branch below node t is cut where the impurity that it
    saves per leaf, (R(t) - sum of R over its leaves) / (leaves - 1), is least, until ``n_nodes``
    or fewer are left. With scikit-learn's ``ccp_alpha`` a full tree would grow for each size tried.
    """
    left, right = tree.children_left, tree.children_right
    n = tree.node_count
    risk = tree.weighted_n_node_samples / tree.weighted_n_node_samples[0] * tree.impurity
    parent = np.full(n, -1)
    is_inner = left >= 0
    parent[left[is_inner]] = parent[right[is_inner]] = np.flatnonzero(is_inner)
    n_leaves, branch_risk = np.ones(n, dtype=int), risk.copy()
    for t in np.flatnonzero(is_inner)[::-1]:  # children come after their parents
        n_leaves[t] = n_leaves[left[t]] + n_leaves[right[t]]
        branch_risk[t] = branch_risk[left[t]] + branch_risk[right[t]]
    while 2 * n_leaves[0] - 1 > n_nodes:
        inner = np.flatnonzero(is_inner)
        weakest = inner[np.argmin((risk - branch_risk)[inner] / (n_leaves[inner] - 1))]
        n_cut, added = n_leaves[weakest] - 1, risk[weakest] - branch_risk[weakest]
        _cut(weakest, left, right, is_inner)
        t = weakest
        while t >= 0:
            n_leaves[t] -= n_cut
            branch_risk[t] += added
            t = parent[t]
    leaf = np.arange(n)
    for t in range(1, n):
        if not is_inner[parent[t]]:
            leaf[t] = leaf[parent[t]]
    return leaf


def _cut(node: int, left: Any, right: Any, is_inner: Any) -> None:
    """Make a node a leaf: no node below it is an inner one any more."""
    below = [node]
    while below:
        t = below.pop()
        if is_inner[t]:
            is_inner[t] = False
            below += [left[t], right[t]]

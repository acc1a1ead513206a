"""Trees of a limited size: pruning agrees with scikit-learn's, and no tree is too large."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.tree import DecisionTreeClassifier

from papers.trees import RULES, SmallTree

X, Y = load_digits(return_X_y=True)
X, Y, X_TEST = X[:600], Y[:600], X[600:900]


def test_pruning_is_that_of_scikit_learn():
    full = DecisionTreeClassifier(min_samples_leaf=2, random_state=0)
    for alpha in full.cost_complexity_pruning_path(X, Y).ccp_alphas[1:-1:6]:
        twin = DecisionTreeClassifier(
            min_samples_leaf=2, random_state=0, ccp_alpha=alpha * (1 + 1e-9)
        ).fit(X, Y)
        tree = SmallTree(twin.tree_.node_count, "pruned", 0).fit(X, Y)
        assert tree.node_count_ == twin.tree_.node_count
        np.testing.assert_array_equal(tree.predict(X_TEST), twin.predict(X_TEST))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_nodes", [3, 18, 19, 10**6])
def test_a_tree_has_at_most_the_nodes_asked_for(rule, n_nodes):
    tree = SmallTree(n_nodes, rule, 0).fit(X, Y)
    full = DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(X, Y)
    assert tree.node_count_ <= min(n_nodes, full.tree_.node_count)
    assert tree.node_count_ >= min(n_nodes // 2, full.tree_.node_count)
    if rule == "pruned" and n_nodes > full.tree_.node_count:
        np.testing.assert_array_equal(tree.predict(X_TEST), full.predict(X_TEST))

"""Rows as features."""

import numpy as np
import pytest
from scipy import sparse

from kernlet.kernels.gram import RowFeatures
from kernlet.kernels.rbf import RBF

X = np.random.RandomState(0).normal(size=(50, 4))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_columns_themselves(kind):
    features = RowFeatures(kind(X))
    W = np.random.RandomState(1).normal(size=(4, 2))
    np.testing.assert_allclose(features.dot(W), X @ W)
    np.testing.assert_allclose(features.dot(W, np.array([7, 3])), X[[7, 3]] @ W)
    assert features.n_features == 4
    assert len(features) == 50
    assert features.is_sparse == (kind is not np.asarray)


def test_kernel_values_in_blocks(monkeypatch):
    monkeypatch.setattr("kernlet.kernels.gram.BLOCK_BYTES", 300)
    features = RowFeatures(X, RBF(0.5), X[:6])
    assert features.n_features == 6
    assert sum(1 for _ in features.blocks()) > 5
    w = np.arange(6.0)
    np.testing.assert_allclose(features.dot(w), RBF(0.5)(X, X[:6]) @ w)
    assert not features.middle.any()


def test_the_middle_is_near_the_rows():
    np.testing.assert_allclose(RowFeatures(X + 100).middle, X.mean(axis=0) + 100)
    assert not RowFeatures(sparse.csr_array(X)).middle.any()


def test_blocks_of_sparse_rows(monkeypatch):
    few = sparse.random_array((1000, 400), density=0.01, format="csr", rng=0)
    features = RowFeatures(few)
    assert sum(1 for _ in features.blocks()) == 1  # by their entries, not by their width
    monkeypatch.setattr("kernlet.kernels.gram.BLOCK_BYTES", 2**20)
    parts = [block for _, block in features.blocks(dense=True)]
    assert len(parts) > 10
    np.testing.assert_array_equal(np.vstack(parts), few.toarray())

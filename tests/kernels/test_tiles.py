"""Tiles of a kernel block are the block, kept or not."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

from kernlet.kernels.gram import TileMaker, kernel_matrix
from kernlet.kernels.linear import Linear
from kernlet.kernels.rbf import RBF

X = np.random.RandomState(0).randn(3000, 4)


@pytest.mark.parametrize("kernel", [RBF(0.3), Linear()], ids=repr)
@pytest.mark.parametrize("wrap", [np.asarray, csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_are_the_kernel_matrix(kernel, wrap, dtype):
    tiles = pickle.loads(pickle.dumps(TileMaker(kernel, wrap(X[:40]), dtype)))(wrap(X))
    values = np.concatenate([tile for _, tile in tiles])
    tolerance = 1e-4 if dtype is np.float32 else 1e-10
    np.testing.assert_allclose(values, kernel_matrix(kernel, X, X[:40]), atol=tolerance)
    assert tiles.nbytes == values.nbytes
    kept = np.concatenate([tile for _, tile in tiles.materialised()])
    np.testing.assert_array_equal(kept, values)


def test_all_blocks_are_evaluated_about_the_same_point():
    """A row has the same kernel values whichever block it is in."""
    make = TileMaker(RBF(0.3), X[:40] + 1000, np.float32)
    together = np.concatenate([tile for _, tile in make(X + 1000)])
    apart = np.concatenate([tile for _, tile in make(X[1000:] + 1000)])
    np.testing.assert_allclose(together[1000:], apart, atol=1e-6)

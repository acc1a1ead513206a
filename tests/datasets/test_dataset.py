from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from kernlet.datasets import Dataset

X, Y = np.eye(3), np.array([0, 1, 1])


def test_repr_tells_shapes_and_classes():
    assert repr(Dataset("a", X, Y)) == "Dataset('a', 3 rows x 3 features, 2 classes, no test part)"
    assert "3 rows x 3 features, 2 classes, 2 test rows" in repr(Dataset("a", X, Y, X[:2], Y[:2]))


def test_is_frozen_and_compared_by_identity():
    dataset = Dataset("a", X, Y)
    with pytest.raises(FrozenInstanceError):
        dataset.name = "b"
    same = dataset
    assert dataset == same
    assert dataset != Dataset("a", X, Y)


@pytest.mark.parametrize(("rows", "labels"), [(X, Y[:2]), (X[0], Y), (X, Y[:, None])])
def test_rows_and_labels_must_fit(rows, labels):
    with pytest.raises(ValueError, match="one label a row"):
        Dataset("a", rows, labels)
    with pytest.raises(ValueError, match="one label a row"):
        Dataset("a", X, Y, rows, labels)


@pytest.mark.parametrize("test", [{"X_test": X}, {"y_test": Y}])
def test_half_a_test_part_is_refused(test):
    with pytest.raises(ValueError, match="give both or neither"):
        Dataset("a", X, Y, **test)

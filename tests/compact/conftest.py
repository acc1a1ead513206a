"""The data that compact machines are tested on."""

import pytest
from sklearn.datasets import load_digits, make_moons
from sklearn.model_selection import train_test_split


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(600, noise=0.2, random_state=0)
    return X[:300], X[300:], y[:300], y[300:]

"""Every competitor of the frontier keeps the contract."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC

from benchmarks.frontier.competitors import COMPETITORS, hist_gradient_boosting, random_forest
from benchmarks.frontier.contract import N_SETTINGS, Shape
from kernlet.quantized import QuantizedExpansion
from kernlet.tables import Table

BUDGET = 600
SLOW = {"compact", "mlp", "cs", "compressed_svc"}  # only two of their settings are built
FREE_SIZE = {"svc", "knn", "rvm", "mkc"}  # whose size is no parameter


def blobs(n_classes):
    X, y = make_blobs(150, 4, centers=n_classes, cluster_std=1.5, random_state=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X.astype(np.float32), y


def built(name, n_classes, seed=0):
    X, y = blobs(n_classes)
    settings = COMPETITORS[name].settings(Shape(len(X), X.shape[1], n_classes), 2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return X, y, COMPETITORS[name].build(settings[len(settings) // 2], X, y, seed)


def stored_bytes(value):
    """Bytes of all arrays and tables in a machine, counted one by one."""
    if isinstance(value, QuantizedExpansion):
        return sum(stored_bytes(part) for part in value.__reduce__()[1])
    if isinstance(value, Table):
        return value.data.nbytes + (0 if value.format.name == "float32" else 4)
    if isinstance(value, np.ndarray | np.generic):
        return value.nbytes
    if isinstance(value, float):  # shift and scale of an expansion, in float32
        return 4
    if isinstance(value, tuple):
        return sum(stored_bytes(part) for part in value)
    if hasattr(value, "__dataclass_fields__"):
        return sum(stored_bytes(getattr(value, name)) for name in value.__dataclass_fields__)
    return 0


@pytest.mark.parametrize("name", COMPETITORS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_settings_are_few_and_different(name, n_classes):
    for max_bytes in (256, 1024, 65_536):
        settings = COMPETITORS[name].settings(Shape(3000, 20, n_classes), max_bytes)
        assert len(settings) <= N_SETTINGS
        assert all(setting not in settings[:i] for i, setting in enumerate(settings))


@pytest.mark.parametrize("name", COMPETITORS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_machine_predicts_with_what_it_stores(name, n_classes):
    X, y, machine = built(name, n_classes)
    predicted = machine.predict(X)
    assert predicted.shape == y.shape
    assert np.mean(predicted == y) > 1.2 / n_classes
    assert machine.nbytes == stored_bytes(machine) > 0
    assert machine.n_centers is None or machine.n_centers > 0


@pytest.mark.parametrize("name", sorted(set(COMPETITORS) - FREE_SIZE))
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_size_that_is_a_parameter_fits(name, n_classes):
    X, y = blobs(n_classes)
    settings = COMPETITORS[name].settings(Shape(len(X), X.shape[1], n_classes), BUDGET)
    assert settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for setting in settings[:: len(settings) - 1] if name in SLOW else settings:
            assert COMPETITORS[name].build(setting, X, y, 0).nbytes <= BUDGET


@pytest.mark.parametrize("name", COMPETITORS)
def test_a_seed_says_it_all(name):
    X, _, first = built(name, 3, seed=3)
    second = built(name, 3, seed=3)[2]
    assert np.array_equal(first.predict(X), second.predict(X))


def test_nothing_is_offered_where_nothing_fits():
    shape = Shape(20_000, 784, 10)
    for name in ("knn", "knn_prototypes", "nystroem", "compressed_svc"):
        assert COMPETITORS[name].settings(shape, 256) == []


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_rounded_svc_agrees_with_the_svc(n_classes):
    X, y = blobs(n_classes)
    svc = SVC(C=1.0, gamma=0.5).fit(X, y)
    setting = {"storage": ["int8", "float16"], "C": 1.0, "gamma": 0.5}
    machine = COMPETITORS["svc"].build(setting, X, y, 0)
    assert np.mean(machine.predict(X) == svc.predict(X)) > 0.97


def halves(n_classes):
    """Rows of whole numbers: thresholds between them are exact in float16."""
    X, y = blobs(n_classes)
    return np.rint(4 * X).astype(np.float32), y


def test_packed_trees_vote_as_the_forest_does():
    X, y = halves(3)
    setting = {"n_trees": 5, "leaf": "shares", "max_features": "sqrt", "leaves": 12}
    forest = RandomForestClassifier(5, max_leaf_nodes=12, max_features="sqrt", random_state=0)
    machine = random_forest.build(setting, X, y, 0)
    assert np.mean(machine.predict(X) == forest.fit(X, y).predict(X)) > 0.97


@pytest.mark.parametrize("n_classes", [2, 3])
def test_packed_trees_add_up_as_boosting_does(n_classes):
    X, y = halves(n_classes)
    setting = {"max_leaf_nodes": 6, "learning_rate": 0.3, "max_iter": 8}
    boosting = hist_gradient_boosting.unrounded(setting, X, y, 0)
    machine = hist_gradient_boosting.build(setting, X, y, 0)
    assert np.mean(machine.predict(X) == boosting.predict(X)) > 0.97


def test_random_features_from_a_seed_take_fewer_bytes():
    machine = built("rbf_sampler", 3)[2]
    assert machine.nbytes_from_seed < machine.nbytes

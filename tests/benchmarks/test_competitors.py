"""Every competitor keeps the contract, and rounding changes hardly any of its predictions."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC

from benchmarks.competitors import (
    COMPETITORS,
    hist_gradient_boosting,
    nystroem,
    random_forest,
    rbf_sampler,
    seeded_features,
    shared_trees,
    task_of,
)
from benchmarks.competitors.contract import N_SETTINGS, Shape
from benchmarks.competitors.expansions import rounded_rows
from kernlet.model.model import predicted_codes
from kernlet.quantization import PackedArray, QuantizedExpansion

BUDGET = 600
CLASSIFIERS = [name for name in COMPETITORS if task_of(name) == "classification"]
REGRESSORS = [name for name in COMPETITORS if task_of(name) == "regression"]
# Only two of their settings are built.
SLOW = {
    "compact",
    "mlp",
    "chunking_synthetic",
    "compressed_svc",
}
FREE_SIZE = {"svc", "knn", "rvm", "minimal_kernel"}  # whose size is no parameter


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
    if isinstance(value, PackedArray):
        steps = 2 * np.size(value.step) if np.ndim(value.step) else 4
        return value.data.nbytes + (0 if value.format.name == "float32" else steps)
    if isinstance(value, type):  # of a pickled expansion
        return 0
    if isinstance(value, dict):
        return sum(stored_bytes(part) for part in value.values())
    if isinstance(value, np.ndarray | np.generic):
        return value.nbytes
    if isinstance(value, float):  # shift and scale of an expansion, in float32
        return 4
    if isinstance(value, shared_trees.SharedTrees):  # and the sizes of its two tables
        return 4 + sum(stored_bytes(getattr(value, f)) for f in value.__dataclass_fields__)
    if isinstance(value, tuple):
        return sum(stored_bytes(part) for part in value)
    if hasattr(value, "__dataclass_fields__"):
        return sum(stored_bytes(getattr(value, name)) for name in value.__dataclass_fields__)
    return 0


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_settings_are_few_and_different(name, n_classes):
    for max_bytes in (256, 1024, 65_536):
        settings = COMPETITORS[name].settings(Shape(3000, 20, n_classes), max_bytes)
        assert len(settings) <= N_SETTINGS
        assert all(setting not in settings[:i] for i, setting in enumerate(settings))


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_machine_predicts_with_what_it_stores(name, n_classes):
    X, y, machine = built(name, n_classes)
    predicted = machine.predict(X)
    assert predicted.shape == y.shape
    assert np.mean(predicted == y) > 1.2 / n_classes
    assert machine.nbytes == stored_bytes(machine) > 0
    assert machine.n_centers is None or machine.n_centers > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(CLASSIFIERS) - FREE_SIZE))
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_size_that_is_a_parameter_fits(name, n_classes):
    X, y = blobs(n_classes)
    settings = COMPETITORS[name].settings(Shape(len(X), X.shape[1], n_classes), BUDGET)
    assert settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for setting in settings[:: max(1, len(settings) - 1)] if name in SLOW else settings:
            assert COMPETITORS[name].build(setting, X, y, 0).nbytes <= BUDGET


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
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


def close_rows(n_classes, seed):
    """Close rows, some of them twice; one column says one class exactly: its leaves are pure."""
    random = np.random.RandomState(seed)
    y = np.arange(200) % n_classes
    X = random.standard_normal((200, 3)) + 1.5 * np.eye(3)[y]
    X[:, 2] = np.where(y == 0, -1.0, 1.0) + 0.01 * random.standard_normal(200)
    X[100:110], y[100:110] = X[:10] + 1e-4, y[:10]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X.astype(np.float32), y


def of_expansion(expansion):
    outputs = expansion.decision_values
    n = len(expansion.coef)
    scheme = "one output" if n == 1 else "one vs rest"
    return lambda X: predicted_codes(outputs(X), scheme, n, True)


def plain_nystroem(setting, X, y, seed):
    return of_expansion(nystroem.unrounded(setting, X, y, seed)[0])


def plain_features(setting, X, y, seed):
    directions, linear = rbf_sampler.unrounded(setting, X, y, seed)
    return lambda X: linear.predict(rbf_sampler.features(X, directions))


def plain_svc(setting, X, y, seed):
    rounded = rounded_rows(X, setting["storage"][0])[0]
    return SVC(C=setting["C"], gamma=setting["gamma"]).fit(rounded, y).predict


def plain_forest(setting, X, y, seed):
    forest = random_forest.unrounded(setting, X, y, seed)
    if setting["leaf"] == "shares":
        return forest.predict
    votes = [tree.predict(X).astype(int) for tree in forest.estimators_]
    totals = np.eye(forest.n_classes_)[votes].sum(axis=0)
    return lambda X: totals.argmax(axis=1)


def plain_seeded(setting, X, y, seed):
    gamma, linear = seeded_features.unrounded(setting, X, y, seed)
    n = setting["n_directions"]
    return lambda X: linear.predict(seeded_features.features(X, seed, gamma, n))


PLAIN = {
    "seeded_features": plain_seeded,
    "nystroem": plain_nystroem,
    "rbf_sampler": plain_features,
    "svc": plain_svc,
    "random_forest": plain_forest,
    "hist_gradient_boosting": lambda *of: hist_gradient_boosting.unrounded(*of).predict,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_rounding_is_harmless_at_every_setting(name, n_classes, seed):
    X, y = close_rows(n_classes, seed)
    for setting in COMPETITORS[name].settings(Shape(*X.shape, n_classes), 1024):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine = COMPETITORS[name].build(setting, X, y, seed)
            plain = PLAIN[name](setting, X, y, seed)(X)
        assert np.mean(machine.predict(X) == plain) >= 0.95, setting


def test_a_huge_leaf_does_not_set_the_step_of_the_others(monkeypatch):
    X, y = close_rows(2, 0)
    setting = {"max_leaf_nodes": 8, "learning_rate": 0.3, "max_iter": 10}
    plain = hist_gradient_boosting.unrounded(setting, X, y, 0)
    nodes = plain._predictors[0][0].nodes
    leaf = int(np.flatnonzero(nodes["is_leaf"] == 1)[0])
    nodes["value"][leaf] = 5000 * np.sign(nodes["value"][leaf])
    monkeypatch.setattr(hist_gradient_boosting, "unrounded", lambda *of: plain)
    machine = hist_gradient_boosting.build(setting, X, y, 0)
    assert machine.step * 127 <= hist_gradient_boosting.CUTS[-1] * 1.001
    assert np.mean(machine.predict(X) == plain.predict(X)) >= 0.97


def test_a_threshold_at_the_value_of_many_rows_survives_rounding():
    random = np.random.RandomState(0)
    X = np.where(random.rand(3000, 6) < 0.7, -0.42381933, random.randn(3000, 6)).astype(np.float32)
    y = ((X > -0.42).sum(axis=1) > 1).astype(int)
    setting = {"max_leaf_nodes": 4, "learning_rate": 0.3, "max_iter": 20}
    plain = hist_gradient_boosting.unrounded(setting, X, y, 0)
    thresholds = np.concatenate([r[0].nodes["num_threshold"] for r in plain._predictors])
    assert np.isclose(thresholds, -0.42381933, rtol=0, atol=1e-7).any()
    machine = hist_gradient_boosting.build(setting, X, y, 0)
    assert np.mean(machine.predict(X) == plain.predict(X)) >= 0.99


@pytest.mark.parametrize("n_classes", [2, 3])
def test_trees_of_shared_tables_add_up_as_boosting_does(n_classes):
    X, y = halves(n_classes)
    setting = {"max_leaf_nodes": 4, "learning_rate": 0.3, "max_bins": 16}
    setting |= {"bits": 6, "max_iter": 8, "max_bytes": 2000}
    boosting = shared_trees.unrounded(setting, X, y, 0)
    machine = shared_trees.build(setting, X, y, 0)
    assert machine.n_trees == 8 * (n_classes if n_classes > 2 else 1)
    assert np.mean(machine.predict(X) == boosting.predict(X)) > 0.97


def test_trees_of_shared_tables_are_read_back_from_their_bits():
    X, y = halves(3)
    setting = {"max_leaf_nodes": 5, "learning_rate": 0.3, "max_bins": 8}
    setting |= {"bits": 4, "max_iter": 30, "max_bytes": 300}
    machine = shared_trees.build(setting, X, y, 0)
    assert machine.nbytes <= 300
    n_leaves, n_nodes = len(machine.trees.leaves), len(machine.trees.features)
    assert n_nodes == 2 * n_leaves - machine.n_trees
    split_bits = (len(machine.features) - 1).bit_length()
    leaf_bits = (len(machine.codebook) - 1).bit_length()
    n_bits = n_nodes + (n_nodes - n_leaves) * split_bits + n_leaves * leaf_bits
    assert len(machine.stream) == -(-n_bits // 8)
    more = shared_trees.build({**setting, "max_bytes": 400}, X, y, 0)
    assert more.n_trees > machine.n_trees


def test_directions_come_from_the_stored_seed():
    X, _, machine = built("seeded_features", 3, seed=5)
    assert machine.seed == 5
    assert machine.nbytes < 4 * X.shape[1] * machine.n_centers


def curve():
    random = np.random.RandomState(0)
    X = random.uniform(-2, 2, (200, 3)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    return X, ((y - y.mean()) / y.std()).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_predicts_numbers_with_what_it_stores(name):
    X, y = curve()
    settings = COMPETITORS[name].settings(Shape(*X.shape, 0), BUDGET)
    assert 0 < len(settings) <= 12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machines = [COMPETITORS[name].build(setting, X, y, 0) for setting in settings]
    for machine in machines:
        assert machine.nbytes <= BUDGET
        predicted = machine.predict(X)
        assert predicted.shape == y.shape
    best = min(np.mean((machine.predict(X) - y) ** 2) for machine in machines)
    assert best < 0.3
    assert machines[-1].nbytes == stored_bytes(machines[-1])

"""Rounding changes hardly any prediction of a competitor, whatever its setting and its seed."""

import warnings

import numpy as np
import pytest
from sklearn.svm import SVC

from benchmarks.frontier.competitors import (
    COMPETITORS,
    hist_gradient_boosting,
    nystroem,
    random_forest,
    rbf_sampler,
)
from benchmarks.frontier.contract import Shape
from benchmarks.frontier.expansions import rounded_rows
from kernlet.estimators.votes import predicted_codes

BUDGET = 1024


def rows(n_classes, seed):
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
    return lambda X: predicted_codes(outputs(X), scheme, n, False, True)


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


PLAIN = {
    "nystroem": plain_nystroem,
    "rbf_sampler": plain_features,
    "svc": plain_svc,
    "random_forest": plain_forest,
    "hist_gradient_boosting": lambda *of: hist_gradient_boosting.unrounded(*of).predict,
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_rounding_is_harmless_at_every_setting(name, n_classes, seed):
    X, y = rows(n_classes, seed)
    for setting in COMPETITORS[name].settings(Shape(*X.shape, n_classes), BUDGET):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine = COMPETITORS[name].build(setting, X, y, seed)
            plain = PLAIN[name](setting, X, y, seed)(X)
        assert np.mean(machine.predict(X) == plain) >= 0.95, setting


def test_a_huge_leaf_does_not_set_the_step_of_the_others(monkeypatch):
    X, y = rows(2, 0)
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

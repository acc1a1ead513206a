"""Kernel features of the papers: what an experiment measures, and by which rows."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kernlet.datasets import Dataset
from papers.features import fit_by_rounds, score_features
from papers.tasks import Task, cluster_error, fold, official


def grouped_digits(n_classes=3):
    """Images with noise in groups of four, numbered as the shifts of one image are."""
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    random = np.random.RandomState(0)
    X, y = np.repeat(X[:120], 4, axis=0) / 16.0, np.repeat(y[:120], 4)
    X += 0.3 * random.randn(*X.shape)
    groups = np.arange(len(y)) // 4
    train, test = slice(0, 320), slice(320, 480)
    return Task(X[train], y[train], X[test], y[test], 0.03, 1.0, groups[train], groups[test])


def test_folds_keep_groups_together_and_cover_all_rows():
    task = grouped_digits()
    n_rows = 0
    for number in range(5):
        part = fold(task, number)
        n_rows += len(part.y_test)
        assert len(part.y) + len(part.y_test) == len(task.y)
        images = [{row.tobytes() for row in A} for A in (part.X, part.X_test)]
        assert not images[0] & images[1]
        rows = {row.tobytes(): group for row, group in zip(task.X, task.groups, strict=True)}
        train, test = ({rows[image] for image in side} for side in images)
        assert not train & test
    assert n_rows == len(task.y)
    assert len(fold(task, 0, most=100).y_test) < 40


def test_the_error_of_groups_is_that_of_their_means():
    random = np.random.RandomState(0)
    is_correct, groups = random.rand(600) < 0.9, np.repeat(np.arange(60), 10)
    means = is_correct.reshape(60, 10).mean(axis=1)
    expected = 100 * means.std(ddof=1) / np.sqrt(60)
    assert cluster_error(is_correct, groups) == pytest.approx(expected)
    shuffled = random.permutation(600)
    assert cluster_error(is_correct[shuffled], groups[shuffled]) == pytest.approx(expected)
    # Rows that agree within their group say as much as one of them.
    copies = np.repeat(is_correct, 7)
    alone = cluster_error(is_correct, np.arange(600))
    assert cluster_error(copies, np.repeat(np.arange(600), 7)) == pytest.approx(alone)


def test_few_rows_of_a_sorted_set_are_of_all_classes(monkeypatch):
    X, y = load_digits(return_X_y=True)
    order = np.argsort(y, kind="stable")
    data = Dataset("sorted", X[order], y[order], X[order], y[order])
    monkeypatch.setattr("papers.tasks.load", lambda name: data)
    task = official("sorted", 200, 100)
    assert len(task.y) == 200
    assert len(task.y_test) == 100
    assert len(np.unique(task.y)) == len(np.unique(task.y_test)) == 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options", "counts"),
    [
        ("none", {}, "0"),
        ("kpca", {"counts": [1, 2]}, "12"),
        ("kfd", {}, "0"),
        ("kfd", {"n_landmarks": 50}, "0"),
        ("mmda", {"solver": "core"}, "12345"),
        ("mmda", {"solver": "exact", "n_per_class": 2}, "12"),
        ("mmda", {"solver": "landmarks", "n_landmarks": 50}, "12345"),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_experiment_measures_all_numbers_of_features(
    method, options, counts, n_classes, monkeypatch
):
    task = grouped_digits(n_classes)
    monkeypatch.setattr("papers.features._task", lambda name, n_rows: task)
    facts = score_features("digits", method, 0, None, 9, options)
    assert "".join(map(str, facts["fit"])) == counts
    seconds = list(facts["fit"].values())
    assert method == "kpca" or seconds == sorted(seconds)
    accuracies = facts["accuracy"]
    assert {name for name in accuracies if "ANN" in name} == {f"ANN {k}" for k in counts}
    assert facts["nodes"] <= 9
    assert facts["rule"] == max(facts["by_rule"], key=facts["by_rule"].get)
    assert min(accuracies.values()) > 70
    assert set(facts["test_error"]) == set(accuracies)
    assert ("SVM 0" in accuracies) == (method == "none") == ("C" in facts)
    assert ("ball_gap" in facts["certificates"]) == (options.get("solver") == "core")
    if method == "mmda":
        assert all(n <= facts["distinct"] for n in facts["points"].values())


def test_without_callbacks_every_number_of_rounds_is_a_fit():
    class Machine:
        n_features_per_class, fits = 3, ()

        def set_params(self, n_features_per_class):
            self.n_features_per_class = n_features_per_class
            return self

        def fit(self, X, y):
            self.fits += (self.n_features_per_class,)

    machine = Machine()
    assert len(fit_by_rounds(machine, None, None)) == 3
    assert machine.fits == (1, 2, 3)

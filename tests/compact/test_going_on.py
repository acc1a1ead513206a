import pickle

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils._param_validation import InvalidParameterError

from kernlet import CompressedClassifier, MinimalKernelClassifier, compress
from support.compact_machines import machine


def test_warm_start_goes_on(digits):
    X, _, y, _ = digits
    small = machine(15, n_epochs=5, warm_start=True).fit(X, y)
    first, gamma = small.history_, small.expansion_.gamma
    small.fit(X, y)
    assert small.n_centers_ == 15
    assert small.history_[0]["loss"] < first[0]["loss"]
    assert not np.array_equal(small.expansion_.gamma, gamma)
    small.set_params(n_centers=None, storage="int8").fit(X, y)
    assert small.expansion_.storage == {"centers": "int8", "coef": "int8"}
    assert small.n_centers_ == 15


def test_warm_start_keeps_what_was_chosen(digits):
    X, _, y, _ = digits
    small = machine(None, max_bytes=1000, n_epochs=2, warm_start=True).fit(X, y)
    before = small.nbytes_, small.expansion_.storage
    small.fit(X, y)
    assert (small.nbytes_, small.expansion_.storage) == before


def test_warm_start_refuses_other_classes_sizes_and_features(moons):
    X, _, y, _ = moons
    small = machine(n_epochs=2, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="other classes or features"):
        clone_with_memory(small).fit(X, y + 1)
    with pytest.raises(ValueError, match="other classes or features"):
        clone_with_memory(small).fit(X[:, :1], y)
    with pytest.raises(ValueError, match="n_centers=7, but the machine to start from has 10"):
        clone_with_memory(small).set_params(n_centers=7).fit(X, y)


def clone_with_memory(estimator):
    return pickle.loads(pickle.dumps(estimator))


def test_warm_start_with_more_centers_asked_for_than_rows():
    X, y = make_moons(40, noise=0.1, random_state=0)
    small = machine(500, n_epochs=2, warm_start=True).fit(X, y)
    n_centers = small.n_centers_
    assert small.fit(X, y).n_centers_ == n_centers


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize(
    "make",
    [
        lambda X, y: X[:25],
        lambda X, y: X[:25].tolist(),
        lambda X, y: MinimalKernelClassifier(random_state=0).fit(X, y),
        lambda X, y: SVC(C=10).fit(X, y),
        lambda X, y: SVC(kernel="linear").fit(X, y),
        lambda X, y: machine(12, n_epochs=20).fit(X, y),
        lambda X, y: machine(12, n_epochs=3, storage="int4", projection=8).fit(X, y),
        lambda X, y: compress(SVC().fit(X, y), 12, X, y, random_state=0),
    ],
    ids=["points", "list", "minimal", "svc", "linear", "compact", "packed", "compressed"],
)
def test_starting_from_what_is_there(digits, make, n_classes):
    X, X_test, y, y_test = (part[:300] for part in digits)
    X, y = X[y < n_classes], y[y < n_classes]
    small = machine(12, init=make(X, y)).fit(X, y)
    assert small.score(X_test[y_test < n_classes], y_test[y_test < n_classes]) > 0.85


def test_support_vectors_of_many_classes_are_a_good_start(digits):
    X, X_test, y, y_test = (part[:300] for part in digits)
    svm = SVC(C=10).fit(X, y)
    small = machine(None, init=svm).fit(X, y)
    assert small.n_centers_ == len(svm.support_)
    assert small.score(X_test, y_test) > 0.85


def test_a_start_from_a_machine_is_that_machine(digits):
    X, X_test, y, _ = digits
    before = machine(15, n_epochs=5).fit(X, y)
    after = machine(None, init=before, learning_rate=1e-9, n_epochs=1).fit(X, y)
    np.testing.assert_allclose(
        after.decision_function(X_test), before.decision_function(X_test), atol=1e-3
    )


def test_fewer_centers_than_there_are_to_start_from(moons):
    X, X_test, y, y_test = moons
    for init in (X[:50], SVC().fit(X, y)):
        small = machine(8, init=init).fit(X, y)
        assert small.n_centers_ == 8
        assert small.score(X_test, y_test) > 0.9
    assert machine(80, init=X[:9], n_epochs=1).fit(X, y).n_centers_ == 9


@pytest.mark.parametrize("make", [lambda X, y: X[:50], lambda X, y: SVC().fit(X, y)])
def test_a_start_keeps_to_the_bytes(moons, make):
    X, _, y, _ = moons
    small = machine(None, init=make(X, y), max_bytes=100, n_epochs=2).fit(X, y)
    assert small.nbytes_ <= 100


def test_a_start_from_a_compact_machine_keeps_to_the_bytes_or_is_refused(moons):
    X, _, y, _ = moons
    large = machine(50, n_epochs=2).fit(X, y)
    with pytest.raises(ValueError, match="max_bytes"):
        machine(None, init=large, max_bytes=100, n_epochs=2).fit(X, y)


def test_starts_that_do_not_fit_are_refused(moons):
    X, _, y, _ = moons
    piped = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    for init, kind, message in (
        (piped, ValueError, "Pipeline with steps in front"),
        (SVC().fit(X, y + 5), ValueError, "trained for the classes"),
        (SVC().fit(X[:, :1], y), ValueError, "init has 1 features, but X has 2"),
        (X[:5, :1], ValueError, "points of 1 features, but X has 2"),
        (np.full((3, 2), np.nan), ValueError, "NaN"),
        (LogisticRegression().fit(X, y), TypeError, "not a kernel classifier"),
        (SVC(), NotFittedError, "not fitted"),
        ("somewhere", InvalidParameterError, "init"),
    ):
        with pytest.raises(kind, match=message):
            machine(None, init=init).fit(X, y)


def test_a_frozen_machine_can_be_started_from_inside_a_search(moons):
    X, _, y, _ = moons
    start = FrozenEstimator(SVC().fit(X, y))
    search = GridSearchCV(machine(8, init=start), {"noise": [0.05, 0.1]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.85


@pytest.mark.parametrize("with_rows", [True, False])
def test_a_compact_machine_can_be_compressed(digits, with_rows):
    X, X_test, y, y_test = digits
    large = machine(60).fit(X, y)
    rows = (X, y) if with_rows else ()
    small = compress(large, 40, *rows, random_state=0)
    assert small.n_centers_ == 40
    assert small.score(X_test, y_test) > 0.9


def test_a_compact_machine_inside_a_compressor(moons):
    X, X_test, y, y_test = moons
    small = CompressedClassifier(machine(30), 12, random_state=0).fit(X, y)
    assert small.score(X_test, y_test) > 0.9


def test_a_machine_behind_a_projection_is_not_compressed(digits):
    X, _, y, _ = digits
    with pytest.raises(ValueError, match="cannot be taken into its centers"):
        compress(machine(20, projection=8).fit(X, y), 10)

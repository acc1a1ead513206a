"""The proximal classifier."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import naive
from kernlet import ProximalClassifier
from kernlet.rows import ArrayRows
from support.callbacks import ProgressBar, ScoringMonitor, needs_callbacks

MACHINES = [
    ProximalClassifier(kernel="linear"),
    ProximalClassifier(kernel="linear", class_weight=None),
    ProximalClassifier(kernel="linear", class_weight={0: 2.0, 1: 0.5, 2: 1.0}),
    ProximalClassifier(gamma=0.1, landmarks=np.random.RandomState(0).normal(size=(30, 5))),
    ProximalClassifier(
        gamma=0.1, landmarks=np.random.RandomState(0).normal(size=(30, 5)), class_weight=None
    ),
    ProximalClassifier(kernel="poly", coef0=1.0, degree=2, gamma=0.1, landmarks=np.eye(5)),
]


@pytest.fixture
def data():
    return make_classification(
        n_samples=240, n_features=5, n_informative=4, n_redundant=0, n_classes=3, random_state=0
    )


def outputs(machine, X):
    return machine.decision_function(X)


@pytest.mark.parametrize("class_weight", ["balanced", "normalized", None])
def test_it_is_the_stated_problem(class_weight, data):
    X, y = data
    machine = ProximalClassifier(3.0, kernel="linear", class_weight=class_weight).fit(X, y)
    for number in range(3):
        signs = np.where(y == number, 1.0, -1.0)
        weights = np.ones(len(X))
        if class_weight is not None:
            weights = naive.class_normalization(signs, class_weight == "balanced")
        w, b = naive.proximal(X, signs, weights, 3.0)
        np.testing.assert_allclose(machine.coef_[number], w, atol=1e-8)
        np.testing.assert_allclose(machine.intercept_[number], b, atol=1e-8)
        np.testing.assert_allclose(outputs(machine, X)[:, number], X @ w + b, atol=1e-8)
    assert machine.residual_ < 1e-12
    assert machine.n_iter_ == (1 if class_weight is None else 3)


def test_kernel_values_take_the_place_of_columns(data):
    X, y = data
    machine = ProximalClassifier(landmarks=40, random_state=0).fit(X, y)
    expansion = machine.expansion_
    assert expansion.n_centers == machine.n_centers_ == 40
    K = expansion.kernel(X, expansion.centers)
    for number in range(3):
        signs = np.where(y == number, 1.0, -1.0)
        w, b = naive.proximal(K, signs, naive.class_normalization(signs, True), 1.0)
        np.testing.assert_allclose(outputs(machine, X)[:, number], K @ w + b, atol=1e-8)
    with pytest.raises(AttributeError, match=r"expansion_\.coef"):
        machine.coef_  # noqa: B018


def test_two_classes_make_one_output():
    X, y = load_breast_cancer(return_X_y=True)
    machine = ProximalClassifier(kernel="linear").fit(X, y)
    assert machine.coef_.shape == (1, 30)
    assert machine.decision_function(X).shape == (len(X),)
    assert machine.n_iter_ == 1
    assert machine.score(X, y) > 0.95


def test_it_is_ridge_but_for_the_penalty_on_the_intercept():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = ProximalClassifier(1e4, kernel="linear", class_weight=None).fit(X, y)
    peer = RidgeClassifier(alpha=1e-4).fit(X, y)
    np.testing.assert_allclose(outputs(ours, X), peer.decision_function(X), atol=1e-5)


def test_balanced_weights_help_rare_classes():
    X, y = make_classification(2000, n_classes=2, weights=[0.95], random_state=0, class_sep=0.5)
    scores = [
        balanced_accuracy_score(
            y, ProximalClassifier(kernel="linear", class_weight=w).fit(X, y).predict(X)
        )
        for w in ("balanced", None)
    ]
    assert scores[0] > scores[1] + 0.1


def test_balanced_does_not_depend_on_the_number_of_rows(data):
    X, y = data
    once = ProximalClassifier(1e3, kernel="linear").fit(X, y)
    twice = ProximalClassifier(5e2, kernel="linear").fit(np.tile(X, (2, 1)), np.tile(y, 2))
    np.testing.assert_allclose(outputs(once, X), outputs(twice, X), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
@settings(max_examples=10)
@given(st.permutations(range(5)), st.integers(0, 4), st.booleans())
def test_blocks_in_any_order_and_forgotten(machine, order, n_forgotten, weighted):
    X, y = make_classification(
        200, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0, shift=30.0
    )
    weights = np.random.RandomState(1).uniform(0.5, 2.0, 200) if weighted else np.ones(200)
    parts = np.array_split(np.arange(200), 5)
    whole = clone(machine).fit(X, y, weights)
    piecewise = clone(machine)
    for number in order:
        rows = parts[number]
        piecewise.partial_fit(X[rows], y[rows], sample_weight=weights[rows])
    np.testing.assert_allclose(outputs(piecewise, X), outputs(whole, X), atol=1e-10)
    blocks = ((X[parts[i]], y[parts[i]], weights[parts[i]]) for i in order)
    np.testing.assert_allclose(
        outputs(clone(machine).fit_blocks(blocks), X), outputs(whole, X), atol=1e-10
    )
    gone, left = (np.concatenate([parts[i] for i in part] or [[]]).astype(int)
                  for part in (order[:n_forgotten], order[n_forgotten:]))  # fmt: skip
    if len(gone):
        piecewise.partial_forget(X[gone], y[gone], weights[gone])
    rest = clone(machine).fit(X[left], y[left], weights[left])
    np.testing.assert_allclose(outputs(piecewise, X), outputs(rest, X), atol=1e-10)
    assert piecewise.n_samples_seen_ == len(left)
    assert piecewise.residual_ < 1e-9


@pytest.mark.parametrize("class_weight", ["balanced", None, {0: 2.0, 1: 1.0, 2: 3.0}])
def test_classes_may_come_late(class_weight):
    X, y = load_iris(return_X_y=True)
    machine = ProximalClassifier(kernel="linear", class_weight=class_weight)
    machine.partial_fit(X[:100], y[:100])
    assert machine.decision_function(X).ndim == 1
    machine.partial_fit(X[100:], y[100:])
    assert machine.classes_.tolist() == [0, 1, 2]
    whole = clone(machine).fit(X, y)
    np.testing.assert_allclose(outputs(machine, X), outputs(whole, X), atol=1e-10)


def test_classes_told_at_first_are_the_only_ones():
    X, y = load_iris(return_X_y=True)
    machine = ProximalClassifier(kernel="linear").partial_fit(X[:50], y[:50], classes=[0, 1])
    assert set(machine.predict(X)) == {0}
    with pytest.raises(ValueError, match="not among the classes given"):
        machine.partial_fit(X, y)
    assert machine.n_samples_seen_ == 50
    machine.partial_fit(X[50:100], y[50:100])
    assert set(machine.predict(X[:100])) == {0, 1}


def test_one_class_at_first_asks_for_more():
    X, y = load_iris(return_X_y=True)
    machine = ProximalClassifier(kernel="linear")
    with pytest.raises(ValueError, match="one class only"):
        machine.partial_fit(X[:50], y[:50])
    assert not hasattr(machine, "classes_")
    with pytest.raises(NotFittedError):
        machine.predict(X)
    blocks = ((X[rows], y[rows]) for rows in (slice(0, 50), slice(50, 150)))
    assert ProximalClassifier(kernel="linear").fit_blocks(blocks).n_samples_seen_ == 150


@pytest.mark.parametrize("class_weight", ["balanced", None])
def test_a_class_wholly_forgotten_is_gone(class_weight):
    X, y = load_iris(return_X_y=True)
    X = X + 100
    machine = ProximalClassifier(1e-4, kernel="linear", class_weight=class_weight).fit(X, y)
    machine.partial_forget(X[y == 1], y[y == 1])
    assert machine.classes_.tolist() == [0, 2]
    assert machine.moments_.counts.tolist() == [50, 50]
    rest = clone(machine).fit(X[y != 1], y[y != 1])
    np.testing.assert_allclose(outputs(machine, -X), outputs(rest, -X), atol=1e-9)
    with pytest.raises(ValueError, match=r"one class only \(2\) would be left"):
        machine.partial_forget(X[y == 0], y[y == 0])
    machine.partial_fit(X[y == 1], y[y == 1])
    assert machine.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_class_without_rows_is_never_predicted(kernel):
    X, y = load_iris(return_X_y=True)
    X = X + 100
    base = ProximalClassifier(1e-4, kernel=kernel, random_state=0)
    three = clone(base).fit_blocks([(X, y)], classes=[0, 1, 2])
    three.partial_forget(X[y == 1], y[y == 1])
    some = clone(base).partial_fit(X[y != 1], y[y != 1], classes=[0, 1, 2])
    first = clone(base).partial_fit(X[y == 0], y[y == 0], classes=[0, 1])
    second = clone(base).partial_fit(X[y == 1], y[y == 1], classes=[0, 1])
    for rows in (X, -X, 1e6 * X):
        assert set(three.predict(rows)) <= {0, 2}
        assert set(some.predict(rows)) <= {0, 2}
        assert set(first.predict(rows)) == {0}
        assert set(second.predict(rows)) == {1}
        assert np.isfinite(outputs(three, rows).astype(np.float32)).all()
    assert three.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("kinds", [(np.asarray, sparse.csr_array), (sparse.csr_array, np.asarray)])
@pytest.mark.parametrize("class_weight", ["balanced", None])
def test_dense_and_sparse_blocks_mix(kinds, class_weight):
    random = np.random.RandomState(0)
    X, y = random.normal(5.0, 1.0, (60, 3)), random.randint(3, size=60)
    machine = ProximalClassifier(kernel="linear", class_weight=class_weight)
    whole = clone(machine).fit(X, y)
    machine.partial_fit(kinds[0](X[:30]), y[:30]).partial_fit(kinds[1](X[30:]), y[30:])
    np.testing.assert_allclose(outputs(machine, X), outputs(whole, X), atol=1e-10)
    half = clone(machine).fit(X[:30], y[:30])
    forgetful = clone(machine).fit(kinds[0](X), y).partial_forget(kinds[1](X[30:]), y[30:])
    np.testing.assert_allclose(outputs(forgetful, X), outputs(half, X), atol=1e-10)


def test_rows_far_away_make_the_same_machine_about_their_middle():
    random = np.random.RandomState(0)
    X, y = random.normal(size=(20, 2)) + 1e9, np.arange(20) % 2
    X[:, 0] += y
    machine = ProximalClassifier(kernel="linear", class_weight=None).fit(X, y)
    expected = naive.proximal_values_exact(X, 2.0 * y - 1, np.ones(20), 1.0)
    np.testing.assert_allclose(outputs(machine, X), expected, atol=1e-6)
    assert machine.residual_ < 1e-12


def test_what_cannot_be_forgotten_changes_nothing():
    X, y = load_iris(return_X_y=True)
    machine = ProximalClassifier(kernel="linear").fit(X, y)
    values = outputs(machine, X)
    for rows, labels, weights, sentence in [
        (np.tile(X, (2, 1)), np.tile(y, 2), None, "than were learned"),
        (X, y, None, "No row would be left"),
        (X[:20], y[:20], np.full(20, 9.0), "more weight"),
        (X[:20], y[:20] + 7, None, "never learned"),
        (X[:100], y[:100], np.full(100, 0.5), "other weights"),
        (X[:49], y[:49], np.full(49, 50 / 49), "other weights"),
        (9 * X[:20], y[:20], None, "not learned"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            machine.partial_forget(rows, labels, weights)
    with pytest.raises(ValueError, match="4 features"):
        machine.partial_forget(X[:, :3], y)
    np.testing.assert_array_equal(outputs(machine, X), values)
    with pytest.raises(NotFittedError):
        ProximalClassifier().partial_forget(X, y)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"class_weight": None}, r"another class_weight\. Call fit"),
        ({"class_weight": {0: 2.0, 1: 1.0, 2: 1.0}}, r"another class_weight\. Call fit"),
        ({"class_weight": "balancd"}, "'class_weight' parameter"),
        ({"C": -1.0}, "'C' parameter"),
        ({"kernel": "linear"}, r"another kernel\. Call fit"),
        ({"gamma": 0.5}, r"another gamma\. Call fit"),
        ({"landmarks": np.eye(4)}, r"another landmarks\. Call fit"),
    ],
)
def test_parameters_changed_between_blocks(changed, sentence):
    X, y = load_iris(return_X_y=True)
    machine = ProximalClassifier(landmarks=X[:30]).fit(X, y)
    machine.set_params(**changed)
    for method in (machine.partial_fit, machine.partial_forget):
        with pytest.raises(ValueError, match=sentence):
            method(X[:10], y[:10])
    assert machine.n_samples_seen_ == 150


def test_parameters_that_may_change_between_blocks():
    X, y = load_iris(return_X_y=True)
    machine = ProximalClassifier(landmarks=X[:30], gamma=0.1).fit(X[::2], y[::2])
    machine.set_params(C=7.0, class_weight="normalized", landmarks=X[:30].copy())
    machine.partial_fit(X[1::2], y[1::2])
    whole = clone(machine).fit(X, y)
    np.testing.assert_allclose(outputs(machine, X), outputs(whole, X), atol=1e-10)


def test_labels_of_one_type_and_one_list():
    X, y = load_iris(return_X_y=True)
    words = ProximalClassifier(kernel="linear").partial_fit(X, np.array(list("abc"))[y])
    with pytest.raises(ValueError, match="another type"):
        words.partial_fit(X, y)
    machine = ProximalClassifier(kernel="linear").partial_fit(X, y, classes=[0, 1, 2])
    machine.partial_fit(X, y, classes=[2, 1, 0])
    with pytest.raises(ValueError, match="differs from the classes so far"):
        machine.partial_fit(X, y, classes=[0, 1, 2, 3])


@pytest.mark.parametrize("blocks", [[np.eye(3)], np.eye(3), [(np.eye(3),)], [np.eye(2)]])
def test_blocks_are_pairs_or_triples(blocks):
    with pytest.raises(ValueError, match=r"must be \(X, y\) or"):
        ProximalClassifier().fit_blocks(blocks)


def test_no_blocks_get_a_sentence():
    with pytest.raises(ValueError, match="no blocks"):
        ProximalClassifier().fit_blocks([])


def test_sums_too_large_get_a_sentence():
    X = sparse.random_array((20, 60_000), density=1e-3, format="csr", random_state=0)
    with pytest.raises(ValueError, match=r"each of 3 classes take 80 GB.*landmarks"):
        ProximalClassifier(kernel="linear").fit(X, np.arange(20) % 3)
    with pytest.raises(ValueError, match=r"all classes together take 27 GB.*landmarks"):
        ProximalClassifier(kernel="linear", class_weight=None).fit(X, np.arange(20) % 3)
    assert ProximalClassifier().fit(X, np.arange(20) % 2).score(X, np.arange(20) % 2) == 1.0


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
def test_sparse_rows_give_the_same_machine(kernel, container, data):
    X, y = data
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = ProximalClassifier(kernel=kernel, landmarks=50, random_state=0).fit(X, y)
    machine = clone(dense).fit(container(X), y)
    values = outputs(dense, X)
    np.testing.assert_allclose(outputs(machine, container(X)), values, atol=1e-8)
    np.testing.assert_allclose(outputs(machine, X), values, atol=1e-8)
    machine.partial_fit(X[:10], y[:10]).partial_forget(container(X[:10]), y[:10])
    np.testing.assert_allclose(outputs(machine, X), values, atol=1e-8)


@pytest.mark.parametrize(
    ("landmarks", "count"),
    [(7, 7), (0.25, 60), (None, 240), (10_000, 240), (np.zeros((3, 5)), 1), (np.eye(5), 5)],
)
def test_landmarks(landmarks, count, data):
    X, y = data
    machine = ProximalClassifier(landmarks=landmarks, random_state=0).fit(X, y)
    assert machine.n_centers_ == count
    again = clone(machine).fit(X, y)
    np.testing.assert_array_equal(again.expansion_.coef, machine.expansion_.coef)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"C": 0.0}, "'C' parameter"),
        ({"C": 1e-310}, "C=1e-310 is too small"),
        ({"class_weight": "even"}, "'class_weight' parameter"),
        ({"class_weight": {0: -1.0}}, "none negative"),
        ({"landmarks": 0}, "landmarks=0 is out of range"),
        ({"landmarks": 1.5}, "a fraction of the rows"),
        ({"landmarks": True}, "'landmarks' parameter"),
        ({"landmarks": np.eye(4)}, "landmarks has 4 columns"),
        ({"gamma": "wide"}, "'gamma' parameter"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence, data):
    with pytest.raises(ValueError, match=sentence):
        ProximalClassifier(**parameters).fit(*data)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_weights_of_rows_and_classes(kernel, data):
    X, y = data
    base = ProximalClassifier(kernel=kernel, gamma=0.1, landmarks=X[:30], class_weight=None)
    by_class = clone(base).set_params(class_weight={0: 3.0, 1: 1.0, 2: 0.5}).fit(X, y)
    by_row = clone(base).fit(X, y, np.array([3.0, 1.0, 0.5])[y])
    np.testing.assert_allclose(outputs(by_class, X), outputs(by_row, X), atol=1e-10)
    for machine in (base, clone(base).set_params(class_weight="balanced")):
        heavy = clone(machine).fit(X, y, 1.0 + (np.arange(240) < 40))
        twice = clone(machine).fit(np.vstack([X, X[:40]]), np.r_[y, y[:40]])
        np.testing.assert_allclose(outputs(heavy, X), outputs(twice, X), atol=1e-9)
        without = clone(machine).fit(X[40:], y[40:])
        zero = clone(machine).fit(X, y, 1.0 * (np.arange(240) >= 40))
        np.testing.assert_allclose(outputs(zero, X), outputs(without, X), atol=1e-9)


def test_labels_frames_and_float32(data):
    X, y = data
    columns = [f"x{k}" for k in range(5)]
    reference = ProximalClassifier(kernel="linear").fit(X, y)
    for frame in (pd.DataFrame, pl.DataFrame):
        table = frame(dict(zip(columns, X.T, strict=True)))
        machine = ProximalClassifier(kernel="linear").fit(table, np.array(["a", "b", "c"])[y])
        assert machine.feature_names_in_.tolist() == columns
        assert set(machine.predict(table)) <= {"a", "b", "c"}
        np.testing.assert_array_equal(outputs(machine, table), outputs(reference, X))
        with pytest.raises(ValueError, match="feature names"):
            machine.partial_fit(table[columns[::-1]], np.array(["a", "b", "c"])[y])
    short = ProximalClassifier(kernel="linear").fit(X.astype(np.float32), y == 1)
    assert short.predict(X.astype(np.float32)).dtype == bool
    assert short.residual_ < 1e-12


def test_unscaled_columns_of_all_sizes():
    random = np.random.RandomState(0)
    X = random.normal(size=(500, 6)) * 10.0 ** np.arange(-6, 6, 2) + 10.0 ** np.arange(6)
    y = X[:, 0] * 1e6 + random.normal(size=500) > np.median(X[:, 0] * 1e6)
    machine = ProximalClassifier(1e16, kernel="linear").fit(X, y)
    assert machine.residual_ < 1e-8
    assert machine.score(X, y) > 0.7


def test_constant_features_and_equal_rows():
    X, y = np.ones((10, 3)), np.array([0] * 6 + [1] * 4)
    for kernel in ("linear", "rbf"):
        machine = ProximalClassifier(kernel=kernel, class_weight=None).fit(X, y)
        assert machine.predict(X).tolist() == [0] * 10
        assert machine.residual_ < 1e-12


@needs_callbacks
def test_pickles_searches_pipes_and_listens():
    X, y = make_moons(300, noise=0.2, random_state=0)
    monitor = ScoringMonitor(scoring="accuracy")
    machine = ProximalClassifier(random_state=0).set_callbacks(monitor, ProgressBar()).fit(X, y)
    assert monitor.get_logs()
    again = pickle.loads(pickle.dumps(ProximalClassifier(random_state=0).fit(X, y)))
    np.testing.assert_array_equal(outputs(again, X), outputs(machine, X))
    again.partial_fit(X, y)
    pipe = make_pipeline(StandardScaler(), ProximalClassifier(random_state=0))
    search = GridSearchCV(pipe, {"proximalclassifier__C": [0.1, 10.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.93


class Stopper:
    """Stops after a number of blocks."""

    def __init__(self, after):
        self.after = after

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "block":
            self.after -= 1
        return context.task_name == "block" and self.after == 0

    def teardown(self, estimator, context):
        pass


@needs_callbacks
def test_a_callback_may_stop_between_blocks():
    X, y = load_iris(return_X_y=True)
    machine = ProximalClassifier(kernel="linear").set_callbacks(Stopper(2))
    machine.fit_blocks((X[k::5], y[k::5]) for k in range(5))
    assert machine.n_samples_seen_ == 60


def far_rows(offset):
    random = np.random.default_rng(0)
    return random.normal(size=(30, 2)) + offset, random.integers(0, 2, 30)


def far_machine():
    return ProximalClassifier(
        kernel="poly", gamma=1.0, coef0=1.0, landmarks=None, class_weight=None
    )


def distance_from_optimum(machine, X, y):
    """(objective - optimum) / optimum with 80 digits, of the kernel values as they are."""
    expansion = machine.expansion_
    K = expansion.kernel(X, expansion.centers)
    problem = (K, np.where(y == 1, 1.0, -1.0), np.ones(len(X)), machine.C)
    v = np.append(expansion.coef[0], expansion.intercept[0])
    optimum = naive.proximal_optimum_exact(*problem)
    objective = naive.proximal_objective_exact(v, *problem)
    # Kernel values of 1e12 have another last digit in blocks of another shape.
    assert float(objective) == pytest.approx(machine.objective_[0], rel=1e-7)
    return float((objective - optimum) / optimum)


@pytest.mark.parametrize("offset", [0, 10, 100])
def test_ill_conditioned_kernels_reach_the_optimum(offset, monkeypatch):
    X, y = far_rows(offset)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine = far_machine().fit(X, y)
    assert -1e-30 < distance_from_optimum(machine, X, y) <= machine.gap_ + 1e-7 < 1e-6
    monkeypatch.setattr("kernlet.rows.source._MOST_ROWS", 7)
    rows = far_machine().set_params(landmarks=X).fit(ArrayRows(X), y)
    assert distance_from_optimum(rows, X, y) <= rows.gap_ + 1e-7 < 1e-6


def test_what_rounding_hides_is_warned_of():
    X, y = far_rows(1000)
    with pytest.warns(ConvergenceWarning, match="relative gap"):
        machine = far_machine().fit(X, y)
    assert machine.gap_ > 1e-6
    X, y = far_rows(10)
    with pytest.warns(ConvergenceWarning, match="relative gap"):  # there are no rows to read again
        machine = far_machine().fit_blocks([(X[:20], y[:20]), (X[20:], y[20:])])
    assert machine.gap_ > 1e-6
    assert machine.residual_ < 1e-6


def test_the_gap_sees_what_forgetting_costs():
    random = np.random.RandomState(0)
    X, y = random.normal(size=(40, 3)), np.arange(40) % 2
    X[20:] *= 1e7
    machine = ProximalClassifier(1e3, kernel="linear").fit(X, y)
    assert machine.gap_ < 1e-6
    with pytest.warns(ConvergenceWarning, match="forgotten"):
        machine.partial_forget(X[20:], y[20:])
    assert machine.gap_ > 1e-6
    # The errors of the sums exceed what is left of them: no weights larger than those of the rows.
    rest = clone(machine).fit(X[:20], y[:20])
    assert np.abs(machine.coef_).max() <= 1.1 * np.abs(rest.coef_).max()


@pytest.mark.parametrize("factor", [1e-170, 1e155])
def test_gamma_of_row_sources_out_of_range_gets_a_sentence(factor, data):
    X, y = data
    with pytest.raises(ValueError, match="out of the range of float64"):
        ProximalClassifier(landmarks=5, random_state=0).fit(ArrayRows(X * factor), y)


def test_the_objective_is_the_stated_one(data):
    X, y = data
    machine = ProximalClassifier(2.0, kernel="linear").fit(X, y)
    for number in range(3):
        signs = np.where(y == number, 1.0, -1.0)
        v = np.append(machine.coef_[number], machine.intercept_[number])
        objective = naive.proximal_objective(
            v, X, signs, naive.class_normalization(signs, True), 2.0
        )
        assert machine.objective_[number] == pytest.approx(objective, rel=1e-10)


@pytest.mark.parametrize("C", [10**30, np.float32(3), np.int8(2)])
def test_numbers_of_any_type(C, data):
    X, y = data
    machine = ProximalClassifier(C, kernel="linear").fit(X, y)
    same = ProximalClassifier(float(C), kernel="linear").fit(X, y)
    np.testing.assert_array_equal(machine.coef_, same.coef_)
    with pytest.raises(ValueError, match="C is too large"):
        ProximalClassifier(10**400, kernel="linear").fit(X, y)


def test_many_classes_make_the_same_machine_as_few():
    random = np.random.RandomState(0)
    X, y = random.normal(size=(200, 3)), np.arange(200) % 40
    machine = ProximalClassifier(kernel="linear").fit(X, y)
    for number in (0, 17, 39):
        signs = np.where(y == number, 1.0, -1.0)
        w, b = naive.proximal(X, signs, naive.class_normalization(signs, True), 1.0)
        np.testing.assert_allclose(machine.decision_function(X)[:, number], X @ w + b, atol=1e-10)

"""scikit-learn's own checks on every estimator, and what they leave out."""

import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernlet import (
    MMDA,
    BoundaryCondenser,
    CentroidCondenser,
    ChunkingSyntheticClassifier,
    CompactKernelClassifier,
    CompactKernelRegressor,
    CompactNoveltyDetector,
    CompressedClassifier,
    CompressedRegressor,
    CoreVectorClassifier,
    CoreVectorNovelty,
    HullPerceptronClassifier,
    KernelFisherDiscriminant,
    L1KernelClassifier,
    L1KernelRegressor,
    MinimalKernelClassifier,
    MinimalKernelRegressor,
    ProximalClassifier,
    Removal,
    TypicalCondenser,
)
from support.callbacks import ProgressBar, ScoringMonitor, needs_callbacks

CLASSIFIERS = [
    L1KernelClassifier,
    MinimalKernelClassifier,
    partial(HullPerceptronClassifier, tol=1e-10),
    partial(CoreVectorClassifier, tol=1e-12),
]


def gap(machine):
    """The certificate, by whichever name."""
    return machine.gap_ if hasattr(machine, "gap_") else machine.duality_gap_.max()


@parametrize_with_checks(
    [
        L1KernelClassifier(),
        MinimalKernelClassifier(),
        L1KernelClassifier(kernel="poly", degree=2, coef0=1.0),
        # with a small C two sigmoid outputs are constant and equal: rounding breaks the tie
        L1KernelClassifier(kernel="sigmoid", C=100.0),
        L1KernelClassifier(kernel="laplacian"),
        MinimalKernelClassifier(kernel="linear"),
        L1KernelRegressor(),
        L1KernelRegressor(loss="pinball", quantile=0.8),
        L1KernelRegressor(kernel="poly", degree=2, coef0=1.0),
        L1KernelRegressor(kernel="laplacian", solver="streaming"),
        MinimalKernelRegressor(),
        MinimalKernelRegressor(kernel="linear"),
        HullPerceptronClassifier(tol=1e-10),
        HullPerceptronClassifier(kernel="poly", degree=2, coef0=1.0, tol=1e-10),
        HullPerceptronClassifier(kernel="laplacian", tol=1e-10),
        HullPerceptronClassifier(removal=Removal(start=0.1, rounds=3), tol=1e-10),
        ProximalClassifier(),
        ProximalClassifier(kernel="linear"),
        ProximalClassifier(kernel="linear", class_weight=None),
        ProximalClassifier(kernel="sigmoid", class_weight="normalized", C=100.0),
        ProximalClassifier(kernel="laplacian"),
        CoreVectorClassifier(),
        CoreVectorClassifier(tol=1e-12),
        CoreVectorClassifier(kernel="poly", degree=2, coef0=1.0, tol=1e-12),
        CoreVectorClassifier(kernel="laplacian", tol=1e-12),
        # fewer support vectors than outliers, with which training rows are as those left out
        CoreVectorNovelty(100.0, gamma="scale", tol=1e-12),
        MMDA(2, tol=1e-18),
        MMDA(solver="core", eps=None, sample_size=None, tol=1e-12),
        MMDA(2, solver="exact", tol=1e-14),
        KernelFisherDiscriminant(),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


_WITHIN_THE_GAP = (
    "steps that end at a gap of 1e-3 leave machines of repeated rows and of weights equal to about "
    "that only; with a small tol, above, they are equal"
)


@pytest.mark.slow
@parametrize_with_checks(
    [
        HullPerceptronClassifier(),
        HullPerceptronClassifier(solver="sk", tol=1e-2),
        CoreVectorClassifier(eps=1e-2, sample_size=59),
        MMDA(3),
        MMDA(solver="core", eps=1e-2),
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": _WITHIN_THE_GAP,
        "check_sample_weight_equivalence_on_sparse_data": _WITHIN_THE_GAP,
    },
)
def test_scikit_learn_checks_of_steps_that_end_early(estimator, check):
    check(estimator)


_LEFT_OUT_ROWS = (
    "contamination is the share of outliers among new rows: of the training rows there are fewer, "
    "where more than that are support vectors"
)


@pytest.mark.slow
@parametrize_with_checks(
    [
        CoreVectorNovelty(),
        CoreVectorNovelty(contamination="auto"),
        CoreVectorNovelty(kernel="laplacian", tol=1e-12),
    ],
    expected_failed_checks=lambda estimator: {
        "check_outliers_train": _LEFT_OUT_ROWS,
        "check_outliers_fit_predict": _LEFT_OUT_ROWS,
    },
)
def test_scikit_learn_checks_of_many_support_vectors(estimator, check):
    check(estimator)


_OTHER_ROWS = (
    "repeated rows are other rows to the random parts of a training than one row of their weight: "
    "the validation part, the first k-means centers, the batches and the noise"
)


@pytest.mark.slow
@parametrize_with_checks(
    [
        CompactKernelClassifier(20, n_epochs=30, random_state=0),
        CompactKernelClassifier(20, n_epochs=20, storage="int4", loss="squared_hinge"),
        CompactKernelClassifier(max_bytes=300, projection=None, storage="int8", n_epochs=30),
        CompactKernelRegressor(20, n_epochs=30, random_state=0),
        CompactKernelRegressor(20, n_epochs=20, storage="int4", width="per_center"),
        CompactKernelRegressor(20, n_epochs=30, loss="pinball", random_state=0),
        CompactKernelClassifier(20, n_epochs=30, missing="median", random_state=0),
        CompactKernelClassifier(20, n_epochs=30, missing="auto", random_state=0),
        CompactKernelRegressor(20, n_epochs=20, storage="int4", missing="distance"),
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": _OTHER_ROWS,
        "check_sample_weight_equivalence_on_sparse_data": _OTHER_ROWS,
    },
)
def test_scikit_learn_checks_of_compact_machines(estimator, check):
    check(estimator)


@pytest.fixture
def data():
    return make_classification(
        n_samples=120, n_features=5, n_informative=4, n_redundant=0, n_classes=3, random_state=0
    )


@pytest.fixture(params=CLASSIFIERS)
def classifier(request):
    return request.param(random_state=0)


@pytest.mark.parametrize("make", [np.array, lambda y: [f"class {k}" for k in y]])
def test_labels_come_back_as_they_went_in(classifier, data, make):
    X, y = data
    labels = make(y)
    machine = classifier.fit(X, labels)
    assert set(machine.predict(X)) <= set(labels)
    assert machine.decision_function(X).shape == (len(X), 3)
    assert machine.expansion_.n_outputs == 3


def test_boolean_labels(classifier, data):
    X, y = data
    machine = classifier.fit(X, y == 1)
    assert machine.classes_.tolist() == [False, True]
    assert machine.predict(X).dtype == bool
    assert np.array_equal(machine.decision_function(X) > 0, machine.predict(X))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_give_feature_names_and_are_checked_against_them(classifier, data, frame):
    X, y = data
    columns = [f"x{k}" for k in range(X.shape[1])]
    table = frame(dict(zip(columns, X.T, strict=True)))
    machine = classifier.fit(table, y)
    assert machine.feature_names_in_.tolist() == columns
    np.testing.assert_array_equal(machine.predict(table), clone(machine).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        machine.predict(table[columns[::-1]])


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
def test_sparse_rows_give_the_same_machine(classifier, data, container):
    X, y = data
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, machine = clone(classifier).fit(X, y), classifier.fit(container(X), y)
    np.testing.assert_array_equal(machine.center_indices_, dense.center_indices_)
    values = dense.decision_function(X)
    np.testing.assert_allclose(machine.decision_function(container(X)), values, atol=1e-8)
    np.testing.assert_allclose(machine.decision_function(X), values, atol=1e-8)
    np.testing.assert_allclose(dense.decision_function(container(X)), values, atol=1e-8)


def test_float32_rows_stay_float32_and_certified(classifier, data):
    X, y = data
    machine = classifier.fit(X.astype(np.float32), y)
    assert machine.expansion_.centers.dtype == np.float32
    assert gap(machine) <= 1e-9


def test_same_answer_whatever_n_jobs(classifier, data):
    X, y = data
    if "n_jobs" not in classifier.get_params():
        pytest.skip("outputs one after the other, over one cache")
    one, two = clone(classifier).fit(X, y), classifier.set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.expansion_.coef, two.expansion_.coef)
    np.testing.assert_array_equal(one.expansion_.centers, two.expansion_.centers)


def test_pickles_clones_searches_and_pipes(classifier, data):
    X, y = data
    piped = make_pipeline(StandardScaler(), classifier).fit(X, y)
    again = pickle.loads(pickle.dumps(piped))
    np.testing.assert_array_equal(again.decision_function(X), piped.decision_function(X))
    search = GridSearchCV(classifier, {"C": [0.1, 1.0]}, cv=2).fit(X, y)
    assert gap(search.best_estimator_) <= 1e-9


def test_far_from_the_origin_nothing_changes(classifier, data):
    X, y = data
    near = clone(classifier).set_params(gamma=0.1).fit(X, y)
    far = classifier.set_params(gamma=0.1).fit(X + 1e6, y)
    np.testing.assert_array_equal(far.center_indices_, near.center_indices_)
    np.testing.assert_allclose(far.decision_function(X + 1e6), near.decision_function(X), atol=1e-5)


def test_constant_features_and_equal_rows(classifier):
    X = np.ones((10, 3))
    y = np.array([0] * 6 + [1] * 4)
    machine = classifier.fit(X, y)
    assert machine.predict(X).tolist() == [0] * 10
    assert gap(machine) <= 1e-9


def test_equal_rows_are_one_center(classifier, data):
    X, y = data
    machine = classifier.fit(np.vstack([X, X, X]), np.tile(y, 3))
    centers = machine.expansion_.centers
    assert len(np.unique(centers, axis=0)) == machine.n_centers_ == len(centers)


def test_rows_of_weight_zero_are_not_there(classifier, data):
    X, y = data
    weight = np.r_[np.zeros(20), np.ones(100)]
    machine, without = clone(classifier).fit(X, y, weight), classifier.fit(X[20:], y[20:])
    np.testing.assert_array_equal(machine.center_indices_, without.center_indices_ + 20)
    if hasattr(machine, "core_indices_"):
        np.testing.assert_array_equal(machine.core_indices_, without.core_indices_ + 20)
    elif hasattr(machine, "support_indices_"):
        np.testing.assert_array_equal(machine.support_indices_, without.support_indices_ + 20)
    else:
        np.testing.assert_array_equal(machine.margin_indices_, without.margin_indices_ + 20)
        assert machine.loo_error_bound_ == without.loo_error_bound_


def test_class_weight_is_a_sample_weight(classifier, data):
    X, y = data
    by_class = clone(classifier).set_params(class_weight={0: 3.0, 1: 1.0, 2: 0.5})
    by_row = classifier.fit(X, y, np.array([3.0, 1.0, 0.5])[y])
    fixed = by_row.expansion_.kernel.gamma
    by_class = by_class.set_params(gamma=fixed).fit(X, y)
    np.testing.assert_allclose(
        by_class.decision_function(X), by_row.decision_function(X), atol=1e-7
    )


class Recorder:
    """A callback that counts, and stops after a number of tasks."""

    def __init__(self, stop_at=None):
        self.rounds, self.stop_at = 0, stop_at

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "round":
            self.rounds += 1
            return self.rounds == self.stop_at
        return False

    def teardown(self, estimator, context):
        pass


@needs_callbacks
def test_callbacks_hear_of_every_round_and_can_stop(classifier):
    X, y = make_classification(n_samples=900, n_features=5, flip_y=0.1, random_state=0)
    listener = Recorder()
    classifier.set_callbacks(listener).fit(X, y)
    stopper = Recorder(stop_at=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stopped = clone(classifier).set_callbacks(stopper).fit(X, y)
    assert listener.rounds > 2
    assert stopper.rounds < listener.rounds
    assert gap(stopped) > 1e-9


@needs_callbacks
def test_scoring_monitor_and_progress_bar(classifier, data):
    X, y = data
    monitor = ScoringMonitor(scoring="accuracy")
    classifier.set_callbacks(monitor, ProgressBar()).fit(X, y == 0)
    assert monitor.get_logs()


def test_accuracy_is_no_accident(classifier):
    X, y = make_classification(n_samples=400, n_features=6, n_informative=4, random_state=1)
    assert cross_val_score(classifier, X, y, cv=3).mean() > 0.85


VERBOSE = [
    BoundaryCondenser(),
    CentroidCondenser(),
    ChunkingSyntheticClassifier(n_points=4),
    CompactKernelClassifier(4, n_epochs=3),
    CompactKernelRegressor(4, n_epochs=3),
    CompactNoveltyDetector(4),
    CompressedClassifier(SVC(), 5),
    CompressedRegressor(SVR(), 5),
    CoreVectorClassifier(),
    CoreVectorNovelty(),
    HullPerceptronClassifier(),
    KernelFisherDiscriminant(),
    L1KernelClassifier(),
    L1KernelRegressor(),
    MinimalKernelClassifier(),
    MinimalKernelRegressor(),
    MMDA(),
    ProximalClassifier(),
    TypicalCondenser(),
]


@pytest.mark.parametrize("estimator", VERBOSE, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_estimator_prints_its_tasks_when_verbose(estimator, data, capsys):
    method = "fit_resample" if hasattr(estimator, "fit_resample") else "fit"
    estimator = clone(estimator).set_params(verbose=1)
    getattr(estimator, method)(*data)
    assert capsys.readouterr().out.startswith(f"[{type(estimator).__name__}] ")
    getattr(estimator.set_params(verbose=0), method)(*data)
    assert capsys.readouterr().out == ""

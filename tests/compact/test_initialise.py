"""Initial networks from clusters and points, and fits that start from given models."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils._param_validation import InvalidParameterError

import naive
from kernlet import CompressedClassifier, MinimalKernelClassifier, compress
from kernlet.compact.initialise import (
    Sample,
    _equal_shares,
    _gaussian,
    cluster_centers,
    initial_gamma,
    initial_network,
    principal_directions,
    ridge_weights,
    sample_rows,
)
from kernlet.compact.path import KERNELS
from kernlet.compact.plan import StoragePlan
from support.compact_machines import machine

# -- Initial networks -------------------------------------------------------------------------


def make_sample(n_rows=60, n_features=4, n_groups=3, seed=0, weights=None):
    random = np.random.default_rng(seed)
    groups = np.arange(n_rows) % n_groups
    rows = random.normal(size=(n_rows, n_features)) + 3.0 * groups[:, None]
    weights = np.ones(n_rows) if weights is None else weights
    return Sample(rows.astype(np.float32), np.eye(n_groups)[groups], weights, groups)


@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=8).map(np.array),
    n_centers=st.integers(8, 300),
)
def test_shares_add_up_and_every_class_has_its_own(counts, n_centers):
    shares = _equal_shares(counts, n_centers)
    assert shares.sum() == min(n_centers, counts.sum())
    assert (shares >= 1).all()
    assert (shares <= counts).all()
    is_full = shares == counts
    assert np.ptp(shares[~is_full]) <= 1 if not is_full.all() else True


def test_classes_of_few_rows_leave_their_share_to_others():
    assert _equal_shares(np.array([100, 2, 100]), 12).tolist() == [5, 2, 5]


@settings(max_examples=25, deadline=None)
@given(n_centers=st.integers(1, 40), n_groups=st.integers(1, 5), seed=st.integers(0, 100))
def test_as_many_centers_as_asked_for(n_centers, n_groups, seed):
    sample = make_sample(30, n_groups=n_groups, seed=seed)
    centers, groups = cluster_centers(sample, n_centers, np.random.RandomState(seed))
    assert len(centers) == len(groups) == min(n_centers, 30)
    assert np.isfinite(centers).all()
    if n_centers >= n_groups:
        assert set(groups) == set(range(n_groups))


def test_fewer_centers_than_classes_are_those_of_all_rows():
    sample = make_sample(n_groups=10)
    centers, groups = cluster_centers(sample, 4, np.random.RandomState(0))
    assert len(centers) == 4
    assert groups.tolist() == [-1] * 4
    assert initial_gamma(sample, centers, groups) > 0


def test_centers_lie_in_their_class():
    sample = make_sample()
    centers, groups = cluster_centers(sample, 9, np.random.RandomState(0))
    for center, group in zip(centers, groups, strict=True):
        mine = sample.rows[sample.groups == group]
        assert (center >= mine.min(axis=0)).all()
        assert (center <= mine.max(axis=0)).all()


@pytest.mark.parametrize(
    "rows", [np.zeros((12, 3)), np.ones((12, 3)), np.eye(12)[:, :3] * 0 + 1e-3]
)
def test_gamma_is_positive_for_equal_rows(rows):
    sample = Sample(rows.astype(np.float32), np.ones((12, 1)), np.ones(12), np.arange(12) % 2)
    network = initial_network(sample, StoragePlan(3, 1, 4), np.random.RandomState(0))
    assert np.isfinite(network.log_gamma).all()
    assert np.isfinite(network.weights).all()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), copies=st.integers(1, 5), n_centers=st.integers(1, 30))
def test_gamma_is_positive_for_duplicates(seed, copies, n_centers):
    few = make_sample(6, seed=seed)
    sample = Sample(
        np.tile(few.rows, (copies, 1)),
        np.tile(few.targets, (copies, 1)),
        np.ones(6 * copies),
        np.tile(few.groups, copies),
    )
    centers, groups = cluster_centers(sample, n_centers, np.random.RandomState(seed))
    gamma = initial_gamma(sample, centers, groups)
    assert np.isfinite(gamma)
    assert gamma > 0


def four_rows():
    rows = np.array([[0.0], [1.0], [5.0], [7.0]])
    sample = Sample(rows, np.ones((4, 1)), np.ones(4), np.array([0, 0, 1, 1]))
    return sample, np.array([[0.5], [6.0]]), np.array([0, 1])


def test_gamma_is_two_over_the_mean_squared_distance_with_a_row_less_for_each_center():
    assert initial_gamma(*four_rows()) == pytest.approx(2 / (2.5 / (4 - 2)))


@pytest.mark.parametrize("noise", [0.1, 2.0])
def test_noise_adds_to_the_distances_of_gamma(noise):
    assert initial_gamma(*four_rows(), noise) == pytest.approx(2 / (1.25 + noise**2))


def test_centers_that_are_rows_do_not_make_gamma_larger():
    """Nine rows in ten are their own centers; the tenth tells how far rows are apart."""
    sample = make_sample(200, n_groups=1)
    centers, others = sample.rows[:180], sample.rows[180:]
    gamma = initial_gamma(sample, centers, np.full(180, -1))
    distances = ((others[:, None] - centers[None]) ** 2).sum(axis=2)
    assert gamma == pytest.approx(2 / distances.min(axis=1).mean(), rel=1e-3)


def test_with_every_row_a_center_gamma_is_that_of_the_spread():
    sample = make_sample(50, n_groups=1)
    gamma = initial_gamma(sample, sample.rows, np.full(50, -1))
    assert gamma == pytest.approx(2 / sample.rows.var(axis=0).sum(), rel=1e-5)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), rank=st.integers(1, 5), weighted=st.booleans())
def test_directions_are_orthonormal_and_of_largest_variance(seed, rank, weighted):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(50, 6)) * np.array([9.0, 7.0, 5.0, 3.0, 1.0, 0.5]) + 4
    weights = random.uniform(0.5, 2, 50) if weighted else np.ones(50)
    sample = Sample(rows, np.ones((50, 1)), weights, np.zeros(50, dtype=int))
    directions = principal_directions(sample, rank)
    np.testing.assert_allclose(directions @ directions.T, np.eye(rank), atol=1e-10)
    centered = rows - np.average(rows, axis=0, weights=weights)
    _, _, expected = np.linalg.svd(np.sqrt(weights)[:, None] * centered)
    np.testing.assert_allclose(np.abs(np.sum(directions * expected[:rank], axis=1)), 1.0, atol=1e-6)


def test_keeping_every_direction_is_the_identity():
    np.testing.assert_array_equal(principal_directions(make_sample(), 4), np.eye(4))


def test_coefficients_are_those_of_a_ridge_regression():
    sample = make_sample()
    centers = sample.rows[:5]
    distances = ((sample.rows[:, None] - centers[None]) ** 2).sum(axis=2)
    K = np.exp(-0.2 * distances)
    normal = K.T @ K / len(K) + 1e-3 * np.eye(5)
    expected = np.linalg.solve(normal, K.T @ sample.targets / len(K)).T
    values = _gaussian(centers, 0.2)
    np.testing.assert_allclose(ridge_weights(sample, values, 5), expected, atol=1e-3)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rank", [None, 2])
def test_a_start_is_better_than_nothing(rank, kernel):
    sample = make_sample()
    for points in (None, sample.rows[:6].astype(np.float64)):
        plan = StoragePlan(4, 3, 6, rank, kernel=kernel)
        network = initial_network(sample, plan, np.random.RandomState(0), points=points)
        assert network.centers.shape == (6, 4 if rank is None else rank)
        assert (network.projection is None) == (rank is None)
        outputs = naive.network_outputs(sample.rows, **network.arrays())
        assert np.mean(outputs.argmax(axis=1) == sample.groups) > 0.8


def test_a_rational_kernel_starts_from_the_width_of_the_gaussian():
    sample = make_sample()
    plans = [StoragePlan(4, 3, 6, kernel=kernel) for kernel in KERNELS]
    rbf, rational = (initial_network(sample, plan, np.random.RandomState(0)) for plan in plans)
    np.testing.assert_array_equal(rbf.log_gamma, rational.log_gamma)
    np.testing.assert_array_equal(rational.log_alpha, [0.0])


def test_samples_are_all_rows_of_few_and_distinct_rows_of_many():
    random = np.random.RandomState(0)
    assert sample_rows(50, 4, 10, random).tolist() == list(range(50))
    many = sample_rows(100_000, 4, 10, random)
    assert len(many) == len(np.unique(many)) == 10_000
    assert len(sample_rows(100_000, 4, 2_000, random)) == 40_000


# -- Models to start from ---------------------------------------------------------------------


def test_warm_start_goes_on(digits):
    X, _, y, _ = digits
    small = machine(15, n_epochs=5, warm_start=True, keep_history=True).fit(X, y)
    first, gamma = small.history_, small.expansion_.gamma
    small.fit(X, y)
    assert small.n_centers_ == 15
    assert small.history_[0]["loss"] < first[0]["loss"]
    assert not np.array_equal(small.expansion_.gamma, gamma)
    small.set_params(n_centers="auto", storage="int8").fit(X, y)
    assert small.expansion_.storage == {"centers": "int8", "coef": "int8"}
    assert small.n_centers_ == 15


def test_warm_start_keeps_what_was_chosen(digits):
    X, _, y, _ = digits
    small = machine("auto", max_bytes=1000, n_epochs=2, warm_start=True).fit(X, y)
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


@pytest.mark.slow
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
    small = machine("auto", init=svm).fit(X, y)
    assert small.n_centers_ == len(svm.support_)
    assert small.score(X_test, y_test) > 0.85


def test_a_start_from_a_machine_is_that_machine(digits):
    X, X_test, y, _ = digits
    before = machine(15, n_epochs=5).fit(X, y)
    after = machine("auto", init=before, learning_rate=1e-9, n_epochs=1).fit(X, y)
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


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda X, y: X[:50], lambda X, y: SVC().fit(X, y)])
def test_a_start_keeps_to_the_bytes(moons, make):
    X, _, y, _ = moons
    small = machine("auto", init=make(X, y), max_bytes=100, n_epochs=2).fit(X, y)
    assert small.nbytes_ <= 100


def test_a_start_from_a_compact_machine_keeps_to_the_bytes_or_is_refused(moons):
    X, _, y, _ = moons
    large = machine(50, n_epochs=2).fit(X, y)
    with pytest.raises(ValueError, match="max_bytes"):
        machine("auto", init=large, max_bytes=100, n_epochs=2).fit(X, y)


def test_starts_that_do_not_fit_are_refused(moons):
    X, _, y, _ = moons
    piped = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    for init, kind, message in (
        (piped, ValueError, "Pipeline with steps before"),
        (SVC().fit(X, y + 5), ValueError, "trained for the classes"),
        (SVC().fit(X[:, :1], y), ValueError, "init has 1 features, but X has 2"),
        (X[:5, :1], ValueError, "points of 1 features, but X has 2"),
        (np.full((3, 2), np.nan), ValueError, "NaN"),
        (LogisticRegression().fit(X, y), TypeError, "not a kernel machine"),
        (SVC(), NotFittedError, "not fitted"),
        ("somewhere", InvalidParameterError, "init"),
    ):
        with pytest.raises(kind, match=message):
            machine("auto", init=init).fit(X, y)


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


def test_a_machine_behind_a_projection_is_compressed_behind_it(digits):
    X, X_test, y, y_test = digits
    original = machine(40, projection=12, n_epochs=15).fit(X, y)
    small = compress(original, 20, X, y, random_state=0)
    assert (small.n_centers_, small.expansion_.rank) == (20, 12)
    assert small.score(X_test, y_test) > original.score(X_test, y_test) - 0.07

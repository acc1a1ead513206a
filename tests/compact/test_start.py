import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernlet.compact.initialise import (
    Sample,
    _share_out,
    cluster_centers,
    cluster_start,
    first_coefficients,
    first_gamma,
    point_start,
    principal_projection,
    sample_rows,
)


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
    found = _share_out(counts, n_centers)
    assert found.sum() == min(n_centers, counts.sum())
    assert (found >= 1).all()
    assert (found <= counts).all()
    is_full = found == counts
    assert np.ptp(found[~is_full]) <= 1 if not is_full.all() else True


def test_classes_of_few_rows_leave_their_share_to_others():
    assert _share_out(np.array([100, 2, 100]), 12).tolist() == [5, 2, 5]


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
    assert first_gamma(sample, centers, groups) > 0


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
    machine = cluster_start(sample, 4, None, np.random.RandomState(0))
    assert np.isfinite(machine.log_gamma).all()
    assert np.isfinite(machine.weights).all()


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
    gamma = first_gamma(sample, centers, groups)
    assert np.isfinite(gamma)
    assert gamma > 0


def four_rows():
    rows = np.array([[0.0], [1.0], [5.0], [7.0]])
    sample = Sample(rows, np.ones((4, 1)), np.ones(4), np.array([0, 0, 1, 1]))
    return sample, np.array([[0.5], [6.0]]), np.array([0, 1])


def test_gamma_is_two_over_the_mean_squared_distance_with_a_row_less_for_each_center():
    assert first_gamma(*four_rows()) == pytest.approx(2 / (2.5 / (4 - 2)))


@pytest.mark.parametrize("noise", [0.1, 2.0])
def test_noise_adds_to_the_distances_of_gamma(noise):
    assert first_gamma(*four_rows(), noise) == pytest.approx(2 / (1.25 + noise**2))


def test_centers_that_are_rows_do_not_make_gamma_larger():
    """Nine rows in ten are their own centers; the tenth tells how far rows are apart."""
    sample = make_sample(200, n_groups=1)
    centers, others = sample.rows[:180], sample.rows[180:]
    gamma = first_gamma(sample, centers, np.full(180, -1))
    distances = ((others[:, None] - centers[None]) ** 2).sum(axis=2)
    assert gamma == pytest.approx(2 / distances.min(axis=1).mean(), rel=1e-3)


def test_with_every_row_a_center_gamma_is_that_of_the_spread():
    sample = make_sample(50, n_groups=1)
    gamma = first_gamma(sample, sample.rows, np.full(50, -1))
    assert gamma == pytest.approx(2 / sample.rows.var(axis=0).sum(), rel=1e-5)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), rank=st.integers(1, 5), weighted=st.booleans())
def test_directions_are_orthonormal_and_of_largest_variance(seed, rank, weighted):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(50, 6)) * np.array([9.0, 7.0, 5.0, 3.0, 1.0, 0.5]) + 4
    weights = random.uniform(0.5, 2, 50) if weighted else np.ones(50)
    sample = Sample(rows, np.ones((50, 1)), weights, np.zeros(50, dtype=int))
    found = principal_projection(sample, rank)
    np.testing.assert_allclose(found @ found.T, np.eye(rank), atol=1e-10)
    centered = rows - np.average(rows, axis=0, weights=weights)
    _, _, expected = np.linalg.svd(np.sqrt(weights)[:, None] * centered)
    np.testing.assert_allclose(np.abs(np.sum(found * expected[:rank], axis=1)), 1.0, atol=1e-6)


def test_keeping_every_direction_is_the_identity():
    np.testing.assert_array_equal(principal_projection(make_sample(), 4), np.eye(4))


def test_coefficients_are_those_of_a_ridge_regression():
    sample = make_sample()
    centers = sample.rows[:5]
    distances = ((sample.rows[:, None] - centers[None]) ** 2).sum(axis=2)
    K = np.exp(-0.2 * distances)
    normal = K.T @ K / len(K) + 1e-3 * np.eye(5)
    expected = np.linalg.solve(normal, K.T @ sample.targets / len(K)).T
    np.testing.assert_allclose(first_coefficients(sample, centers, 0.2), expected, atol=1e-3)


@pytest.mark.parametrize("rank", [None, 2])
def test_a_start_is_better_than_nothing(rank):
    sample = make_sample()
    for machine in (
        cluster_start(sample, 6, rank, np.random.RandomState(0)),
        point_start(sample, sample.rows[:6].astype(np.float64), rank),
    ):
        assert machine.centers.shape == (6, 4 if rank is None else rank)
        assert machine.log_gamma.shape == (1,)
        assert (machine.projection is None) == (rank is None)
        rows = sample.projected(machine.projection).rows
        distances = ((rows[:, None] - machine.centers[None]) ** 2).sum(axis=2)
        outputs = np.exp(-np.exp(machine.log_gamma) * distances) @ machine.weights.T
        assert np.mean(outputs.argmax(axis=1) == sample.groups) > 0.8


def test_samples_are_all_rows_of_few_and_distinct_rows_of_many():
    random = np.random.RandomState(0)
    assert sample_rows(50, 4, 10, random).tolist() == list(range(50))
    many = sample_rows(100_000, 4, 10, random)
    assert len(many) == len(np.unique(many)) == 10_000
    assert len(sample_rows(100_000, 4, 2_000, random)) == 40_000

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernlet.datasets import make_ndc
from kernlet.datasets.ndc import STRETCH, Clouds, Plane, draw_clouds, draw_problem

seeds = st.integers(0, 2**32 - 1)


def own_side(dataset, seed, n_centers=20):
    """Which points lie on their center's side; the seed draws the plane before all else."""
    random_state = np.random.RandomState(seed)
    _, plane = draw_problem(n_centers, dataset.X.shape[1], random_state)
    return plane.sides(dataset.X) == dataset.y


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(1, 60), st.integers(1, 12), st.integers(2, 9), st.integers(0, 20))
def test_shapes_and_classes(seed, n_samples, n_features, n_centers, test_size):
    clusters = make_ndc(
        n_samples, n_features, n_centers=n_centers, test_size=test_size, random_state=seed
    )
    assert clusters.X.shape == (n_samples, n_features)
    assert clusters.y.shape == (n_samples,)
    assert np.isfinite(clusters.X).all()
    assert set(clusters.y) == {0, 1} if n_samples > 1 else set(clusters.y) <= {0, 1}
    if test_size == 0:
        assert clusters.X_test is None
        assert clusters.y_test is None
    else:
        assert clusters.X_test.shape == (test_size, n_features)
        assert set(clusters.y_test) <= {0, 1}


def test_defaults():
    clusters = make_ndc()
    assert clusters.name == "ndc"
    assert clusters.X.shape == (1000, 10)
    assert clusters.X.dtype == np.float64
    assert clusters.y.dtype == np.int64
    assert clusters.X_test is None


@settings(deadline=None, max_examples=25)
@given(seeds, st.integers(1, 6), st.integers(2, 9))
def test_tiny_clouds_sit_on_centers_labelled_by_the_plane(seed, n_features, n_centers):
    clusters = make_ndc(
        80, n_features, n_centers=n_centers, expansion=1e-9, test_size=30, random_state=seed
    )
    clouds, plane = draw_problem(n_centers, n_features, np.random.RandomState(seed))
    np.testing.assert_array_equal(clouds.labels, plane.heights(clouds.centers) >= 0)
    assert np.abs(clouds.centers).max() <= 1
    for X, y in ((clusters.X, clusters.y), (clusters.X_test, clusters.y_test)):
        distances = np.linalg.norm(X[:, None] - clouds.centers, axis=2)
        assert distances.min(axis=1).max() < 1e-6
        np.testing.assert_array_equal(y, clouds.labels[distances.argmin(axis=1)])


@settings(deadline=None, max_examples=25)
@given(seeds, st.floats(0.1, 30), st.floats(1.1, 5))
def test_larger_expansion_takes_points_over_the_plane_and_none_back(seed, expansion, factor):
    small = make_ndc(200, 6, expansion=expansion, random_state=seed)
    large = make_ndc(200, 6, expansion=expansion * factor, random_state=seed)
    np.testing.assert_array_equal(small.y, large.y)
    assert not (own_side(large, seed) & ~own_side(small, seed)).any()


def test_larger_expansion_is_less_separable():
    shares = [
        own_side(make_ndc(4000, expansion=expansion, random_state=0), 0).mean()
        for expansion in (0.001, 2, 5, 10, 25, 1000)
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.99
    assert 0.47 < shares[-1] < 0.55


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("target", [0.55, 0.7, 0.8, 0.9, 0.97])
def test_separability_is_met(target, seed):
    clusters = make_ndc(20_000, separability=target, test_size=20_000, random_state=seed)
    # Four standard errors of 20,000 points at most.
    assert abs(own_side(clusters, seed).mean() - target) < 0.0145
    _, plane = draw_problem(20, 10, np.random.RandomState(seed))
    assert abs((plane.sides(clusters.X_test) == clusters.y_test).mean() - target) < 0.0145


@settings(deadline=None, max_examples=60)
@given(seeds, st.floats(0.501, 0.999), st.integers(2, 8), st.integers(1, 8))
def test_expansion_for_a_separability_inverts_it(seed, target, n_centers, n_features):
    clouds, plane = draw_problem(n_centers, n_features, np.random.RandomState(seed))
    expansion = clouds.expansion_for(plane, target)
    assert clouds.separability(plane, expansion) == pytest.approx(target, abs=1e-9)


def test_separability_of_one_cloud_is_the_normal_distribution():
    # The center is 1 from the plane and the deviation across it is 1: Phi(1).
    clouds = Clouds(np.array([[1.0]]), np.array([1]), np.ones(1), np.ones((1, 1, 1)))
    plane = Plane(np.array([1.0]), 0.0)
    assert clouds.separability(plane, 1 / STRETCH) == pytest.approx(0.8413447460685429)
    assert clouds.expansion_for(plane, 0.8413447460685429) == pytest.approx(1 / STRETCH)


def test_separability_replaces_the_expansion():
    first = make_ndc(50, expansion=1.0, separability=0.8, random_state=0)
    second = make_ndc(50, expansion=9.0, separability=0.8, random_state=0)
    np.testing.assert_array_equal(first.X, second.X)


def test_points_have_the_mean_and_covariance_of_their_cloud():
    random_state = np.random.RandomState(0)
    clouds = draw_clouds(np.array([[0.5, -0.5], [3.0, 3.0]]), np.array([0, 1]), random_state)
    X = clouds.draw(np.repeat([0, 1], 100_000), 25.0, random_state)
    for center, points in enumerate(np.split(X, 2)):
        root = clouds.roots[center]
        np.testing.assert_allclose(points.mean(axis=0), clouds.centers[center], atol=0.02)
        np.testing.assert_allclose(np.cov(points.T), root.T @ root, atol=0.03)


def test_spread_is_the_documented_one():
    random_state = np.random.RandomState(0)
    clouds = draw_clouds(np.zeros((200, 12)), np.zeros(200, dtype=int), random_state)
    X = clouds.draw(np.arange(20_000) % 200, 10.0, random_state)
    assert (X**2).sum(axis=1).mean() == pytest.approx((10.0 * 12 / 25) ** 2 / 3, rel=0.05)


def test_clouds_differ_and_share_random_fractions():
    clouds, _ = draw_problem(5, 3, np.random.RandomState(0))
    assert clouds.fractions.sum() == pytest.approx(1.0)
    assert len(np.unique(clouds.fractions)) == 5
    assert len(np.unique(clouds.roots)) == 5 * 3 * 3


def test_training_part_does_not_depend_on_the_test_part():
    alone = make_ndc(60, separability=0.8, random_state=0)
    tested = make_ndc(60, separability=0.8, test_size=500, random_state=0)
    np.testing.assert_array_equal(alone.X, tested.X)
    np.testing.assert_array_equal(alone.y, tested.y)


def test_test_part_is_drawn_anew_from_the_same_clouds():
    clusters = make_ndc(5000, expansion=5.0, test_size=5000, random_state=0)
    assert not np.isin(clusters.X_test, clusters.X).any()
    np.testing.assert_allclose(clusters.X.mean(axis=0), clusters.X_test.mean(axis=0), atol=0.06)
    assert abs(clusters.y.mean() - clusters.y_test.mean()) < 0.04


def test_seed_decides_and_the_global_generator_does_not():
    np.random.seed(1)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = make_ndc(50, separability=0.8, test_size=9, random_state=3)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.random.rand(7)  # noqa: NPY002
    second = make_ndc(50, separability=0.8, test_size=9, random_state=np.random.RandomState(3))
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.y, second.y)
    np.testing.assert_array_equal(first.X_test, second.X_test)
    np.testing.assert_array_equal(first.y_test, second.y_test)
    assert not np.array_equal(first.X, make_ndc(50, separability=0.8, random_state=4).X)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_samples": 0},
        {"n_samples": 2.5},
        {"n_features": 0},
        {"n_centers": 1},
        {"expansion": 0},
        {"expansion": float("inf")},
        {"expansion": float("nan")},
        {"separability": 0.5},
        {"separability": 1.0},
        {"separability": "high"},
        {"test_size": -1},
        {"test_size": 0.5},
        {"random_state": "seed"},
    ],
)
def test_wrong_parameters_are_named(wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter .* must be"):
        make_ndc(**wrong)

"""NDC, noisy digits and shifted digits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from kernlet.datasets import Dataset, load
from papers.generators import (
    SPREAD,
    Clusters,
    Plane,
    ShiftedImages,
    draw_clusters,
    draw_problem,
    make_ndc,
    make_noisy_digits,
    make_shifted_digits,
)

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
def test_tiny_clusters_sit_on_centers_labelled_by_the_plane(seed, n_features, n_centers):
    data = make_ndc(
        80, n_features, n_centers=n_centers, expansion=1e-9, test_size=30, random_state=seed
    )
    clusters, plane = draw_problem(n_centers, n_features, np.random.RandomState(seed))
    np.testing.assert_array_equal(clusters.labels, plane.heights(clusters.centers) >= 0)
    assert np.abs(clusters.centers).max() <= 1
    for X, y in ((data.X, data.y), (data.X_test, data.y_test)):
        distances = np.linalg.norm(X[:, None] - clusters.centers, axis=2)
        assert distances.min(axis=1).max() < 1e-6
        np.testing.assert_array_equal(y, clusters.labels[distances.argmin(axis=1)])


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
    clusters, plane = draw_problem(n_centers, n_features, np.random.RandomState(seed))
    expansion = clusters.expansion_for(plane, target)
    assert clusters.separability(plane, expansion) == pytest.approx(target, abs=1e-9)


def test_separability_of_one_cloud_is_the_normal_distribution():
    # The center is 1 from the plane and the deviation across it is 1: Phi(1).
    clusters = Clusters(np.array([[1.0]]), np.array([1]), np.ones(1), np.ones((1, 1, 1)))
    plane = Plane(np.array([1.0]), 0.0)
    assert clusters.separability(plane, 1 / SPREAD) == pytest.approx(0.8413447460685429)
    assert clusters.expansion_for(plane, 0.8413447460685429) == pytest.approx(1 / SPREAD)


def test_separability_replaces_the_expansion():
    first = make_ndc(50, expansion=1.0, separability=0.8, random_state=0)
    second = make_ndc(50, expansion=9.0, separability=0.8, random_state=0)
    np.testing.assert_array_equal(first.X, second.X)


def test_points_have_the_mean_and_covariance_of_their_cloud():
    random_state = np.random.RandomState(0)
    clusters = draw_clusters(np.array([[0.5, -0.5], [3.0, 3.0]]), np.array([0, 1]), random_state)
    X = clusters.draw(np.repeat([0, 1], 100_000), 25.0, random_state)
    for center, points in enumerate(np.split(X, 2)):
        root = clusters.roots[center]
        np.testing.assert_allclose(points.mean(axis=0), clusters.centers[center], atol=0.02)
        np.testing.assert_allclose(np.cov(points.T), root.T @ root, atol=0.03)


def test_spread_is_the_documented_one():
    random_state = np.random.RandomState(0)
    clusters = draw_clusters(np.zeros((200, 12)), np.zeros(200, dtype=int), random_state)
    X = clusters.draw(np.arange(20_000) % 200, 10.0, random_state)
    assert (X**2).sum(axis=1).mean() == pytest.approx((10.0 * 12 / 25) ** 2 / 3, rel=0.05)


def test_clouds_differ_and_share_random_fractions():
    clusters, _ = draw_problem(5, 3, np.random.RandomState(0))
    assert clusters.fractions.sum() == pytest.approx(1.0)
    assert len(np.unique(clusters.fractions)) == 5
    assert len(np.unique(clusters.roots)) == 5 * 3 * 3


def test_training_part_does_not_depend_on_the_test_part():
    alone = make_ndc(60, separability=0.8, random_state=0)
    tested = make_ndc(60, separability=0.8, test_size=500, random_state=0)
    np.testing.assert_array_equal(alone.X, tested.X)
    np.testing.assert_array_equal(alone.y, tested.y)


def test_test_part_is_drawn_again_from_the_same_clouds():
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


def small_digits():
    """Eights and as many others from scikit-learn's 8 x 8 digits, in [-1, 1]."""
    X, y = load_digits(return_X_y=True)
    rows = np.concatenate([np.flatnonzero(y == 8)[:20], np.flatnonzero(y != 8)[:20]])
    return X[rows] / 8.0 - 1.0, (y[rows] == 8).astype(int)


CENTERS = small_digits()


@settings(deadline=None, max_examples=25)
@given(seeds, st.integers(2, 90))
def test_shapes_and_equal_classes(seed, n_samples):
    digits = make_noisy_digits(n_samples, centers=CENTERS, random_state=seed)
    assert digits.name == "noisy_digits"
    for X, y in ((digits.X, digits.y), (digits.X_test, digits.y_test)):
        assert X.shape == (n_samples, 64)
        assert X.dtype == np.float64
        assert y.dtype == np.int64
        assert np.isfinite(X).all()
        np.testing.assert_array_equal(np.bincount(y), [n_samples - n_samples // 2, n_samples // 2])


def test_tiny_clouds_sit_on_centers_and_have_their_labels():
    centers, labels = CENTERS
    digits = make_noisy_digits(300, expansion=1e-9, centers=CENTERS, random_state=0)
    for X, y in ((digits.X, digits.y), (digits.X_test, digits.y_test)):
        distances = np.linalg.norm(X[:, None] - centers, axis=2)
        assert distances.min(axis=1).max() < 1e-6
        np.testing.assert_array_equal(y, labels[distances.argmin(axis=1)])


def test_classes_are_mixed():
    y = make_noisy_digits(1000, centers=CENTERS, random_state=0).y
    assert 0.4 < y[:500].mean() < 0.6


@pytest.mark.parametrize("expansion", [0.01, 1.0, 16.0, 1000.0])
def test_pixels_stay_about_in_range(expansion):
    digits = make_noisy_digits(2000, expansion=expansion, centers=CENTERS, random_state=0)
    assert (np.abs(digits.X) > 1).mean() < 1e-4
    assert np.abs(digits.X).max() > 0.6


def test_noise_is_the_documented_one():
    expansion, n_features = 16.0, 64
    centers = np.zeros((100, n_features)), np.arange(100) % 2
    digits = make_noisy_digits(4000, expansion=expansion, centers=centers, random_state=0)
    noise = expansion / 25 * np.sqrt(n_features / 3)
    assert digits.X.std() == pytest.approx(noise / (1 + 5 * noise), rel=0.03)


def test_noisy_digits_larger_expansion_is_less_separable():
    accuracies = []
    for expansion in (1.0, 4.0, 16.0, 100.0):
        digits = make_noisy_digits(2000, expansion=expansion, centers=CENTERS, random_state=0)
        # The plane halfway between the two means, as drawn.
        means = [digits.X[digits.y == label].mean(axis=0) for label in (0, 1)]
        normal = means[1] - means[0]
        guesses = (digits.X_test - (means[0] + means[1]) / 2) @ normal > 0
        accuracies.append((guesses == digits.y_test).mean())
    assert accuracies == sorted(accuracies, reverse=True)
    assert accuracies[0] > 0.9
    assert accuracies[-1] < 0.6


def test_test_part_is_drawn_again():
    digits = make_noisy_digits(100, centers=CENTERS, random_state=0)
    assert not np.isin(digits.X_test, digits.X).any()


def test_noisy_digits_seed_decides_and_the_global_generator_does_not():
    np.random.seed(1)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = make_noisy_digits(50, centers=CENTERS, random_state=3)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.random.rand(7)  # noqa: NPY002
    second = make_noisy_digits(50, centers=CENTERS, random_state=np.random.RandomState(3))
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.y, second.y)
    np.testing.assert_array_equal(first.X_test, second.X_test)
    np.testing.assert_array_equal(first.y_test, second.y_test)
    assert not np.array_equal(first.X, make_noisy_digits(50, centers=CENTERS, random_state=4).X)


def test_given_centers_are_not_changed_and_may_be_lists():
    centers = np.array([[-1.0, 0.5], [1.0, -0.5]])
    kept = centers.copy()
    first = make_noisy_digits(20, centers=(centers, np.array([0, 1])), random_state=0)
    second = make_noisy_digits(20, centers=[kept.tolist(), [0, 1]], random_state=0)
    np.testing.assert_array_equal(centers, kept)
    np.testing.assert_array_equal(first.X, second.X)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_samples": 1},
        {"n_samples": 2.5},
        {"expansion": 0},
        {"expansion": float("inf")},
        {"expansion": float("nan")},
        {"random_state": "seed"},
        {"centers": 180},
    ],
)
def test_noisy_digits_wrong_parameters_are_named(wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter .* must be"):
        make_noisy_digits(**wrong)


@pytest.mark.parametrize(
    ("centers", "sentence"),
    [
        ((np.eye(2),), "centers has length 1; give a pair"),
        ((np.eye(2), [0, 1], [0, 1]), "centers has length 3; give a pair"),
        ((np.eye(2), [0, 0]), r"are \[0\]; give 0 and 1"),
        ((np.eye(2), [-1, 1]), r"are \[-1, 1\]; give 0 and 1"),
        ((np.eye(2), [0, 1, 1]), "inconsistent numbers of samples"),
        ((np.array([[0.0, np.nan], [1.0, 1.0]]), [0, 1]), "NaN"),
    ],
)
def test_wrong_centers_are_told(centers, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_noisy_digits(10, centers=centers)


def test_without_data_the_loader_says_what_to_do(monkeypatch):
    def offline(name):
        raise ConnectionError(f"The set {name!r} was not found: set KERNLET_DATA")

    monkeypatch.setattr("papers.generators.load", offline)
    with pytest.raises(ConnectionError, match="'usps' was not found"):
        make_noisy_digits(10)
    assert len(make_noisy_digits(10, centers=CENTERS).X) == 10


@pytest.mark.slow
def test_centers_are_ninety_eights_and_ten_of_each_other_digit(data_folder):
    digits = make_noisy_digits(6000, expansion=1e-9, random_state=0)
    assert digits.X.shape == digits.X_test.shape == (6000, 256)
    assert digits.X.min() == pytest.approx(-1.0, abs=1e-6)
    assert digits.X.max() == pytest.approx(1.0, abs=1e-6)
    usps = load("usps")
    points = np.column_stack([np.vstack([digits.X, digits.X_test]), np.r_[digits.y, digits.y_test]])
    found = []
    for *center, label in np.unique(points.round(4), axis=0):
        differences = np.abs(2.0 * usps.X - 1.0 - np.array(center)).max(axis=1)
        assert differences.min() < 1e-3
        found.append(usps.y[differences.argmin()])
        assert (found[-1] == 8) == label
    # A center with a small fraction may get no point at all.
    counts = np.bincount(found, minlength=10)
    assert 80 <= counts[8] <= 90
    assert all(7 <= count <= 10 for count in np.delete(counts, 8))


def test_machine_is_as_good_as_in_the_paper_and_random_centers_are_worse(data_folder):
    from kernlet import L1KernelClassifier

    digits = make_noisy_digits(4000, random_state=0)
    X, y = digits.X[:1000], digits.y[:1000]
    accuracies = [
        L1KernelClassifier(C=10.0, gamma=1 / 128, candidates=candidates, random_state=0)
        .fit(X, y)
        .score(digits.X_test, digits.y_test)
        for candidates in (None, 100, 10)
    ]
    # The paper has 73.3, 68.5 and 55.6 % with 1000 rows.
    np.testing.assert_allclose(accuracies, [0.733, 0.685, 0.556], atol=0.05)
    assert accuracies[0] > accuracies[1] + 0.02
    assert accuracies[1] > accuracies[2] + 0.05


def small_usps(n=6, seed=0):
    random = np.random.RandomState(seed)
    X, y = random.rand(n, 256), np.arange(n) % 3
    return Dataset("usps", X, y, X[:3], y[:3])


def test_every_image_is_at_every_place():
    digits = make_shifted_digits(18, usps=small_usps())
    assert digits.X.shape == (4 * 9, 18 * 18)
    assert digits.X_test.shape == (2 * 9, 18 * 18)
    assert digits.y.tolist() == [0] * 9 + [1] * 9 + [0] * 9 + [1] * 9
    image = small_usps().X[1].reshape(16, 16).astype(np.float32)
    for shift, row in enumerate(digits.X[9:18].reshape(-1, 18, 18)):
        down, right = divmod(shift, 3)
        wanted = np.zeros((18, 18), np.float32)
        wanted[down : down + 16, right : right + 16] = image
        np.testing.assert_array_equal(row, wanted)


def test_rows_are_the_same_however_they_are_asked_for():
    rows = make_shifted_digits(17, usps=small_usps()).X
    whole = np.asarray(rows)
    assert isinstance(rows, ShiftedImages)
    assert whole.shape == rows.shape
    assert len(rows) == len(whole)
    assert whole.dtype == rows.dtype == np.float32
    np.testing.assert_array_equal(np.vstack(list(rows.blocks(5))), whole)
    np.testing.assert_array_equal(rows[3], whole[3])
    np.testing.assert_array_equal(rows[-1], whole[-1])
    np.testing.assert_array_equal(rows[[4, 1]], whole[[4, 1]])
    np.testing.assert_array_equal(rows[whole[:, 0] > 0], whole[whole[:, 0] > 0])
    with pytest.raises(IndexError):
        rows[len(rows)]
    with pytest.raises(ValueError, match="a copy is needed"):
        np.array(rows, copy=False)


def test_scikit_learn_takes_them():
    from kernlet import MMDA

    digits = make_shifted_digits(17, usps=small_usps(12))
    assert MMDA(random_state=0).fit(digits.X, digits.y).transform(digits.X_test).shape[1] == 1


def test_the_counts_are_those_of_the_paper(data_folder):
    digits = make_shifted_digits()
    assert digits.X.shape == (266_079, 676)
    assert digits.X_test.shape == (75_383, 676)
    assert digits.n_classes == 2
    assert digits.X.images.nbytes < 3e6, "nothing is made before it is asked for"
    usps = load("usps")
    zero = usps.X[np.flatnonzero(np.isin(usps.y, (0, 1)))[7]].reshape(16, 16)
    middle = digits.X[7 * 121 + 60].reshape(26, 26)
    np.testing.assert_array_equal(middle[5:21, 5:21], zero.astype(np.float32))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"frame": 15}, "'frame' parameter"),
        ({"digits": (0, 7)}, r"digits \[7\]"),
        ({"digits": ()}, "digits is empty"),
        ({"usps": Dataset("x", np.eye(3), np.arange(3))}, "16 x 16"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_shifted_digits(**({"usps": small_usps()} | parameters))


def test_digits_may_be_an_array():
    digits = make_shifted_digits(17, digits=np.array([0, 1]), usps=small_usps())
    assert digits.n_classes == 2

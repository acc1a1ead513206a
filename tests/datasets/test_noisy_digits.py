import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from kernlet.datasets import load, make_noisy_digits

seeds = st.integers(0, 2**32 - 1)


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


def test_larger_expansion_is_less_separable():
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


def test_test_part_is_drawn_anew():
    digits = make_noisy_digits(100, centers=CENTERS, random_state=0)
    assert not np.isin(digits.X_test, digits.X).any()


def test_seed_decides_and_the_global_generator_does_not():
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
def test_wrong_parameters_are_named(wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter .* must be"):
        make_noisy_digits(**wrong)


@pytest.mark.parametrize(
    ("centers", "sentence"),
    [
        ((np.eye(2),), "centers has 1 parts; give a pair"),
        ((np.eye(2), [0, 1], [0, 1]), "centers has 3 parts; give a pair"),
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

    monkeypatch.setattr("kernlet.datasets.noisy_digits.load", offline)
    with pytest.raises(ConnectionError, match="'usps' was not found"):
        make_noisy_digits(10)
    assert len(make_noisy_digits(10, centers=CENTERS).X) == 10


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

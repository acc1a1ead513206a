"""The compact novelty detector."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernlet import CompactNoveltyDetector
from kernlet.compact.mixture import Mixture, Rounding, pack, rounded, start, temperature
from kernlet.rows import as_rows
from naive import mixture_log_density


@pytest.fixture(scope="module")
def rings():
    """Three clusters of normal rows, and rows between them."""
    random = np.random.RandomState(0)
    middles = np.array([[0.0, 0, 0, 0], [6, 0, 3, 0], [0, 6, 0, 3]])
    normal = middles[random.randint(3, size=3000)] + random.normal(size=(3000, 4)) * [1, 0.3, 2, 1]
    anomalies = random.uniform(-4, 10, size=(500, 4))
    return normal[:2000], normal[2000:], anomalies


_SHARE_OF_NEW_ROWS = (
    "it wants exactly the share `contamination` of the training rows; here it is the share of new "
    "rows, which score lower"
)


@parametrize_with_checks(
    [
        CompactNoveltyDetector(8, random_state=0),
        CompactNoveltyDetector(max_bytes=400, random_state=0),
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": (
            "repeated rows are other rows to the random parts of a training than one row of their "
            "weight: the held-out part and the first k-means centers"
        ),
        "check_sample_weight_equivalence_on_sparse_data": "as above",
        "check_outliers_fit_predict": _SHARE_OF_NEW_ROWS,
        "check_outliers_train": _SHARE_OF_NEW_ROWS,
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_density_is_that_of_the_obvious_formula():
    random = np.random.RandomState(0)
    mixture = Mixture(random.normal(size=(5, 3)), random.uniform(0.1, 2, (5, 3)), np.full(5, 0.2))
    U = random.normal(size=(20, 3))
    np.testing.assert_allclose(mixture.log_density(U), mixture_log_density(mixture, U), rtol=1e-10)


def test_the_likelihood_is_near_that_of_scikit_learn():
    random = np.random.RandomState(0)
    U = np.vstack([random.normal(m, s, size=(600, 3)) for m, s in ((-1, 0.3), (1, 0.6), (0, 1))])
    U = (U - U.mean(axis=0)) / U.std(axis=0)
    ours = start(U, np.ones(len(U)), 6, 0)
    peer = GaussianMixture(6, covariance_type="diag", random_state=0).fit(U)
    constant = 1.5 * np.log(2 * np.pi)
    assert ours.log_density(U).mean() - constant > peer.score(U) - 0.05


@pytest.mark.parametrize("spread", [0.0, np.log(2), np.log(4)])
@pytest.mark.parametrize("format", ["int8", "int4"])
def test_rounded_numbers_are_stored_exactly(rings, spread, format):
    U = (rings[0] - rings[0].mean(axis=0)) / rings[0].std(axis=0)
    weights = np.ones(len(U))
    rounding = Rounding(format, spread)
    mixture = rounded(start(U, weights, 12, 0), U, weights, rounding)
    from kernlet.compact.inputs import Inputs
    from kernlet.compact.plan import StoragePlan

    plan = StoragePlan(
        4,
        1,
        12,
        formats=(format, "int8", "int8"),
        width="per_center",
        kernel="diagonal_rbf" if spread else "rbf",
        intercept_bytes=4,
    )
    T = temperature(mixture, U, 0.05)
    expansion = pack(mixture, rounding, plan, Inputs(), T)
    assert expansion.nbytes == plan.nbytes
    np.testing.assert_allclose(expansion.centers, mixture.centers, rtol=1e-6, atol=1e-7)
    # the sum of the components, each to the power 1 / T
    peaks = np.maximum(np.exp((mixture.log_peaks - mixture.log_peaks.max()) / T), 1 / 127)
    exponents = (mixture.log_components(U) - mixture.log_peaks) / T
    exact = np.exp(exponents) @ (np.rint(peaks * 127) / 127)
    np.testing.assert_allclose(expansion.decision_values(U)[:, 0], exact, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("max_bytes", [200, 500, "1k", 3000])
def test_bytes_are_kept_and_anomalies_found(rings, max_bytes):
    train, test, anomalies = rings
    detector = CompactNoveltyDetector(max_bytes=max_bytes, random_state=0).fit(train)
    assert detector.nbytes_ == detector.expansion_.nbytes <= {"1k": 1000}.get(max_bytes, max_bytes)
    labels = np.repeat([1, 0], [len(test), len(anomalies)])
    scores = detector.score_samples(np.vstack([test, anomalies]))
    assert roc_auc_score(labels, scores) > 0.93
    values = detector.decision_function(test)
    np.testing.assert_allclose(values, detector.score_samples(test) - detector.offset_)
    np.testing.assert_array_equal(detector.predict(test), np.where(values >= 0, 1, -1))


@pytest.mark.slow
@pytest.mark.parametrize("contamination", [0.02, 0.05, 0.2])
@pytest.mark.parametrize("max_bytes", [300, 3000])
def test_false_alarms_are_as_many_as_asked_for(contamination, max_bytes):
    random = np.random.RandomState(1)
    X = random.standard_t(4, size=(23_000, 6)) @ random.normal(size=(6, 6))
    detector = CompactNoveltyDetector(
        max_bytes=max_bytes, contamination=contamination, random_state=0
    ).fit(X[:3000])
    alarms = np.mean(detector.predict(X[3000:]) < 0)
    assert abs(alarms - contamination) < 0.25 * contamination


def test_known_anomalies_set_the_threshold(rings):
    train, test, anomalies = rings
    plain = CompactNoveltyDetector(max_bytes=600, random_state=0).fit(train)
    tuned = CompactNoveltyDetector(max_bytes=600, random_state=0).fit(
        train, anomalies=anomalies[:100]
    )

    def balanced(detector):
        alarms = np.mean(detector.predict(test) < 0)
        return (1 - alarms + np.mean(detector.predict(anomalies[100:]) < 0)) / 2

    assert balanced(tuned) >= balanced(plain) - 0.005
    with pytest.raises(ValueError, match="anomalies has 2 features, but X has 4"):
        CompactNoveltyDetector().fit(train, anomalies=anomalies[:, :2])


def test_same_seed_same_detector(rings):
    first, second = (
        CompactNoveltyDetector(max_bytes=500, random_state=3).fit(rings[0]) for _ in range(2)
    )
    np.testing.assert_array_equal(first.score_samples(rings[1]), second.score_samples(rings[1]))
    assert first.path_ == second.path_


def test_weights_count(rings):
    train = rings[0]
    weights = np.where(train[:, 0] > 3, 0.0, 1.0)
    detector = CompactNoveltyDetector(8, random_state=0).fit(train, sample_weight=weights)
    flagged = detector.predict(train) < 0
    assert flagged[weights == 0].mean() > 0.9
    assert flagged[weights > 0].mean() < 0.1


def test_images_are_averaged_where_few_bytes_are_given():
    X, y = load_digits(return_X_y=True)
    images = np.kron(X.reshape(-1, 8, 8), np.ones((1, 2, 2))).reshape(len(X), -1)
    detector = CompactNoveltyDetector(max_bytes="1k", random_state=0).fit(images[y != 0])
    assert detector.expansion_.block > 1
    assert roc_auc_score(y != 0, detector.score_samples(images)) > 0.9
    with pytest.raises(ValueError, match="odd side"):
        CompactNoveltyDetector(block_means=True).fit(np.random.RandomState(0).rand(20, 9))


def test_too_few_bytes_are_refused(rings):
    with pytest.raises(ValueError, match="No detector fits in 20 bytes"):
        CompactNoveltyDetector(max_bytes=20).fit(rings[0])


@settings(max_examples=25, deadline=None)
@given(
    n_rows=st.integers(2, 60),
    n_features=st.integers(1, 5),
    is_constant=st.booleans(),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    seed=st.integers(0, 2**16),
)
def test_odd_rows_are_fitted(n_rows, n_features, is_constant, scale, seed):
    random = np.random.RandomState(seed)
    X = scale * random.normal(size=(n_rows, n_features))
    if is_constant:
        X[:, 0] = scale
    detector = CompactNoveltyDetector(max_bytes=300, random_state=0).fit(X)
    assert np.isfinite(detector.score_samples(X)).all()
    assert (detector.predict(X) == 1).mean() >= 0.5
    assert (detector.predict(X + 1e3 * scale) == -1).all() or is_constant


def test_path_is_drawn(rings):
    detector = CompactNoveltyDetector(max_bytes=500, random_state=0).fit(rings[0])
    display = detector.plot_path(by="nbytes")
    assert display.ax_.get_ylabel() == "Validated log-likelihood"


def test_a_constant_column_far_away_does_not_hide_the_others(rings):
    X, _, anomalies = rings
    constant = np.full((len(anomalies), 1), 1e6)
    detector = CompactNoveltyDetector(max_bytes=400, random_state=0)
    detector.fit(np.hstack([X, np.full((len(X), 1), 1e6)]))
    assert (detector.predict(np.hstack([anomalies, constant])) < 0).mean() > 0.8


@pytest.mark.parametrize("distance", [6.0, 1e6, 1e200])
@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
def test_known_anomalies_however_far_are_found(distance, as_given):
    X = np.random.RandomState(0).normal(size=(60, 3))
    anomalies = as_given(X[:5] + distance)
    detector = CompactNoveltyDetector(random_state=0).fit(X, anomalies=anomalies)
    assert (detector.predict(anomalies) < 0).all()
    assert (detector.predict(X) > 0).all()
    assert detector.offset_ > 1e-3  # which integers resolve


@pytest.mark.parametrize(
    ("rows", "parameters", "message"),
    [
        (1e39, {}, "go up to .* beyond what float32 can hold"),
        (1e-45, {}, "have a deviation of .* beyond what float32 can hold"),
        (1.0, {"max_centers": lambda plan: 0}, "max_centers allows no center"),
        (1.0, {"max_bytes": 10}, "No detector fits in 10 bytes: one center takes "),
    ],
)
def test_what_is_refused(rows, parameters, message):
    X = rows * np.random.RandomState(0).normal(size=(60, 3))
    with pytest.raises(ValueError, match=message):
        CompactNoveltyDetector(random_state=0, **parameters).fit(X)


@pytest.mark.parametrize(
    ("anomalies", "error", "message"),
    [
        ([[np.nan] * 3], ValueError, "Input anomalies contains NaN"),
        ([[1.0] * 2], ValueError, "anomalies has 2 features, but X has 3"),
        (as_rows(np.ones((2, 3))), TypeError, "needs its rows in memory"),
    ],
)
def test_anomalies_that_are_refused(anomalies, error, message):
    X = np.random.RandomState(0).normal(size=(60, 3))
    with pytest.raises(error, match=message):
        CompactNoveltyDetector(random_state=0).fit(X, anomalies=anomalies)


def test_rows_that_score_the_threshold_are_normal():
    random = np.random.RandomState(0)
    points = random.normal(size=(4, 3))
    X = points[random.randint(4, size=200)]
    detector = CompactNoveltyDetector(4, random_state=0).fit(X)
    assert (detector.predict(X) < 0).mean() <= 0.05


def test_few_centers_where_they_are_enough():
    X = np.random.RandomState(0).normal(size=(2000, 1))
    assert CompactNoveltyDetector(random_state=0).fit(X).n_centers_ <= 4


def test_columns_of_anomalies_have_the_names_of_the_rows(rings):
    X = pd.DataFrame(rings[0], columns=list("abcd"))
    anomalies = pd.DataFrame(rings[2], columns=list("dcba"))
    with pytest.raises(ValueError, match="feature names"):
        CompactNoveltyDetector(4, random_state=0).fit(X, anomalies=anomalies)

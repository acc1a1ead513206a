"""Maximum margin features: three solvers, one answer."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import naive
from kernlet import MMDA, HullPerceptronClassifier
from kernlet.kernels.rbf import RBF
from kernlet.squared.problem import Solution
from support.callbacks import needs_callbacks


def data(m=150, n_classes=3, seed=0):
    return make_classification(
        m, 5, n_informative=4, n_redundant=0, n_classes=n_classes, random_state=seed, flip_y=0.1
    )


SOLVERS = {
    "landmarks": {"solver": "landmarks", "n_landmarks": 1000, "tol": 1e-12},
    "core": {"solver": "core", "eps": 0.0, "sample_size": None},
    "core, by gap": {"solver": "core", "eps": None, "sample_size": None, "tol": 1e-12},
    "exact": {"solver": "exact"},
}


def inner_products(features, n_chains):
    K = features.expansion_.kernel(features.expansion_.centers, features.expansion_.centers)
    chains = [features.components_[c::n_chains] for c in range(n_chains)]
    return [A @ K @ A.T for A in chains]


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(("n_classes", "n_chains"), [(2, 1), (3, 3)])
def test_features_of_a_class_are_orthonormal(name, n_classes, n_chains):
    X, y = data(n_classes=n_classes)
    features = MMDA(4, gamma=0.2, random_state=0, **SOLVERS[name]).fit(X, y)
    assert features.components_.shape[0] == 4 * n_chains
    for inner in inner_products(features, n_chains):
        np.testing.assert_allclose(inner, np.eye(4), atol=1e-9)


@pytest.mark.parametrize("name", SOLVERS)
def test_all_solvers_agree_with_nonnegative_least_squares(name):
    X, y = data(90)
    C, gamma, n = 2.0, 0.2, 3
    features = MMDA(n, C=C, gamma=gamma, random_state=0, **SOLVERS[name]).fit(X, y)
    K = RBF(gamma)(X, X)
    wanted = []
    for label in range(3):
        signs = np.where(y == label, 1.0, -1.0)
        coef, images = np.zeros((90, 0)), np.zeros((90, 0))
        for _ in range(n):
            a = naive.margin_feature(K, signs, np.full(90, C), images)
            w = a * signs - coef @ (images.T @ (a * signs))
            w /= np.sqrt(w @ K @ w)
            coef, images = np.column_stack([coef, w]), np.column_stack([images, K @ w])
        wanted.append(images)
    wanted = np.array(wanted).transpose(1, 2, 0).reshape(90, -1)
    np.testing.assert_allclose(features.transform(X), wanted, atol=2e-5)


def test_the_exact_solver_keeps_its_gap_and_all_landmarks_agree_with_it():
    X, y = load_digits(return_X_y=True)
    X, y = X[:500] / 16.0, y[:500]
    exact = MMDA(3, solver="exact", gamma="mean_distance").fit(X, y)
    assert exact.gap_.max() <= 1e-8
    for inner in inner_products(exact, 10):
        np.testing.assert_allclose(inner, np.eye(3), atol=1e-9)
    landmarks = MMDA(3, n_landmarks=500, tol=1e-10, gamma="mean_distance").fit(X, y)
    assert landmarks.gap_.max() <= 1e-10
    np.testing.assert_allclose(landmarks.transform(X), exact.transform(X), atol=1e-4)


def test_core_sets_converge_to_the_exact_features():
    X, y = data(300)
    exact = MMDA(2, solver="exact", gamma=0.2).fit(X, y).transform(X)
    distances, gaps = [], []
    for eps in (1e-2, 1e-3, 1e-5):
        core = MMDA(2, solver="core", sample_size=None, eps=eps, gamma=0.2, random_state=0)
        core.fit(X, y)
        assert core.ball_gap_ <= eps
        distances.append(np.abs(core.transform(X) - exact).max())
        gaps.append(core.gap_.max())
    assert distances[2] < distances[0]
    assert distances[2] < 1e-2
    assert gaps == sorted(gaps, reverse=True)


def test_a_single_sample_ends_early_and_says_so():
    X, y = data(2000, 2)
    core = MMDA(1, solver="core", gamma=2.0, random_state=0).fit(X, y)
    assert core.ball_gap_ > core.eps
    full = MMDA(1, solver="core", gamma=2.0, sample_size=None, random_state=0).fit(X, y)
    assert full.ball_gap_ <= full.eps


def test_the_first_feature_is_the_normal_of_the_machine():
    X, y = data(200, 2)
    feature = MMDA(C=4.0, gamma=0.3, solver="exact").fit(X, y)
    machine = HullPerceptronClassifier(2.0, gamma=0.3, tol=1e-12).fit(X, y)
    expansion = machine.expansion_
    values = (machine.decision_function(X) - expansion.intercept[0]) / expansion.feature_norms()[0]
    np.testing.assert_allclose(feature.transform(X)[:, 0], values, atol=1e-6)


def test_few_landmarks_are_enough_for_neighbours():
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(
        MMDA(3, n_landmarks=100, gamma="mean_distance", random_state=0), KNeighborsClassifier(1)
    ).fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > 0.94
    assert model[0].n_centers_ == 100 == len(model[0].point_indices_)
    np.testing.assert_array_equal(model[0].expansion_.centers, X[model[0].point_indices_])


def test_memory_may_be_one_block_and_rough_starts_change_nothing(monkeypatch):
    X, y = data(3000)
    held = MMDA(2, n_landmarks=30, tol=1e-10, gamma=0.2, random_state=0).fit(X, y)
    blocks = clone(held).set_params(cache_size=0).fit(X, y)
    np.testing.assert_allclose(blocks.transform(X), held.transform(X), atol=1e-6)
    monkeypatch.setattr("kernlet.squared.features._ROUGH_ROWS", 10**6)
    plain = clone(held).fit(X, y)
    np.testing.assert_allclose(plain.transform(X), held.transform(X), atol=1e-5)


@pytest.mark.parametrize("solver", ["landmarks", "core", "exact"])
def test_where_no_direction_is_left_features_are_zero(solver):
    X = np.random.RandomState(0).randn(60, 2)
    y = (X[:, 0] > 0).astype(int)
    features = MMDA(4, solver=solver, kernel="linear", sample_size=None, eps=None).fit(X, y)
    values = features.transform(X)
    assert np.abs(values[:, :2]).max() > 0.1
    np.testing.assert_allclose(values[:, 2:], 0.0, atol=1e-6)


@pytest.mark.parametrize("solver", ["landmarks", "core", "exact"])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("n", [3, 4, 6])
def test_kernels_of_low_rank_keep_features_orthonormal(solver, scaled, n):
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X) if scaled else X
    features = MMDA(n, solver=solver, kernel="linear", random_state=0).fit(X, y)
    for chain, inner in enumerate(inner_products(features, 3)):
        is_there = features.components_[chain::3].any(axis=1)
        assert is_there.sum() == min(n, 4)
        np.testing.assert_allclose(inner, np.diag(is_there.astype(float)), atol=1e-10)


@pytest.mark.parametrize("solver", ["core", "exact"])
def test_a_large_c_keeps_features_orthonormal(solver):
    X, y = load_iris(return_X_y=True)
    features = MMDA(4, C=1e6, solver=solver, eps=None, sample_size=None, random_state=0).fit(X, y)
    for inner in inner_products(features, 3):
        np.testing.assert_allclose(inner, np.eye(4), atol=1e-9)


@pytest.mark.parametrize("solver", ["landmarks", "core", "exact"])
def test_labels_that_cancel_leave_no_noise(solver):
    X, _ = load_iris(return_X_y=True)
    rows, y = np.repeat(X[:40], 2, axis=0), np.tile([0, 1], 40)
    features = MMDA(2, solver=solver, random_state=0).fit(rows, y)
    assert np.abs(features.components_).max(initial=0.0) < 100
    assert np.isfinite(features.transform(X)).all()


@pytest.mark.parametrize("solver", ["landmarks", "exact"])
def test_a_small_c_loses_no_features(solver):
    X, y = load_digits(return_X_y=True)
    features = MMDA(5, solver=solver, C=1e-3).fit(X[:400], y[:400])
    assert features.components_.any(axis=1).all()
    for inner in inner_products(features, 10):
        np.testing.assert_allclose(inner, np.eye(5), atol=1e-9)


@pytest.mark.parametrize("solver", ["landmarks", "core", "exact"])
def test_equal_rows_and_constant_features(solver):
    features = MMDA(2, solver=solver, random_state=0).fit(np.ones((10, 3)), [0] * 6 + [1] * 4)
    assert np.isfinite(features.transform(np.ones((2, 3)))).all()


@pytest.mark.parametrize("solver", ["landmarks", "core", "exact"])
def test_sparse_rows_give_the_same_features(solver):
    X, y = data()
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    make = MMDA(2, solver=solver, gamma=0.2, random_state=0, tol=1e-10)
    dense, rows = clone(make).fit(X, y), make.fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(rows.transform(sparse.csr_array(X)), dense.transform(X), atol=1e-6)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_in_and_out(frame):
    X, y = data()
    columns = [f"x{k}" for k in range(5)]
    table = frame(dict(zip(columns, X.T, strict=True)))
    kind = "pandas" if frame is pd.DataFrame else "polars"
    features = MMDA(2, random_state=0).set_output(transform=kind)
    out = features.fit(table, y).transform(table)
    assert isinstance(out, frame)
    assert list(out.columns) == [f"mmda{k}" for k in range(6)]
    assert features.feature_names_in_.tolist() == columns
    with pytest.raises(ValueError, match="feature names"):
        features.transform(table[columns[::-1]])


def test_float32_rows_stay_float32():
    X, y = data()
    features = MMDA(2, gamma=0.2, random_state=0).fit(X.astype(np.float32), y)
    out = features.transform(X.astype(np.float32))
    assert out.dtype == np.float32
    wanted = MMDA(2, gamma=0.2, random_state=0).fit(X, y).transform(X)
    np.testing.assert_allclose(out, wanted, atol=2e-2)


def test_far_from_the_origin_nothing_changes():
    X, y = data()
    near = MMDA(2, gamma=0.1, random_state=0).fit(X, y)
    far = MMDA(2, gamma=0.1, random_state=0).fit(X + 1e5, y)
    np.testing.assert_allclose(far.transform(X + 1e5), near.transform(X), atol=2e-2)


def test_weights_strings_booleans():
    X, y = data(120, 2)
    weight = np.where(np.arange(120) < 40, 2.0, 1.0)
    make = MMDA(2, solver="exact", gamma=0.2)
    heavy = clone(make).fit(X, y, weight).transform(X)
    twice = clone(make).fit(np.vstack([X, X[:40]]), np.r_[y, y[:40]]).transform(X)
    np.testing.assert_allclose(heavy, twice, atol=1e-6)
    named = clone(make).fit(X, np.where(y == 1, "b", "a")).transform(X)
    boolean = clone(make).fit(X, y == 1).transform(X)
    np.testing.assert_array_equal(named, boolean)
    balanced = make.set_params(class_weight="balanced").fit(X, y)
    assert balanced.gap_.max() <= 1e-8


def test_two_classes_are_one_chain():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    assert MMDA(3, n_landmarks=50, random_state=0).fit_transform(X, y).shape == (569, 3)


def test_pickles_and_searches():
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(MMDA(random_state=0), KNeighborsClassifier(1))
    search = GridSearchCV(model, {"mmda__n_features_per_class": [1, 2]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    features = search.best_estimator_[0]
    again = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(again.transform(X), features.transform(X))


class Stopper:
    def setup(self, estimator, context):
        self.rounds = 0

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.rounds += context.task_name == "round"
        return context.task_name == "round" and self.rounds == 2

    def teardown(self, estimator, context):
        pass


@pytest.mark.parametrize("solver", ["landmarks", "core", "exact"])
@needs_callbacks
def test_callbacks_hear_of_every_feature_and_can_stop(solver):
    X, y = data()
    features = MMDA(5, solver=solver, random_state=0).set_callbacks(Stopper()).fit(X, y)
    assert features.transform(X).shape[1] == 6
    assert len(features.gap_) == 6


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_features_per_class": 0}, "'n_features_per_class' parameter"),
        ({"solver": "smo"}, "'solver' parameter"),
        ({"n_landmarks": 0}, "'n_landmarks' parameter"),
        ({"tol": 0.0}, "'tol' parameter"),
        ({"kernel": "sigmoid"}, "positive semi-definite kernel"),
        ({"solver": "exact", "cache_size": 0.01}, 'Use solver="landmarks"'),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    X, y = data()
    with pytest.raises(ValueError, match=sentence):
        MMDA(**parameters).fit(X, y)


def test_one_class_gets_a_sentence():
    with pytest.raises(ValueError, match="one class only"):
        MMDA().fit(np.eye(3), [1, 1, 1])


@pytest.mark.parametrize("solver", ["landmarks", "core", "exact"])
def test_a_kernel_that_overflows_gets_a_sentence(solver):
    X = np.array([[1e200, 1.0], [1.0, 1e200], [2.0, 3.0], [3.0, 1e150]])
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="overflows"):
        MMDA(solver=solver, kernel="poly", gamma=1.0).fit(X, [0, 1, 0, 1])


def test_unfinished_features_warn_with_the_gap():
    X, y = data(300, 2)
    with pytest.warns(ConvergenceWarning, match="relative duality gap of up to"):
        MMDA(solver="core", eps=None, sample_size=None, cache_size=0.02).fit(X, y)


@pytest.mark.parametrize("eps", [None, 1e-3])
def test_core_sets_that_reach_the_memory_limit_warn(eps):
    X, y = data(300, 2)
    features = MMDA(solver="core", eps=eps, cache_size=0.01, random_state=0)
    with pytest.warns(ConvergenceWarning, match="reached cache_size"):
        features.fit(X, y)
    assert features.ball_gap_ > 1e-3


@pytest.mark.parametrize("solver", ["landmarks", "core", "exact"])
def test_weights_that_overflow_get_a_sentence(solver):
    X, y = data()
    with pytest.raises(ValueError, match="nearer to 1"):
        MMDA(solver=solver).fit(X, y, np.full(150, 1e300))


def test_a_gap_that_is_no_number_is_refused(monkeypatch):
    X, y = data(100, 2)
    monkeypatch.setattr(
        "kernlet.squared.features.minimize_matrix",
        lambda problem, K, **options: Solution(
            np.arange(100), K[0], 0.0, np.nan, 1, "optimal", 1.0, K[0]
        ),
    )
    features = MMDA(solver="exact")
    with pytest.raises(ValueError, match="values of gap_ that are not finite"):
        features.fit(X, y)
    with pytest.raises(NotFittedError):
        features.transform(X)


def test_landmarks_reach_their_gap_at_a_large_c():
    X, y = load_digits(return_X_y=True)
    features = MMDA(C=1e4, n_landmarks=200, random_state=0).fit(X / 16.0, y)
    assert features.gap_.max() <= 1e-5


@pytest.mark.parametrize("solver", ["landmarks", "core", "exact"])
def test_where_zero_is_best_there_is_no_feature(solver):
    X, y = load_iris(return_X_y=True)
    features = MMDA(2, solver=solver, random_state=0).fit(X[[0, 60]], y[[0, 60]])
    assert features.components_.any(axis=1).tolist() == [True, False]


def test_small_features_of_landmarks_are_those_of_the_exact_solver():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    small = MMDA(5, C=1e-3).fit(X, y).transform(X)
    exact = MMDA(5, C=1e-3, solver="exact").fit(X, y).transform(X)
    for one, other in zip(small.T, exact.T, strict=True):
        assert np.corrcoef(one, other)[0, 1] > 0.9999


@pytest.mark.parametrize("solver", ["landmarks", "exact"])
def test_no_digits_left_gets_a_sentence(solver):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="exhaust double precision"):
        MMDA(kernel="linear", C=1e12, solver=solver, random_state=0).fit(X * 1e4, y)


def test_more_features_than_rows_are_refused():
    rows = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="n_features_per_class=1000000000000 is more than the 20"):
        MMDA(n_features_per_class=10**12).fit(rows, np.arange(20) % 2)


@pytest.mark.parametrize("solver", ["landmarks", "core", "exact"])
def test_features_have_norm_1_where_kernel_values_are_tiny_beside_the_intercept(solver):
    X = 0.02 * np.random.RandomState(0).randn(30, 1)
    options = {"kernel": "poly", "degree": 4, "gamma": 0.36, "random_state": 0}
    features = MMDA(solver=solver, **options).fit(X, np.arange(30) % 3 == 0)
    norms = features.expansion_.feature_norms()
    np.testing.assert_allclose(norms, 1.0, rtol=1e-6)


def test_an_outlier_whose_kernel_values_hide_the_other_rows_is_warned_of():
    X = [[-0.3416, -1.172], [-0.25, 1.457], [1170.7, -1248.7], [0.6584, -0.1723]]
    model = MMDA(C=503, kernel="poly", gamma=0.243, degree=4, coef0=10, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"error_bound_ is 1\.0e\+00.*Scale the features"):
        model.fit(X, [0, 0, 0, 1])


def test_exact_features_are_sums_over_support_vectors():
    y = np.arange(600) % 2
    X = np.random.RandomState(0).randn(600, 2) + 2.0 * y[:, None]
    features = MMDA(2, solver="exact", gamma=0.05).fit(X, y)
    first, second = np.count_nonzero(features.components_, axis=1)
    K = features.expansion_.kernel(X, X)
    alpha = naive.margin_feature(K, np.where(y == 1, 1.0, -1.0), np.ones(600), np.zeros((600, 0)))
    assert first == np.count_nonzero(alpha > 1e-8)
    assert first < second < 500  # the second also has the points of the first

"""The ball of one class: its optimum, its certificate and its threshold."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import ortho_group
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

import naive
from kernlet import CoreVectorNovelty, load, save
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rational_quadratic import RationalQuadratic
from kernlet.kernels.rbf import RBF
from kernlet.model.model import as_model
from kernlet.rows import as_rows


def rows_of(m=60, d=2, seed=0):
    return np.random.RandomState(seed).randn(m, d)


def exact(C=2.0, gamma=0.5, **parameters):
    return CoreVectorNovelty(C, gamma=gamma, tol=1e-13, random_state=0, **parameters)


def weights_of(machine, m):
    """alpha of all rows."""
    alpha = np.zeros(m)
    alpha[machine.center_indices_] = machine.expansion_.coef[0]
    return alpha


def products(machine, X, C):
    """Q, the inner products of the points in the ball."""
    return machine.expansion_.kernel(X, X) + np.eye(len(X)) / C


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("C", [0.5, 100.0])
def test_it_is_the_smallest_ball(kernel, C):
    X = rows_of(15)
    machine = exact(C, kernel=kernel).fit(X)
    Q = products(machine, X, C)
    center, radius = naive.enclosing_ball(Q)
    assert machine.radius_ == pytest.approx(radius, rel=1e-7)
    np.testing.assert_allclose(np.linalg.cholesky(Q).T @ weights_of(machine, 15), center, atol=1e-4)
    np.testing.assert_allclose(weights_of(machine, 15), naive.nearest_in_hull(Q), atol=1e-7)


def test_it_is_a_one_class_svm_of_hard_margin_over_products_with_the_ridge():
    """With nu = 1 / m no weight of OneClassSVM has a bound, and its threshold is the same rho."""
    X, C = rows_of(80), 3.0
    machine = exact(C, contamination="auto").fit(X)
    peer = OneClassSVM(kernel="precomputed", nu=1 / 80, tol=1e-10).fit(products(machine, X, C))
    alpha = np.zeros(80)
    alpha[peer.support_] = peer.dual_coef_[0]
    np.testing.assert_allclose(weights_of(machine, 80), alpha / alpha.sum(), atol=1e-6)
    assert machine.offset_ == pytest.approx(peer.offset_[0] / alpha.sum(), rel=1e-6)


def test_a_small_c_is_a_density_estimate_of_all_rows():
    X = rows_of(50)
    machine = exact(1e-8).fit(X)
    densities = machine.expansion_.kernel(X, X).mean(axis=1)
    np.testing.assert_allclose(machine.score_samples(X), densities, rtol=1e-6)


def test_conditions_of_the_optimum():
    """score + alpha / c = rho on the support; elsewhere the score is at least rho."""
    X, costs = rows_of(300), 2.0 * np.random.RandomState(1).uniform(0.5, 2.0, 300)
    machine = exact(1.0, contamination="auto").fit(X, sample_weight=costs)
    alpha, scores = weights_of(machine, 300), machine.score_samples(X)
    assert alpha.sum() == pytest.approx(1.0, abs=1e-12)
    assert (alpha >= 0).all()
    inside = alpha > 0
    np.testing.assert_allclose((scores + alpha / costs)[inside], machine.offset_, rtol=1e-9)
    assert (scores[~inside] >= machine.offset_ - 1e-12).all()
    np.testing.assert_array_equal(machine.predict(X) == -1, inside)


@pytest.mark.parametrize("eps", [1e-1, 1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("sample_size", [None, 59])
def test_the_ball_gap_is_true_for_all_rows(eps, sample_size):
    X, C = rows_of(700), 10.0
    machine = CoreVectorNovelty(C, gamma=1.0, eps=eps, sample_size=sample_size, random_state=0).fit(
        X
    )
    Q, alpha = products(machine, X, C), weights_of(machine, 700)
    squares = np.diagonal(Q) - 2 * Q @ alpha + alpha @ Q @ alpha
    radius = np.sqrt(np.diagonal(Q) @ alpha - alpha @ Q @ alpha)
    assert machine.radius_ == pytest.approx(radius, rel=1e-12)
    assert machine.ball_gap_ == pytest.approx(np.sqrt(squares.max()) / radius - 1, abs=1e-9)
    best = exact(C, gamma=1.0).fit(X).radius_
    assert machine.radius_ <= best * (1 + 1e-9)
    assert best <= machine.radius_ * (1 + machine.ball_gap_) * (1 + 1e-9)
    if sample_size is None:
        assert machine.ball_gap_ <= eps


def test_the_gap_bounds_the_distance_to_the_optimum():
    """1 / (2 rho) is the optimum of 1/2 |w|^2 + C/2 sum max(0, 1 - w.f(x_i))^2."""
    X = rows_of(1000)
    best = exact(1.0, gamma=2.0, contamination="auto").fit(X)
    for tol in (1e-1, 1e-3):
        machine = CoreVectorNovelty(1.0, gamma=2.0, contamination="auto", tol=tol, random_state=0)
        machine.fit(X)
        assert machine.gap_ <= tol
        bound = 0.5 / machine.offset_
        optimum = 0.5 / best.offset_
        assert bound <= optimum * (1 + 1e-9)
        assert optimum <= bound / (1 - machine.gap_) * (1 + 1e-9)
    assert best.ball_gap_ <= 1e-9


def test_scores_of_rows_left_out_are_those_of_other_fits():
    """Exactly so where the other rows of the support stay the same."""
    from kernlet.kernels.gram import ColumnCache, Gram
    from kernlet.squared.core_set import CoreRule, find_core_set
    from kernlet.squared.novelty import _Ball
    from kernlet.squared.problem import SquaredMargin

    X, C = rows_of(40), 5.0
    for gamma, n_least in ((0.3, 25), (30.0, 35)):
        gram = Gram(RBF(gamma), X, hold=True)
        problem = SquaredMargin(gram, np.ones(40), np.full(40, C), bias=0.0)
        solution = find_core_set(
            problem,
            ColumnCache(gram, 2**24),
            CoreRule(tol=1e-14, sample_size=None),
            random_state=np.random.RandomState(0),
        )
        scores = _Ball(problem, solution).left_out_scores(np.ones(40))
        n_same = 0
        for i in range(40):
            others = np.delete(np.arange(40), i)
            machine = exact(C, gamma, contamination="auto").fit(X[others])
            true = machine.score_samples(X[[i]])[0]
            if set(others[machine.center_indices_]) == set(solution.rows) - {i}:
                n_same += 1
                assert scores[i] == pytest.approx(true, rel=1e-8)
            else:
                assert i in solution.rows
                assert true < machine.offset_
        assert n_same >= n_least


@pytest.mark.parametrize("gamma", [0.1, 30.0])
def test_the_share_of_new_rows_that_are_outliers_is_the_contamination(gamma):
    """Of a narrow kernel nearly all rows are support vectors, and score higher in training."""
    new, shares, naive_shares = rows_of(5000, 3, seed=99), [], []
    machine = CoreVectorNovelty(10.0, gamma=gamma, contamination=0.05, random_state=0)
    for seed in range(8):
        X = rows_of(300, 3, seed)
        machine.fit(X)
        shares.append((machine.predict(new) == -1).mean())
        quantile = np.quantile(machine.score_samples(X), 0.05)
        naive_shares.append((machine.score_samples(new) < quantile).mean())
    assert np.mean(shares) == pytest.approx(0.05, abs=0.01)
    assert np.mean(naive_shares) > (0.05 if gamma < 1 else 0.5)


@pytest.mark.slow
def test_the_default_width_limits_the_support_vectors():
    for d in (2, 20):
        for m in (300, 900):
            machine = CoreVectorNovelty(tol=1e-6, random_state=0).fit(rows_of(m, d))
            assert 0.2 * m < machine.n_centers_ <= 0.5 * m
    # No wider than "mean_distance", by which most rows of one column are support vectors.
    X = rows_of(300, 1)
    default, widest = (
        CoreVectorNovelty(gamma=gamma, random_state=0).fit(X)
        for gamma in ("support", "mean_distance")
    )
    assert default.expansion_.kernel == widest.expansion_.kernel
    few = CoreVectorNovelty(random_state=0).fit(rows_of(30_000, 2))
    assert few.n_centers_ < 2000
    assert few.gap_ <= 1e-3


def test_it_ranks_outliers_first():
    X, new = rows_of(500, 4), rows_of(500, 4, seed=1)
    far = np.random.RandomState(2).uniform(-6, 6, (500, 4))
    machine = CoreVectorNovelty(random_state=0).fit(X)
    scores = machine.score_samples(np.concatenate([new, far]))
    assert roc_auc_score(np.repeat([1, 0], 500), scores) > 0.95


def test_weights_are_repetitions():
    X, weights = rows_of(60, 3), np.random.RandomState(0).randint(0, 4, 60)
    for parameters in ({}, {"gamma": 5.0}, {"contamination": "auto"}):
        machine = CoreVectorNovelty(tol=1e-13, random_state=0, **parameters)
        heavy = machine.fit(X, sample_weight=weights).decision_function(X)
        twice = machine.fit(np.repeat(X, weights, axis=0)).decision_function(X)
        np.testing.assert_allclose(heavy, twice, atol=1e-10)


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 100.0]))
def test_moved_turned_and_repeated_rows_have_the_same_ball(seed, C):
    X = rows_of(30, 3, seed)
    random = np.random.RandomState(seed)
    turned = X @ ortho_group.rvs(3, random_state=random) + 10 * random.randn(3)
    order = random.permutation(30)
    machine = CoreVectorNovelty(C, tol=1e-13, random_state=0).fit(X)
    scores = machine.decision_function(X)
    gamma = machine.expansion_.kernel.gamma
    for other, same in (
        (CoreVectorNovelty(C, tol=1e-13, random_state=1).fit(turned), turned),
        (CoreVectorNovelty(C, tol=1e-13, random_state=2).fit(X[order]), X),
    ):
        assert other.expansion_.kernel.gamma == pytest.approx(gamma, rel=1e-9)
        np.testing.assert_allclose(other.decision_function(same), scores, atol=1e-8)
    # Each row twice with half the C are the same points, but for slacks in two halves.
    single = exact(C, gamma, contamination="auto").fit(X)
    double = exact(C / 2, gamma, contamination="auto").fit(np.repeat(X, 2, axis=0))
    np.testing.assert_allclose(double.decision_function(X), single.decision_function(X), atol=1e-8)
    assert double.n_centers_ == single.n_centers_


def test_the_same_seed_gives_the_same_machine():
    X = rows_of(1500, 3)
    machine = CoreVectorNovelty(gamma="scale", sample_size=20, random_state=3)
    one, other = (clone(machine).fit(X) for _ in range(2))
    np.testing.assert_array_equal(one.expansion_.coef, other.expansion_.coef)
    assert one.offset_ == other.offset_


def test_sparse_rows_give_the_same_machine():
    X = np.where(np.abs(rows_of(200, 5)) > 0.7, rows_of(200, 5), 0.0)
    dense, thin = exact().fit(X), exact().fit(sparse.csr_array(X))
    np.testing.assert_array_equal(dense.center_indices_, thin.center_indices_)
    np.testing.assert_allclose(thin.decision_function(X), dense.decision_function(X), atol=1e-9)


def test_kernels():
    X = rows_of(50)
    named = exact(gamma=0.7).fit(X)
    given = exact(kernel=RBF(0.7)).fit(X)
    np.testing.assert_array_equal(named.decision_function(X), given.decision_function(X))
    assert exact(kernel=RationalQuadratic(1.0, 2.0)).fit(X).gap_ <= 1e-9
    for kernel, name in (("poly", "poly"), ("linear", "linear"), (Polynomial(2), "Polynomial")):
        with pytest.raises(ValueError, match=f"'rbf' and 'laplacian', .* not '{name}'"):
            exact(kernel=kernel).fit(X)


def test_limits_are_reported():
    X = rows_of(500)
    with pytest.warns(ConvergenceWarning, match="ball gap of .*reached max_iter"):
        CoreVectorNovelty(gamma=30.0, max_iter=2, random_state=0).fit(X)
    with pytest.warns(ConvergenceWarning, match=r"reached cache_size\. Lower gamma"):
        CoreVectorNovelty(gamma=30.0, cache_size=0.02, random_state=0).fit(X)


def test_rows_in_files_are_refused():
    with pytest.raises(TypeError, match="CoreVectorNovelty needs its rows in memory"):
        CoreVectorNovelty().fit(as_rows(rows_of()))
    machine = exact().fit(rows_of())
    np.testing.assert_allclose(
        machine.decision_function(as_rows(rows_of())), machine.decision_function(rows_of())
    )


@pytest.mark.parametrize("gamma", ["support", "scale", 1.0])
def test_huge_and_tiny_values_are_fitted_or_refused_in_a_sentence(gamma):
    for scale in (1e300, 1e160, 1e154, 1e100, 1e8, 1e-100, 1e-155, 1e-300):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                machine = CoreVectorNovelty(gamma=gamma, random_state=0).fit(scale * rows_of(40))
            except ValueError as error:
                assert "cale the" in str(error) or "Scale them" in str(error)  # noqa: PT017
                continue
        assert np.isfinite(machine.expansion_.coef).all()
        assert np.isfinite(machine.offset_)


@pytest.mark.filterwarnings("ignore:A row that is left out scores 0")
@pytest.mark.parametrize("m", [1, 2, 3])
def test_few_rows(m):
    X = rows_of(m)
    for row_set in (X, np.ones((m, 2))):
        machine = CoreVectorNovelty(random_state=0).fit(row_set)
        assert machine.score_samples(row_set).min() >= 0
        assert machine.predict([[50.0, 50.0]])[0] == -1
        assert machine.n_centers_ <= m


def test_a_saved_detector_is_the_same(tmp_path):
    X = rows_of(200, 3)
    machine = CoreVectorNovelty(random_state=0).fit(X)
    save(machine, tmp_path / "detector.safetensors")
    loaded = load(tmp_path / "detector.safetensors")
    assert as_model(machine).kind == "novelty"
    np.testing.assert_array_equal(loaded.predict(X), machine.predict(X))
    np.testing.assert_allclose(loaded.decision_function(X), machine.decision_function(X))
    assert as_model(machine).summary["ball_gap"] == machine.ball_gap_


def test_a_threshold_is_positive_where_rows_that_are_left_out_score_0():
    X = np.random.RandomState(0).normal(size=(100, 2))
    with pytest.warns(UserWarning, match="cannot set a threshold"):
        detector = CoreVectorNovelty(gamma=1e6, random_state=0).fit(X)
    assert detector.offset_ > 0
    assert (detector.predict(X) == 1).all()
    assert (detector.predict(X + 1) == -1).all()

"""The nearest point against independent solvers, loops and its certificate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

import naive
from kernlet.kernels import gram as gram_module
from kernlet.kernels.gram import Gram
from kernlet.kernels.rbf import RBF
from kernlet.squared import problem as problem_module
from kernlet.squared.mdm import (
    LARGEST_ACTIVE_SET,
    ColumnPool,
    WorkingSet,
    find_nearest_point,
    mdm_steps,
    sk_steps,
)
from kernlet.squared.problem import SquaredMargin
from support.squared_problems import clusters, dual_matrix, overlapping


def filled(Q, numbers, max_columns):
    pool = ColumnPool(len(Q), 8 * len(Q) * max_columns)
    for number in numbers:
        pool.put(np.array([number]), Q[[number]])
    return pool


@pytest.fixture
def Q():
    return np.random.RandomState(0).randn(12, 12)


def test_the_least_recently_used_gives_way(Q):
    pool = filled(Q, [0, 1, 2], 3)
    assert np.array_equal(pool.get(0), Q[0])
    pool.put(np.array([5]), Q[[5]])
    assert pool.get(1) is None
    assert all(number in pool for number in (0, 2, 5))
    assert pool.nbytes == 3 * 12 * 8
    assert pool.n_computed == 4


def test_the_first_of_several_stays_longest(Q):
    pool = filled(Q, [], 2)
    pool.put(np.array([3, 4, 5]), Q[[3, 4, 5]])
    assert [number in pool for number in (3, 4, 5)] == [True, True, False]


def test_fewer_rows_make_room_for_more_columns(Q):
    pool = filled(Q, [7, 0, 3, 9], 4)
    pool.get(7)
    kept = np.array([0, 3, 5, 7])
    pool.keep_rows(kept)
    assert pool.nbytes == 3 * 4 * 8
    assert pool.capacity == 12
    for number, old in enumerate(kept):
        if old != 5:
            assert np.array_equal(pool.get(number), Q[old, kept])


@pytest.mark.parametrize("max_columns", [3, 12])
def test_rows_that_come_back(Q, max_columns):
    kept, all_of_them = np.array([0, 3, 5, 7, 9, 11]), np.arange(12)
    pool = filled(Q, [7, 0, 3], max_columns)
    pool.keep_rows(kept)
    small = Q[np.ix_(kept, kept)]
    for number in (4, 5):
        pool.put(np.array([number]), small[[number]])
    before = [kept[number] for number in range(6) if number in pool]
    new = np.setdiff1d(all_of_them, kept)
    pool.add_rows(kept, 12, lambda numbers: Q[np.ix_(numbers, new)])
    held = [number for number in range(12) if number in pool]
    assert len(held) == min(len(before), max_columns)
    for number in held:
        assert np.array_equal(pool.get(number), Q[number])


def test_there_is_room_for_two_in_any_case():
    assert ColumnPool(100, 1).capacity == 2


def dense(solution, n_rows):
    return solution.spread(solution.alpha, n_rows)


@pytest.mark.parametrize("method", ["mdm", "active set"])
@pytest.mark.parametrize("C", [0.1, 2.0, 100.0])
def test_the_optimum_is_that_of_nonnegative_least_squares(method, C):
    hull = overlapping(150, C=C)
    Q = dual_matrix(hull)
    alpha = naive.nearest_in_hull(Q)
    solution = find_nearest_point(hull, method=method, tol=1e-11)
    assert solution.norm == pytest.approx(np.sqrt(alpha @ Q @ alpha), rel=1e-11)
    np.testing.assert_allclose(dense(solution, 150), alpha, atol=1e-9)
    assert solution.status == "optimal"


def test_the_optimum_is_that_of_a_hard_margin_between_mirrored_points():
    hull = overlapping(100)
    Q = dual_matrix(hull)
    scaled = Q / Q.mean()
    svc = SVC(kernel="precomputed", C=1e12, tol=1e-11)
    svc.fit(np.block([[scaled, -scaled], [-scaled, scaled]]), np.repeat([1, -1], 100))
    alpha = np.zeros(200)
    alpha[svc.support_] = np.abs(svc.dual_coef_[0])
    alpha = alpha[:100] + alpha[100:]
    alpha /= alpha.sum()
    for method in ("mdm", "active set"):
        solution = find_nearest_point(hull, method=method, tol=1e-12)
        assert solution.norm == pytest.approx(np.sqrt(alpha @ Q @ alpha), rel=1e-9)


def test_steps_reach_many_digits_without_the_active_set(monkeypatch):
    hull = overlapping(150)
    exact = find_nearest_point(hull, method="active set", tol=1e-13).norm
    monkeypatch.setattr("kernlet.squared.mdm.LARGEST_ACTIVE_SET", 1)
    solution = find_nearest_point(hull, tol=1e-10)
    assert solution.gap <= 1e-10
    assert solution.norm == pytest.approx(exact, rel=1e-10)


def test_schlesinger_and_kozinec_come_near():
    hull = overlapping(60)
    exact = find_nearest_point(hull, tol=1e-12)
    solution = find_nearest_point(hull, method="sk", tol=1e-2)
    assert solution.gap <= 1e-2
    assert exact.norm <= solution.norm <= exact.norm / (1 - solution.gap)


def vertex(hull):
    alpha = np.zeros(hull.n_rows)
    alpha[hull.diagonal.argmin()] = 1.0
    return alpha


def test_the_norm_carried_along_is_the_true_one_after_10000_steps():
    """The slide updates it with the new margin, which is wrong by far more."""
    hull = overlapping(100)
    working = WorkingSet(hull, vertex(hull), 2**20)
    assert sk_steps(working, 10_000, 0.0) == 10_000
    true = working.alpha @ dual_matrix(hull) @ working.alpha
    assert working.n2 == pytest.approx(true, rel=1e-12)
    np.testing.assert_allclose(working.margins, hull.margins(working.alpha), rtol=0, atol=1e-13)


@pytest.mark.parametrize("method", ["mdm", "sk"])
def test_rounding_does_not_choose_the_row_to_start_from(method):
    """All norms of an rbf kernel are equal; the first row starts, and as many support vectors."""
    hull = overlapping(m=150, d=10, spread=False)
    random, X = np.random.RandomState(0), np.asarray(hull.gram.x.X)
    least, counts = set(), set()
    for _ in range(5):
        noisy = X * (1 + np.finfo(float).eps * random.randint(-1, 2, X.shape))
        problem = SquaredMargin(Gram(RBF(0.3), noisy, hold=True), hull.signs, hull.costs)
        least.add(int(problem.diagonal.argmin()))
        start = find_nearest_point(problem, method=method, max_iter=0)
        assert start.rows.tolist() == [0]
        solution = find_nearest_point(problem, method=method, tol=0.0, max_iter=300)
        counts.add((len(solution.rows), *solution.rows))
    assert len(least) > 1
    assert len(counts) == 1


@pytest.mark.parametrize("n_rows", [1, 7, 100])
def test_block_sizes_do_not_choose_the_row_to_start_from(n_rows, monkeypatch):
    expected = find_nearest_point(overlapping(spread=False), method="sk", tol=0.0, max_iter=300)
    monkeypatch.setattr(problem_module, "_DIAGONAL_ROWS", n_rows)
    monkeypatch.setattr(gram_module, "BLOCK_BYTES", 8 * 80 * n_rows)
    solution = find_nearest_point(overlapping(spread=False), method="sk", tol=0.0, max_iter=300)
    np.testing.assert_array_equal(solution.rows, expected.rows)
    np.testing.assert_allclose(solution.alpha, expected.alpha, rtol=1e-9)


def test_a_row_that_is_nearer_starts():
    hull = overlapping(m=40, n_directions=2)
    start = find_nearest_point(hull, method="sk", max_iter=0)
    assert start.rows.tolist() == [hull.diagonal.argmin()]


@pytest.mark.parametrize(("steps", "twin"), [(sk_steps, "sk_step"), (mdm_steps, "mdm_step")])
def test_steps_are_those_of_the_twin(steps, twin):
    hull = overlapping(25)
    Q = dual_matrix(hull).tolist()
    working = WorkingSet(hull, vertex(hull), 2**20)
    alpha = vertex(hull).tolist()
    for _ in range(60):
        steps(working, 1, 0.0)
        alpha = getattr(naive, twin)(Q, alpha)
        np.testing.assert_allclose(working.alpha, alpha, atol=1e-12)
        assert working.n2 == pytest.approx(np.array(alpha) @ Q @ alpha, rel=1e-10)


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(2, 25),
    seed=st.integers(0, 10_000),
    log_C=st.floats(-3, 3),
    method=st.sampled_from(["mdm", "sk", "active set"]),
    max_iter=st.integers(0, 200),
)
def test_any_answer_lies_in_the_hull_and_its_gap_is_a_bound(m, seed, log_C, method, max_iter):
    hull = overlapping(m, C=10**log_C, seed=seed)
    solution = find_nearest_point(hull, method=method, tol=1e-6, max_iter=max_iter)
    Q = dual_matrix(hull)
    exact = naive.nearest_in_hull(Q)
    best = np.sqrt(exact @ Q @ exact)
    assert (solution.alpha > 0).all()
    assert solution.alpha.sum() == pytest.approx(1.0, abs=1e-14)
    assert solution.squared_norm == pytest.approx(
        dense(solution, m) @ Q @ dense(solution, m), rel=1e-12
    )
    assert solution.gap >= 0
    assert solution.margin <= best * (1 + 1e-9)
    assert best <= solution.norm * (1 + 1e-12)
    assert solution.norm * (1 - solution.gap) <= best * (1 + 1e-9)
    assert (solution.status == "optimal") == (solution.gap <= 1e-6) or solution.n_iter == max_iter


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), m=st.integers(3, 30))
def test_the_order_of_rows_does_not_matter(seed, m):
    hull = overlapping(m, seed=seed)
    order = np.random.RandomState(seed).permutation(m)
    one, other = (find_nearest_point(h, tol=1e-12) for h in (hull, hull.subset(order)))
    assert one.norm == pytest.approx(other.norm, rel=1e-11)
    np.testing.assert_allclose(dense(one, m)[order], dense(other, m), atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), m=st.integers(3, 30))
def test_a_row_twice_is_a_row_of_twice_the_cost(seed, m):
    hull = overlapping(m, seed=seed)
    heavy = SquaredMargin(hull.gram, hull.signs, np.where(np.arange(m) < 3, 2.0, 1.0) * hull.costs)
    twice = hull.subset(np.r_[np.arange(m), :3])
    one, two = find_nearest_point(heavy, tol=1e-12), find_nearest_point(twice, tol=1e-12)
    assert one.norm == pytest.approx(two.norm, rel=1e-11)
    alpha = dense(two, m + 3)[:m]
    alpha[:3] += dense(two, m + 3)[m:]
    np.testing.assert_allclose(dense(one, m), alpha, atol=1e-9)


@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-9])
def test_shrinking_changes_the_work_only(tol):
    hull = clusters()
    plain = find_nearest_point(hull, tol=tol, shrinking=False)
    shrunk = find_nearest_point(hull, tol=tol, shrinking=True)
    exact = find_nearest_point(hull, tol=1e-12, shrinking=False)
    assert max(plain.gap, shrunk.gap) <= tol
    assert shrunk.norm == pytest.approx(exact.norm, rel=tol)
    if tol == 1e-9:
        np.testing.assert_array_equal(shrunk.rows, exact.rows)
        np.testing.assert_allclose(shrunk.alpha, exact.alpha, atol=1e-9)


def test_rows_left_out_too_early_come_back():
    """Rows with a small margin are thrown out by hand; the recount takes them in again."""
    hull = clusters(400)
    exact = find_nearest_point(hull, tol=1e-6)
    working = WorkingSet(hull, vertex(hull), 2**22)
    mdm_steps(working, 30, 0.0)
    kept = np.flatnonzero((working.alpha > 0) | (np.arange(400) < 150))
    working.pool.keep_rows(kept)
    working._take(working.rows[kept], working.alpha[kept], working.margins[kept])
    for _ in range(20):
        mdm_steps(working, 5000, 1e-6)
        margins = hull.margins(working.spread_alpha())
        working.extend(margins)
        for number in range(working.n_rows):
            held = working.pool.get(number)
            if held is not None:
                np.testing.assert_allclose(
                    held, working.problem.products(np.array([number]))[0], atol=1e-13
                )
    assert working.n_rows < 400
    assert working.n2 == pytest.approx(exact.squared_norm, rel=1e-5)


@pytest.mark.parametrize("n_columns", [2, 5, 40])
@pytest.mark.parametrize("method", ["mdm", "sk"])
def test_a_small_cache_costs_columns_but_no_digits(method, n_columns, monkeypatch):
    monkeypatch.setattr("kernlet.squared.mdm._PREFETCH_SIZE", 0)
    hull = clusters(300)
    held = []
    limit = n_columns * 300 * 8
    put = ColumnPool.put

    def watched_put(pool, *columns):
        put(pool, *columns)
        held.append(pool.nbytes)

    monkeypatch.setattr(ColumnPool, "put", watched_put)
    tight = find_nearest_point(hull, method=method, tol=1e-2, max_bytes=limit)
    tight_bytes = max(held)
    roomy = find_nearest_point(hull, method=method, tol=1e-2)
    assert tight_bytes <= limit
    assert tight.gap <= 1e-2
    assert tight.norm == pytest.approx(roomy.norm, rel=1e-2)
    if n_columns <= 5:  # a larger cache also computes columns ahead
        assert tight.n_columns > roomy.n_columns


def test_starting_at_the_answer_takes_no_step():
    hull = overlapping(80)
    solution = find_nearest_point(hull, tol=1e-5)
    again = find_nearest_point(hull, tol=1e-5, start=3.0 * dense(solution, 80))
    assert again.n_iter == 0
    assert again.norm == pytest.approx(solution.norm, rel=1e-12)


def test_limits_and_wishes_stop_the_steps():
    hull = overlapping(300)
    limited = find_nearest_point(hull, max_iter=7, tol=1e-6)
    assert (limited.n_iter, limited.status) == (7, "iteration limit")
    stopped = find_nearest_point(hull, tol=1e-6, report=lambda state: True)
    assert stopped.status == "stopped"
    assert stopped.gap > 1e-6
    nothing = find_nearest_point(hull, max_iter=0)
    assert (nothing.n_iter, len(nothing.rows)) == (0, 1)


@pytest.mark.parametrize("method", ["mdm", "sk", "active set"])
def test_a_tolerance_of_zero_ends(method):
    hull = overlapping(40)
    solution = find_nearest_point(hull, method=method, tol=0.0, max_iter=20_000)
    assert solution.status in ("rounding", "optimal", "iteration limit")
    if method != "sk":
        assert solution.gap < 1e-11


@pytest.mark.parametrize("C", [1e8, 1e15])
def test_contradicting_rows_and_a_huge_cost(C):
    """Nothing but rounding is left of the margin: the answer is finite and says so."""
    X = np.repeat(np.random.RandomState(0).randn(20, 2), 2, axis=0)
    signs = np.tile([1.0, -1.0], 20)
    solution = find_nearest_point(
        SquaredMargin(Gram(RBF(1.0), X), signs, np.full(40, 2 * C)), max_iter=20_000
    )
    assert np.isfinite(solution.alpha).all()
    assert np.isfinite(solution.gap)
    assert solution.squared_norm > 0


def test_one_row_is_its_own_answer():
    hull = overlapping(80).subset(np.array([5]))
    solution = find_nearest_point(hull)
    assert (solution.gap, solution.rows.tolist()) == (0.0, [0])


def test_bad_input_gets_a_sentence():
    hull = overlapping(20)
    with pytest.raises(ValueError, match="without rows"):
        find_nearest_point(hull.subset(np.array([], dtype=int)))
    for start in (np.ones(19), -np.ones(20), np.zeros(20)):
        with pytest.raises(ValueError, match="start must be 20 finite weights"):
            find_nearest_point(hull, start=start)
    with pytest.raises(ValueError, match=f"up to {LARGEST_ACTIVE_SET} rows"):
        find_nearest_point(clusters(LARGEST_ACTIVE_SET + 1), method="active set")


@pytest.mark.parametrize("method", ["mdm", "sk"])
def test_a_row_of_next_to_no_weight_does_not_end_the_steps(method):
    plain = overlapping(80)
    costs = plain.costs.copy()
    costs[0] = 2e-14
    hull = SquaredMargin(plain.gram, plain.signs, costs)
    solution = find_nearest_point(hull, method=method, tol=1e-2)
    assert solution.status == "optimal"
    assert solution.gap <= 1e-2


def test_too_few_steps_are_said_to_be_too_few():
    hull = overlapping(80)
    enough = find_nearest_point(hull, tol=1e-7).n_iter
    solution = find_nearest_point(hull, tol=1e-10, max_iter=enough)
    assert solution.status == "iteration limit" or solution.gap <= 1e-10

"""A run of a stage: what steps (b), (c) and (d) make, and what the record says of them."""

import math
import pickle
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import make_blobs, make_moons

import naive
from kernlet import L1KernelClassifier
from kernlet.chunking import problem as chunking_problem
from kernlet.chunking import stage
from kernlet.chunking.problem import (
    QuadraticMargin,
    SmoothMargin,
    weigh_rows,
    weigh_rows_once,
)
from kernlet.chunking.stage import (
    Plan,
    Sample,
    choose_machine,
    pruned,
    run_stage,
    smallest_within_error,
    train,
)
from kernlet.kernels.gram import Gram
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid

PLAN = Plan(
    kernel=RBF(1.5),
    classes=np.array([0, 1]),
    Cs=(3.0,),
    n_points=4,
    two_sets=False,
    box=None,
    solver="lp",
)
NONE = np.empty(0, dtype=int)


def as_rows(X, y, weights=None):
    return Sample(X, y, np.ones(len(y)) if weights is None else weights)


def moons(m=120, seed=0):
    return as_rows(*make_moons(m, noise=0.25, random_state=seed))


def three_blobs(seed=0):
    return as_rows(*make_blobs(90, centers=3, cluster_std=2.0, random_state=seed))


THREE = replace(PLAN, kernel=RBF(0.1), classes=np.arange(3))
CASES = {
    "rbf": (PLAN, moons),
    "poly": (replace(PLAN, kernel=Polynomial(0.5, 3, 1.0)), moons),
    "linear": (replace(PLAN, kernel=Linear()), moons),
    "two sets": (replace(PLAN, two_sets=True), moons),
    "box": (replace(PLAN, box=1.25), moons),
    "quadratic": (replace(PLAN, solver="quadratic", Cs=(0.01,)), moons),
    "unconstrained": (replace(PLAN, solver="unconstrained", Cs=(0.01,)), moons),
    "one-step": (replace(PLAN, solver="one-step", Cs=(0.01,)), moons),
    "smooth": (replace(PLAN, solver="smooth"), moons),
    "three classes": (THREE, three_blobs),
    "three classes, smooth": (replace(THREE, solver="smooth"), three_blobs),
    "three classes, quadratic": (replace(THREE, solver="quadratic"), three_blobs),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    """A plan, rows, rows to validate on, and the run."""
    plan, make = request.param
    rows, validation = make(), make(seed=1)
    return plan, rows, validation, run_stage(plan, rows, validation, None, None, 0)


def one_norm(C, rows, candidates=None, kernel=PLAN.kernel):
    machine = L1KernelClassifier(C, kernel=kernel, candidates=candidates, random_state=0)
    return machine.fit(rows.X, rows.y, rows.weights)


def same_function(expansion, machine, X):
    values = machine.decision_function(X).reshape(len(X), -1)
    np.testing.assert_allclose(expansion.decision_values(X), values, atol=1e-6)


def objective(expansion, rows, C):
    """The linear program's value for two classes."""
    margins = np.where(rows.y == 1, 1, -1) * expansion.decision_values(rows.X)[:, 0]
    return C * np.maximum(0.0, 1.0 - margins).sum() + np.abs(expansion.coef).sum()


def is_among(points, others):
    return {tuple(p) for p in points} <= {tuple(p) for p in others}


@pytest.mark.parametrize("candidates", [None, moons(30, seed=5).X], ids=["rows", "points"])
@pytest.mark.parametrize("C", [0.5, 3.0])
def test_step_b_is_the_1_norm_machine(candidates, C):
    rows = moons()
    run = run_stage(replace(PLAN, Cs=(C,)), rows, moons(seed=1), candidates, None, 0)
    machine = one_norm(C, rows, candidates)
    same_function(run.b, machine, moons(seed=2).X)
    assert run.record.n_centers_b == machine.n_centers_
    assert run.record.n_support_b == len(machine.margin_indices_)
    assert run.record.n_candidates == (120 if candidates is None else 30)


def test_step_d_is_the_1_norm_machine_over_the_synthetic_points():
    rows = moons()
    run = run_stage(PLAN, rows, moons(seed=1), None, None, 0)
    machine = one_norm(3.0, rows, run.points)
    same_function(run.d, machine, rows.X)
    assert run.record.n_centers_d == machine.n_centers_ <= 4
    assert run.record.n_support_d == len(machine.margin_indices_)
    assert is_among(run.d.centers, run.points)
    assert not is_among(run.points, rows.X)


def test_steps_b_and_d_of_more_classes_share_centers():
    rows = three_blobs()
    run = run_stage(THREE, rows, three_blobs(1), None, None, 0)
    same_function(run.b, one_norm(3.0, rows, kernel=THREE.kernel), rows.X)
    same_function(run.d, one_norm(3.0, rows, run.points, THREE.kernel), rows.X)
    assert run.points.shape == (4, 2)
    assert run.d.coef.shape == (3, run.d.n_centers)
    assert run.d.n_centers <= 4


def test_step_c_approximates_step_b(case):
    """The residual is |f_b - f_c| / |f_b| in feature space, all outputs together."""
    plan, _, _, run = case
    assert run.c.n_centers <= plan.n_points
    np.testing.assert_array_equal(run.c.intercept, run.b.intercept)
    centers = np.vstack([run.b.centers, run.c.centers])
    K = plan.kernel(centers, centers)
    both = np.hstack([run.b.coef, -run.c.coef])
    alone = np.hstack([run.b.coef, 0.0 * run.c.coef])
    square = lambda u: np.einsum("cj,jk,ck->", u, K, u)  # noqa: E731
    residual = math.sqrt(max(0.0, square(both)) / square(alone))
    assert run.record.residual == pytest.approx(residual, rel=1e-3, abs=1e-6)
    assert 0.0 <= run.record.residual <= 1.0


def test_the_record_tells_what_happened(case):
    plan, rows, validation, run = case
    record = run.record
    assert (record.n_rows, record.n_candidates) == (len(rows.y), len(rows.y))
    assert record.n_centers_b == run.b.n_centers
    assert record.n_centers_d == run.d.n_centers <= len(run.points)
    assert 0 < record.n_support_b <= record.n_rows
    assert 0 < record.n_support_d <= record.n_rows
    assert plan.Cs[0] == record.C
    assert record.scores == (record.validation_b,)
    assert record.seconds > record.seconds_c > 0
    for step, machine in {"b": run.b, "c": run.c, "d": run.d}.items():
        for part, of in {"train": rows, "validation": validation}.items():
            values = machine.decision_values(of.X)
            codes = values[:, 0] > 0 if values.shape[1] == 1 else values.argmax(axis=1)
            assert getattr(record, f"{part}_{step}") == np.mean(codes == of.y)
    assert (record.gap is None) == (plan.solver in ("quadratic", "one-step", "unconstrained"))
    assert record.gap is None or record.gap <= 1e-6
    numbers = {**asdict(record), "scores": 0.0, "gap": record.gap or 0.0}
    assert all(math.isfinite(value) for value in numbers.values())


def test_a_machine_of_few_centers_is_its_own_approximation():
    run = run_stage(replace(PLAN, n_points=200), moons(), moons(seed=1), None, None, 0)
    assert run.c is run.b
    assert run.record.residual == 0.0
    assert is_among(run.points, moons().X)
    same_function(run.d, one_norm(3.0, moons()), moons().X)


def test_the_alternate_algorithm_chooses_from_two_sets():
    rows = moons()
    one = run_stage(PLAN, rows, moons(seed=1), None, None, 0)
    two = run_stage(replace(PLAN, two_sets=True), rows, moons(seed=1), None, None, 0)
    assert two.points.shape == (8, 2)
    assert len(np.unique(two.points, axis=0)) == 8
    np.testing.assert_array_equal(two.points[:4], one.points)
    assert 4 < two.d.n_centers <= 8
    assert objective(two.d, rows, 3.0) <= objective(one.d, rows, 3.0) * (1 + 1e-6)


@pytest.mark.parametrize("Cs", [(0.05, 0.5, 5.0), (5.0, 0.05, 0.5)])
def test_of_several_c_the_one_that_validates_best(Cs):
    rows, validation = moons(), moons(seed=1)
    run = run_stage(replace(PLAN, Cs=Cs), rows, validation, None, None, 0)
    alone = [run_stage(replace(PLAN, Cs=(C,)), rows, validation, None, None, 0) for C in Cs]
    assert run.record.scores == tuple(one.record.validation_b for one in alone)
    assert len(set(run.record.scores)) > 1
    best = int(np.argmax(run.record.scores))
    assert Cs[best] == run.record.C
    same_function(run.b, one_norm(Cs[best], rows), rows.X)
    same_function(run.d, one_norm(Cs[best], rows, run.points), rows.X)


def test_without_rows_to_validate_on_the_first_c_is_taken():
    rows = moons()
    run = run_stage(replace(PLAN, Cs=(2.0, 5.0)), rows, rows.take(NONE), None, None, 0)
    assert run.record.C == 2.0
    assert run.record.scores == ()
    for name, value in asdict(run.record).items():
        assert (value is None) == name.startswith("validation")


def test_the_linear_kernel_needs_one_center():
    plan = replace(PLAN, kernel=Linear(), n_points=1)
    run = run_stage(plan, moons(), moons(seed=1), None, None, 0)
    assert run.b.n_centers > 1
    assert run.points.shape == (1, 2)
    np.testing.assert_allclose(run.c.coef @ run.c.centers, run.b.coef @ run.b.centers)
    assert run.record.residual < 1e-7
    assert run.record.train_c == run.record.train_b


def closed_form(gram, signs, cost):
    """Model (7) with its row weights: the machine, and the rows that it depends on."""
    problem = weigh_rows(QuadraticMargin(gram, signs, cost, np.ones(len(signs))))
    u, b = problem.solve()
    return u, b, problem.row_weights > 0


@pytest.mark.parametrize("candidates", [None, moons(30, seed=5).X], ids=["rows", "points"])
def test_the_quadratic_solver_is_the_closed_form(candidates):
    random = np.random.RandomState(0)
    rows = as_rows(*make_moons(80, noise=0.25, random_state=0), random.uniform(0.5, 2.0, 80))
    plan = replace(PLAN, solver="quadratic", Cs=(0.02,))
    run = run_stage(plan, rows, moons(seed=1), candidates, None, 0)
    centers = rows.X if candidates is None else candidates
    signs = np.where(rows.y == 1, 1.0, -1.0)
    for machine, points, support in (
        (run.b, centers, run.record.n_support_b),
        (run.d, run.points, run.record.n_support_d),
    ):
        u, b, short = closed_form(Gram(PLAN.kernel, rows.X, points), signs, 0.02 * rows.weights)
        np.testing.assert_allclose(machine.coef, u[None, :])
        np.testing.assert_allclose(machine.intercept, [b], atol=1e-12)
        np.testing.assert_array_equal(machine.centers, points)
        assert support == short.sum()


@pytest.mark.parametrize("solver", ["unconstrained", "one-step"])
@pytest.mark.parametrize("candidates", [None, moons(30, seed=5).X], ids=["rows", "points"])
def test_models_six_and_seven_as_printed(candidates, solver):
    """Minima of the formulas that a search finds, the weights of (7) from the machine of (6)."""
    rows = moons(60)
    plan = replace(PLAN, solver=solver, Cs=(0.05,))
    run = run_stage(plan, rows, moons(seed=1), candidates, None, 0)
    centers = rows.X if candidates is None else candidates
    K, signs = PLAN.kernel(rows.X, centers), np.where(rows.y == 1, 1.0, -1.0)

    def searched(v):
        def objective(point):
            errors = 1.0 - signs * (K @ point[:-1] + point[-1])
            return 0.05 * v @ errors + point @ point

        return minimize(objective, np.zeros(K.shape[1] + 1), tol=1e-10).x

    point, v = searched(np.ones(60)), np.ones(60)
    if solver == "one-step":
        v = (signs * (K @ point[:-1] + point[-1]) < 1.0).astype(float)
        assert 0 < v.sum() < 60
        point = searched(v)
    np.testing.assert_allclose(run.b.coef[0], point[:-1], atol=1e-5)
    assert run.b.intercept[0] == pytest.approx(point[-1], abs=1e-5)
    assert run.record.n_support_b == v.sum()


def test_the_quadratic_solver_with_more_classes():
    rows = three_blobs()
    plan = replace(THREE, solver="quadratic", Cs=(0.02,))
    run = run_stage(plan, rows, three_blobs(1), None, None, 0)
    K, short = Gram(THREE.kernel, rows.X), np.zeros(90, dtype=bool)
    for number in range(3):
        signs = np.where(rows.y == number, 1.0, -1.0)
        u, b, is_short = closed_form(K, signs, np.full(90, 0.02))
        np.testing.assert_allclose(run.b.coef[number], u)
        assert run.b.intercept[number] == pytest.approx(b)
        short |= is_short
    assert run.record.n_support_b == short.sum()


@pytest.mark.parametrize("two_sets", [False, True])
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_give_the_same_run(container, two_sets):
    plan, dense = replace(PLAN, two_sets=two_sets), moons()
    thin = replace(dense, X=container(dense.X))
    one = run_stage(plan, dense, moons(seed=1), None, None, 0)
    other = run_stage(plan, thin, moons(seed=1), None, None, 0)
    assert isinstance(other.points, np.ndarray)
    np.testing.assert_allclose(other.points, one.points, atol=1e-3)
    np.testing.assert_allclose(
        other.d.decision_values(thin.X), one.d.decision_values(dense.X), atol=1e-3
    )
    again = run_stage(plan, thin, moons(seed=1), other.points, None, 0)
    assert again.record.n_candidates == len(other.points)


def test_weights_multiply_c():
    X, y = make_moons(80, noise=0.25, random_state=0)
    heavy = run_stage(PLAN, as_rows(X, y, np.full(80, 2.0)), moons(seed=1), None, None, 0)
    twice = run_stage(replace(PLAN, Cs=(6.0,)), as_rows(X, y), moons(seed=1), None, None, 0)
    np.testing.assert_array_equal(heavy.d.coef, twice.d.coef)
    np.testing.assert_array_equal(heavy.points, twice.points)


def test_a_start_is_searched_from():
    rows, validation = moons(), moons(seed=1)
    first = run_stage(PLAN, rows, validation, None, None, 0)
    again = run_stage(PLAN, rows, validation, None, first.points, 7)
    assert again.record.residual <= first.record.residual * (1 + 1e-9)
    np.testing.assert_allclose(again.points, first.points, atol=1e-2)


def test_the_box_limits_the_coefficients():
    rows, validation = moons(), moons(seed=1)
    free = run_stage(PLAN, rows, validation, None, None, 0)
    members = free.b.centers[:4]
    boxed = run_stage(replace(PLAN, box=0.5), rows, validation, None, members, 0)
    limit = 0.5 * np.abs(free.b.coef[:, :4])
    assert (np.abs(boxed.c.coef) <= limit * (1 + 1e-9)).all()
    assert boxed.record.residual >= free.record.residual


def test_the_seed_is_all_that_is_random(case):
    plan, rows, validation, run = case
    again = run_stage(plan, rows, validation, None, None, 0)
    timeless = {"seconds": 0.0, "seconds_c": 0.0}
    assert replace(again.record, **timeless) == replace(run.record, **timeless)
    np.testing.assert_array_equal(again.points, run.points)
    np.testing.assert_array_equal(again.d.coef, run.d.coef)


def test_a_run_travels_between_processes(case):
    *_, run = case
    again = pickle.loads(pickle.dumps(run))
    assert again.record == run.record
    np.testing.assert_array_equal(again.points, run.points)


def test_the_smallest_within_error_within_one_standard_error_of_the_difference():
    best = np.r_[np.ones(90), np.zeros(10)] > 0
    swapped, worse = best.copy(), best.copy()
    swapped[:4], swapped[90:93] = False, True  # one error more, of seven rows that differ
    worse[:4] = False  # four errors more, of four rows that differ: error 1.96
    assert smallest_within_error(np.array([best, swapped, worse]), [20, 9, 8]) == 1
    assert smallest_within_error(np.array([best, worse]), [20, 8]) == 0
    assert smallest_within_error(np.array([best, best]), [20, 20]) == 0


def test_pruned_machines_drop_the_smallest_coefficients():
    rows, random = moons(200), np.random.RandomState(0)
    plan = replace(PLAN, kernel=RBF(5.0), n_points=3)
    (solution,) = train(plan, rows, None, (3.0,), random)
    machines = [solution, *pruned(plan, rows, solution, 3.0, random)]
    sizes = [machine.expansion.n_centers for machine in machines]
    assert sizes[0] > 10
    assert sizes[-1] <= 4
    for before, after in pairwise(machines):
        n_kept = max(4, int(0.85 * before.expansion.n_centers))
        heaviest = np.argsort(-np.abs(before.expansion.coef[0]))[:n_kept]
        over = before.expansion.centers[heaviest]
        same_function(after.expansion, one_norm(3.0, rows, over, plan.kernel), rows.X)
        assert after.expansion.n_centers < before.expansion.n_centers


def test_the_rule_of_the_smallest_within_error():
    rows, validation, random = moons(200), moons(300, seed=1), np.random.RandomState(0)
    plan = replace(PLAN, kernel=RBF(5.0), n_points=3, Cs=(0.5, 3.0))
    C, best, scores = choose_machine(plan, rows, validation, None, random)
    assert plan.Cs[int(np.argmax(scores))] == C
    small = replace(plan, rule="pruned")
    _, fewest, same_scores = choose_machine(small, rows, validation, None, random)
    assert same_scores == scores
    assert fewest.expansion.n_centers < best.expansion.n_centers
    assert plan.accuracy(fewest.expansion, validation) > max(scores) - 0.03
    run = run_stage(small, rows, validation, None, None, 0)
    assert run.record.n_centers_b == fewest.expansion.n_centers
    first, _, none = choose_machine(small, rows, rows.take(NONE), None, random)
    assert (first, none) == (0.5, ())


KERNELS = [RBF(0.7), Polynomial(0.5, 2, 1.0), Linear(), Sigmoid(0.3, 0.1)]
N_ROWS, N_CANDIDATES = 9, 4
all_kernels = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
quickly = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**31)


def _problem(kernel=KERNELS[0], seed=0, square=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 2))
    return QuadraticMargin(
        gram=Gram(kernel, X, None if square else rng.normal(size=(N_CANDIDATES, 2))),
        signs=rng.choice([-1.0, 1.0], size=N_ROWS),
        error_weights=rng.uniform(0.0, 3.0, size=N_ROWS),
        row_weights=rng.choice([0.01, 1.0], size=N_ROWS),
    )


def _value(problem, u, b):
    rewards = problem.error_weights * problem.row_weights
    return float(rewards @ (1.0 - problem.signs * (problem.gram.dot(u) + b)) + u @ u + b**2)


def _objective(problem):
    return lambda point: _value(problem, point[:-1], float(point[-1]))


def _naive_objective(problem, kernel, point):
    K = naive.gram(naive.twin(kernel), problem.gram.x.X, problem.gram.z.X)
    value = float(point @ point)
    for i, row in enumerate(K):
        f = sum(k * u for k, u in zip(row, point[:-1], strict=True)) + point[-1]
        value += problem.error_weights[i] * problem.row_weights[i] * (1 - problem.signs[i] * f)
    return value


@all_kernels
@quickly
@given(seed=seeds)
def test_objective_is_the_formula(kernel, seed):
    problem = _problem(kernel, seed)
    point = np.random.default_rng(seed).normal(size=N_CANDIDATES + 1)
    expected = _naive_objective(problem, kernel, point)
    assert _objective(problem)(point) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@all_kernels
@pytest.mark.parametrize("square", [False, True])
def test_closed_form_is_the_minimum_a_search_finds(kernel, square):
    problem = _problem(kernel, square=square)
    u, b = problem.solve()
    found = minimize(_objective(problem), np.zeros(len(u) + 1), method="BFGS", tol=1e-10)
    np.testing.assert_allclose(np.append(u, b), found.x, rtol=1e-5, atol=1e-6)
    assert _value(problem, u, b) <= found.fun + 1e-9


@all_kernels
@quickly
@given(seed=seeds)
def test_gradient_vanishes_at_the_closed_form(kernel, seed):
    problem = _problem(kernel, seed)
    u, b = problem.solve()
    slope = naive.derivative(_objective(problem), np.append(u, b))
    np.testing.assert_allclose(slope, 0.0, atol=1e-7 * (1 + abs(_value(problem, u, b))))


@all_kernels
@quickly
@given(seed=seeds)
def test_any_other_machine_costs_its_squared_distance_more(kernel, seed):
    problem = _problem(kernel, seed)
    u, b = problem.solve()
    away = np.random.default_rng(seed).normal(size=len(u) + 1)
    other = _value(problem, u + away[:-1], b + away[-1])
    expected = _value(problem, u, b) + away @ away
    assert other == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_rows_without_weight_count_nothing():
    problem = _problem()
    chosen = problem.row_weights == 1.0
    dropped = QuadraticMargin(
        problem.gram, problem.signs, problem.error_weights, chosen.astype(np.float64)
    )
    rest = QuadraticMargin(
        Gram(KERNELS[0], problem.gram.x.X[chosen], problem.gram.z.X),
        problem.signs[chosen],
        problem.error_weights[chosen],
        np.ones(chosen.sum()),
    )
    (u, b), (v, c) = dropped.solve(), rest.solve()
    np.testing.assert_allclose(u, v, rtol=1e-12)
    assert b == pytest.approx(c)


def _hinge_objective(problem, u, b):
    errors = np.maximum(0.0, 1.0 - problem.signs * (problem.gram.dot(u) + b))
    return float(problem.error_weights @ errors + u @ u + b**2)


@quickly
@given(seed=seeds)
def test_row_weights_lead_to_the_machine_with_errors_in_place_of_rewards(seed):
    """The aim that the paper names for model (7): nu |E|_1 + u'u + b^2."""
    problem = _problem(seed=seed)
    found = weigh_rows(problem, n_passes=2000)
    assert np.all((found.row_weights >= 0) & (found.row_weights <= 1))
    u, b = found.solve()
    reached = _hinge_objective(problem, u, b)
    # weak duality: nu'v - (u'u + b^2) is a lower bound for every v in [0, 1]
    bound = problem.error_weights @ found.row_weights - (u @ u + b**2)
    assert bound <= reached + 1e-9
    assert reached - bound <= 0.02 * max(1.0, reached)


def test_one_pass_from_nothing_is_model_six():
    problem = _problem()
    everything = QuadraticMargin(
        problem.gram, problem.signs, problem.error_weights, np.ones(N_ROWS)
    )
    first = weigh_rows(problem, n_passes=1)
    (u, b), (v, c) = first.solve(), everything.solve()
    share = first.row_weights[0]  # all rows are short of the margin of the zero machine
    np.testing.assert_allclose(u, share * v)
    assert b == pytest.approx(share * c)


def test_one_step_weights_are_the_errors_of_model_six():
    problem = replace(_problem(), row_weights=np.ones(N_ROWS))
    u, b = problem.solve()
    short = problem.signs * (problem.gram.dot(u) + b) < 1.0
    np.testing.assert_array_equal(weigh_rows_once(problem).row_weights, short)


# -- The smooth SVM --------------------------------------------------------------------------------


def _smooth_problem(kernel=KERNELS[0], seed=0):
    problem = _problem(kernel, seed)
    K = naive.gram(naive.twin(kernel), problem.gram.x.X, problem.gram.z.X)
    features = np.column_stack([np.array(K), np.ones(N_ROWS)])
    return SmoothMargin(features, problem.signs, problem.error_weights)


def _naive_smooth(problem, point):
    """Lee and Mangasarian's formula, r + log(1 + exp(-alpha r)) / alpha, row by row."""
    value = 0.5 * sum(z * z for z in point)
    for row, sign, cost in zip(problem.features, problem.signs, problem.error_weights, strict=True):
        r = 1.0 - sign * sum(a * z for a, z in zip(row, point, strict=True))
        p = r + math.log1p(math.exp(-5.0 * r)) / 5.0
        value += 0.5 * cost * p * p
    return value


@all_kernels
@quickly
@given(seed=seeds)
def test_smooth_objective_and_its_derivatives(kernel, seed):
    problem = _smooth_problem(kernel, seed)
    point = np.random.default_rng(seed).normal(scale=0.3, size=N_CANDIDATES + 1)
    assert problem.value(point) == pytest.approx(_naive_smooth(problem, point), rel=1e-9)
    gradient, hessian = problem.derivatives(point)
    slope = naive.derivative(problem.value, point)
    np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-4)
    for direction in np.eye(len(point)):
        nearby = [problem.derivatives(point + h * direction)[0] for h in (1e-5, -1e-5)]
        np.testing.assert_allclose(
            hessian @ direction, (nearby[0] - nearby[1]) / 2e-5, rtol=1e-3, atol=1e-3
        )


@all_kernels
@quickly
@given(seed=seeds)
def test_smooth_svm_is_the_minimum_a_search_finds(kernel, seed):
    problem = _smooth_problem(kernel, seed)
    point, gap = problem.solve(tol=1e-12)
    gradient = problem.derivatives(point)[0]
    value = problem.value(point)
    assert gap == pytest.approx(0.5 * gradient @ gradient / value, rel=1e-9)
    assert gap <= 1e-12
    found = minimize(problem.value, np.zeros(len(point)), method="BFGS", tol=1e-8)
    assert value <= found.fun * (1 + 1e-9)
    assert value * (1 - gap - 1e-9) <= found.fun  # what the certificate says
    # The Hessian is at least I: an excess of the objective bounds the distance.
    away = math.sqrt(2 * max(0.0, found.fun - value) + 1e-9)
    assert np.linalg.norm(point - found.x) <= away


def test_smooth_gap_is_that_of_the_point_where_the_steps_end(monkeypatch):
    monkeypatch.setattr(chunking_problem, "_MAX_STEPS", 2)
    problem = _smooth_problem()
    point, gap = problem.solve(tol=0.0)
    gradient = problem.derivatives(point)[0]
    assert gap == min(1.0, 0.5 * gradient @ gradient / problem.value(point)) > 0


@pytest.mark.parametrize("case", [(PLAN, moons), (THREE, three_blobs)], indirect=True)
def test_passes_over_many_rows_give_the_same_machine(case, monkeypatch):
    plan, rows, _, run = case
    by_generation = train(plan, rows, run.points, (3.0, 10.0), np.random.RandomState(0))
    monkeypatch.setattr(stage, "is_tall", lambda *_: True)
    by_streaming = train(plan, rows, run.points, (3.0, 10.0), np.random.RandomState(0))
    for one, two in zip(by_generation, by_streaming, strict=True):
        assert two.gap <= 1e-6
        values = [each.expansion.decision_values(rows.X) for each in (one, two)]
        np.testing.assert_allclose(*values, atol=1e-4)

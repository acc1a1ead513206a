"""The streaming solver against generation, a plain LP call and its certificate."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernlet import (
    L1KernelClassifier,
    MinimalKernelClassifier,
)
from kernlet.kernels.rbf import RBF
from kernlet.lp.generation import ColumnGeneration
from kernlet.lp.problem import L1Margin
from kernlet.lp.streaming import StreamingL1Solver
from kernlet.rows import dask as dask_rows
from kernlet.rows import open_rows, source
from kernlet.rows.npy import open_npy
from support.callbacks import needs_callbacks
from support.many_rows import KillOne, assert_same, make_data, make_machine
from support.margin_problems import KERNELS, full_kernel, make_problem, plain, together


def solve(*problems, **options):
    return StreamingL1Solver(together(*problems), seed=0).solve(**options)


def check_certificate(problem, solution):
    """Objective and bound again, from the answer and the whole kernel matrix."""
    K, (m, s), problem = full_kernel(problem), problem.shape, problem.outputs(0)
    beta, t = np.zeros(s), np.zeros(m)
    beta[solution.centers], t[solution.rows] = solution.coef, solution.duals
    slacks = problem.slacks(K @ beta + solution.intercept)
    assert solution.objective == pytest.approx(problem.objective(slacks, np.abs(beta)), rel=1e-10)
    np.testing.assert_allclose(solution.slacks, slacks, atol=1e-8 * (1 + np.abs(K).max()))
    assert np.all(t >= 0)
    assert np.all(t <= problem.error_weights)
    assert abs(problem.signs @ t) <= 1e-10 * max(1e-300, t.sum())
    bound = problem.bound(problem.balanced(t), K.T @ (problem.signs * t))
    assert solution.bound == pytest.approx(bound, rel=1e-9)
    assert -1e-12 <= solution.gap <= 1e-9


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_one_plain_call(kernel, weighted):
    problem = make_problem(kernel=kernel, n_candidates=15, weighted=weighted)
    (solution,) = solve(problem)
    values = plain(problem)
    assert solution.objective == pytest.approx(naive.l1_margin_primal(*values)[0], rel=1e-8)
    check_certificate(problem, solution)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("C", [1e-3, 0.1, 2.0, 50.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_generation_where_most_rows_are_far(kernel, C, weighted):
    problem = make_problem(2, 9000, kernel, C, 30, weighted=weighted)
    (solution,) = solve(problem)
    (other,) = ColumnGeneration(problem, np.random.RandomState(0)).solve()
    assert solution.objective == pytest.approx(other.objective, rel=1e-9)
    check_certificate(problem, solution)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    m=st.integers(2, 200),
    s=st.integers(1, 30),
    kernel=st.sampled_from(KERNELS),
    log_C=st.floats(-3, 2),
)
def test_every_answer_carries_a_tight_certificate(seed, m, s, kernel, log_C):
    problem = make_problem(seed, m, kernel, 10.0**log_C, min(s, m))
    (solution,) = solve(problem)
    assert -1e-12 <= solution.gap <= 1e-9


def test_outputs_in_lock_step_are_those_one_by_one():
    problems = [make_problem(3, 5000, RBF(0.7), C, 25, weighted=True) for C in (0.05, 1.0)]
    problems.append(make_problem(3, 5000, RBF(0.7), 0.3, 25))
    together = solve(*problems)
    for problem, solution in zip(problems, together, strict=True):
        check_certificate(problem, solution)
        (alone,) = solve(problem)
        assert solution.objective == pytest.approx(alone.objective, rel=1e-10)
        np.testing.assert_array_equal(solution.centers, alone.centers)


def test_answer_does_not_depend_on_the_blocks_or_the_store(monkeypatch):
    problem = make_problem(4, 6000, RBF(0.7), 0.5, 25)
    (one,) = solve(problem)
    monkeypatch.setattr(source, "_MOST_ROWS", 1024)
    (two,) = StreamingL1Solver(together(problem), seed=5, max_bytes=0).solve()
    assert one.objective == pytest.approx(two.objective, rel=1e-12)
    np.testing.assert_array_equal(one.centers, two.centers)
    np.testing.assert_allclose(one.coef, two.coef, rtol=1e-6)


def test_kept_blocks_change_no_bit():
    problem = make_problem(4, 6000, RBF(0.7), 0.5, 25)
    one, two = (StreamingL1Solver(together(problem), 0, max_bytes=n).solve()[0] for n in (0, 2**30))
    np.testing.assert_array_equal(one.coef, two.coef)
    assert (one.objective, one.bound) == (two.objective, two.bound)


@pytest.mark.parametrize("passes", [0.0, 3.0, 6.0])
def test_stops_on_a_wish_with_an_honest_gap(passes):
    problem = make_problem(5, 9000, RBF(0.7), 1.0, 25)
    (solution,) = solve(problem, report=lambda progress: progress.passes > passes)
    (best,) = ColumnGeneration(problem, np.random.RandomState(0)).solve()
    assert solution.status == "stopped"
    assert solution.bound <= best.objective * (1 + 1e-12)
    assert solution.objective >= best.objective * (1 - 1e-12)


def test_reports_passes_gap_and_speed():
    told = []
    lp = StreamingL1Solver(together(make_problem(5, 9000, RBF(0.7), 1.0, 25)), seed=0)
    lp.solve(report=lambda progress: told.append(progress) or False)
    passes = [progress.passes for progress in told]
    assert passes == sorted(passes)
    assert lp.passes == passes[-1] < 40
    assert all(progress.rows_per_second > 0 for progress in told)
    assert told[0].gap == np.inf
    assert told[-1].gap <= 1e-9


def test_simplex_iterations_can_be_limited():
    problem = make_problem(5, 9000, RBF(0.7), 1.0, 25)
    (solution,) = solve(problem, max_iter=3)
    assert solution.status == "iteration limit"
    assert solution.n_iter <= 3
    assert solution.gap >= -1e-12


def test_starts_from_a_machine_nearby():
    problem = make_problem(5, 9000, RBF(0.7), 1.0, 25)
    lp = StreamingL1Solver(together(problem), seed=0)
    (solution,) = lp.solve()
    start = np.zeros((26, 1))
    start[solution.centers, 0], start[-1] = solution.coef, solution.intercept
    (again,) = StreamingL1Solver(together(problem), seed=0).solve(start=start)
    assert again.objective == pytest.approx(solution.objective, rel=1e-12)


@pytest.mark.parametrize("scale", [0.0, 0.01, 100.0])
def test_a_poor_start_costs_passes_only(scale):
    problem = make_problem(5, 9000, RBF(0.7), 1.0, 25)
    (best,) = solve(problem)
    start = scale * np.random.RandomState(0).randn(26, 1)
    lp = StreamingL1Solver(together(problem), seed=0)
    (solution,) = lp.solve(start=start)
    assert solution.objective == pytest.approx(best.objective, rel=1e-9)
    assert lp.passes < 40
    check_certificate(problem, solution)


@pytest.mark.parametrize("share", [0.3, 0.49])
def test_half_of_the_rows_on_the_margin(share):
    """Labels that nothing explains: the machine is a constant, and one class lies on the margin."""
    random = np.random.RandomState(0)
    X = random.randn(30_000, 60)
    signs = np.where(random.rand(30_000) < share, 1, -1)[:, None]
    weights = np.full((30_000, 1), 0.001)
    problem = L1Margin(X, RBF(1 / 60), X[:60], signs, weights, np.ones((60, 1)))
    (solution,) = StreamingL1Solver(problem, seed=0).solve()
    assert solution.objective == pytest.approx(0.002 * np.sum(signs > 0), rel=1e-6)
    assert abs(solution.gap) < 1e-9


def test_rows_all_alike_and_one_center():
    X = np.zeros((5000, 2))
    signs = np.where(np.arange(5000) % 3 == 0, 1, -1)[:, None]
    weights, ones = np.full((5000, 1), 0.1), np.ones((1, 1))
    problem = L1Margin(X, RBF(1.0), X[:1], signs, weights, ones)
    (solution,) = StreamingL1Solver(problem, seed=0).solve()
    assert solution.objective == pytest.approx(2 * 0.1 * np.sum(signs > 0))
    assert abs(solution.gap) < 1e-9


# -- Machines of rows that are not in memory: files, Parquet, Dask and its workers --


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(source, "_MOST_ROWS", 1024)


@pytest.mark.parametrize("gamma", [0.5, "scale", "mean_distance"])
def test_rows_in_a_file_give_the_machine_of_rows_in_memory(tmp_path, small_blocks, gamma):
    X, y = make_data()
    np.save(tmp_path / "X.npy", X)
    rows = open_npy(tmp_path / "X.npy")
    memory = make_machine(gamma=gamma).fit(X, y)
    machine = make_machine(gamma=gamma).fit(rows, y)
    if gamma == 0.5:
        assert_same(machine, memory)
    np.testing.assert_allclose(machine.objective_, memory.objective_, rtol=1e-6)
    np.testing.assert_array_equal(machine.predict(rows), machine.predict(X))
    np.testing.assert_allclose(machine.decision_function(rows), machine.decision_function(X))


def test_labels_are_a_column_of_parquet_files_or_dataframes(tmp_path, small_blocks):
    X, y = make_data(n_classes=3)
    labels = np.array(["low", "middle", "high"])[y]
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=labels)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    memory = make_machine().fit(X, labels)
    rows = open_rows(tmp_path / "rows.parquet")
    collection = dd.from_pandas(frame, npartitions=3)
    for X_of_source in (rows, collection):
        machine = make_machine().fit(X_of_source, "label")
        assert_same(machine, memory)
        assert machine.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(
        machine.predict(collection.drop(columns="label")), memory.predict(X)
    )


@pytest.mark.slow
@pytest.mark.parametrize("Classifier", [L1KernelClassifier, MinimalKernelClassifier])
def test_dask_arrays_without_a_cluster(small_blocks, Classifier):
    X, y = make_data()
    memory = make_machine(Classifier).fit(X, y)
    rows = da.from_array(X, chunks=(900, 3))
    assert_same(make_machine(Classifier).fit(rows, da.from_array(y)), memory)
    np.testing.assert_array_equal(memory.predict(rows), memory.predict(X))


def test_predictions_choose_the_features_of_training(tmp_path):
    X, y = make_data(6000)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=y, more=0.0)
    frame.to_parquet(tmp_path / "rows.parquet")
    rows = open_rows(tmp_path / "rows.parquet")
    machine = make_machine().fit(open_rows(tmp_path / "rows.parquet", ["a", "b", "c"]), y)
    np.testing.assert_array_equal(machine.predict(rows), machine.predict(frame[["a", "b", "c"]]))


def kept_names():
    return len(dask_rows._worker_caches)


def test_workers_keep_blocks_within_their_share(small_blocks, monkeypatch):
    X, y = make_data()
    offered = []
    worker_cache = dask_rows.worker_cache

    def noted(name, max_bytes):
        cache = worker_cache(name, max_bytes)
        offered.append((max_bytes, len(cache._blocks)))
        return cache

    monkeypatch.setattr(dask_rows, "worker_cache", noted)
    rows = da.from_array(X, chunks=(1024, 3))
    for cache_size, n_kept in ((100, 8), (0.3, 2)):  # 1024 x 30 float32 take 0.12 MB
        machine = make_machine(cache_size=cache_size).fit(rows, y)
        assert_same(machine, make_machine().fit(X, y))
        assert offered[-1] == (int(cache_size * 2**20), n_kept)
        assert kept_names() == 0


@pytest.mark.slow
@needs_callbacks
def test_a_cluster_gives_the_serial_answer_and_may_lose_a_worker(small_blocks):
    X, y = make_data()
    memory = make_machine().fit(X, y)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        rows = da.from_array(X, chunks=(1024, 3)).persist()
        assert_same(make_machine().fit(rows, y), memory)
        assert_same(make_machine(cache_size=0.1).fit(rows, y), memory)  # a few blocks are kept
        assert set(client.run(kept_names).values()) == {0}
        killer = KillOne(client)
        machine = make_machine().set_callbacks(killer).fit(rows, y)
        assert killer.passes > 6
        assert_same(machine, memory)

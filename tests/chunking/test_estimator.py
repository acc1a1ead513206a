"""The chunking-synthetic machine as an estimator."""

import pickle
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernlet import ChunkingSyntheticClassifier
from kernlet.chunking import estimator as chunking_synthetic
from kernlet.datasets import load, make_checkerboard
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid
from support.callbacks import ProgressBar, ScoringMonitor, needs_callbacks

SAMPLES = "rows are drawn at random: a weight of 2 is drawn once, a repeated row up to twice"


@pytest.mark.slow
@parametrize_with_checks(
    [
        ChunkingSyntheticClassifier(n_runs=2, random_state=0),
        ChunkingSyntheticClassifier(n_points=4, n_runs=2, two_sets=True, random_state=0),
        ChunkingSyntheticClassifier(n_runs=2, solver="quadratic", random_state=0),
        ChunkingSyntheticClassifier(n_runs=2, solver="smooth", random_state=0),
        ChunkingSyntheticClassifier(n_runs=2, kernel="poly", random_state=0),
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": SAMPLES,
        "check_sample_weight_equivalence_on_sparse_data": SAMPLES,
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def classifier(**parameters):
    options = {"n_points": 4, "n_runs": 2, "stage_sizes": (40, 80), "random_state": 0}
    return ChunkingSyntheticClassifier(**{**options, **parameters})


@pytest.fixture
def moons():
    return make_moons(160, noise=0.2, random_state=0)


@pytest.fixture
def blobs():
    return make_blobs(160, centers=3, cluster_std=1.5, random_state=0)


def assert_same(one, other):
    for name in ("centers", "coef", "intercept"):
        np.testing.assert_array_equal(
            getattr(one.expansion_, name), getattr(other.expansion_, name)
        )
    for stage, same_stage in zip(one.stages_, other.stages_, strict=True):
        for record, same in zip(stage, same_stage, strict=True):
            assert record.scores == same.scores
            assert record.residual == same.residual


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_same_answer_on_every_backend(blobs, backend):
    one = classifier().fit(*blobs)
    assert_same(one, classifier(n_jobs=2).fit(*blobs))
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert_same(one, classifier().fit(*blobs))


@pytest.mark.slow
def test_same_answer_from_rows_that_processes_share():
    """Arrays of more than a megabyte reach the processes as maps of a file."""
    X, y = make_classification(2000, 70, n_informative=5, random_state=0)
    assert X.nbytes > 2**20
    options = {"n_points": 2, "stage_sizes": (60,), "C": 1.0, "gamma": 0.002}
    with joblib.parallel_config(backend="threading"):
        one = classifier(**options, n_jobs=2).fit(X, y)
    assert_same(one, classifier(**options, n_jobs=2).fit(X, y))


@pytest.mark.slow
def test_same_answer_on_a_dask_cluster(blobs):
    distributed = pytest.importorskip("dask.distributed")
    cluster = distributed.LocalCluster(
        processes=True, n_workers=2, threads_per_worker=1, dashboard_address=None
    )
    with cluster, distributed.Client(cluster), joblib.parallel_config(backend="dask"):
        before = cluster.scheduler.transition_counter
        machine = classifier().fit(*blobs)
        assert cluster.scheduler.transition_counter > before
    assert_same(machine, classifier().fit(*blobs))


def test_the_seed_decides(moons):
    one = classifier().fit(*moons)
    assert_same(one, clone(one).fit(*moons))
    other = classifier(random_state=1).fit(*moons)
    assert not np.array_equal(one.expansion_.centers, other.expansion_.centers)


def test_the_global_generator_is_left_alone(moons):
    one = classifier().fit(*moons)
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert_same(one, classifier().fit(*moons))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ([], "must be integers"),
        ([80, 40], "in ascending order"),
        ([40.5], "must be integers"),
        ([1], "between the number of classes, 2, and the 136 rows that are left"),
        ([40, 137], "137.*must be integers"),
        ([0], "must be integers"),
    ],
)
def test_stage_sizes_out_of_range(moons, sizes, sentence):
    with pytest.raises(ValueError, match=sentence):
        classifier(stage_sizes=sizes).fit(*moons)


@pytest.mark.parametrize("C", [[], [1.0, 0.0], (-1.0,), np.array([2.0, -3.0]), [np.nan], [np.inf]])
def test_several_c_must_be_positive(moons, C):
    with pytest.raises(ValueError, match="must be positive, or several positive numbers"):
        classifier(C=C).fit(*moons)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_points": 0},
        {"n_points": 2.5},
        {"n_runs": 0},
        {"stage_sizes": "many"},
        {"stage_sizes": 40},
        {"final": "both"},
        {"C": 0},
        {"C": -1.0},
        {"C": "1"},
        {"C": np.inf},
        {"kernel": "gauss"},
        {"gamma": 0.0},
        {"degree": 0},
        {"two_sets": 2},
        {"box": 0.0},
        {"box": "first"},
        {"solver": "qp"},
        {"class_weight": "equal"},
        {"validation_fraction": 0.0},
        {"validation_fraction": 1.0},
        {"checkpoint": 3},
        {"random_state": "x"},
    ],
    ids=str,
)
def test_bad_parameters(moons, parameters):
    (name,) = parameters
    with pytest.raises(InvalidParameterError, match=f"The '{name}' parameter"):
        classifier(**parameters).fit(*moons)


@pytest.mark.parametrize("kernel", ["sigmoid", Sigmoid(0.3, 0.1)], ids=str)
def test_the_sigmoid_kernel_has_no_feature_space(moons, kernel):
    with pytest.raises(
        ValueError, match=r"method needs a positive semi-definite kernel.*Use another kernel"
    ):
        classifier(kernel=kernel).fit(*moons)


def test_predicting_before_fitting(moons):
    with pytest.raises(NotFittedError):
        classifier().predict(moons[0])


@pytest.mark.parametrize("two_sets", [False, True])
def test_a_record_for_every_run(moons, two_sets):
    machine = classifier(n_runs=3, two_sets=two_sets, C=(0.1, 5.0)).fit(*moons)
    sizes = [[record.n_rows for record in stage] for stage in machine.stages_]
    assert sizes == [[40] * 3, [80] * 3, [160]]
    assert machine.n_iter_ == 3
    first, second, (last,) = machine.stages_
    assert all(record.n_candidates == 40 for record in first)
    n_points = 8 if two_sets else 4
    for record in (*second, last):
        assert 4 < record.n_candidates <= 3 * n_points
    for record in (*first, *second, last):
        assert record.n_centers_d <= n_points
        assert record.C in (0.1, 5.0)
    scores = np.mean([record.scores for record in second], axis=0)
    assert (0.1, 5.0)[int(np.argmax(scores))] == last.C
    assert (last.scores, last.validation_b) == ((), None)
    assert all(record.gap <= 1e-5 for stage in machine.stages_ for record in stage)


@pytest.mark.parametrize(
    ("parameters", "most"),
    [
        ({}, 4),
        ({"n_points": 1}, 1),
        ({"two_sets": True}, 8),
        ({"kernel": "linear"}, 2),
        ({"kernel": "poly", "coef0": 1.0}, 4),
        ({"kernel": RBF(2.0), "box": 1.25}, 4),
        ({"final": "union"}, 8),
        ({"kernel": RBF(2.0), "box": "all"}, 4),
        ({"solver": "quadratic", "C": 0.001}, 4),
        ({"solver": "unconstrained", "C": 0.001}, 4),
        ({"solver": "one-step", "C": 0.001}, 4),
        ({"solver": "smooth"}, 4),
        ({"class_weight": "balanced"}, 4),
    ],
    ids=str,
)
def test_how_many_centers(moons, parameters, most):
    X, y = moons
    machine = classifier(**parameters).fit(X, y)
    assert 1 <= machine.n_centers_ == len(np.unique(machine.expansion_.centers, axis=0)) <= most
    assert machine.score(X, y) > 0.7


@pytest.mark.parametrize("data", ["moons", "blobs"])
def test_the_last_stage_ends_with_step_d_or_step_b(request, data):
    X, y = request.getfixturevalue(data)
    few, many = classifier().fit(X, y), classifier(final="union").fit(X, y)
    (last,) = few.stages_[-1]
    assert (few.n_centers_, many.n_centers_) == (last.n_centers_d, last.n_centers_b)
    assert (few.score(X, y), many.score(X, y)) == (last.train_d, last.train_b)
    assert many.stages_[-1][0].scores == last.scores
    assert few.n_centers_ <= 4
    assert few.expansion_.n_outputs == (1 if data == "moons" else 3)


@pytest.fixture
def runs(monkeypatch):
    """The arguments of each run, and what came of it."""
    calls = []

    def recorded(*arguments):
        calls.append(SimpleNamespace(**dict(zip(names, arguments, strict=True))))
        calls[-1].run = run_stage(*arguments)
        return calls[-1].run

    run_stage = chunking_synthetic.run_stage
    names = ("plan", "rows", "validation", "candidates", "start", "seed")
    monkeypatch.setattr(chunking_synthetic, "run_stage", recorded)
    return calls


def as_set(X):
    return {tuple(row) for row in X}


def test_choices_are_made_on_rows_held_out(moons, runs):
    X, y = moons
    classifier(n_runs=3).fit(X, y)
    *early, last = runs
    held_out = as_set(early[0].validation.X)
    assert len(held_out) == 24
    assert len(last.validation.y) == 0
    for call in early:
        assert as_set(call.validation.X) == held_out
        assert not held_out & as_set(call.rows.X)
        assert call.rows.y.mean() == 0.5
    assert len({frozenset(as_set(call.rows.X)) for call in early}) == 6
    assert len({call.seed for call in runs}) == 7
    np.testing.assert_array_equal(last.rows.X, X)


@pytest.mark.parametrize("two_sets", [False, True])
def test_candidates_are_the_points_of_the_stage_before(moons, runs, two_sets):
    classifier(stage_sizes=(40, 60, 80), two_sets=two_sets).fit(*moons)
    stages = [runs[:2], runs[2:4], runs[4:6], runs[6:]]
    assert all(call.candidates is None and call.start is None for call in stages[0])
    for before, after in pairwise(stages):
        points = [as_set(call.run.points) for call in before]
        best = max(before, key=lambda call: call.run.record.validation_c)
        for call in after:
            assert as_set(call.candidates) == set.union(*points)
            assert len(call.candidates) == len(set.union(*points))
            np.testing.assert_array_equal(call.start, best.run.c.centers)


def test_the_box_of_the_paper_is_in_all_stages(moons, runs):
    by_name = classifier(box="all").fit(*moons)
    assert {call.plan.box for call in runs} == {1.25}
    assert_same(by_name, classifier(box=1.25).fit(*moons))


def test_every_class_is_in_every_sample(runs):
    X = np.random.RandomState(0).randn(103, 2)
    y = np.r_[np.zeros(60), np.ones(40), [2, 3, 3]]
    classifier(stage_sizes=(10,)).fit(X, y)
    for call in runs:
        assert set(call.rows.y) == {0, 1, 2, 3}


@pytest.mark.parametrize("make", [lambda y: y == 1, lambda y: np.array(["no", "yes"])[y]])
@pytest.mark.parametrize("container", [np.array, list])
def test_labels_come_back_as_they_went_in(moons, make, container):
    X, y = moons
    labels = container(make(y))
    machine = classifier().fit(X, labels)
    assert machine.classes_.tolist() == np.unique(labels).tolist()
    np.testing.assert_array_equal(machine.predict(X), make(classifier().fit(X, y).predict(X)))


def test_a_class_of_one_row(blobs):
    X, y = blobs
    X, y = np.vstack([X, [[20.0, 20.0]]]), np.append(y, 7)
    machine = classifier(n_points=6, gamma=0.1, C=10.0).fit(X, y)
    assert machine.classes_.tolist() == [0, 1, 2, 7]
    assert machine.decision_function(X).shape == (161, 4)
    assert machine.score(X, y) > 0.7


@pytest.mark.parametrize("parameters", [{}, {"two_sets": True}, {"kernel": "linear"}], ids=str)
@pytest.mark.parametrize("m", range(2, 11))
def test_hardly_any_rows(m, parameters):
    X = np.random.RandomState(m).randn(m, 2)
    machine = classifier(stage_sizes="auto", **parameters).fit(X, np.arange(m) % 2)
    assert machine.predict(X).shape == (m,)
    assert [len(stage) for stage in machine.stages_] == [2, 1]


def test_nothing_to_tell_the_classes_by():
    X, y = np.ones((30, 2)), np.array([0] * 20 + [1] * 10)
    machine = classifier(stage_sizes="auto").fit(X, y)
    assert machine.predict(X).tolist() == [0] * 30


@pytest.mark.parametrize("m", [400, 1000])
def test_sizes_by_themselves(m):
    X, y = make_moons(m, noise=0.2, random_state=0)
    machine = classifier(stage_sizes="auto", n_runs=1).fit(X, y)
    assert [stage[0].n_rows for stage in machine.stages_] == ([170, 400] if m == 400 else [500, m])


def test_rows_of_weight_zero_are_not_there(moons):
    X, y = moons
    weight = np.r_[np.zeros(20), np.ones(140)]
    assert_same(classifier().fit(X, y, weight), classifier().fit(X[20:], y[20:]))


def test_class_weight_is_a_sample_weight(moons):
    X, y = moons
    by_class = classifier(gamma=1.0, class_weight={0: 3.0, 1: 0.5}).fit(X, y)
    assert_same(by_class, classifier(gamma=1.0).fit(X, y, np.array([3.0, 0.5])[y]))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(moons, frame):
    X, y = moons
    table = frame({"a": X[:, 0], "b": X[:, 1]})
    machine = classifier().fit(table, y)
    assert machine.feature_names_in_.tolist() == ["a", "b"]
    assert_same(machine, classifier().fit(X, y))
    with pytest.raises(ValueError, match="feature names"):
        machine.predict(table[["b", "a"]])


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
def test_sparse_rows(blobs, container):
    X, y = blobs
    machine = classifier().fit(container(X), y)
    np.testing.assert_allclose(
        machine.decision_function(container(X)), machine.decision_function(X)
    )
    assert machine.score(X, y) == pytest.approx(classifier().fit(X, y).score(X, y), abs=0.02)


def test_pickles_searches_and_pipes(moons):
    X, y = moons
    piped = make_pipeline(StandardScaler(), classifier()).fit(X, y)
    again = pickle.loads(pickle.dumps(piped))
    np.testing.assert_array_equal(again.decision_function(X), piped.decision_function(X))
    search = GridSearchCV(classifier(stage_sizes="auto"), {"n_points": [2, 5]}, cv=2).fit(X, y)
    assert search.best_params_ == {"n_points": 5}


class Listener:
    """A callback that writes down the tasks that end."""

    def __init__(self):
        self.ended = []

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.ended.append((context.task_name, context.task_id))

    def teardown(self, estimator, context):
        pass


@needs_callbacks
def test_callbacks_hear_of_every_stage_and_run(moons):
    listener = Listener()
    classifier().set_callbacks(listener).fit(*moons)
    stages = [[("run", 0), ("run", 1), ("stage", number)] for number in range(2)]
    assert listener.ended == [*stages[0], *stages[1], ("run", 0), ("stage", 2), ("fit", 0)]


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [None, 2])
@needs_callbacks
def test_progress_bar_and_scoring_monitor(moons, n_jobs):
    monitor = ScoringMonitor(scoring="accuracy")
    machine = classifier(n_jobs=n_jobs).set_callbacks(ProgressBar(), monitor).fit(*moons)
    assert_same(machine, classifier().fit(*moons))
    assert monitor.get_logs()


def test_few_points_for_the_checkerboard():
    board = make_checkerboard(random_state=0)
    machine = classifier(n_points=24, stage_sizes=(400, 700), C=100.0, gamma=4.0)
    machine.fit(board.X, board.y)
    assert machine.n_centers_ <= 24
    assert machine.score(board.X_test, board.y_test) > 0.9


def test_usps_eight_against_the_rest_with_ten_points(data_folder):
    digits = load("usps")
    X, X_test = 2.0 * digits.X - 1.0, 2.0 * digits.X_test - 1.0
    machine = ChunkingSyntheticClassifier(
        10, n_runs=3, stage_sizes=(500, 1000), C=12.0, gamma=1 / 128, random_state=0
    ).fit(X, digits.y == 8)
    assert machine.n_centers_ <= 10
    assert machine.score(X_test, digits.y_test == 8) > 0.965


@pytest.mark.parametrize("seed", range(3))
def test_default_numbers_on_noisy_moons(seed):
    """A run whose machine has fewer centers than points are wanted must not stop the others."""
    X, y = make_moons(1500, noise=0.3, random_state=0)
    machine = ChunkingSyntheticClassifier(n_runs=3, random_state=seed).fit(X, y)
    assert machine.score(X, y) > 0.88


def test_the_quadratic_solver_beats_the_majority():
    X, y = make_classification(800, weights=[0.9], random_state=0)
    machine = ChunkingSyntheticClassifier(n_runs=2, solver="quadratic", random_state=0)
    machine.fit(X[:500], y[:500])
    assert machine.score(X[500:], y[500:]) > 1 - y[500:].mean() + 0.03


@pytest.mark.parametrize("final", ["synthetic", "union"])
@pytest.mark.parametrize("noise", [0.0, 0.2], ids=["nothing left", "turned round"])
def test_one_step_weights_that_spoil_the_machine_are_warned_of(noise, final):
    X, y = make_moons(120, noise=noise, random_state=0)
    machine = classifier(solver="one-step", C=100.0, final=final, gamma=4.0)
    with pytest.warns(UserWarning, match=r"'one-step' is right for \d+% .*no more than a constant"):
        machine.fit(X, y)
    assert machine.score(X, y) <= 0.5


@pytest.mark.parametrize("solver", ["unconstrained", "one-step"])
def test_a_closed_form_that_predicts_the_larger_class_is_warned_of(solver, recwarn):
    X, y = make_classification(300, weights=[0.9], random_state=0)
    with pytest.warns(UserWarning, match=r"\d+% .*no more than a constant one"):
        machine = classifier(solver=solver).fit(X, y)
    assert machine.score(X, y) <= 1 - y.mean()
    classifier(solver="lp", C=1e-6).fit(X, y)  # a constant is the optimum, and has a certificate
    assert not [warning for warning in recwarn if "constant" in str(warning.message)]


def test_smooth_svm_of_kernel_values_that_leave_no_digits():
    X, y = make_moons(120, noise=0.2, random_state=0)
    machine = classifier(solver="smooth", kernel="linear", C=5.0)
    with pytest.warns(ConvergenceWarning, match="Scale the features"):
        large = clone(machine).fit(1e8 * X, y)
    assert large.score(1e8 * X, y) >= machine.fit(X, y).score(X, y) - 0.05
    assert all(record.gap <= 1.0 for stage in large.stages_ for record in stage)


@pytest.mark.parametrize("solver", ["lp", "quadratic", "one-step", "unconstrained", "smooth"])
@pytest.mark.parametrize("kernel", [{"gamma": 1.0}, {"kernel": "linear"}], ids=str)
def test_features_whose_squares_overflow_get_a_sentence(solver, kernel, recwarn):
    X, y = make_moons(60, noise=0.2, random_state=0)
    machine = ChunkingSyntheticClassifier(3, n_runs=1, solver=solver, random_state=0, **kernel)
    with pytest.raises(ValueError, match=r"Scale the features|scaled features"):
        machine.fit(1e300 * X, y)
    assert not recwarn.list


def test_a_gap_of_any_stage_is_warned_of(monkeypatch):
    X, y = make_moons(60, noise=0.2, random_state=0)
    run_stage = chunking_synthetic.run_stage

    def unsolved(plan, sample, *rest):
        run = run_stage(plan, sample, *rest)
        return replace(run, record=replace(run.record, gap=0.25)) if len(sample.y) < 60 else run

    monkeypatch.setattr(chunking_synthetic, "run_stage", unsolved)
    with pytest.warns(ConvergenceWarning, match=r"of 2 of 3 runs .*gap of up to 2.5e-01"):
        ChunkingSyntheticClassifier(3, n_runs=2, random_state=0).fit(X, y)

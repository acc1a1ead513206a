"""What every fit shares: progress, convergence warnings and the thread limit."""

import io
import pickle
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info

import kernlet
from kernlet import sklearn_base
from kernlet.kernels.linear import Linear
from kernlet.sklearn_base import (
    CallbackSupportMixin,
    Progress,
    fit_method,
    fit_task,
    is_unconverged,
    warn_unconverged,
)
from kernlet.threads import single_thread
from support.callbacks import needs_callbacks


class Toy(CallbackSupportMixin, BaseEstimator):
    """Two outputs of three rounds each."""

    _parameter_constraints: ClassVar = {"verbose": ["verbose"]}

    def __init__(self, verbose=0):
        self.verbose = verbose

    @fit_method
    def fit(self, X=None, y=None):
        self.threads_ = [pool["num_threads"] for pool in threadpool_info()]
        self.stops_ = []
        with Progress.start(self, n_tasks=2) as progress:
            for _ in range(2):
                with progress.task("output", n_tasks=3) as output:
                    self.stops_ += [output.step("round", {}) for _ in range(3)]
        return self


class Recorder:
    """A callback that asks to stop after some tasks."""

    def __init__(self, stop_after=10**6):
        self.stop_after, self.events = stop_after, []

    def setup(self, estimator, context):
        self.events.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context):
        self.events.append(f"end {context.task_name}")
        return len(self.events) > self.stop_after

    def teardown(self, estimator, context):
        self.events.append("teardown")


@dataclass
class Certificate:
    gap: float
    status: str = "optimal"


OUTPUT = ["begin output", *["begin round", "end round"] * 3, "end output"]


@needs_callbacks
def test_callbacks_see_every_task_once_and_in_order():
    recorder = Recorder()
    Toy().set_callbacks(recorder).fit()
    assert recorder.events == ["setup", "begin fit", *OUTPUT, *OUTPUT, "end fit", "teardown"]


@needs_callbacks
def test_a_step_returns_whether_a_callback_asks_to_stop():
    assert Toy().set_callbacks(Recorder(stop_after=9)).fit().stops_ == [False] * 3 + [True] * 3


@needs_callbacks
def test_an_error_ends_no_task():
    recorder, toy = Recorder(), Toy()
    toy.set_callbacks(recorder)
    with pytest.raises(ZeroDivisionError), Progress.start(toy):
        1 / 0  # noqa: B018
    assert recorder.events == ["setup", "begin fit"]


@pytest.mark.parametrize(("verbose", "n_lines"), [(0, 0), (1, 2), (2, 8)])
def test_verbose_prints_tasks_down_to_its_level(verbose, n_lines, capsys):
    Toy(verbose).fit()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == n_lines
    assert all(line.startswith("[Toy] ") for line in lines)


def test_verbose_works_without_callbacks_of_scikit_learn(capsys):
    class Plain(BaseEstimator):
        verbose = 1

    with Progress.start(Plain()) as progress, progress.task("output", 3) as output:
        assert output.step("round") is False
    assert capsys.readouterr().out.startswith("[Plain] output 3: ")


def test_verbose_estimates_the_time_left_from_the_second_task_on(capsys):
    with Progress.start(Toy(1), n_tasks=4) as progress:
        for _ in range(4):
            progress.step("output")
    endings = [" s", " s left)", " s left)", " s"]
    lines = capsys.readouterr().out.splitlines()
    assert all(line.endswith(end) for line, end in zip(lines, endings, strict=True))
    assert "(2 of 4, about" in lines[1]


def test_tasks_below_an_unknown_number_have_no_time_left(capsys):
    with Progress.start(Toy(1)) as progress:
        for _ in range(3):
            progress.step("round")
    assert "left" not in capsys.readouterr().out


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


def test_a_terminal_has_a_bar_for_each_task_with_others_below_it(monkeypatch):
    pytest.importorskip("rich", reason="bars are drawn with rich")
    monkeypatch.setattr(sys, "stdout", Terminal())
    seen = []

    class Watched(Toy):
        def fit(self):
            with Progress.start(self, n_tasks=2) as progress:
                for _ in range(2):
                    with progress.task("output", n_tasks=3) as output:
                        output.step("round")
                        seen.append([(bar.total, bar.completed) for bar in progress.bars.tasks])
            self.bars_left_ = progress.bars.tasks
            return self

    assert Watched(2).fit().bars_left_ == []
    assert seen == [[(2, 0), (3, 1)], [(2, 1), (3, 1)]]
    seen.clear()
    Watched(1).fit()
    assert seen == [[(2, 0)], [(2, 1)]]
    assert "[Watched] output: 0.0 s" in sys.stdout.getvalue()


def test_an_error_takes_the_bars_away(monkeypatch):
    pytest.importorskip("rich", reason="bars are drawn with rich")
    monkeypatch.setattr(sys, "stdout", Terminal())
    with pytest.raises(ZeroDivisionError), Progress.start(Toy(1)) as progress:
        1 / 0  # noqa: B018
    assert progress.bars.finished
    assert not progress.bars.live.is_started


def test_a_fit_inside_another_display_prints_lines(monkeypatch):
    errors = pytest.importorskip("rich.errors", reason="bars are drawn with rich")

    def refuse(bars):  # as rich does before 14.1
        raise errors.LiveError("Only one live display may be active at once")

    monkeypatch.setattr("rich.progress.Progress.start", refuse)
    monkeypatch.setattr(sys, "stdout", Terminal())
    with Progress.start(Toy(1), n_tasks=1) as progress:
        progress.step("output")
    assert sys.stdout.getvalue() == "[Toy] output: 0.0 s\n"


def test_a_task_sent_to_a_worker_prints_its_lines(capsys):
    parent = Progress.start(Toy(2)).task("search", sequential=False)
    task = pickle.loads(pickle.dumps(parent.task("trial", 3, n_tasks=0)))
    with task:
        pass
    assert capsys.readouterr().out.startswith("[Toy] trial 3: ")
    assert parent.n_done == 0


def test_a_fit_runs_on_one_thread_and_leaves_the_limits_as_they_were():
    before = [pool["num_threads"] for pool in threadpool_info()]
    assert set(Toy().fit().threads_) <= {1}
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_single_thread_decorates_functions_too():
    @single_thread()
    def threads():
        return {pool["num_threads"] for pool in threadpool_info()}

    assert threads() <= {1}
    assert threads() <= {1}  # more than once


@pytest.mark.parametrize(
    ("gap", "status", "tol", "answer"),
    [
        (1e-9, "optimal", 1e-12, False),  # round-off
        (1e-7, "optimal", 1e-12, True),
        (1e-9, "iteration limit", 1e-12, True),
        (1e-3, "stopped", 1e-6, False),
        (np.nan, "optimal", 1e-6, True),
        (np.inf, "optimal", 1e-6, True),
    ],
)
def test_what_counts_as_unconverged(gap, status, tol, answer):
    assert is_unconverged(Certificate(gap, status), tol) is answer


def test_the_warning_names_the_worst_gap_its_reason_and_the_line_of_the_caller():
    solutions = [Certificate(0.0), Certificate(1e-3), Certificate(1e-2, "iteration limit")]
    reasons = {"optimal": "Scale.", "iteration limit": "Raise max_iter."}
    with pytest.warns(ConvergenceWarning, match=r"^2 of 3 programs .* 1.0e-02 .*Raise") as caught:
        warn_unconverged(solutions, 1e-6, "programs", reasons)
    assert caught[0].filename == __file__


def test_warnings_of_fits_point_at_the_line_that_called_fit():
    X = np.random.RandomState(0).randn(60, 2)
    machine = kernlet.HullPerceptronClassifier(C=1e3, max_iter=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine.fit(X, np.arange(60) % 2)
    assert {warning.filename for warning in caught} == {__file__}


def test_only_the_shared_base_knows_the_callbacks_of_scikit_learn():
    folder = Path(sklearn_base.__file__).parent
    users = {p.name for p in folder.rglob("*.py") if "sklearn.callback" in p.read_text()}
    assert users == {"sklearn_base.py"}


class Unbounded(CallbackSupportMixin, BaseEstimator):
    """Ends its fit with one number that is not finite."""

    _parameter_constraints: ClassVar = {}

    def __init__(self, name="gap_", value=np.nan):
        self.name, self.value = name, value

    @fit_method
    def fit(self, X=None, y=None):
        numbers = {"coef": np.ones((1, 2)), "intercept": np.zeros(1)}
        if self.name in numbers:
            numbers[self.name] = np.full_like(numbers[self.name], self.value)
        else:
            setattr(self, self.name, self.value)
        self.expansion_ = kernlet.KernelExpansion(Linear(), np.eye(2), **numbers)
        return self


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "name",
    [
        "coef",
        "intercept",
        "gap_",
        "duality_gap_",
        "ball_gap_",
        "error_bound_",
        "margin_",
        "objective_",
        "residual_",
    ],
)
def test_a_fit_that_is_not_finite_is_refused_and_changes_nothing(name, value):
    machine = Unbounded(name, value)
    with pytest.raises(ValueError, match=f"values of {name} that are not finite.*Scale the feat"):
        machine.fit()
    assert vars(machine) == {"name": name, "value": value}
    assert machine.set_params(value=1.0).fit() is machine


def test_a_certificate_of_an_array_is_checked_as_a_whole():
    with pytest.raises(ValueError, match="objective_"):
        Unbounded("objective_", np.array([1.0, np.nan])).fit()
    assert Unbounded("gap_", None).fit().gap_ is None


def test_a_gap_that_is_not_finite_is_refused_before_it_is_warned_of():
    with pytest.raises(ValueError, match="the duality gap that are not finite"):
        warn_unconverged([Certificate(0.0), Certificate(np.nan)], 1e-6, "programs", {})


def test_tasks_of_a_fit_do_not_warn_of_overflow(recwarn):
    @fit_task
    def overflow():
        return np.square(np.array([1e200])), {pool["num_threads"] for pool in threadpool_info()}

    (value,), threads = overflow()
    assert value == np.inf
    assert threads <= {1}
    assert not recwarn.list


ESTIMATORS = [
    kernlet.L1KernelClassifier(random_state=0),
    kernlet.L1KernelClassifier(solver="streaming", random_state=0),
    kernlet.MinimalKernelClassifier(random_state=0),
    kernlet.ChunkingSyntheticClassifier(3, n_runs=1, random_state=0),
    kernlet.ChunkingSyntheticClassifier(3, n_runs=1, solver="quadratic", random_state=0),
    kernlet.HullPerceptronClassifier(),
    kernlet.HullPerceptronClassifier(solver="sk", max_iter=100),
    kernlet.HullPerceptronClassifier(removal=kernlet.Removal(rounds=2)),
    kernlet.CoreVectorClassifier(random_state=0),
    kernlet.CoreVectorClassifier(eps=1e-3, sample_size=59, random_state=0),
    kernlet.MMDA(random_state=0),
    kernlet.MMDA(2, solver="core", random_state=0),
    kernlet.MMDA(2, solver="exact", random_state=0),
    kernlet.ProximalClassifier(random_state=0),
    kernlet.KernelFisherDiscriminant(random_state=0),
]


@pytest.mark.parametrize(
    "kernel",
    [
        {"kernel": "rbf"},
        {"kernel": "rbf", "gamma": 1.0},
        {"kernel": "linear"},
        {"kernel": "poly"},
        {"kernel": "poly", "degree": 20, "gamma": 1.0, "coef0": 1.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_huge_and_tiny_values_are_fitted_or_refused_in_a_sentence(estimator, kernel):
    """Nothing in between: no numpy warning, and nothing that is not finite."""
    X = np.random.RandomState(0).randn(40, 2)
    y = X[:, 0] + 0.3 * X[:, 1] > 0
    for scale in (1e300, 1e160, 1e154, 1e100, 1e8, 1e-100, 1e-155, 1e-300):
        machine = clone(estimator).set_params(**kernel)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                machine.fit(scale * X, y)
            except ValueError as error:
                assert re.search(r"[Ss]caled? (the features|them|features)|Raise alpha", str(error))  # noqa: PT017
                continue
        assert np.isfinite(machine.expansion_.coef).all()

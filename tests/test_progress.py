"""Progress of fits: callbacks of scikit-learn and what ``verbose`` prints."""

import io
import pickle
import sys
from pathlib import Path
from typing import ClassVar

import pytest
from sklearn.base import BaseEstimator

from kernlet import progress as progress_module
from kernlet.progress import CallbackSupportMixin, Progress
from kernlet.sklearn_base import fit_method
from support.callbacks import needs_callbacks


class Toy(CallbackSupportMixin, BaseEstimator):
    """Two outputs of three rounds each."""

    _parameter_constraints: ClassVar = {"verbose": ["verbose"]}

    def __init__(self, verbose=0):
        self.verbose = verbose

    @fit_method
    def fit(self, X=None, y=None):
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


@pytest.mark.parametrize(("verbose", "text"), [(0, ""), (1, "[Toy] search: shapes\n")])
def test_a_note_is_printed_where_its_task_is(verbose, text, capsys):
    fit = Progress.start(Toy(verbose=verbose), n_tasks=2)
    search = fit.task("search")
    search.note("shapes")
    search.task("trial").note("too deep")
    assert capsys.readouterr().out == text


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


def test_nothing_else_knows_the_callbacks_of_scikit_learn():
    folder = Path(progress_module.__file__).parent
    users = {p.name for p in folder.rglob("*.py") if "sklearn.callback" in p.read_text()}
    assert users == {"progress.py"}

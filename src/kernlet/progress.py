"""Progress of fits: scikit-learn's callbacks, and what ``verbose`` prints.

Nothing else in the package imports ``sklearn.callback``.
"""

from __future__ import annotations

import time
from typing import Any

from kernlet.console import task_bars

try:
    from sklearn.callback import CallbackSupportMixin, ProgressBar
except ImportError:  # scikit-learn before 1.9: ``verbose`` still reports progress

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for the mixin that later versions have."""

    ProgressBar = None


class Progress:
    """A task of a fit, reported to scikit-learn's callbacks and, with ``verbose``, to people.

    A fit is a tree of tasks (outputs, rounds, epochs)::

        with Progress.start(self, data, n_tasks=len(problems)) as progress:
            for problem in problems:
                with progress.task("output") as output:
                    solve(problem, report=lambda state: output.step("round", ...))

    ``verbose=1`` prints the tasks directly below the fit, 2 also those below them, and so on; on
    a terminal there is a bar for each task that has others below it. Instances can be sent to
    worker processes, which print lines. ``data`` is the fit's TrainingData, where callbacks may see
    it.
    """

    def __init__(
        self,
        estimator: Any,
        context: Any,
        data: Any,
        name: str,
        parent: Progress | None = None,
        n_tasks: int | None = None,
    ) -> None:
        self.estimator, self.context, self.data = estimator, context, data
        self.name, self.parent, self.n_tasks = name, parent, n_tasks
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.n_done = 0
        self.began = time.monotonic()
        self.bars: Any = None if parent is None else parent.bars
        self.bar: Any = None

    @classmethod
    def start(
        cls,
        estimator: Any,
        data: Any = None,
        n_tasks: int | None = None,
        *,
        sequential: bool = True,
    ) -> Progress:
        """Begin the task of a whole fit, of ``n_tasks`` tasks where their number is known."""
        context = None
        if hasattr(estimator, "_init_callback_context"):
            context = estimator._init_callback_context(
                max_subtasks=n_tasks, sequential_subtasks=sequential
            )
        return cls(estimator, context, data, "fit", None, n_tasks)

    def task(
        self,
        name: str,
        number: int | None = None,
        n_tasks: int | None = None,
        *,
        sequential: bool = True,
    ) -> Progress:
        """A task below this one, for a ``with`` statement; parallel tasks have a ``number``."""
        context = None
        if self.context is not None:
            context = self.context.subcontext(
                task_name=name,
                task_id=number,
                max_subtasks=n_tasks,
                sequential_subtasks=sequential,
            )
        title = name if number is None else f"{name} {number}"
        return Progress(self.estimator, context, self.data, title, self, n_tasks)

    def step(self, name: str, attributes: Any = None, *, number: int | None = None) -> bool:
        """Report a task that is done; true where a callback asks to stop.

        ``attributes`` (or a function that returns them) are the fitted attributes with which a
        copy of the estimator could predict at this point.
        """
        task = self.task(name, number, n_tasks=0)
        task.begin()
        return task.end(attributes)

    def note(self, text: str) -> None:
        """Print a line about the task, where ``verbose`` shows it."""
        if self.depth <= self._verbose and self.depth:
            self._print(f"[{type(self.estimator).__name__}] {self.name}: {text}")

    def begin(self) -> None:
        """Say that the task begins."""
        self.began = time.monotonic()
        if self.depth < self._verbose and self.n_tasks != 0:
            self._show_bar()
        if self.context is not None:
            self.context.call_on_fit_task_begin(estimator=self.estimator, **self._rows)

    def end(self, attributes: Any = None) -> bool:
        """Say that the task is done; true where a callback asks to stop."""
        self._hide_bar()
        if self.parent is not None:
            self.parent._count(self)
        if self.context is None:
            return False
        stop = self.context.call_on_fit_task_end(
            estimator=self.estimator, **self._rows, reconstruction_attributes=attributes
        )
        return bool(stop)

    def _count(self, done: Progress) -> None:
        """A task below this one is done: print it, with what is left of this one."""
        self.n_done += 1
        if self.bar is not None:
            self.bars.advance(self.bar)
        if done.depth > self._verbose:
            return
        now = time.monotonic()
        line = f"[{type(self.estimator).__name__}] {done.name}: {now - done.began:.1f} s"
        # The first tasks may be unlike the later ones, and the last have nothing left.
        if self.n_tasks and 2 <= self.n_done < self.n_tasks:
            left = (now - self.began) / self.n_done * (self.n_tasks - self.n_done)
            line += f" ({self.n_done} of {self.n_tasks}, about {left:.1f} s left)"
        self._print(line)

    def _print(self, line: str) -> None:
        if self.bars is None:
            print(line)
        else:
            self.bars.console.print(line, markup=False, highlight=False)

    def _show_bar(self) -> None:
        if self.depth == 0:
            self.bars = task_bars()
        if self.bars is not None:
            self.bar = self.bars.add_task(self.name, total=self.n_tasks)

    def _hide_bar(self) -> None:
        if self.bar is not None:
            self.bars.remove_task(self.bar)
            self.bar = None
            if self.depth == 0:
                self.bars.stop()

    @property
    def _verbose(self) -> int:
        return getattr(self.estimator, "verbose", 0)

    def __getstate__(self) -> dict[str, Any]:
        """All but the rows, which workers are sent apart, and the bars of this process."""
        # A worker counts for a separate parent, which knows nothing of the other workers' tasks.
        parent = None
        if self.parent is not None:
            parent = Progress(self.estimator, None, None, self.parent.name)
            parent.depth = self.parent.depth
        return {**self.__dict__, "data": None, "bars": None, "bar": None, "parent": parent}

    def __enter__(self) -> Progress:
        self.begin()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.end({} if self.depth == 0 else None)
        else:
            self._hide_bar()

    @property
    def _rows(self) -> dict[str, Any]:
        return {} if self.data is None else self.data.for_callbacks

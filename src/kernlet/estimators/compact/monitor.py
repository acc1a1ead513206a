"""A look at every epoch of a training: history, callbacks, early stopping."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sklearn.callback import CallbackContext

from kernlet.estimators.compact.layout import STORAGE, Layout
from kernlet.estimators.compact.task import Task
from kernlet.estimators.compact.training import pack
from kernlet.estimators.compact.workshop import Workshop
from kernlet.problems.joint_margin import Machine


class Monitor:
    """Looks at every epoch of a training.

    Parameters
    ----------
    estimator : CompactKernelClassifier or CompactKernelRegressor
        Its ``history_`` grows.
    shop : Workshop
    task : Task
    layout : Layout
        Of the machine that is trained.
    context : CallbackContext
        Of the fit; the training becomes a task below it, and every epoch one below that.
    name : {"training", "settling"}
    """

    def __init__(
        self,
        estimator: Any,
        shop: Workshop,
        task: Task,
        layout: Layout,
        context: CallbackContext,
        name: str,
    ) -> None:
        self.estimator, self.shop, self.layout = estimator, shop, layout
        self.is_first = name == "training"  # the second one sees the rows held out
        self.rows = task.validation_for_callbacks() if self.is_first else {}
        self.stops = estimator.early_stopping and len(task.held_out) > 0 and self.is_first
        self.context = context.subcontext(task_name=name, max_subtasks=None)
        self.context.call_on_fit_task_begin(estimator=estimator)
        self.best: tuple[float, Machine | None] = (-math.inf, None)
        self.waited = 0

    def on_epoch(self, epoch: int, loss: float, machine: Machine) -> bool:
        """Keep what happened; true to end the training."""
        score = self.shop.score(machine) if self.is_first else math.nan
        self.estimator.history_.append({"loss": loss, "score": score})
        task = self.context.subcontext(task_name="epoch")
        task.call_on_fit_task_begin(estimator=self.estimator, **self.rows)
        wants_stop = task.call_on_fit_task_end(
            estimator=self.estimator,
            **self.rows,
            reconstruction_attributes=lambda: self._so_far(machine),
        )
        self.estimator._was_stopped |= bool(wants_stop)
        return bool(wants_stop) or self._has_waited_enough(score, machine)

    def pick(self, trained: Machine) -> Machine:
        """The machine to go on with: the best one seen where training stops early."""
        self.stops = False  # what comes after the first training goes on to its end
        return trained if self.best[1] is None else self.best[1]

    def end(self) -> None:
        """The training is over."""
        self.context.call_on_fit_task_end(estimator=self.estimator)

    def _has_waited_enough(self, score: float, machine: Machine) -> bool:
        if not self.stops:
            return False
        if score > self.best[0]:
            self.best, self.waited = (score, machine), 0
            return False
        self.waited += 1
        return self.waited >= self.estimator.n_iter_no_change

    def _so_far(self, machine: Machine) -> dict[str, Any]:
        plain = replace(self.layout, formats=STORAGE["float32"])
        scaling = self.shop.kept.shift, self.shop.kept.scale
        return self.estimator._reconstruction(pack(machine, {}, plain, *scaling))

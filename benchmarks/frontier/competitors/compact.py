"""CompactKernelClassifier: the layouts that ``max_bytes`` chooses from, each as a setting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.frontier.contract import N_SETTINGS, Shape
from benchmarks.frontier.expansions import ExpansionMachine
from kernlet import CompactKernelClassifier
from kernlet.estimators.compact.layout import Layout, candidates, fill

TITLE = "compact"
IS_KERNLET = True
IS_RANDOM = True
MOST = 2000  # centers
_FEW_ROWS = 1000  # up to which few centers and much noise are tried
_PLAIN = ("int8", "int8", "int8")
_NARROW = ("int4", "int4", "ternary")


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    layout = Layout(shape.n_features, shape.n_outputs, 1)
    first, second = _layouts(shape, max_bytes)
    if shape.n_rows <= _FEW_ROWS:
        room = fill(replace(layout, formats=_PLAIN), max_bytes, shape.n_rows // 4)
        sizes = _sizes(0 if room is None else room.n_centers)
        few = [replace(layout, n_centers=n, formats=_PLAIN) for n in sizes]
        found = [_setting(of, noise) for of in few for noise in (0.1, 0.6)]
        found += [_setting(of, noise) for of in first for noise in (0.3, 1.0)]
        found += [_setting(of, 0.6) for of in second]
    else:
        found = [_setting(of, noise) for of in first for noise in (0.1, 0.3)]
        found += [_setting(of, 0.1) for of in second]
    return [setting for i, setting in enumerate(found) if setting not in found[:i]][:N_SETTINGS]


def _layouts(shape: Shape, max_bytes: int) -> tuple[list[Layout], list[Layout]]:
    """What ``max_bytes`` tries; where that has no room for a projection, also very few ranks."""
    layout = Layout(shape.n_features, shape.n_outputs, 1)
    most = min(MOST, shape.n_rows // 2)
    first, second = candidates(layout, max_bytes, most, "auto", "auto")
    if all(of.rank is None for of in first):
        narrow = [replace(layout, rank=r, formats=_NARROW) for r in (2, 3, 4, 6)]
        filled = [fill(of, max_bytes, most) for of in narrow if of.rank < shape.n_features]
        first += [of for of in filled if of is not None]
    return first, second


def _sizes(room: int) -> list[int]:
    """Few centers, a good many, and about the square root of their product."""
    return sorted({int(n) for n in np.geomspace(3, max(3, room), 3).round() if n <= room})


def _setting(layout: Layout, noise: float) -> dict[str, Any]:
    return {
        "n_centers": layout.n_centers,
        "rank": layout.rank,
        "formats": layout.formats,
        "noise": noise,
    }


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> ExpansionMachine:
    machine = OneLayout(noise=setting["noise"], validation_fraction=None, random_state=seed)
    machine.setting = setting
    return ExpansionMachine(machine.fit(X, y).expansion_)


class OneLayout(CompactKernelClassifier):
    """Trains the layout in ``setting``, formats and all, without a search."""

    setting: dict[str, Any]

    def _choose(self, shop: Any, task: Any, initial: Any, context: Any) -> Any:
        layout = Layout(
            task.X.shape[1],
            task.n_outputs,
            min(self.setting["n_centers"], len(task.kept)),
            self.setting["rank"],
            tuple(self.setting["formats"]),
        )
        return self._train_one(shop, task, layout, context)

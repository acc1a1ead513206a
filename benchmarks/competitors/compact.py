"""CompactKernelClassifier: storage plans that fill a budget, with losses and noise, as settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.competitors.contract import N_SETTINGS, Shape
from benchmarks.competitors.expansions import ExpansionMachine
from kernlet import CompactKernelClassifier
from kernlet.compact.plan import StoragePlan
from kernlet.compact.space import fair_ranks, largest_within, usual_formats
from kernlet.compact.trainer import Candidate

TITLE = "compact, tuned"
IS_KERNLET = True
IS_RANDOM = True
VERSION = 1
MOST_CENTERS = 2000
_FEW_ROWS = 1000  # with at most these, few centers and much noise are tried
_ENTROPY, _HINGE = "cross_entropy", "squared_hinge"
_NARROW = ("int4", "int4", "ternary")
_MOST_RANKS = 5


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    first, second = _plans(shape, max_bytes)
    if not first:
        return []
    few = _few_centers(shape, max_bytes, first[len(first) // 2])
    if shape.n_rows <= _FEW_ROWS:
        found = [_setting(of, *how) for of in few for how in ((0.6, _ENTROPY), (0.1, _HINGE))]
        found += [_setting(of, 1.0, _ENTROPY) for of in first]
        found += [_setting(of, 0.2, _HINGE) for of in first]
    else:
        found = [_setting(of, 0.2, _ENTROPY) for of in first]
        found += [_setting(of, 0.05, _HINGE) for of in (first[0], first[len(first) // 2])]
        found += [_setting(first[-1], 0.05, loss) for loss in (_ENTROPY, _HINGE)]
        found += [_setting(of, 0.05, loss) for of in few[1:2] for loss in (_ENTROPY, _HINGE)]
    found += [_setting(of, 0.2, _ENTROPY) for of in second]
    return [setting for i, setting in enumerate(found) if setting not in found[:i]][:N_SETTINGS]


def _few_centers(shape: Shape, max_bytes: int, usual: StoragePlan) -> list[StoragePlan]:
    """Very few, medium and many centers, in eight bits; with many rows after a projection."""
    projection = usual.formats[2] if shape.n_features > 32 else "int8"
    plan = replace(usual, formats=("int8", "int8", projection))
    if shape.n_rows <= _FEW_ROWS:
        plan = replace(plan, rank=None)
    elif plan.rank is not None:
        plan = replace(plan, rank=min(16, shape.n_features, plan.rank))
    room = largest_within(plan, max_bytes, min(MOST_CENTERS, shape.n_rows // 4))
    if room is None:
        return []
    sizes = np.geomspace(3, max(3, room.n_centers), 3).round().astype(int)
    return [replace(plan, n_centers=int(n)) for n in np.unique(sizes) if n <= room.n_centers]


def _plans(shape: Shape, max_bytes: int) -> tuple[list[StoragePlan], list[StoragePlan]]:
    """Plans of several ranks, and of other formats; of low ranks if no projection fits."""
    plan = StoragePlan(shape.n_features, shape.n_outputs, 1)
    most = min(MOST_CENTERS, shape.n_rows // 2)
    ranks = fair_ranks(shape.n_features, max_bytes)
    ranks = ranks[-1 :: -max(1, -(-len(ranks) // _MOST_RANKS))][::-1]
    first: list[StoragePlan] = []
    second: list[StoragePlan] = []
    for rank in [None, *ranks]:
        for number, formats in enumerate(_formats(rank, shape.n_features)):
            of = largest_within(replace(plan, rank=rank, formats=formats), max_bytes, most)
            if of is not None:
                (second if number else first).append(of)
    if all(of.rank is None for of in first):
        narrow = [replace(plan, rank=r, formats=_NARROW) for r in (2, 3, 4, 6)]
        filled = [
            largest_within(of, max_bytes, most) for of in narrow if of.rank < shape.n_features
        ]
        first += [of for of in filled if of is not None]
    return first, second


def _formats(rank: int | None, n_features: int) -> list[tuple[str, str, str]]:
    """Formats to try, the usual ones first."""
    usual = usual_formats(rank, n_features)
    if rank is None:
        return [usual, ("int8", "int8", "int8"), ("int6", "int4", "int4")]
    return [usual, ("int6", "int4", usual[2]), ("int4", "int4", "int4")]


def _setting(plan: StoragePlan, noise: float, loss: str) -> dict[str, Any]:
    return {
        "loss": loss,
        "n_centers": plan.n_centers,
        "rank": plan.rank,
        "formats": plan.formats,
        "noise": noise,
    }


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> ExpansionMachine:
    machine = OnePlan(
        noise=setting["noise"],
        loss=setting["loss"],
        smoothing=0.1,
        scale=False,
        validation_fraction=None,
        random_state=seed,
    )
    machine.setting = setting
    return ExpansionMachine(machine.fit(X, y).expansion_)


class OnePlan(CompactKernelClassifier):
    """Trains the storage plan in ``setting`` without a search."""

    setting: dict[str, Any]

    def _choose(self, trainer: Any, initial: Any, progress: Any, monitor: Any) -> Any:
        training = trainer.training
        plan = StoragePlan(
            training.X.shape[1],
            training.n_outputs,
            min(self.setting["n_centers"], len(training.train)),
            self.setting["rank"],
            tuple(self.setting["formats"]),
        )
        return self._train_one(trainer, Candidate(plan, self.noise), progress, monitor)

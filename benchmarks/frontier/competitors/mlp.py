"""The perceptron of ``benchmarks.compact_mlp``, its weights rounded while they are trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import compact_mlp
from benchmarks.frontier.contract import Shape, spread_out
from kernlet.devices import NUMPY

TITLE = "MLP"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 1


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    try:
        found = compact_mlp.settings(shape.n_features, shape.n_classes, max_bytes)
    except ValueError:  # nothing fits
        return []
    return spread_out([asdict(setting) for setting in found])


def build(setting: dict[str, Any], X: Any, y: Any, seed: int) -> Perceptron:
    setting = {**setting, "hidden": tuple(setting["hidden"])}
    n_classes = int(y.max()) + 1
    network = compact_mlp.fit(compact_mlp.Setting(**setting), X, y, n_classes, NUMPY, seed)
    return Perceptron(network)


@dataclass(frozen=True, eq=False)
class Perceptron:
    """A network in tables."""

    network: compact_mlp.Network
    n_centers: None = None

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        return self.network.nbytes

    def predict(self, X: Any) -> Any:
        """Class numbers of rows."""
        return self.network.predict(X)

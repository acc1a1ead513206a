"""The perceptron of ``benchmarks.compact_mlp``, its weights rounded while they are trained.

Biases are stored in float16: at few bytes they would take half of them in float32.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks import compact_mlp
from benchmarks.frontier.contract import Shape
from kernlet.devices import NUMPY

TITLE = "MLP"
IS_KERNLET = False
IS_RANDOM = True
VERSION = 2


def settings(shape: Shape, max_bytes: int) -> list[dict[str, Any]]:
    """Every storage with one layer, a bottleneck and two layers; every rate beside every noise."""
    fitting = compact_mlp.shapes_within(shape.n_features, shape.n_classes, max_bytes, "float16")
    found = []
    for p, formats in enumerate(compact_mlp.FORMAT_PAIRS):
        for k, of_kind in enumerate(_kinds(fitting, formats)):
            if of_kind:
                rate, noise = (
                    compact_mlp.RATES[(k + p) % 3],
                    compact_mlp.NOISE_AND_DECAY[(k + 2 * p) % 3],
                )
                chosen = of_kind[p % len(of_kind)]
                found.append(replace(chosen, rate=rate, noise=noise[0], decay=noise[1]))
    return [asdict(setting) for setting in found]


def _kinds(shapes: list[compact_mlp.Setting], formats: tuple[str, str]) -> list[list[Any]]:
    """Shapes of a storage: one layer, a bottleneck (of either rank) and a layer, two layers.

    Few features have no bottleneck: two layers are tried again, at another rate.
    """
    mine = [shape for shape in shapes if (shape.first, shape.others) == formats]
    one = [of for of in mine if not of.rank and len(of.hidden) == 1]
    two = [of for of in mine if len(of.hidden) == 2]
    return [one, [of for of in mine if of.rank] or two, two]


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

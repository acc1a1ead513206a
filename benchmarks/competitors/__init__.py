"""One module per competitor, as specified in ``benchmarks.competitors.contract``."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

#: Modules in the order of the tables, kernlet's first.
_NAMES = (
    "compact",
    "compact_call",
    "compact_quick",
    "compact_thorough",
    "compact_augmented",
    "compressed_svc",
    "minimal_kernel",
    "chunking_synthetic",
    "svc",
    "nystroem",
    "rbf_sampler",
    "seeded_features",
    "rvm",
    "knn",
    "knn_prototypes",
    "mlp",
    "mlp_call",
    "mlp_augmented",
    "mlp_symmetric",
    "random_forest",
    "hist_gradient_boosting",
    "shared_trees",
    "compact_regressor",
    "nystroem_regressor",
    "forest_regressor",
    "boosting_regressor",
    "mlp_regressor",
)


class Registry(MutableMapping[str, Any]):
    """Competitors by name; a module is imported when it is asked for.

    A machine without all packages of the benchmarks can so measure those competitors that need
    none of the missing ones.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._modules: dict[str, Any] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Any:
        if self._modules[name] is None:
            self._modules[name] = import_module(f"{__name__}.{name}")
        return self._modules[name]

    def __setitem__(self, name: str, module: Any) -> None:
        self._modules[name] = module

    def __delitem__(self, name: str) -> None:
        del self._modules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


COMPETITORS = Registry(_NAMES)


def task_of(competitor: str) -> str:
    """``"classification"`` or ``"regression"``."""
    return str(getattr(COMPETITORS[competitor], "TASK", "classification"))

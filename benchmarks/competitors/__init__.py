"""One module per competitor, as specified in ``benchmarks.competitors.contract``."""

from typing import Any

from benchmarks.competitors import (
    chunking_synthetic,
    compact,
    compact_call,
    compressed_svc,
    hist_gradient_boosting,
    knn,
    knn_prototypes,
    minimal_kernel,
    mlp,
    nystroem,
    random_forest,
    rbf_sampler,
    rvm,
    svc,
)

_MODULES = (
    compact,
    compact_call,
    compressed_svc,
    minimal_kernel,
    chunking_synthetic,
    svc,
    nystroem,
    rbf_sampler,
    rvm,
    knn,
    knn_prototypes,
    mlp,
    random_forest,
    hist_gradient_boosting,
)
#: By the names of their modules, kernlet's first.
COMPETITORS: dict[str, Any] = {module.__name__.rsplit(".", 1)[1]: module for module in _MODULES}

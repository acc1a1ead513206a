"""What an expansion is made of, in words, and what one of its predictions costs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernlet.affine import CurvedMap
from kernlet.expansion import KernelExpansion
from kernlet.kernels.diagonal import DiagonalRBF
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rational_quadratic import RationalQuadratic
from kernlet.model.model import Model
from kernlet.notebook import count_of_labels
from kernlet.quantization import QuantizedExpansion


def kind_in_words(model: Model) -> str:
    """What a model predicts, in a word or two."""
    if model.kind == "classifier":
        return f"{len(model.classes)} classes"
    return "novelty detector" if model.kind == "novelty" else model.kind


def describe(expansion: KernelExpansion, digits: int = 4) -> dict[str, str]:
    """Kernel, widths, coefficients, input map and formats, those that the expansion has."""
    widths, facts = "", {"kernel": expansion.kernel.describe(digits)}
    packed = expansion if isinstance(expansion, QuantizedExpansion) else None
    if np.ndim(getattr(expansion.kernel, "gamma", 0.0)):
        widths = "one per center"
        widths += ", in one byte" if packed and "log_gamma" in packed.packed else ""
    n_entries = n_coefficients(expansion)
    if widths:
        facts["widths"] = widths
    if isinstance(expansion.kernel, DiagonalRBF):
        facts["weights"] = f"{'one of three' if packed else 'one'} per feature of each center"
    if n_entries < expansion.n_outputs:
        facts["coefficients"] = f"{n_entries} of {expansion.n_outputs} outputs per center"
    map = _describe_map(expansion)
    if map:
        facts["input map"] = ", ".join(map)
    if expansion.missing != "error":
        facts["missing features"] = {
            "median": "replaced by medians",
            "distance": "left out of distances, which are rescaled",
        }[expansion.missing]
    if packed:
        facts["storage"] = ", ".join(f"{name} {form}" for name, form in packed.storage.items())
    return facts


def _describe_map(expansion: KernelExpansion) -> list[str]:
    """What happens to a row before the kernel, in order."""
    map, block = expansion.input_map, getattr(expansion, "block", 1)
    if map is None:
        return []
    parts = [f"means of {block} x {block} pixels"] if block > 1 else []
    parts += ["a scale per feature"] if len(map.scale) > 1 else []
    if isinstance(map, CurvedMap):
        parts += ["asinh"] if map.is_asinh else []
        if map.steps is not None:
            n_steps, n_features = len(map.steps.features), len(np.unique(map.steps.features))
            parts.append(f"{n_steps} step{'s' * (n_steps > 1)} in {n_features} of the features")
    if _projects(expansion):
        parts.append(f"projection to {expansion.centers.shape[1]} numbers")
    return parts


def _projects(expansion: KernelExpansion) -> bool:
    """Whether there is a matrix besides the means of blocks."""
    if isinstance(expansion, QuantizedExpansion):
        return expansion.packed["projection"] is not None
    return expansion.input_map is not None and expansion.input_map.matrix is not None


def n_coefficients(expansion: KernelExpansion) -> int:
    """Coefficients per center."""
    entries = getattr(expansion, "n_entries", None)
    return expansion.n_outputs if entries is None else entries


def facts(model: Model) -> list[tuple[str, str]]:
    """What a notebook shows of a model."""
    n_features = model.n_features_in
    return [
        ("model", "novelty detector" if model.kind == "novelty" else model.kind),
        ("centers", f"{model.expansion.n_centers:,}"),
        ("bytes", f"{model.nbytes:,}"),
        *describe(model.expansion).items(),
        *([] if model.kind != "classifier" else [("classes", count_of_labels(model.classes))]),
        *([] if n_features is None else [("features", f"{n_features:,}")]),
    ]


class Operations(NamedTuple):
    """Operations of one prediction, about, in the order of their cost."""

    multiplications: int
    exponentials: int
    logarithms: int
    comparisons: int


def operations(expansion: KernelExpansion) -> Operations:
    """What C computes for a row.

    A distance takes a multiplication per feature, and another one by a weight; packed widths an
    exponential per center, a rational quadratic kernel a logarithm; asinh a logarithm per feature.
    """
    n_centers, rank = expansion.n_centers, int(expansion.centers.shape[1])
    block, map = getattr(expansion, "block", 1), expansion.input_map
    n_inputs = expansion.n_features // block**2
    projection = rank * n_inputs if _projects(expansion) else 0
    products = n_centers * (rank + n_coefficients(expansion)) + projection
    products += n_centers * rank * isinstance(expansion.kernel, DiagonalRBF)
    has_exponential = not isinstance(expansion.kernel, Linear | Polynomial)
    exponentials, logarithms, comparisons = has_exponential * n_centers, 0, 0
    if isinstance(expansion, QuantizedExpansion) and "log_gamma" in expansion.packed:
        exponentials += n_centers
    if isinstance(expansion.kernel, RationalQuadratic):
        logarithms += n_centers
    if isinstance(map, CurvedMap):
        logarithms += n_inputs if map.is_asinh else 0
        comparisons = 0 if map.steps is None else len(map.steps.features)
    return Operations(products, exponentials, logarithms, comparisons)

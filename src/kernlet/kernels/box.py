"""The box kernel: a soft window of its own in every feature, for each center."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernlet._typing import Array, Floats, Matrix
from kernlet.devices import Device, array_namespace
from kernlet.kernels.base import LARGEST_PARAMETER, Kernel
from kernlet.kernels.gram import as_dense, slices_of

# log(1 + e^v) is v beyond this in float32 and float64.
_LARGE = 40.0
# Differences x_i - z_i per row that an ONNX graph holds at once: 16 kB.
_ONNX_DIFFERENCES = 4096


@dataclass(frozen=True, repr=False)
class Box(Kernel):
    """k(x, z_j) = prod_d s(b_d (x_d - z_jd + w_jd)) s(b_d (z_jd + w_jd - x_d)).

    s is the logistic function. Center j is about 1 inside the box z_j - w_j <= x <= z_j + w_j and
    falls off at its faces with the slopes b. As with widths of single centers it depends on the
    number of the center: there is no feature space.

    Parameters
    ----------
    half_widths : ndarray of shape (n_centers, n_features)
    slopes : ndarray of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.box import Box
    >>> Box(np.array([[1.0]]), np.array([20.0]))([[0.0], [1.0], [2.0]], [[0.0]]).round(3)
    array([[1. ],
           [0.5],
           [0. ]])
    """

    half_widths: Floats
    slopes: Floats
    name: ClassVar[str] = "box"
    limits: ClassVar[dict[str, tuple[float, float]]] = {
        "half_widths": (-LARGEST_PARAMETER, LARGEST_PARAMETER),
        "slopes": (0.0, LARGEST_PARAMETER),
    }
    is_mercer: ClassVar[bool] = False
    is_translation_invariant: ClassVar[bool] = True
    c_term: ClassVar[str] = ""  # a product, not a sum

    def evaluate(self, X: Matrix, Z: Matrix, x_norms: Floats, z_norms: Floats) -> Floats:
        """Values feature by feature, so that memory is that of the result."""
        X, Z = as_dense(X), as_dense(Z)
        self._check(X.shape[1], len(Z))
        logs: Floats = np.zeros((len(X), len(Z)), dtype=x_norms.dtype)
        for d, slope in enumerate(self.slopes):
            differences, widths = X[:, d, None] - Z[None, :, d], self.half_widths[:, d]
            logs -= np.logaddexp(0, -slope * (differences + widths))
            logs -= np.logaddexp(0, -slope * (widths - differences))
        return np.exp(logs)

    def _check(self, n_features: int, n_centers: int) -> None:
        if self.half_widths.shape != (n_centers, n_features) or len(self.slopes) != n_features:
            raise ValueError(
                f"The box has half-widths of shape {self.half_widths.shape} and {len(self.slopes)} "
                f"slopes; {n_centers} centers of {n_features} features need as many."
            )

    def on(self, device: Device, X: Array, Z: Array) -> Array:
        """Values on a device, feature by feature."""
        xp = array_namespace(X)
        widths = device.send(self.half_widths)
        logs = xp.zeros((X.shape[0], Z.shape[0]), dtype=X.dtype, device=X.device)
        for d, slope in enumerate(self.slopes):
            differences = X[:, d, None] - Z[None, :, d]
            for side in (differences + widths[:, d], widths[:, d] - differences):
                v = -float(slope) * side
                small = xp.log1p(xp.exp(xp.clip(v, None, _LARGE)))
                logs = logs - xp.where(v > _LARGE, v, small)
        return xp.exp(logs)

    def c_code(self, s: str) -> str:
        """One over the product of 1 + exp(b (|t| - w)) and 1 + exp(-b (|t| + w)), t = x - z."""
        return (
            "float product = 1.0f;\n"
            "uint32_t i;\n"
            "for (i = 0; i < RANK; ++i) {\n"
            "    const float b = slopes_number(0u, i), w = half_widths_number(start, i);\n"
            "    float t = u[i] - centers_number(start, i);\n"
            "    t = t < 0.0f ? -t : t;\n"
            "    product *= (1.0f + EXP(b * (t - w))) * (1.0f + EXP(-b * (t + w)));\n"
            "}\n"
            "return 1.0f / product; /* 0 where it is infinite */"
        )

    def onnx_nodes(self, graph: Any, x: str, centers: Floats) -> str:
        """exp(-sum_d (softplus(b (|t| - w)) + softplus(-b (|t| + w)))), some features at once."""
        rows, logs = graph.node("Unsqueeze", x, graph.integers([1])), ""
        for part in slices_of(centers.shape[1], max(1, _ONNX_DIFFERENCES // max(1, len(centers)))):
            ends = (graph.integers([end]) for end in (part.start, part.stop, 2))
            some = graph.node("Slice", rows, *ends)
            sizes = graph.node("Abs", graph.node("Sub", some, graph.floats(centers[None, :, part])))
            slopes, widths = self.slopes[part].astype(float), self.half_widths[None, :, part]
            inside, outside = (
                graph.node("Mul", graph.node(sign, sizes, graph.floats(widths)), slope)
                for sign, slope in (("Sub", graph.floats(slopes)), ("Add", graph.floats(-slopes)))
            )
            sides = graph.node(
                "Add", graph.node("Softplus", inside), graph.node("Softplus", outside)
            )
            sums = graph.node("ReduceSum", sides, graph.integers([2]), keepdims=0)
            logs = graph.node("Add", logs, sums) if logs else sums
        return str(graph.node("Exp", graph.node("Neg", logs)))

    def __repr__(self) -> str:
        n_centers, n_features = self.half_widths.shape
        return f"Box({n_centers} boxes of {n_features} features)"

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is Box
            and np.array_equal(self.half_widths, other.half_widths)
            and np.array_equal(self.slopes, other.slopes)
        )

    def __hash__(self) -> int:
        return hash((self.half_widths.tobytes(), self.slopes.tobytes()))

"""A kernel of your own: trained, tuned by cross-validation, saved, and exported to C.

Run it with ``python examples/own_kernel.py``.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernlet import MinimalKernelClassifier, load, save, to_c
from kernlet.kernels.base import Derivatives, Kernel


@dataclass(frozen=True)
class Cauchy(Kernel):
    """k(x, z) = 1 / (1 + |x - z|^2 / scale)."""

    scale: float
    name = "cauchy"
    is_translation_invariant = True

    def of_products(self, products, x_norms, z_norms):
        """The formula: enough to train."""
        return 1.0 / (1.0 + (x_norms + z_norms - 2.0 * products) / self.scale)

    def derivatives(self, products, x_norms, z_norms):
        """By x.z and by |x|^2, for compression: k' = -k^2 / scale by the squared distance."""
        values = self.of_products(products, x_norms, z_norms)
        by_distance = -(values**2) / self.scale
        return Derivatives(values, -2 * by_distance, by_distance)

    def scaled(self, step):
        """The same kernel for points divided by a step, for int8 and float16 storage."""
        return Cauchy(self.scale / step**2), 1.0

    def c_code(self, s):
        """C, given the sum of squared differences."""
        return f"return 1.0f / (1.0f + {s} / {self.c_parameter('scale')});"

    def js_code(self, s):
        """JavaScript, given the same sum."""
        return f"1 / (1 + {s} / {self.js_parameter('scale')})"

    def onnx_nodes(self, graph, x, centers):
        """ONNX, by way of all differences: rows x centers x features."""
        rows = graph.node("Unsqueeze", x, graph.integers([1]))
        differences = graph.node("Sub", rows, graph.floats(centers[None]))
        squares = graph.node("Mul", differences, differences)
        distances = graph.node("ReduceSum", squares, graph.integers([2]), keepdims=0)
        ratios = graph.node("Div", distances, graph.scalar(self.scale))
        return graph.node("Reciprocal", graph.node("Add", ratios, graph.scalar(1.0)))


X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
pipeline = make_pipeline(StandardScaler(), MinimalKernelClassifier(random_state=0))
grid = {
    "minimalkernelclassifier__kernel": [Cauchy(s) for s in (10.0, 30.0, 100.0)],
    "minimalkernelclassifier__C": [0.3, 1.0, 3.0],
}
search = GridSearchCV(pipeline, grid, cv=5).fit(X, y)
machine = search.best_estimator_[-1]
print(f"{machine.expansion_.kernel}, C={machine.C}: {machine.n_centers_} centers of {len(X)} rows")
print(f"{100 * search.score(X_test, y_test):.1f} % correct")
with tempfile.TemporaryDirectory() as folder:
    save(search, Path(folder) / "model.kernlet")
    loaded = load(Path(folder) / "model.kernlet")
    source = to_c(loaded, Path(folder) / "c", storage="int8", X=X_test, y=y_test)
print(f"{source.table_bytes} bytes in C, {100 * source.rounding.accuracy_after:.1f} % correct")

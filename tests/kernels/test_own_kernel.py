"""Kernels defined in this module alone train, save, load and export like the built-in ones."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernlet import L1KernelClassifier, compress, load, save, to_c, to_onnx
from kernlet.kernels.base import KERNELS, Derivatives, Kernel
from support.c_programs import compiled, needs_gcc, run


@dataclass(frozen=True)
class RationalQuadratic(Kernel):
    """k(x, z) = 1 / (1 + |x - z|^2 / scale)."""

    scale: float
    name: ClassVar[str] = "rational quadratic of the tests"
    limits: ClassVar[dict] = {"scale": (1e-30, np.inf)}
    is_translation_invariant: ClassVar[bool] = True

    def of_products(self, products, x_norms, z_norms):
        return 1 / (1 + (x_norms + z_norms - 2 * products) / self.scale)

    def derivatives(self, products, x_norms, z_norms):
        values = self.of_products(products, x_norms, z_norms)
        by_distance = -(values**2) / self.scale
        return Derivatives(values, -2 * by_distance, by_distance)

    def scaled(self, step):
        return RationalQuadratic(self.scale / step**2), 1.0

    def c_code(self, s):
        return f"return 1.0f / (1.0f + {s} / {self.c_parameter('scale')});"

    def onnx_nodes(self, graph, x, centers):
        distances = graph.node(
            "Sub",
            graph.node("Unsqueeze", x, graph.integers([1])),
            graph.floats(centers[None]),
        )
        squares = graph.node("Mul", distances, distances)
        sums = graph.node("ReduceSum", squares, graph.integers([2]), keepdims=0)
        below = graph.node("Div", sums, graph.scalar(self.scale))
        return graph.node("Reciprocal", graph.node("Add", below, graph.scalar(1.0)))


@dataclass(frozen=True)
class Laplacian(Kernel):
    """k(x, z) = exp(-gamma sum_i |x_i - z_i|), which is not a function of inner products."""

    gamma: float
    name: ClassVar[str] = "laplacian of the tests"
    is_translation_invariant: ClassVar[bool] = True
    c_term: ClassVar[str] = "fabsf(t)"

    def evaluate(self, X, Z, x_norms, z_norms):
        return np.exp(-self.gamma * cdist(X, Z, "cityblock")).astype(x_norms.dtype)

    def scaled(self, step):
        return Laplacian(self.gamma * step), 1.0

    def c_code(self, s):
        return f"return EXP(-{self.c_parameter('gamma')} * {s});"

    def onnx_nodes(self, graph, x, centers):
        rows = graph.node("Unsqueeze", x, graph.integers([1]))
        sizes = graph.node("Abs", graph.node("Sub", rows, graph.floats(centers[None])))
        sums = graph.node("ReduceSum", sizes, graph.integers([2]), keepdims=0)
        return graph.node("Exp", graph.node("Mul", sums, graph.scalar(-self.gamma)))


X, Y = make_moons(200, noise=0.2, random_state=0)
X = 3 * X + 5
KERNELS_HERE = [RationalQuadratic(0.7), Laplacian(0.8)]
every_kernel = pytest.mark.parametrize("kernel", KERNELS_HERE, ids=lambda k: type(k).__name__)


def fitted(kernel):
    machine = L1KernelClassifier(kernel=kernel, C=3.0, random_state=0)
    return make_pipeline(StandardScaler(), machine).fit(X, Y)


@every_kernel
def test_it_trains(kernel):
    model = fitted(kernel)
    assert model.score(X, Y) > 0.93
    assert model[-1].expansion_.kernel == kernel


@every_kernel
def test_it_is_saved_and_loaded(kernel, tmp_path):
    model = fitted(kernel)
    save(model, tmp_path / "model.kernlet")
    again = load(tmp_path / "model.kernlet")
    assert again.expansion_.kernel == kernel
    assert_allclose(again.decision_function(X), model.decision_function(X), rtol=1e-12)


def test_it_compresses_with_synthetic_centers():
    model = fitted(RationalQuadratic(0.7))[-1]
    Z = StandardScaler().fit_transform(X)
    smaller = compress(model, 8, Z, Y)
    assert smaller.expansion_.n_centers == 8
    assert smaller.score(Z, Y) > 0.93


@needs_gcc
@every_kernel
@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_it_is_exported_to_c(kernel, storage, tmp_path):
    model = fitted(kernel)
    source = to_c(model, tmp_path, storage, X=X)
    codes, scores = run(compiled(source), X, True)
    values = model.decision_function(X)
    error = 1e-4 + source.rounding.largest_score_error
    assert_allclose(scores[:, 0], values, atol=error)
    clear = np.abs(values) > error
    assert_array_equal(codes[clear], model.predict(X)[clear])


@every_kernel
def test_it_is_exported_to_onnx(kernel):
    model = fitted(kernel)
    graph = to_onnx(model, X=X)
    onnx.checker.check_model(graph, full_check=True)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    _, scores = session.run(None, {"X": np.float32(X)})
    assert_allclose(scores, model.decision_function(X), atol=1e-4)


def test_a_kernel_without_a_name_is_not_saved(tmp_path):
    class Unnamed(Laplacian):
        pass

    with pytest.raises(ValueError, match="give its class a name to save and export it"):
        save(fitted(Unnamed(0.8)), tmp_path / "model.kernlet")


def test_a_file_with_an_unknown_kernel_says_what_to_import(tmp_path, monkeypatch):
    save(fitted(Laplacian(0.8)), tmp_path / "model.kernlet")
    monkeypatch.delitem(KERNELS, Laplacian.name)
    with pytest.raises(ValueError, match="import the module that defines your own kernel first"):
        load(tmp_path / "model.kernlet")


@pytest.mark.parametrize("scale", [0.0, -1.0, None, "wide", True, float("nan"), 10**400])
def test_parameters_of_a_file_are_checked(scale):
    with pytest.raises(ValueError, match=r"kernel\.scale must be"):
        Kernel.from_dict({"name": "rational quadratic of the tests", "scale": scale})


def test_a_taken_name_is_refused():
    with pytest.raises(ValueError, match=r"kernel name 'rbf' is taken by .*RBF"):
        type("Other", (Kernel,), {"name": "rbf"})


@dataclass(frozen=True)
class Bare(Kernel):
    """A formula and a name, and nothing that an exporter needs."""

    name: ClassVar[str] = "bare"
    is_translation_invariant: ClassVar[bool] = True

    def of_products(self, products, x_norms, z_norms):
        return 1 / (1 + x_norms + z_norms - 2 * products)


@dataclass(frozen=True)
class BareWithCode(Bare):
    """The same with C code in one unit alone."""

    name: ClassVar[str] = "bare with code"

    def c_code(self, s):
        return f"return 1.0f / (1.0f + {s});"


def test_what_a_kernel_lacks_for_an_export_is_said(tmp_path):
    with pytest.raises(ValueError, match="cannot be exported to C: define c_code"):
        to_c(fitted(Bare()), tmp_path)
    with pytest.raises(ValueError, match="cannot be exported to ONNX: define onnx_nodes"):
        to_onnx(fitted(Bare()))
    to_c(fitted(BareWithCode()), tmp_path)
    with pytest.raises(ValueError, match="define scaled, or store float32"):
        to_c(fitted(BareWithCode()), tmp_path, "int8")

"""Random models of every shape, made without training: for exports to C."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from kernlet import KernelExpansion
from kernlet.affine import AffineMap
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid
from kernlet.model.model import Model
from kernlet.quantization import FORMATS, QuantizedExpansion, encode

KERNELS = ("rbf", "rbf", "rbf", "rbf widths", "linear", "poly", "sigmoid", "laplacian")
MAPS = (None, "number", "columns", "projection")
KINDS = ("classifier", "classifier", "classifier", "regressor", "transformer", "expansion")
SCHEMES = ("one output", "one vs rest", "one vs one")
PACKED = tuple(FORMATS)


def random_model(rng, *, formats=None, **fixed):
    """A model of random shape; ``fixed`` sets kernel, map, kind, scheme or scaler.

    With ``formats``, one or three names of :data:`PACKED`, it holds packed arrays of centers,
    coefficients and projection; None draws whether it does, and () says that it does not.
    """
    kind = fixed.get("kind") or str(rng.choice(KINDS))
    scheme = fixed.get("scheme") or str(rng.choice(SCHEMES))
    n_classes, n_outputs = _sizes(rng, kind, scheme)
    if formats is None and rng.random() < 0.5:
        formats = tuple(rng.choice(PACKED, 3))
    make = _packed if formats else _plain
    expansion = make(rng, n_outputs, formats, fixed)
    options = {"kind": kind, "scaler": _scaler(rng, expansion.n_features, fixed.get("scaler"))}
    if kind == "regressor":
        options["is_flat"] = n_outputs == 1
    if kind == "classifier":
        is_two = n_classes == 2
        options |= {
            "classes": _labels(rng, n_classes),
            "scheme": scheme,
            "votes": scheme == "one vs one" and rng.random() < 0.7,
            "break_ties": bool(rng.random() < 0.5),
            "temperature": float(rng.choice([0.01, 0.3, 1.0, 50.0])),
            "offset": float(rng.normal()) if is_two and rng.random() < 0.3 else 0.0,
        }
    n_features = Model(expansion, **options).n_features
    if rng.random() < 0.3:
        options["feature_names"] = tuple(f"sensor {i} [\u00b0C]" for i in range(n_features))
    return Model(expansion, **options)


def _sizes(rng, kind, scheme):
    """Numbers of classes and of outputs."""
    if kind != "classifier":
        return 0, int(rng.choice([1, 1, 2, 5, 30]))
    n_classes = 2 if scheme == "one output" else int(rng.choice([2, 3, 3, 4, 7, 12, 50]))
    if scheme == "one vs rest" and rng.random() < 0.05:
        n_classes = 1
    n_pairs = len(list(combinations(range(n_classes), 2)))
    n_outputs = {"one output": 1, "one vs rest": n_classes, "one vs one": n_pairs}[scheme]
    return n_classes, n_outputs


def _labels(rng, n_classes):
    numbers = np.arange(n_classes)
    if n_classes == 2 and rng.random() < 0.2:
        return np.array([False, True])
    labels = (numbers - 3, numbers / 2, np.array([f'{i:02} \u00e9*/??/"\\' for i in numbers]))
    return labels[rng.integers(3)]


def _shape(rng, n_outputs):
    """Numbers of centers and of features, large ones rarely and never both."""
    n_features = int(rng.choice([1, 2, 3, 4, 5, 8, 13, 60, 200]))
    n_centers = int(rng.choice([1, 1, 2, 3, 5, 12, 40]))
    most = max(1, 4000 // max(n_features, n_outputs))
    return min(n_centers, most), n_features


def _points(rng, n_centers, n_features):
    """Centers: random, all equal, zero, in pairs, far from zero, of any scale."""
    centers = rng.normal(size=(n_centers, n_features))
    match rng.integers(8):
        case 0:
            centers[:] = centers[0]
        case 1:
            centers[:] = 0.0
        case 2:
            centers[n_centers // 2 :] = centers[: n_centers - n_centers // 2]
        case 3:
            centers += rng.normal() * 100
        case 4:
            centers *= 10.0 ** rng.uniform(-6, 6)
        case 5:
            centers = np.rint(3 * centers)
    return centers


def _coefficients(rng, shape):
    coef = rng.normal(size=shape)
    match rng.integers(8):
        case 0:
            coef[:] = 0.0
        case 1:
            coef *= 10.0 ** rng.uniform(-8, 8)
        case 2:
            coef[rng.random(shape) < 0.7] = 0.0
    return coef


def _gamma(rng, centers, n_widths=None):
    """Widths for which kernel values are neither all 0 nor all 1; sometimes any number."""
    if rng.random() < 0.1:
        return np.full(n_widths or 1, 10.0 ** rng.uniform(-44, 20))
    size = float(np.square(centers - centers.mean(axis=0)).sum(axis=1).mean()) or 1.0
    return np.exp(rng.normal(size=n_widths or 1)) / size


def _plain(rng, n_outputs, formats, fixed):
    n_centers, n_features = _shape(rng, n_outputs)
    rank, input_map = n_features, _map(rng, n_features, fixed)
    if input_map is not None and input_map.matrix is not None:
        rank = len(input_map.matrix)
    centers = _points(rng, n_centers, rank)
    coef = _coefficients(rng, (n_outputs, n_centers))
    kernel = _kernel(rng, centers, fixed)
    return KernelExpansion(kernel, centers, coef, rng.normal(size=n_outputs), input_map)


def _kernel(rng, centers, fixed):
    name = fixed.get("kernel") or str(rng.choice(KERNELS))
    if name == "linear":
        return Linear()
    if name == "rbf widths":
        return RBF(_gamma(rng, centers, len(centers)))
    gamma = float(_gamma(rng, centers)[0])
    if name == "rbf":
        return RBF(gamma)
    if name == "laplacian":
        return Laplacian((gamma / centers.shape[1]) ** 0.5)
    coef0 = float(rng.choice([0.0, 1.0, -0.3]))
    return (
        Polynomial(gamma, int(rng.integers(1, 6)), coef0)
        if name == "poly"
        else Sigmoid(gamma, coef0)
    )


def _map(rng, n_features, fixed):
    name = fixed["map"] if "map" in fixed else MAPS[rng.integers(len(MAPS))]
    if name is None:
        return None
    if name == "number":
        return AffineMap(rng.normal(), np.exp(rng.normal()))
    shift, scale = rng.normal(size=n_features), np.exp(rng.normal(size=n_features))
    if name == "columns":
        return AffineMap(shift, scale)
    rank = int(rng.integers(1, min(n_features, 10) + 1))
    return AffineMap(shift, scale, rng.normal(size=(rank, n_features)) / np.sqrt(n_features))


def _packed(rng, n_outputs, formats, fixed):
    formats = [FORMATS[name] for name in (*formats, *formats, *formats)[:3]]
    n_centers, n_features = _shape(rng, n_outputs)
    name = fixed["map"] if "map" in fixed else MAPS[rng.integers(len(MAPS))]
    rank, projection, shift, scale = n_features, None, 0.0, 1.0
    if name == "projection":
        rank = int(rng.integers(1, min(n_features, 10) + 1))
        matrix = rng.normal(size=(rank, n_features)) / np.sqrt(n_features)
        projection = encode(matrix, formats[2])
    if name in ("number", "projection"):
        shift, scale = float(rng.normal()), float(np.exp(rng.normal()))
    if name == "columns":
        wide = FORMATS[str(rng.choice(["float16", "float32"]))]
        shift = encode(rng.normal(size=n_features), wide)
        scale = encode(np.exp(rng.normal(size=n_features)), wide)
    centers = np.clip(_points(rng, n_centers, rank), -1e6, 1e6)
    coef = np.clip(_coefficients(rng, (n_outputs, n_centers)), -1e6, 1e6)
    n_widths = n_centers if fixed.get("kernel", rng.choice(KERNELS)) == "rbf widths" else 1
    return QuantizedExpansion(
        np.clip(_gamma(rng, centers, n_widths), 1e-44, 1e30),
        encode(centers, formats[0]),
        encode(coef, formats[1]),
        rng.normal(size=n_outputs),
        shift,
        scale,
        projection,
    )


def _scaler(rng, n_features, name):
    """A scaler in front: a shift and a scale of each feature and, seldom, a matrix."""
    name = name or str(rng.choice(["none", "none", "columns", "matrix"], p=[0.4, 0.3, 0.25, 0.05]))
    if name == "none":
        return None
    matrix, width = None, n_features
    if name == "matrix":
        width = n_features + int(rng.integers(3))
        matrix = np.eye(n_features, width) + 0.1 * rng.normal(size=(n_features, width))
    return AffineMap(rng.normal(size=width), np.exp(rng.normal(size=width)), matrix)

"""Random models of every shape, made without training: for exports to C."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from kernlet import KernelExpansion
from kernlet.affine import AffineMap
from kernlet.kernels.diagonal import DiagonalRBF
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid
from kernlet.model.model import Model
from kernlet.quantization import (
    FORMATS,
    QuantizedExpansion,
    encode,
    encode_sparse,
    encode_steps,
)

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
    if kind == "novelty":
        return 2, 1
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
    if "kernel" not in fixed and name == "rbf widths" and rng.random() < 0.5:
        name = "diagonal"  # seldom, because it has no form in integers
    if name == "rbf widths":
        return RBF(_gamma(rng, centers, len(centers)))
    gamma = float(_gamma(rng, centers)[0])
    if name == "rbf":
        return RBF(gamma)
    if name == "diagonal":
        widths = gamma if rng.random() < 0.5 else _gamma(rng, centers, len(centers))
        return DiagonalRBF(widths, np.exp(rng.normal(size=centers.shape)))
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


#: Every shape of a compact machine, as options of :func:`random_compact`.
SHAPES = {
    "plain": {},
    "projected": {"map": "projection"},
    "columns": {"map": "columns"},
    "widths": {"width": "per_center"},
    "float widths": {"width": "per_center in float32"},
    "rational quadratic": {"kernel": "rational_quadratic"},
    "rational quadratic widths": {
        "kernel": "rational_quadratic",
        "width": "per_center",
        "map": "projection",
    },
    "diagonal": {"kernel": "diagonal_rbf"},
    "diagonal widths": {
        "kernel": "diagonal_rbf",
        "width": "per_center",
        "map": "columns",
        "weight_step": math.log(4),
    },
    "diagonal steps, projected": {"kernel": "diagonal_rbf", "map": "projection", "n_steps": 4},
    "one class": {"n_entries": 1},
    "two classes": {"n_entries": 2, "map": "projection", "kernel": "rational_quadratic"},
    "steps": {"n_steps": 6},
    "steps and asinh": {"n_steps": 5, "is_asinh": True, "map": "projection"},
    "asinh": {"is_asinh": True, "map": "columns"},
    "blocks": {"block": 2},
    "blocks of three, projected": {"block": 3, "map": "projection"},
    "half intercepts": {"intercept": np.float16},
    "everything": {
        "kernel": "rational_quadratic",
        "width": "per_center",
        "map": "columns and projection",
        "n_entries": 2,
        "n_steps": 8,
        "is_asinh": True,
        "intercept": np.float16,
    },
    "medians": {"missing": "median", "map": "columns", "n_steps": 3},
    "medians, projected": {"missing": "median", "map": "columns and projection"},
    "medians of blocks": {"missing": "median", "block": 2},
    "present features": {"missing": "distance", "map": "number"},
    "present features of everything": {
        "missing": "distance",
        "kernel": "rational_quadratic",
        "width": "per_center",
        "map": "columns",
        "n_entries": 2,
        "n_steps": 8,
        "is_asinh": True,
    },
}


def with_missing(machine, X, seed=0):
    """Rows with a third of the numbers missing, and all of one row, where a machine takes that."""
    if machine.missing == "error":
        return X
    X = np.array(X, dtype=float)
    X[np.random.default_rng(seed).random(X.shape) < 1 / 3] = np.nan
    X[len(X) // 3] = np.nan
    return X


def random_compact(rng, n_outputs=3, formats=("int4",), shape=None, points=None, **options):
    """A QuantizedExpansion of random tables; see :data:`SHAPES` for the options.

    ``formats`` are those of centers, coefficients and projection; ``shape`` the numbers of centers
    and of features.
    """
    formats = [FORMATS[name] for name in (*formats, *formats, *formats)[:3]]
    n_centers, n_features = shape or (7, 9)
    map, block = options.get("map"), options.get("block", 1)
    rank, projection, shift, scale = n_features, None, 0.0, 1.0
    if "projection" in str(map):
        rank = int(rng.integers(1, min(n_features, 10) + 1))
        matrix = rng.normal(size=(rank, n_features)) / np.sqrt(n_features)
        projection = encode(matrix, formats[2])
    if map in ("number", "projection") or (block > 1 and map is not None):
        shift, scale = float(rng.normal()), float(np.exp(rng.normal()))
    elif "columns" in str(map):
        wide = FORMATS[str(rng.choice(["float16", "float32"]))]
        shift = encode(rng.normal(size=n_features), wide)
        scale = encode(np.exp(rng.normal(size=n_features)), wide)
    centers = (_points if points is None else points)(rng, n_centers, rank)
    centers = np.clip(centers, -1e6, 1e6)
    coef = np.clip(_coefficients(rng, (n_outputs, n_centers)), -1e6, 1e6)
    entries = options.get("n_entries")
    more = _steps(rng, n_features, options.get("n_steps", 0))
    return QuantizedExpansion(
        centers=encode(centers, formats[0]),
        coef=encode_sparse(coef, min(entries, n_outputs), formats[1])
        if entries
        else encode(coef, formats[1]),
        intercept=rng.normal(size=n_outputs).astype(options.get("intercept", np.float64)),
        shift=shift,
        scale=scale,
        projection=projection,
        steps=more,
        is_asinh=options.get("is_asinh", False),
        block=block,
        **_kernel_options(rng, centers, options),
        **_missing_options(rng, n_features * block**2, options.get("missing")),
    )


def _missing_options(rng, n_features, missing):
    """What becomes of missing features."""
    if missing is None:
        return {}
    if missing == "distance":
        return {"skips_missing": True}
    return {"fill": encode(rng.normal(size=n_features), FORMATS["float16"], 1.0)}


def _steps(rng, n_features, n_steps):
    if not n_steps:
        return None
    features = rng.integers(n_features, size=n_steps)
    thresholds, jumps = rng.normal(size=(2, n_steps))
    thresholds = thresholds.astype(rng.choice([np.float16, np.float32]))
    return encode_steps(features, thresholds, jumps, n_features)


def _kernel_options(rng, centers, options):
    """Arguments of the kernel."""
    width = options.get("width", "shared")
    gamma = np.clip(_gamma(rng, centers, None if width == "shared" else len(centers)), 1e-44, 1e30)
    if width == "per_center":
        logs = np.clip(np.rint(8 * np.log(gamma)), -127, 127) / 8
        gamma = encode(logs, FORMATS["int8"], 1 / 8)
    if options.get("kernel") == "diagonal_rbf":
        step, codes = options.get("weight_step", math.log(2)), rng.integers(-1, 2, centers.shape)
        return {"gamma": gamma, "log_weights": encode(step * codes, FORMATS["ternary"], step)}
    is_rational = options.get("kernel") == "rational_quadratic"
    return {"gamma": gamma, "alpha": np.exp(rng.normal()) if is_rational else None}


def _packed(rng, n_outputs, formats, fixed):
    """A compact machine of any shape."""
    n_centers, n_features = _shape(rng, n_outputs)
    maps = (*MAPS, "columns and projection")
    options = {"map": fixed["map"] if "map" in fixed else maps[rng.integers(len(maps))]}
    wide = fixed.get("kernel", rng.choice(KERNELS)) == "rbf widths"
    options["width"] = "per_center in float32" if wide else "shared"
    if "kernel" not in fixed:
        options["kernel"] = str(rng.choice(["rbf", "rbf", "rational_quadratic"]))
        options["width"] = str(rng.choice(["shared", "per_center", "per_center in float32"]))
        if options["kernel"] == "rbf" and rng.random() < 0.4:
            options["kernel"] = "diagonal_rbf"  # whose last step integers refuse
            options["weight_step"] = math.log(2) * float(rng.choice([1, 1, 1, 1, 2, 2, 2, 0.4]))
    if "map" not in fixed:
        options["is_asinh"] = bool(rng.random() < 0.2)
        options["n_steps"] = int(rng.choice([0, 0, 0, 1, 7]))
        is_curved = options["is_asinh"] or options["n_steps"]
        if not is_curved and math.isqrt(n_features) ** 2 == n_features:
            options["block"] = int(rng.choice([1, 2, 3]))
    options["n_entries"] = int(rng.choice([0, 0, 1, 2])) or None
    options["intercept"] = rng.choice([np.float64, np.float32, np.float16])
    return random_compact(rng, n_outputs, formats, (n_centers, n_features), **options)


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

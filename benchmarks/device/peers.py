"""Machines of other libraries as C programs.

A family is one kind of model written by one library, with a ladder of settings. emlearn, m2cgen and
micromlgen are imported where they are used: all of them are optional.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from benchmarks.competitors.contract import subsample
from benchmarks.device.data import ThreeWaySplit
from benchmarks.device.program import Program
from benchmarks.m2cgen_code import kernel_functions, m2cgen_c, votes_of_pairs

Setting = dict[str, Any]
LARGEST_FLASH = 256 * 1024  # bytes of the largest common Cortex-M0 parts
# Larger machines exceed that flash and take minutes to compile, so that they are not tried: bytes
# that a leaf takes at least, and numbers of support vectors, which take 19 bytes or more.
_EMLEARN_LEAF, _MICROMLGEN_LEAF, _M2CGEN_NUMBER = 8, 18, 8
_MOST_NUMBERS = 14_000


class TooLargeError(ValueError):
    """A machine would exceed the flash of every device considered here."""


@dataclass(frozen=True)
class Family:
    """Models of one kind in the C of one library."""

    title: str
    library: str
    settings: list[Setting]
    build: Callable[[ThreeWaySplit, Setting], Program]


# -- Trees -----------------------------------------------------------------------------------------

_TREES = {
    "tree": lambda _, **options: DecisionTreeClassifier(**options),
    "forest": RandomForestClassifier,
    "extra trees": ExtraTreesClassifier,
}
_TREE_LADDER = [
    {"model": "tree", "n_trees": 1, "leaves": leaves}
    for leaves in (4, 8, 16, 32, 64, 128, 256, 512, 1024, None)
]
_FOREST_LADDER = [
    {"model": "forest", "n_trees": n_trees, "leaves": leaves}
    for n_trees, leaves in product((3, 5, 10, 20, 40), (16, 64, 256, 1024, None))
]
_EXTRA_LADDER = [
    {"model": "extra trees", "n_trees": n_trees, "leaves": leaves}
    for n_trees, leaves in product((5, 10, 20), (256, None))
]


def _with_whole_thresholds(model: Any) -> Any:
    """A copy whose thresholds are right for integers in emlearn.

    emlearn truncates a threshold t and asks x < t, where scikit-learn asks x <= t: a row would go
    the wrong way where it lies between both. For integers x <= t is x < floor(t) + 1.
    """
    model = deepcopy(model)
    for tree in getattr(model, "estimators_", [model]):
        thresholds = tree.tree_.threshold
        thresholds[:] = np.where(tree.tree_.children_left < 0, thresholds, np.floor(thresholds) + 1)
    return model


def _trees(X: Any, y: Any, setting: Setting, leaf_bytes: int) -> Any:
    """A fitted model, unless its leaves alone exceed the flash."""
    model = _TREES[setting["model"]](
        setting["n_trees"], max_leaf_nodes=setting["leaves"], random_state=0
    ).fit(X, y)
    trees = getattr(model, "estimators_", [model])
    if leaf_bytes * sum(tree.get_n_leaves() for tree in trees) > LARGEST_FLASH:
        raise TooLargeError
    return model


def _emlearn_trees(data: ThreeWaySplit, setting: Setting) -> Program:
    model = _trees(data.X, data.y, setting, _EMLEARN_LEAF)
    code = (
        _emlearn()
        .convert(
            _with_whole_thresholds(model),
            method=setting["method"],
            dtype="int16_t",
            leaf_bits=setting["leaf_bits"],
        )
        .save(name="model", include_proba=False)
    )
    n_features = data.X.shape[1]
    call = f"model_predict(inputs, {n_features})"
    predict = model.predict if setting["leaf_bits"] else partial(_majority, model)
    return Program(
        _with_emlearn_headers(code),
        '#include "model.h"',
        call,
        "int16_t",
        n_features,
        np.int16,
        predict,
    )


def _majority(model: Any, X: Any) -> Any:
    """The class that most trees predict, the first one of several."""
    trees = getattr(model, "estimators_", [model])
    classes = np.arange(len(model.classes_))
    votes = sum(np.equal.outer(tree.predict(X).astype(int), classes).astype(int) for tree in trees)
    return np.argmax(votes, axis=1)


def _emlearn() -> Any:
    """The library; its import makes NumPy raise an error on every underflow, which is undone."""
    with np.errstate():
        import emlearn
    return emlearn


def _with_emlearn_headers(code: str) -> dict[str, str]:
    """Generated code, and emlearn's headers beside it."""
    names = [f"eml_{name}.h" for name in ("common", "log", "net", "net_common", "trees")]
    sources = {name: (Path(_emlearn().includedir) / name).read_text("utf-8") for name in names}
    sources["model.h"] = code
    include = re.compile(r"#include <(eml_\w+\.h)>")
    return {name: include.sub(r'#include "\1"', text) for name, text in sources.items()}


_LARGEST_OUTPUT = """
void score(double *input, double *output);
static int predict(double *x)
{{
    double values[{n_classes}];
    int i, best = 0;
    score(x, values);
    for (i = 1; i < {n_classes}; ++i) if (values[i] > values[best]) best = i;
    return best;
}}
"""


def _m2cgen_trees(data: ThreeWaySplit, setting: Setting) -> Program:
    model = _trees(data.X, data.y, setting, _M2CGEN_NUMBER * data.n_classes)
    sources = {"score.c": m2cgen_c(model)}
    head, n_features = _LARGEST_OUTPUT.format(n_classes=data.n_classes), data.X.shape[1]
    return Program(
        sources, head, "predict(inputs)", "double", n_features, np.float32, model.predict
    )


def _micromlgen_trees(data: ThreeWaySplit, setting: Setting) -> Program:
    model = _trees(data.X, data.y, setting, _MICROMLGEN_LEAF)
    return _micromlgen_program(model, np.float32, partial(_majority, model))


def _micromlgen_program(
    model: Any, encode: Callable[[Any], Any], predict: Callable[[Any], Any]
) -> Program:
    """Methods of the class that micromlgen writes, as functions of C."""
    from micromlgen import port

    body = port(model).split("public:", 1)[1].rsplit("};", 1)[0].replace("protected:", "")
    head = "#include <math.h>\n#include <stdarg.h>\n#include <stdint.h>\n"
    head += "float compute_kernel(float *x, ...);\nint predict(float *x);\n"
    sources = {"predict.c": head + body}
    declaration, n_features = "int predict(float *x);", model.n_features_in_
    return Program(sources, declaration, "predict(inputs)", "float", n_features, encode, predict)


# -- Neural networks -------------------------------------------------------------------------------

_MLP_UPDATES = 2_000_000  # rows seen in training, unless the loss stops falling before
_HIDDEN = (
    *((4,), (8,), (16,), (32,), (64,), (128,), (256,)),
    *((16, 16), (32, 32), (64, 64), (128, 64), (128, 128), (256, 128)),
)


def _emlearn_mlp(data: ThreeWaySplit, setting: Setting) -> Program:
    scaler = StandardScaler().fit(data.X)
    model = MLPClassifier(
        tuple(setting["hidden"]),
        alpha=setting["alpha"],
        learning_rate_init=0.003,
        max_iter=int(np.clip(_MLP_UPDATES // len(data.X), 100, 500)),
        random_state=0,
    ).fit(scaler.transform(data.X), data.y)
    # what emlearn.convert(model).save(name="model") returns, which also compiles it into ./tmp
    activations = [model.activation] * (len(model.coefs_) - 1) + [model.out_activation_]
    write = _emlearn().net.c_generate_net_loadable
    code = write(activations, model.coefs_, model.intercepts_, "model")
    n_features = data.X.shape[1]
    call = f"model_predict(inputs, {n_features})"
    return Program(
        _with_emlearn_headers(code),
        '#include "model.h"',
        call,
        "float",
        n_features,
        scaler.transform,
        make_pipeline(scaler, model).predict,
    )


# -- Support vector machines -----------------------------------------------------------------------

_ROWS = (50, 100, 200, 400, 800, 1600)


@lru_cache(maxsize=8)
def _svc(data: ThreeWaySplit, n_rows: int) -> tuple[SVC, StandardScaler]:
    """An SVC of a subset of the rows; C and gamma have the best validation accuracy."""
    rows = subsample(data.y, n_rows, 0)
    scaler = StandardScaler().fit(data.X)
    X, X_validation = scaler.transform(data.X[rows]), scaler.transform(data.X_validation)
    models = [
        SVC(C=C, gamma=factor / X.shape[1]).fit(X, data.y[rows])
        for C, factor in product((1.0, 10.0, 100.0), (0.5, 1.0, 2.0, 4.0))
    ]
    best = max(models, key=lambda model: model.score(X_validation, data.y_validation))
    if best.support_vectors_.size > _MOST_NUMBERS:
        raise TooLargeError
    return best, scaler


def _m2cgen_svc(data: ThreeWaySplit, setting: Setting) -> Program:
    model, scaler = _svc(data, setting["n_rows"])
    return Program(
        {"score.c": kernel_functions(m2cgen_c(model))},
        votes_of_pairs(data.n_classes),
        "predict(inputs)",
        "double",
        data.X.shape[1],
        scaler.transform,
        make_pipeline(scaler, model).predict,
    )


def _micromlgen_svc(data: ThreeWaySplit, setting: Setting) -> Program:
    model, scaler = _svc(data, setting["n_rows"])
    return _micromlgen_program(model, scaler.transform, make_pipeline(scaler, model).predict)


_SOFT = [
    {**setting, "leaf_bits": 8}
    for setting in _FOREST_LADDER
    if setting["n_trees"] in (5, 10, 20) and setting["leaves"] in (16, 64, 256)
]
_HARD = [{**s, "leaf_bits": 0} for s in _TREE_LADDER + _FOREST_LADDER + _EXTRA_LADDER]
_FEW_FORESTS = [s for s in _FOREST_LADDER if s["n_trees"] in (5, 10, 20) and s["leaves"] != 1024]
_SUBSETS = [{"n_rows": n_rows} for n_rows in _ROWS]

FAMILIES = {
    "emlearn-inline": Family(
        "emlearn trees, inline",
        "emlearn",
        [{**setting, "method": "inline"} for setting in _HARD + _SOFT],
        _emlearn_trees,
    ),
    "emlearn-tables": Family(
        "emlearn trees, tables",
        "emlearn",
        [{**setting, "method": "loadable"} for setting in _HARD + _SOFT],
        _emlearn_trees,
    ),
    "emlearn-mlp": Family(
        "emlearn MLP",
        "emlearn",
        [{"hidden": hidden, "alpha": a} for hidden, a in product(_HIDDEN, (1e-4, 1e-2))],
        _emlearn_mlp,
    ),
    "m2cgen-trees": Family("m2cgen trees", "m2cgen", _TREE_LADDER + _FEW_FORESTS, _m2cgen_trees),
    "m2cgen-svc": Family("m2cgen SVC", "m2cgen", _SUBSETS, _m2cgen_svc),
    "micromlgen-trees": Family(
        "micromlgen trees", "micromlgen", _TREE_LADDER + _FEW_FORESTS, _micromlgen_trees
    ),
    "micromlgen-svc": Family("micromlgen SVC", "micromlgen", _SUBSETS, _micromlgen_svc),
}

"""Model files, kernlet's and LIBSVM's: damaged, edited on purpose, and used where they load."""

from __future__ import annotations

import json
import re
import struct
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fuzz.campaign import Target, check_sentence
from fuzz.mutate import damage

# -- Machines to start from ----------------------------------------------------------------------


@cache
def base_files() -> list[bytes]:
    """Files of about forty machines: every kernel, format, rule, column and type of class."""
    import kernlet

    files = []
    with tempfile.TemporaryDirectory() as folder:
        for model in (*_made_models(), *_fitted_models()):
            kernlet.save(model, Path(folder) / "m")
            files.append((Path(folder) / "m").read_bytes())
    return files


def _made_models() -> Iterator[Any]:
    """Models made of random numbers: they cost no training."""
    from kernlet import KernelExpansion
    from kernlet.affine import AffineMap
    from kernlet.kernels import RBF, DiagonalRBF, Laplacian, Linear, Polynomial, Sigmoid
    from kernlet.model.model import Model

    random = np.random.RandomState(0)
    kernels = [RBF(0.5), RBF(np.linspace(0.1, 2, 5)), Linear(), Sigmoid(0.1, 0.2), Laplacian(0.5)]
    kernels += [DiagonalRBF(gamma, 1 + random.rand(5, 3)) for gamma in (0.5, np.ones(5))]
    for kernel in [*kernels, Polynomial(0.5, 2, 1.0), Polynomial(1.0, 7, -1.0)]:
        yield KernelExpansion(kernel, random.randn(5, 3), random.randn(1, 5), random.randn(1))
    plain = [random.randn(5, 3), random.randn(3, 5), random.randn(3)]
    maps = [None, AffineMap(random.randn(3), np.ones(1)), AffineMap(0.0, 2.0, random.randn(3, 4))]
    for number, (input_map, names) in enumerate(zip(maps, _class_arrays(), strict=False)):
        expansion = KernelExpansion(RBF(0.3), *plain, input_map)
        temperature = [None, 0.5, 1e-3][number]
        yield Model(expansion, "classifier", names, temperature=temperature)
    for classes in _class_arrays():
        pairs = len(classes) * (len(classes) - 1) // 2
        expansion = KernelExpansion(
            RBF(1.0), np.float32(random.randn(4, 3)), random.randn(pairs, 4), random.randn(pairs)
        )
        rule = {"scheme": "one vs one", "votes": True, "break_ties": bool(random.randint(2))}
        yield Model(expansion, "classifier", classes, temperature=1.0, **rule)
    for packed in _quantized(random):
        yield Model(packed, "classifier", np.array([0, 1]), "one output", temperature=2.0)
    yield Model(KernelExpansion(RBF(1.0), *plain), "regressor", is_flat=False)
    several = KernelExpansion(RBF(1.0), *plain)
    quantiles = tuple(np.linspace(0.1, 0.9, several.n_outputs).tolist())
    output_names = tuple(f"output {number}" for number in range(several.n_outputs))
    yield Model(several, "regressor", is_flat=False, quantiles=quantiles, output_names=output_names)
    yield Model(KernelExpansion(RBF(1.0), *plain), "transformer", summary={"gap": 1e-9})
    yield Model(_one_output(random, 3), "regressor", feature_names=("a", "b", "a=b"))
    yield Model(_one_output(random, 3), "novelty", offset=0.5)
    empty = KernelExpansion(RBF(1.0), np.zeros((0, 3)), np.zeros((1, 0)), np.ones(1))
    yield Model(empty, "classifier", np.array(["no", "yes"]), "one output")
    encoding = _encoding()
    summary = {"estimator": "A", "parameters": {"C": 1.0, "n": [1, 2]}, "data": {"rows": 10}}
    expansion = _one_output(random, len(encoding.feature_names))
    yield Model(
        expansion,
        "classifier",
        np.array(["no", "yes"]),
        "one output",
        encoding=encoding,
        feature_names=encoding.feature_names,
        summary=summary,
    )


def _one_output(random: np.random.RandomState, n_features: int) -> Any:
    from kernlet import KernelExpansion
    from kernlet.kernels import RBF

    centers = random.randn(4, n_features)
    return KernelExpansion(RBF(0.2), centers, random.randn(1, 4), random.randn(1))


def _class_arrays() -> list[Any]:
    return [
        np.array(["a", "b\0", "\N{SNOWMAN}"], dtype=object),
        np.array([-1.5, 0.0, 1e10]),
        np.array([0, 1, 2**64 - 1], dtype=np.uint64),
        np.array(["x", "y", "z"]),
        np.array([False, True]),
    ]


def _quantized(random: np.random.RandomState) -> Iterator[Any]:
    """Packed machines of every format, with and without projection and columns' scales."""
    from kernlet import QuantizedExpansion
    from kernlet.quantization import FORMATS, encode, encode_columns
    from support.random_machines import SHAPES, random_compact

    for number, format in enumerate(FORMATS.values()):
        centers, coef = encode(random.randn(6, 2), format), encode(random.randn(1, 6), format)
        gamma = np.linspace(0.1, 1.0, 6) if number % 2 else np.array([0.5])
        if number % 3:
            shift, scale = encode_columns(random.randn(4), 1 + random.rand(4))
            projection = encode(random.randn(2, 4), format)
            yield QuantizedExpansion(gamma, centers, coef, np.zeros(1), shift, scale, projection)
        else:
            yield QuantizedExpansion(gamma, centers, coef, np.zeros(1), 0.5, 2.0)
    for shape in SHAPES.values():
        yield random_compact(np.random.default_rng(0), 1, shape=(6, 4), **shape)


def _encoding() -> Any:
    from kernlet.tables.dates import DateColumn
    from kernlet.tables.encode import CategoryColumn, ColumnEncoding, NumberColumn, OrdinalColumn

    columns = (
        NumberColumn("size", 1.5),
        NumberColumn("age", None),
        CategoryColumn("city", ("Bern", "Oslo"), True, (0, 0, 1), 1),
        CategoryColumn("on", ("False", "True"), False),
        OrdinalColumn("grade", ("low", "high"), (0.0, 1.0), None, -1.0),
        DateColumn("day", "year-month-day", ("year", "hour"), (2000.0, 12.0)),
    )
    return ColumnEncoding(columns)


def _fitted_models() -> Iterator[Any]:
    from sklearn.compose import ColumnTransformer
    from sklearn.datasets import load_iris
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
    from sklearn.svm import SVC

    from kernlet import (
        CompactKernelClassifier,
        CompactKernelRegressor,
        CompactNoveltyDetector,
        ProximalClassifier,
    )

    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    yield SVC(break_ties=True).fit(X, y)
    yield SVC(gamma=0.5).fit(sparse.csr_array(np.where(X > 1, X, 0)), y > 0)
    yield make_pipeline(StandardScaler(), PCA(2), SVC()).fit(X, y)
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    one_hot = OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist")
    steps = [("i", SimpleImputer(), [3]), ("c", one_hot, [1]), ("o", ordinal, [2])]
    columns = ColumnTransformer(steps, remainder="passthrough")
    yield make_pipeline(columns, SVC()).fit(X, y)
    yield ProximalClassifier(landmarks=5, random_state=0).fit(X, y)
    for storage in ("int8", "int4"):
        compact = CompactKernelClassifier(4, storage=storage, n_epochs=1, random_state=0)
        yield compact.fit(X * [1, 10, 100, 1000], y)
    yield CompactNoveltyDetector(max_bytes=100, random_state=0).fit(X)
    yield CompactKernelRegressor(4, n_epochs=1, random_state=0).fit(X, X[:, 0])


# -- Using what loads ----------------------------------------------------------------------------


def load_and_use(path: Path, rng: np.random.Generator) -> str:
    """Load a file; what loads must answer, or refuse in a sentence, whatever is done with it."""
    from kernlet import load
    from kernlet.export.file import ModelFileError

    try:
        machine = load(path)
    except ModelFileError as error:
        check_sentence(error)
        return "refused"
    use(machine, rng, path.parent)
    return "loaded"


def use(machine: Any, rng: np.random.Generator, folder: Path) -> None:
    """Predict, print, save and sometimes export a machine."""
    from kernlet.model.model import as_model

    model = as_model(machine)
    assert len(repr(machine)) < 10_000
    rows = _rows(model, rng)
    _in_a_sentence(lambda: _check_answers(machine, model, rows))
    _in_a_sentence(lambda: _check_saved_again(machine, rows, folder))
    if model.n_features <= 2000 and rng.random() < 0.3:
        with np.errstate(all="ignore"):
            _in_a_sentence(lambda: _check_values(model, rows))
    chance = rng.random()
    for share, consume in _CONSUMERS:
        if chance < share:
            _in_a_sentence(lambda consume=consume: consume(machine, model, rows, folder))
            return
        chance -= share


def _in_a_sentence(function: Callable[[], Any]) -> Any:
    """What a function returns; a ValueError must be a sentence, and nothing else may be raised."""
    try:
        return function()
    except ValueError as error:
        check_sentence(error)
        return None


def _rows(model: Any, rng: np.random.Generator) -> Any:
    """Some rows as the machine takes them: a table, sparse rows of wide machines, or an array."""
    scale = rng.choice([1.0, 1.0, 1.0, 0.0, 1e10, 1e200])
    if model.encoding is not None and not model.encoding.positions:
        return {name: _cells(rng) for name in model.encoding.names}
    n_features = model.n_features_in
    if n_features > 2000:
        places = rng.integers(n_features, size=6)
        return sparse.csr_array(
            (rng.normal(size=6), (np.arange(6) % 3, places)), shape=(3, n_features)
        )
    return rng.normal(size=(3, n_features)) * scale


def _cells(rng: np.random.Generator) -> list[Any]:
    choices = [None, 1, 2.5, "Bern", "low", "2020-01-31 12:00", True, "True", float("nan"), "x"]
    choices = choices[1:3] if rng.random() < 0.5 else choices
    return [choices[i] for i in rng.integers(len(choices), size=3)]


def _check_answers(machine: Any, model: Any, rows: Any) -> None:
    if model.kind == "expansion":
        values = machine.decision_values(rows)
        assert values.shape == (3, model.expansion.n_outputs)
        return
    if model.kind == "transformer":
        assert not np.isnan(machine.transform(rows)).any()
        return
    answers = machine.predict(rows)
    assert len(answers) == 3
    if model.kind == "regressor":
        assert not np.isnan(answers).any()
        return
    assert np.isin(answers, model.classes).all()
    assert not np.isnan(machine.decision_function(rows)).any()
    if hasattr(machine, "predict_proba"):
        probabilities = machine.predict_proba(rows)
        assert probabilities.shape == (3, len(machine.classes_))
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-6)
        assert (probabilities >= 0).all()


def _check_values(model: Any, rows: Any) -> None:
    """The outputs are those of the formula, evaluated number by number."""
    from kernlet.affine import CurvedMap

    is_curved = isinstance(model.expansion.input_map, CurvedMap)  # whose steps are in float32
    if is_curved or model.expansion.kernel.name == "laplacian":
        return
    X = model.rows(rows)
    outputs = model.outputs(X)
    expansion, kernel = model.expansion, model.expansion.kernel
    points = sparse.csr_array(X).toarray() if sparse.issparse(X) else X.astype(float)
    for input_map in (model.scaler, expansion.input_map):
        if input_map is not None:
            points = (points - input_map.shift.astype(float)) * input_map.scale.astype(float)
            matrix = input_map.matrix
            points = points if matrix is None else points @ matrix.astype(float).T
    centers = sparse.csr_array(expansion.centers).toarray().astype(float)
    fields = kernel.to_dict()
    gamma, coef0 = fields.get("gamma", 1.0), fields.get("coef0", 0.0)
    if kernel.name == "rbf":
        squares = ((points[:, None] - centers) ** 2).sum(axis=2)
        values, sizes = np.exp(-gamma * squares), np.ones(squares.shape)
    elif kernel.name == "diagonal_rbf":
        squares = ((points[:, None] - centers) ** 2 * kernel.weights.astype(float)).sum(axis=2)
        values, sizes = np.exp(-gamma * squares), np.ones(squares.shape)
    elif kernel.name == "rational_quadratic":
        squares = ((points[:, None] - centers) ** 2).sum(axis=2)
        values = (1 + gamma * squares / kernel.alpha) ** -kernel.alpha
        sizes = np.full(squares.shape, 1 + kernel.alpha)
    else:
        power = {"linear": 1, "sigmoid": 1}.get(kernel.name, fields.get("degree"))
        q = gamma * (points @ centers.T) + coef0
        # Round-off is a share of the largest that the terms of q could add up to.
        sizes = (abs(gamma) * (abs(points) @ abs(centers).T) + abs(coef0)) ** power * power
        values = np.tanh(q) if kernel.name == "sigmoid" else q**power
    coef = expansion.coef.astype(float)
    error = abs(outputs - (values @ coef.T + expansion.intercept))
    bound = (sizes + 1) @ abs(coef).T + abs(expansion.intercept)
    # gamma |x - z|^2 has few digits where the points are far apart, and exp none.
    assert ((error <= 1e-5 * bound) | ~np.isfinite(bound)).all(), (error, bound)


def _check_saved_again(machine: Any, rows: Any, folder: Path) -> None:
    """What was loaded can be saved, and is then the same."""
    import kernlet

    again, third = folder / "again", folder / "third"
    kernlet.save(machine, again)
    kernlet.save(kernlet.load(again), third)
    assert again.read_bytes() == third.read_bytes()


def _to_c(machine: Any, model: Any, rows: Any, folder: Path) -> None:
    import kernlet

    kernlet.to_c(machine, folder / "c")


def _to_onnx(machine: Any, model: Any, rows: Any, folder: Path) -> None:
    import kernlet

    kernlet.to_onnx(machine)


def _report(machine: Any, model: Any, rows: Any, folder: Path) -> None:
    from kernlet.report.page import write_report

    if model.kind not in ("classifier", "regressor", "novelty"):
        return
    X = model.rows(rows)
    y = np.zeros(3) if model.kind == "regressor" else model.classes[[0, 1, 1]]
    if not sparse.issparse(X):
        write_report(model, X, y, folder / "page.html", sizes=False)


def _compress(machine: Any, model: Any, rows: Any, folder: Path) -> None:
    import kernlet

    if model.kind in ("classifier", "regressor", "novelty"):
        kernlet.compress(machine, 2, random_state=0)


#: Shares of the loaded machines that are exported and so on: each of these takes longer.
_CONSUMERS = ((0.03, _to_c), (0.02, _to_onnx), (0.003, _report), (0.02, _compress))


# -- kernlet's files -----------------------------------------------------------------------------


def parts(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and body of a safetensors file."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def signed(header: dict[str, Any], body: bytes) -> bytes:
    """A file with a correct digest, as one who edits it on purpose would write it."""
    from kernlet.export.file import DIGEST_KEY, METADATA_KEY, digest
    from kernlet.export.machine_file import DTYPES

    tensors = {}
    for name, fields in header.items():
        if name == "__metadata__":
            continue
        try:
            start, end = fields["data_offsets"]
            numbers = np.frombuffer(body[start:end], DTYPES[fields["dtype"]])
            tensors[name] = numbers.reshape(fields["shape"])
        except (KeyError, TypeError, ValueError, OverflowError):
            pass  # no tensor: the file is refused for that
    text = header["__metadata__"][METADATA_KEY]
    header["__metadata__"][DIGEST_KEY] = digest(text, tensors)
    written = json.dumps(header).encode()
    return struct.pack("<Q", len(written)) + written + body


def _random_file(rng: np.random.Generator) -> bytes:
    files = base_files()
    return files[rng.integers(len(files))]


def damaged_bytes(rng: np.random.Generator, folder: Path) -> str:
    """Bytes flipped, cut, repeated: the digest notices."""
    (folder / "m").write_bytes(damage(_random_file(rng), rng))
    return load_and_use(folder / "m", rng)


def edited_metadata(rng: np.random.Generator, folder: Path) -> str:
    """JSON values replaced, deleted, repeated or taken from another file, with a good digest."""
    header, body = parts(_random_file(rng))
    metadata = json.loads(header["__metadata__"]["kernlet"])
    for _ in range(min(4, int(rng.geometric(0.6)))):
        _edit(metadata, rng)
    text = json.dumps(metadata)
    for number, raw in enumerate(_RAW):
        text = text.replace(f'"@{number}@"', raw)
    header["__metadata__"]["kernlet"] = text
    (folder / "m").write_bytes(signed(header, body))
    return load_and_use(folder / "m", rng)


#: JSON that Python does not write.
_RAW = (
    "1e400", "-1e400", "NaN", "Infinity", "1e-400", "9" * 400, "9" * 5000, "[" * 60 + "]" * 60,
    "[" * 2000 + "]" * 2000, '{"a": 1, "a": 2}', '"\\ud800"', '"\\u0000"', "-0.0", "1.0",
)  # fmt: skip
_VALUES = (
    None, True, False, 0, 1, -1, 2, 3, 2**31 - 1, 2**31, 2**53, 2**63, 0.5, -1.5, 1e38, 1e-38,
    1e299, 1e-299, 5e-324, 1e308, "", "a", "rbf", "int8", "float32", "ternary", "classifier",
    "expansion", "regressor", "transformer", "novelty", "one vs one", "one output", "x" * 2000, [],
    {}, [0], [1, 1], ["a"], ["a", "a"], [[]], {"a": 1},
)  # fmt: skip


def _edit(metadata: Any, rng: np.random.Generator) -> None:
    """One change at a random place."""
    places = list(_places(metadata))
    parent, key = places[rng.integers(len(places))]
    kind = rng.integers(6)
    if kind == 0:
        parent[key] = _VALUES[rng.integers(len(_VALUES))]
    elif kind == 1:
        parent[key] = f"@{rng.integers(len(_RAW))}@"
    elif kind == 2:
        del parent[key]
    elif kind == 3:
        other, place = places[rng.integers(len(places))]
        parent[key] = json.loads(json.dumps(other[place]))
    elif kind == 4:
        header, _ = parts(_random_file(rng))
        other = json.loads(header["__metadata__"]["kernlet"])
        name = str(rng.choice(sorted(other)))
        metadata[name] = other[name]
    elif isinstance(parent[key], list):
        parent[key] = parent[key] * 2
    elif isinstance(parent[key], int | float):
        parent[key] = parent[key] * float(rng.choice([-1, 0.5, 1e3, 1e30, 1e-30, 1e200]))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value: what it is in, and its key."""
    for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inside, dict | list):
            yield from _places(inside)


_NUMBERS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 1e38, 1e-45, 5e-324, 1e154, 1e5)
_SIZES = (0, 1, 2, 3, 5, 7, 2**20, 2**31, 2**40, 2**62, 2**63 - 1, -1, 10**30)


def edited_tensors(rng: np.random.Generator, folder: Path) -> str:
    """Shapes, dtypes, offsets, names and numbers of tensors changed, mostly with a good digest."""
    header, body = parts(_random_file(rng))
    changed = bytearray(body)
    for _ in range(min(4, int(rng.geometric(0.6)))):
        names = [name for name in header if name != "__metadata__"]
        name = names[rng.integers(len(names))]
        kind = rng.integers(6)
        if kind == 0:
            _change_shape(header[name], rng)
        elif kind == 1:
            types = ["F64", "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL", "X"]
            header[name]["dtype"] = types[rng.integers(len(types))]
        elif kind == 2:
            offsets = header[name]["data_offsets"]
            offsets[rng.integers(2)] = int(rng.choice([0, 1, 8, 16, len(body), 2**40]))
        elif kind == 3 and len(names) > 1:
            other = names[rng.integers(len(names))]
            header[name], header[other] = header[other], header[name]
        elif kind == 4:
            header[f"{name}{rng.choice(['', '.matrix', '2'])}"] = header.pop(name)
        else:
            _change_numbers(changed, header[name], rng)
    (folder / "m").write_bytes(signed(header, bytes(changed)))
    return load_and_use(folder / "m", rng)


def _change_shape(fields: dict[str, Any], rng: np.random.Generator) -> None:
    shape = fields["shape"]
    if len(shape) == 2 and rng.random() < 0.5:
        fields["shape"] = shape[::-1]
    elif rng.random() < 0.3:
        fields["shape"] = [*shape, 1] if rng.random() < 0.5 else [int(np.prod(shape))]
    else:
        sizes = rng.integers(len(_SIZES), size=rng.integers(4))
        fields["shape"] = [_SIZES[i] for i in sizes]


def _change_numbers(body: bytearray, fields: dict[str, Any], rng: np.random.Generator) -> None:
    start, end = fields["data_offsets"]
    dtype = {"F64": np.float64, "F32": np.float32, "F16": np.float16}.get(fields["dtype"])
    width = 1 if dtype is None else np.dtype(dtype).itemsize
    if not 0 <= start < end <= len(body) or (end - start) // width == 0:
        return
    for _ in range(rng.integers(1, 5)):
        at = start + width * int(rng.integers((end - start) // width))
        if dtype is None:
            body[at] = int(rng.choice([0, 1, 127, 128, 254, 255]))
        else:
            with np.errstate(over="ignore"):
                number = np.array(_NUMBERS[rng.integers(len(_NUMBERS))]).astype(dtype)
            body[at : at + width] = number.tobytes()


# -- LIBSVM's files ------------------------------------------------------------------------------


@cache
def libsvm_files() -> list[str]:
    """Models of every type and kernel, with labels and without, dense and sparse vectors."""
    random = np.random.RandomState(1)
    headers = {
        "linear": "",
        "rbf": "gamma 0.5\n",
        "polynomial": "degree 3\ngamma 0.5\ncoef0 1\n",
        "sigmoid": "gamma 0.1\ncoef0 -1\n",
    }
    texts = []
    for kernel, fields in headers.items():
        for n_classes in (2, 3, 5):
            pairs, counts = n_classes * (n_classes - 1) // 2, [2] * n_classes
            kind = "nu_svc" if n_classes == 3 else "c_svc"
            lines = [
                f"svm_type {kind}\nkernel_type {kernel}\n{fields}"
                f"nr_class {n_classes}\ntotal_sv {sum(counts)}",
                "rho " + " ".join(f"{v:.6g}" for v in random.randn(pairs)),
                "label " + " ".join(map(str, random.permutation(n_classes) - 1)),
                "nr_sv " + " ".join(map(str, counts)),
                "SV",
            ]
            for _ in range(sum(counts)):
                coef = " ".join(f"{v:.6g}" for v in random.randn(n_classes - 1))
                features = np.sort(random.permutation(8 if n_classes < 5 else 500)[:4]) + 1
                lines.append(coef + "".join(f" {f}:{random.randn():.5g}" for f in features) + " ")
            texts.append("\n".join(lines) + "\n")
        for kind in ("one_class", "epsilon_svr", "nu_svr"):
            start = f"svm_type {kind}\nkernel_type {kernel}\n{fields}nr_class 2\ntotal_sv 3\n"
            noise = "" if kind == "one_class" else "probA 0.3\n"
            vectors = "".join(f"{c:.3f} 1:{c:.5g} 4:1 \n" for c in random.rand(3))
            texts.append(f"{start}rho 0.5\n{noise}SV\n{vectors}")
    return texts


_WORDS = (
    "0", "-1", "nan", "inf", "1e300", "-1e308", "1e308", "1e-320", "2147483647", "2147483648",
    "2000000000", "1000", "1001", "20000000", "99999999999", "1_0", "0x1", ":", "1:", ":1", "1:1",
    "500:1e200", "16777216:1", "2147483647:1", "SV", "label", "\n", "\t", "", "\u0663", "1" * 400,
    "one_class", "nu_svr",
)  # fmt: skip


_ODD_NUMBERS = ("0", "1e300", "-1e308", "1e154", "1e-320", "-0", "1e38", "5", "1.5", "-2", "1e999")


def libsvm_models(rng: np.random.Generator, folder: Path) -> str:
    """Words replaced by hostile ones, numbers by hostile numbers, or bytes damaged."""
    texts = libsvm_files()
    text = texts[rng.integers(len(texts))]
    kind = rng.random()
    if kind < 0.4:
        numbers = list(re.finditer(r"(?<=[ :])-?[0-9.]+(?=[ \n])", text[text.index("SV") :]))
        content = text
        for _ in range(rng.integers(1, 4)):
            old = numbers[rng.integers(len(numbers))][0]
            content = content.replace(old, _ODD_NUMBERS[rng.integers(len(_ODD_NUMBERS))])
        content = content.encode()
    elif kind < 0.8:
        words = text.replace("\n", " \n ").split(" ")
        for _ in range(min(5, int(rng.geometric(0.5)))):
            words[rng.integers(len(words))] = _WORDS[rng.integers(len(_WORDS))]
        content = " ".join(words).rstrip(" ").encode()
    else:
        content = damage(text.encode(), rng)
    (folder / "m").write_bytes(content)
    return read_and_use_libsvm(folder / "m", rng)


def read_and_use_libsvm(path: Path, rng: np.random.Generator) -> str:
    """Read a LIBSVM model and use it like one of kernlet's."""
    from kernlet.export.predictors import PREDICTORS
    from kernlet.model.model import as_model

    try:
        model = as_model(path)
    except ValueError as error:
        check_sentence(error)
        return "refused"
    use(PREDICTORS[model.kind](model), rng, path.parent)
    return "loaded"


TARGETS = [
    Target("model-bytes", "files", damaged_bytes, quick=60),
    Target("model-metadata", "files", edited_metadata, quick=100),
    Target("model-tensors", "files", edited_tensors, quick=60),
    Target("libsvm-models", "files", libsvm_models, quick=60),
]

"""What ``save`` writes ``load`` reads as the same machine; what it refuses leaves no file."""

from contextlib import suppress
from datetime import date

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.svm import SVC

import kernlet
from kernlet import KernelExpansion, L1KernelClassifier, QuantizedExpansion
from kernlet.affine import AffineMap
from kernlet.kernels import RBF, Laplacian, Linear, Polynomial, Sigmoid
from kernlet.model.model import Model
from kernlet.quantization import FORMATS, encode
from kernlet.tables.dates import DATE_ORDERS, DATE_PARTS, DateColumn
from kernlet.tables.encode import CategoryColumn, ColumnEncoding, NumberColumn, OrdinalColumn
from support.exportable_models import IRIS, IRIS_LABELS


def mostly(usual, odd):
    """One in ten is odd: more would leave few machines that can be saved."""
    return st.integers(0, 9).flatmap(lambda number: odd if number == 9 else usual)


USUAL = st.floats(-10, 10)
NUMBERS = mostly(USUAL, st.floats())
TEXTS = st.text(st.characters(codec=None, categories=None), max_size=5)
INTEGERS = st.integers(-(2**70), 2**70) | st.integers(-3, 3)


@st.composite
def kernels(draw, n_centers):
    gamma = draw(mostly(st.floats(0, 10), st.floats()))
    kind = draw(st.sampled_from(["rbf", "laplacian", "widths", "linear", "poly", "sigmoid"]))
    if kind == "widths":
        widths = draw(st.lists(st.floats(0, 10, width=32), min_size=n_centers, max_size=n_centers))
        return RBF(np.array(widths, dtype=draw(st.sampled_from([np.float32, np.float64]))))
    if kind == "rbf":
        return RBF(gamma)
    if kind == "laplacian":
        return Laplacian(gamma)
    if kind == "linear":
        return Linear()
    if kind == "poly":
        return Polynomial(gamma, draw(mostly(st.integers(1, 5), INTEGERS)), draw(NUMBERS))
    return Sigmoid(gamma, draw(NUMBERS))


def arrays(draw, shape, numbers=USUAL):
    count = int(np.prod(shape))
    dtype = draw(st.sampled_from([np.float64, np.float32, np.float16, np.int64]))
    values = np.array(draw(st.lists(numbers, min_size=count, max_size=count)), dtype=float)
    with np.errstate(all="ignore"):
        return values.reshape(shape).astype(dtype)


@st.composite
def expansions(draw, n_outputs, n_features):
    n_centers = draw(st.integers(0, 3))
    centers = arrays(draw, (n_centers, n_features), draw(st.sampled_from([USUAL, NUMBERS])))
    coef, intercept = arrays(draw, (n_outputs, n_centers)), arrays(draw, (n_outputs,))
    if draw(st.booleans()):
        formats = [FORMATS[draw(st.sampled_from(sorted(FORMATS)))] for _ in range(2)]
        scales = [draw(mostly(st.floats(0.1, 10), st.floats())) for _ in range(2)]
        gamma = np.array([draw(st.floats(0.1, 10))])
        packed = (
            encode(values, format) for values, format in zip((centers, coef), formats, strict=True)
        )
        return QuantizedExpansion(gamma, *packed, intercept, *scales)
    if draw(st.booleans()):
        centers = sparse.csr_array(np.asarray(centers, dtype=float))
    width = draw(st.sampled_from([1, n_features]))
    input_map = AffineMap(arrays(draw, (width,)), arrays(draw, (1,)))
    input_map = draw(st.sampled_from([None, input_map]))
    return KernelExpansion(draw(kernels(n_centers)), centers, coef, intercept, input_map)


@st.composite
def class_arrays(draw):
    kinds = [TEXTS, TEXTS.map(lambda text: f"{text}\0"), st.binary(max_size=3), st.booleans()]
    kinds += [INTEGERS, NUMBERS, st.dates(), st.none() | TEXTS | INTEGERS]
    values = draw(st.lists(draw(st.sampled_from(kinds)), min_size=2, max_size=4, unique=True))
    with suppress(TypeError):
        values = sorted(values)
    dtypes = st.sampled_from([str, "S", "M8[D]", *np.typecodes["All"]])
    dtype = draw(mostly(st.sampled_from([None, object]), dtypes))
    if dtype in (None, object):
        classes = np.empty(len(values), dtype=object)
        classes[:] = values
        return classes if dtype is object else np.array(values)
    with np.errstate(all="ignore"):
        return np.array(values, dtype=dtype)


@st.composite
def encodings(draw, n_features):
    columns = []
    for number in range(n_features):
        name, fill = draw(TEXTS), draw(st.none() | NUMBERS | st.integers(0, 3))
        texts = tuple(draw(st.lists(TEXTS, max_size=3)))
        values = tuple(draw(st.lists(NUMBERS, min_size=len(texts), max_size=len(texts))))
        parts = (draw(st.sampled_from(DATE_PARTS)),)
        columns.append(
            [
                NumberColumn(name, fill),
                CategoryColumn(name, (f"a{number}",), False),
                OrdinalColumn(name, texts, values, fill, draw(st.none() | NUMBERS)),
                DateColumn(name, draw(st.sampled_from(sorted(DATE_ORDERS))), parts, (fill or 0,)),
            ][draw(st.integers(0, 3))]
        )
    if draw(st.booleans()):
        return ColumnEncoding(tuple(columns))
    places = tuple(range(n_features))
    return ColumnEncoding(tuple(columns), places, draw(st.integers(0, 9)), draw(st.booleans()))


@st.composite
def models(draw):
    n_features = draw(st.integers(1, 3))
    kinds = ["classifier", "classifier", "regressor", "transformer", "novelty"]
    kind = draw(st.sampled_from(kinds))
    n_outputs, rule = draw(st.integers(1, 3)), {}
    if kind == "classifier":
        classes = draw(class_arrays())
        scheme = "one output" if len(classes) == 2 else "one vs rest"
        n_outputs = 1 if len(classes) == 2 else len(classes)
        temperature = draw(st.none() | NUMBERS | st.just(np.float32(2)))
        rule = {"classes": classes, "scheme": scheme, "temperature": temperature}
        rule |= {
            "votes": draw(st.booleans()),
            "break_ties": draw(st.sampled_from([True, np.True_])),
        }
        rule["offset"] = draw(st.just(0.0) | NUMBERS)
    if kind == "novelty":
        n_outputs, rule = 1, {"offset": draw(NUMBERS)}
    if draw(st.booleans()):
        rule["encoding"] = draw(encodings(n_features))
    elif draw(st.booleans()):
        count = draw(st.sampled_from([n_features, n_features, 4]))
        rule["feature_names"] = tuple(draw(st.lists(TEXTS, min_size=count, max_size=count)))
    values = st.none() | st.booleans() | mostly(st.integers(-3, 3), INTEGERS) | NUMBERS | TEXTS
    values = st.recursive(values, lambda v: st.lists(v, max_size=2) | st.dictionaries(TEXTS, v))
    summary = draw(st.just({}) | st.dictionaries(TEXTS | st.integers(), values, max_size=2))
    expansion = draw(expansions(n_outputs, n_features))
    is_flat = draw(st.booleans())
    return Model(expansion, kind, is_flat=is_flat, summary=summary, **rule)


def outputs(expansion):
    rows = np.random.RandomState(0).randn(4, expansion.n_features)
    with np.errstate(all="ignore"):
        return expansion.decision_values(rows)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_save_accepts_is_loaded_equal(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("m")
    try:
        model = data.draw(models())
    except (ValueError, OverflowError, TypeError):
        event("no machine")
        return  # NumPy or the machine refuses it already
    path = folder / "m"
    try:
        kernlet.save(model, path)
    except ValueError as error:
        message = str(error)
        assert message.endswith(".")
        assert "\n" not in message
        assert len(message) < 600
        assert not list(folder.iterdir())
        return
    event("saved")
    loaded = kernlet.load(path)
    if model.classes is not None:
        assert loaded.model.classes.tolist() == model.classes.tolist()
        assert loaded.model.classes.dtype.kind == model.classes.dtype.kind
        assert loaded.model.temperature == model.temperature
        assert loaded.model.offset == model.offset
    assert loaded.model.encoding == model.encoding
    assert loaded.model.feature_names_in == model.feature_names_in
    assert loaded.n_centers_ == model.expansion.n_centers
    assert_array_equal(outputs(loaded.expansion_), outputs(model.expansion))
    kernlet.save(loaded, folder / "again")
    assert (folder / "again").read_bytes() == path.read_bytes()


EYE = KernelExpansion(RBF(1.0), np.eye(2), np.array([[1.0, -1.0]]), np.zeros(1))


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["a", "a\0"], dtype=object),
        np.array(["a", "\ud800"], dtype=object),
        np.array(["", "a"]),
        np.array([False, True]),
        np.array([0, 2**64 - 1], dtype=np.uint64),
        np.array([-0.5, 1e300]),
    ],
    ids=str,
)
def test_odd_classes_are_loaded_as_they_are(classes, tmp_path):
    kernlet.save(Model(EYE, "classifier", classes, "one output"), tmp_path / "m")
    loaded = kernlet.load(tmp_path / "m").classes_
    assert loaded.tolist() == classes.tolist()
    assert loaded.dtype == classes.dtype


@pytest.mark.parametrize(
    "classes",
    [
        np.array([0.5, np.nan]),
        np.array([b"a", b"b"]),
        np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]"),
        np.array([date(2020, 1, 1), date(2021, 1, 1)], dtype=object),
        np.array([1, 2], dtype=object),
        np.array([2**70, 2**71], dtype=object),
        np.array([1, 2], dtype=np.float16),
        np.array([1, 2], dtype=np.longdouble),
        np.array([1, 2j]),
    ],
    ids=str,
)
def test_classes_that_no_file_holds_are_refused(classes, tmp_path):
    with pytest.raises(ValueError, match=r"A class .* cannot be saved: train with texts"):
        kernlet.save(Model(EYE, "classifier", classes, "one output"), tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coef": np.array([[np.nan, 1.0]])}, "its coef hold NaN or infinity"),
        ({"centers": np.array([[np.inf, 1.0], [0, 0]])}, "its centers hold NaN or infinity"),
        ({"intercept": np.array([np.nan])}, "its intercept hold NaN or infinity"),
        ({"kernel": RBF(np.ones(3))}, "another number of kernel widths than of centers"),
        ({"kernel": Polynomial(1.0, 2.5)}, "kernel.degree must be an integer to be saved"),
    ],
    ids=str,
)
def test_machines_that_load_would_refuse_are_not_saved(change, message, tmp_path):
    fields = {"kernel": RBF(1.0), "centers": np.eye(2), "coef": np.ones((1, 2))}
    with pytest.raises(ValueError, match=message):
        kernlet.save(
            KernelExpansion(**{**fields, "intercept": np.zeros(1), **change}), tmp_path / "m"
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"feature_names": ("a",)}, "has 1 feature names for 2 features"),
        ({"temperature": np.inf}, "is not JSON"),
        ({"temperature": -1.0}, "temperature must be a finite number larger than 0"),
        ({"summary": {"gap": 10**400}}, "beyond 64 bits"),
        ({"summary": {"gap": np.nan}}, "is not JSON"),
        ({"summary": {"gap": {1, 2}}}, "is not JSON"),
        ({"summary": {1: "a", "1": "b"}}, "its summary would be read otherwise"),
    ],
    ids=str,
)
def test_models_that_load_would_refuse_are_not_saved(fields, message, tmp_path):
    classes = np.array([0, 1])
    with pytest.raises(ValueError, match=message):
        kernlet.save(Model(EYE, "classifier", classes, "one output", **fields), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_kernels_have_one_limit_everywhere(tmp_path):
    for kernel, degree, gamma in (("poly", 1001, 0.1), ("rbf", 3, 2e300)):
        svc = SVC(kernel=kernel, degree=degree, gamma=gamma).fit(IRIS / 10, IRIS_LABELS)
        for consume in (kernlet.save, kernlet.to_c):
            with pytest.raises(ValueError, match=r"kernel\.(degree|gamma) must be"):
                consume(svc, tmp_path / "m")
        with pytest.raises(ValueError, match=r"kernel\.(degree|gamma) must be"):
            kernlet.to_onnx(svc)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"'degree' .* in the range \[1, 1000\]"):
        L1KernelClassifier(kernel="poly", degree=1001).fit(IRIS, IRIS_LABELS)
    for make in (lambda: Polynomial(1.0, 10**400), lambda: RBF(np.nan), lambda: Sigmoid(np.inf)):
        with pytest.raises(ValueError, match=r"kernel\..* must be from"):
            make()

"""Thousands of damaged files: one clear error each, no crash, no hang, no large allocation."""

import json
import struct
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC

import kernlet
from kernlet import CompactKernelClassifier, KernelExpansion
from kernlet.export.file import ModelFileError
from kernlet.kernels.rbf import RBF
from kernlet.model.model import Model
from support.exportable_models import IRIS, IRIS_LABELS
from support.model_files import joined, parts, signed
from support.random_machines import SHAPES, random_compact


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Whole files, and a place for damaged ones."""
    folder = tmp_path_factory.mktemp("files")
    compact = CompactKernelClassifier(6, storage="int4", n_epochs=1, random_state=0)
    models = [
        make_pipeline(StandardScaler(), SVC()).fit(IRIS, IRIS_LABELS),
        compact.fit(IRIS, IRIS_LABELS),
        make_pipeline(_columns(), PCA(3), SVC()).fit(IRIS, IRIS_LABELS),
        *(
            Model(_compact(name), "classifier", np.arange(3))
            for name in ("everything", "steps and asinh", "diagonal widths")
        ),
    ]
    for number, model in enumerate(models):
        kernlet.save(model, folder / f"{number}")
    return folder, [(folder / f"{number}").read_bytes() for number in range(len(models))]


def _compact(name):
    """A machine of a shape with all kinds of tables, for four features."""
    return random_compact(np.random.default_rng(0), shape=(6, 4), **SHAPES[name])


def _columns():
    """Columns of all kinds, by position."""
    one_hot = OneHotEncoder(min_frequency=9, handle_unknown="infrequent_if_exist")
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    steps = [("i", SimpleImputer(), [3]), ("c", one_hot, [1]), ("o", ordinal, [2])]
    return ColumnTransformer(steps, remainder="passthrough")


def attempt(folder, content):
    """Load a damaged file: a machine that predicts, or one sentence."""
    path = folder / "damaged"
    path.write_bytes(content)
    try:
        machine = kernlet.load(path)
    except ModelFileError as error:
        text = str(error)
        assert text.startswith(str(path))
        assert "\n" not in text
        assert len(text) < 500
        return None
    if machine.n_features_in_ == 4:
        # an encoding may refuse cells, or take tables only
        with np.errstate(all="ignore"), suppress(ValueError):
            machine.predict(IRIS[:3])
    return machine


def holds_the_same(content, original):
    """Whether only blanks between the parts of the header differ, which mean nothing."""
    return parts(content) == parts(original)


@pytest.mark.slow
@settings(max_examples=700)
@given(number=st.integers(0, 5), share=st.floats(0, 1, exclude_max=True))
def test_truncated(files, number, share):
    folder, contents = files
    content = contents[number]
    assert attempt(folder, content[: int(share * len(content))]) is None


@pytest.mark.slow
@settings(max_examples=1200)
@given(
    number=st.integers(0, 5),
    flips=st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 255)), min_size=1, max_size=8),
    in_header=st.booleans(),
)
def test_bytes_flipped(files, number, flips, in_header):
    folder, contents = files
    content = bytearray(contents[number])
    (length,) = struct.unpack("<Q", content[:8])
    size = 8 + length if in_header else len(content)
    for place, change in flips:
        content[place % size] ^= change
    machine = attempt(folder, bytes(content))
    assert machine is None or in_header or holds_the_same(bytes(content), contents[number])


JSON_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(-3, 10**12), max_size=3),
    st.sampled_from([[], {}, "int8", "rbf", "float32", 10**30, 1e308, -1, 0, "classifier"]),
)


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inside in items:
        if isinstance(inside, dict | list):
            yield from places(inside, (*path, key))
        else:
            yield (*path, key)


@pytest.mark.slow
@settings(max_examples=1200)
@given(number=st.integers(0, 5), data=st.data())
def test_metadata_edited(files, number, data):
    folder, contents = files
    header, body = parts(contents[number])
    words = json.loads(header["__metadata__"]["kernlet"])
    every = [path for path in places(words) if path and path[0] != "summary"]
    *way, last = data.draw(st.sampled_from(every))
    inside = words
    for key in way:
        inside = inside[key]
    if data.draw(st.booleans()):
        inside[last] = data.draw(JSON_VALUES)
    else:
        del inside[last]
    header["__metadata__"]["kernlet"] = json.dumps(words)
    attempt(folder, signed(header, body))


@pytest.mark.slow
@settings(max_examples=800)
@given(number=st.integers(0, 5), data=st.data())
def test_tensors_that_lie(files, number, data):
    folder, contents = files
    header, body = parts(contents[number])
    name = data.draw(st.sampled_from([key for key in header if key != "__metadata__"]))
    huge = st.sampled_from([0, 1, 2, 3, 7, 2**31, 2**40, 2**62, 2**63 - 1, -1])
    change = data.draw(st.sampled_from(["shape", "dtype", "data_offsets", "gone", "twice"]))
    if change == "shape":
        header[name]["shape"] = data.draw(st.lists(huge, max_size=4))
    elif change == "dtype":
        types = ["F64", "F32", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "X"]
        header[name]["dtype"] = data.draw(st.sampled_from(types))
    elif change == "data_offsets":
        header[name]["data_offsets"] = data.draw(st.lists(huge, min_size=2, max_size=2))
    elif change == "gone":
        del header[name]
    else:
        header["more"] = header[name]
    assert attempt(folder, joined(header, body)) is None or change in ("shape", "dtype")


@pytest.mark.slow
@settings(max_examples=400)
@given(number=st.integers(0, 5), data=st.data())
def test_numbers_edited_on_purpose(files, number, data):
    folder, contents = files
    header, body = parts(contents[number])
    body = bytearray(body)
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=20)):
        body[place] = data.draw(st.sampled_from([0, 1, 127, 128, 240, 255]))
    attempt(folder, signed(header, bytes(body)))


@settings(max_examples=300)
@given(content=st.binary(max_size=400))
def test_foreign(files, content):
    folder, _ = files
    assert attempt(folder, content) is None


@pytest.mark.parametrize(
    "content",
    [
        struct.pack("<Q", 2**63) + b"{" + b" " * 100,
        struct.pack("<Q", 99_000_000) + b"{" + b" " * 100,
        joined({"__metadata__": {"kernlet": "[" * 100_000}}, b""),
        joined({"__metadata__": {"kernlet": "9" * 100_000}}, b""),
        joined({"__metadata__": {"kernlet": '{"format_version": NaN}'}}, b""),
        joined({"__metadata__": {"kernlet": "null"}}, b""),
        joined({"a": {"dtype": "F64", "shape": [2**30, 2**30], "data_offsets": [0, 8]}}, b"x" * 8),
        joined({}, b""),
        b"",
    ],
    ids=range(9),
)
def test_large_claims_take_no_memory(files, content):
    tracemalloc.start()
    try:
        assert attempt(files[0], content) is None
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def with_metadata(content, change):
    """A file whose metadata were changed on purpose."""
    header, body = parts(content)
    words = json.loads(header["__metadata__"]["kernlet"])
    change(words)
    header["__metadata__"]["kernlet"] = json.dumps(words)
    return joined(header, body)


def long_classes(words):
    names = [f"{i:06}" for i in range(20_000)]
    names[-1] += "x" * 100_000
    words["classes"] = {"type": "str", "values": names}
    words["scheme"] = "one vs rest"


def long_columns(words):
    values = [str(i) for i in range(2000)]
    column = {"category": "x" * 10_000, "values": values, "has_missing": False}
    words["encoding"] = [column, column | {"category": "y"}]


def wide_table(words):
    words["machine"]["tables"]["centers"] |= {"format": "ternary", "shape": [40_000, 10_000]}


@pytest.mark.parametrize(
    ("number", "change", "message"),
    [
        (0, long_classes, "3 outputs for 20000 classes"),
        (0, long_columns, "column names that are too long"),
        (1, wide_table, "when it is unpacked"),
    ],
)
def test_small_files_of_large_machines_take_no_memory(files, number, change, message):
    folder, contents = files
    (folder / "bomb").write_bytes(with_metadata(contents[number], change))
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=message):
            kernlet.load(folder / "bomb")
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


def test_one_long_class_name_is_no_width_for_all(tmp_path):
    names = np.array(["a" * 3_000_000, "b", "c", "d"], dtype=object)
    expansion = KernelExpansion(RBF(1.0), np.eye(4), np.eye(4), np.zeros(4))
    with pytest.raises(ValueError, match="too long to be saved"):
        kernlet.save(Model(expansion, "classifier", names), tmp_path / "long")
    kernlet.save(Model(expansion, "classifier", np.array(list("abcd"))), tmp_path / "m")

    def lengthen(words):
        words["classes"]["values"][0] = names[0]

    (tmp_path / "bomb").write_bytes(with_metadata((tmp_path / "m").read_bytes(), lengthen))
    with pytest.raises(ModelFileError, match="class names that are too long"):
        kernlet.load(tmp_path / "bomb")


def test_a_newer_format_says_what_to_do(files):
    folder, contents = files
    header, body = parts(contents[0])
    words = json.loads(header["__metadata__"]["kernlet"]) | {"format_version": 3}
    header["__metadata__"]["kernlet"] = json.dumps(words)
    assert attempt(folder, joined(header, body)) is None
    (folder / "new").write_bytes(joined(header, body))
    with pytest.raises(ModelFileError, match="written by a newer kernlet"):
        kernlet.load(folder / "new")


def test_the_files_themselves_load(files):
    folder, contents = files
    for content in contents:
        assert attempt(folder, content) is not None
        assert attempt(folder, joined(*parts(content))) is not None


def test_a_message_names_the_field_and_what_it_must_be(files):
    folder, contents = files
    changes = [
        (("machine", "kernel", "gamma"), "wide", r"kernel\.gamma must be a finite number"),
        (("machine", "kernel", "gamma"), -1.0, r"kernel\.gamma must be from 0 to 1e\+300"),
        (("machine", "kernel", "name"), "other", r"kernel\.name must be one of .*not 'other'"),
        (("machine", "front"), 1, r"machine\.front must be true or false"),
        (("scheme",), "vote", "scheme must be one of one output, one vs rest, one vs one"),
        (("classes", "type"), 3, r"classes\.type must be one of int8"),
        (("temperature",), 0, "temperature must be a finite number larger than 0"),
        (("feature_names",), ["a", 1], r"feature_names\[1\] must be a text"),
        (("summary",), [], "summary must be an object"),
    ]
    for (*outer, last), value, message in changes:

        def change(metadata, outer=outer, last=last, value=value):
            for key in outer:
                metadata = metadata[key]
            metadata[last] = value

        (folder / "edited").write_bytes(with_metadata(contents[0], change))
        with pytest.raises(ModelFileError, match=f"edited is a corrupt model file: {message}"):
            kernlet.load(folder / "edited")


def test_widths_per_center_load_from_a_new_and_from_an_old_file(tmp_path):
    gamma = np.array([0.5, 1.0, 2.0, 4.0])
    expansion = KernelExpansion(RBF(gamma), np.eye(4), np.ones((1, 4)), np.zeros(1))
    kernlet.save(expansion, tmp_path / "new")
    assert kernlet.load(tmp_path / "new").kernel == RBF(gamma)
    header, body = parts((tmp_path / "new").read_bytes())
    header["gamma"] = header.pop("kernel.gamma")
    metadata = json.loads(header["__metadata__"]["kernlet"])
    metadata["machine"]["kernel"] = {"name": "rbf of several widths"}
    header["__metadata__"]["kernlet"] = json.dumps(metadata)
    (tmp_path / "old").write_bytes(signed(header, body))
    assert kernlet.load(tmp_path / "old").kernel == RBF(gamma)
    odd = KernelExpansion(RBF(gamma[:3]), np.eye(4), np.ones((1, 4)), np.zeros(1))
    with pytest.raises(ValueError, match="another number of kernel widths than of centers"):
        kernlet.save(odd, tmp_path / "odd")
    assert not (tmp_path / "odd").exists()


def test_class_names_that_numpy_would_shorten_are_refused(tmp_path):
    expansion = KernelExpansion(RBF(1.0), np.eye(2), np.ones((1, 2)), np.zeros(1))
    model = Model(expansion, "classifier", np.array(["a", "b"]), "one output")
    kernlet.save(model, tmp_path / "m")

    def lengthen(words):
        words["classes"]["values"][1] = "b\0"

    (tmp_path / "m").write_bytes(with_metadata((tmp_path / "m").read_bytes(), lengthen))
    with pytest.raises(ModelFileError, match="ends with NUL"):
        kernlet.load(tmp_path / "m")

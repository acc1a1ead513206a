"""Compact machines of every shape, of random tables, in C, in files, in ONNX and in pickles."""

import json
import pickle
import subprocess
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import skl2onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernlet
from kernlet import KernelExpansion, compress, to_c, to_onnx
from kernlet.affine import AffineMap, CurvedMap
from kernlet.compact.network import KernelNetwork
from kernlet.export.c_tables import pack
from kernlet.export.file import ModelFileError
from kernlet.export.predictors import LoadedClassifier
from kernlet.export.rounding import likely_rows
from kernlet.export.skl2onnx import register_skl2onnx
from kernlet.kernels.diagonal import DiagonalRBF
from kernlet.kernels.linear import Linear
from kernlet.kernels.rational_quadratic import RationalQuadratic
from kernlet.kernels.rbf import RBF
from kernlet.model.describe import describe
from kernlet.model.model import Model, as_model
from kernlet.quantization import FORMATS, PackedArray, encode_columns, encode_steps
from kernlet.report.page import write_report
from support.c_programs import compiled, needs_gcc, run
from support.model_files import parts, signed
from support.random_machines import SHAPES, random_compact, random_model, with_missing


def machine(name, seed=0, **options):
    """A machine of a shape with centers of ordinary size, and rows for it."""
    rng = np.random.default_rng(seed)
    points = lambda rng, *shape: rng.normal(size=shape)  # noqa: E731
    expansion = random_compact(rng, **{"points": points, **SHAPES[name], **options})
    return expansion, with_missing(expansion, rng.normal(size=(80, expansion.n_features)))


def n_single_steps(expansion):
    """Packed arrays with one step, a float32 number."""
    arrays = [*expansion.packed.values(), expansion.shift, expansion.scale, expansion.fill]
    arrays += [expansion.steps.jumps] if expansion.steps is not None else []
    arrays = [getattr(array, "values", array) for array in arrays]
    return sum(
        isinstance(array, PackedArray) and array.format.has_step and not np.ndim(array.step)
        for array in arrays
    )


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("storage", ["stored", "float32", "float16", "int8"])
@pytest.mark.parametrize("name", SHAPES)
def test_c_computes_what_the_tables_say(name, storage, tmp_path):
    expansion, X = machine(name)
    exp = "libm" if storage == "float32" else "polynomial"
    source = to_c(expansion, tmp_path, storage, X=X, exp=exp)
    program = compiled(source)
    assert subprocess.run([program], check=False).returncode == 0
    exact = pack(as_model(expansion), storage)[0].outputs(np.float32(X).astype(float))
    values = run(program, X, False)
    assert np.abs(values - exact).max() < source.tolerance
    assert source.tolerance < 1e-4 * max(1.0, np.abs(exact).max())
    expected = expansion.decision_values(np.float32(X).astype(float))
    if storage in ("stored", "float32"):
        assert_allclose(values, expected, atol=source.tolerance)
    assert ("math.h" in (tmp_path / "model.c").read_text()) == (exp == "libm")


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("formats", [("int8",), ("int6", "int4", "ternary")])
def test_c_stores_the_bytes_that_the_machine_counts(name, formats, tmp_path):
    # a step is a constant in the code, and none of a float32 table
    expansion, X = machine(name, formats=formats, intercept=np.float16)
    source = to_c(expansion, tmp_path, "stored", X=X)
    assert source.table_bytes == expansion.nbytes - 4 * n_single_steps(expansion)


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("name", SHAPES)
def test_nan_reaches_all_scores_and_other_features_give_finite_ones(name, tmp_path):
    expansion, X = machine(name)
    rows = np.repeat(X[:1], 6 * len(LARGE), axis=0)
    for place, number in enumerate(LARGE):
        some = rows[6 * place : 6 * place + 6]
        some[0, 0] = some[1, -1] = some[2, ::2] = some[3] = number
        some[4] = number * np.where(np.arange(X.shape[1]) % 2, 1, -1)
        some[5, : X.shape[1] // 2] = -number
    values = run(compiled(to_c(expansion, tmp_path, X=X)), rows, False)
    is_nan = np.isnan(rows).any(axis=1) & (expansion.missing == "error")
    assert np.isnan(values[is_nan]).all()
    assert np.isfinite(values[~is_nan]).all()


LARGE = (np.nan, np.inf, 3.4e38, 1e30, 1e19, 1e10, 1e-45)


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("exp", ["polynomial", "libm"])
@pytest.mark.parametrize("alpha", [0.01, 1.0, 37.0, 1e6, 1e9])
def test_powers_without_a_library(alpha, exp, tmp_path):
    kernel = RationalQuadratic(2.0, alpha)
    expansion = KernelExpansion(kernel, np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1))
    x = np.concatenate([np.linspace(0, 6, 2001), np.logspace(-20, 18, 500)])
    x = np.float32(x)[:, None].astype(float)
    values = run(compiled(to_c(expansion, tmp_path, exp=exp), sanitize=False), x, False)
    exact = kernel(x, np.zeros((1, 1)))
    # the exponent -alpha log(1 + v), rounded to float32, is off by 1e-7 times its size
    bound = 3e-7 * exact * (2 - np.log(np.maximum(exact, 1e-300)))
    assert (np.abs(values - exact) <= bound + 1e-37).all()


@needs_gcc
def test_asinh_without_a_library(tmp_path):
    x = np.concatenate([np.linspace(-5, 5, 2001), np.logspace(-30, 38, 500)])
    x = np.float32(np.concatenate([x, -x]))[:, None].astype(float)
    map = CurvedMap(0.0, 1.0, is_asinh=True)
    expansion = KernelExpansion(Linear(), np.ones((1, 1)), np.ones((1, 1)), np.zeros(1), map)
    source = to_c(expansion, tmp_path, X=x[:2000])
    assert "math.h" not in (tmp_path / "model.c").read_text()
    values = run(compiled(source, sanitize=False), x, False)
    assert_allclose(values, np.arcsinh(x), rtol=3e-7, atol=1e-44)


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("n_outputs", [2, 3, 5, 9, 26, 100, 200, 300, 1000, 2100])
def test_numbers_of_outputs_of_any_width(n_outputs, tmp_path):
    expansion, X = machine("two classes", n_outputs=n_outputs, shape=(11, 4))
    values = run(compiled(to_c(expansion, tmp_path, X=X)), X[:5], False)
    assert_allclose(values, expansion.decision_values(X[:5]), atol=1e-4 * np.abs(values).max())


@needs_gcc
def test_steps_of_more_than_256_features(tmp_path):
    expansion, X = machine("steps", shape=(3, 300), n_steps=40)
    assert expansion.steps.features.dtype == np.uint16
    values = run(compiled(to_c(expansion, tmp_path, X=X)), X, False)
    expected = expansion.decision_values(np.float32(X).astype(float))
    assert_allclose(values, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("name", ["steps", "blocks", "everything", "asinh"])
def test_a_scaler_in_front_is_part_of_the_code(name, tmp_path):
    expansion, X = machine(name)
    rng = np.random.default_rng(1)
    scaler = AffineMap(rng.normal(size=X.shape[1]), np.exp(rng.normal(size=X.shape[1])))
    model = Model(expansion, scaler=scaler)
    source = to_c(model, tmp_path, X=X)
    values = run(compiled(source), X, False)
    assert_allclose(values, model.outputs(np.float32(X).astype(float)), atol=source.tolerance)


def test_a_matrix_in_front_of_a_curve_is_refused_in_c_alone(tmp_path):
    expansion, X = machine("steps")
    matrix = np.random.default_rng(0).normal(size=(X.shape[1], X.shape[1]))
    model = Model(expansion, scaler=AffineMap(0.0, 1.0, matrix))
    found = run_graph(to_onnx(model, X=X), X)["scores"]
    assert_allclose(found, model.outputs(np.float32(X).astype(float)), atol=1e-5)
    with pytest.raises(ValueError, match=r"has an asinh or steps .* PCA or other matrix"):
        to_c(model, tmp_path, X=X)


@pytest.mark.parametrize("name", SHAPES)
def test_onnx_computes_what_the_tables_say(name):
    expansion, X = machine(name)
    found = run_graph(to_onnx(expansion, X=X), X)["scores"]
    expected = expansion.decision_values(np.float32(X).astype(float))
    assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["asinh", "everything", "blocks"])
def test_skl2onnx_takes_them_behind_a_scaler(name):
    expansion, X = machine(name)
    register_skl2onnx()
    loaded = LoadedClassifier(Model(expansion, "classifier", np.arange(3), temperature=0.5))
    pipeline = make_pipeline(StandardScaler().fit(X), loaded)
    found = run_graph(skl2onnx.to_onnx(pipeline, np.float32(X[:1])), X)
    expected = pipeline.predict_proba(np.float32(X).astype(float))
    assert_allclose(found["probabilities"], expected, atol=1e-4)


def run_graph(graph, X):
    """The outputs of a graph by name."""
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": np.float32(X)}), strict=True))


@pytest.mark.parametrize("name", SHAPES)
def test_a_file_and_a_pickle_hold_all_of_it(name, tmp_path):
    expansion, X = machine(name)
    kernlet.save(expansion, tmp_path / "m")
    for again in (kernlet.load(tmp_path / "m"), pickle.loads(pickle.dumps(expansion))):
        assert again.nbytes == expansion.nbytes
        assert again.storage == expansion.storage
        assert again.kernel == expansion.kernel
        assert again.intercept.dtype == expansion.intercept.dtype
        assert_array_equal(again.decision_values(X), expansion.decision_values(X))
    kernlet.save(kernlet.load(tmp_path / "m"), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_files_hold_random_models_of_packed_arrays(seed, tmp_path_factory):
    model = random_model(np.random.default_rng(seed), formats=("int4", "int8", "ternary"))
    path = tmp_path_factory.mktemp("files") / "m"
    if model.classes is not None and len(model.classes) == 1:
        return  # which no file holds
    kernlet.save(model, path)
    again = kernlet.load(path)
    again = again if isinstance(again, KernelExpansion) else again.expansion_
    assert again.nbytes == model.expansion.nbytes
    X = likely_rows(replace(model, scaler=None), 20)
    assert_array_equal(again.decision_values(X), model.expansion.decision_values(X))


@pytest.mark.parametrize(
    "name", ["steps and asinh", "rational quadratic widths", "diagonal", "diagonal widths"]
)
def test_a_file_holds_machines_of_plain_numbers(name, tmp_path):
    packed, X = machine(name)
    fields = (packed.kernel, packed.centers, packed.coef, packed.intercept, packed.input_map)
    expansion = KernelExpansion(*fields)
    kernlet.save(expansion, tmp_path / "m")
    again = kernlet.load(tmp_path / "m")
    assert_array_equal(again.decision_values(X), expansion.decision_values(X))


def edited(path, change):
    """A signed file whose metadata, or whose tensors' types, were changed."""
    header, body = parts(path.read_bytes())
    metadata = json.loads(header["__metadata__"]["kernlet"])
    change(metadata, header)
    header["__metadata__"]["kernlet"] = json.dumps(metadata)
    path.write_bytes(signed(header, body))


def set_machine(**values):
    return lambda metadata, header: metadata["machine"].update(values)


def drop_tensor(name):
    return lambda metadata, header: header.update({"other": header.pop(name)})


def set_table(table, **values):
    return lambda metadata, header: metadata["machine"]["tables"][table].update(values)


def drop_table(table):
    return lambda metadata, header: metadata["machine"]["tables"].pop(table)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("rational quadratic", set_machine(alpha=0), r"machine\.alpha must be a finite number"),
        ("asinh", set_machine(is_asinh=1), r"machine\.is_asinh must be true or false"),
        ("blocks", set_machine(block=0), r"machine\.block must be an integer from 1 to 1024"),
        ("blocks", set_machine(block=1024), "means of blocks of .* give load a larger max_bytes"),
        ("steps", set_machine(block=2), "Means of blocks have one shift and one scale"),
        ("one class", set_machine(n_outputs=2), "outputs of its coefficients|coef has shape"),
        ("one class", set_machine(n_outputs=2**31 - 1), "coefficients of .* larger max_bytes"),
        ("one class", set_machine(n_outputs=None), "coef has shape|nothing uses its tensor"),
        ("one class", drop_tensor("coef.outputs"), "tensor 'coef.outputs' is missing"),
        ("steps", drop_tensor("steps.thresholds"), "tensor 'steps.thresholds' is missing"),
        ("steps", drop_table("jumps"), "nothing uses its tensor 'jumps'"),
        ("widths", drop_table("log_gamma"), "tensor 'gamma' is missing"),
        ("widths", set_table("log_gamma", step=1e6), "logarithms of its widths are too large"),
        ("diagonal", drop_table("log_weights"), "nothing uses its tensor 'log_weights'"),
        ("diagonal", set_table("log_weights", step=1e6), "step of log_weights must be positive"),
        ("diagonal", set_table("log_weights", shape=[9, 7]), r"the centers have \(7, 9\)"),
        ("diagonal", set_table("log_weights", format="int8"), "has another size than its metadata"),
        ("diagonal", set_machine(alpha=1.0), "leave alpha out"),
    ],
)
def test_edited_files_are_refused(name, change, message, tmp_path):
    kernlet.save(machine(name)[0], tmp_path / "m")
    edited(tmp_path / "m", change)
    with pytest.raises(ModelFileError, match=message) as caught:
        kernlet.load(tmp_path / "m", max_bytes=10**8)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "tensor", "numbers", "message"),
    [
        ("one class", "coef.outputs", np.full(2, 255, np.uint8), "an output that it does not have"),
        ("two classes", "coef.outputs", np.zeros(4, np.uint8), "or twice to one"),
        ("steps", "steps.features", np.full(6, 9, np.uint8), "a feature that it does not have"),
        ("steps", "steps.thresholds", np.full(6, np.nan, np.float16), "NaN or infinity"),
    ],
)
def test_edited_tensors_are_refused(name, tensor, numbers, message, tmp_path):
    rng_of_halves = next(seed for seed in range(9) if _has_halves(machine(name, seed)[0]))
    kernlet.save(machine(name, rng_of_halves)[0], tmp_path / "m")
    header, body = parts((tmp_path / "m").read_bytes())
    start, end = header[tensor]["data_offsets"]
    assert end - start == numbers.nbytes
    body = body[:start] + numbers.tobytes() + body[end:]
    (tmp_path / "m").write_bytes(signed(header, body))
    with pytest.raises(ModelFileError, match=message):
        kernlet.load(tmp_path / "m")


@pytest.mark.parametrize("shape", [(7,), (9, 7), (7, 9, 1), (0, 9)])
def test_plain_weights_of_another_shape_are_refused(shape, tmp_path):
    packed, _ = machine("diagonal")
    fields = (packed.centers, packed.coef, packed.intercept)
    kernlet.save(KernelExpansion(packed.kernel, *fields), tmp_path / "m")

    def reshape(metadata, header):
        start = header["kernel.weights"]["data_offsets"][0]
        size = 4 * int(np.prod(shape))
        header["kernel.weights"] |= {"shape": shape, "data_offsets": [start, start + size]}

    edited(tmp_path / "m", reshape)
    with pytest.raises(ModelFileError):
        kernlet.load(tmp_path / "m")


@needs_gcc
@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2)])
def test_plain_weights_in_c(shape, storage, tmp_path):
    expansion, X = machine("diagonal", shape=shape)
    weights = np.exp(np.random.default_rng(0).normal(size=shape))
    kernel = DiagonalRBF(expansion.kernel.gamma, weights)
    plain = KernelExpansion(kernel, expansion.centers, expansion.coef, expansion.intercept)
    source = to_c(plain, tmp_path, storage, X=X)
    exact = pack(as_model(plain), storage)[0].outputs(np.float32(X).astype(float))
    assert_allclose(run(compiled(source), X, False), exact, atol=source.tolerance)


def test_weights_that_are_not_powers_of_2_are_refused_in_integers(tmp_path):
    expansion, X = machine("diagonal", weight_step=0.5)
    plain = KernelExpansion(
        expansion.kernel, expansion.centers, expansion.coef, expansion.intercept
    )
    huge, _ = machine("diagonal", weight_step=9 * np.log(2))
    for refused in (expansion, plain, huge):
        with pytest.raises(ValueError, match="must be packed powers of 2, from 2 to 2"):
            to_c(refused, tmp_path, X=X, arithmetic="integer")
    assert to_c(expansion, tmp_path, X=X).storage == "stored"


def test_weights_are_not_trained_by_gradients():
    expansion, _ = machine("diagonal")
    with pytest.raises(ValueError, match="cannot be trained by gradients"):
        KernelNetwork.from_expansion(expansion)


def _has_halves(expansion):
    """Whether its thresholds, if it has any, are float16."""
    return expansion.steps is None or expansion.steps.thresholds.dtype == np.float16


def test_files_of_the_first_format_still_load(tmp_path):
    expansion, X = machine("projected")
    kernlet.save(expansion, tmp_path / "m")

    def older(metadata, header):
        metadata["format_version"] = 1
        for name in ("alpha", "is_asinh", "block", "n_outputs"):
            del metadata["machine"][name]

    edited(tmp_path / "m", older)
    again = kernlet.load(tmp_path / "m")
    assert_array_equal(again.decision_values(X), expansion.decision_values(X))


def test_a_report_says_what_the_machine_is_made_of(tmp_path):
    expansion, X = machine("asinh", shape=(7, 2), width="per_center")
    model = Model(expansion, "classifier", np.arange(3))
    y = model.codes(model.outputs(X))
    write_report(model, X, y, tmp_path / "page.html", sizes=False)
    page = (tmp_path / "page.html").read_text("utf-8")
    for text in ("one per center, in one byte", "a scale per feature, asinh", ">14<"):
        assert text in page
    assert 'id="boundary"' in page
    header = to_c(model, tmp_path, X=X).files[0].read_text("utf-8")
    assert "* Kernel: rbf" in header
    assert "* Input map: a scale per feature, asinh." in header


@pytest.mark.parametrize("name", ["steps and asinh", "blocks", "two classes", "rational quadratic"])
def test_compressed_machines_keep_their_map_and_can_be_shipped(name, tmp_path):
    expansion, X = machine(name)
    model = Model(expansion, "classifier", np.arange(3))
    compressed = compress(model, 3, X, model.codes(model.outputs(X)), random_state=0)
    assert compressed.n_centers_ == 3
    assert describe(compressed.expansion_).get("input map") == describe(expansion).get("input map")
    kernlet.save(compressed, tmp_path / "m")
    assert_array_equal(kernlet.load(tmp_path / "m").predict(X), compressed.predict(X))
    to_c(compressed, tmp_path / "c", X=X)
    to_onnx(compressed, X=X)


@pytest.mark.parametrize("name", ["widths", "everything", "diagonal"])
def test_machines_without_a_feature_space_are_not_compressed(name):
    expansion, X = machine(name)
    model = Model(expansion, "classifier", np.arange(3))
    with pytest.raises(ValueError, match="needs a positive semi-definite kernel"):
        compress(model, 3, X, model.codes(model.outputs(X)))
    with pytest.raises(ValueError, match="cannot be taken into its centers"):
        expansion.unfolded()


@needs_gcc
@pytest.mark.parametrize("wide", ["float16", "float32"])
def test_c_puts_rows_at_a_threshold_on_the_side_of_python(wide, tmp_path):
    rng, n_features = np.random.default_rng(0), 9
    features = np.repeat(np.arange(n_features), 8)
    thresholds = rng.normal(size=len(features)).astype(np.float16)
    scaling = 0.01 * rng.normal(size=n_features), np.exp(rng.normal(size=n_features))
    shift, scale = encode_columns(*scaling, (FORMATS[wide],) * 2)
    jumps = np.full(len(features), 0.2)
    expansion, _ = machine("plain", intercept=np.float16)
    expansion = expansion.replaced(
        shift=shift, scale=scale, steps=encode_steps(features, thresholds, jumps, n_features)
    )
    at = np.float32(thresholds / expansion.input_map.scale[features])
    at = (at + shift.decoded()[features])[:, None]
    near = np.hstack([np.nextafter(at, -np.inf), at, np.nextafter(at, np.inf)])
    X = np.tile(shift.decoded(), (near.size, 1))
    X[np.arange(near.size), np.repeat(features, 3)] = near.ravel()
    source = to_c(expansion, tmp_path)
    expected = expansion.decision_values(X.astype(float))
    assert_allclose(run(compiled(source), X, False), expected, atol=source.tolerance)


@needs_gcc
@pytest.mark.parametrize("has_scaler", [False, True])
def test_features_far_from_zero_lose_nothing(has_scaler, tmp_path):
    rng = np.random.default_rng(0)
    X = np.float32(rng.normal(size=(60, 3)) + 1e6).astype(float)
    centers, coef = rng.normal(size=(5, 3)), rng.normal(size=(2, 5))
    far = AffineMap(1e6 + 0.02, 1.0)
    maps = (AffineMap(0.3, 2.0), AffineMap(1e6 + rng.normal(size=3), 0.7)) if has_scaler else (far,)
    expansion = KernelExpansion(RBF(0.3), centers, coef, np.zeros(2), maps[0])
    model = Model(expansion, scaler=maps[1] if has_scaler else None)
    expected = model.outputs(X)
    for storage, error in (("float32", 1e-5), ("int8", 0.03)):
        source = to_c(model, tmp_path, storage, X=X)
        assert source.rounding.largest_score_error < error * np.abs(expected).max()
        values = run(compiled(source), X, False)
        assert_allclose(values, expected, atol=error * np.abs(expected).max())
    assert_allclose(run_graph(to_onnx(model, X=X), X)["scores"], expected, atol=1e-5)

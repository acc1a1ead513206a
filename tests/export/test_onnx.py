import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import skl2onnx
from numpy.testing import assert_allclose, assert_array_equal
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from fuzz.campaign import run_command
from kernlet import (
    MMDA,
    CompactKernelClassifier,
    CompactKernelRegressor,
    CompressedClassifier,
    KernelExpansion,
    L1KernelClassifier,
    compress,
    to_onnx,
)
from kernlet.datasets import load
from kernlet.export.predictors import LoadedTransformer
from kernlet.export.rounding import clear_rows, require_close
from kernlet.export.skl2onnx import register_skl2onnx
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.model.model import Model, as_model
from kernlet.tables.encode import ColumnEncoding
from support.exportable_models import (
    CLASSIFIERS,
    COMPACT,
    DETECTORS,
    IRIS,
    IRIS_LABELS,
    IRIS_NAMES,
    REGRESSORS,
    TRANSFORMERS,
    classifier,
    detector,
    regressor,
    transformer,
)
from support.mixed_tables import FRAME, LABELS, UNKNOWN, impute_and_scale


def run(graph, X):
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    given = session.get_inputs()[0].name
    return dict(zip(names, session.run(None, {given: np.float32(X)}), strict=True))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_graph_gives_what_python_gives(name):
    model, X = classifier(name)
    graph = to_onnx(model, X=X)
    assert {node.domain for node in graph.graph.node} == {""}
    found = run(graph, X)
    outputs = as_model(model).outputs(X)
    far = clear_rows(as_model(model), outputs)
    assert len(far) > 0.9 * len(X)
    assert_array_equal(found["label"][far], model.predict(X)[far])
    values = model.decision_function(X)
    assert found["scores"].shape == values.shape
    assert_allclose(found["scores"][far], values[far], atol=1e-3 * np.abs(values).max())
    if hasattr(model, "predict_proba"):
        assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize(
    "name", ["compact", "svc", "svc pairs", "svc two classes", "one vs rest", "one vs one"]
)
def test_probabilities_of_every_rule(name):
    original, X = classifier(name)
    model = as_model(original)
    offset = 0.25 if len(model.classes) == 2 else 0.0
    model = replace(model, temperature=0.7, offset=offset)
    found = run(to_onnx(model, X=X), X)
    assert_allclose(found["probabilities"], model.probabilities(model.outputs(X)), atol=1e-4)


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name):
    model, X = regressor(name)
    found = run(to_onnx(model, X=X), X)
    assert_allclose(found["values"], model.predict(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", DETECTORS)
def test_novelty_detectors(name):
    model, X = detector(name)
    found = run(to_onnx(model, X=X), X)
    values = model.decision_function(X)
    assert found["label"].dtype == np.int64
    assert_allclose(found["scores"], values, atol=1e-4 * np.abs(values).max())
    clear = clear_rows(as_model(model), as_model(model).outputs(X))
    assert_array_equal(found["label"][clear], model.predict(X)[clear])


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers(name):
    model, X = transformer(name)
    found = run(to_onnx(model, X=X), X)
    expected = model.transform(X)
    assert_allclose(found["features"], expected, atol=1e-4 * np.abs(expected).max())


def test_skl2onnx_takes_transformers():
    model, X = transformer("fisher")
    register_skl2onnx()
    graph = skl2onnx.to_onnx(make_pipeline(model, SVC()).fit(X, IRIS_LABELS), np.float32(X[:1]))
    labels = next(iter(run(graph, X).values()))
    assert np.mean(labels == IRIS_LABELS) > 0.9


def test_an_expansion_gives_its_outputs():
    expansion = KernelExpansion(RBF(0.5), np.eye(3), np.ones((2, 3)), np.zeros(2))
    found = run(to_onnx(expansion), np.eye(3))
    assert_allclose(found["scores"], expansion.decision_values(np.eye(3)), rtol=1e-6)


def test_any_number_of_rows():
    model, X = classifier("compact")
    graph = to_onnx(model)
    for n_rows in (0, 1, 7):
        assert run(graph, X[:n_rows])["label"].shape == (n_rows,)


def test_features_far_from_the_origin_keep_their_digits():
    far = IRIS + 300.0
    model = SVC(gamma=0.5).fit(far, IRIS_LABELS)
    found = run(to_onnx(model, X=far), far)
    assert_array_equal(found["label"], model.predict(far))


def test_a_graph_that_float32_cannot_hold_is_refused():
    wild = IRIS * np.array([1.0, 1.0, 1.0, 1e-3]) + np.array([0, 0, 0, 1e5])
    model = SVC(gamma=1e6).fit(wild, IRIS_LABELS)
    with pytest.raises(ValueError, match="scale the features"):
        to_onnx(model, X=wild)
    assert to_onnx(model, X=wild, check=False) is not None


def test_facts_travel_with_the_graph():
    table = {"size": [1.0, None, 3.0, 9.0], "color": ["red", "blue", None, "red"]}
    encoding = ColumnEncoding.learned(table)
    machine = as_model(SVC().fit(encoding.transform(table), ["no", "yes", "no", "yes"]))
    model = Model(
        machine.expansion,
        "classifier",
        machine.classes,
        "one output",
        encoding=encoding,
        feature_names=encoding.feature_names,
    )
    graph = to_onnx(model, X=table)
    facts = {entry.key: entry.value for entry in graph.metadata_props}
    assert facts["features"].splitlines() == list(encoding.feature_names)
    assert "size: the number, 3 where it is missing." in facts["encoding"]
    assert facts["centers"] == str(machine.expansion.n_centers)


def test_missing_packages_are_named(monkeypatch):
    model, _ = classifier("svc")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"kernlet\[onnx\].*check=False"):
        to_onnx(model)
    assert isinstance(to_onnx(model, check=False), onnx.ModelProto)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match="onnx, which is not installed"):
        to_onnx(model)


def test_classes_too_large_for_a_graph_are_refused():
    expansion = KernelExpansion(RBF(0.5), np.eye(3), np.ones((1, 3)), np.zeros(1))
    classes = np.array([0, 2**63], dtype=np.uint64)
    with pytest.raises(ValueError, match="too large for an ONNX graph"):
        to_onnx(Model(expansion, "classifier", classes, "one output"))


@pytest.mark.parametrize("labels", [IRIS_LABELS, IRIS_NAMES, IRIS_LABELS == 1], ids=["i", "s", "b"])
def test_skl2onnx_takes_pipelines(labels):
    register_skl2onnx()
    register_skl2onnx()
    model = make_pipeline(StandardScaler(), CompactKernelClassifier(10, **COMPACT))
    model.fit(IRIS, labels)
    graph = skl2onnx.to_onnx(model, IRIS[:1].astype(np.float32))
    found = run(graph, IRIS)
    assert_array_equal(found["label"], model.predict(IRIS))
    assert_allclose(found["probabilities"], model.predict_proba(IRIS), atol=1e-4)
    older = skl2onnx.to_onnx(model, IRIS[:1].astype(np.float32), target_opset=15)
    assert_array_equal(run(older, IRIS)["label"], model.predict(IRIS))


@pytest.mark.parametrize("where", ["behind", "around"])
def test_skl2onnx_takes_compressed_pipelines(where):
    register_skl2onnx()
    columns = ["age", "income", "city", "size"]
    table = FRAME[columns].assign(city=FRAME["city"].fillna("Rome"), size=FRAME["size"] / 2)
    encoder = OneHotEncoder(handle_unknown="ignore")
    steps = [("n", impute_and_scale(), ["age", "income", "size"]), ("c", encoder, ["city"])]
    encode = ColumnTransformer(steps)
    if where == "behind":
        machine = CompressedClassifier(SVC(), 10, random_state=0)
        model = make_pipeline(encode, PCA(3), machine).fit(table, LABELS)
    else:
        pipeline = make_pipeline(encode, PCA(3), SVC()).fit(table, LABELS)
        model = compress(pipeline, 10, table, LABELS, random_state=0)
    kinds = dict.fromkeys(columns, FloatTensorType) | {"city": StringTensorType}
    types = [(name, kind([None, 1])) for name, kind in kinds.items()]
    graph = skl2onnx.to_onnx(model, initial_types=types)
    rows = table.assign(city=UNKNOWN["city"])
    inputs = {name: rows[[name]].to_numpy(np.float32) for name in columns if name != "city"}
    inputs |= {"city": rows[["city"]].to_numpy(object)}
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    labels, values = session.run(None, inputs)
    assert_array_equal(labels, model.predict(rows))
    has_probabilities = hasattr(model, "predict_proba")
    expected = model.predict_proba(rows) if has_probabilities else model.decision_function(rows)
    assert_allclose(values, expected, atol=1e-4)


def test_skl2onnx_takes_regressors_and_machines_without_probabilities():
    register_skl2onnx()
    model = make_pipeline(StandardScaler(), CompactKernelRegressor(10, **COMPACT))
    model.fit(IRIS, IRIS[:, 0])
    found = run(skl2onnx.to_onnx(model, IRIS[:1].astype(np.float32)), IRIS)
    assert_allclose(found["values"], model.predict(IRIS), rtol=1e-4)
    model, X = classifier("l1")
    found = run(skl2onnx.to_onnx(model, X[:1].astype(np.float32)), X)
    assert_allclose(found["scores"], model.decision_function(X), atol=1e-4)


def test_skl2onnx_takes_scales_of_columns():
    register_skl2onnx()
    model, X = classifier("compact unlike columns")
    found = run(skl2onnx.to_onnx(model, X[:1].astype(np.float32)), X)
    assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-3)


def test_labels_of_usps(data_folder):
    data = load("usps")
    model = CompactKernelClassifier(50, n_epochs=3, random_state=0).fit(data.X, data.y)
    X = np.asarray(data.X_test, dtype=np.float32)
    found = run(to_onnx(model, X=X), X)
    outputs = as_model(model).outputs(X.astype(float))
    far = clear_rows(as_model(model), outputs)
    assert_array_equal(found["label"][far], model.predict(X)[far])


@pytest.mark.parametrize("score", [np.nan, np.inf, 1.1])
def test_scores_that_are_off_or_not_numbers_are_refused(score):
    with pytest.raises(ValueError, match=r"In float32 the graph is off by .*: scale the features"):
        require_close("graph", np.array([score]), np.ones(1), True, 1e-3)


def machine_of(coef, kernel=None):
    kernel = RBF(1.0) if kernel is None else kernel
    return KernelExpansion(kernel, np.eye(2), np.full((1, 2), coef), np.zeros(1))


@pytest.mark.parametrize("coef", [1e300, np.nan, np.inf])
@pytest.mark.parametrize("check", [True, False])
def test_numbers_that_float32_does_not_have_are_refused(coef, check):
    with pytest.raises(ValueError, match="does not fit in float32"):
        to_onnx(machine_of(coef), check=check)


def test_graphs_that_overflow_are_refused():
    features = MMDA(random_state=0).fit(IRIS * 1e25, IRIS_LABELS)
    with pytest.raises(ValueError, match="In float32 the graph is off by"):
        to_onnx(features, X=IRIS * 1e25)
    with pytest.raises(ValueError, match="Row 0 of X, counted from 0, overflows in the machine"):
        to_onnx(machine_of(1.0, Polynomial(1.0, 1000, 1e3)))
    with pytest.raises(ValueError, match=r"A feature of 1e\+39 does not fit in float32"):
        to_onnx(machine_of(1.0), X=np.full((1, 2), 1e39))
    with pytest.raises(ValueError, match="where scores go up to inf"):
        require_close("graph", np.ones(1), np.array([np.inf]), True, np.inf)


def test_skl2onnx_refuses_numbers_that_float32_does_not_have():
    register_skl2onnx()
    loaded = LoadedTransformer(Model(machine_of(1e300), "transformer"))
    with pytest.raises(ValueError, match="does not fit in float32"):
        skl2onnx.to_onnx(loaded, np.ones((1, 2), np.float32))


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (np.array(["a", "\ud800"], dtype=object), "not valid Unicode"),
        (np.array([b"a", b"b"]), "cannot be in an ONNX graph"),
        (np.array([1, 2], dtype=object), "cannot be in an ONNX graph"),
        (np.array(["2020", "2021"], dtype="M8[Y]"), "cannot be in an ONNX graph"),
    ],
    ids=str,
)
def test_classes_that_onnx_does_not_have_are_refused(classes, message):
    with pytest.raises(ValueError, match=message):
        to_onnx(Model(machine_of(1.0), "classifier", classes, "one output"))


def test_names_that_are_not_unicode_and_classes_with_nul():
    names = ("a", "\ud800")
    classes = np.array(["a", "a\0"], dtype=object)
    graph = to_onnx(
        Model(machine_of(1.0), "classifier", classes, "one output", feature_names=names)
    )
    assert run(graph, np.eye(2))["label"].tolist() == ["a\0", "a\0"]


def test_the_command_line_writes_no_graph_of_numbers_that_overflow(tmp_path):
    header = "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho 0\n"
    text = header + "label 1 -1\nnr_sv 1 1\nSV\n1e300 1:1\n-1e300 2:1\n"
    (tmp_path / "a.model").write_text(text)
    words = ["export", tmp_path / "a.model", "--to", "onnx", "-o", tmp_path / "a.onnx"]
    code, output = run_command(words)
    assert code == 1
    assert "does not fit in float32" in output
    assert not (tmp_path / "a.onnx").exists()


def test_a_machine_without_centers_is_a_constant_graph():
    y = np.arange(len(IRIS)) < 60
    machine = L1KernelClassifier(C=1e-9).fit(IRIS, y)
    assert machine.n_centers_ == 0
    session = onnxruntime.InferenceSession(to_onnx(machine, X=IRIS).SerializeToString())
    label, scores = session.run(None, {"X": IRIS.astype(np.float32)})
    assert_array_equal(label, machine.predict(IRIS))
    assert_allclose(scores, machine.decision_function(IRIS))

"""kernel="laplacian" in every estimator, with its certificate, its files and its exports."""

from functools import partial

import numpy as np
import onnxruntime
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics.pairwise import cosine_similarity, laplacian_kernel
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, NuSVC

from kernlet import (
    MMDA,
    BoundaryCondenser,
    ChunkingSyntheticClassifier,
    CompressedClassifier,
    CoreVectorClassifier,
    HullPerceptronClassifier,
    KernelFisherDiscriminant,
    L1KernelClassifier,
    MinimalKernelClassifier,
    ProximalClassifier,
    TypicalCondenser,
    compress,
    load,
    save,
    to_c,
    to_onnx,
)
from kernlet.kernels import Laplacian
from kernlet.model.arrays import from_svc_arrays
from kernlet.model.model import as_model
from kernlet.rows import as_rows
from support.c_programs import compiled, needs_gcc, run

X, Y = make_moons(200, noise=0.2, random_state=0)
SCALE = 1 / (2 * X.std())
CERTIFICATES = {"duality_gap_": 1e-6, "gap_": 1e-3, "residual_": 1e-6}
CLASSIFIERS = [
    L1KernelClassifier(random_state=0),
    MinimalKernelClassifier(random_state=0),
    ChunkingSyntheticClassifier(8, random_state=0),
    HullPerceptronClassifier(C=10.0),
    ProximalClassifier(C=10.0, random_state=0),
    CoreVectorClassifier(C=10.0, random_state=0),
]
every_classifier = pytest.mark.parametrize(
    "machine", CLASSIFIERS, ids=lambda machine: type(machine).__name__
)


def laplacian(machine, **parameters):
    return machine.set_params(kernel="laplacian", **parameters)


@pytest.mark.slow
@every_classifier
def test_classifiers_train_with_a_certificate(machine):
    fitted = laplacian(machine).fit(X, Y)
    assert fitted.score(X, Y) > 0.93
    assert fitted.expansion_.kernel.name == "laplacian"
    assert fitted.expansion_.kernel.gamma == pytest.approx(SCALE)
    for name, limit in CERTIFICATES.items():
        assert np.max(getattr(fitted, name, 0.0)) <= limit
    same = machine.set_params(kernel=Laplacian(fitted.expansion_.kernel.gamma)).fit(X, Y)
    assert_allclose(same.decision_function(X), fitted.decision_function(X))


@pytest.mark.parametrize(
    "features", [MMDA(2), KernelFisherDiscriminant()], ids=lambda features: type(features).__name__
)
def test_features_separate_the_classes(features):
    values = laplacian(features).fit(X, Y).transform(X)
    assert SVC(kernel="linear").fit(values, Y).score(values, Y) > 0.93


@pytest.mark.parametrize("condenser", [TypicalCondenser(), BoundaryCondenser()], ids=repr)
def test_condensers_leave_rows_to_train_on(condenser):
    few, labels = laplacian(condenser).fit_resample(X, Y)
    assert 10 < len(few) <= len(X)
    assert SVC().fit(few, labels).score(X, Y) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["scale", "auto", "mean_distance"])
def test_rules_for_gamma_are_those_of_rows_in_memory(rule):
    machine = L1KernelClassifier(kernel="laplacian", gamma=rule, candidates=X[:20])
    kernels = [machine.fit(rows, Y).expansion_.kernel for rows in (X, as_rows(X))]
    assert kernels[0].gamma == pytest.approx(kernels[1].gamma, rel=1e-12)


def test_columns_of_unlike_ranges_are_warned_of():
    wide = X * [1.0, 5e4]
    with pytest.warns(UserWarning, match="the laplacian kernel then hardly sees"):
        L1KernelClassifier(kernel="laplacian").fit(wide, Y)


@pytest.mark.slow
@every_classifier
def test_machines_are_saved_and_loaded(machine, tmp_path):
    fitted = laplacian(machine).fit(X, Y)
    save(fitted, tmp_path / "model.kernlet")
    again = load(tmp_path / "model.kernlet")
    assert again.expansion_.kernel == fitted.expansion_.kernel
    assert_allclose(again.decision_function(X), fitted.decision_function(X), rtol=1e-12)


SVCS = {
    "function": (laplacian_kernel, 0.5),
    "function with gamma": (partial(laplacian_kernel, gamma=0.8), 0.8),
    "function without gamma": (partial(laplacian_kernel), 0.5),
    "function with gamma None": (partial(laplacian_kernel, gamma=None), 0.5),
    "Kernel": (Laplacian(0.8), 0.8),
}


@pytest.mark.parametrize(("kernel", "gamma"), SVCS.values(), ids=SVCS)
@pytest.mark.parametrize("make", [SVC, NuSVC])
def test_an_svc_with_the_function_is_a_model(make, kernel, gamma):
    svm = make_pipeline(StandardScaler(), make(kernel=kernel)).fit(X, Y)
    model = as_model(svm)
    assert model.expansion.kernel == Laplacian(gamma)
    assert model.expansion.n_centers == len(svm[-1].support_)
    assert_allclose(model.outputs(X)[:, 0], svm.decision_function(X), rtol=1e-9, atol=1e-12)


def test_an_svc_of_three_classes_is_a_model():
    rows, labels = load_iris(return_X_y=True)
    svm = SVC(kernel=laplacian_kernel).fit(rows, labels)
    model = as_model(svm)
    assert_array_equal(model.classes[model.codes(model.outputs(rows))], svm.predict(rows))
    rest = OneVsRestClassifier(SVC(kernel=laplacian_kernel)).fit(rows, labels)
    model = as_model(rest)
    assert_allclose(model.outputs(rows), rest.decision_function(rows), rtol=1e-9, atol=1e-12)


def _doubled(A, B):
    return 2 * laplacian_kernel(A, B)


@pytest.mark.parametrize("kernel", [_doubled, partial(cosine_similarity, dense_output=True)])
def test_other_functions_are_refused(kernel):
    svm = SVC(kernel=kernel).fit(X, Y)
    with pytest.raises(ValueError, match=r"is a function, .*laplacian_kernel, or with a kernel of"):
        as_model(svm)


def test_arrays_of_a_laplacian_svc_become_a_model():
    svm = SVC(kernel=laplacian_kernel).fit(X, Y)
    arrays = (X[svm.support_], svm.dual_coef_, svm.intercept_, svm.classes_)
    model = from_svc_arrays(*arrays, gamma=0.5, kernel="laplacian")
    assert_allclose(model.outputs(X)[:, 0], svm.decision_function(X), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_compression_reaches_the_accuracy_of_the_original():
    svm = SVC(kernel=laplacian_kernel, C=3.0).fit(X, Y)
    small = compress(svm, 12, X, Y, random_state=0)
    assert small.expansion_.kernel == Laplacian(0.5)
    assert small.n_centers_ == 12
    assert small.score(X, Y) > svm.score(X, Y) - 0.02
    assert small.compression_.residual < 0.5
    without = compress(svm, 12, random_state=0)
    assert (without.predict(X) == svm.predict(X)).mean() > 0.95


def test_compressed_classifier_takes_the_function():
    svm = make_pipeline(StandardScaler(), SVC(kernel=laplacian_kernel))
    small = CompressedClassifier(svm, 10, random_state=0).fit(X, Y)
    assert small.score(X, Y) > 0.93
    assert small.expansion_.kernel.name == "laplacian"


@needs_gcc
@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
@pytest.mark.parametrize("exp", ["polynomial", "libm"])
def test_c_code_has_the_scores_of_python(storage, exp, tmp_path):
    model = make_pipeline(StandardScaler(), L1KernelClassifier(kernel="laplacian")).fit(X, Y)
    source = to_c(model, tmp_path, storage, X=X, exp=exp)
    codes, scores = run(compiled(source), X, True)
    values = model.decision_function(X)
    error = 1e-4 + source.rounding.largest_score_error
    assert_allclose(scores[:, 0], values, atol=error)
    clear = np.abs(values) > error
    assert_array_equal(codes[clear], model.predict(X)[clear])


@needs_gcc
@pytest.mark.parametrize("gamma", [1.0, 1e-38, 0.0])
def test_c_scores_are_finite_for_features_of_any_size(gamma, tmp_path):
    machine = L1KernelClassifier(kernel=Laplacian(0.5)).fit(X, Y).expansion_
    expansion = type(machine)(Laplacian(gamma), machine.centers, machine.coef, machine.intercept)
    source = to_c(expansion, tmp_path)
    rows = np.array([[np.inf, 0.0], [-np.inf, np.inf], [3e38, -3e38]])
    _, scores = run(compiled(source), rows, True)
    assert np.isfinite(scores).all()


def test_onnx_graph_has_the_scores_of_python():
    model = make_pipeline(StandardScaler(), MinimalKernelClassifier(kernel="laplacian")).fit(X, Y)
    session = onnxruntime.InferenceSession(to_onnx(model, X=X).SerializeToString())
    _, scores = session.run(None, {"X": np.float32(X)})
    assert_allclose(scores, model.decision_function(X), atol=1e-4)

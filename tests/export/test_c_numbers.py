"""Numbers, names and disks that no ordinary export meets: defined behaviour, or one sentence."""

import resource
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVC

from kernlet import KernelExpansion, to_c, to_onnx
from kernlet.export.c_names import c_identifier, file_identifier
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid
from kernlet.model.calibration import calibrated
from kernlet.model.model import Model, as_model
from support.c_programs import ALL_WARNINGS, SANITIZERS, compiled, needs_gcc, run
from support.exportable_models import IRIS, IRIS_LABELS, classifier

BOUNDED = ("svc", "svc pairs", "svc ties", "svc two classes", "sigmoid", "compact widths")
BOUNDED += ("compact int4 projected", "compact mixed", "compact unlike projected")
LARGE = (np.inf, -np.inf, 3.4e38, -3.4e38, 1e36, 1e34, -1e30, 1e19, 1e-45, 0.0)


def rows_with(X, number):
    """Rows with a number in one feature, in half of them, and in all, of both signs."""
    rows = np.repeat(np.float32(X[:1]), 4, axis=0)
    rows[0, 0] = rows[1, ::2] = rows[2] = rows[3] = number
    rows[3, ::2] *= -1
    return rows


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("exp", ["polynomial", "libm"])
@pytest.mark.parametrize("name", [*BOUNDED, "linear", "poly"])
def test_nan_makes_scores_nan_and_the_class_of_the_header(name, exp, tmp_path):
    model, X = classifier(name)
    program = compiled(to_c(model, tmp_path, X=X, exp=exp))
    codes, scores = run(program, rows_with(X, np.nan), True)
    assert np.isnan(scores).all()
    expected = as_model(model).codes(np.full((1, as_model(model).expansion.n_outputs), np.nan))[0]
    assert_array_equal(codes, expected)
    header = (tmp_path / "model.h").read_text("utf-8").replace("\n * ", " ")
    assert f"A feature that is NaN makes every score NaN and the class {expected}" in header
    # undefined behaviour would stop the program
    codes, _ = run(program, np.vstack([rows_with(X, number) for number in LARGE]), True)
    assert_array_equal((codes >= 0) & (codes < len(model.classes_)), True)


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_kernels_give_finite_scores_for_all_other_features(name, tmp_path):
    model, X = classifier(name)
    program = compiled(to_c(model, tmp_path, X=X))
    rows = np.vstack([rows_with(X, number) for number in LARGE])
    scores = run(program, rows, True)[1]
    assert np.isfinite(scores).all()
    header = (tmp_path / "model.h").read_text("utf-8").replace("\n * ", " ")
    assert "all other features, infinite ones too, give finite scores" in header
    if "projected" in name or name == "sigmoid":
        return
    # far from all centers, as in Python
    finite = rows[np.isfinite(rows).all(axis=1)].astype(float)
    values = np.reshape(model.decision_function(finite), (len(finite), -1))
    assert_allclose(scores[np.isfinite(rows).all(axis=1)], values, atol=1e-4 * np.abs(values).max())


def test_nan_gives_the_same_class_in_onnx(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    for name in ("svc", "svc ties", "svc two classes", "compact"):
        model, X = classifier(name)
        graph = to_onnx(model, X=X).SerializeToString()
        session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
        label, scores = session.run(["label", "scores"], {"X": rows_with(X, np.nan)})
        assert np.isnan(scores).all()
        outputs = np.full((1, as_model(model).expansion.n_outputs), np.nan)
        assert_array_equal(label, model.classes_[as_model(model).codes(outputs)][0])


@needs_gcc
@pytest.mark.parametrize("name", ["svc", "svc pairs", "compact", "svc two classes"])
@pytest.mark.parametrize("exp", ["polynomial", "libm"])
def test_probabilities_of_any_scores(name, exp, tmp_path):
    model, X = classifier(name)
    to_c(calibrated(as_model(model), X, model.predict(X)), tmp_path, exp=exp, name="m")
    main = """
    #include "m.h"
    #include <stdio.h>
    int main(void) {
        float scores[M_SCORES], p[M_CLASSES];
        while (fread(scores, sizeof scores, 1, stdin) == 1) {
            m_probabilities(scores, p);
            fwrite(p, sizeof p, 1, stdout);
        }
        return 0;
    }"""
    (tmp_path / "main.c").write_text(main)
    command = ["gcc", *ALL_WARNINGS, *SANITIZERS, "main.c", "m.c", "-o", "main", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    n_scores = np.reshape(model.decision_function(X[:1]), (1, -1)).shape[1]
    numbers = [np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 4e4, -1e9, 1e-45, 0.0, 2.49]
    scores = np.float32([[number] * n_scores for number in numbers])
    scores = np.vstack([scores, np.where(np.arange(n_scores) % 2, scores, 0.3)]).astype(np.float32)
    ran = subprocess.run([tmp_path / "main"], input=scores.tobytes(), capture_output=True)
    assert ran.returncode == 0, ran.stderr
    found = np.frombuffer(ran.stdout, np.float32).reshape(len(scores), -1)
    is_ordinary = (np.abs(scores) < 1e30).all(axis=1)
    assert_allclose(found[is_ordinary].sum(axis=1), 1, atol=1e-5)
    assert np.isnan(found[np.isnan(scores).any(axis=1)]).all()


@needs_gcc
@pytest.mark.parametrize("gamma", [0.0, 1e-50, 1e-42])
def test_widths_that_float32_cannot_hold(gamma, tmp_path):
    expansion = KernelExpansion(RBF(gamma), np.eye(2), np.ones((1, 2)), np.zeros(1))
    X = np.vstack([np.eye(2), rows_with(np.eye(2), 3.4e38)])
    values = run(compiled(to_c(expansion, tmp_path, X=np.eye(2))), X, False)
    assert_allclose(values, 2.0, rtol=1e-3)


@needs_gcc
def test_an_inner_product_of_large_features_has_its_sign(tmp_path):
    expansion = KernelExpansion(Sigmoid(1.0), np.array([[30.0, -20.0]]), np.ones((1, 1)), [0.0])
    X = np.float32([[1e38, 1e38], [-1e38, -1e38], [1e38, np.inf], [0.0, 3e38]])
    values = run(compiled(to_c(expansion, tmp_path)), X, False)[:, 0]
    assert_allclose(values[[0, 1, 3]], [1.0, -1.0, -1.0])
    assert np.isfinite(values).all()


@needs_gcc
@pytest.mark.parametrize("n_classes", [1, 2])
def test_one_output_per_class_of_one_or_two_classes(n_classes, tmp_path):
    random = np.random.RandomState(0)
    coef = random.normal(size=(n_classes, 5))
    expansion = KernelExpansion(RBF(0.5), random.normal(size=(5, 3)), coef, np.zeros(n_classes))
    classes = np.arange(n_classes)
    model = Model(expansion, "classifier", classes, scheme="one vs rest", temperature=0.5)
    to_c(model, tmp_path, name="m")
    main = """
    #include "m.h"
    #include <stdio.h>
    int main(void) {
        const float x[3] = {0.1f, 0.2f, -0.3f};
        float scores[M_SCORES], p[M_CLASSES];
        printf("%d ", m_predict(x, scores));
        m_probabilities(scores, p);
        for (int c = 0; c < M_CLASSES; ++c) printf("%.9g ", (double)p[c]);
        return 0;
    }"""
    (tmp_path / "main.c").write_text(main)
    command = ["gcc", *ALL_WARNINGS, *SANITIZERS, "main.c", "m.c", "-o", "main", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    outputs = model.outputs(np.array([[0.1, 0.2, -0.3]]))
    assert int(said.split()[0]) == model.codes(outputs)[0]
    found = [float(text) for text in said.split()[1:]]
    assert_allclose(found, model.probabilities(outputs)[0], atol=1e-5)


@needs_gcc
def test_ties_are_broken_where_the_fractions_of_votes_are_equal_in_float(tmp_path):
    # outputs of 1e7: s / (3 (abs(s) + 1)) is 1/3 for all classes in float32
    expansion = KernelExpansion(
        RBF(0.5), np.eye(3), 1e7 * np.array([[1, 2, 0], [-3, 0, 0], [0, 0, 1]]), np.zeros(3)
    )
    pairs = {"scheme": "one vs one", "votes": True, "break_ties": True}
    model = Model(expansion, "classifier", np.arange(3), **pairs)
    X = np.random.RandomState(0).normal(size=(50, 3))
    codes, _ = run(compiled(to_c(model, tmp_path, X=X)), X, True)
    assert_array_equal(codes, model.codes(model.outputs(np.float32(X).astype(float))))


def test_names_that_c_cannot_hold_are_refused(tmp_path):
    model = as_model(SVC().fit(IRIS, IRIS_LABELS))
    classes = np.array(["a\0b", "a\0c", "b"], dtype=object)
    with pytest.raises(ValueError, match=r"class 'a\\x00b' contains a NUL character.*rename"):
        to_c(replace(model, classes=classes), tmp_path / "out")
    for name in ("math", "Stdint", "string"):
        with pytest.raises(ValueError, match=rf"would hide <{name.lower()}\.h>"):
            to_c(model, tmp_path / "out", name=name)
    assert not (tmp_path / "out").exists()
    assert file_identifier("math") == "model_math"
    assert c_identifier("time", "column") == "time"  # a field may be called so
    assert [c_identifier(name) for name in ("slots", "interface", "min")] == [
        "model_slots",
        "model_interface",
        "min",
    ]


def test_rows_that_do_not_fit_in_float32_are_refused(tmp_path):
    X = np.vstack([IRIS, [[1e39, 0, 0, 0]]])
    with pytest.raises(ValueError, match=r"A feature of 1e\+39 does not fit in float32"):
        to_c(SVC().fit(IRIS, IRIS_LABELS), tmp_path, X=X)


def test_scores_that_overflow_in_python_are_refused(tmp_path):
    expansion = KernelExpansion(Polynomial(1.0, 20), np.eye(2), np.ones((1, 2)), np.zeros(1))
    with pytest.raises(ValueError, match=r"Row 1 of X.* overflows in the machine"):
        to_c(expansion, tmp_path, X=np.array([[1.0, 2.0], [1e20, 0.0]]))


def test_a_makefile_of_another_project_is_kept(tmp_path):
    (tmp_path / "Makefile").write_text("firmware: main.c\n")
    with pytest.raises(ValueError, match="Makefile was not written by kernlet"):
        to_c(SVC().fit(IRIS, IRIS_LABELS), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["Makefile"]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_full_disk_leaves_all_files_or_none(is_new, tmp_path):
    model = SVC().fit(IRIS, IRIS_LABELS)
    source = to_c(model, tmp_path)
    sizes = [path.stat().st_size for path in source.files]
    if is_new:
        for path in source.files:
            path.unlink()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((sizes[0] + sizes[1]) // 2, hard))
    try:
        with pytest.raises(OSError, match="File too large"):  # the header fits, the source does not
            to_c(SVC(C=10).fit(IRIS, IRIS_LABELS), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

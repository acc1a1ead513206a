"""LIBSVM's model files."""

import time
import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.svm import SVC, NuSVC

from kernlet import compress, load, save, to_c, to_onnx
from kernlet.kernels.polynomial import Polynomial
from kernlet.model import libsvm
from kernlet.model.libsvm import read_libsvm
from kernlet.model.model import as_classifier, pairs_won

KERNELS = [
    {"kernel": "rbf", "gamma": 0.3},
    {"kernel": "poly", "degree": 2, "gamma": 0.5, "coef0": 1.5},
    {"kernel": "linear"},
    {"kernel": "sigmoid", "gamma": 0.05, "coef0": -0.3},
]
FIELDS = {"poly": ("degree", "gamma", "coef0"), "rbf": ("gamma",), "sigmoid": ("gamma", "coef0")}


def rows_and_codes(n_classes, n_rows=150):
    random = np.random.RandomState(n_classes)
    codes = np.arange(n_rows) % n_classes
    X = random.randn(n_rows, 4) + 1.5 * random.randn(n_classes, 4)[codes]
    return np.where(np.abs(X) > 0.3, X, 0.0), codes


def model_text(machine, labels):
    """A fitted SVC as svm-train would save it, its classes named by ``labels``."""
    name = {"poly": "polynomial"}.get(machine.kernel, machine.kernel)
    header = [f"svm_type {machine._impl}", f"kernel_type {name}"]
    for field in FIELDS.get(machine.kernel, ()):
        header.append(f"{field} {getattr(machine, field):.17g}")
    header += [
        f"nr_class {len(labels)}",
        f"total_sv {len(machine.support_vectors_)}",
        "rho " + " ".join(f"{-value:.17g}" for value in machine._intercept_),
        "label " + " ".join(map(str, labels)),
        "nr_sv " + " ".join(map(str, machine.n_support_)),
        "SV",
    ]
    lines = [
        " ".join(f"{value:.17g}" for value in coef) + "".join(_entries(row)) + " "
        for coef, row in zip(machine._dual_coef_.T, machine.support_vectors_, strict=True)
    ]
    return "\n".join(header + lines) + "\n"


def _entries(row):
    return [f" {feature + 1}:{row[feature]:.17g}" for feature in np.flatnonzero(row)]


def write(folder, text):
    path = folder / "a.model"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def evaluate(model, X):
    outputs = model.expansion.decision_values(X)
    return model.scores(outputs), model.classes[model.codes(outputs)]


@pytest.mark.parametrize("parameters", KERNELS, ids=str)
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("kind", [SVC, NuSVC])
def test_the_machine_that_was_written(tmp_path, parameters, n_classes, kind):
    X, codes = rows_and_codes(n_classes)
    if kind is NuSVC:
        parameters = {**parameters, "nu": 0.2}
    machine = kind(**parameters).fit(X, codes)
    model = as_classifier(write(tmp_path, model_text(machine, range(n_classes))))
    values, classes = evaluate(model, X)
    np.testing.assert_allclose(values, machine.decision_function(X), atol=1e-10)
    np.testing.assert_array_equal(classes, machine.predict(X))
    assert model.n_features == 4
    assert model.feature_names is None


@pytest.mark.parametrize("labels", [(1, -1), (-1, 1), (7, 2)])
def test_two_labels_in_any_order(tmp_path, labels):
    X, codes = rows_and_codes(2)
    machine = SVC(gamma=0.3).fit(X, codes)
    model = as_classifier(str(write(tmp_path, model_text(machine, labels))))
    np.testing.assert_array_equal(model.classes, sorted(labels))
    values, classes = evaluate(model, X)
    sign = 1 if labels[0] < labels[1] else -1  # positive means the larger label
    np.testing.assert_allclose(values, sign * machine.decision_function(X), atol=1e-10)
    np.testing.assert_array_equal(classes, np.array(labels)[machine.predict(X)])


def test_more_labels_in_any_order(tmp_path):
    X, codes = rows_and_codes(4)
    labels = np.array([5, -2, 9, 0])
    machine = SVC(gamma=0.3, decision_function_shape="ovo").fit(X, codes)
    model = as_classifier(write(tmp_path, model_text(machine, labels)))
    np.testing.assert_array_equal(model.classes, [-2, 0, 5, 9])
    expected = dict(zip(combinations(labels, 2), machine.decision_function(X).T, strict=True))
    found = model.expansion.decision_values(X).T
    for values, (i, j) in zip(found, combinations(model.classes, 2), strict=True):
        pair = expected[i, j] if (i, j) in expected else -expected[j, i]
        np.testing.assert_allclose(values, pair, atol=1e-10)
    won = np.sort(pairs_won(found.T > 0, 4), axis=1)
    clear = won[:, -1] > won[:, -2]
    assert clear.sum() > 100
    _, classes = evaluate(model, X)
    np.testing.assert_array_equal(classes[clear], labels[machine.predict(X)][clear])


TINY = """svm_type c_svc
kernel_type polynomial
degree 2
gamma 0.5
coef0 1
nr_class 2
total_sv 3
rho 0.25
label 1 -1
probA -1.5
probB 0.1
nr_sv 2 1
SV
1 1:1 3:2
0.5
-1.5 2:-1
"""


def test_by_hand(tmp_path):
    model = read_libsvm(write(tmp_path, TINY))
    assert model.kernel == Polynomial(0.5, 2, 1.0)
    centers = [[1, 0, 2], [0, 0, 0], [0, -1, 0]]
    np.testing.assert_array_equal(sparse.csr_array(model.centers).toarray(), centers)
    np.testing.assert_array_equal(model.dual_coef, [[1.0, 0.5, -1.5]])
    values, classes = evaluate(as_classifier(model), np.array([[2.0, 0.0, 0.0]]))
    np.testing.assert_allclose(values, 4 + 0.5 - 1.5 - 0.25)  # positive means 1, not -1
    np.testing.assert_array_equal(classes, [1])


def test_windows_lines_and_blank_lines(tmp_path):
    text = TINY.replace("\n", "\r\n") + "\r\n"
    np.testing.assert_array_equal(read_libsvm(write(tmp_path, text)).n_support, [2, 1])


def test_width_of_the_input(tmp_path):
    path = write(tmp_path, TINY)
    assert as_classifier(read_libsvm(path, n_features=10)).n_features == 10
    with pytest.raises(ValueError, match="line 14: feature 3 does not fit into n_features=2"):
        read_libsvm(path, n_features=2)


def test_dense_or_sparse_by_size(tmp_path):
    X, codes = rows_and_codes(2)
    path = write(tmp_path, model_text(SVC(gamma=0.3).fit(X, codes), (0, 1)))
    assert isinstance(read_libsvm(path).centers, np.ndarray)
    assert sparse.issparse(read_libsvm(path, n_features=1000).centers)


DAMAGES = {
    "another type": ("c_svc", "one_class", 13, "svm_type one_class has no classes, but the file"),
    "regression": ("c_svc", "epsilon_svr", 13, "svm_type epsilon_svr has no classes, but the file"),
    "unknown type": ("c_svc", "d_svc", 1, "svm_type 'd_svc' is not one of c_svc, nu_svc"),
    "precomputed": ("polynomial", "precomputed", 2, "kernel_type precomputed has no points"),
    "unknown kernel": ("polynomial", "cubic", 2, "kernel_type 'cubic' is not one of linear, poly"),
    "degree 0": ("degree 2", "degree 0", 3, "'0' is not an integer from 1"),
    "endless degree": ("degree 2", "degree 2000000000", 3, "is not an integer from 1 to 1000"),
    "half a degree": ("degree 2", "degree 2.5", 3, "'2.5' is not an integer"),
    "two gammas": ("gamma 0.5", "gamma 0.5 1", 4, "one value is expected, not 2"),
    "gamma nan": ("gamma 0.5", "gamma nan", 4, "'nan' is not a finite number"),
    "negative gamma": ("gamma 0.5", "gamma -1", 4, "gamma -1.0 is negative"),
    "underscore": ("gamma 0.5", "gamma 1_0", 4, "'1_0' is not a finite number"),
    "no gamma": ("gamma 0.5\n", "", 12, "the header ends without gamma"),
    "no rho": ("rho 0.25\n", "", 12, "the header ends without rho"),
    "twice": ("coef0 1", "degree 2", 5, "degree is given twice"),
    "one class": ("nr_class 2", "nr_class 1", 6, "'1' is not an integer from 2"),
    "many classes": ("nr_class 2", "nr_class 2000000000", 13, "needs 2000000000 values of label"),
    "too many classes": ("nr_class 2", f"nr_class {10**30}", 6, "is not an integer"),
    "many vectors": ("total_sv 3", "total_sv 2000000000", 13, "nr_sv adds up to 3, not to 2000"),
    "many of both": (
        "total_sv 3\nrho 0.25\nlabel 1 -1\nprobA -1.5\nprobB 0.1\nnr_sv 2 1",
        "total_sv 2000000000\nrho 0\nlabel 1 -1\nnr_sv 1000000000 1000000000",
        14,
        "the file ends after 3 of 2000000000 support vectors",
    ),
    "no vectors": ("total_sv 3", "total_sv 0", 7, "'0' is not an integer from 1"),
    "two rhos": ("rho 0.25", "rho 0.25 1", 13, "nr_class 2 needs 1 values of rho, not 2"),
    "equal labels": ("label 1 -1", "label 1 1", 13, "a label is given twice"),
    "word as label": ("label 1 -1", "label 1 asp", 9, "'asp' is not an integer"),
    "unknown field": ("probB", "probC", 11, "'probC' is not a field of a LIBSVM model file"),
    "gamma beyond all": ("gamma 0.5", "gamma 1e301", 16, "kernel.gamma must be"),
    "no SV": ("\nSV\n", "\n", 13, "'1' is not a field"),
    "coef nan": ("0.5\n-1.5", "nan\n-1.5", 15, "'nan' is not a finite number"),
    "coef inf": ("0.5\n-1.5", "1e999\n-1.5", 15, "'1e999' is not a finite number"),
    "value nan": ("3:2", "3:nan", 14, "'nan' is not a finite number"),
    "no colon": ("3:2", "3", 14, "'3' is not feature:value"),
    "feature 0": ("1:1 3:2", "0:1 3:2", 14, "'0' is not an integer from 1"),
    "far feature": ("3:2", "99999999999:2", 14, "'99999999999' is not an integer"),
    "order": ("1:1 3:2", "3:1 1:2", 14, "feature 1 comes after feature 3"),
    "same feature": ("1:1 3:2", "3:1 3:2", 14, "feature 3 comes after feature 3"),
    "one more": ("-1.5 2:-1", "-1.5 2:-1\n1 1:1", 17, "more support vectors than total_sv 3"),
    "one fewer": ("-1.5 2:-1\n", "", 15, "the file ends after 2 of 3 support vectors"),
    "cut": ("2:-1\n", "2:-", 16, "the file looks truncated"),
    "not text": ("gamma", "g\xe4mma", 4, "is not a field"),
}


@pytest.mark.parametrize(("old", "new", "line", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_files(tmp_path, old, new, line, message):
    assert TINY.count(old) == 1
    path = write(tmp_path, TINY.replace(old, new))
    with pytest.raises(ValueError, match=message) as caught:
        as_classifier(path)
    assert str(caught.value).startswith(f"{path}, line {line}: ")


def test_too_few_coefficients(tmp_path):
    X, codes = rows_and_codes(3)
    text = model_text(SVC(gamma=0.3).fit(X, codes), range(3))
    with pytest.raises(ValueError, match="a support vector needs 2 coefficients, not 1"):
        as_classifier(write(tmp_path, text.split("SV\n")[0] + "SV\n0.5\n"))


def test_empty_files(tmp_path):
    with pytest.raises(ValueError, match="line 1: the file ends before its support vectors"):
        as_classifier(write(tmp_path, ""))


def test_no_features(tmp_path):
    text = TINY.replace(" 1:1 3:2", "").replace(" 2:-1", "")
    with pytest.raises(ValueError, match="no support vector has a nonzero feature"):
        as_classifier(write(tmp_path, text))
    assert read_libsvm(write(tmp_path, text), n_features=3).centers.shape == (3, 3)


def test_far_features_take_no_memory(tmp_path):
    model = read_libsvm(write(tmp_path, TINY.replace("3:2", "2147483647:2")))
    assert model.centers.shape == (3, 2**31 - 1)
    assert model.centers.data.nbytes < 100


def test_many_classes_and_vectors_are_refused(tmp_path, monkeypatch):
    X, codes = rows_and_codes(5)
    path = write(tmp_path, model_text(SVC(gamma=0.3).fit(X, codes), range(5)))
    monkeypatch.setattr(libsvm, "_LARGEST_MACHINE", 100)
    with pytest.raises(ValueError, match=r"5 classes and .* support vectors make more than 100"):
        read_libsvm(path)


def test_equal_vectors_whose_coefficients_overflow(tmp_path):
    text = TINY.replace("1 1:1 3:2\n0.5\n", "1e308 1:1 3:2\n1e308 1:1 3:2\n")
    with pytest.raises(ValueError, match="overflow when they are added"):
        as_classifier(write(tmp_path, text))


@pytest.mark.parametrize("feature", [20_000_000, 2**31 - 1])
@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
def test_far_features_cost_nothing(tmp_path, feature, kernel):
    """Time and memory grow with the file, not with a number in it."""
    text = TINY.replace("polynomial", kernel).replace("3:2", f"{feature}:1e9")
    path = write(tmp_path, text)
    rows = sparse.csr_array(([1e9, 1.0], ([0, 1], [feature - 1, 0])), shape=(2, feature))
    tracemalloc.start()
    began = time.process_time()
    try:
        model = as_classifier(path)
        assert np.isfinite(model.outputs(rows)).all()
        for consume in (
            lambda: compress(path, 2),
            lambda: to_c(path, tmp_path / "c"),
            lambda: to_onnx(path),
        ):
            with pytest.raises(ValueError, match="are too wide"):
                consume()
        save(path, tmp_path / "m.kernlet")
        np.testing.assert_array_equal(
            load(tmp_path / "m.kernlet").decision_function(rows), model.scores(model.outputs(rows))
        )
        assert tracemalloc.get_traced_memory()[1] < 50e6
        assert time.process_time() - began < 5
    finally:
        tracemalloc.stop()


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        as_classifier(tmp_path / "none.model")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged")


WORDS = ["nan", "-1", "0", "1e308", "inf", ":", "1:", ":1", "9" * 30, "SV", "label", "\n", "x", ""]


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_words_changed_at_random(folder, data):
    words = TINY.replace("\n", " \n ").split(" ")
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(words) - 1))
        words[place] = data.draw(st.sampled_from(WORDS) | st.sampled_from(words))
    only_value_errors(folder, " ".join(words).encode())


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(TINY)), st.integers(0, 20), st.binary(max_size=20))
def test_bytes_changed_at_random(folder, start, length, new):
    old = TINY.encode()
    only_value_errors(folder, old[:start] + new + old[start + length :])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(folder, text):
    only_value_errors(folder, text)


@pytest.mark.parametrize("length", range(len(TINY)))
def test_cut_anywhere(tmp_path, length):
    with pytest.raises(ValueError, match=r"a\.model, line \d+: "):
        as_classifier(write(tmp_path, TINY[:length]))


def only_value_errors(folder, text):
    """A file either is refused, by its name and line, or gives a machine that evaluates."""
    path = write(folder, text)
    try:
        model = as_classifier(path)
    except ValueError as error:
        message = str(error)
    else:
        assert np.isfinite(model.expansion.coef).all()
        assert model.expansion.n_features == model.n_features
        return
    assert message.startswith(f"{path}, line ")

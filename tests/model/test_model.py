"""A Model predicts what the classifier it was made from predicts."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, OneClassSVM
from sklearn.utils.multiclass import _ovr_decision_function

from kernlet import KernelExpansion, L1KernelClassifier
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.model.convert import pair_coefficients
from kernlet.model.model import (
    Model,
    as_classifier,
    decision_values,
    link,
    predicted_codes,
    vote_values,
)

KERNELS = [
    {"kernel": "rbf"},
    {"kernel": "rbf", "gamma": 0.7},
    {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": "auto"},
    {"kernel": "linear"},
    {"kernel": "sigmoid", "gamma": 0.05, "coef0": -0.3},
]


def problem(n_classes, n_rows=240):
    X, y = make_classification(
        n_rows,
        5,
        n_informative=5,
        n_redundant=0,
        n_classes=n_classes,
        n_clusters_per_class=1,
        class_sep=0.6,
        random_state=n_classes,
    )
    return X, np.array(["lynx", "asp", "elk", "bee", "owl", "cod"])[y]


def assert_same(model, X, tolerance=1e-10):
    """Decision values to the tolerance, classes exactly."""
    unwrapped = as_classifier(model)
    outputs = unwrapped.outputs(unwrapped.rows(X))
    expected = model.decision_function(X)
    assert unwrapped.scores(outputs).shape == expected.shape
    np.testing.assert_allclose(unwrapped.scores(outputs), expected, atol=tolerance, rtol=0)
    np.testing.assert_array_equal(unwrapped.classes[unwrapped.codes(outputs)], model.predict(X))
    np.testing.assert_array_equal(unwrapped.classes, model.classes_)
    assert unwrapped.n_features_in == X.shape[1]
    return unwrapped


@pytest.mark.parametrize("parameters", KERNELS, ids=str)
@pytest.mark.parametrize("n_classes", [2, 3, 4, 6])
@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_svc(parameters, n_classes, shape):
    X, y = problem(n_classes)
    unwrapped = assert_same(SVC(**parameters, decision_function_shape=shape).fit(X, y), X)
    assert unwrapped.scheme == ("one output" if n_classes == 2 else "one vs one")
    assert unwrapped.votes == (n_classes > 2 and shape == "ovr")
    assert unwrapped.steps == ()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_nu_svc(n_classes, shape):
    X, y = problem(n_classes)
    assert_same(NuSVC(nu=0.2, decision_function_shape=shape).fit(X, y), X)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_broken_ties(n_classes):
    X, y = problem(n_classes)
    machine = SVC(gamma=0.1, break_ties=True).fit(X, y)
    everywhere = np.random.RandomState(0).uniform(-4, 4, size=(2000, 5))
    assert assert_same(machine, everywhere).break_ties == (n_classes > 2)
    if n_classes == 6:
        plain = SVC(gamma=0.1).fit(X, y)
        assert (plain.predict(everywhere) != machine.predict(everywhere)).any()
        assert_same(plain, everywhere)


@pytest.mark.parametrize("parameters", KERNELS, ids=str)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_sparse_rows(parameters, n_classes):
    X, y = problem(n_classes)
    X = sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    unwrapped = assert_same(SVC(**parameters).fit(X, y), X)
    assert sparse.issparse(unwrapped.expansion.centers)


def test_equal_support_vectors_are_one_center():
    X, y = problem(3)
    machine = SVC().fit(np.vstack([X, X]), np.hstack([y, y]))
    unwrapped = assert_same(machine, X)
    assert unwrapped.expansion.n_centers == len(np.unique(machine.support_vectors_, axis=0))
    assert unwrapped.expansion.n_centers < len(machine.support_vectors_)


def test_weights_need_nothing():
    X, y = problem(3)
    weights = np.random.RandomState(0).randint(3, size=len(y))
    assert_same(SVC(class_weight="balanced").fit(X, y, sample_weight=weights), X)


@pytest.mark.parametrize("machine", [SVC(), NuSVC(nu=0.1), L1KernelClassifier()], ids=str)
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_one_vs_rest(machine, n_classes):
    X, y = problem(n_classes)
    model = OneVsRestClassifier(machine).fit(X, y)
    unwrapped = assert_same(model, X)
    assert unwrapped.scheme == ("one output" if n_classes == 2 else "one vs rest")
    assert unwrapped.expansion.n_centers == len(np.unique(unwrapped.expansion.centers, axis=0))


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("make_rows", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_one_vs_one(n_classes, make_rows):
    X, y = problem(n_classes)
    X = make_rows(X)
    unwrapped = assert_same(OneVsOneClassifier(SVC(gamma=0.2)).fit(X, y), X)
    assert unwrapped.scheme == "one vs one"
    assert unwrapped.votes


@pytest.mark.parametrize("n_classes", [2, 3])
def test_kernlet_classifiers(n_classes):
    X, y = problem(n_classes)
    machine = L1KernelClassifier(random_state=0).fit(X, y)
    unwrapped = assert_same(machine, X)
    assert unwrapped.expansion is machine.expansion_
    assert unwrapped.scheme == ("one output" if n_classes == 2 else "one vs rest")


@pytest.mark.parametrize(
    "machine", [SVC(), OneVsRestClassifier(SVC()), OneVsOneClassifier(SVC(gamma=0.2))], ids=str
)
def test_pipelines(machine):
    X, y = problem(4)
    table = pd.DataFrame(X * [1, 10, 100, 1, 1] + 3, columns=list("abcde"))
    steps = [
        ("nothing", "passthrough"),
        ("scaler", StandardScaler()),
        ("none", None),
        ("rest", make_pipeline(MinMaxScaler(), machine)),
    ]
    unwrapped = assert_same(Pipeline(steps).fit(table, y), table)
    assert [name for name, _ in unwrapped.steps] == ["scaler", "minmaxscaler"]
    np.testing.assert_array_equal(unwrapped.feature_names, list("abcde"))


def test_width_of_the_raw_input():
    X, y = problem(3)
    model = make_pipeline(_Halved(), SVC()).fit(X, y)
    unwrapped = assert_same(model, X)
    assert (unwrapped.n_features_in, unwrapped.expansion.n_features) == (5, 2)


class _Halved(StandardScaler):
    def transform(self, X):
        return super().transform(X)[:, :2]

    def fit_transform(self, X, y=None):
        return self.fit(X).transform(X)


def test_pipeline_of_one_step():
    X, y = problem(3)
    assert assert_same(make_pipeline(SVC()).fit(X, y), X).steps == ()


def test_searches():
    X, y = problem(3)
    inner = GridSearchCV(SVC(), {"gamma": [0.1, 0.3]}, cv=2)
    assert assert_same(inner.fit(X, y), X).expansion.kernel == RBF(inner.best_params_["gamma"])
    assert_same(make_pipeline(StandardScaler(), inner).fit(X, y), X)
    outer = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [1, 3]}, cv=2)
    assert len(assert_same(outer.fit(X, y), X).steps) == 1


@pytest.mark.parametrize(
    "model",
    [
        SVC(),
        NuSVC(),
        L1KernelClassifier(),
        OneVsRestClassifier(SVC()),
        OneVsOneClassifier(SVC()),
        make_pipeline(StandardScaler(), SVC()),
        GridSearchCV(SVC(), {"C": [1]}),
    ],
    ids=lambda model: type(model).__name__,
)
def test_not_fitted(model):
    with pytest.raises(NotFittedError):
        as_classifier(model)


@pytest.mark.parametrize(
    "model", [LinearSVC(), LogisticRegression(), SVR(), OneClassSVM(), SVC, None, 3.0], ids=str
)
def test_no_kernel_classifier(model):
    X, y = problem(2)
    if hasattr(model, "fit") and not isinstance(model, type):
        model.fit(X, y == "asp")
    with pytest.raises(TypeError, match=r"is not a kernel (machine with centers|classifier)\."):
        as_classifier(model)


def test_pipeline_without_a_classifier():
    with pytest.raises(TypeError, match="str is not a kernel machine"):
        as_classifier(Pipeline([("scaler", StandardScaler()), ("end", "passthrough")]))


def test_kernels_without_points():
    X, y = problem(2)
    with pytest.raises(ValueError, match="The kernel of this SVC is 'precomputed'"):
        as_classifier(SVC(kernel="precomputed").fit(X @ X.T, y))
    with pytest.raises(ValueError, match="The kernel of this NuSVC is a function"):
        as_classifier(NuSVC(nu=0.1, kernel=lambda A, B: A @ B.T).fit(X, y))
    with pytest.raises(ValueError, match="degree 0 is constant"):
        as_classifier(SVC(kernel="poly", degree=0).fit(X, y))


def test_different_kernels():
    X, y = problem(3)
    with pytest.raises(ValueError, match=r"different kernels.*Fit it with a number for gamma"):
        as_classifier(OneVsOneClassifier(SVC(gamma="scale")).fit(X, y))


def test_pipelines_inside():
    X, y = problem(3)
    with pytest.raises(ValueError, match="OneVsRestClassifier into one Pipeline instead"):
        as_classifier(OneVsRestClassifier(make_pipeline(StandardScaler(), SVC())).fit(X, y))


def test_several_labels_at_once():
    X, _ = problem(2)
    with pytest.raises(ValueError, match="several labels at once"):
        as_classifier(OneVsRestClassifier(SVC()).fit(X, X[:, :3] > 0))


def test_search_that_kept_nothing():
    X, y = problem(2)
    with pytest.raises(ValueError, match="Fit the GridSearchCV with refit=True"):
        as_classifier(GridSearchCV(SVC(), {"C": [1]}, refit=False, cv=2).fit(X, y))


def test_text():
    texts, y = ["a lynx", "an asp", "lynx lynx", "asp asp"], [0, 1, 0, 1]
    model = make_pipeline(TfidfVectorizer(), SVC()).fit(texts, y)
    unwrapped = as_classifier(model)
    assert (unwrapped.n_features_in, unwrapped.feature_names) == (None, None)
    assert [name for name, _ in unwrapped.steps] == ["tfidfvectorizer"]
    assert_same(model[-1], model[:-1].transform(texts))


def test_class_without_weight():
    X, y = problem(3)
    machine = SVC().fit(X, y, sample_weight=(y != "asp").astype(float))
    with pytest.raises(ValueError, match="3 classes and support vectors of 2"):
        as_classifier(machine)


def pair_outputs(n_classes, whole=False):
    outputs = np.random.RandomState(n_classes).randn(200, n_classes * (n_classes - 1) // 2)
    return np.round(outputs) if whole else outputs


def libsvm_vote(row, n_classes):
    """As svm_predict_values counts, loop for loop."""
    votes, pair = [0] * n_classes, 0
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            votes[i if row[pair] > 0 else j] += 1
            pair += 1
    return votes.index(max(votes))


@pytest.mark.parametrize("n_classes", [2, 3, 4, 6])
@pytest.mark.parametrize("whole", [False, True], ids=["margins", "ties and zeros"])
def test_vote_values_are_those_of_scikit_learn(n_classes, whole):
    outputs = pair_outputs(n_classes, whole)
    expected = _ovr_decision_function(outputs < 0, -outputs, n_classes)
    np.testing.assert_array_equal(vote_values(outputs, n_classes), expected)
    codes = predicted_codes(outputs, "one vs one", n_classes, break_ties=True)
    np.testing.assert_array_equal(codes, expected.argmax(axis=1))


@pytest.mark.parametrize("n_classes", [2, 3, 4, 6])
@pytest.mark.parametrize("whole", [False, True], ids=["margins", "ties and zeros"])
def test_codes_are_those_of_libsvm(n_classes, whole):
    outputs = pair_outputs(n_classes, whole)
    codes = predicted_codes(outputs, "one vs one", n_classes, break_ties=False)
    np.testing.assert_array_equal(codes, [libsvm_vote(row, n_classes) for row in outputs])


def test_one_output():
    outputs = np.array([[-2.0], [0.0], [3.0]])
    np.testing.assert_array_equal(decision_values(outputs, "one output", 2, False), [-2, 0, 3])
    for break_ties, codes in [(False, [0, 1, 1]), (True, [0, 0, 1])]:
        found = predicted_codes(outputs, "one output", 2, break_ties)
        np.testing.assert_array_equal(found, codes)


def test_zero_is_the_second_class_of_an_svc():
    """Far from the symmetric centers all kernel values are 0, and so is the intercept."""
    X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), [0, 0, 1, 1]
    machine, far = SVC(gamma=1.0).fit(X, y), np.array([[100.0, 0.0]])
    assert machine.decision_function(far) == 0
    outputs = machine.decision_function(far)[:, None]
    codes = predicted_codes(outputs, "one output", 2, break_ties=False)
    np.testing.assert_array_equal(codes, machine.predict(far))


def test_the_largest_output_wins():
    outputs = np.array([[0.5, -1.0, 0.5], [-3.0, -1.0, -2.0]])
    assert decision_values(outputs, "one vs rest", 3, votes=False) is outputs
    for break_ties in (False, True):
        codes = predicted_codes(outputs, "one vs rest", 3, break_ties)
        np.testing.assert_array_equal(codes, [0, 1])


def test_shapes_of_pairs():
    outputs = pair_outputs(4)
    assert decision_values(outputs, "one vs one", 4, votes=False) is outputs
    assert decision_values(outputs, "one vs one", 4, votes=True).shape == (200, 4)
    assert decision_values(pair_outputs(2), "one vs one", 2, votes=True).shape == (200,)


def test_pairs_of_an_svc():
    """With the linear kernel, coef_ of an SVC is one row a pair."""
    random = np.random.RandomState(0)
    X, y = random.randn(80, 3), random.randint(4, size=80)
    machine = SVC(kernel="linear").fit(X, y)
    coef = pair_coefficients(machine.dual_coef_, machine.n_support_)
    np.testing.assert_allclose(coef @ machine.support_vectors_, machine.coef_, atol=1e-12)


def test_rows_that_overflow_are_refused_by_number():
    expansion = KernelExpansion(Polynomial(1.0, 9, 0.0), np.eye(2), np.ones((3, 2)), np.zeros(3))
    model = Model(expansion, "classifier", np.arange(3))
    assert model.outputs(np.ones((2, 2))).shape == (2, 3)
    with pytest.raises(ValueError, match=r"Row 1 of X, counted from 0, overflows in the machine"):
        model.outputs(np.array([[1.0, 1.0], [1e200, 1.0]]))


def test_votes_and_probabilities_of_scores_near_overflow():
    outputs = np.array([[1.5e308, 1.5e308, -1.5e308]])
    values = vote_values(outputs, 3)
    np.testing.assert_allclose(values, [[2 + 1 / 3, -1 / 3, 1]])
    probabilities = link(np.array([[1e10, 2e10, -1e308]]), 1e-305, 0.0)
    np.testing.assert_array_equal(probabilities, [[0, 1, 0]])
    np.testing.assert_array_equal(link(np.array([1e10, -1e10]), 1e-305, 0.0), [[0, 1], [1, 0]])

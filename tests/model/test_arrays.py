"""Models from the arrays of an SVC."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernlet.affine import AffineMap
from kernlet.model.arrays import from_svc_arrays
from kernlet.model.model import as_model

X, LABELS = load_iris(return_X_y=True)
NAMES = load_iris().target_names[LABELS]


def arrays(svm):
    names = ("support_vectors_", "dual_coef_", "intercept_", "classes_", "n_support_")
    return [getattr(svm, name) for name in names]


@pytest.mark.parametrize("y", [LABELS, NAMES, LABELS > 1], ids=["numbers", "texts", "two"])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_the_arrays_are_the_svc(y, kernel):
    svm = SVC(kernel=kernel, coef0=1.0, degree=2).fit(X, y)
    model = from_svc_arrays(*arrays(svm), gamma=svm._gamma, kernel=kernel, degree=2, coef0=1.0)
    outputs = model.outputs(X)
    np.testing.assert_array_equal(outputs, as_model(svm).outputs(X))
    np.testing.assert_array_equal(model.classes[model.codes(outputs)], svm.predict(X))
    np.testing.assert_allclose(model.scores(outputs), svm.decision_function(X), atol=1e-9)


def test_two_classes_need_no_counts_and_sparse_arrays_will_do():
    svm = SVC(gamma=0.5).fit(sparse.csr_array(X), LABELS == 1)
    model = from_svc_arrays(*arrays(svm)[:-1], gamma=0.5)
    np.testing.assert_allclose(model.scores(model.outputs(X)), svm.decision_function(X))


def test_a_scaler_stands_in_front():
    scaler = StandardScaler().fit(X)
    svm = SVC(gamma=0.5).fit(scaler.transform(X), LABELS)
    map = AffineMap(scaler.mean_, 1 / scaler.scale_)
    model = from_svc_arrays(*arrays(svm), gamma=0.5, scaler=map)
    predicted = model.classes[model.codes(model.outputs(X))]
    np.testing.assert_array_equal(predicted, svm.predict(scaler.transform(X)))


@pytest.mark.parametrize(
    ("number", "value", "sentence"),
    [
        (0, np.zeros((3, 4)), "dual_coef has shape"),
        (1, np.zeros((1, 5)), "dual_coef has shape"),
        (2, [0.0], r"intercept has shape \(1,\); 3 classes and .* need \(3,\)"),
        (3, [0, 2, 1], "in ascending order"),
        (3, [0], "two or more"),
        (4, [1, 2], "n_support has shape"),
        (4, None, "n_support has shape"),
        (4, [1, 2, 3], "n_support adds up to 6"),
    ],
)
def test_arrays_that_do_not_fit_together(number, value, sentence):
    wrong = arrays(SVC().fit(X, LABELS))
    wrong[number] = value
    with pytest.raises(ValueError, match=sentence):
        from_svc_arrays(*wrong, gamma=0.5)

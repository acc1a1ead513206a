"""Regressors and novelty detectors of scikit-learn and LIBSVM as models."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import SGDOneClassSVM
from sklearn.metrics.pairwise import (
    laplacian_kernel,
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
    sigmoid_kernel,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PowerTransformer, StandardScaler
from sklearn.svm import SVC, SVR, NuSVR, OneClassSVM

import kernlet
from kernlet import CompactKernelRegressor, to_c, to_onnx
from kernlet.kernels.laplacian import Laplacian
from kernlet.model.convert import unwrapped
from kernlet.model.model import as_classifier, as_model
from support.libsvm_files import file_text

X, Y = load_diabetes(return_X_y=True)
X, Y = 10 * X[:160], (Y[:160] - 150) / 75
TWO = np.stack([Y, X[:, 0] * X[:, 2]], axis=1)
OTHER = 10 * load_diabetes().data[160:260]
KERNELS = [
    {"kernel": "rbf", "gamma": 0.3},
    {"kernel": "rbf"},
    {"kernel": "poly", "degree": 2, "gamma": 0.2, "coef0": 1.0},
    {"kernel": "linear"},
    {"kernel": "sigmoid", "gamma": 0.05, "coef0": 0.2},
]
FUNCTIONS = [
    laplacian_kernel,
    rbf_kernel,
    linear_kernel,
    polynomial_kernel,
    sigmoid_kernel,
    partial(rbf_kernel, gamma=0.2),
    partial(polynomial_kernel, degree=2, gamma=0.1, coef0=0.5),
    Laplacian(0.1),
]


def same(estimator, rows=OTHER):
    """Compare the model of an estimator with the estimator."""
    model = as_model(estimator)
    values = model.scores(model.outputs(model.rows(rows)))
    expected = estimator.predict(rows)
    if model.kind == "novelty":
        assert_array_equal(model.classes[model.codes(model.outputs(model.rows(rows)))], expected)
        assert_allclose(values + model.offset, estimator.score_samples(rows), rtol=1e-10, atol=1e-9)
        expected = estimator.decision_function(rows)
    assert values.shape == expected.shape
    assert_allclose(values, expected, rtol=1e-10, atol=1e-10 * max(1, np.abs(expected).max()))
    return model


@pytest.mark.parametrize("parameters", KERNELS, ids=str)
@pytest.mark.parametrize("kind", [SVR, NuSVR, OneClassSVM])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_machines_of_libsvm(kind, parameters, make):
    estimator = kind(**parameters)
    model = same(estimator.fit(make(X), Y), make(OTHER))
    assert model.kind == ("novelty" if kind is OneClassSVM else "regressor")
    assert model.summary["estimator"] == kind.__name__
    assert model.expansion.n_centers <= len(estimator.support_)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("kind", [SVR, OneClassSVM])
def test_functions_of_scikit_learn(kind, function):
    same(kind(kernel=function).fit(X, Y))


@pytest.mark.parametrize("gamma", [None, 0.3])
@pytest.mark.parametrize(
    "kernel", ["rbf", "laplacian", "poly", "polynomial", "linear", "sigmoid", RBF(2.0)]
)
@pytest.mark.parametrize("targets", [Y, Y[:, None], TWO], ids=["flat", "column", "two"])
def test_kernel_ridge(kernel, gamma, targets):
    estimator = KernelRidge(kernel=kernel, gamma=gamma, alpha=0.1, coef0=0.7, degree=2)
    same(estimator.fit(X, targets))


def test_kernel_ridge_of_sparse_rows():
    estimator = KernelRidge(kernel="rbf", gamma=0.1).fit(sparse.csr_array(X), Y)
    assert sparse.issparse(same(estimator, sparse.csr_array(OTHER)).expansion.centers)


PROCESSES = {
    "default": None,
    "isotropic": RBF(1.7),
    "per feature": RBF(np.linspace(1, 3, 10)),
    "scaled and noisy": 2.5 * RBF(1.2) + WhiteKernel(0.3),
    "noise in front": WhiteKernel(0.3) + ConstantKernel(0.4) * RationalQuadratic(1.5, 0.8),
    "noise times a number": RBF(2.0) + 0.5 * WhiteKernel(0.3),
    "plus a number": 0.5 * (3.0 * RBF(2.0) + ConstantKernel(0.7)) + WhiteKernel(0.2),
    "linear": DotProduct(1.3) + WhiteKernel(0.5),
    "linear times a number": 0.4 * DotProduct(0.1) + WhiteKernel(0.5),
    "power": 0.1 * (DotProduct(0.8) ** 2) + WhiteKernel(1.0),
    "matern": Matern(1.5, nu=np.inf) + WhiteKernel(0.1),
    "pairwise": PairwiseKernel(gamma=0.1, metric="laplacian") + WhiteKernel(0.2),
}


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", PROCESSES)
def test_means_of_gaussian_processes(name, normalize):
    options = {"optimizer": None, "alpha": 1e-3, "normalize_y": normalize}
    estimator = GaussianProcessRegressor(PROCESSES[name], **options)
    same(estimator.fit(X, Y + 3))
    same(estimator.fit(X, TWO + np.array([3, -5])))
    # on the training rows too, where the noise of a row with itself is no part of the mean
    same(estimator.fit(X, Y), X)


def test_a_gaussian_process_whose_kernel_was_optimized():
    kernel = ConstantKernel(1.0) * RBF(np.ones(10)) + WhiteKernel(0.1)
    estimator = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(X, Y)
    model = same(estimator)
    assert model.scaler.scale.shape == (10,)


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), SVR()),
        make_pipeline(StandardScaler(), OneClassSVM()),
        make_pipeline(StandardScaler(), KernelRidge(kernel="rbf", gamma=0.05)),
        make_pipeline(
            StandardScaler(),
            GaussianProcessRegressor(RBF(np.linspace(3, 9, 10)), alpha=0.1, optimizer=None),
        ),
        GridSearchCV(SVR(), {"C": [0.5, 5.0]}, cv=2),
        TransformedTargetRegressor(SVR(), transformer=StandardScaler()),
        TransformedTargetRegressor(KernelRidge(kernel="rbf"), transformer=MinMaxScaler()),
        TransformedTargetRegressor(make_pipeline(StandardScaler(), SVR())),
        make_pipeline(
            StandardScaler(), TransformedTargetRegressor(SVR(), transformer=StandardScaler())
        ),
    ],
    ids=lambda estimator: str(estimator)[:40],
)
def test_pipelines_searches_and_targets(estimator):
    same(estimator.fit(X, 50 * Y + 100))


def test_scaled_targets_of_two_columns():
    regressor = KernelRidge(kernel="rbf")
    estimator = TransformedTargetRegressor(regressor, transformer=StandardScaler())
    same(estimator.fit(X, 50 * TWO + np.array([100, -3])))
    same(estimator.fit(X, 50 * TWO[:, :1]))


REFUSED = {
    "precomputed": (KernelRidge(kernel="precomputed"), ValueError, "only the val"),
    "chi2": (KernelRidge(kernel="chi2", gamma=1.0), ValueError, "is 'chi2', of which"),
    "own": (SVR(kernel=lambda a, b: a @ b.T), ValueError, "is a function, of which"),
    "process in an SVC": (SVR(kernel=RBF(1.0)), ValueError, "is a function, of which"),
    "degree": (KernelRidge(kernel="poly", degree=0), ValueError, "degree 0 is constant"),
    "sum": (
        GaussianProcessRegressor(RBF() + DotProduct(), optimizer=None, alpha=1.0),
        ValueError,
        r"The kernel RBF\(.*\) \+ DotProduct\(.*\) cannot be held .* takes RBF, ",
    ),
    "product": (
        GaussianProcessRegressor(RBF() * DotProduct(), optimizer=None, alpha=1.0),
        ValueError,
        "cannot be held",
    ),
    "period": (
        GaussianProcessRegressor(ExpSineSquared(), optimizer=None, alpha=1.0),
        ValueError,
        "ExpSineSquared",
    ),
    "matern": (
        GaussianProcessRegressor(Matern(nu=1.5), optimizer=None),
        ValueError,
        "Matern",
    ),
    "constant": (
        GaussianProcessRegressor(ConstantKernel(), optimizer=None, alpha=1.0),
        ValueError,
        "is constant",
    ),
    "power": (
        GaussianProcessRegressor(RBF() ** 2, optimizer=None),
        ValueError,
        "cannot be held",
    ),
    "linear detector": (SGDOneClassSVM(), TypeError, "SGDOneClassSVM is not a kernel mach"),
    "curved target": (
        TransformedTargetRegressor(SVR(), transformer=PowerTransformer()),
        ValueError,
        "PowerTransformer of this TransformedTargetRegressor is not a scale and a shift",
    ),
    "packed": (
        TransformedTargetRegressor(
            CompactKernelRegressor(4, n_epochs=2, storage="int8"), transformer=StandardScaler()
        ),
        ValueError,
        "is packed, and its target is scaled: .* before the fit, and undo it after predict",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_gets_one_sentence(name):
    estimator, error, message = REFUSED[name]
    rows = {"precomputed": X @ X.T, "chi2": np.abs(X), "period": X[:, :1]}.get(name, X)
    estimator.fit(rows, Y)
    with pytest.raises(error, match=message) as caught:
        as_model(estimator)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("estimator", [GaussianProcessRegressor(), KernelRidge(), OneClassSVM()])
def test_what_is_not_fitted_is_refused(estimator):
    with pytest.raises(NotFittedError):
        as_model(estimator)


def test_a_regressor_is_not_a_classifier():
    with pytest.raises(TypeError, match="SVR is not a kernel classifier"):
        as_classifier(SVR().fit(X, Y))


def test_steps_stay_where_they_are():
    pipeline = make_pipeline(StandardScaler(), SVR()).fit(X, Y)
    assert unwrapped(pipeline).steps[0][0] == "standardscaler"


SAVED = {
    "svr": lambda: make_pipeline(StandardScaler(), SVR()).fit(X, Y),
    "ridge": lambda: KernelRidge(kernel="laplacian", gamma=0.05, alpha=0.1).fit(X, TWO),
    "process": lambda: GaussianProcessRegressor(
        2.0 * RBF(np.linspace(1, 3, 10)) + WhiteKernel(0.5), optimizer=None, normalize_y=True
    ).fit(X, Y),
    "quadratic": lambda: GaussianProcessRegressor(
        RationalQuadratic(2.0, 0.7) + WhiteKernel(0.5), optimizer=None
    ).fit(X, Y),
}


@pytest.mark.parametrize("name", SAVED)
def test_adopted_regressors_are_saved_and_exported(name, tmp_path):
    estimator = SAVED[name]()
    expected = estimator.predict(OTHER)
    kernlet.save(estimator, tmp_path / "model")
    loaded = kernlet.load(tmp_path / "model")
    assert_allclose(loaded.predict(OTHER), expected, rtol=1e-9, atol=1e-9)
    assert to_onnx(loaded, X=OTHER).graph.output[0].name == "values"
    source = to_c(loaded, tmp_path / "c", X=OTHER, y=expected)
    assert source.rounding.accuracy_after > 0.9999


# -- LIBSVM's files --------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", KERNELS, ids=str)
@pytest.mark.parametrize("kind", [SVR, NuSVR, OneClassSVM])
def test_files_of_libsvm(kind, parameters, tmp_path):
    machine = kind(**parameters).fit(X, Y)
    more = "" if kind is OneClassSVM else "probA 0.5"
    (tmp_path / "a.model").write_text(file_text(machine, more))
    model = as_model(tmp_path / "a.model")
    values = model.scores(model.outputs(OTHER))
    if kind is OneClassSVM:
        assert_allclose(values, machine.decision_function(OTHER), rtol=1e-9, atol=1e-9)
        assert model.offset == pytest.approx(machine.offset_[0])
    else:
        assert_allclose(values, machine.predict(OTHER), rtol=1e-9, atol=1e-9)
    kernlet.save(tmp_path / "a.model", tmp_path / "model")
    assert kernlet.load(tmp_path / "model").model_.kind == model.kind


TINY = (
    "svm_type epsilon_svr\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 1\nrho 0.5\nSV\n1 1:2\n"
)
WRONG = {
    "label": ("rho 0.5", "rho 0.5\nlabel 1 2", "svm_type epsilon_svr has no classes, but the file"),
    "classes": ("nr_class 2", "nr_class 3", "needs nr_class 2 and one value of rho"),
    "rho": ("rho 0.5", "rho 0.5 1", "needs nr_class 2 and one value of rho"),
    "type": ("epsilon_svr", "c_svc", "the header ends without label, nr_sv"),
    "coefficient": ("1 1:2", "1:2", "is not a finite number"),
    "kernel": ("rbf", "precomputed", "has no points to keep"),
}


@pytest.mark.parametrize("name", WRONG)
def test_files_that_are_wrong(name, tmp_path):
    old, new, message = WRONG[name]
    (tmp_path / "a.model").write_text(TINY.replace(old, new))
    with pytest.raises(ValueError, match=message):
        as_model(tmp_path / "a.model")


def test_a_file_of_one_vector(tmp_path):
    (tmp_path / "a.model").write_text(TINY)
    model = as_model(tmp_path / "a.model")
    assert model.outputs([[1.0]]) == pytest.approx(np.exp(-0.5) - 0.5)


def test_a_class_that_is_computed_stays_what_it_was():
    """Kernels of functions of an SVC too."""
    labels = Y > 0
    for function in FUNCTIONS:
        svc = SVC(kernel=function).fit(X, labels)
        model = as_model(svc)
        assert_allclose(model.scores(model.outputs(OTHER)), svc.decision_function(OTHER), atol=1e-9)

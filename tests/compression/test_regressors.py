"""compress() of regressors and novelty detectors, and CompressedRegressor."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_outlier_detector
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import IsolationForest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, RationalQuadratic, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import d2_pinball_score, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, NuSVR, OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

import kernlet
from kernlet import CompactKernelRegressor, CompressedRegressor, compress, to_c, to_onnx
from kernlet.compression.choice import _SMALL_LOSS, ValidationData, _with_equal_share
from kernlet.compression.estimator import CompressedNoveltyDetector
from kernlet.compression.refit import match
from kernlet.kernels import rbf
from kernlet.kernels.gram import kernel_matrix
from kernlet.model.model import as_model

X, Y = make_friedman1(500, n_features=5, noise=0.5, random_state=0)
TRAIN, TEST = slice(0, 300), slice(300, None)
TWO = np.stack([Y, 1000 * X[:, 0] * X[:, 1]], axis=1)
LENGTHS = np.array([1.0, 1.0, 1.2, 2.0, 2.0])
REGRESSORS = {
    "svr": SVR(C=10.0),
    "nu svr": NuSVR(C=10.0),
    "pipeline": make_pipeline(StandardScaler(), SVR(C=10.0, gamma=0.1)),
    "ridge": KernelRidge(kernel="rbf", gamma=1.0, alpha=0.1),
    "polynomial": KernelRidge(kernel="poly", degree=2, alpha=0.1),
    "linear": KernelRidge(kernel="linear"),
    "process": GaussianProcessRegressor(
        ConstantKernel(50.0) * RBF(LENGTHS) + WhiteKernel(0.3), optimizer=None, normalize_y=True
    ),
    "quadratic": GaussianProcessRegressor(
        50 * RationalQuadratic(1.5, 2.0) + WhiteKernel(0.3), optimizer=None, normalize_y=True
    ),
}


@pytest.mark.slow
@parametrize_with_checks(
    [
        CompressedRegressor(SVR(), n_centers=10, max_iter=20, random_state=0),
        CompressedRegressor(KernelRidge(kernel="rbf"), n_centers="auto", max_iter=20),
        CompressedNoveltyDetector(OneClassSVM(), n_centers=10, max_iter=20, random_state=0),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("with_targets", [True, False])
@pytest.mark.parametrize("name", REGRESSORS)
def test_few_centers_predict_what_many_did(name, with_targets):
    original = clone(REGRESSORS[name]).fit(X[TRAIN], Y[TRAIN])
    targets = Y[TRAIN] if with_targets else None
    small = compress(original, 30, X[TRAIN], targets, random_state=0)
    assert isinstance(small, CompressedRegressor)
    assert small.n_centers_ <= 30 < small.compression_.centers_before
    expected = original.predict(X[TEST])
    if not with_targets:
        assert r2_score(expected, small.predict(X[TEST])) > 0.99
    assert small.score(X[TEST], Y[TEST]) > r2_score(Y[TEST], expected) - 0.02
    facts = small.compression_
    assert (facts.coefficients == "refit") <= with_targets
    assert facts.agreement > (0.85 if facts.coefficients == "refit" else 0.99)
    assert facts.kind == "regressor"
    assert f"R2 {facts.agreement:.4f} with the original" in str(facts)
    if with_targets:
        assert facts.scoring == "r2"
        before = r2_score(Y[TRAIN], original.predict(X[TRAIN]))
        assert facts.score_before == pytest.approx(before)
        assert facts.score_after == pytest.approx(small.score(X[TRAIN], Y[TRAIN]))
    else:
        fidelity = r2_score(original.predict(X[TRAIN]), small.predict(X[TRAIN]))
        assert facts.agreement == pytest.approx(fidelity)


def test_without_rows_coefficients_are_projected():
    original = SVR(C=10.0).fit(X[TRAIN], Y[TRAIN])
    small = compress(original, 60, random_state=0)
    assert small.compression_.coefficients == "projected"
    assert small.compression_.agreement is None
    assert r2_score(original.predict(X[TEST]), small.predict(X[TEST])) > 0.95


def test_targets_of_different_units_count_alike():
    original = KernelRidge(kernel="rbf", gamma=1.0, alpha=0.1).fit(X[TRAIN], TWO[TRAIN])
    small = compress(original, 40, X[TRAIN], TWO[TRAIN], random_state=0)
    expected, found = original.predict(X[TEST]), small.predict(X[TEST])
    assert found.shape == (200, 2)
    assert r2_score(expected, found, multioutput="raw_values").min() > 0.97
    units = np.array([1.0, 1e-6])
    other = original.fit(X[TRAIN], TWO[TRAIN] * units)
    again = compress(other, 40, X[TRAIN], TWO[TRAIN] * units, random_state=0)
    assert r2_score(found, again.predict(X[TEST]) / units, multioutput="raw_values").min() > 0.99


@pytest.mark.parametrize("with_targets", [True, False])
def test_the_number_of_centers_is_chosen(with_targets):
    original = SVR(C=10.0).fit(X[TRAIN], Y[TRAIN])
    small = compress(original, "auto", X[TEST], Y[TEST] if with_targets else None, random_state=0)
    path = small.compression_.path
    assert [size.n_centers for size in path] == [2**i for i in range(len(path))]
    limits = [max(size.standard_error, 0.0 if with_targets else _SMALL_LOSS) for size in path]
    assert [s.loss <= limit for s, limit in zip(path, limits, strict=True)] == [
        *[False] * (len(path) - 1),
        True,
    ]
    assert small.n_centers_ == path[-1].n_centers < small.compression_.centers_before / 2


def test_another_score_chooses():
    original = SVR(C=10.0).fit(X[TRAIN], Y[TRAIN])
    options = {"scoring": "neg_mean_absolute_error", "random_state": 0}
    facts = compress(original, 20, X[TEST], Y[TEST], **options).compression_
    assert facts.scoring == "neg_mean_absolute_error"
    errors = np.abs(original.predict(X[TEST]) - Y[TEST])
    assert facts.score_before == pytest.approx(-errors.mean())


def test_weights_of_rows_count_in_a_refit():
    random = np.random.RandomState(0)
    rows, values = random.normal(size=(60, 2)), random.normal(size=(60, 2))
    centers, kernel = rows[:7], rbf.RBF(0.5)
    weights = random.randint(0, 4, size=60).astype(float)
    found = match(kernel, centers, rows, values, ridge=1e-3, weights=weights)
    # rows that occur several times; the penalty counts all 60 of them
    many = np.repeat(np.arange(60), weights.astype(int))
    features = np.hstack([kernel_matrix(kernel, rows[many], centers), np.ones((len(many), 1))])
    penalty = np.zeros((8, 8))
    penalty[:7, :7] = 60e-3 * kernel_matrix(kernel, centers, centers)
    exact = np.linalg.solve(features.T @ features + penalty, features.T @ values[many])
    assert_allclose(found.coef, exact[:7].T, rtol=1e-6)
    assert_allclose(found.intercept, exact[7], rtol=1e-6)


def test_compressed_machines_are_saved_and_exported(tmp_path):
    original = make_pipeline(StandardScaler(), SVR(C=10.0)).fit(X[TRAIN], Y[TRAIN])
    small = compress(original, 20, X[TRAIN], Y[TRAIN], random_state=0)
    kernlet.save(small, tmp_path / "small")
    loaded = kernlet.load(tmp_path / "small")
    assert_allclose(loaded.predict(X[TEST]), small.predict(X[TEST]), rtol=1e-9)
    assert loaded.summary_["compression"]["kind"] == "regressor"
    to_onnx(small, X=X[TEST])
    assert to_c(small, tmp_path / "c", X=X[TEST], y=Y[TEST]).rounding.accuracy_after > 0.8


def test_a_packed_regressor_stays_packed():
    machine = CompactKernelRegressor(40, storage="int8", n_epochs=20, random_state=0)
    machine.fit(X[TRAIN], Y[TRAIN])
    small = compress(machine, 10, X[TRAIN], Y[TRAIN], random_state=0)
    assert small.expansion_.storage["coef"] == "int8"
    assert small.nbytes_ < machine.nbytes_ / 2
    assert small.score(X[TEST], Y[TEST]) > 0.7


def test_the_estimator_is_fitted_and_compressed():
    estimator = make_pipeline(StandardScaler(), SVR(C=10.0, gamma=0.1))
    small = CompressedRegressor(estimator, "auto", keep_estimator=True, random_state=0)
    small.fit(X[TRAIN], Y[TRAIN])
    assert small.score(X[TEST], Y[TEST]) > small.estimator_.score(X[TEST], Y[TEST]) - 0.03
    assert len(small.compression_.path) > 1
    again = clone(small).fit(X[TRAIN], Y[TRAIN])
    assert_array_equal(again.predict(X), small.predict(X))
    two = CompressedRegressor(KernelRidge(kernel="rbf"), 20, random_state=0)
    assert two.fit(X[TRAIN], TWO[TRAIN]).predict(X[TEST]).shape == (200, 2)


# -- Novelty detectors -----------------------------------------------------------------------------

NORMAL = load_diabetes().data * 10


def test_a_novelty_detector_flags_as_many_rows():
    original = OneClassSVM(nu=0.2, gamma=0.2).fit(NORMAL[:300])
    small = compress(original, 20, NORMAL[:300], random_state=0)
    assert is_outlier_detector(small)
    assert small.n_centers_ == 20 < small.compression_.centers_before
    labels, expected = small.predict(NORMAL[:300]), original.predict(NORMAL[:300])
    assert (labels < 0).sum() == (expected < 0).sum()
    assert np.mean(labels == expected) > 0.95
    assert small.compression_.agreement == pytest.approx(np.mean(labels == expected))
    assert np.mean(small.predict(NORMAL[300:]) == original.predict(NORMAL[300:])) > 0.93
    values = small.decision_function(NORMAL)
    assert_array_equal(small.predict(NORMAL), np.where(values >= 0, 1, -1))
    assert_allclose(small.score_samples(NORMAL), values + small.offset_)
    scores = original.score_samples(NORMAL[300:])
    assert r2_score(scores, small.score_samples(NORMAL[300:])) > 0.95


def test_the_size_of_a_novelty_detector_is_chosen():
    original = OneClassSVM(nu=0.2, gamma=0.2).fit(NORMAL[:300])
    small = compress(original, "auto", NORMAL[300:], random_state=0)
    assert small.compression_.path[-1].loss <= max(
        _SMALL_LOSS, small.compression_.path[-1].standard_error
    )
    without = compress(original, 20, random_state=0)
    assert np.mean(without.predict(NORMAL) == original.predict(NORMAL)) > 0.9


def test_the_share_is_equal_wherever_the_threshold_is():
    original = as_model(OneClassSVM(nu=0.3, gamma=0.2).fit(NORMAL))
    drawn = (0.2, np.random.RandomState(0))
    data = ValidationData.of(original, NORMAL, None, None, drawn, False)
    every = np.arange(len(NORMAL))
    for shift in (-1.0, -0.01, 0.0, 0.3, 5.0):
        expansion = original.expansion
        moved = kernlet.KernelExpansion(
            expansion.kernel, expansion.centers, expansion.coef, expansion.intercept + shift
        )
        model = as_model(moved)
        model = type(original)(moved, "novelty", offset=original.offset - shift)
        equal = _with_equal_share(model, data, every)
        values = data.outputs(equal, every)[:, 0]
        assert_array_equal(values < 0, data.original == 0)
        scores = data.outputs(original, every)[:, 0] + original.offset
        assert_allclose(values + equal.offset, scores)


def test_files_and_c_of_a_small_detector(tmp_path):
    original = make_pipeline(StandardScaler(), OneClassSVM(nu=0.2)).fit(NORMAL)
    small = compress(original, 15, NORMAL, random_state=0)
    kernlet.save(small, tmp_path / "small")
    loaded = kernlet.load(tmp_path / "small")
    assert_array_equal(loaded.predict(NORMAL), small.predict(NORMAL))
    source = to_c(loaded, tmp_path / "c", X=NORMAL, arithmetic="integer")
    assert source.rounding.agreement > 0.95


# -- What is refused -------------------------------------------------------------------------------


def test_what_makes_no_sense_gets_one_sentence():
    regressor, detector = SVR().fit(X, Y), OneClassSVM().fit(X)
    with pytest.raises(ValueError, match="by its own labels, not by given ones"):
        compress(detector, 5, X, np.ones(len(X)))
    with pytest.raises(ValueError, match="by its own labels, not by given ones"):
        compress(detector, 5, X, scoring="accuracy")
    with pytest.raises(ValueError, match='n_centers="auto" needs rows X to choose by'):
        compress(regressor, "auto")
    with pytest.raises(ValueError, match="y has 2 columns; the model predicts one number"):
        compress(regressor, 5, X, TWO)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        compress(regressor, 5, X, np.full(len(X), np.nan))
    with pytest.raises(TypeError, match=r"SVC is not a kernel regressor\. Give a fitted SVR"):
        CompressedRegressor(SVC(), 5).fit(X, Y > 10)
    with pytest.raises(TypeError, match="IsolationForest is not a kernel machine"):
        CompressedNoveltyDetector(IsolationForest(n_estimators=5), 5).fit(X)
    with pytest.raises(ValueError, match="positive semi-definite kernel, which Sigmoid"):
        compress(SVR(kernel="sigmoid").fit(X, Y), 5, X, Y)
    with pytest.raises(ValueError, match="This regressor requires y"):
        CompressedRegressor(SVR(), "auto").fit(X, None)


# -- Quantiles -------------------------------------------------------------------------------------


def noisy(n_rows=300):
    random = np.random.RandomState(0)
    rows = random.randn(n_rows, 2)
    return rows, rows[:, 0] + (0.3 + np.abs(rows[:, 1])) * random.randn(n_rows)


def test_a_quantile_stays_one_with_y():
    rows, y = noisy()
    machine = CompactKernelRegressor(
        12, loss="pinball", quantile=0.9, n_epochs=30, random_state=0
    ).fit(rows, y)
    small = compress(machine, 11, rows, y, random_state=0)
    assert small.compression_.coefficients != "refit"
    below = np.mean(y <= machine.predict(rows))
    assert np.mean(y <= small.predict(rows)) == pytest.approx(below, abs=0.05)
    assert small.quantiles_ == (0.9,)
    score = d2_pinball_score(y, small.predict(rows), alpha=0.9)
    assert small.score(rows, y) == pytest.approx(score)
    assert small.compression_.scoring == "D2"
    assert small.compression_.score_after == pytest.approx(score)
    assert small.compression_.score_before == pytest.approx(machine.score(rows, y))


@pytest.mark.filterwarnings("ignore:.*does not compress")
def test_several_quantiles_are_compared_with_one_target():
    rows, y = noisy()
    levels = (0.1, 0.5, 0.9)
    machine = CompactKernelRegressor(
        12, loss="pinball", quantile=levels, n_epochs=30, random_state=0
    ).fit(rows, y)
    for size in (8, "auto"):
        small = compress(machine, size, rows, y, random_state=0)
        assert small.quantiles_ == levels
        assert (np.diff(small.predict(rows), axis=1) >= 0).all()
        expected = [
            d2_pinball_score(y, values, alpha=level)
            for level, values in zip(levels, small.predict(rows).T, strict=True)
        ]
        assert small.score(rows, y) == pytest.approx(np.mean(expected))
    with pytest.raises(ValueError, match="y has 2 columns; the model predicts quantiles of one"):
        compress(machine, 8, rows, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match="scoring='r2' compares one prediction per row with y"):
        compress(machine, 8, rows, y, scoring="r2")
    with pytest.raises(ValueError, match="y has 1 column; the model predicts 2 numbers per row"):
        compress(KernelRidge(kernel="rbf").fit(X, TWO), 5, X, Y)

"""Small models of every kind, for tests of exporters and reports."""

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.mixture import GaussianMixture
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, NuSVC, OneClassSVM

from kernlet import (
    MMDA,
    CompactKernelClassifier,
    CompactKernelRegressor,
    CompactNoveltyDetector,
    CoreVectorClassifier,
    CoreVectorNovelty,
    HullPerceptronClassifier,
    KernelFisherDiscriminant,
    L1KernelClassifier,
    L1KernelRegressor,
    MinimalKernelRegressor,
    ProximalClassifier,
    compress,
)
from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.export.predictors import LoadedNoveltyDetector
from kernlet.model.model import Model
from kernlet.quantization import encode_columns

DIGITS, DIGIT_LABELS = load_digits(return_X_y=True)
IRIS, IRIS_LABELS = load_iris(return_X_y=True)
IRIS_NAMES = load_iris().target_names[IRIS_LABELS]
COMPACT = {"n_epochs": 8, "random_state": 0}
#: Irises in units that differ: nanometres, centimetres, metres, and one far from zero.
UNLIKE = IRIS * [1e7, 1.0, 0.01, 1.0] + [0.0, 0.0, 0.0, 100.0]


def _compact(**options):
    return CompactKernelClassifier(30, **(COMPACT | options)).fit(DIGITS, DIGIT_LABELS)


def _unlike(**options):
    return CompactKernelClassifier(12, **(COMPACT | options)).fit(UNLIKE, IRIS_NAMES)


def _iris(**options):
    return CompactKernelClassifier(8, **(COMPACT | options)).fit(IRIS, IRIS_NAMES)


def _mixed_storage():
    return CompactKernelClassifier(max_bytes=1500, n_epochs=4, random_state=0).fit(
        DIGITS, DIGIT_LABELS
    )


def _mixture():
    """A packed mixture of three diagonal Gaussians that rejects a tenth of the rows."""
    scaler = StandardScaler().fit(UNLIKE)
    mixture = GaussianMixture(3, covariance_type="diag", random_state=0)
    mixture.fit(scaler.transform(UNLIKE))
    logs = np.log(mixture.precisions_)
    log_widths = logs.mean(axis=1)
    plan = StoragePlan(4, 1, 3, None, STORAGE["int8"], "per_center", 8, kernel="diagonal_rbf")
    arrays = {
        "centers": mixture.means_,
        "weights": (mixture.weights_ * np.exp(logs.sum(axis=1) / 2))[None],
        "intercept": np.zeros(1),
        "log_gamma": log_widths - np.log(2),
        "log_weights": logs - log_widths[:, None],
    }
    expansion = plan.pack(arrays, {}, *encode_columns(scaler.mean_, scaler.scale_))
    threshold = np.quantile(expansion.decision_values(UNLIKE), 0.1)
    expansion = expansion.replaced(intercept=np.array([-threshold]))
    return LoadedNoveltyDetector(Model(expansion, kind="novelty"))


#: name -> a function that gives a fitted classifier and rows for it
CLASSIFIERS = {
    "compact": lambda: (_compact(), DIGITS),
    "compact int8": lambda: (_compact(storage="int8"), DIGITS),
    "compact int4 projected": lambda: (_compact(storage="int4", projection=10), DIGITS),
    "compact float16": lambda: (_compact(storage="float16"), DIGITS),
    "compact mixed": lambda: (_mixed_storage(), DIGITS),
    "compact widths": lambda: (_compact(width="per_center"), DIGITS),
    "compact steps": lambda: (
        _iris(kernel="rational_quadratic", n_steps=4, classes_per_center=1, storage="int4"),
        IRIS,
    ),
    "compact feature widths": lambda: (_iris(width="per_feature", n_steps=3), IRIS),
    "compact blocks": lambda: (
        _compact(width="per_center", classes_per_center=2, block_means=True, storage="int4"),
        DIGITS,
    ),
    "compact scaled": lambda: (
        make_pipeline(StandardScaler(), CompactKernelClassifier(20, **COMPACT)).fit(
            DIGITS, DIGIT_LABELS
        ),
        DIGITS,
    ),
    "compact unlike columns": lambda: (_unlike(), UNLIKE),
    "compact unlike projected": lambda: (_unlike(storage="int4", projection=3), UNLIKE),
    "compact unlike int8": lambda: (_unlike(storage="int8"), UNLIKE),
    "compact two classes": lambda: (
        CompactKernelClassifier(20, **COMPACT).fit(DIGITS, DIGIT_LABELS > 4),
        DIGITS,
    ),
    "svc": lambda: (SVC().fit(IRIS, IRIS_NAMES), IRIS),
    "svc ties": lambda: (SVC(break_ties=True).fit(IRIS, IRIS_NAMES), IRIS),
    "svc pairs": lambda: (SVC(decision_function_shape="ovo").fit(IRIS, IRIS_LABELS), IRIS),
    "svc two classes": lambda: (SVC(C=10).fit(IRIS, IRIS_LABELS == 1), IRIS),
    "svc sparse": lambda: (SVC().fit(sparse.csr_array(DIGITS), DIGIT_LABELS), DIGITS),
    "svc far away": lambda: (
        make_pipeline(StandardScaler(), SVC()).fit(IRIS + 1000.0, IRIS_LABELS),
        IRIS + 1000.0,
    ),
    "nusvc": lambda: (NuSVC().fit(IRIS, IRIS_LABELS - 1), IRIS),
    "poly": lambda: (
        make_pipeline(MinMaxScaler((-1, 1)), SVC(kernel="poly", coef0=1.0)).fit(IRIS, IRIS_LABELS),
        IRIS,
    ),
    "linear": lambda: (
        make_pipeline(RobustScaler(), SVC(kernel="linear")).fit(IRIS, IRIS_LABELS),
        IRIS,
    ),
    "sigmoid": lambda: (
        make_pipeline(StandardScaler(), SVC(kernel="sigmoid")).fit(IRIS, IRIS_LABELS),
        IRIS,
    ),
    "one vs rest": lambda: (
        OneVsRestClassifier(SVC(gamma=0.5)).fit(IRIS, IRIS_LABELS),
        IRIS,
    ),
    "one vs one": lambda: (
        OneVsOneClassifier(SVC(gamma=0.5)).fit(IRIS, IRIS_LABELS),
        IRIS,
    ),
    "l1": lambda: (L1KernelClassifier(random_state=0).fit(IRIS, IRIS_LABELS), IRIS),
    "proximal": lambda: (
        ProximalClassifier(landmarks=30, random_state=0).fit(IRIS, IRIS_NAMES),
        IRIS,
    ),
    "proximal linear": lambda: (ProximalClassifier(kernel="linear").fit(IRIS, IRIS_LABELS), IRIS),
    "core": lambda: (CoreVectorClassifier(random_state=0).fit(IRIS, IRIS_LABELS), IRIS),
    "hull": lambda: (HullPerceptronClassifier().fit(IRIS, IRIS_LABELS > 1), IRIS),
    "compressed": lambda: (
        compress(
            make_pipeline(StandardScaler(), SVC()).fit(IRIS, IRIS_LABELS),
            6,
            IRIS,
            IRIS_LABELS,
            random_state=0,
        ),
        IRIS,
    ),
}

REGRESSORS = {
    "l1": lambda: (
        L1KernelRegressor(epsilon=0.2).fit(IRIS[:, :3], 100.0 * IRIS[:, 3]),
        IRIS[:, :3],
    ),
    "minimal two outputs": lambda: (
        MinimalKernelRegressor().fit(IRIS[:, :2], IRIS[:, 2:]),
        IRIS[:, :2],
    ),
    "flat": lambda: (
        CompactKernelRegressor(20, **COMPACT).fit(DIGITS, DIGIT_LABELS + 100.0),
        DIGITS,
    ),
    "unlike columns": lambda: (
        CompactKernelRegressor(12, **COMPACT).fit(UNLIKE, IRIS_LABELS + 100.0),
        UNLIKE,
    ),
    "two outputs": lambda: (
        make_pipeline(StandardScaler(), CompactKernelRegressor(20, **COMPACT)).fit(
            IRIS, np.stack([IRIS_LABELS, IRIS[:, 0]], axis=1)
        ),
        IRIS,
    ),
}

DETECTORS = {
    "one class": lambda: (OneClassSVM(nu=0.2, gamma=0.5).fit(IRIS), IRIS),
    "one class unlike columns": lambda: (
        make_pipeline(StandardScaler(), OneClassSVM(nu=0.2)).fit(UNLIKE),
        UNLIKE,
    ),
    "core novelty": lambda: (CoreVectorNovelty(random_state=0).fit(IRIS), IRIS),
    "compact novelty": lambda: (
        CompactNoveltyDetector(max_bytes=200, contamination=0.1, random_state=0).fit(UNLIKE),
        UNLIKE,
    ),
    "compact novelty of images": lambda: (
        CompactNoveltyDetector(max_bytes=1000, random_state=0).fit(DIGITS),
        DIGITS,
    ),
    "diagonal mixture": lambda: (_mixture(), UNLIKE),
    "one class sparse": lambda: (
        OneClassSVM(nu=0.3, kernel="poly", gamma=0.001).fit(sparse.csr_array(DIGITS[::4])),
        DIGITS,
    ),
}

#: Of which y is one column and a prediction several; outputs cross before they are sorted.
QUANTILE_REGRESSORS = {
    "quantiles": lambda: (
        CompactKernelRegressor(
            12, loss="pinball", quantile=(0.1, 0.45, 0.5, 0.55, 0.9), storage="int4", **COMPACT
        ).fit(IRIS[:, :3], IRIS[:, 3]),
        IRIS[:, :3],
    ),
}

TRANSFORMERS = {
    "margin": lambda: (MMDA(2, n_landmarks=40, random_state=0).fit(IRIS, IRIS_NAMES), IRIS),
    "fisher": lambda: (
        make_pipeline(StandardScaler(), KernelFisherDiscriminant(alpha=0.1)).fit(IRIS, IRIS_LABELS),
        IRIS,
    ),
}

_made = {}


def classifier(name):
    """A fitted classifier and its rows, made once a process."""
    if name not in _made:
        _made[name] = CLASSIFIERS[name]()
    return _made[name]


def regressor(name):
    """A fitted regressor and its rows, made once a process."""
    if ("r", name) not in _made:
        _made["r", name] = (REGRESSORS | QUANTILE_REGRESSORS)[name]()
    return _made["r", name]


def detector(name):
    """A fitted novelty detector and its rows, made once a process."""
    if ("n", name) not in _made:
        _made["n", name] = DETECTORS[name]()
    return _made["n", name]


def transformer(name):
    """A fitted transformer and its rows, made once a process."""
    if ("t", name) not in _made:
        _made["t", name] = TRANSFORMERS[name]()
    return _made["t", name]

"""The table of abilities on the start page is what the code does.

``python tests/test_capabilities.py`` writes docs/results/capabilities.md; it needs the extras
``onnx`` and ``dask``.
"""

import warnings
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import is_classifier, is_outlier_detector, is_regressor
from sklearn.svm import SVC, SVR

import kernlet
from kernlet.rows import ArrayRows

STORED = Path(__file__).parents[1] / "docs" / "results" / "capabilities.md"
RENEW = "python tests/test_capabilities.py"
X = np.random.RandomState(0).randn(40, 2)
y = (X[:, 0] > 0).astype(int)


def make(name):
    """A quick one of its kind."""
    estimator = getattr(kernlet, name)
    original = {"CompressedClassifier": SVC(), "CompressedRegressor": SVR()}.get(name)
    estimator = estimator() if original is None else estimator(original, 5)
    small = {"candidates": 10, "n_centers": 5, "n_epochs": 2, "n_runs": 1, "random_state": 0}
    return estimator.set_params(**{k: small[k] for k in small if k in estimator.get_params()})


def works(call):
    """Whether a call is accepted; what an estimator cannot do, it refuses with a TypeError."""
    try:
        call()
    except TypeError:
        return False
    return True


def gives(estimator):
    if hasattr(estimator, "fit_resample"):
        return "rows"
    if is_classifier(estimator):
        return "classes"
    if is_outlier_detector(estimator):
        return "outliers"
    return "numbers" if is_regressor(estimator) else "features"


def has_probabilities(estimator):
    return hasattr(type(estimator), "predict_proba") and works(
        lambda: estimator.fit(X, y).predict_proba(X)
    )


def learns_blocks(estimator):
    def call():
        estimator.partial_fit(X, y, classes=[0, 1])

    return hasattr(estimator, "partial_fit") and works(call)


def takes_sparse(estimator):
    return works(lambda: estimator.fit(csr_matrix(X), y))


def takes_weights(estimator):
    return works(lambda: estimator.fit(X, y, sample_weight=np.ones(len(X))))


def takes_row_sources(estimator):
    return works(lambda: estimator.fit(ArrayRows(X), y))


def takes_dask(estimator):
    import dask.array

    return works(lambda: estimator.fit(dask.array.from_array(X, chunks=(20, 2)), y))


def exports_c(estimator, **options):
    with TemporaryDirectory() as folder:
        return works(lambda: kernlet.to_c(estimator.fit(X, y), folder, X=X, **options))


def exports_integer_c(estimator):
    return exports_c(estimator, arithmetic="integer")


def exports_onnx(estimator):
    return works(lambda: kernlet.to_onnx(estimator.fit(X, y), check=False))


def trains_on_gpu(estimator):
    """Without a GPU to try: estimators that train on one have the parameter."""
    return "device" in estimator.get_params()


ABILITIES = {
    "proba": has_probabilities,
    "stream": learns_blocks,
    "sparse": takes_sparse,
    "weights": takes_weights,
    "files": takes_row_sources,
    "Dask": takes_dask,
    "C": exports_c,
    "int C": exports_integer_c,
    "ONNX": exports_onnx,
    "GPU": trains_on_gpu,
}
PACKAGES = {"Dask": "dask", "ONNX": "onnx"}
#: In the order of the table: related estimators stand together.
NAMES = [
    "CompactKernelClassifier",
    "CompactKernelRegressor",
    "CompactNoveltyDetector",
    "CompressedClassifier",
    "CompressedRegressor",
    "L1KernelClassifier",
    "MinimalKernelClassifier",
    "L1KernelRegressor",
    "MinimalKernelRegressor",
    "ChunkingSyntheticClassifier",
    "HullPerceptronClassifier",
    "CoreVectorClassifier",
    "CoreVectorNovelty",
    "ProximalClassifier",
    "MMDA",
    "KernelFisherDiscriminant",
    "TypicalCondenser",
    "BoundaryCondenser",
    "CentroidCondenser",
]


def cell(name, column):
    """The mark in a column of the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return "✓" if ABILITIES[column](make(name)) else "-"


def table():
    """The whole table, in Markdown."""
    lines = [["", "gives", *ABILITIES], ["---", "---", *[":-:"] * len(ABILITIES)]]
    for name in NAMES:
        cells = [cell(name, column) for column in ABILITIES]
        lines.append([f"{{class}}`~kernlet.{name}`", gives(make(name)), *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def stored_rows():
    """Cells of the stored table, without the rule under its head."""
    lines = STORED.read_text("utf-8").splitlines()
    return [[c.strip() for c in line.strip("|").split("|")] for line in lines if "---" not in line]


def test_the_table_has_all_estimators_and_abilities():
    head, *rows = stored_rows()
    assert head == ["", "gives", *ABILITIES], f"Renew {STORED.name}: {RENEW}"
    assert {row[0].split(".")[1].strip("`") for row in rows} == set(NAMES)
    assert {n for n in kernlet.__all__ if hasattr(getattr(kernlet, n), "fit")} == set(NAMES)


@pytest.mark.parametrize("column", ABILITIES)
@pytest.mark.parametrize("name", NAMES)
def test_the_table_says_what_an_estimator_can_do(name, column):
    if column in PACKAGES and find_spec(PACKAGES[column]) is None:
        pytest.skip(f"the column {column} needs the package {PACKAGES[column]}")
    head, *rows = stored_rows()
    (row,) = [row for row in rows if row[0].endswith(f".{name}`")]
    assert row[1] == gives(make(name)), f"Renew {STORED.name}: {RENEW}"
    assert row[head.index(column)] == cell(name, column), f"Renew {STORED.name}: {RENEW}"


if __name__ == "__main__":
    STORED.write_text(table(), "utf-8")
    print(f"wrote {STORED}")

"""Pictures of rows left out."""

import matplotlib
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from kernlet import BoundaryCondenser, CentroidCondenser, TypicalCondenser
from kernlet.condense.base import DeletedImagesDisplay

matplotlib.use("Agg")


@pytest.mark.parametrize("condenser", [TypicalCondenser(), BoundaryCondenser(300)])
def test_a_line_for_each_class(condenser):
    X, y = load_digits(return_X_y=True)
    condenser.fit(X, y)
    display = DeletedImagesDisplay.from_estimator(condenser, X, image_shape=(8, 8), n_images=5)
    assert [len(line) <= 5 for line in display.lines] == [True] * 10
    assert display.image_.get_array().shape == (100, 50)
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == display.labels
    clearest = condenser.condensation_.rounds[0]
    if isinstance(condenser, TypicalCondenser):
        row = clearest.deleted[np.argmax(clearest.values)]
        np.testing.assert_array_equal(display.lines[0][0].ravel(), X[row])
    matplotlib.pyplot.close(display.figure_)


def test_sparse_rows_are_drawn():
    X, y = load_digits(return_X_y=True)
    condenser = TypicalCondenser().fit(X, y)
    of_dense, of_sparse = (
        DeletedImagesDisplay.from_estimator(condenser, rows, image_shape=(8, 8))
        for rows in (X, sparse.csr_matrix(X))
    )
    for one, other in zip(of_dense.lines, of_sparse.lines, strict=True):
        np.testing.assert_array_equal(one, other)
    matplotlib.pyplot.close("all")


def test_what_cannot_be_drawn_gets_a_sentence():
    X, y = load_digits(return_X_y=True)
    condenser = TypicalCondenser().fit(X, y)
    with pytest.raises(ValueError, match="have 63 numbers"):
        DeletedImagesDisplay.from_estimator(condenser, X, image_shape=(7, 9))
    with pytest.raises(ValueError, match="makes new ones"):
        DeletedImagesDisplay.from_estimator(
            CentroidCondenser(random_state=0).fit(X, y), X, image_shape=(8, 8)
        )

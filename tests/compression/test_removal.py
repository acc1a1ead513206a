"""Fewer centers by small coefficients."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from kernlet import HullPerceptronClassifier, KernelExpansion
from kernlet.affine import AffineMap
from kernlet.compression.refit import largest_coefficients, project, refit, remove
from kernlet.kernels.rbf import RBF


@pytest.fixture
def machine():
    X, y = make_moons(200, noise=0.2, random_state=0)
    fitted = HullPerceptronClassifier(10.0, gamma=1.0, tol=1e-6).fit(X, y)
    return X, np.where(y == 1, 1.0, -1.0)[None, :], fitted.expansion_


def test_the_largest_of_any_output_stay_in_place():
    coef = np.array([[1.0, -5.0, 0.0, 2.0], [0.0, 0.0, 3.0, -2.0]])
    f = KernelExpansion(RBF(1.0), np.arange(4.0)[:, None], coef, np.zeros(2))
    assert largest_coefficients(f, 2).tolist() == [1, 2]
    assert largest_coefficients(f, 3).tolist() == [1, 2, 3]


def test_one_round_is_dropping_and_refitting(machine):
    X, signs, f = machine
    kept = f.centers[largest_coefficients(f, 12)]
    ours = remove(f, 12, X, signs)
    np.testing.assert_allclose(ours.coef, refit(f.kernel, kept, X, signs).coef)
    np.testing.assert_allclose(remove(f, 12).coef, project(f, kept).coef)


def test_keeping_all_centers_changes_nothing(machine):
    _, _, f = machine
    probe = f.centers + 0.1
    same = remove(f, f.n_centers).decision_values(probe)
    np.testing.assert_allclose(same, f.decision_values(probe), atol=1e-5)


@pytest.mark.parametrize("n_rounds", [1, 3, 50])
def test_rounds_end_at_the_wanted_number(machine, n_rounds):
    X, signs, f = machine
    small = remove(f, 10, X, signs, n_rounds=n_rounds, weights=np.ones(200))
    assert small.n_centers == 10
    right = np.sign(small.decision_values(X)[:, 0]) == signs[0]
    assert right.mean() > 0.9


def test_bad_input_gets_a_sentence(machine):
    X, _, f = machine
    with pytest.raises(ValueError, match="out of range"):
        remove(f, 0)
    with pytest.raises(ValueError, match="out of range"):
        remove(f, f.n_centers + 1)
    with pytest.raises(ValueError, match="n_rounds"):
        remove(f, 3, n_rounds=0)
    with pytest.raises(ValueError, match="or neither"):
        remove(f, 3, X)
    with pytest.raises(ValueError, match="weights belong to rows"):
        remove(f, 3, weights=np.ones(3))
    with pytest.raises(ValueError, match="a row of signs per output"):
        remove(f, 3, X, np.ones((1, 5)))


def test_a_map_in_front_is_taken_into_the_centers(machine):
    X, _, f = machine
    front = KernelExpansion(
        f.kernel, f.centers, f.coef, f.intercept, AffineMap(np.full(1, 2.0), np.ones(1))
    )
    small = remove(front, 3)
    np.testing.assert_allclose(
        small.decision_values(X + 2.0), remove(f, 3).decision_values(X), atol=1e-8
    )

import numpy as np
import pytest

from kernlet.kernels.gram import Gram
from kernlet.kernels.rbf import RBF
from kernlet.lp.l1 import join_duals, loo_error_bound
from kernlet.lp.problem import MarginSolution
from kernlet.sklearn_base import join_centers

X = np.array([[0.0], [1.0], [2.0], [1.0], [5.0]])  # rows 1 and 3 are equal


def solution(centers, coef, rows, duals, slacks=None, gap=0.0):
    return MarginSolution(
        centers=np.array(centers, dtype=int),
        coef=np.array(coef, dtype=float),
        intercept=0.5,
        rows=np.array(rows, dtype=int),
        duals=np.array(duals, dtype=float),
        slacks=np.zeros(5) if slacks is None else np.array(slacks, dtype=float),
        objective=1.0,
        bound=1.0 - gap,
        n_iter=1,
        status="optimal",
    )


ONE = solution([0, 1], [1.0, 2.0], [0, 4], [0.1, 0.2])
TWO = solution([2, 3], [-1.0, 4.0], [4], [0.3])


def test_outputs_share_the_centers_that_any_of_them_uses():
    expansion, centers = join_centers(Gram(RBF(1.0), X), [ONE, TWO])
    assert centers.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(expansion.coef, [[1.0, 2.0, 0.0], [0.0, 4.0, -1.0]])
    np.testing.assert_array_equal(expansion.centers, X[:3])


def test_duals_of_all_outputs_over_the_rows_of_any():
    rows, duals = join_duals([ONE, TWO])
    assert rows.tolist() == [0, 4]
    np.testing.assert_array_equal(duals, [[0.1, 0.2], [0.0, 0.3]])


@pytest.mark.parametrize(
    ("candidate_rows", "expected"), [(np.arange(5), 1.0), (None, 2 / 5)], ids=["rows", "points"]
)
def test_rows_that_could_change_a_machine_are_counted(candidate_rows, expected):
    assert loo_error_bound(5, candidate_rows, [ONE, TWO], 1e-8) == expected


def test_an_error_without_a_dual_counts():
    wrong = solution([], [], [], [], slacks=[0.0, 0.0, 1.5, 0.0, 0.0])
    assert loo_error_bound(5, None, [wrong], 1e-8) == 1 / 5


@pytest.mark.parametrize("gap", [1e-3, np.nan])
def test_without_an_optimum_the_bound_is_one(gap):
    assert loo_error_bound(5, None, [solution([], [], [], [], gap=gap)], 1e-8) == 1.0

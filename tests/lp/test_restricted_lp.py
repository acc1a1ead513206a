"""The program inside HiGHS: what enters, leaves and stays, and the polished vertex."""

import numpy as np
import pytest

from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram
from kernlet.lp.problem import L1Margin
from kernlet.lp.simplex import RestrictedLP
from support.margin_problems import full_kernel, make_problem


def full_program(problem):
    lp = RestrictedLP(problem)
    rows, centers = (np.arange(n) for n in problem.gram.shape)
    lp.add(rows, centers)
    return lp


def test_growing_in_steps_gives_the_whole_program():
    problem = make_problem()
    at_once = full_program(problem).solve()
    lp = RestrictedLP(problem)
    for start in range(0, 60, 20):
        step = np.arange(start, start + 20)
        lp.add(step, step)
        vertex = lp.solve()
    assert vertex.duals.sum() == pytest.approx(at_once.duals.sum(), rel=1e-10)


def test_dropping_what_is_inactive_changes_nothing():
    lp = full_program(make_problem())
    before = lp.solve()
    lp.keep(before.duals > 0, before.coef != 0)
    after = lp.solve()
    assert len(lp.centers) < 60
    np.testing.assert_allclose(after.duals, before.duals[before.duals > 0], atol=1e-9)
    np.testing.assert_allclose(after.coef, before.coef[before.coef != 0], atol=1e-9)


def test_new_costs_from_the_old_basis_equal_a_fresh_start():
    problem, other = make_problem(), make_problem(weighted=True)
    lp = full_program(problem)
    lp.solve()
    lp.reweight(other)
    assert lp.solve().duals.sum() == pytest.approx(full_program(other).solve().duals.sum())


def test_margins_and_correlations_are_those_of_the_kernel():
    problem = make_problem()
    vertex = full_program(problem).solve()
    K, d = full_kernel(problem), problem.signs
    np.testing.assert_allclose(
        vertex.margins, 1 - d * (K @ vertex.coef + vertex.intercept), atol=1e-8
    )
    np.testing.assert_allclose(vertex.correlations, K.T @ (d * vertex.duals), atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_polishing_brings_the_residual_of_the_basis_down_to_rounding(seed):
    problem = make_problem(seed, C=50.0)
    lp = full_program(problem)
    vertex = lp.polished(lp.solve())
    K, d = full_kernel(problem), problem.signs
    used = vertex.coef != 0
    correlation = K.T @ (d * vertex.duals)
    np.testing.assert_allclose(correlation[used], np.sign(vertex.coef[used]), atol=1e-11)
    free = (vertex.duals > 0) & (vertex.duals < problem.error_weights)
    values = K @ vertex.coef + vertex.intercept
    np.testing.assert_allclose(d[free] * values[free], 1.0, atol=1e-11)


class NaNKernel(Kernel):
    def of_products(self, products, x_norms, z_norms):
        return np.full_like(products, np.nan)


def test_a_kernel_that_is_not_a_number_is_refused():
    good = make_problem()
    bad = L1Margin(
        Gram(NaNKernel(), good.gram.x.X), good.signs, good.error_weights, good.coef_weights
    )
    with pytest.raises(ValueError, match="kernel returned NaN or infinite values"):
        RestrictedLP(bad).add(np.arange(5), np.arange(5))

"""The fewest centers within a budget: against all subsets, with certificates that numpy checks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from benchmarks.fewest import MAX_CANDIDATES, Dual, Program, eliminate, prove
from benchmarks.suites.fewest import big_m, verified
from kernlet.kernels.rbf import RBF


def tiny(seed, n_rows=24, n_candidates=7, C=3.0):
    """Noisy rings and the optimum over all candidates."""
    random = np.random.RandomState(seed)
    X = random.normal(size=(n_rows, 2))
    signs = np.where(np.hypot(*X.T) + 0.3 * random.normal(size=n_rows) > 1.1, 1.0, -1.0)
    signs[:2] = 1.0, -1.0
    program = Program(RBF(0.8)(X, X[:n_candidates]), signs, C, np.inf)
    best = Dual(program).best_machine(np.ones(n_candidates, dtype=bool))
    return program, best.value


def with_budget(program, budget):
    return Program(program.K, program.signs, program.C, budget)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("factor", [1.001, 1.05, 1.2])
def test_as_few_as_all_subsets_say(seed, factor):
    program, optimum = tiny(seed)
    program = with_budget(program, factor * optimum)
    certificate = prove(program, 20.0)
    assert certificate.is_proved
    assert certificate.lower == naive.fewest_centers(
        program.K, program.signs, program.C, program.budget
    )
    assert verified(program, certificate)


def test_the_optimum_is_that_of_the_whole_program():
    program, optimum = tiny(0)
    m, s = program.K.shape
    value, _, _ = naive.l1_margin_primal(
        program.K, program.signs, np.full(m, program.C), np.ones(s)
    )
    assert optimum == pytest.approx(value, rel=1e-9)


@given(seed=st.integers(0, 1000), factor=st.floats(1.01, 1.5))
@settings(max_examples=15, deadline=None)
def test_machines_within_the_budget_hit_every_set(seed, factor):
    program, optimum = tiny(seed, n_candidates=6)
    program = with_budget(program, factor * optimum)
    certificate = prove(program, 10.0)
    masks = [program.must_hit(duals) for duals in certificate.duals]
    dual = Dual(program)
    for number in range(2**6):
        machine = dual.best_machine(np.array([number >> j & 1 for j in range(6)], dtype=bool))
        if machine.value <= program.budget:
            signed = np.concatenate([machine.coef > 0, machine.coef < 0])
            assert all((mask & signed).any() for mask in masks)


@given(seed=st.integers(0, 1000), scale=st.floats(0.0, 3.0))
@settings(max_examples=25, deadline=None)
def test_no_set_from_duals_that_prove_nothing(seed, scale):
    """Any duals whatever: a machine within the budget hits the set, if there is one."""
    program, optimum = tiny(seed, n_candidates=6)
    program = with_budget(program, 1.1 * optimum)
    random = np.random.RandomState(seed)
    mask = program.must_hit(scale * program.C * random.uniform(-0.5, 1.0, len(program.signs)))
    machine = Dual(program).best_machine(np.ones(6, dtype=bool))
    if mask is not None:
        assert (mask & np.concatenate([machine.coef > 0, machine.coef < 0])).any()


def test_elimination_stays_within_the_budget():
    program, optimum = tiny(1, n_rows=60, n_candidates=20)
    program = with_budget(program, 1.1 * optimum)
    dual, every = Dual(program), np.ones(20, dtype=bool)
    machine = eliminate(dual, every)
    assert machine.value <= program.budget
    assert machine.n_centers < dual.best_machine(every).n_centers
    assert machine.value == program.value(machine.coef, machine.intercept)


def test_a_failed_linear_program_is_within_no_budget(monkeypatch):
    program, _ = tiny(1)
    dual = Dual(with_budget(program, np.inf))
    machine = dual.best_machine(np.ones(7, dtype=bool))
    monkeypatch.setattr(dual, "_run", lambda *arguments: None)
    assert dual.best_machine(machine.coef != 0).value == np.inf
    assert dual.separate(np.ones(14), np.ones(14, dtype=bool)) is None


def test_big_m_agrees():
    program, optimum = tiny(2)
    program = with_budget(program, 1.05 * optimum)
    certificate = prove(program, 20.0)
    start = eliminate(Dual(program), np.ones(program.K.shape[1], dtype=bool))
    masks = [program.must_hit(duals) for duals in certificate.duals]
    for rows in ([], masks):
        assert big_m(program, start, rows, 20.0) == (certificate.lower, certificate.lower)


def test_bounds_hold_when_time_is_up():
    program, optimum = tiny(3, n_rows=60, n_candidates=20)
    certificate = prove(with_budget(program, 1.02 * optimum), 0.0)
    assert 0 <= certificate.lower <= certificate.machine.n_centers


def test_what_cannot_be_proved_is_refused():
    program, optimum = tiny(0)
    with pytest.raises(ValueError, match="Raise the budget"):
        prove(with_budget(program, 0.9 * optimum), 1.0)
    with pytest.raises(ValueError, match=f"at most {MAX_CANDIDATES}"):
        Program(np.ones((3, MAX_CANDIDATES + 1)), np.array([1.0, -1.0, 1.0]), 1.0, 1.0)

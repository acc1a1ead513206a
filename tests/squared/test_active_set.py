"""The small program: exact after every row, whatever the order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernlet.squared.active_set import IncrementalNNQP


def program_of(Q, sizes):
    program = IncrementalNNQP()
    start = 0
    for size in sizes:
        stop = min(start + size, len(Q))
        program.add(Q[start:stop, :stop])
        assert program.solve()
        start = stop
    return program


def random_matrix(m, seed, ridge=0.1):
    half = np.random.RandomState(seed).randn(m, max(2, m // 2))
    return half @ half.T + ridge * np.eye(m)


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(0, 10**6), st.integers(1, 7))
def test_it_meets_the_conditions_of_an_optimum_after_every_batch(m, seed, size):
    Q = random_matrix(m, seed)
    program = IncrementalNNQP()
    for start in range(0, m, size):
        stop = min(start + size, m)
        program.add(Q[start:stop, :stop])
        assert program.solve()
        margins = Q[:stop, :stop] @ program.weights
        assert (program.weights >= 0).all()
        assert margins.min() >= 1 - 1e-9
        np.testing.assert_allclose(margins[program.support], 1.0, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_rows_one_by_one_or_at_once_and_gauss_seidel_agree(seed):
    m = 30
    Q = random_matrix(m, seed, ridge=1.0)
    slow = program_of(Q, [1] * m)
    np.testing.assert_allclose(program_of(Q, [m]).weights, slow.weights, atol=1e-10)
    # with all signs +1, Q = K + 1 + 1 / c
    alpha, _ = naive.gauss_seidel(Q - 1 - np.eye(m), np.ones(m), np.ones(m), np.zeros((m, 0)))
    np.testing.assert_allclose(slow.weights, alpha, atol=1e-8)


def test_equal_rows_without_a_ridge_end_with_a_word():
    program = IncrementalNNQP()
    program.add(np.full((3, 3), 2.0))
    assert program.solve() in (True, False)
    assert program.weights.sum() == pytest.approx(0.5)

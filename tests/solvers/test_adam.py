import numpy as np
import pytest

from kernlet.solvers.adam import Adam, Schedule, batches, n_batches


def test_rates_rise_in_a_line_and_fall_to_nothing():
    schedule = Schedule(100, warm_up=0.1)
    factors = [schedule.factor(step) for step in range(100)]
    np.testing.assert_allclose(factors[:10], np.arange(1, 11) / 10)
    assert factors[10] == 1.0
    assert np.all(np.diff(factors[10:]) < 0)
    assert factors[-1] < 0.01


def test_steps_are_those_of_the_paper():
    """With a constant schedule: m and v by hand, bias corrected."""
    schedule = Schedule(10**9, warm_up=0.0)
    search = Adam({"x": np.array([1.0, -2.0])}, {"x": 0.1}, schedule)
    x, m, v = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    for step in range(1, 6):
        slope = 2 * x + 1
        search.step({"x": 2 * search.arrays["x"] + 1})
        m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope**2
        x = x - 0.1 * (m / (1 - 0.9**step)) / np.sqrt(v / (1 - 0.999**step))
        np.testing.assert_allclose(search.arrays["x"], x, rtol=1e-5)


def test_starting_values_are_left_alone():
    start = {"x": np.ones(2)}
    Adam(start, {"x": 0.1}, Schedule(5)).step({"x": np.ones(2)})
    np.testing.assert_array_equal(start["x"], np.ones(2))


@pytest.mark.parametrize(("n_rows", "size"), [(10, 3), (9, 3), (2, 5)])
def test_every_epoch_sees_every_row_once(n_rows, size):
    seen = list(batches(n_rows, size, 2, np.random.RandomState(0)))
    assert len(seen) == 2 * n_batches(n_rows, size)
    first = np.concatenate(seen[: len(seen) // 2])
    assert sorted(first) == list(range(n_rows))

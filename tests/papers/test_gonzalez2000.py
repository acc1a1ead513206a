"""Chunking-synthetic: draws, errors of a shared test pool, and which figures are judged."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papers.gonzalez2000 import (
    NOISY_STAGES,
    OFFICIAL,
    STAGES,
    TABLE_1,
    TABLE_2,
    Pool,
    Setting,
    _figure,
    _test_error,
)
from papers.tables import Measurement
from papers.tasks import pool_error


def naive_error(runs):
    """Covariance of two runs on the same row, summed pair by pair."""
    cells = [right for run in runs for right in run.values()]
    mean, total = sum(cells) / len(cells), 0.0
    for one in runs:
        for other in runs:
            if one is not other:
                total += sum((one[row] - mean) * (other[row] - mean) for row in one if row in other)
    return 100 * max(0.0, total) ** 0.5 / len(cells)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.integers(0, 9), st.integers(0, 1), min_size=1), min_size=1, max_size=5
    )
)
def test_error_of_a_shared_pool(runs):
    rows = np.concatenate([list(run) for run in runs])
    is_right = np.concatenate([list(run.values()) for run in runs])
    assert pool_error(rows, is_right) == pytest.approx(naive_error(runs), abs=1e-6)


def test_runs_on_the_same_rows_have_the_binomial_error():
    """Ten equal machines on the same 400 rows know no more than one."""
    is_right = np.arange(400) % 10 > 0
    error = pool_error(np.tile(np.arange(400), 10), np.tile(is_right, 10))
    unbiased = _test_error({"test": [90.0] * 10, "test_error": [error]})
    assert unbiased == pytest.approx(100 * np.sqrt(0.9 * 0.1 / 400))
    assert pool_error(np.arange(400), is_right) == 0.0  # no row is shared


def test_error_of_a_pool_and_of_runs_is_that_of_their_mean():
    """Over many pools: the deviation of the mean is what one of them says of itself."""
    random = np.random.RandomState(0)
    means, variances = [], []
    for _ in range(500):
        easiness = 1.9 + 2.2 * random.randn(200)
        rows = np.array([random.permutation(200)[:120] for _ in range(5)])
        is_right = easiness[rows] + 0.2 * random.randn(5, 1) + 0.8 * random.randn(5, 120) > 0
        tests = 100 * is_right.mean(axis=1)
        error = pool_error(rows.ravel(), is_right.ravel())
        test_error = _test_error({"test": tests.tolist(), "test_error": [error]})
        means.append(tests.mean())
        variances.append(Measurement(tests.tolist(), test_error=test_error).standard_error ** 2)
    assert np.sqrt(np.mean(variances)) == pytest.approx(np.std(means), rel=0.1)


def test_draws_of_halves_never_test_on_rows_of_an_earlier_stage():
    pool = Pool(np.zeros((9298, 1)), np.zeros(9298))
    seen, tested = set(), set()
    for size in (500, 4000):
        for run in (0, 1):
            training, validation, testing = map(set, map(np.ndarray.tolist, pool.draw(size, run)))
            assert (len(training), len(testing)) == (size, size)
            assert len(validation) == (800 if size == 500 else 649)
            assert not training & validation
            seen |= training | validation
            tested |= testing
    assert not seen & tested


def test_draws_of_the_paper_come_from_one_set():
    for n_rows, largest in ((9298, 9298), (16_000, 8000)):
        training, validation, testing = Pool(None, np.zeros(n_rows)).draw_as_paper(4000, 0)
        assert not set(training) & set(testing)
        np.testing.assert_array_equal(validation, testing)
        assert max(training.max(), testing.max()) < largest


def test_a_linear_kernel_needs_one_point_per_run():
    assert Setting([[1.0]], kernel="linear").plan(0).n_points == 1
    assert Setting([[1.0]]).plan(0).box == 1.25


def figures(data, number, lines):
    return {
        (key, name): _figure(data, number, key, row, name, value, "not measured yet")
        for key, row, *paper in lines
        for name, value in zip(("points", "train", "support", "test"), paper, strict=True)
        if value is not None
    }


@pytest.mark.parametrize(
    ("data", "number", "table", "stages"),
    [("usps", "1", TABLE_1, STAGES), ("noisy", "2", TABLE_2, NOISY_STAGES)],
)
def test_each_figure_is_judged_once(data, number, table, stages):
    in_table = figures(data, number, table)
    in_stages = figures(data, "stages" if data == "usps" else "noisy-stages", stages)
    for key, figure in in_table.items():
        if key in in_stages and figure.kind == "accuracy":
            assert figure.unjudged in ("judged in the stages", "calibrated to this figure")
            assert figure.paper == pytest.approx(in_stages[key].paper, abs=0.1)
        elif key not in in_stages:
            assert not figure.unjudged


def test_caps_calibrated_lines_and_roles():
    usps, noisy = figures("usps", "stages", STAGES), figures("noisy", "noisy-stages", NOISY_STAGES)
    assert usps["2000 two sets", "points"].unjudged == "a cap"
    assert noisy["1000 full", "test"].unjudged == "calibrated to this figure"
    assert not noisy["1000 full", "points"].unjudged
    assert not noisy["500 10 largest", "test"].unjudged
    assert not usps["1000 full", "test"].unjudged
    roles = {key: figure.role for (key, _), figure in usps.items()}
    assert roles["500 b"] == roles["500 c"] == roles["4000 two sets"] == roles[OFFICIAL] == "own"
    assert roles["2000 full"] == roles["2000 10 largest"] == roles["2000 100 random"] == "baseline"

"""Fits and predictions in other processes and in several threads are those of one process."""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from joblib import Parallel, delayed

from support.fitting import NAMES, accepts, fit_and_predict, outputs

SECONDS = 300  # until a process that hangs fails the test


@cache
def expected(name):
    """The estimator and its outputs, computed in this process before any other starts."""
    return fit_and_predict(name)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_child_processes_fit_and_predict_as_their_parent(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    parents = [expected(name) for name in NAMES]
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        children = list(pool.map(fit_and_predict, NAMES, timeout=SECONDS))
        sent = list(pool.map(outputs, [estimator for estimator, _ in parents], timeout=SECONDS))
    for name, (_, values), (child, of_child), of_sent in zip(
        NAMES, parents, children, sent, strict=True
    ):
        np.testing.assert_array_equal(of_child, values, err_msg=f"{name}: fitted in a child")
        np.testing.assert_array_equal(of_sent, values, err_msg=f"{name}: sent to a child")
        np.testing.assert_array_equal(outputs(child), values, err_msg=f"{name}: sent back")


@pytest.mark.slow
def test_eight_threads_at_once_do_as_one():
    tasks = NAMES * 4
    values = [expected(name)[1] for name in tasks]
    with ThreadPoolExecutor(8) as pool:
        at_once = list(pool.map(fit_and_predict, tasks, timeout=SECONDS))
        predicted = list(pool.map(outputs, [expected(name)[0] for name in tasks], timeout=SECONDS))
    for name, value, (_, of_thread), again in zip(tasks, values, at_once, predicted, strict=True):
        np.testing.assert_array_equal(of_thread, value, err_msg=f"{name}: fitted in a thread")
        np.testing.assert_array_equal(again, value, err_msg=f"{name}: predicted in a thread")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_jobs_inside_jobs_change_nothing(backend):
    names = [name for name in NAMES if accepts(name, "n_jobs")]
    tasks = (delayed(fit_and_predict)(name, n_jobs=2) for name in names)
    for name, (_, values) in zip(names, Parallel(n_jobs=2, backend=backend)(tasks), strict=True):
        np.testing.assert_array_equal(values, expected(name)[1], err_msg=name)


@pytest.mark.parametrize("name", NAMES)
def test_pickled_estimators_predict_the_same(name):
    estimator, values = expected(name)
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        copy = pickle.loads(pickle.dumps(estimator, protocol))
        np.testing.assert_array_equal(outputs(copy), values)

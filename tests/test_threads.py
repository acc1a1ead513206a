"""One thread for BLAS, also where fits run in several threads at once."""

import threading

import numpy as np  # noqa: F401 - loads the BLAS to limit
from threadpoolctl import threadpool_info, threadpool_limits

from kernlet.threads import single_thread


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_the_last_of_several_threads_restores_the_limit():
    first_is_open, second_is_open, first_is_done = (threading.Event() for _ in range(3))
    seen = {}

    def first():
        with single_thread():
            first_is_open.set()
            second_is_open.wait(10)
        seen["first done"] = blas_threads()
        first_is_done.set()

    def second():
        first_is_open.wait(10)
        with single_thread():
            second_is_open.set()
            first_is_done.wait(10)

    with threadpool_limits(2):
        with single_thread():
            pass  # from here on threadpoolctl lets other threads change the limit
        threads = [threading.Thread(target=run) for run in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen["first done"] == {1}
        assert blas_threads() == {2}


def test_nested_limits_and_errors_leave_the_limits_as_they_were():
    before = threadpool_info()
    try:
        with single_thread(), single_thread():
            raise KeyError
    except KeyError:
        pass
    assert threadpool_info() == before

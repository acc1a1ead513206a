"""One thread for BLAS and OpenMP, around every fit and every sum over blocks."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import threadpoolctl

# The matrix products of a fit are small, and BLAS on all threads is 10 to 50 times slower on
# them than on one, worst where other processes compete for the cores. One limit stands around
# every fit. Products of large blocks, which would gain, are rare enough to leave to n_jobs.
#
# The limit of BLAS holds for the whole process. If two fits in two threads set and restored it
# each for itself, the first to end would lift it while the other runs, and the other would then
# "restore" the limit of 1 that it found. So the first to begin sets it and the last to end
# restores it. The limit of OpenMP belongs to the calling thread: every fit has to set it.
_lock = threading.Lock()
_n_open = 0
_blas_limit: Any = None

# Recent versions of threadpoolctl let the thread that set a limit of OpenBLAS alone change it,
# and here another may have to restore it: this gives the control back.
_give_back_control: Callable[[], None] = getattr(
    getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", lambda: None
)


@functools.lru_cache(maxsize=1)
def _libraries(n_modules: int) -> Any:
    """The loaded libraries, which take milliseconds to find: only after further imports again."""
    return threadpoolctl.ThreadpoolController()


def _limit(user_api: str) -> Any:
    """Limit BLAS or OpenMP to one thread; the result can restore the number before."""
    return _libraries(len(sys.modules)).select(user_api=user_api).limit(limits=1)


@contextmanager
def single_thread() -> Iterator[None]:
    """Run BLAS and OpenMP on one thread; also a decorator, for functions sent to workers."""
    global _n_open, _blas_limit
    with _lock:
        if _n_open == 0:
            _blas_limit = _limit("blas")
            _give_back_control()
        _n_open += 1
    try:
        with _limit("openmp"):
            yield
    finally:
        with _lock:
            _n_open -= 1
            if _n_open == 0:
                _blas_limit.restore_original_limits()
                _give_back_control()
                _blas_limit = None

"""C that m2cgen writes for large machines, which its code and gcc do not digest as they are."""

from __future__ import annotations

import gc
import re
import sys
import threading
from typing import Any


def m2cgen_c(model: Any) -> str:
    """m2cgen's C, from a thread with a stack large enough for its recursion."""
    import m2cgen

    _cache_hashes(m2cgen.ast)
    answer: list[str] = []
    limit, stack = sys.getrecursionlimit(), threading.stack_size(1 << 29)
    sys.setrecursionlimit(10**6)
    gc.disable()  # millions of small objects, and no cycles
    try:
        thread = threading.Thread(target=lambda: answer.append(m2cgen.export_to_c(model)))
        thread.start()
        thread.join()
    finally:
        gc.enable()
        sys.setrecursionlimit(limit)
        threading.stack_size(stack)
    return answer[0]


def kernel_functions(code: str) -> str:
    """Move the kernel value of each support vector into its own function.

    m2cgen writes one large function, which gcc -O2 had not compiled after five minutes of CPU time
    and 4 GB. The expressions are unchanged; 2,338 calls cost little compared with 600,000 squares.
    """
    statement = re.compile(r"^ *(var\d+) = (exp\(.*\));$", re.MULTILINE)
    functions = [
        f"double value_{match[1]}(double *input) {{ return {match[2]}; }}"
        for match in statement.finditer(code)
    ]
    head, body = code.split("void score(", 1)
    body = statement.sub(r"\1 = value_\1(input);", body)
    return "\n".join([head, *functions, f"void score({body}"])


def votes_of_pairs(n_classes: int) -> str:
    """C that predicts: m2cgen returns one value per pair of classes; most wins decide in SVC."""
    n_pairs = n_classes * (n_classes - 1) // 2
    return f"""
void score(double *input, double *output);
static int predict(double *x)
{{
    double pairs[{n_pairs}];
    int won[{n_classes}] = {{0}}, i, j, p = 0, best = 0;
    score(x, pairs);
    for (i = 0; i < {n_classes}; ++i)
        for (j = i + 1; j < {n_classes}; ++j, ++p) ++won[pairs[p] > 0 ? i : j];
    for (i = 1; i < {n_classes}; ++i) if (won[i] > won[best]) best = i;
    return best;
}}
"""


def _cache_hashes(ast: Any) -> None:
    """Cache the hashes of m2cgen's expressions, which are recomputed at every level above them.

    The output is the same; without the cache, thousands of support vectors take hours.
    """
    for kind in vars(ast).values():
        own = vars(kind).get("__hash__") if isinstance(kind, type) else None
        if own is not None and not hasattr(own, "is_cached"):
            kind.__hash__ = _cached_hash(own)


def _cached_hash(own: Any) -> Any:
    def cached(self: Any) -> int:
        if "_hash" not in self.__dict__:
            self.__dict__["_hash"] = own(self)
        return self.__dict__["_hash"]

    cached.is_cached = True  # type: ignore[attr-defined]
    return cached

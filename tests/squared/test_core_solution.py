"""When a core set ended short of its rule."""

import numpy as np
import pytest

from kernlet.squared.core_set import REASONS, CoreRule


@pytest.mark.parametrize(
    ("eps", "status", "gap", "true_eps", "is_missed"),
    [
        (None, "optimal", 0.5, 0.5, False),
        (None, "stopped", 0.5, 0.5, False),
        (None, "memory limit", 0.5, 0.0, True),
        (None, "memory limit", 1e-4, 0.5, False),
        (1e-3, "memory limit", 0.5, 1e-4, False),
        (1e-3, "iteration limit", 0.0, 2e-3, True),
        (0.0, "rounding", 0.5, 1e-9, False),
        (0.0, "rounding", 0.0, np.inf, True),
        (None, "rounding", np.nan, 0.0, True),
    ],
)
def test_a_rule_is_missed_by_its_own_measure(eps, status, gap, true_eps, is_missed):
    assert CoreRule(eps=eps).is_missed(status, gap, true_eps) is is_missed
    assert not is_missed or status in REASONS

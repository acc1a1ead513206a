"""Fits by hypothesis, which shrinks a case that fails to a simple one."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kernlet
from fuzz.fits import draw_estimator, estimators, fit_and_check
from fuzz.odd_data import draw_classes, draw_rows, draw_weights


class Drawn:
    """Numbers that hypothesis draws."""

    def __init__(self, data):
        self.data = data

    def integers(self, low, high):
        return self.data.draw(st.integers(low, high - 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(estimators()))
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_fits_are_refused_in_a_sentence_or_can_be_used(name, data, tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = fit_and_check(Drawn(data), tmp_path_factory.mktemp("fit"), name)
    assert outcome in ("fitted", "warned", "refused")


def test_every_public_estimator_is_drawn(tmp_path):
    names = {name for name in kernlet.__all__ if hasattr(getattr(kernlet, name), "get_params")}
    assert set(estimators()) == names
    for name in names:
        for seed in range(20):
            estimator = draw_estimator(np.random.default_rng(seed), name, tmp_path)
            assert type(estimator).__name__ == name


def test_data_repeat_themselves(tmp_path):
    def draw(seed):
        rng = np.random.default_rng(seed)
        return [draw_rows(rng, tmp_path), draw_classes(rng, 20), draw_weights(rng, 20)]

    for seed in range(30):
        assert repr(draw(seed)) == repr(draw(seed))

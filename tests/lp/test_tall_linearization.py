"""Successive linearisation by the tall method against that by generation."""

import numpy as np
import pytest

from kernlet.kernels.rbf import RBF
from kernlet.lp.generation import Generation
from kernlet.lp.linearization import linearize_successively, linearize_tall
from kernlet.lp.problem import PoundLoss
from kernlet.lp.streaming import TallLP
from support.margin_problems import make_problem, tall

POUND = PoundLoss(10.0, 5.0)


def test_falls_to_a_stationary_point_as_good_as_that_of_generation():
    problems = [make_problem(s, 5000, RBF(0.7), 0.2, 25, weighted=True) for s in (1, 1)]
    paths = linearize_tall(TallLP(tall(*problems), seed=0), POUND, max_lps=50)
    other = linearize_successively(
        Generation(problems[0], np.random.RandomState(0)), POUND, max_lps=50
    )
    for path in paths:
        assert path.is_stationary
        assert abs(path.solution.gap) < 1e-9
        assert np.all(np.diff(path.objectives) <= 1e-9 * path.objectives[0])
        assert path.objectives[0] == pytest.approx(other.objectives[0], rel=1e-6)
        assert path.objectives[-1] == pytest.approx(other.objectives[-1], rel=1e-2)


def test_the_number_of_programs_can_be_limited():
    problem = tall(make_problem(1, 3000, RBF(0.7), 0.2, 25))
    (path,) = linearize_tall(TallLP(problem, seed=0), POUND, max_lps=2)
    assert len(path.objectives) == 2
    assert not path.is_stationary

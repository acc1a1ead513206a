"""The suite notices certificates that are wrong."""

import zlib

import numpy as np
import pytest

import kernlet
from fuzz import certificates
from fuzz.certificates_problems import Problem, draw_problem


def make_problem(C=10.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    return Problem(
        X, (X[:, 0] + rng.normal(size=20) > 0).astype(int), None, {"kernel": "rbf"}, C, None
    )


MACHINES = {
    "l1": (kernlet.L1KernelClassifier, {"candidates": None}, certificates.check_l1),
    "core": (kernlet.CoreVectorClassifier, {"tol": 1e-6}, certificates.check_core),
    "hull": (kernlet.HullPerceptronClassifier, {"tol": 1e-6}, certificates.check_hull),
    "proximal": (
        kernlet.ProximalClassifier,
        {"landmarks": None, "class_weight": None},
        certificates.check_proximal,
    ),
}


def scale(machine, factor):
    """Another machine with the certificate of this one."""
    expansion = machine.expansion_
    machine.expansion_ = kernlet.KernelExpansion(
        expansion.kernel, expansion.centers, factor * expansion.coef, expansion.intercept
    )


@pytest.mark.parametrize("name", MACHINES)
def test_wrong_certificates_are_noticed(name):
    kind, parameters, check = MACHINES[name]
    problem = make_problem()
    machine, has_warned = certificates.fit(kind(problem.C, **parameters), problem)
    check(machine, problem, has_warned)
    gap = "duality_gap_" if name == "l1" else "gap_"
    for wrong in (np.nan, np.inf, 0.1):
        setattr(machine, gap, np.array([wrong]) if name == "l1" else wrong)
        with pytest.raises(AssertionError, match="gap"):
            check(machine, problem, has_warned=False)


@pytest.mark.parametrize("name", ["l1", "core", "proximal"])
def test_objectives_of_other_machines_are_noticed(name):
    kind, parameters, check = MACHINES[name]
    problem = make_problem()
    machine, has_warned = certificates.fit(kind(problem.C, **parameters), problem)
    scale(machine, 1.001)
    with pytest.raises(AssertionError, match="objective"):
        check(machine, problem, has_warned)


@pytest.mark.parametrize("name", MACHINES)
def test_bounds_above_the_optimum_are_noticed(name):
    """The machine of another C, whose objective is put right, is not optimal: its gap is not 0."""
    kind, parameters, check = MACHINES[name]
    problem = make_problem()
    machine, _ = certificates.fit(kind(10 * problem.C, **parameters), problem)
    with pytest.raises(AssertionError):
        check(machine, problem, has_warned=False)


def test_linear_programs_with_several_solutions():
    # The second solution of a program has a lower concave objective: the path does not end there.
    rng = np.random.default_rng([18, zlib.crc32(b"certificate-minimal"), 115])
    problem = draw_problem(rng, (*certificates.MERCER, "sigmoid"), max_rows=20)
    for seed in range(8):
        machine = kernlet.MinimalKernelClassifier(
            problem.C,
            mu=4.314203501049953,
            class_weight=problem.class_weight,
            candidates=None,
            random_state=seed,
            **problem.kernel,
        )
        certificates.check_stationary(*certificates.fit(machine, problem)[:1], problem, False)

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from kernlet import L1KernelClassifier
from kernlet.datasets import Dataset
from kernlet.report.evaluate import fit_svc, markdown_table, measure, measure_svc
from support.exportable_models import DIGIT_LABELS, DIGITS, IRIS, IRIS_LABELS


@pytest.fixture
def moons():
    X, y = make_moons(120, noise=0.2, random_state=0)
    return Dataset("moons", X[:80], y[:80], X[80:], y[80:])


def test_a_kernlet_machine_is_measured_by_its_own_attributes(moons):
    machine = L1KernelClassifier(random_state=0)
    found = measure("ours", machine, moons)
    assert found.centers == machine.n_centers_
    assert found.nbytes == machine.expansion_.nbytes
    assert found.gap == machine.duality_gap_[0]
    assert found.loo_bound == machine.loo_error_bound_
    assert found.accuracy == machine.score(moons.X_test, moons.y_test)


def test_an_svc_is_measured_by_its_support_vectors(moons):
    machine = SVC()
    found = measure("SVC", machine, moons)
    assert found.centers == len(machine.support_)
    assert found.nbytes == 8 * (machine.support_vectors_.size + machine.dual_coef_.size + 1)
    assert found.loo_bound == pytest.approx(len(machine.support_) / 80)
    assert found.gap is None


def test_the_bound_of_an_svc_holds(moons):
    found = measure("SVC", SVC(), moons)
    errors = 0
    for i in range(80):
        others = np.arange(80) != i
        machine = SVC(gamma=SVC().fit(moons.X, moons.y)._gamma)
        errors += machine.fit(moons.X[others], moons.y[others]).predict(moons.X[[i]]) != moons.y[i]
    assert errors / 80 <= found.loo_bound


def test_the_table_has_a_line_for_each_machine(moons):
    measurements = [measure("SVC", SVC(), moons), measure("ours", L1KernelClassifier(), moons)]
    lines = markdown_table(measurements).splitlines()
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1


def test_an_svc_is_tuned_and_measured():
    svc = fit_svc(DIGITS[:600:2], DIGIT_LABELS[:600:2])
    test = DIGITS[1:600:2], DIGIT_LABELS[1:600:2]
    measured = measure_svc(svc, *test)
    assert measured["accuracy"] == svc.score(*test) > 0.9
    assert measured["centers"] == len(svc.support_)
    assert measured["training_rows"] == 300


def test_rare_classes_are_not_cross_validated():
    rare = np.append(IRIS_LABELS, 9)
    assert fit_svc(np.vstack([IRIS, IRIS[:1]]), rare).C == 10.0

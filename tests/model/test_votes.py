"""Votes are scikit-learn's, to the last bit."""

import numpy as np
import pytest
from sklearn.svm import SVC
from sklearn.utils.multiclass import _ovr_decision_function

from kernlet.model.model import decision_values, pair_coefficients, predicted_codes, vote_values


def pair_outputs(n_classes, whole=False):
    outputs = np.random.RandomState(n_classes).randn(200, n_classes * (n_classes - 1) // 2)
    return np.round(outputs) if whole else outputs


def libsvm_vote(row, n_classes):
    """As svm_predict_values counts, loop for loop."""
    votes, pair = [0] * n_classes, 0
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            votes[i if row[pair] > 0 else j] += 1
            pair += 1
    return votes.index(max(votes))


@pytest.mark.parametrize("n_classes", [2, 3, 4, 6])
@pytest.mark.parametrize("whole", [False, True], ids=["margins", "ties and zeros"])
def test_vote_values_are_those_of_scikit_learn(n_classes, whole):
    outputs = pair_outputs(n_classes, whole)
    expected = _ovr_decision_function(outputs < 0, -outputs, n_classes)
    np.testing.assert_array_equal(vote_values(outputs, n_classes), expected)
    codes = predicted_codes(outputs, "one vs one", n_classes, votes=True, break_ties=True)
    np.testing.assert_array_equal(codes, expected.argmax(axis=1))


@pytest.mark.parametrize("n_classes", [2, 3, 4, 6])
@pytest.mark.parametrize("whole", [False, True], ids=["margins", "ties and zeros"])
@pytest.mark.parametrize("votes", [False, True])
def test_codes_are_those_of_libsvm(n_classes, whole, votes):
    outputs = pair_outputs(n_classes, whole)
    codes = predicted_codes(outputs, "one vs one", n_classes, votes, break_ties=False)
    np.testing.assert_array_equal(codes, [libsvm_vote(row, n_classes) for row in outputs])


def test_one_output():
    outputs = np.array([[-2.0], [0.0], [3.0]])
    np.testing.assert_array_equal(decision_values(outputs, "one output", 2, False), [-2, 0, 3])
    for break_ties, codes in [(False, [0, 1, 1]), (True, [0, 0, 1])]:
        found = predicted_codes(outputs, "one output", 2, False, break_ties)
        np.testing.assert_array_equal(found, codes)


def test_zero_is_the_second_class_of_an_svc():
    """Far from the symmetric centers all kernel values are 0, and so is the intercept."""
    X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), [0, 0, 1, 1]
    machine, far = SVC(gamma=1.0).fit(X, y), np.array([[100.0, 0.0]])
    assert machine.decision_function(far) == 0
    outputs = machine.decision_function(far)[:, None]
    codes = predicted_codes(outputs, "one output", 2, votes=False, break_ties=False)
    np.testing.assert_array_equal(codes, machine.predict(far))


def test_one_vs_rest():
    outputs = np.array([[0.5, -1.0, 0.5], [-3.0, -1.0, -2.0]])
    assert decision_values(outputs, "one vs rest", 3, votes=False) is outputs
    for break_ties in (False, True):
        codes = predicted_codes(outputs, "one vs rest", 3, False, break_ties)
        np.testing.assert_array_equal(codes, [0, 1])


def test_shapes_of_pairs():
    outputs = pair_outputs(4)
    assert decision_values(outputs, "one vs one", 4, votes=False) is outputs
    assert decision_values(outputs, "one vs one", 4, votes=True).shape == (200, 4)
    assert decision_values(pair_outputs(2), "one vs one", 2, votes=True).shape == (200,)


def test_pairs_of_an_svc():
    """With the linear kernel, coef_ of an SVC is one row a pair."""
    random = np.random.RandomState(0)
    X, y = random.randn(80, 3), random.randint(4, size=80)
    machine = SVC(kernel="linear").fit(X, y)
    coef = pair_coefficients(machine.dual_coef_, machine.n_support_)
    np.testing.assert_allclose(coef @ machine.support_vectors_, machine.coef_, atol=1e-12)

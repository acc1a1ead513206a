import numpy as np

from kernlet import HullPerceptronClassifier
from papers.garcia2006 import (
    EVOLUTION,
    GAMMA,
    LITERAL,
    OURS,
    REDUCTION,
    REMOVAL,
    SUPPORT,
    SUPPORT_FIRST,
    TEST,
    C,
    last_round,
    removal_path,
    scaled_fold,
)


def rounds(*validation):
    """Two folds whose accuracies on removed rows have a deviation of 0.01 about the given ones."""
    means = np.array([np.nan, *validation])
    folds = np.stack([means - 0.01, means + 0.01])
    return np.stack([folds, np.full_like(folds, 0.005), folds, folds], axis=2)


def test_the_rule_stops_where_accuracy_changes_by_more_than_its_deviation():
    assert last_round(rounds(0.99, 0.985, 0.95, 0.95), "change") == 3
    assert last_round(rounds(0.99, 0.985, 0.98, 0.975), "change") == 4  # never: the last round
    assert last_round(rounds(0.99, 0.985, 0.98, 0.975), "fall") == 4
    assert last_round(rounds(0.99, 0.985, 0.979, 0.975, 0.97), "fall") == 3


def test_n_as_the_support_vectors_at_first_is_a_larger_factor(data_folder):
    path = removal_path("sonar", 60, 0, "exact", SUPPORT_FIRST)
    literal = removal_path("sonar", 60, 0, "exact", LITERAL)
    assert path[0] == literal[0]
    assert path[1][SUPPORT] < literal[1][SUPPORT]
    X, signs, _, _ = scaled_fold("sonar", 60, 0)
    first = HullPerceptronClassifier(C, gamma=GAMMA, tol=1e-4).fit(X, signs)
    kept = np.count_nonzero(first.alpha_[0] >= 0.5 / len(first.support_indices_))
    assert path[1][SUPPORT] <= kept


def test_ours_is_the_estimators_removal(data_folder):
    X, signs, X_test, signs_test = scaled_fold("sonar", 60, 1)
    machine = HullPerceptronClassifier(C, gamma=GAMMA, tol=1e-4, removal=REMOVAL).fit(X, signs)
    path = removal_path("sonar", 60, 1, "exact", OURS)
    last = machine.removal_path_[-1]
    expected = [last.validation_accuracy, last.deviation, last.n_support]
    assert path[last.round][:3] == expected
    assert path[last.round][TEST] == machine.score(X_test, signs_test)


def test_the_papers_tables_agree_with_each_other():
    for name, factors in EVOLUTION.items():
        _, first, last = REDUCTION[name]
        assert factors[0.0][2] == first
        assert factors[max(factors)][2] == last

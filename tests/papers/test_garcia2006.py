import numpy as np

from papers.garcia2006 import EVOLUTION, REDUCTION, last_round


def rounds(*validation):
    """Two folds whose accuracies on removed rows lie 0.02 about the given ones."""
    means = np.array([0.0, *validation])
    folds = np.stack([means - 0.01, means + 0.01])
    return np.stack([folds, folds, folds, folds], axis=2)


def test_the_rule_stops_where_accuracy_changes_by_more_than_its_deviation():
    assert last_round(rounds(0.99, 0.985, 0.95, 0.95)) == 3
    assert last_round(rounds(0.99, 0.985, 0.98, 0.975)) == 4  # never: the last round


def test_the_papers_tables_agree_with_each_other():
    for name, factors in EVOLUTION.items():
        _, first, last = REDUCTION[name]
        assert factors[0.0][2] == first
        assert factors[max(factors)][2] == last

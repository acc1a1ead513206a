import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernlet.compression.compress import ValidationData, has_class_weight
from kernlet.sklearn_base import label_codes


def validation_data(codes=None, weights=None, n_validation=10):
    original = np.zeros(40, dtype=int)
    validation = np.arange(40) < n_validation
    weights = np.ones(40) if weights is None else weights
    return ValidationData(np.zeros((40, 2)), original, codes, weights, validation, may_refit=True)


def test_rows_to_choose_by_and_to_judge_by_never_meet():
    to_choose, to_judge = validation_data().split_half()
    assert sorted([*to_choose, *to_judge]) == list(range(10))
    assert len(to_choose) == len(to_judge) == 5


def test_a_single_row_does_both():
    to_choose, to_judge = validation_data(n_validation=1).split_half()
    assert to_choose.tolist() == to_judge.tolist() == [0]


def test_the_target_is_y_or_else_the_original():
    codes = np.ones(40, dtype=int)
    assert validation_data(codes).target is codes
    assert validation_data().target.tolist() == [0] * 40


def test_scores_are_weighted():
    codes = np.arange(40) % 2
    weights = np.where(codes == 0, 3.0, 1.0)
    rows = np.arange(4)
    assert validation_data(codes, weights).score(np.zeros(4, dtype=int), rows) == 6 / 8


def test_a_perfect_score_on_few_rows_has_an_error_all_the_same():
    score, error = validation_data().original_score()
    assert score == 1.0
    assert 0.05 < error < 0.3


def test_labels_become_numbers_and_strangers_are_refused():
    classes = np.array(["asp", "lynx"])
    assert label_codes(classes, ["lynx", "asp", "lynx"]).tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="label 'newt', which the model does not know"):
        label_codes(classes, ["lynx", "newt"])


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (SVC(), False),
        (SVC(class_weight="balanced"), True),
        (make_pipeline(StandardScaler(), SVC(class_weight={0: 2})), True),
        ("line.model", False),
    ],
)
def test_class_weights_are_seen_through_pipelines(model, expected):
    assert has_class_weight(model) is expected

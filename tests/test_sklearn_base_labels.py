import numpy as np
import pytest
from sklearn.preprocessing import label_binarize
from sklearn.utils.class_weight import compute_sample_weight

from kernlet import ProximalClassifier
from kernlet.sklearn_base import check_cost_overflow, error_weights, one_vs_rest_signs

LABELS = {
    "two numbers": np.array([3, -1, 3, 3, -1]),
    "two strings": np.array(["spam", "ham", "spam", "spam", "ham"]),
    "three numbers": np.array([10, 2, 2, 7, 10, 7, 2]),
    "four strings": np.array(["d", "a", "c", "b", "a", "d"]),
    "booleans": np.array([True, False, True]),
}
every_label = pytest.mark.parametrize("y", LABELS.values(), ids=LABELS.keys())


@every_label
def test_signs_are_those_of_sklearn(y):
    classes = np.unique(y)
    expected = label_binarize(y, classes=classes, neg_label=-1, pos_label=1).T
    signs = one_vs_rest_signs(y, classes)
    assert signs.dtype == np.float64
    np.testing.assert_array_equal(signs, expected)


def test_two_classes_make_one_output_positive_for_the_second():
    signs = one_vs_rest_signs(np.array(["no", "yes", "no"]), np.array(["no", "yes"]))
    assert signs.tolist() == [[-1.0, 1.0, -1.0]]


@pytest.mark.parametrize("name", ["three numbers", "four strings"])
def test_every_row_is_positive_in_exactly_one_of_many_outputs(name):
    y = LABELS[name]
    classes = np.unique(y)
    signs = one_vs_rest_signs(y, classes)
    assert signs.shape == (len(classes), len(y))
    np.testing.assert_array_equal((signs > 0).sum(axis=0), 1)
    np.testing.assert_array_equal(classes[signs.argmax(axis=0)], y)


@every_label
def test_without_class_weights_errors_cost_C_times_the_row(y):
    rows = np.arange(1.0, len(y) + 1)
    np.testing.assert_allclose(error_weights(3.0, y, np.unique(y), None, rows), 3 * rows)


@every_label
def test_balanced_weights_are_those_of_sklearn(y):
    ours = error_weights(3.0, y, np.unique(y), "balanced", np.ones(len(y)))
    np.testing.assert_allclose(ours, 3 * compute_sample_weight("balanced", y))


@every_label
def test_named_weights_are_those_of_sklearn(y):
    classes = np.unique(y)
    by_class = {label: 1.5 + i for i, label in enumerate(classes.tolist())}
    rows = np.arange(len(y), dtype=float)
    ours = error_weights(2.0, y, classes, by_class, rows)
    np.testing.assert_allclose(ours, 2 * compute_sample_weight(by_class, y) * rows)


def test_class_left_out_of_named_weights_has_weight_one():
    y = np.array([0, 1, 1])
    weights = error_weights(1.0, y, np.unique(y), {1: 5.0}, np.ones(3))
    assert weights.tolist() == [1.0, 5.0, 5.0]


@every_label
def test_balanced_classes_cost_the_same_in_total(y):
    classes = np.unique(y)
    rows = np.random.default_rng(9).uniform(0.5, 2.0, size=len(y))
    weights = error_weights(3.0, y, classes, "balanced", rows)
    totals = [weights[y == label].sum() for label in classes]
    np.testing.assert_allclose(totals, 3 * rows.sum() / len(classes))


@pytest.mark.parametrize("class_weight", [None, "balanced", {10: 2.0, 2: 0.5, 7: 1.0}])
def test_row_of_weight_two_costs_as_much_as_two_rows(class_weight):
    y = LABELS["three numbers"]
    times = np.array([1, 2, 3, 1, 1, 2, 1])
    classes = np.unique(y)
    once = error_weights(1.0, y, classes, class_weight, times.astype(float))
    repeated = error_weights(1.0, np.repeat(y, times), classes, class_weight, np.ones(times.sum()))
    number = np.repeat(np.arange(len(y)), times)
    np.testing.assert_allclose(np.bincount(number, repeated), once)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 1.0}])
def test_sample_weight_is_left_alone(class_weight):
    y = np.array([0, 1, 1])
    rows = np.array([1.0, 2.0, 3.0])
    error_weights(2.0, y, np.unique(y), class_weight, rows)
    assert rows.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("class_weight", "rows"),
    [
        ({0: 1.0, 1: np.inf}, [1.0, 1.0]),
        ({0: 1.0, 1: -1.0}, [1.0, 1.0]),
        ({0: 0.0, 1: 0.0}, [1.0, 1.0]),
        ("balanced", [1.0, 0.0]),
    ],
)
def test_weights_that_cannot_be_costs_are_refused(class_weight, rows):
    y = np.array([0, 1])
    with pytest.raises(ValueError, match="finite, none negative and one positive"):
        error_weights(1.0, y, np.unique(y), class_weight, np.array(rows))


def test_costs_whose_squares_overflow_get_a_sentence():
    check_cost_overflow(np.full(3, 1e150))
    with pytest.raises(ValueError, match="Weights times C overflow"):
        check_cost_overflow(np.full(3, 1e160))


def test_labels_that_end_with_nul_are_not_merged():
    X = np.random.RandomState(0).randn(12, 2)
    labels = ["a", "a\0", "b"] * 4
    with pytest.raises(ValueError, match="ends with a NUL character, which NumPy would drop"):
        ProximalClassifier(landmarks=3, random_state=0).fit(X, labels)
    model = ProximalClassifier(landmarks=3, random_state=0).fit(X, np.array(labels, dtype=object))
    assert model.classes_.tolist() == ["a", "a\0", "b"]

"""Machines that learn block by block."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits

from kernlet import CompactKernelClassifier, ProximalClassifier, load, save, to_c
from kernlet.compact import stream as stream_module
from kernlet.compact.stream import StreamRows
from naive import replaced_in_turn

DIGITS, LABELS = load_digits(return_X_y=True)
SPLIT = 1200
CLASSES = np.arange(10)


def learn(machine, X=DIGITS[:SPLIT], y=LABELS[:SPLIT], size=200, classes=CLASSES, weights=None):
    """The machine after all rows, in blocks."""
    for first in range(0, len(y), size):
        part = slice(first, first + size)
        weight = None if weights is None else weights[part]
        machine.partial_fit(X[part], y[part], classes, weight)
    return machine


def machine(n_centers=20, **parameters):
    return CompactKernelClassifier(n_centers, random_state=0, **parameters)


def score(fitted, X=DIGITS[SPLIT:], y=LABELS[SPLIT:]):
    return fitted.score(X, y)


# -- What is learned -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("storage", "loss"), [("float32", 0.02), ("int8", 0.02), ("int4", 0.05), ("float16", 0.02)]
)
def test_blocks_are_nearly_as_good_as_one_fit(storage, loss):
    whole = machine(storage=storage).fit(DIGITS[:SPLIT], LABELS[:SPLIT])
    learned = learn(machine(storage=storage))
    assert learned.n_centers_ == 20
    assert learned.nbytes_ == whole.nbytes_
    assert score(learned) > score(whole) - loss
    assert score(learned) > 0.87


@pytest.mark.parametrize(("size", "n_rows"), [(1, 100), (7, 400), (600, SPLIT)])
def test_blocks_of_any_size(size, n_rows):
    learned = learn(machine(), DIGITS[:n_rows], LABELS[:n_rows], size)
    assert learned.n_centers_ == 20
    assert score(learned) > (0.6 if n_rows == 100 else 0.8)


def test_it_recovers_after_the_labels_are_swapped():
    X, y = np.tile(DIGITS[:SPLIT], (2, 1)), np.tile(LABELS[:SPLIT], 2)
    swapped = np.where(np.arange(len(y)) < SPLIT, y, 9 - y)
    static = machine().fit(X[:SPLIT], y[:SPLIT])
    adapted = learn(machine(), X, swapped)
    assert score(static, y=9 - LABELS[SPLIT:]) < 0.1
    assert score(adapted, y=9 - LABELS[SPLIT:]) > 0.88


@pytest.mark.parametrize("storage", ["float32", "int4"])
def test_it_follows_inputs_that_jump_far_away(storage):
    learned = learn(machine(storage=storage))
    jumped = DIGITS + 300.0
    assert score(learned, jumped[SPLIT:]) < 0.3
    learn(learned, jumped[:SPLIT])
    assert score(learned, jumped[SPLIT:]) > 0.85


def test_idle_centers_move_where_a_cluster_appears():
    """Of two clusters, split each by its first column, one moves far away after the fit."""
    random = np.random.RandomState(0)
    inside, is_second = random.randn(2000, 2), random.rand(2000) < 0.5
    y = (inside[:, 0] > 0).astype(int)
    before, after = (inside + np.where(is_second, place, 0.0)[:, None] for place in (20.0, -60.0))
    fitted = machine(10).fit(before, y)
    assert fitted.score(after[is_second], y[is_second]) < 0.7
    for _ in range(2):
        learn(fitted, after, y, classes=[0, 1])
    assert fitted.score(after, y) > 0.95


@pytest.mark.parametrize("returns", [False, True])
def test_a_jump_after_the_first_block_is_followed(returns):
    """No row was predicted before the jump, and those in the memory keep their centers."""
    X = np.random.RandomState(0).randn(900, 4)
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)
    learned = machine(10, scale=False).partial_fit(X[:300], y[:300], [0, 1])
    for number in range(4):
        place = 0.0 if returns and number % 2 else 30.0
        learned.partial_fit(X[300:600] + place, y[300:600])
    assert learned.score(X[600:] + 30.0, y[600:]) > 0.75
    assert learned.score(X[600:], y[600:]) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        {"projection": 6},
        {"width": "per_feature"},
        {"width": "per_center", "kernel": "rational_quadratic", "storage": "int4"},
        {"n_steps": 4},
        {"classes_per_center": 3},
        {"loss": "squared_hinge"},
        {"block_means": True},
        {"augment": "affine"},
        {"init": DIGITS[:25]},
        {"scale": True},
    ],
    ids=str,
)
def test_all_shapes(parameters):
    learned = learn(machine(25, **parameters))
    assert score(learned) > 0.8
    assert learned.n_centers_ == 25
    continued = learn(learned.fit(DIGITS[:600], LABELS[:600]), DIGITS[600:SPLIT], LABELS[600:SPLIT])
    assert score(continued) > 0.8
    assert continued.n_centers_ == 25


def test_calls_after_fit_continue_it():
    fitted = machine(storage="int8", n_epochs=20).fit(DIGITS[:600], LABELS[:600])
    n_bytes, n_epochs, temperature = fitted.nbytes_, fitted.n_iter_, fitted.temperature_
    before = score(fitted)
    fitted.partial_fit(DIGITS[600:610], LABELS[600:610])
    assert fitted.temperature_ == temperature  # ten rows are too few for another
    learn(fitted, DIGITS[610:SPLIT], LABELS[610:SPLIT], classes=None)
    assert fitted.nbytes_ == n_bytes
    assert fitted.n_iter_ > n_epochs
    assert score(fitted) > before - 0.01


def test_fit_begins_again():
    fitted = machine(n_epochs=5).fit(DIGITS[:300], LABELS[:300])
    again = learn(machine(n_epochs=5)).fit(DIGITS[:300], LABELS[:300])
    assert_array_equal(again.decision_function(DIGITS), fitted.decision_function(DIGITS))
    one, two = (m.partial_fit(DIGITS[300:600], LABELS[300:600]) for m in (fitted, again))
    assert_array_equal(one.decision_function(DIGITS), two.decision_function(DIGITS))


def test_warm_start_continues_a_stream_with_a_fit():
    learned = learn(machine(warm_start=True, n_epochs=5))
    assert learned.fit(DIGITS[:SPLIT], LABELS[:SPLIT]).n_centers_ == 20
    assert score(learned) > 0.88


# -- Missing values --------------------------------------------------------------------------


def with_holes(X, share=0.1):
    holes = np.random.RandomState(0).rand(*X.shape) < share
    return np.where(holes, np.nan, X)


HOLES = with_holes(DIGITS)


@pytest.mark.parametrize(
    ("missing", "stored"), [("median", "median"), ("distance", "distance"), ("auto", "median")]
)
@pytest.mark.parametrize("first", [HOLES, DIGITS], ids=["holes", "none"])
def test_streams_with_missing_values(missing, stored, first, tmp_path):
    learned = machine(missing=missing).partial_fit(first[:400], LABELS[:400], CLASSES)
    learn(learned, HOLES[400:SPLIT], LABELS[400:SPLIT])
    assert learned.expansion_.missing == stored
    assert learned.nbytes_ == learned._stream.machine.plan.nbytes
    assert score(learned, HOLES[SPLIT:]) > 0.8
    save(learned, tmp_path / "m.kernlet")
    assert_array_equal(load(tmp_path / "m.kernlet").predict(HOLES), learned.predict(HOLES))


def test_the_medians_of_a_fit_stay():
    fitted = machine(missing="median", n_epochs=20).fit(HOLES[:600], LABELS[:600])
    fill, n_bytes = fitted.expansion_.fill.decoded(), fitted.nbytes_
    fitted.partial_fit(DIGITS[600:800], LABELS[600:800])
    fitted.partial_fit(HOLES[800:SPLIT], LABELS[800:SPLIT])
    assert_array_equal(fitted.expansion_.fill.decoded(), fill)
    assert fitted.nbytes_ == n_bytes
    assert score(fitted, HOLES[SPLIT:]) > 0.8


def test_missing_values_that_a_fitted_machine_does_not_take():
    fitted = machine(missing="auto", n_epochs=2).fit(DIGITS[:300], LABELS[:300])
    with pytest.raises(ValueError, match="takes no missing values"):
        fitted.partial_fit(HOLES[300:600], LABELS[300:600])
    images = machine(missing="median", augment="shift", n_epochs=2)
    images.partial_fit(DIGITS[:300], LABELS[:300], CLASSES)
    with pytest.raises(ValueError, match="augment='shift'"):
        images.partial_fit(HOLES[300:600], LABELS[300:600])


def test_idle_centers_have_no_missing_features():
    learned = learn(machine(missing="distance"), HOLES[:400], LABELS[:400])
    learn(learned, HOLES[:400] + 300.0, LABELS[:400])
    assert np.isfinite(learned.expansion_.centers).all()
    assert np.isfinite(learned.decision_function(HOLES)).all()


@pytest.mark.parametrize("missing", ["median", "distance"])
def test_large_numbers_beside_missing_ones_are_refused(missing):
    learned = machine(missing=missing).partial_fit(DIGITS[:300], LABELS[:300], CLASSES)
    wild = DIGITS[:2].copy()
    wild[0, 0], wild[1, 0] = np.nan, 1e300
    with pytest.raises(ValueError, match="float32"):
        learned.partial_fit(wild, LABELS[:2])


# -- The size --------------------------------------------------------------------------------


def test_the_default_is_fifty_centers_and_a_budget_is_filled():
    assert learn(CompactKernelClassifier(random_state=0)).n_centers_ == 50
    budget = learn(CompactKernelClassifier(max_bytes="1k", random_state=0))
    assert budget.expansion_.storage["centers"] == "int8"
    assert 900 < budget.nbytes_ <= 1000
    few = learn(CompactKernelClassifier(max_bytes="1k", max_centers=5, random_state=0))
    assert few.n_centers_ == 5


def test_a_short_stream_has_fewer_centers_until_there_are_rows():
    learned = machine(50).partial_fit(DIGITS[:30], LABELS[:30], CLASSES)
    assert learned.n_centers_ == 30
    assert learned.partial_fit(DIGITS[30:90], LABELS[30:90]).n_centers_ == 50


def test_rows_may_lack_classes_for_ever():
    one = machine().partial_fit(DIGITS[LABELS == 3], LABELS[LABELS == 3], CLASSES)
    assert set(one.predict(DIGITS)) == {3}
    learned = learn(machine(), DIGITS, LABELS % 5)
    assert set(learned.predict(DIGITS)) <= set(range(5))
    two = machine().partial_fit(DIGITS[:1], [True], [False, True])
    assert two.predict(DIGITS[:1]).tolist() == [True]


# -- The same every time ---------------------------------------------------------------------


def test_the_same_seed_gives_the_same_machine_and_pickles_continue():
    first, second = learn(machine()), learn(machine())
    assert_array_equal(first.decision_function(DIGITS), second.decision_function(DIGITS))
    continued = pickle.loads(pickle.dumps(first))
    for each in (first, continued):
        learn(each, DIGITS[SPLIT:], LABELS[SPLIT:])
    assert_array_equal(first.decision_function(DIGITS), continued.decision_function(DIGITS))
    assert first.temperature_ == continued.temperature_
    assert not hasattr(clone(first), "expansion_")


@pytest.mark.parametrize("container", [sparse.csr_array, lambda X: X.astype(np.float32)])
def test_other_containers_give_the_same_machine(container):
    plain = learn(machine())
    other = learn(machine(), container(DIGITS[:SPLIT]))
    np.testing.assert_allclose(
        other.decision_function(DIGITS), plain.decision_function(DIGITS), atol=1e-3
    )


def test_a_refused_block_changes_nothing():
    learned, again = learn(machine()), learn(machine())
    for X, y, classes in (
        (DIGITS[:9], np.full(9, 10), None),
        (DIGITS[:9, :5], LABELS[:9], None),
        (DIGITS[:9], LABELS[:9], range(11)),
        (np.full((9, 64), np.nan), LABELS[:9], None),
        (np.full((9, 64), 1e39), LABELS[:9], None),
    ):
        with pytest.raises(ValueError, match=r"know|features|classes|NaN|float32"):
            learned.partial_fit(X, y, classes)
    for each in (learned, again):
        each.partial_fit(DIGITS[SPLIT:], LABELS[SPLIT:])
    assert_array_equal(learned.decision_function(DIGITS), again.decision_function(DIGITS))


@pytest.mark.parametrize(
    ("classes", "parameters", "message"),
    [
        (None, {}, r"needs classes.*give classes="),
        ([3], {}, "fewer than two"),
        (range(9), {}, "does not know"),
        (CLASSES, {"max_bytes": 10, "n_centers": "auto"}, "too little"),
        (CLASSES, {"memory_size": 0}, "memory_size"),
        (CLASSES, {"class_weight": dict.fromkeys(range(10), 0.0)}, "class_weight"),
    ],
)
def test_first_calls_that_make_no_sense(classes, parameters, message):
    estimator = CompactKernelClassifier(**{"n_centers": 5, **parameters})
    with pytest.raises(ValueError, match=message):
        estimator.partial_fit(DIGITS, LABELS, classes)
    assert not hasattr(estimator, "classes_")


def test_numbers_far_beyond_the_first_block_do_no_harm():
    learned = learn(machine())
    wild = DIGITS[:20].copy()
    wild[0] = 1e25
    learned.partial_fit(wild, LABELS[:20])
    learn(learned)
    assert score(learned) > 0.88


# -- Weights ---------------------------------------------------------------------------------


def test_rows_of_weight_zero_are_not_there():
    weights = np.arange(SPLIT) % 3 > 0
    with_them = learn(machine(), weights=weights.astype(float))
    for first in range(0, SPLIT, 200):
        part = np.arange(first, first + 200)[weights[first : first + 200]]
        if first == 0:
            without = machine().partial_fit(DIGITS[part], LABELS[part], CLASSES)
        else:
            without.partial_fit(DIGITS[part], LABELS[part])
    assert_array_equal(with_them.decision_function(DIGITS), without.decision_function(DIGITS))
    before = with_them.decision_function(DIGITS)
    with_them.partial_fit(DIGITS[:5], LABELS[:5], sample_weight=np.zeros(5))
    assert_array_equal(with_them.decision_function(DIGITS), before)


def noisy(n_rows=2000):
    random = np.random.RandomState(0)
    X = random.randn(n_rows, 2)
    return X, (X[:, 0] + random.randn(n_rows) > 1.5).astype(int)


def test_a_heavier_class_is_predicted_more_often():
    X, y = noisy()
    shares = [
        learn(machine(5), X, y, classes=[0, 1], weights=np.where(y, weight, 1.0)).predict(X).mean()
        for weight in (0.3, 1.0, 5.0)
    ]
    assert shares[0] < shares[1] < shares[2]


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 5.0}])
def test_class_weights(class_weight):
    X, y = noisy()
    plain, weighted = machine(5), machine(5, class_weight=class_weight)
    shares = [learn(m, X, y, classes=[0, 1]).predict(X).mean() for m in (plain, weighted)]
    assert shares[0] + 0.05 < shares[1]


# -- Attributes ------------------------------------------------------------------------------


def test_score_and_temperature_are_those_of_rows_not_learned_yet():
    learned = machine(keep_history=True).partial_fit(DIGITS[:200], LABELS[:200], CLASSES)
    assert np.isnan(learned.validation_score_)
    assert learned.temperature_ == 1.0
    X, y = DIGITS[200:400], LABELS[200:400]
    expected = learned.score(X, y)
    learned.partial_fit(X, y)
    assert learned.validation_score_ == pytest.approx(expected)
    assert learned.temperature_ != 1.0
    assert len(learned.history_) == learned.n_iter_ > 30
    assert learned.history_[-1]["score"] == learned.validation_score_
    assert "stream of 400 rows" in learned.choice_
    assert learned.path_ == ()
    probabilities = learned.predict_proba(DIGITS)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_what_was_learned_is_exported(tmp_path):
    learned = learn(machine(storage="int8"))
    save(learned, tmp_path / "m.kernlet")
    assert_array_equal(load(tmp_path / "m.kernlet").predict(DIGITS), learned.predict(DIGITS))
    to_c(learned, tmp_path)


# -- The memory ------------------------------------------------------------------------------


def rows(n_rows, first=0, outputs=None):
    numbers = np.arange(first, first + n_rows)
    outputs = np.full((n_rows, 1), np.nan) if outputs is None else outputs
    return StreamRows(numbers[:, None] * 1.0, numbers % 2, np.ones(n_rows), outputs, numbers)


@settings(max_examples=60, deadline=None)
@given(
    blocks=st.lists(st.integers(0, 30), max_size=8),
    size=st.integers(1, 25),
    seed=st.integers(0, 1000),
)
def test_rows_replace_others_as_if_they_came_one_by_one(blocks, size, seed):
    memory, slow, n_seen = rows(0), [], 0
    for number, n_rows in enumerate(blocks):
        block = rows(n_rows, n_seen)
        n_seen += n_rows
        seeds = [np.random.RandomState(seed + number) for _ in range(2)]
        memory = memory.with_block(block, size, seeds[0])
        n_free = max(0, size - len(slow))
        places = seeds[1].randint(
            max(1, min(size, len(slow) + n_rows)), size=max(0, n_rows - n_free)
        )
        slow = replaced_in_turn(slow, block.arrivals.tolist(), size, places)
    assert memory.arrivals.tolist() == slow
    assert len(memory) == min(size, n_seen)
    assert_array_equal(memory.X[:, 0], memory.arrivals)
    assert_array_equal(memory.codes, memory.arrivals % 2)


def test_the_mean_age_is_the_size():
    memory, random = rows(0), np.random.RandomState(0)
    for first in range(0, 20_000, 100):
        memory = memory.with_block(rows(100, first), 1000, random)
    assert 850 < np.mean(20_000 - memory.arrivals) < 1150
    assert len(memory.with_block(rows(10, 20_000), 50, random)) == 50


def test_wide_rows_are_fewer(monkeypatch):
    monkeypatch.setattr(stream_module, "_MEMORY_NUMBERS", 64 * 100)
    assert len(learn(machine())._stream.memory) == 100


@pytest.mark.parametrize(("n_wrong", "is_drift"), [(20, False), (60, False), (150, True)])
def test_abrupt_drift_is_noticed(n_wrong, is_drift):
    """1,000 rows with 100 errors, then 200 with more of them."""

    def outputs(n_rows, first, errors):
        right = (np.arange(first, first + n_rows) % 2) * 2.0 - 1.0
        return np.where(np.arange(n_rows) < errors, -right, right)[:, None]

    memory = rows(1000, 0, outputs(1000, 0, 100))
    left = memory.without_old_concept(rows(200, 1000, outputs(200, 1000, n_wrong)))
    assert len(left) == (0 if is_drift else 1000)


@pytest.mark.slow
def test_a_smaller_memory_follows_gradual_drift_faster():
    random = np.random.RandomState(0)
    X, angles = random.randn(6000, 2), np.linspace(0, 6 * np.pi, 6000)
    y = (np.cos(angles) * X[:, 0] + np.sin(angles) * X[:, 1] > 0).astype(int)
    accuracy = {}
    for size in (100, 4000):
        learned, hits = machine(8, memory_size=size), []
        for first in range(0, 6000, 100):
            part = slice(first, first + 100)
            if first:
                hits.append(learned.score(X[part], y[part]))
            learned.partial_fit(X[part], y[part], [0, 1])
        accuracy[size] = np.mean(hits)
    exact = ProximalClassifier(kernel="linear").fit(X, y).score(X, y)
    assert accuracy[100] > max(accuracy[4000] + 0.05, exact + 0.2)

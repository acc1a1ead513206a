"""Candidates within a number of bytes, and the choice among them with made-up scores."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernlet import CompactKernelClassifier
from kernlet.compact import machine as machine_module
from kernlet.compact import search
from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.compact.scoring import Validation
from kernlet.compact.search import (
    Space,
    choose_by_folds,
    choose_held_out,
    choose_size,
    largest_within,
    layouts,
    pack_path,
    small_candidates,
    unpack_path,
)
from kernlet.compact.trainer import PathPoint, Trial
from kernlet.quantization import FORMATS

# -- Plans -----------------------------------------------------------------------------------

formats = st.tuples(*[st.sampled_from(sorted(FORMATS))] * 3)
sizes = st.integers(1, 40)
widths = st.sampled_from(["shared", "per_center"])
budgets = st.integers(1, 20_000)


@st.composite
def plans(draw):
    n_features = draw(sizes)
    rank = draw(st.none() | st.integers(1, n_features))
    return StoragePlan(
        n_features,
        draw(st.integers(1, 12)),
        draw(sizes),
        rank,
        draw(formats),
        draw(widths),
        draw(st.sampled_from([4, 8])),
    )


@given(plan=plans())
def test_another_center_never_takes_fewer_bytes(plan):
    assert replace(plan, n_centers=plan.n_centers + 1).nbytes >= plan.nbytes


@given(plan=plans(), max_bytes=budgets, most=st.integers(1, 500))
def test_filling_takes_the_most_centers_that_fit(plan, max_bytes, most):
    filled = largest_within(plan, max_bytes, most)
    if filled is None:
        assert replace(plan, n_centers=1).nbytes > max_bytes
        return
    assert filled == replace(plan, n_centers=filled.n_centers)
    assert 1 <= filled.n_centers <= most
    assert filled.nbytes <= max_bytes
    if filled.n_centers < most:
        assert replace(filled, n_centers=filled.n_centers + 1).nbytes > max_bytes


spaces = st.builds(
    Space,
    plan=st.builds(StoragePlan, st.integers(1, 300), st.integers(1, 20), st.just(1), width=widths),
    noise=st.sampled_from([0.0, 0.1]),
    n_rows=st.integers(2, 5000),
    max_centers=st.integers(1, 500),
    max_bytes=budgets,
    storage=st.sampled_from([*STORAGE, "auto"]),
    projection=st.none() | st.just("auto"),
)


@given(space=spaces, make=st.sampled_from([small_candidates, layouts]))
def test_candidates_fit_and_differ(space, make):
    candidates = make(space)
    plans = [candidate.plan for candidate in candidates]
    assert all(plan.nbytes <= space.max_bytes for plan in plans)
    assert all(1 <= plan.n_centers <= space.max_centers for plan in plans)
    assert all(plan.rank is None or plan.rank <= plan.n_features for plan in plans)
    assert len(set(candidates)) == len(candidates)
    assert {candidate.noise for candidate in candidates} <= {space.noise, 3 * space.noise}
    if space.projection is None:
        assert {plan.rank for plan in plans} <= {None}
    if space.storage != "auto":
        assert {plan.formats for plan in plans} <= {STORAGE[space.storage]}
    smallest = replace(space.plan, formats=STORAGE["int4"])
    if space.storage == "auto" and smallest.nbytes <= space.max_bytes:
        assert candidates


def space_of(n_features=8, n_outputs=1, n_rows=500, max_bytes=1000, **options):
    plan = StoragePlan(n_features, n_outputs, 1)
    return Space(plan, 0.1, n_rows, options.pop("max_centers", n_rows), max_bytes, **options)


def sizes_of(candidates, rank=None):
    return sorted({c.plan.n_centers for c in candidates if c.plan.rank == rank})


def test_sizes_double_up_to_what_fits():
    sizes = sizes_of(small_candidates(space_of()))
    assert sizes[:-1] == [2, 4, 8, 16, 32, 64]  # 128 is too near
    assert sizes[-1] == 125  # a quarter of the rows
    filled = sizes_of(small_candidates(space_of(max_bytes=200)))[-1]
    plan = StoragePlan(8, 1, filled, formats=STORAGE["int4"])
    assert plan.nbytes <= 200 < replace(plan, n_centers=filled + 1).nbytes


def test_small_sizes_have_eight_bits_and_those_that_do_not_fit_four():
    candidates = small_candidates(space_of(max_bytes=200))
    for candidate in candidates:
        plan = candidate.plan
        wide = replace(plan, formats=STORAGE["int8"])
        assert plan.formats[0] == ("int8" if wide.nbytes <= 200 else "int4")
    assert {c.plan.formats[0] for c in candidates} == {"int8", "int4"}


def test_a_larger_budget_has_every_size_of_a_smaller_one():
    small, large = (small_candidates(space_of(max_bytes=b)) for b in (256, 1024))
    assert set(sizes_of(small)[:-1]) <= set(sizes_of(large))


def test_few_rows_try_ranks_noises_and_the_same_without_a_budget():
    candidates = small_candidates(space_of(20, max_bytes=None))
    assert {c.plan.rank for c in candidates} == {None, 8, 16}
    assert sorted({c.noise for c in candidates}) == [0.1, pytest.approx(0.3)]
    assert {c.plan.formats for c in candidates} == {STORAGE["float32"]}
    assert {c.plan.rank for c in small_candidates(space_of(5))} == {None}
    assert sizes_of(small_candidates(space_of(n_rows=1900, max_bytes=None)))[-1] == 128


@pytest.mark.parametrize("make", [small_candidates, layouts])
def test_given_numbers_are_the_only_ones(make):
    candidates = make(space_of(64, 10, max_bytes=4000, projection=7, n_centers=12))
    assert {(c.plan.rank, c.plan.n_centers) for c in candidates} == {(7, 12)}
    assert sizes_of(make(space_of(max_centers=5)))[-1] == 5
    assert not make(space_of(max_bytes=100, n_centers=500, max_centers=500))


def test_many_rows_try_no_projection_and_three_ranks_that_fill_the_bytes():
    candidates = layouts(space_of(64, 10, 10_000, 4000))
    assert [c.plan.rank is None for c in candidates] == [True, False, False, False]
    for candidate in candidates:
        more = replace(candidate.plan, n_centers=candidate.plan.n_centers + 1)
        assert candidate.plan.nbytes <= 4000 < more.nbytes
    assert 6 in {c.plan.rank for c in layouts(space_of(6, 2, 10_000, 2000))}


@pytest.mark.parametrize(
    ("storage", "names"),
    [
        ("float32", []),
        ("float16", []),
        ("int8", []),
        ("int4", ["centers", "weights", "projection"]),
    ],
)
def test_only_tables_of_few_bits_are_rounded_in_training(storage, names):
    plan = StoragePlan(8, 2, 5, 3, STORAGE[storage])
    assert list(plan.levels) == names
    assert list(replace(plan, rank=None).levels) == names[:2]


def test_a_plan_describes_itself():
    plain = StoragePlan(8, 2, 5, None, STORAGE["int8"])
    assert plain.describe() == "5 centers (int8), coefficients (int8), no projection"
    assert replace(plain, rank=3).describe().endswith("projection to 3 (int8)")


# -- Choices ---------------------------------------------------------------------------------

ROWS = 40
SPLITS = [(np.arange(0), np.arange(fold, ROWS, 5)) for fold in range(5)]


class MadeUp(Validation):
    """The outputs are the values of rows."""

    usual_score = "goodness"
    usual_loss = "badness"

    def row_scores(self, outputs, rows):
        return np.zeros(len(rows))

    def row_losses(self, outputs, rows):
        return -outputs[:, 0]

    def predictions(self, outputs, rows):
        raise NotImplementedError


VALIDATION = MadeUp(None, np.ones(ROWS))


def outputs_of(value, rows, spread=0.0):
    """Values of rows about a mean; ``spread`` is what candidates do not share."""
    return (value + spread * np.where(np.arange(len(rows)) % 2, 1.0, -1.0))[:, None]


class FakeFolds:
    """Values are made up; what was asked for is written down."""

    def __init__(self, value, spread=lambda candidate: 0.0):
        self.value, self.spread, self.calls = value, spread, []

    def __call__(self, candidates, folds, epochs):
        self.calls.append((list(candidates), list(folds), epochs))
        return [
            [outputs_of(self.value(c, epochs), SPLITS[fold][1], self.spread(c)) for fold in folds]
            for c in candidates
        ]


def best_at(n_centers):
    return lambda candidate, epochs: -abs(np.log2(candidate.plan.n_centers / n_centers)) + epochs


def by_folds(value, space=None, spread=lambda candidate: 0.0):
    space = space or space_of()
    run = FakeFolds(value, spread)
    candidates = small_candidates(space)
    return run, candidates, choose_by_folds(run, candidates, VALIDATION, SPLITS, space.max_bytes)


def test_halving_goes_from_two_folds_to_all_and_to_all_epochs():
    run, candidates, choice = by_folds(best_at(8))
    (first, folds_1, epochs_1), (second, folds_2, epochs_2), (third, folds_3, epochs_3) = run.calls
    assert (folds_1, folds_2, folds_3) == ([0, 1], [2, 3, 4], [0, 1, 2, 3, 4])
    assert (epochs_1, epochs_2, epochs_3) == (0.25, 0.25, 1.0)
    assert first == candidates
    assert len(second) == round(len(candidates) / 3)
    assert len(third) == 3
    assert choice.candidate.plan.n_centers == 8
    assert choice.candidate.plan.rank is None  # of equal ones the smaller
    assert sorted(choice.rows) == list(range(ROWS))
    assert len(choice.outputs) == ROWS


def test_within_a_budget_the_best_is_taken_and_without_one_the_smallest_near_it():
    def noisy(candidate):
        return 0.5 if candidate.plan.n_centers < 8 else 0.0

    for max_bytes, expected in ((1000, 8), (None, 4)):
        value = lambda c, epochs: -0.05 * abs(np.log2(c.plan.n_centers / 8))  # noqa: E731
        _, _, choice = by_folds(value, space_of(max_bytes=max_bytes), noisy)
        assert choice.candidate.plan.n_centers == expected
        rule = "the least badness of" if max_bytes else "within one standard error of the least"
        assert rule in choice.sentence


def test_few_candidates_are_all_tried_in_full():
    run, candidates, choice = by_folds(best_at(8), space_of(projection=None, n_centers=8))
    assert [call[2] for call in run.calls] == [1.0]
    assert len(choice.path) == len(candidates) == 2
    assert all(point.is_full for point in choice.path)


def test_a_candidate_that_diverges_is_not_chosen():
    def value(candidate, epochs):
        return np.nan if candidate.plan.n_centers == 8 else best_at(8)(candidate, epochs)

    for max_bytes in (1000, None):
        _, _, choice = by_folds(value, space_of(max_bytes=max_bytes))
        assert choice.candidate.plan.n_centers in (4, 16)


def test_the_path_has_what_all_folds_have_seen():
    run, _, choice = by_folds(best_at(8))
    assert len(choice.path) == len(run.calls[1][0])
    assert sum(point.is_full for point in choice.path) == 3
    assert f"{choice.candidate.plan.nbytes} of 1000 bytes" in choice.sentence


class FakeTrials:
    def __init__(self, value):
        self.value, self.calls = value, []

    def __call__(self, candidates, epochs):
        self.calls += [(candidate, epochs) for candidate in candidates]
        return [
            Trial(
                c, None, None, outputs_of(self.value(c, epochs), range(ROWS)), np.arange(ROWS), ()
            )
            for c in candidates
        ]


def walk(values, n_features=5, **options):
    run = FakeTrials(lambda candidate, epochs: values[candidate.plan.n_centers])
    space = space_of(n_features, 1, 10_000, None, **options)
    return run, choose_size(run, space, VALIDATION)


def test_sizes_double_until_two_are_no_better():
    values = {2: 0.1, 4: 0.2, 8: 0.3, 16: 0.5, 32: 0.9, 64: 0.9, 128: 0.8, 256: 0.7}
    run, choice = walk(values)
    assert [c.plan.n_centers for c, _ in run.calls] == [2, 4, 8, 16, 32, 64, 128, 256]
    assert choice.candidate.plan.n_centers == 32
    values |= {16: 0.95}
    run, choice = walk(values)
    assert [c.plan.n_centers for c, _ in run.calls] == [2, 4, 8, 16, 32, 64]
    assert choice.candidate.plan.n_centers == 16
    assert "of 6 candidates on 40 held-out rows" in choice.sentence


def test_every_size_is_tried_behind_a_projection_too():
    run, _ = walk(dict.fromkeys((2, 4, 8, 16, 32, 64), 0.5), n_features=10)
    assert [(c.plan.n_centers, c.plan.rank) for c, _ in run.calls[:4]] == [
        (2, None),
        (2, 8),
        (4, None),
        (4, 8),
    ]


def test_a_score_that_still_rises_at_the_end_is_warned_about():
    values = {2**k: k for k in range(1, 9)}
    with pytest.warns(UserWarning, match="does not compress.*at 256 centers"):
        _, choice = walk(values)
    assert choice.candidate.plan.n_centers == 256
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        walk(values, max_centers=64)  # the user's limit


def spend(value, max_bytes=2000, **options):
    run = FakeTrials(value)
    space = space_of(64, 10, 10_000, max_bytes, **options)
    return run, choose_held_out(run, space, VALIDATION)


def made_up(candidate, epochs):
    """A rank near 24 is best, more noise is better, and longer is better."""
    rank = 64 if candidate.plan.rank is None else candidate.plan.rank
    return 0.8 - abs(rank - 24) / 1000 + 0.1 * candidate.noise + 0.05 * epochs


@pytest.mark.parametrize("max_bytes", [300, 1000, 2000, 10_000])
def test_many_rows_cost_at_most_four_fits_within_the_bytes(max_bytes):
    run, choice = spend(made_up, max_bytes)
    assert all(candidate.plan.nbytes <= max_bytes for candidate, _ in run.calls)
    largest = max(candidate.plan.n_centers for candidate, _ in run.calls)
    costs = [epochs * min(1, c.plan.n_centers / largest) for c, epochs in run.calls]
    assert sum(costs) < 4.25
    assert f"{choice.candidate.plan.nbytes} of {max_bytes} bytes" in choice.sentence
    assert [point.is_full for point in choice.path] == [epochs == 1.0 for _, epochs in run.calls]


def test_the_best_layout_is_varied_and_the_best_of_two_full_trials_wins():
    run, choice = spend(made_up)
    short = [candidate for candidate, epochs in run.calls if epochs < 1]
    full = [candidate for candidate, epochs in run.calls if epochs == 1]
    best = min((c for c in short[:4]), key=lambda c: abs((c.plan.rank or 64) - 24))
    noise, *fewer = short[4:]
    assert noise == replace(best, noise=pytest.approx(0.3))
    sizes = [best.plan.n_centers // divisor for divisor in (2, 4, 8, 16)]
    assert [c.plan.n_centers for c in fewer] == [size for size in sizes if size >= 10]
    assert {c.plan.formats[:2] for c in fewer} == {("int8", "int8")}
    assert len(full) == 2
    assert choice.candidate == noise
    assert choice.trial is not None


def test_a_short_trial_that_shone_does_not_win_by_itself():
    def value(candidate, epochs):
        return 0.99 if candidate.plan.rank is None and epochs < 1 else made_up(candidate, epochs)

    run, choice = spend(value)
    assert choice.score.value != 0.99
    assert choice.candidate in [candidate for candidate, epochs in run.calls if epochs == 1]


def test_no_more_centers_than_allowed():
    run, _ = spend(made_up, max_bytes=10_000, max_centers=12)
    assert {candidate.plan.n_centers for candidate, _ in run.calls} == {12}


@pytest.mark.parametrize("storage", ["auto", "float32"])
def test_too_few_bytes_are_refused(storage):
    with pytest.raises(ValueError, match="max_bytes=50 is too little for 64 features and 10 out"):
        spend(made_up, max_bytes=50, storage=storage)
    with pytest.raises(ValueError, match=r"500 centers take .* fewer centers"):
        spend(made_up, max_bytes=2000, storage=storage, n_centers=500)


def test_a_path_is_packed_into_an_array_and_back():
    path = (
        PathPoint(7, 1234, 0.98765, 0.0123, 8, ("int4", "int4", "ternary"), True, 0.3),
        PathPoint(2, 42, 0.5, 0.25, None, ("float32", "float32"), False, 0.02),
    )
    packed = pack_path(path)
    assert packed.nbytes < 100
    assert unpack_path(packed) == path
    assert search.unpack_path(pack_path([])) == ()


def test_many_features_or_classes_are_not_cross_validated(monkeypatch):
    # 995 classes of two rows took a quarter of an hour, and 1,000 such classes ten seconds.
    rows = np.random.default_rng(0).normal(size=(40, 2))
    labels = np.arange(40) % 20
    machine = CompactKernelClassifier(n_epochs=1, random_state=0)
    with pytest.warns(UserWarning, match="20 of 20 classes have fewer than 5 rows"):
        assert "with 5 folds" in machine.fit(rows, labels).choice_
    monkeypatch.setattr(machine_module, "_MOST_FOLD_WORK", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        machine.fit(rows, labels)
    assert "on 8 held-out rows" in machine.choice_
    assert np.isfinite(machine.validation_score_)

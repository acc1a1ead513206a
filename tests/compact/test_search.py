"""Candidates within a number of bytes, and the choice among them with made-up scores."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernlet import CompactKernelClassifier
from kernlet.compact import machine as machine_module
from kernlet.compact.path import PathPoint, pack_path, unpack_path
from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.compact.scoring import Validation
from kernlet.compact.search import (
    EFFORTS,
    choose_by_folds,
    choose_held_out,
    choose_size,
)
from kernlet.compact.space import (
    NOISE_FACTORS,
    SMOOTHINGS,
    Space,
    fair_ranks,
    first_candidates,
    largest_within,
    layouts,
    most_trials,
    small_candidates,
    small_shapes,
    smoothings,
    stages,
    with_other_ranks,
)
from kernlet.compact.trainer import Trial
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


open_or = lambda *values: st.sampled_from(["auto", *values])  # noqa: E731
spaces = st.builds(
    Space,
    plan=st.builds(StoragePlan, st.integers(1, 300), st.integers(1, 20), st.just(1)),
    noise=st.sampled_from([0.0, 0.1]),
    n_rows=st.integers(2, 5000),
    max_centers=st.integers(1, 500),
    max_bytes=budgets,
    storage=open_or(*STORAGE),
    projection=st.none() | st.just("auto"),
    kernel=open_or("rbf", "rational_quadratic"),
    width=open_or("shared", "per_center", "per_feature"),
    n_entries=open_or(None, 1, 2),
    n_steps=open_or(0, 4),
    smoothing=st.sampled_from([None, "auto"]),
    effort=st.sampled_from(sorted(EFFORTS)),
    asinh_bytes=st.integers(8, 500),
    centers_of_shape=st.none()
    | st.builds(lambda most: lambda plan: most // (plan.rank or 1), sizes),
)


def is_allowed(space, candidate):
    """Whether a candidate fits, and has what the space gives."""
    plan = candidate.plan
    allowed = plan.nbytes <= space.max_bytes and 1 <= plan.n_centers <= space.max_centers
    if space.centers_of_shape is not None:
        allowed &= plan.n_centers <= space.centers_of_shape(plan)
    allowed &= plan.rank is None or plan.rank <= plan.n_inputs
    for name in ("kernel", "width", "n_entries", "n_steps", "block"):
        given_value = getattr(space, name)
        allowed &= given_value == "auto" or getattr(plan, name) == given_value
    if space.projection is None:
        allowed &= plan.rank is None
    if space.storage != "auto":
        allowed &= plan.formats == STORAGE[space.storage]
    if space.smoothing is None:
        allowed &= candidate.smoothing is None
    return allowed


@given(space=spaces, make=st.sampled_from([small_candidates, first_candidates]))
def test_candidates_fit_and_differ(space, make):
    candidates = make(space)
    assert all(is_allowed(space, candidate) for candidate in candidates)
    assert len(set(candidates)) == len(candidates)
    assert {candidate.noise for candidate in candidates} <= {0.0, space.noise, 3 * space.noise}
    smallest = replace(space.plain, formats=STORAGE["int4"])
    is_possible = space.most_centers(smallest) >= 1 and smallest.nbytes <= space.max_bytes
    if space.storage == "auto" and is_possible:
        assert candidates


@given(space=spaces, number=st.integers(0, 30))
def test_variations_fit_too(space, number):
    first, *others = stages(space)
    found = first.candidates(None)
    for stage in others if found else ():
        best = found[number % len(found)]
        varied = stage.candidates(best)
        assert all(is_allowed(space, candidate) for candidate in varied), stage.name
        assert all(c.noise / (space.noise or 1) in NOISE_FACTORS for c in varied)
        found += varied
    for best in found:
        assert all(is_allowed(space, candidate) for candidate in with_other_ranks(space, best))


def test_eight_bits_are_tried_where_other_limits_than_bytes_bind():
    options = {**OPEN, "centers_of_shape": lambda plan: 25}
    space = space_of(36, 6, n_rows=4000, max_bytes=4000, **options)
    sizes = next(stage for stage in stages(space) if stage.name == "sizes")
    plan = replace(space.plain, formats=STORAGE["int4"], n_centers=25)
    varied = [c.plan for c in sizes.candidates(space.candidate(plan))]
    assert varied[0] == replace(plan, formats=("int8", "int8", "int4"))
    assert [c.n_centers for c in varied] == [25, 12]


def test_another_rank_fills_the_budget_that_the_best_fills():
    space = space_of(36, 6, n_rows=4000, max_bytes=1024, **OPEN)
    plan = replace(space.plain, width="per_center", formats=STORAGE["int4"])
    best = space.candidate(space.filled(plan, space.limit))
    others = with_other_ranks(space, best)
    assert others
    assert all(1000 < c.plan.nbytes <= 1024 and c.plan.width == "shared" for c in others)


@given(space=spaces, number=st.integers(0, 30))
def test_shapes_for_few_rows_fit_too(space, number):
    candidates = small_candidates(space)
    if candidates:
        shapes = small_shapes(space, candidates[number % len(candidates)])
        assert all(is_allowed(space, candidate) for candidate in shapes)


def space_of(n_features=8, n_outputs=1, n_rows=500, max_bytes=1000, **options):
    plan = StoragePlan(n_features, n_outputs, 1)
    return Space(plan, 0.1, n_rows, options.pop("max_centers", n_rows), max_bytes, **options)


OPEN = dict.fromkeys(("kernel", "width", "n_entries", "n_steps", "smoothing"), "auto")


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
    ("n_features", "format"), [(16, "int8"), (36, "int4"), (60, "int4"), (64, "ternary")]
)
def test_projections_of_fewer_inputs_have_more_bits(n_features, format):
    ranked = [c.plan for c in layouts(space_of(n_features, 10, 10_000, 4000)) if c.plan.rank]
    assert {plan.formats for plan in ranked} == {("int4", "int4", format)}


def test_small_tables_try_steps_beside_the_plain_machines():
    space = space_of(21, 3, 4000, 1024, **OPEN)
    candidates = first_candidates(space)
    plain = layouts(space_of(21, 3, 4000, 1024))
    assert candidates[: len(plain)] == [replace(each, smoothing=0.03) for each in plain]
    stepped = [c.plan for c in candidates if c.plan.n_steps]
    assert {(plan.n_steps, plan.width, plan.is_asinh) for plan in stepped} == {
        (8, "per_feature", False),
        (8, "shared", True),
    }
    letter = first_candidates(space_of(16, 26, 16_000, 4096, **OPEN))
    assert {(c.plan.kernel, c.plan.n_steps) for c in letter} == {("rbf", 0)}


def test_projections_of_many_bits_take_a_share_that_falls_with_the_budget():
    assert fair_ranks(54, 4096)[-1] == 16
    assert fair_ranks(54, 16_384)[-1] == 32
    assert fair_ranks(16, 1024) == [8, 10, 12]


def test_few_bytes_a_class_are_trained_without_smoothing():
    space = space_of(16, 26, 16_000, 1024, **OPEN)
    smoothing = {stage.name: stage.candidates for stage in stages(space)}["smoothing"]
    (first, *_) = first_candidates(space)
    assert first.smoothing == 0
    assert [each.smoothing for each in smoothing(first)] == [0]
    assert smoothings(16_000, 26, 4096)[0] == 0.03
    assert smoothings(500, 26, 256)[0] == 0.1


def test_images_try_means_of_blocks():
    space = space_of(256, 10, 7000, 4096, block="auto")
    blocks = {c.plan.block: c.plan.n_inputs for c in first_candidates(space)}
    assert blocks == {1: 256, 2: 64}
    assert {c.plan.block for c in first_candidates(replace(space, block=2))} == {2}


def test_each_stage_varies_one_factor_of_the_best():
    space = space_of(16, 26, 16_000, 4096, **OPEN)
    varied = {stage.name: stage.candidates for stage in stages(space)}
    best = varied["shapes"](None)[-1]
    kernels = [(c.plan.kernel, c.plan.width) for c in varied["kernels"](best) if c != best]
    assert kernels == [("rational_quadratic", "shared"), ("rational_quadratic", "per_center")]
    entries = varied["classes per center"](best)
    assert [c.plan.n_entries for c in entries] == [2, 3, 1]
    assert all(c.plan.n_centers > best.plan.n_centers for c in entries)  # they fill the bytes
    assert {c.smoothing for c in varied["smoothing"](best)} == set(SMOOTHINGS)
    assert [c.noise for c in varied["noise"](best)] == [0.05, 0.2]
    assert varied["more or less noise"](best) == []
    assert varied["more or less noise"](replace(best, noise=0.05))[0].noise == 0
    assert varied["more or less noise"](replace(best, noise=0.2))[0].noise == 0.4
    assert varied["formats"](best) == []
    small = replace(best, plan=replace(best.plan, formats=STORAGE["int4"]))
    assert [c.plan.formats[2] for c in varied["formats"](small)] == ["ternary", "int4", "int6"]
    fewer = varied["sizes"](best)
    assert [c.plan.n_centers for c in fewer] == [best.plan.n_centers // 2]  # an eighth is too few
    assert {c.plan.formats[:2] for c in fewer} == {("int8", "int8")}
    assert varied["further sizes"](best) == []
    few = replace(fewer[0], plan=replace(fewer[0].plan, n_centers=30))
    assert [c.plan.n_centers for c in varied["further sizes"](few)] == [60]
    of_ten_classes = replace(best, plan=replace(best.plan, n_outputs=10))
    entries = varied["classes per center"](of_ten_classes)
    assert [c.plan.n_entries for c in entries] == [2, 3]


def test_few_classes_per_center_must_save_bytes():
    space = space_of(21, 3, 4000, 1024, **OPEN)
    entries = {stage.name: stage.candidates for stage in stages(space)}["classes per center"]
    assert entries(first_candidates(space)[0]) == []  # 2 of 3, with their numbers, save nothing


def test_quick_tries_less_and_thorough_more():
    numbers = {}
    for effort in EFFORTS:
        space = space_of(21, 3, 4000, 1024, effort=effort, **OPEN)
        numbers[effort] = (len(stages(space)), len(first_candidates(space)), most_trials(space))
    assert numbers["quick"] < numbers["default"] < numbers["thorough"]
    assert all(a <= b for a, b in zip(numbers["quick"], numbers["thorough"], strict=True))


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
    shapes = lambda best: small_shapes(space, best)  # noqa: E731
    choice = choose_by_folds(run, candidates, VALIDATION, SPLITS, space.max_bytes, shapes)
    return run, candidates, choice


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


def test_another_shape_must_be_better_by_more_than_chance():
    def gain(amount):
        return lambda c, epochs: (
            best_at(8)(c, epochs) + amount * (c.plan.kernel == "rational_quadratic")
        )

    def noisy(candidate):
        return 0.5 * (candidate.plan.kernel == "rational_quadratic")

    space = space_of(8, 1, 500, 1000, **OPEN)
    error = 0.5 / np.sqrt(ROWS)  # of the difference
    for factor, kernel in ((0.9, "rbf"), (1.1, "rational_quadratic")):
        run, candidates, choice = by_folds(gain(factor * error), space, noisy)
        assert choice.candidate.plan.kernel == kernel
        assert [len(finalists) for finalists, _, epochs in run.calls if epochs == 1] == [4]
    shapes = run.calls[2][0]
    assert not set(shapes) & set(candidates)
    assert run.calls[2][1:] == ([0, 1, 2, 3, 4], 0.25)


def test_without_a_budget_no_other_shape_is_tried():
    run, _, _ = by_folds(best_at(8), space_of(max_bytes=None))
    assert len(run.calls) == 3


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


def test_sizes_that_a_shape_may_not_have_are_not_tried():
    values = dict.fromkeys((2, 4, 8, 16), 0.5)
    run, _ = walk(values, n_features=10, centers_of_shape=lambda plan: 3 if plan.rank else 20)
    tried = [(c.plan.n_centers, c.plan.rank) for c, _ in run.calls]
    assert tried == [(2, None), (2, 8), (4, None), (8, None), (16, None)]
    with pytest.raises(ValueError, match="max_centers allows no machine of 5 features and 1 out"):
        walk(values, centers_of_shape=lambda plan: 1)


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


def held_out(value, space, **options):
    """A search with made-up values; the calls are of candidates and their epochs."""
    calls = []

    def run(candidates, folds, epochs):
        calls.extend((candidate, epochs) for candidate in candidates)
        return [[outputs_of(value(c, epochs), SPLITS[f][1]) for f in folds] for c in candidates]

    def run_full(candidates, epochs):
        calls.extend((candidate, epochs) for candidate in candidates)
        return FakeTrials(value)(candidates, epochs)

    others = lambda best: with_other_ranks(space, best)  # noqa: E731
    choice = choose_held_out(
        run,
        SPLITS,
        run_full,
        stages(space),
        VALIDATION,
        space.max_bytes,
        other_ranks=others,
        **options,
    )
    return calls, choice


def finalists(calls):
    """The candidates of the longest trials."""
    longest = max(epochs for _, epochs in calls)
    return [candidate for candidate, epochs in calls if epochs == longest]


def spend(value, max_bytes=2000, n_features=64, n_outputs=10, **options):
    space = space_of(n_features, n_outputs, 10_000, max_bytes, **options)
    effort = EFFORTS[space.effort]
    epochs = effort.short(most_trials(space), 1.0, 1.0), effort.finalist_epochs
    return held_out(value, space, epochs=epochs, fits=epochs, n_finalists=effort.n_finalists)


def made_up(candidate, epochs):
    """A rank near 24 is best; more noise, more centers and more epochs are better."""
    rank = 64 if candidate.plan.rank is None else candidate.plan.rank
    more = 0.1 * candidate.noise + 0.05 * epochs + 1e-6 * candidate.plan.n_centers
    return 0.8 - abs(rank - 24) / 1000 + more


@pytest.mark.parametrize("max_bytes", [300, 1000, 2000, 10_000])
@pytest.mark.parametrize(("n_features", "n_outputs"), [(64, 10), (21, 3), (16, 26)])
@pytest.mark.parametrize("effort", sorted(EFFORTS))
def test_the_effort_limits_the_full_fits(max_bytes, n_features, n_outputs, effort):
    calls, choice = spend(made_up, max_bytes, n_features, n_outputs, effort=effort, **OPEN)
    assert all(candidate.plan.nbytes <= max_bytes for candidate, _ in calls)
    n_fits = sum(epochs for _, epochs in calls)
    assert n_fits == pytest.approx(choice.n_fits)
    n_fits += EFFORTS[effort].last_epochs
    assert n_fits <= {"quick": 2, "default": 5, "thorough": 15}[effort] + 1e-9
    assert f"{choice.candidate.plan.nbytes} of {max_bytes} bytes" in choice.sentence
    assert sum(point.is_full for point in choice.path) == len(finalists(calls))
    assert len(choice.path) == len(calls)


def test_factors_are_varied_one_after_the_other_and_their_gains_add_up():
    def value(candidate, epochs):
        plan = candidate.plan
        gains = 0.1 * (plan.kernel == "rational_quadratic") + 0.1 * (plan.n_entries == 2)
        has_bits = plan.rank is not None and plan.formats[2] == "int4"
        gains += 0.1 * (candidate.smoothing == 0.1) + 0.1 * has_bits
        return made_up(candidate, epochs) + gains

    _, choice = spend(value, **OPEN)
    plan = choice.candidate.plan
    assert (plan.kernel, plan.n_entries, plan.formats[2]) == ("rational_quadratic", 2, "int4")
    assert (choice.candidate.smoothing, choice.candidate.noise) == (0.1, pytest.approx(0.4))
    assert plan.rank == 24


def test_a_variation_that_is_no_better_changes_nothing():
    calls, choice = spend(lambda candidate, epochs: 0.5, **OPEN)
    first = calls[0][0]
    smallest = min((c for c, _ in calls[:4]), key=lambda c: c.plan.nbytes)
    assert choice.candidate in (first, smallest)


def test_another_finalist_has_another_shape_and_is_not_clearly_behind():
    calls, _ = spend(made_up, **OPEN)
    first, second = finalists(calls)  # nothing else is as good, and rows agree
    assert first.plan.rank != second.plan.rank
    calls, _ = spend(lambda candidate, epochs: 0.5, **OPEN)
    full = [replace(candidate.plan, formats=()) for candidate in finalists(calls)]
    assert len(set(full)) == len(full) == 3


def test_the_second_best_rank_is_tried_again_with_what_was_found_for_the_best():
    def value(candidate, epochs):
        gain = 0.1 * (candidate.plan.kernel == "rational_quadratic")
        return made_up(candidate, epochs) + gain

    calls, choice = spend(value, **OPEN)
    first, second = finalists(calls)[:2]
    assert first == choice.candidate
    assert first.plan.rank != second.plan.rank
    assert second.plan.kernel == "rational_quadratic"
    assert (second.noise, second.smoothing) == (first.noise, first.smoothing)


def test_what_is_given_completely_is_trained_once():
    fixed = {"projection": 8, "n_centers": 12, "storage": "int4"}
    space = replace(space_of(64, 10, 10_000, 2000, **fixed), noise=0.0)
    calls, choice = held_out(made_up, space, epochs=(0.1, 0.5), fits=(0.1, 0.4))
    assert [epochs for _, epochs in calls] == [0.5]
    assert choice.n_fits == 0.4


def test_a_short_trial_that_shone_does_not_win_by_itself():
    def value(candidate, epochs):
        return 0.99 if candidate.plan.rank is None and epochs < 0.3 else made_up(candidate, epochs)

    calls, choice = spend(value)
    assert choice.score.value != 0.99
    assert choice.candidate in finalists(calls)


def test_no_more_centers_than_allowed():
    calls, _ = spend(made_up, max_bytes=10_000, max_centers=12)
    assert {candidate.plan.n_centers for candidate, _ in calls} == {12}


def test_stages_are_reported_with_their_cost():
    space = space_of(64, 10, 10_000, 2000, **OPEN)
    told = []
    calls, _ = held_out(
        made_up,
        space,
        epochs=(0.1, 0.5),
        fits=(0.05, 0.4),
        report=lambda *what: told.append(what),
    )
    assert told[0][0] == "shapes"
    assert told[-1] == ("finalists", 1, 0.4)
    assert sum(n for _, n, _ in told) == len(calls)
    assert all(fits == pytest.approx(0.05 * n) for _, n, fits in told[:-1])


@pytest.mark.parametrize("storage", ["auto", "float32"])
def test_too_few_bytes_are_refused(storage):
    few = CompactKernelClassifier(max_bytes=50, storage=storage)
    X, y = np.random.default_rng(0).normal(size=(2500, 64)), np.arange(2500) % 10
    with pytest.raises(ValueError, match="max_bytes=50 is too little for 64 features and 10 out"):
        few.fit(X, y)
    many = CompactKernelClassifier(500, max_bytes=2000, storage=storage)
    with pytest.raises(ValueError, match=r"500 centers take .* fewer centers"):
        many.fit(X, y)


def test_a_path_is_packed_into_an_array_and_back():
    path = (
        PathPoint(7, 1234, 0.98765, 0.0123, 8, ("int4", "int4", "ternary"), True, 0.3),
        PathPoint(2, 42, 0.5, 0.25, None, ("float32", "float32"), False, 0.02),
        PathPoint(
            12, 714, 0.9, 0.1, None, ("int8", "int8"), False, 0.0, 0.03, "rbf", "shared", 2, 4, True
        ),
        PathPoint(
            12,
            714,
            0.9,
            0.1,
            1,
            ("int8",) * 3,
            True,
            0.0,
            0.0,
            "rational_quadratic",
            "per_center",
            None,
            0,
            False,
            2,
        ),
    )
    packed = pack_path(path)
    assert packed.nbytes < 300
    assert unpack_path(packed) == path
    assert unpack_path(pack_path([])) == ()


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
    # Nor where no class has two rows, within a number of bytes.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        machine.set_params(max_bytes=4000).fit(rows, np.arange(len(rows)))
    assert "on 8 held-out rows" in machine.choice_

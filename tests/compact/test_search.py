"""Plans that fill a number of bytes, and the search among them with made-up scores."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernlet.compact.network import STORAGE, RBFNetwork, StoragePlan
from kernlet.compact.search import largest_within, plans_within, search_bytes, search_sizes
from kernlet.compact.train import Trial
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


def network_of(plan, seed=0):
    random = np.random.default_rng(seed)
    rank = plan.n_features if plan.rank is None else plan.rank
    return RBFNetwork(
        random.normal(size=(plan.n_centers, rank)),
        random.normal(size=(plan.n_outputs, plan.n_centers)),
        random.normal(size=plan.n_outputs),
        random.normal(size=plan.n_centers if plan.width == "per_center" else 1),
        None if plan.rank is None else random.normal(size=(rank, plan.n_features)),
    )


@settings(max_examples=150, deadline=None)
@given(plan=plans())
def test_bytes_are_those_of_a_packed_network(plan):
    expansion = plan.pack(network_of(plan).arrays(), {}, 0.5, 2.0)
    assert expansion.nbytes == plan.nbytes
    assert expansion.n_centers == plan.n_centers
    names = ("centers", "coef", "projection")[: 2 if plan.rank is None else 3]
    assert expansion.storage == dict(zip(names, plan.formats, strict=False))


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


@given(
    n_features=st.integers(1, 300),
    n_outputs=st.integers(1, 20),
    width=widths,
    max_bytes=budgets,
    most=st.integers(1, 500),
    storage=st.sampled_from([*STORAGE, "auto"]),
    projection=st.none() | st.just("auto"),
)
def test_plans_fit_and_differ(n_features, n_outputs, width, max_bytes, most, storage, projection):
    plan = StoragePlan(n_features, n_outputs, 1, width=width)
    by_rank, other_formats = plans_within(plan, max_bytes, most, storage, projection)
    every = [*by_rank, *other_formats]
    assert all(c.nbytes <= max_bytes and 1 <= c.n_centers <= most for c in every)
    assert all(c.rank is None or c.rank <= n_features for c in every)
    assert len(set(every)) == len(every)
    assert len({c.rank for c in by_rank}) == len(by_rank)
    assert {c.rank for c in other_formats} <= {c.rank for c in by_rank}
    if projection is None:
        assert {c.rank for c in every} <= {None}
    if storage != "auto":
        assert {c.formats for c in every} <= {STORAGE[storage]}
        assert not other_formats


def test_a_given_rank_is_the_only_one():
    by_rank, other_formats = plans_within(StoragePlan(64, 10, 1), 4000, 500, "auto", 7)
    assert {c.rank for c in [*by_rank, *other_formats]} == {7}


def test_with_room_for_projections_several_ranks_are_tried():
    by_rank, other_formats = plans_within(StoragePlan(64, 10, 1), 4000, 500, "auto", "auto")
    assert by_rank[0].rank is None
    assert len({c.rank for c in by_rank}) > 2
    assert other_formats


def test_few_features_may_have_a_square_projection():
    by_rank, _ = plans_within(StoragePlan(6, 2, 1), 2000, 500, "auto", "auto")
    assert 6 in {c.rank for c in by_rank}


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


# -- Search ----------------------------------------------------------------------------------


class FakeExpansion:
    def __init__(self, nbytes):
        self.nbytes = nbytes


class FakeRun:
    """Scores are made up; what was asked for is written down."""

    def __init__(self, score, error=0.01):
        self.score, self.error = score, error
        self.calls = []

    def __call__(self, plans, share):
        self.calls += [(plan, share) for plan in plans]
        return [self.trial(plan, share) for plan in plans]

    def trial(self, plan, share):
        losses = tuple([1.0] * max(1, round(share * 30)))
        score, stored = self.score(plan, share), FakeExpansion(plan.nbytes)
        outputs = np.empty((0, 1))
        return Trial(plan, None, stored, outputs, score, self.error, losses, share >= 1)


def by_size(scores):
    return lambda plan, share: scores[plan.n_centers]


def walk(scores, largest=64, error=0.01, first=2):
    run = FakeRun(by_size(scores), error)
    return run, *search_sizes(run, StoragePlan(5, 1, first), largest)


def test_the_smallest_within_one_standard_error_is_chosen():
    scores = {2: 0.5, 4: 0.7, 8: 0.895, 16: 0.9, 32: 0.9, 64: 0.9}
    _, chosen, path, reason = walk(scores)
    assert chosen.plan.n_centers == 8
    assert reason.startswith("8 centers: the smallest of [2, 4, 8, 16, 32, 64]")
    assert [point.n_centers for point in path] == [2, 4, 8, 16, 32, 64]
    assert [point.score for point in path] == list(scores.values())


def test_without_a_standard_error_the_best_is_chosen():
    _, chosen, _, _ = walk({2: 0.5, 4: 0.7, 8: 0.89, 16: 0.9, 32: 0.8, 64: 0.8}, error=0.0)
    assert chosen.plan.n_centers == 16


def test_a_score_that_still_rises_at_the_end_is_warned_about():
    scores = {2: 0.1, 4: 0.2, 8: 0.3, 16: 0.4, 32: 0.5, 64: 0.6}
    with pytest.warns(UserWarning, match="does not compress.*at 64 centers"):
        _, chosen, _, _ = walk(scores)
    assert chosen.plan.n_centers == 64


@pytest.mark.parametrize("last", [0.505, 0.5, 0.3])
def test_no_warning_where_the_score_has_settled(last):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        walk({2: 0.1, 4: 0.2, 8: 0.3, 16: 0.4, 32: 0.5, 64: last})


def test_two_sizes_without_a_gain_end_the_walk():
    scores = {16: 0.5, 32: 0.9, 64: 0.9, 128: 0.8, 256: 1.0, 512: 1.0}
    run, chosen, path, _ = walk(scores, largest=512, first=16)
    assert [plan.n_centers for plan, _ in run.calls] == [16, 32, 64, 128]
    assert len(path) == 4
    assert chosen.plan.n_centers == 32


def test_the_walk_does_not_end_before_64_centers():
    scores = {2: 0.9, 4: 0.9, 8: 0.5, 16: 0.5, 32: 0.9, 64: 0.95, 128: 0.9, 256: 0.9, 512: 1.0}
    run, chosen, _, _ = walk(scores, largest=512)
    assert [plan.n_centers for plan, _ in run.calls] == [2, 4, 8, 16, 32, 64, 128, 256]
    assert chosen.plan.n_centers == 64


def test_sizes_end_at_the_largest():
    _, _, path, _ = walk({2: 0.1, 4: 0.2, 8: 0.3, 11: 0.3}, largest=11)
    assert [point.n_centers for point in path] == [2, 4, 8, 11]
    _, chosen, path, _ = walk({3: 0.1}, largest=3, first=10)
    assert [point.n_centers for point in path] == [3]
    assert chosen.plan.n_centers == 3


def spend(score, max_bytes=2000, storage="auto", projection="auto", max_centers=500, n_rows=10_000):
    run, plan = FakeRun(score), StoragePlan(64, 10, 1)
    return run, *search_bytes(run, plan, max_bytes, n_rows, max_centers, storage, projection)


def made_up(plan, share):
    """A rank near 24 is best, six bits are better than four, and longer is better."""
    rank = 64 if plan.rank is None else plan.rank
    return 0.8 - abs(rank - 24) / 1000 + 0.01 * (plan.formats[0] == "int6") + 0.05 * share


def best_rank(run):
    return min({c.rank for c, _ in run.calls} - {None}, key=lambda rank: abs(rank - 24))


@pytest.mark.parametrize("max_bytes", [300, 1000, 2000, 10_000])
def test_every_trial_stays_within_the_bytes(max_bytes):
    run, best, path, reason = spend(made_up, max_bytes)
    assert all(plan.nbytes <= max_bytes for plan, _ in run.calls)
    assert all(point.nbytes <= max_bytes for point in path)
    assert f"{best.plan.nbytes} of {max_bytes} bytes" in reason
    assert len(path) == len(run.calls)
    assert [point.is_full for point in path] == [share == 1.0 for _, share in run.calls]


def test_the_best_full_trial_wins():
    run, best, path, reason = spend(made_up)
    full = [plan for plan, share in run.calls if share == 1.0]
    assert 2 <= len(full) <= 3
    assert best.plan in full
    assert best.plan.rank == best_rank(run)
    assert best.plan.formats[0] == "int6"
    assert f"{best.score:.4f}" in reason
    assert best.score == max(point.score for point in path)


def test_a_short_trial_that_shone_does_not_win_by_itself():
    def score(plan, share):
        return 0.99 if plan.rank == 16 and share < 1 else made_up(plan, share)

    run, best, _, _ = spend(score)
    assert best.score < 0.99
    assert best.plan in [plan for plan, share in run.calls if share == 1.0]


def test_other_formats_are_tried_for_the_best_rank_only():
    run, _, _, _ = spend(made_up)
    others = [plan for plan, share in run.calls if share < 1 and plan.formats[0] != "int4"]
    assert {plan.rank for plan in others} == {best_rank(run), None}


def test_nothing_to_choose_is_one_full_trial():
    run, best, path, _ = spend(made_up, storage="int8", projection=None)
    assert [share for _, share in run.calls] == [1.0]
    assert best.plan.formats == ("int8", "int8", "int8")
    assert len(path) == 1


def test_no_more_centers_than_allowed():
    run, _, _, _ = spend(made_up, max_bytes=10_000, max_centers=12)
    assert {plan.n_centers for plan, _ in run.calls} == {12}


def test_with_few_rows_half_as_many_centers_are_tried_too():
    run, best, _, _ = spend(lambda plan, share: -plan.n_centers, 10_000, max_centers=12, n_rows=100)
    first = [plan for plan, share in run.calls if plan.n_centers == 12 and share < 1]
    halves = [plan for plan, share in run.calls if plan.n_centers == 6 and share < 1]
    assert set(halves) <= {replace(plan, n_centers=6) for plan in first}
    assert None in {plan.rank for plan in halves}
    assert best.plan.n_centers == 6


@pytest.mark.parametrize("storage", ["auto", "float32"])
def test_too_few_bytes_are_refused(storage):
    with pytest.raises(ValueError, match="max_bytes=50 is too little for 64 features and 10 out"):
        spend(made_up, max_bytes=50, storage=storage)


def test_points_of_a_path_name_what_is_stored():
    run = FakeRun(made_up)
    plan = StoragePlan(64, 10, 7, 8, ("int4", "int6", "ternary"))
    point = run.trial(plan, 1.0).point
    assert point.storage == ("int4", "int6", "ternary")
    assert (point.n_centers, point.rank, point.nbytes) == (7, 8, plan.nbytes)
    assert point.n_epochs == 30
    assert point.is_full
    assert not run.trial(plan, 0.5).point.is_full
    assert run.trial(replace(plan, rank=None), 1.0).point.storage == ("int4", "int6")

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernlet.compact.network import RBFNetwork
from kernlet.compact.plan import STORAGE, StoragePlan, largest_within, plans_within
from kernlet.quantization import FORMATS

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

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernlet.compact.network import Machine
from kernlet.compact.plan import STORAGE, Layout, candidates, fill
from kernlet.compact.train import pack
from kernlet.quantization import FORMATS

formats = st.tuples(*[st.sampled_from(sorted(FORMATS))] * 3)
sizes = st.integers(1, 40)
widths = st.sampled_from(["shared", "per_center"])
budgets = st.integers(1, 20_000)


@st.composite
def layouts(draw):
    n_features = draw(sizes)
    rank = draw(st.none() | st.integers(1, n_features))
    return Layout(
        n_features,
        draw(st.integers(1, 12)),
        draw(sizes),
        rank,
        draw(formats),
        draw(widths),
        draw(st.sampled_from([4, 8])),
    )


def machine_of(layout, seed=0):
    random = np.random.default_rng(seed)
    rank = layout.n_features if layout.rank is None else layout.rank
    return Machine(
        random.normal(size=(layout.n_centers, rank)),
        random.normal(size=(layout.n_outputs, layout.n_centers)),
        random.normal(size=layout.n_outputs),
        random.normal(size=layout.n_centers if layout.width == "per_center" else 1),
        None if layout.rank is None else random.normal(size=(rank, layout.n_features)),
    )


@settings(max_examples=150, deadline=None)
@given(layout=layouts())
def test_bytes_are_those_of_a_packed_machine(layout):
    expansion = pack(machine_of(layout), {}, layout, 0.5, 2.0)
    assert expansion.nbytes == layout.nbytes
    assert expansion.n_centers == layout.n_centers
    names = ("centers", "coef", "projection")[: 2 if layout.rank is None else 3]
    assert expansion.storage == dict(zip(names, layout.formats, strict=False))


@given(layout=layouts())
def test_another_center_never_takes_fewer_bytes(layout):
    assert replace(layout, n_centers=layout.n_centers + 1).nbytes >= layout.nbytes


@given(layout=layouts(), max_bytes=budgets, most=st.integers(1, 500))
def test_filling_takes_the_most_centers_that_fit(layout, max_bytes, most):
    filled = fill(layout, max_bytes, most)
    if filled is None:
        assert replace(layout, n_centers=1).nbytes > max_bytes
        return
    assert filled == replace(layout, n_centers=filled.n_centers)
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
def test_candidates_fit_and_differ(
    n_features, n_outputs, width, max_bytes, most, storage, projection
):
    layout = Layout(n_features, n_outputs, 1, width=width)
    first, second = candidates(layout, max_bytes, most, storage, projection)
    every = [*first, *second]
    assert all(c.nbytes <= max_bytes and 1 <= c.n_centers <= most for c in every)
    assert all(c.rank is None or c.rank <= n_features for c in every)
    assert len(set(every)) == len(every)
    assert len({c.rank for c in first}) == len(first)
    assert {c.rank for c in second} <= {c.rank for c in first}
    if projection is None:
        assert {c.rank for c in every} <= {None}
    if storage != "auto":
        assert {c.formats for c in every} <= {STORAGE[storage]}
        assert not second


def test_a_given_rank_is_the_only_one():
    first, second = candidates(Layout(64, 10, 1), 4000, 500, "auto", 7)
    assert {c.rank for c in [*first, *second]} == {7}


def test_with_room_for_projections_several_ranks_are_tried():
    first, second = candidates(Layout(64, 10, 1), 4000, 500, "auto", "auto")
    assert first[0].rank is None
    assert len({c.rank for c in first}) > 2
    assert second


def test_few_features_may_have_a_square_projection():
    first, _ = candidates(Layout(6, 2, 1), 2000, 500, "auto", "auto")
    assert 6 in {c.rank for c in first}


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
    layout = Layout(8, 2, 5, 3, STORAGE[storage])
    assert list(layout.levels) == names
    assert list(replace(layout, rank=None).levels) == names[:2]


def test_a_layout_describes_itself():
    plain = Layout(8, 2, 5, None, STORAGE["int8"])
    assert plain.describe() == "5 centers (int8), coefficients (int8), no projection"
    assert replace(plain, rank=3).describe().endswith("projection to 3 (int8)")

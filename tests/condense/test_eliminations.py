"""Both eliminations against plain loops, and what always holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import naive
from kernlet import BoundaryCondenser, TypicalCondenser
from kernlet.kernels.rbf import RBF


def rows(m=90, n=2, classes=3, seed=0, spread=1.5):
    random = np.random.RandomState(seed)
    codes = random.randint(classes, size=m)
    codes[:classes] = np.arange(classes)
    angles = 2 * np.pi * codes / classes
    middle = spread * np.stack([np.cos(angles), np.sin(angles)] + [angles * 0] * (n - 2), axis=1)
    return random.normal(size=(m, n)) + middle, codes


def weighting(balanced):
    return "balanced" if balanced else "normalized"


@pytest.mark.parametrize("form", ["repaired", "literal"])
@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize(("seed", "level"), [(0, 1.0), (1, 1.0), (0, 0.6), (1, -0.2), (1, 1.3)])
def test_typical_is_algorithm_2(form, balanced, seed, level):
    X, codes = rows(seed=seed)
    condenser = TypicalCondenser(
        100.0, level=level, form=form, class_weight=weighting(balanced), min_per_class=3
    )
    found = condenser.fit(X, codes).condensation_
    kept = naive.eliminate_typical(
        X, codes, 100.0, own=form == "repaired", balanced=balanced, floor=3, level=level
    )
    assert found.kept.tolist() == kept
    assert 0 < len(kept) < 90


@settings(max_examples=40)
@given(
    st.integers(3, 60),
    st.sampled_from(["repaired", "literal"]),
    st.integers(1, 5),
    st.lists(st.floats(-2, 2), min_size=2, max_size=2).map(sorted),
    st.integers(0, 10_000),
)
def test_lower_levels_delete_the_same_rows_of_the_first_class_and_more(
    m, form, floor, levels, seed
):
    X, codes = rows(m, 3, 3, seed, spread=seed % 5)
    lower, higher = (
        TypicalCondenser(level=level, form=form, min_per_class=floor).fit(X, codes).condensation_
        for level in levels
    )
    first, same = lower.rounds[0], higher.rounds[0]
    np.testing.assert_array_equal(first.weights, same.weights)
    assert set(same.deleted) <= set(first.deleted)
    for found, level in ((lower, levels[0]), (higher, levels[1])):
        assert all((r.values > level).all() for r in found.rounds)


@pytest.mark.parametrize("form", ["repaired", "literal"])
def test_later_classes_may_keep_a_row_at_a_lower_level(form):
    """Their classifiers are trained on fewer rows: the sets of deleted rows are not nested."""
    X, codes = rows(60, seed=1)
    higher, lower = (
        set(TypicalCondenser(level=level, form=form).fit(X, codes).condensation_.deleted)
        for level in (0.5, 0.4)
    )
    assert higher - lower
    assert len(lower) > len(higher)


def test_a_level_beyond_all_rows_deletes_nothing():
    X, codes = rows()
    assert not len(TypicalCondenser(level=1e6).fit(X, codes).condensation_.deleted)
    kept = TypicalCondenser(level=-1e6, min_per_class=2).fit(X, codes).condensation_.kept_per_class
    assert kept == {0: 2, 1: 2, 2: 2}


@pytest.mark.parametrize("form", ["repaired", "literal"])
@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("threshold", [2, 20, 70])
def test_boundary_is_algorithm_1(form, balanced, threshold):
    X, codes = rows(spread=3.0)
    condenser = BoundaryCondenser(
        threshold, max_rounds=6, C=10.0, form=form, class_weight=weighting(balanced)
    )
    found = condenser.fit(X, codes).condensation_
    kept = naive.eliminate_boundary(
        X, codes, threshold, 6, 10.0, nested=form == "repaired", balanced=balanced
    )
    assert found.kept.tolist() == kept


@settings(max_examples=60)
@given(
    st.integers(2, 60),
    st.integers(2, 4),
    st.sampled_from(["repaired", "literal"]),
    st.booleans(),
    st.integers(1, 5),
    st.integers(1, 100),
    st.integers(0, 10_000),
)
def test_what_always_holds(m, classes, form, balanced, floor, threshold, seed):
    X, codes = rows(max(m, classes), 3, classes, seed, spread=seed % 5)
    X = np.round(X)  # with equal rows
    options = {"form": form, "class_weight": weighting(balanced), "min_per_class": floor}
    before = np.bincount(codes, minlength=classes)
    for condenser in (TypicalCondenser(**options), BoundaryCondenser(threshold, **options)):
        found = condenser.fit(X, codes).condensation_
        assert (np.diff(found.kept) > 0).all()
        assert set(found.kept) <= set(range(len(codes)))
        after = np.array(list(found.kept_per_class.values()))
        assert (after >= np.minimum(before, floor)).all()
        gone = np.sort(np.concatenate([r.deleted for r in found.rounds]))
        np.testing.assert_array_equal(gone, found.deleted)
        assert sum(found.deleted_per_class.values()) + len(found.kept) == len(codes)
        assert max(r.gap for r in found.rounds) < 1e-9


def test_repaired_candidates_become_fewer_and_stalls_delete_nothing():
    X, codes = rows(200, spread=0.3)
    found = BoundaryCondenser(threshold=20).fit(X, codes).condensation_
    for number in range(3):
        rounds = [r for r in found.rounds if r.label == number]
        sizes = [r.n_rows for r in rounds] + [rounds[-1].inside]
        assert sizes == sorted(sizes, reverse=True)
        if sizes[-1] >= 20:
            assert not len(rounds[-1].deleted)
    assert found.fraction_kept > 0.5


def test_the_record_says_what_the_machines_said():
    X, codes = rows(seed=3)
    found = TypicalCondenser().fit(X, np.array(["a", "b", "c"])[codes]).condensation_
    assert [r.label for r in found.rounds] == ["a", "b", "c"]
    for record in found.rounds:
        values = X[record.deleted] @ record.weights - record.gamma
        np.testing.assert_allclose(record.values, values, atol=1e-10)
        assert (values > 1).all()
        assert "deleted" in repr(record)
    assert set(found.kept_per_class) == {"a", "b", "c"}
    assert "rows kept" in repr(found)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_kernel_values_in_place_of_columns(kind):
    X, codes = rows(150)
    landmarks = X[:20]
    for level in (1.0, 0.5):
        by_kernel = TypicalCondenser(level=level, kernel=RBF(0.5), landmarks=kind(landmarks))
        by_columns = TypicalCondenser(level=level).fit(RBF(0.5)(X, landmarks), codes)
        kept = by_kernel.fit(kind(X), codes).sample_indices_
        np.testing.assert_array_equal(kept, by_columns.sample_indices_)


def test_names_of_classes_do_not_matter():
    X, codes = rows(150, seed=5)
    one = TypicalCondenser().fit(X, codes)
    two = TypicalCondenser().fit(X, np.array(["x", "y", "z"])[codes])
    np.testing.assert_array_equal(one.sample_indices_, two.sample_indices_)

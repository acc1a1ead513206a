"""Both eliminations against plain loops, and what always holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import naive
from kernlet.condense.boundary import eliminate_boundary
from kernlet.condense.typical import eliminate_typical
from kernlet.kernels.gram import RowFeatures
from kernlet.kernels.rbf import RBF


def rows(m=90, n=2, classes=3, seed=0, spread=1.5):
    random = np.random.RandomState(seed)
    codes = random.randint(classes, size=m)
    codes[:classes] = np.arange(classes)
    angles = 2 * np.pi * codes / classes
    middle = spread * np.stack([np.cos(angles), np.sin(angles)] + [angles * 0] * (n - 2), axis=1)
    return random.normal(size=(m, n)) + middle, codes


def labels(codes):
    return np.arange(codes.max() + 1)


@pytest.mark.parametrize("form", ["repaired", "literal"])
@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("seed", [0, 1])
def test_typical_is_algorithm_2(form, balanced, seed):
    X, codes = rows(seed=seed)
    found = eliminate_typical(
        RowFeatures(X), codes, labels(codes), C=100.0, form=form, balanced=balanced
    )
    kept = naive.eliminate_typical(X, codes, 100.0, own=form == "repaired", balanced=balanced)
    assert found.kept.tolist() == kept
    assert 0 < len(kept) < 90


@pytest.mark.parametrize("form", ["repaired", "literal"])
@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("threshold", [2, 20, 70])
def test_boundary_is_algorithm_1(form, balanced, threshold):
    X, codes = rows(spread=3.0)
    found = eliminate_boundary(
        RowFeatures(X),
        codes,
        labels(codes),
        threshold=threshold,
        max_rounds=6,
        C=10.0,
        form=form,
        balanced=balanced,
    )
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
    features = RowFeatures(np.round(X))  # with equal rows
    options = {"form": form, "balanced": balanced, "min_per_class": floor}
    before = np.bincount(codes, minlength=classes)
    for found in (
        eliminate_typical(features, codes, labels(codes), **options),
        eliminate_boundary(features, codes, labels(codes), threshold=threshold, **options),
    ):
        assert (np.diff(found.kept) > 0).all()
        assert set(found.kept) <= set(range(len(codes)))
        after = np.array(list(found.kept_per_class.values()))
        assert (after >= np.minimum(before, floor)).all()
        gone = np.sort(np.concatenate([r.deleted for r in found.rounds]))
        np.testing.assert_array_equal(gone, found.deleted)
        assert sum(found.deleted_per_class.values()) + len(found.kept) == len(codes)
        assert max(r.residual for r in found.rounds) < 1e-9


def test_repaired_candidates_become_fewer_and_stalls_delete_nothing():
    X, codes = rows(200, spread=0.3)
    found = eliminate_boundary(RowFeatures(X), codes, labels(codes), threshold=20)
    for number in range(3):
        rounds = [r for r in found.rounds if r.label == number]
        sizes = [r.n_rows for r in rounds] + [rounds[-1].inside]
        assert sizes == sorted(sizes, reverse=True)
        if sizes[-1] >= 20:
            assert not len(rounds[-1].deleted)
    assert found.fraction_kept > 0.5


def test_the_record_says_what_the_machines_said():
    X, codes = rows(seed=3)
    found = eliminate_typical(RowFeatures(X), codes, np.array(["a", "b", "c"]))
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
    by_kernel = eliminate_typical(
        RowFeatures(kind(X), RBF(0.5), kind(landmarks)), codes, labels(codes)
    )
    by_columns = eliminate_typical(RowFeatures(RBF(0.5)(X, landmarks)), codes, labels(codes))
    np.testing.assert_array_equal(by_kernel.kept, by_columns.kept)


def test_names_of_classes_do_not_matter():
    X, codes = rows(150, seed=5)
    one = eliminate_typical(RowFeatures(X), codes, np.array([0, 1, 2]))
    two = eliminate_typical(RowFeatures(X), codes, np.array(["x", "y", "z"]))
    np.testing.assert_array_equal(one.kept, two.kept)

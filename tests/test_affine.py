import array_api_strict
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.preprocessing import MinMaxScaler

from kernlet.affine import AffineMap, ColumnRanges, compose, unlike_columns
from kernlet.devices import Device
from kernlet.kernels import gram as gram_module
from support.exportable_models import IRIS

CONTAINERS = [np.asarray, sparse.csr_matrix, sparse.csr_array]
every_container = pytest.mark.parametrize("container", CONTAINERS)

RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(6, 3)) * (RNG.random((6, 3)) < 0.6)
SHIFT, SCALE = np.array([0.5, -1.0, 2.0]), np.array([2.0, 0.5, 1.0])
MATRIX = RNG.normal(size=(2, 3))


def _by_hand(rows, shift, scale, matrix):
    shift, scale = (np.broadcast_to(a, 3).tolist() for a in (shift, scale))
    moved = [[(x - a) * s for x, a, s in zip(row, shift, scale, strict=True)] for row in rows]
    if matrix is None:
        return np.array(moved)
    return np.array(
        [[sum(m * u for m, u in zip(r, row, strict=True)) for r in matrix] for row in moved]
    )


@every_container
@pytest.mark.parametrize("matrix", [None, MATRIX], ids=["plain", "projected"])
@pytest.mark.parametrize(
    ("shift", "scale"),
    [(SHIFT, SCALE), (np.array([0.5]), np.array([2.0])), (SHIFT, np.array([2.0])), (0.5, 2)],
    ids=["rows", "numbers", "both", "bare numbers"],
)
def test_dense_and_sparse_rows_are_mapped_as_by_hand(container, shift, scale, matrix):
    mapped = AffineMap(shift, scale, matrix)(container(ROWS))
    assert isinstance(mapped, np.ndarray)
    np.testing.assert_allclose(mapped, _by_hand(ROWS, shift, scale, matrix), rtol=1e-12, atol=1e-12)


@every_container
@pytest.mark.parametrize("matrix", [None, MATRIX], ids=["plain", "projected"])
@pytest.mark.parametrize(("dtype", "expected"), [("f4", "f4"), ("f8", "f8"), ("i8", "f8")])
def test_rows_keep_their_precision(container, matrix, dtype, expected):
    mapped = AffineMap(SHIFT, SCALE, matrix)(container(ROWS.astype(dtype)))
    assert mapped.dtype == np.dtype(expected)


@every_container
def test_rows_are_left_alone(container):
    X = container(ROWS.copy())
    AffineMap(SHIFT, SCALE, MATRIX)(X)
    np.testing.assert_array_equal(X.toarray() if sparse.issparse(X) else X, ROWS)


@pytest.mark.parametrize("matrix", [None, MATRIX], ids=["plain", "projected"])
def test_rows_on_a_device_are_mapped_there(matrix):
    front = AffineMap(SHIFT, SCALE, matrix)
    rows = ROWS.astype(np.float32)
    mapped = front.on(Device(array_api_strict), array_api_strict.asarray(rows))
    assert mapped.dtype == array_api_strict.float32
    np.testing.assert_allclose(np.from_dlpack(mapped), front(rows), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shift", "scale", "matrix"),
    [
        (np.zeros(3), np.ones(2), None),
        (np.zeros(2), np.ones(1), MATRIX),
        (np.zeros(1), np.ones(4), MATRIX),
    ],
)
def test_parts_of_several_widths_are_refused(shift, scale, matrix):
    with pytest.raises(ValueError, match=r"cannot have several widths: \[2, 3\]|\[3, 4\]"):
        AffineMap(shift, scale, matrix)


@pytest.mark.parametrize("bad", [np.nan, np.inf, np.zeros((2, 2))], ids=["nan", "inf", "table"])
@pytest.mark.parametrize("name", ["shift", "scale"])
def test_shift_and_scale_are_rows_of_finite_numbers(name, bad):
    with pytest.raises(ValueError, match=f"The {name} of an affine map must be a row of finite"):
        AffineMap(**{"shift": 0.0, "scale": 1.0, name: bad})


def test_nbytes_counts_every_number_held():
    assert AffineMap(SHIFT, np.array([1.0])).nbytes == 8 * (3 + 1)
    assert AffineMap(SHIFT.astype("f4"), SCALE.astype("f4"), MATRIX).nbytes == 4 * 6 + 8 * 6


def test_maps_compose_as_matrices_do():
    first, then = AffineMap(SHIFT, SCALE), AffineMap(np.array([0.3, 1.0, -2.0]), 4.0, MATRIX)
    np.testing.assert_allclose((then @ first)(ROWS), then(first(ROWS)), rtol=1e-12, atol=1e-12)
    assert compose(None, first, None) is first
    assert compose(None, None) is None
    np.testing.assert_array_equal(compose(first, then)(ROWS), (then @ first)(ROWS))
    with pytest.raises(ValueError, match="3 features cannot follow one to 2"):
        first @ then


def test_maps_compose_behind_a_matrix():
    first = AffineMap(SHIFT, SCALE, MATRIX)
    for then in (AffineMap(np.array([0.3, 1.0]), 4.0), AffineMap(2.0, 0.5, MATRIX[:1, :2])):
        np.testing.assert_allclose((then @ first)(ROWS), then(first(ROWS)), rtol=1e-12, atol=1e-12)
    twice = AffineMap(SHIFT, SCALE, MATRIX[[0, 0]])
    np.testing.assert_allclose((AffineMap(1.0, 2.0) @ twice)(ROWS), 2 * (twice(ROWS) - 1))
    with pytest.raises(ValueError, match="not independent"):
        AffineMap(np.array([1.0, 2.0]), 1.0) @ twice


def test_a_scaler_that_clips_is_refused():
    scaler = MinMaxScaler(clip=True).fit(IRIS)
    with pytest.raises(ValueError, match=r"'scaler' is a MinMaxScaler\(clip=True\)"):
        AffineMap.from_scaler(scaler)


every_block = pytest.mark.parametrize("block_bytes", [1, 2**20])


@every_container
@every_block
def test_ranges_and_deviations_are_those_of_numpy(container, block_bytes, monkeypatch):
    monkeypatch.setattr(gram_module, "BLOCK_BYTES", block_bytes)
    rows = np.column_stack([ROWS, ROWS[:, 0] > 0, np.full(6, 4.0), np.zeros(6), 1e6 + ROWS[:, 1]])
    ranges = ColumnRanges.of(container(rows))
    assert_allclose(ranges.low, rows.min(axis=0))
    assert_allclose(ranges.high, rows.max(axis=0))
    assert ranges.largest == np.abs(rows).max()
    shift, scale = ranges.standardising(container(rows))
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    mean[3], deviation[3], deviation[4] = 0, 1, 0  # two values become 0 and 1
    assert_allclose(shift, mean, rtol=1e-12, atol=1e-12)
    assert_allclose(scale, deviation, rtol=1e-8, atol=1e-12)


@every_container
def test_two_values_need_not_be_zero_and_one(container):
    rows = np.array([[-1.0, -1.0, 5.0], [2.0, 2.0, 9.0], [-1.0, 0.0, 5.0], [2.0, 2.0, 5.0]])
    shift, scale = ColumnRanges.of(container(rows)).standardising(container(rows))
    assert_allclose(shift, [-1, rows[:, 1].mean(), 5])
    assert_allclose(scale, [3, rows[:, 1].std(), 4])


@every_container
def test_unlike_columns_are_those_of_other_units(container):
    random = np.random.default_rng(0)
    normal = random.normal(size=(400, 8))
    rare = random.random((400, 40)) < 0.01
    border = normal * np.where(np.arange(8) < 3, 0.01, 1.0)
    border[0], border[1] = 3.0, -3.0  # as pixels: the same range, hardly ever used
    outliers = normal.copy()
    outliers[0] *= np.arange(1, 9) * 4
    outliers /= outliers.std(axis=0)
    counts = random.poisson(1 / np.arange(1, 60), (400, 59))
    for alike in (normal, rare, border, outliers, counts, np.hstack([normal, rare])):
        assert unlike_columns(container(alike.astype(float))) is None
    largest, low, ratio = unlike_columns(container(normal * 10.0 ** np.arange(8)))
    assert (largest, low) == (7, 1)
    assert ratio == pytest.approx(1e6, rel=0.2)
    assert unlike_columns(container(normal[:, :2] * [1, 100])) is not None
    assert unlike_columns(container(np.hstack([rare, 1000 * normal]))) is not None
    assert unlike_columns(container(np.full((5, 2), 3.0))) is None

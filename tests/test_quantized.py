import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import naive
from kernlet import KernelExpansion, QuantizedExpansion
from kernlet.affine import AffineMap
from kernlet.kernels.rbf import RBF
from kernlet.quantization import FORMATS, encode

every_format = pytest.mark.parametrize("name", FORMATS)
every_form = pytest.mark.parametrize("projected", [False, True], ids=["plain", "projected"])
every_widths = pytest.mark.parametrize("widths", ["one", "many"])
SHIFT, SCALE = 0.3, 1.7


def make(name="int4", projected=True, widths="many", seed=0, n_centers=5, n_outputs=3):
    random = np.random.default_rng(seed)
    n_features, rank = 6, 4 if projected else 6
    return QuantizedExpansion(
        random.uniform(0.1, 0.5, n_centers if widths == "many" else 1),
        encode(random.normal(size=(n_centers, rank)), FORMATS[name]),
        encode(random.normal(size=(n_outputs, n_centers)), FORMATS[name]),
        random.normal(size=n_outputs).astype(np.float32),
        SHIFT,
        SCALE,
        encode(random.normal(size=(rank, n_features)), FORMATS[name]) if projected else None,
    )


def rows(seed=0, n_rows=9):
    return np.random.default_rng(seed).normal(size=(n_rows, 6))


def unpacked(machine):
    """The plain machine of the decoded tables."""
    tables = {n: None if t is None else t.decoded() for n, t in machine.packed.items()}
    gamma = machine.gamma
    kernel = RBF(float(gamma[0]) if len(gamma) == 1 else gamma)
    scale = 1 / np.array([SCALE], dtype=np.float32)
    front = AffineMap(np.array([SHIFT], dtype=np.float32), scale, tables["projection"])
    return KernelExpansion(kernel, tables["centers"], tables["coef"], machine.intercept, front)


@every_format
@every_form
@every_widths
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_are_those_of_the_decoded_machine_bit_for_bit(name, projected, widths, dtype):
    machine, X = make(name, projected, widths), rows().astype(dtype)
    np.testing.assert_array_equal(machine.decision_values(X), unpacked(machine).decision_values(X))


@pytest.mark.parametrize("name", [n for n, format in FORMATS.items() if format.n_levels])
@every_form
@every_widths
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_values_are_those_of_plain_loops_over_codes(name, projected, widths, seed):
    machine, X = make(name, projected, widths, seed), rows(seed)
    parts = {n: None if t is None else (t.codes(), t.step) for n, t in machine.packed.items()}
    expected = naive.quantized_values(
        X, machine.gamma, **parts, intercept=machine.intercept, shift=SHIFT, scale=SCALE
    )
    np.testing.assert_allclose(machine.decision_values(X), expected, rtol=1e-5, atol=1e-5)


@every_form
def test_sparse_rows_give_the_values_of_dense_ones(projected):
    machine, X = make(projected=projected), rows() * (rows(1) > 0)
    np.testing.assert_allclose(
        machine.decision_values(sparse.csr_array(X)), machine.decision_values(X), atol=1e-6
    )


@pytest.mark.parametrize(
    ("name", "projected", "widths", "n_bytes"),
    [
        # tables with their steps, gamma, intercept, shift and scale
        ("float32", False, "one", 4 * 30 + 4 * 15 + 4 + 12 + 8),
        ("float16", False, "many", (2 * 30 + 4) + (2 * 15 + 4) + 20 + 12 + 8),
        ("int8", False, "one", (30 + 4) + (15 + 4) + 4 + 12 + 8),
        ("int6", False, "one", (23 + 4) + (12 + 4) + 4 + 12 + 8),
        ("int4", False, "many", (15 + 4) + (8 + 4) + 20 + 12 + 8),
        ("int4", True, "many", (10 + 4) + (8 + 4) + (12 + 4) + 20 + 12 + 8),
        ("ternary", True, "one", (4 + 4) + (3 + 4) + (5 + 4) + 4 + 12 + 8),
    ],
)
def test_nbytes_by_hand(name, projected, widths, n_bytes):
    assert make(name, projected, widths).nbytes == n_bytes


@every_format
@every_form
@every_widths
def test_pickle_is_small_and_gives_the_same_values(name, projected, widths):
    machine = make(name, projected, widths, n_centers=60)
    machine.decision_values(rows())
    pickled = pickle.dumps(machine)
    again = pickle.loads(pickled)
    assert len(pickled) < machine.nbytes + 2000
    assert again.nbytes == machine.nbytes
    np.testing.assert_array_equal(again.decision_values(rows()), machine.decision_values(rows()))


def test_counts_and_formats():
    machine = make("int6", projected=True)
    assert (machine.n_centers, machine.n_outputs, machine.n_features, machine.rank) == (5, 3, 6, 4)
    assert machine.storage == dict.fromkeys(("centers", "coef", "projection"), "int6")
    assert "projection" not in make(projected=False).storage


@pytest.mark.parametrize("shape", [(2,), (6,), (5, 1), (0,)])
def test_widths_of_another_number_are_refused(shape):
    tables = make().packed
    with pytest.raises(ValueError, match="give one width, or one for each of the 5 centers"):
        QuantizedExpansion(np.ones(shape), tables["centers"], tables["coef"], np.zeros(3))


def test_projection_to_another_width_is_refused():
    tables = make().packed
    wrong = encode(np.ones((3, 6)), FORMATS["int4"])
    with pytest.raises(ValueError, match="leads to 3 numbers a row, but the centers have 4"):
        QuantizedExpansion([1.0], tables["centers"], tables["coef"], np.zeros(3), projection=wrong)


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match="X has 4 features, but the machine was made for 6"):
        make().decision_values(rows()[:, :4])

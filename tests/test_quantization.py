import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import naive
from kernlet import KernelExpansion, QuantizedExpansion
from kernlet.affine import AffineMap
from kernlet.kernels.rbf import RBF
from kernlet.quantization import FORMATS, best_step, encode

CODED = [name for name, format in FORMATS.items() if format.n_levels]
every_format = pytest.mark.parametrize("name", FORMATS)
every_coded_format = pytest.mark.parametrize("name", CODED)
steps = st.floats(2.0**-10, 2.0**10, width=32)


@st.composite
def some_codes(draw, format, max_count=40):
    count = draw(st.integers(0, max_count))
    levels = st.integers(-format.n_levels, format.n_levels)
    return draw(arrays(np.int8, count, elements=levels))


def rounding_error(values, step, n_levels):
    return np.sum((np.clip(np.rint(values / step), -n_levels, n_levels) * step - values) ** 2)


@every_coded_format
@settings(max_examples=60, deadline=None)
@given(data=st.data(), step=steps)
def test_codes_come_back_from_their_bytes(name, data, step):
    format = FORMATS[name]
    codes = data.draw(some_codes(format))
    packed = encode(codes.astype(np.float32) * np.float32(step), format, step=step)
    assert packed.data.dtype == np.uint8
    np.testing.assert_array_equal(packed.codes(), codes)


@every_coded_format
@settings(max_examples=60, deadline=None)
@given(data=st.data(), step=steps)
def test_decoded_numbers_are_codes_times_the_step_in_float32(name, data, step):
    codes = data.draw(some_codes(FORMATS[name]))
    decoded = encode(codes * np.float32(step), FORMATS[name], step=step).decoded()
    assert decoded.dtype == np.float32
    np.testing.assert_array_equal(decoded, codes.astype(np.float32) * np.float32(step))


@pytest.mark.parametrize("name", ["int8", "int6", "int4"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_bytes_are_one_long_number_with_the_first_code_lowest(name, data):
    format = FORMATS[name]
    codes = data.draw(some_codes(format))
    number = sum((int(c) + format.n_levels) << (int(format.bits) * i) for i, c in enumerate(codes))
    expected = number.to_bytes(-(-len(codes) * int(format.bits) // 8), "little")
    assert encode(codes.astype(float), format, step=1.0).data.tobytes() == expected


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_five_ternary_codes_are_the_digits_of_a_byte(data):
    codes = data.draw(some_codes(FORMATS["ternary"]))
    digits = (codes + 1).tolist()
    expected = [
        sum(digit * 3**place for place, digit in enumerate(digits[start : start + 5]))
        for start in range(0, len(digits), 5)
    ]
    assert encode(codes.astype(float), FORMATS["ternary"], step=1.0).data.tolist() == expected


@every_format
@settings(max_examples=40, deadline=None)
@given(count=st.integers(0, 200))
def test_bytes_are_those_the_format_says(name, count):
    packed = encode(np.linspace(-1, 1, count), FORMATS[name])
    assert packed.nbytes == FORMATS[name].n_bytes(count)


@pytest.mark.parametrize(
    ("name", "count", "n_bytes"),
    [
        ("float32", 3, 12),
        ("float16", 3, 10),
        ("int8", 3, 7),
        ("int6", 3, 7),
        ("int6", 4, 7),
        ("int6", 5, 8),
        ("int4", 3, 6),
        ("ternary", 5, 5),
        ("ternary", 6, 6),
        ("ternary", 0, 4),
    ],
)
def test_bytes_by_hand(name, count, n_bytes):
    assert FORMATS[name].n_bytes(count) == n_bytes


@every_format
@pytest.mark.parametrize("shape", [(3, 7), (1, 1), (0, 4), (4, 0), (2, 3, 5)])
def test_shape_comes_back(name, shape):
    values = np.random.default_rng(0).normal(size=shape)
    packed = encode(values, FORMATS[name])
    assert packed.decoded().shape == shape
    assert packed.decoded().dtype == np.float32


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_floating_point_tables_hold_the_rounded_numbers(name):
    values = np.random.default_rng(1).normal(size=(4, 3))
    packed = encode(values, FORMATS[name])
    np.testing.assert_array_equal(packed.decoded(), values.astype(name).astype(np.float32))
    with pytest.raises(ValueError, match=f"A {name} array has no codes"):
        packed.codes()


@every_coded_format
@settings(max_examples=60, deadline=None)
@given(data=st.data(), step=steps)
def test_rounding_is_off_by_half_a_step_at_most_inside_the_range(name, data, step):
    format = FORMATS[name]
    multiples = data.draw(
        arrays(np.float64, 20, elements=st.floats(-format.n_levels, format.n_levels))
    )
    values = multiples * step
    errors = np.abs(encode(values, format, step=step).decoded() - values)
    assert np.all(errors <= step / 2 + 1e-6 * np.abs(values))


@every_coded_format
def test_numbers_beyond_the_range_become_the_last_level(name):
    n_levels = FORMATS[name].n_levels
    packed = encode(np.array([-1e6, 1e6]), FORMATS[name], step=0.5)
    assert packed.codes().tolist() == [-n_levels, n_levels]


@every_coded_format
@settings(max_examples=60, deadline=None)
@given(
    values=arrays(
        np.float32,
        st.integers(1, 50),
        elements=st.floats(-100, 100, width=32, allow_subnormal=False),
    )
)
def test_best_step_is_no_worse_than_the_largest_value_over_the_levels(name, values):
    n_levels = FORMATS[name].n_levels
    values = values.astype(np.float64)
    plain = np.abs(values).max() / n_levels or 1.0
    best = rounding_error(values, best_step(values, n_levels), n_levels)
    assert best <= rounding_error(values, plain, n_levels) * (1 + 1e-9)


def test_best_step_of_many_small_numbers_and_a_large_one_cuts_the_large_one():
    values = np.append(np.random.default_rng(2).normal(size=1000), 30.0)
    assert best_step(values, 7) < 0.5 * 30 / 7


@every_format
@pytest.mark.parametrize("shape", [(3, 4), (0,)])
def test_arrays_of_zeros_are_zero(name, shape):
    packed = encode(np.zeros(shape), FORMATS[name])
    np.testing.assert_array_equal(packed.decoded(), np.zeros(shape))
    assert packed.step == 1.0


@settings(max_examples=60, deadline=None)
@given(
    values=arrays(np.float64, st.integers(1, 20), elements=st.floats(-(2.0**15), 2.0**15, width=32))
)
def test_numbers_within_the_range_of_float16_have_the_step_one(values):
    packed = encode(values, FORMATS["float16"])
    assert packed.step == 1.0
    np.testing.assert_array_equal(packed.decoded(), values.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("largest", [2.0**15 + 64, 65536.0, -1e6, 1e20, 1e30])
def test_numbers_beyond_the_range_of_float16_go_into_its_step(largest):
    values = largest * np.array([1.0, -0.3, 0.01, 0.0])
    packed = encode(values, FORMATS["float16"])
    assert packed.step > 1.0
    assert np.isfinite(packed.data).all()
    np.testing.assert_allclose(packed.decoded(), values, rtol=1e-3)


def test_a_step_given_to_float16_is_kept():
    packed = encode(np.array([1e6, 2e6]), FORMATS["float16"], step=1000.0)
    assert packed.step == 1000.0
    np.testing.assert_allclose(packed.decoded(), [1e6, 2e6], rtol=1e-3)
    with pytest.raises(ValueError, match="numbers of 1e\\+06: scale the data"):
        encode(np.array([1e6]), FORMATS["float16"], step=1.0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@every_format
def test_what_is_no_number_is_refused(name, value):
    with pytest.raises(ValueError, match="NaN or infinity; the training has failed"):
        encode(np.array([0.0, value]), FORMATS[name])


@pytest.mark.parametrize("step", [0.0, -1.0, np.nan])
@every_format
def test_steps_that_are_not_positive_are_refused(name, step):
    with pytest.raises(ValueError, match="step of a packed array must be positive"):
        encode(np.ones(2), FORMATS[name], step=step)


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
    input_map = AffineMap(np.array([SHIFT], dtype=np.float32), scale, tables["projection"])
    return KernelExpansion(kernel, tables["centers"], tables["coef"], machine.intercept, input_map)


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


def make_diagonal(step=0.6931472, **options):
    machine = make("int8", n_centers=60, **options)
    logs = np.random.default_rng(1).integers(-1, 2, machine.centers.shape) * step
    return machine.replaced(log_weights=encode(logs, FORMATS["ternary"], step))


@every_form
@every_widths
@pytest.mark.parametrize("step", [np.log(2.0), np.log(4.0), 0.3])
def test_weights_of_features_are_those_of_plain_loops(projected, widths, step):
    machine, X = make_diagonal(step, projected=projected, widths=widths), rows()
    parts = {n: None if t is None else (t.codes(), t.step) for n, t in machine.packed.items()}
    expected = naive.quantized_values(
        X, machine.gamma, **parts, intercept=machine.intercept, shift=SHIFT, scale=SCALE
    )
    np.testing.assert_allclose(machine.decision_values(X), expected, rtol=1e-5, atol=1e-5)
    single = machine.decision_values(X.astype(np.float32))
    np.testing.assert_allclose(single, expected, rtol=1e-4, atol=1e-4)


def test_weights_of_features_are_stored():
    plain, machine = make("int8", n_centers=60), make_diagonal()
    assert machine.nbytes == plain.nbytes + 60 * 4 // 5 + 4
    assert machine.storage["log_weights"] == "ternary"
    pickled = pickle.dumps(machine)
    again = pickle.loads(pickled)
    assert len(pickled) < machine.nbytes + 2000
    for same in (again, machine.replaced(), machine.replaced(shift=SHIFT)):
        assert same.nbytes == machine.nbytes
        values = same.decision_values(rows())
        np.testing.assert_array_equal(values, machine.decision_values(rows()))
    without = machine.replaced(log_weights=None)
    np.testing.assert_array_equal(without.decision_values(rows()), plain.decision_values(rows()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 1.0}, "leave alpha out"),
        ({"log_weights": encode(np.ones((60, 4)), FORMATS["int8"])}, "must be ternary, not int8"),
        ({"log_weights": encode(np.ones((4, 60)), FORMATS["ternary"])}, r"centers have \(60, 4\)"),
        ({"log_weights": encode(np.ones((60, 4)), FORMATS["ternary"], 70.0)}, "at most 69, not 70"),
    ],
)
def test_other_weights_of_features_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make_diagonal().replaced(**changes)


@pytest.mark.parametrize("shape", [(2,), (6,), (5, 1), (0,)])
def test_widths_of_another_number_are_refused(shape):
    tables = make().packed
    with pytest.raises(ValueError, match="give one width, or one for each of the 5 centers"):
        QuantizedExpansion(np.ones(shape), tables["centers"], tables["coef"], np.zeros(3))


def test_projection_to_another_width_is_refused():
    tables = make().packed
    wrong = encode(np.ones((3, 6)), FORMATS["int4"])
    with pytest.raises(ValueError, match="gives 3 numbers per row, but the centers have 4"):
        QuantizedExpansion([1.0], tables["centers"], tables["coef"], np.zeros(3), projection=wrong)


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match="X has 4 features, but the machine was made for 6"):
        make().decision_values(rows()[:, :4])


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_beyond_float32_are_refused_and_tiny_ones_are_not_divided_by_zero(name):
    with pytest.raises(ValueError, match=r"numbers of 1e\+300: scale the data"):
        encode(np.array([1e300, 1.0]), FORMATS[name])
    for tiny in (1e-44, 1e-300):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            packed = encode(np.array([tiny, -tiny, 0.0]), FORMATS[name])
        assert packed.step > 0
        assert np.abs(packed.decoded()).max() < 1e-37


@pytest.mark.parametrize(("shift", "scale"), [(1e39, 1.0), (0.0, 1e-45), (0.0, 1e39), (0.0, 0.0)])
def test_shifts_and_scales_that_float32_does_not_have_are_refused(shift, scale):
    packed = encode(np.eye(2), FORMATS["int8"])
    with pytest.raises(ValueError, match="does not fit in float32: change their unit"):
        QuantizedExpansion(np.ones(1), packed, packed, np.zeros(2), shift, scale)

"""What compact machines of every shape store, and in how many bytes."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernlet.compact.path import KERNELS
from kernlet.compact.plan import LOG_GAMMA_STEP, StoragePlan
from kernlet.devices import to_numpy
from kernlet.quantization import FORMATS, encode_columns, scaling_bytes

formats = st.tuples(*[st.sampled_from(sorted(FORMATS))] * 3)
sizes = st.integers(1, 40)


@st.composite
def plans(draw):
    """Plans of every shape."""
    kernel = draw(st.sampled_from((*KERNELS, "diagonal_rbf")))
    block = draw(st.sampled_from([1, 1, 1, 2]))
    n_features = draw(st.sampled_from([4, 16, 36])) if block == 2 else draw(sizes)
    n_inputs = n_features // block**2
    rank = draw(st.none() | st.integers(1, n_inputs))
    widths = ["shared", "per_center"]
    if rank is None and block == 1:
        widths.append("per_feature")
    width = draw(st.sampled_from(widths))
    is_asinh = block == 1 and width != "per_feature" and draw(st.booleans())
    return StoragePlan(
        n_features,
        draw(st.integers(1, 12)),
        draw(sizes),
        rank,
        draw(formats),
        width,
        draw(st.sampled_from([2, 4, 8])),
        kernel=kernel,
        n_entries=draw(st.none() | st.integers(1, 4)),
        n_steps=0 if block == 2 else draw(st.integers(0, 6)),
        is_asinh=is_asinh,
        block=block,
    )


def arrays_of(plan, seed=0):
    """Random parameters of a network of this plan."""
    random = np.random.default_rng(seed)
    rank = plan.n_inputs if plan.rank is None else plan.rank
    arrays = {
        "centers": random.normal(size=(plan.n_centers, rank)),
        "weights": random.normal(size=(plan.n_outputs, plan.n_centers)),
        "intercept": random.normal(size=plan.n_outputs),
    }
    arrays["log_gamma"] = random.normal(size=plan.n_centers if plan.has_widths else 1)
    if plan.kernel == "rational_quadratic":
        arrays["log_alpha"] = random.normal(size=1)
    if plan.kernel == "diagonal_rbf":
        arrays["log_weights"] = np.log(2) * random.integers(-1, 2, size=(plan.n_centers, rank))
    if plan.rank is not None:
        arrays["projection"] = random.normal(size=(plan.rank, plan.n_inputs))
    if plan.width == "per_feature":
        arrays["log_feature_scales"] = random.normal(size=plan.n_inputs)
    if plan.n_steps:
        arrays["jumps"] = random.normal(size=plan.n_steps)
    return arrays


def places_of(plan, seed=0):
    """Features and thresholds of the steps."""
    random = np.random.default_rng(seed)
    if not plan.n_steps:
        return None
    features = random.integers(plan.n_inputs, size=plan.n_steps)
    return features, random.normal(size=plan.n_steps).astype(np.float16)


def packed(plan):
    return plan.pack(arrays_of(plan), {}, 0.5, 2.0, places_of(plan))


@settings(max_examples=200, deadline=None)
@given(plan=plans())
def test_bytes_are_those_of_a_packed_network(plan):
    expansion = packed(plan)
    assert expansion.nbytes == plan.nbytes
    assert expansion.n_centers == plan.n_centers
    assert expansion.n_features == plan.n_features
    assert plan.keeps_all == (expansion.n_entries is None)


@settings(max_examples=60, deadline=None)
@given(plan=plans())
def test_a_pickle_is_the_same_machine(plan):
    expansion = packed(plan)
    rows = np.random.default_rng(1).normal(size=(5, plan.n_features))
    restored = pickle.loads(pickle.dumps(expansion))
    assert restored.nbytes == expansion.nbytes
    np.testing.assert_array_equal(restored.decision_values(rows), expansion.decision_values(rows))


def by_hand(plan, row):
    """The outputs of a packed network for one row, number by number."""
    expansion, arrays = packed(plan), arrays_of(plan)
    x = np.asarray(row, dtype=float)
    if plan.block == 2:
        side = int(np.sqrt(plan.n_features))
        image = x.reshape(side, side)
        x = np.array(
            [
                image[i : i + 2, j : j + 2].mean()
                for i in range(0, side, 2)
                for j in range(0, side, 2)
            ]
        )
    u = (x - 0.5) / 2
    if plan.width == "per_feature":
        u = u * np.exp(arrays["log_feature_scales"])
    if plan.is_asinh:
        u = np.arcsinh(u)
    h = u.copy()
    if plan.n_steps:
        features, thresholds = places_of(plan)
        for d, t, v in zip(features, thresholds, arrays["jumps"], strict=True):
            factor = np.exp(arrays["log_feature_scales"][d]) if plan.width == "per_feature" else 1
            h[d] += factor * v * (u[d] > factor * t)
    if plan.rank is not None:
        h = arrays["projection"] @ h
    outputs = np.array(expansion.intercept, dtype=float)
    for j, z in enumerate(arrays["centers"]):
        weights = np.exp(arrays["log_weights"][j]) if "log_weights" in arrays else 1.0
        distance = np.sum(weights * (h - z) ** 2)
        gamma = np.exp(arrays["log_gamma"][j if plan.has_widths else 0])
        if plan.kernel == "rational_quadratic":
            alpha = np.exp(arrays["log_alpha"][0])
            value = (1 + gamma * distance / alpha) ** -alpha
        else:
            value = np.exp(-gamma * distance)
        outputs += value * expansion.coef[:, j]
    return outputs


@settings(max_examples=150, deadline=None)
@given(plan=plans())
def test_the_stored_machine_computes_its_formula(plan):
    plan = replace(plan, formats=("float32",) * 3, intercept_bytes=8)
    if plan.width == "per_center":
        plan = replace(plan, width="shared")  # which are rounded
    rows = np.random.default_rng(1).normal(size=(4, plan.n_features))
    expected = np.array([by_hand(plan, row) for row in rows])
    # jumps and scales of features are rounded
    is_rounded = plan.n_steps or plan.width == "per_feature"
    tolerance = 0.2 if is_rounded else 1e-5
    np.testing.assert_allclose(packed(plan).decision_values(rows), expected, atol=tolerance)


def test_widths_of_centers_take_a_byte_each():
    plan = StoragePlan(3, 1, 50, width="per_center")
    arrays = arrays_of(plan)
    gamma = packed(plan).gamma
    assert np.abs(np.log(gamma) - arrays["log_gamma"]).max() <= LOG_GAMMA_STEP / 2 + 1e-6
    assert plan.nbytes - replace(plan, width="shared").nbytes == 50 + 4 - 4


@pytest.mark.parametrize("unit", [1e-9, 1e-4, 1.0, 1e7, 1e9])
def test_widths_of_features_of_any_unit_keep_their_digits(unit):
    shift, scale = encode_columns(np.zeros(3), np.array([0.9, 1.1, unit]))
    plan = StoragePlan(3, 1, 2, width="per_feature", scaling_bytes=scaling_bytes(shift, scale))
    arrays = arrays_of(plan)
    expansion = plan.pack(arrays, {}, shift, scale)
    expected = scale.decoded() / np.exp(arrays["log_feature_scales"])
    error = 2e-3 if 1e-8 < unit < 1e8 else 0.03  # subnormal numbers of float16
    np.testing.assert_allclose(expansion.scale.decoded(), expected, rtol=error)
    assert expansion.nbytes == plan.nbytes


def test_steps_of_features_that_two_bytes_cannot_number_are_refused():
    plan = StoragePlan(2**16, 2, 3, n_steps=1)
    with pytest.raises(ValueError, match="up to 65,536 features, and there are 65,537"):
        replace(plan, n_features=2**16 + 1)


@pytest.mark.parametrize(("n_entries", "text"), [(1, "of 1 class per"), (2, "of 2 classes per")])
def test_plans_say_how_many_classes_a_center_has(n_entries, text):
    assert text in StoragePlan(3, 10, 30, n_entries=n_entries).describe()


def test_a_center_keeps_its_largest_coefficients():
    plan = StoragePlan(3, 10, 30, formats=("int8", "int4", "int8"), n_entries=2)
    dense, coef = arrays_of(plan)["weights"], packed(plan).coef
    assert ((coef != 0).sum(axis=0) <= 2).all()
    kept = np.argsort(-np.abs(dense), axis=0)[:2]
    assert all(set(np.flatnonzero(coef[:, j])) <= set(kept[:, j]) for j in range(30))
    assert plan.nbytes < replace(plan, n_entries=None).nbytes


@pytest.mark.parametrize("kernel", KERNELS)
def test_values_on_torch_are_those_of_numpy(kernel):
    torch = pytest.importorskip("torch")
    plan = StoragePlan(4, 3, 20, kernel=kernel, n_steps=3, is_asinh=True)
    rows = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    expected = packed(plan).decision_values(rows)
    values = to_numpy(packed(plan).decision_values(torch.asarray(rows)))
    np.testing.assert_allclose(values, expected, atol=2e-4)

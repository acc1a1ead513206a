"""Limits of processors: estimates against what is measured, and what a search makes of them."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.random_plans import random_machine, random_plan
from benchmarks.suites.limits import searched_plan
from kernlet import CompactKernelClassifier, CompactKernelRegressor
from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.export.emulate import missing_emulator
from kernlet.export.limits import PROCESSORS, DeviceCost, DeviceLimits
from kernlet.export.toolchain import TARGETS
from kernlet.quantization import FORMATS
from support.exportable_models import IRIS, IRIS_LABELS

ARITHMETICS = ("float", "integer")
#: Estimates over what is measured: the constants come from one version of gcc, others differ.
#: Nine of ten random machines are below 1.4, see docs/results/ship-limits.md.
LEAST, MOST, MOST_OF_ANY = 0.95, 1.5, 1.7
SLACK = {"flash": 100, "ram": 40, "instructions": 500}  # of very small machines

#: A plan of each shape, some without a scaler in front.
SHAPES = {
    "plain": StoragePlan(16, 6, 20, formats=STORAGE["int4"]),
    "projected": StoragePlan(36, 6, 40, rank=24, formats=("int4", "int4", "ternary")),
    "few classes": StoragePlan(16, 26, 60, rank=16, formats=("int4", "int4", "int8"), n_entries=2),
    "regression": StoragePlan(8, 1, 15, formats=STORAGE["int8"], intercept_bytes=8),
    "widths of features": StoragePlan(9, 3, 12, formats=STORAGE["int8"], width="per_feature"),
    "steps over asinh": StoragePlan(
        **{"n_features": 12, "n_outputs": 3, "n_centers": 12, "formats": STORAGE["int8"]},
        **{"n_steps": 8, "is_asinh": True, "scaling_bytes": 4 * 12 + 8},
    ),
    "means of blocks": StoragePlan(64, 10, 20, rank=8, formats=STORAGE["int4"], block=2),
    "rational quadratic": StoragePlan(
        13, 4, 25, formats=STORAGE["int4"], width="per_center", kernel="rational_quadratic"
    ),
    "weights of features": StoragePlan(
        **{"n_features": 16, "n_outputs": 1, "n_centers": 20, "formats": STORAGE["int4"]},
        **{"width": "per_center", "kernel": "diagonal_rbf", "scaling_bytes": 4 * 16 + 8},
    ),
}
QUICK_SHAPES = ("plain", "projected", "few classes")


def check_estimate(processor, arithmetic, plan, has_scaler, random, most=MOST):
    target = PROCESSORS[processor][0]
    if missing := TARGETS[target].missing or missing_emulator(target):
        pytest.skip(missing)
    model, rows = random_machine(random, plan, has_scaler)
    limits = DeviceLimits(
        processor, instructions="1G", arithmetic=arithmetic, has_scaler=has_scaler
    )
    cost, estimate = limits.measure(model, rows), limits.estimate(plan)
    assert cost.estimated == ()
    for name, slack in SLACK.items():
        exact, estimated = getattr(cost, name), getattr(estimate, name)
        assert LEAST * exact <= estimated <= most * exact + slack, name


@pytest.mark.parametrize(
    "shape",
    [s if s in QUICK_SHAPES else pytest.param(s, marks=pytest.mark.slow) for s in SHAPES],
)
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_estimates_are_a_little_more_than_what_is_measured(processor, arithmetic, shape):
    has_scaler = shape in ("few classes", "regression")
    check_estimate(processor, arithmetic, SHAPES[shape], has_scaler, np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20_000, 20_008))
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_estimates_of_random_machines(processor, arithmetic, seed):
    random = np.random.default_rng(seed)
    plan = searched_plan(random)
    check_estimate(processor, arithmetic, plan, seed % 2 == 1, random, MOST_OF_ANY)


@pytest.mark.parametrize("n_outputs", [1, 2, 4, 5, 12])
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_all_formats_have_an_estimate(processor, arithmetic, n_outputs):
    limits = DeviceLimits(processor, instructions="1G", arithmetic=arithmetic)
    for format, n_features in product(FORMATS, (3, 4, 5, 20)):
        plan = StoragePlan(n_features, n_outputs, 9, rank=n_features, formats=(format,) * 3)
        cost = limits.estimate(plan)
        assert 0 < cost.ram < cost.flash
        assert 500 < cost.instructions < 10**6


def limits_within(processor, **limits):
    return DeviceLimits(processor, arithmetic="float", **limits)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    processor=st.sampled_from(sorted(PROCESSORS)),
    flash=st.none() | st.integers(2000, 20_000),
    instructions=st.integers(5000, 10**7),
    ram=st.none() | st.integers(100, 2000),
)
def test_the_most_centers_stay_within_the_limits_and_one_more_does_not(
    seed, processor, flash, instructions, ram
):
    plan = random_plan(np.random.default_rng(seed))
    limits = limits_within(processor, flash=flash, ram=ram, instructions=instructions)
    n_centers = limits.max_centers(plan)
    if n_centers:
        assert not limits.exceeded(limits.estimate(replace(plan, n_centers=n_centers)))
    assert limits.exceeded(limits.estimate(replace(plan, n_centers=n_centers + 1)))


def test_flash_leaves_bytes_for_tables():
    limits = limits_within("cortex-m4f", flash="8k")
    n_bytes = limits.max_bytes(36, 6)
    assert 7000 < n_bytes < 7900
    assert limits_within("cortex-m4f", flash="4k").max_bytes(36, 6) == n_bytes - 4000
    scaled = replace(limits, has_scaler=True)
    assert n_bytes - 36 * 8 - 600 < scaled.max_bytes(36, 6) < n_bytes - 36 * 8 + 16
    assert replace(limits, share=0.5).max_bytes(36, 6) == n_bytes - 4000


def test_instructions_limit_the_bytes_that_can_be_read():
    few = limits_within("cortex-m4f", instructions="20k").max_bytes(36, 6)
    many = limits_within("cortex-m4f", instructions="100k").max_bytes(36, 6)
    assert 500 < few < many / 4
    both = limits_within("cortex-m4f", instructions="20k", flash="64k")
    assert both.max_bytes(36, 6) == few


def test_limits_that_no_machine_meets_are_refused_with_what_one_takes():
    limits = limits_within("cortex-m0", flash=600, ram=100, instructions="1k")
    with pytest.raises(ValueError, match="a single center for 36 features and 6 outputs") as error:
        limits.max_bytes(36, 6)
    for words in ("bytes of flash, more than 600", "bytes of RAM, more than 100", "than 1,000:"):
        assert words in str(error.value)
    assert limits.max_centers(StoragePlan(36, 6, 1)) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"processor": "z80", "flash": 1}, "processor='z80' is not one of cortex-m0, cortex-m4f"),
        ({"processor": "cortex-m0", "ram": 1000}, "Give flash or instructions"),
        ({"processor": "cortex-m0", "flash": "much"}, "'much' is not a number of bytes"),
        (
            {"processor": "atmega328p", "flash": "40k"},
            "flash=40,000, but the ATmega328P has 32,768",
        ),
        ({"processor": "cortex-m0", "flash": 1, "arithmetic": "fast"}, "is not auto, integer or"),
    ],
)
def test_wrong_limits_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DeviceLimits(**options)


def test_defaults_follow_from_the_processor():
    limits = DeviceLimits("atmega328p")
    assert (limits.arithmetic, limits.limits) == ("integer", {"flash": 32768, "ram": 2048})
    limits = DeviceLimits("cortex-m4f", flash="16Ki", instructions="1.5M")
    assert limits.arithmetic == "float"
    assert limits.limits == {"flash": 16_384, "instructions": 1_500_000}


def test_limits_that_were_exceeded_are_tightened_by_the_ratio():
    limits = limits_within("cortex-m4f", flash=8000, instructions=10_000)
    cost = DeviceCost(flash=7000, ram=500, instructions=12_500, estimated=())
    assert limits.exceeded(cost) == ["12,500 of 10,000 instructions per prediction"]
    assert limits.tightened(cost).share == pytest.approx(0.8)
    assert limits.tightened(replace(cost, instructions=10_000)).share == 1.0
    plan = StoragePlan(36, 6, 1, formats=STORAGE["int4"])
    assert limits.tightened(cost).max_centers(plan) < limits.max_centers(plan)
    described = limits.describe(replace(cost, estimated=("ram",)))
    assert described == (
        "7,000 of 8,000 bytes of flash, 500 bytes of RAM (estimated), "
        "12,500 of 10,000 instructions per prediction"
    )


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_search_stays_within_the_limits(processor):
    instructions = {"cortex-m0": "30k", "cortex-m4f": "1.5k", "atmega328p": "40k"}[processor]
    limits = limits_within(processor, instructions=instructions)
    machine = CompactKernelClassifier(
        max_bytes=limits.max_bytes(4, 3),
        max_centers=limits.max_centers,
        n_epochs=3,
        random_state=0,
    ).fit(IRIS, IRIS_LABELS)
    assert machine.n_centers_ < 30
    assert not limits.exceeded(limits.estimate(StoragePlan.of(machine.expansion_)))
    # measured where there are tools, and estimated otherwise
    assert not limits.exceeded(limits.measure(machine, IRIS))


def test_without_compilers_costs_are_estimated(monkeypatch):
    monkeypatch.setattr("kernlet.export.toolchain.shutil.which", lambda name: None)
    limits = limits_within("cortex-m4f", flash="8k")
    regressor = CompactKernelRegressor(5, storage="int8", n_epochs=2, random_state=0)
    regressor.fit(IRIS[:, :3], IRIS[:, 3])
    cost = limits.measure(regressor, IRIS[:, :3])
    assert cost == limits.estimate(StoragePlan.of(regressor.expansion_))
    assert cost.estimated == ("flash", "ram", "instructions")
    scaled = make_pipeline(StandardScaler(), regressor).fit(IRIS[:, :3], IRIS[:, 3])
    assert limits.measure(scaled, IRIS[:, :3]).flash > cost.flash
    with pytest.raises(ValueError, match="estimated for compact machines alone"):
        limits.measure(SVC().fit(IRIS, IRIS_LABELS), IRIS)

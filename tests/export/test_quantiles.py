"""Quantiles in files and exports: sorted everywhere, named, with intervals in C."""

import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from kernlet import CompactKernelRegressor, load, save, to_c
from kernlet.export.integer_module import IntegerModule
from kernlet.export.onnx import to_onnx
from kernlet.export.schema import ModelFileError
from kernlet.model.model import Model, as_model
from support.c_programs import ALL_WARNINGS, STRICT, needs_gcc
from support.exportable_models import IRIS, regressor
from support.random_machines import random_compact

LEVELS = (0.1, 0.45, 0.5, 0.55, 0.9)
IRIS_WIDTHS = IRIS[:, 3]


def test_the_machine_of_these_tests_crosses_before_it_is_sorted():
    machine, X = regressor("quantiles")
    model = as_model(machine)
    assert model.quantiles == LEVELS
    assert (np.diff(model.outputs(X), axis=1) < 0).any(axis=1).mean() > 0.05
    assert_array_equal(model.scores(model.outputs(X)), machine.predict(X))
    assert (np.diff(machine.predict(X), axis=1) >= 0).all()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    formats=st.sampled_from([("int8",), ("int4",), ("int4", "ternary", "int6")]),
    size=st.sampled_from([1.0, 100.0, 1e6]),
)
def test_quantiles_of_random_machines_do_not_cross_in_floats_or_integers(seed, formats, size):
    rng = np.random.default_rng(seed)
    points = lambda rng, *shape: rng.normal(size=shape)  # noqa: E731
    expansion = random_compact(rng, points=points, formats=formats, n_outputs=4)
    quantiles = (0.1, 0.2, 0.7, 0.8)
    model = Model(expansion, "regressor", is_flat=False, quantiles=quantiles)
    X = size * rng.normal(size=(40, expansion.n_features))
    assert (np.diff(model.scores(model.outputs(X)), axis=1) >= 0).all()
    try:
        module = IntegerModule.of(model, "model", X / size, None)
    except ValueError:  # too narrow for integers
        return
    inputs = rng.integers(-32768, 32768, (40, expansion.n_features))
    assert (np.diff(module.scores(inputs), axis=1) >= 0).all()


def test_files_keep_quantiles_and_names(tmp_path):
    machine, X = regressor("quantiles")
    named = replace(as_model(machine), output_names=tuple("abcde"))
    save(named, tmp_path / "model.kernlet")
    loaded = load(tmp_path / "model.kernlet")
    assert loaded.model_.quantiles == LEVELS
    assert loaded.model_.output_labels == tuple("abcde")
    assert_array_equal(loaded.predict(X), machine.predict(X))
    y = np.arange(len(X))
    assert loaded.score(X, y) == pytest.approx(machine.score(X, y))
    assert as_model(machine).output_labels == ("q0.1", "q0.45", "q0.5", "q0.55", "q0.9")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quantiles": (0.1, 0.9)}, "2 quantiles for the 5 outputs of a regressor"),
        ({"quantiles": (0.1, 0.2, 0.2, 0.5, 0.9)}, "quantiles that are not in ascending order"),
        ({"quantiles": (0.1, 0.2, 0.3, 0.5, 1.0)}, "larger than 0 and smaller than 1"),
        ({"output_names": ("a",)}, "1 output names for the 5 outputs of a regressor"),
        ({"kind": "transformer"}, "5 quantiles for the 5 outputs of a transformer"),
    ],
)
def test_files_that_would_not_fit_are_refused(changes, message, tmp_path):
    machine, _ = regressor("quantiles")
    with pytest.raises(ValueError, match=message) as caught:
        save(replace(as_model(machine), **changes), tmp_path / "model.kernlet")
    assert not isinstance(caught.value, ModelFileError)


def test_onnx_sorts_and_names_the_quantiles():
    onnxruntime = pytest.importorskip("onnxruntime")
    machine, X = regressor("quantiles")
    graph = to_onnx(machine, X=X)
    facts = {entry.key: entry.value for entry in graph.metadata_props}
    assert facts["outputs"].split("\n") == ["q0.1", "q0.45", "q0.5", "q0.55", "q0.9"]
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    rows = np.float32(100 * np.random.default_rng(0).normal(size=(500, X.shape[1])))
    for inputs in (np.float32(X), rows):
        (values,) = session.run(None, {"X": inputs})
        assert (np.diff(values, axis=1) >= 0).all()
        np.testing.assert_allclose(values, machine.predict(inputs.astype(float)), atol=1e-4)


MAIN = """
#include <stdio.h>
#include "model.c"
int main(void)
{{
    static const {kind} rows[{n}][MODEL_FEATURES] = {{ {rows} }};
    int i, k;
    for (i = 0; i < {n}; ++i) {{
        {score} values[MODEL_SCORES], low, high;
        model_predict(rows[i], values);
        model_interval(rows[i], &low, &high);
        printf("%.9g %.9g", (double)low, (double)high);
        for (k = MODEL_OUTPUT_Q0_1; k <= MODEL_OUTPUT_Q0_9; ++k) {{
            printf(" %.9g", (double)values[k]);
        }}
        printf("\\n");
    }}
    return 0;
}}
"""


@needs_gcc
@pytest.mark.parametrize("arithmetic", ["float", "integer"])
def test_intervals_in_c(arithmetic, tmp_path):
    machine, X = regressor("quantiles")
    source = to_c(machine, tmp_path, X=X, y=IRIS_WIDTHS, arithmetic=arithmetic)
    header = source.files[0].read_text("utf-8")
    assert "between which 80 % of the targets are expected" in header
    assert "Quantiles of the target (0.1, 0.45, 0.5, 0.55, 0.9), in ascending order" in header
    assert re.search(r"D2 0\.\d+ before, 0\.\d+ after", header)
    if arithmetic == "integer":
        module = IntegerModule.of(as_model(machine), "model", X, None)
        rows = np.random.default_rng(0).integers(-32768, 32768, (50, 3))
        rows = np.concatenate([module.machine.quantized(X), rows])
        expected, kinds = module.scores(rows), ("int16_t", "int32_t")
    else:
        rows = np.float32(np.concatenate([X, 50 * X]))
        expected, kinds = machine.predict(rows.astype(float)), ("float", "float")
    texts = [
        ", ".join(f"{v:.9e}f" if arithmetic == "float" else str(v) for v in row) for row in rows
    ]
    main = MAIN.format(
        kind=kinds[0],
        score=kinds[1],
        n=len(rows),
        rows=", ".join(f"{{{text}}}" for text in texts).replace("-32768", "-32767 - 1"),
    )
    (tmp_path / "main.c").write_text(main)
    command = ["gcc", *STRICT, *ALL_WARNINGS, "main.c", "-o", "main"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[:2000]
    ran = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    answers = np.array([line.split() for line in ran.stdout.splitlines()], dtype=float)
    tolerance = 0 if arithmetic == "integer" else source.tolerance
    np.testing.assert_allclose(answers[:, 2:], expected, rtol=0, atol=tolerance)
    assert_array_equal(answers[:, :2], answers[:, [2, -1]])
    assert (np.diff(answers[:, 2:], axis=1) >= 0).all()


def test_one_quantile_is_not_an_interval(tmp_path):
    _, X = regressor("quantiles")
    one = CompactKernelRegressor(4, loss="pinball", quantile=0.9, n_epochs=2, random_state=0)
    one.fit(X, IRIS_WIDTHS)
    assert as_model(one).is_flat
    header = to_c(one, tmp_path, X=X).files[0].read_text("utf-8")
    assert "_interval(" not in header
    assert "Quantiles of the target (0.9)." in header
    assert "MODEL_OUTPUT_Q0_9 = 0" in header
    save(one, tmp_path / "one.kernlet")
    assert_array_equal(load(tmp_path / "one.kernlet").predict(X), one.predict(X))

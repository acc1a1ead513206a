"""Small files that claim large machines: memory and time grow with the file."""

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import kernlet
from fuzz.model_files import parts, signed
from kernlet import KernelExpansion, QuantizedExpansion
from kernlet.kernels.rbf import RBF
from kernlet.model.model import Model
from kernlet.quantization import FORMATS, encode

WIDE = 2**31 - 1
MEGABYTES = 300
# In a process of its own, because memory that was taken once is seldom given back.
PROGRAM = """
import resource, sys, time, warnings
from pathlib import Path
import kernlet, onnx, onnxruntime
from scipy import sparse
from kernlet.model.model import as_model

warnings.simplefilter("ignore")
def use(machine):
    model = as_model(machine)
    model.outputs(sparse.csr_array(([1.0], ([0], [0])), shape=(1, model.n_features)))
out = sys.argv[1]
actions = [repr, use, lambda m: kernlet.compress(m, 1), lambda m: kernlet.to_c(m, out + "/c"),
           kernlet.to_onnx, lambda m: kernlet.save(m, out + "/again")]
def attempt(function, *arguments):
    try:
        return function(*arguments)
    except (ValueError, TypeError) as error:
        assert len(str(error)) < 1000
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
for path in sorted(path for path in Path(out).iterdir() if path.suffix in (".kernlet", ".model")):
    before, began = peak(), time.process_time()
    machine = path if path.suffix == ".model" else attempt(kernlet.load, path)
    if machine is not None:
        for action in actions:
            attempt(action, machine)
    print(path.name, round(peak() - before), round(time.process_time() - began, 1), flush=True)
"""


def edited(content, change):
    header, body = parts(content)
    metadata = json.loads(header["__metadata__"]["kernlet"])
    body = change(header, metadata, body) or body
    header["__metadata__"]["kernlet"] = json.dumps(metadata)
    return signed(header, body)


def wide_sparse(header, metadata, body):
    metadata["machine"]["n_features"] = WIDE


def no_centers(header, metadata, body):
    """Nothing stored, of any width."""
    header["centers"] |= {"shape": [0, WIDE], "data_offsets": [0, 0]}
    header["coef"] |= {"shape": [1, 0], "data_offsets": [0, 0]}
    header["intercept"] |= {"data_offsets": [0, 8]}
    return bytes(8)


def wide_packed(header, metadata, body):
    metadata["machine"]["tables"]["centers"]["shape"] = [0, WIDE]


def deep_summary(header, metadata, body):
    metadata["summary"] = {"a": [[[]] * 400_000]}


def many_names(header, metadata, body):
    metadata["feature_names"] = ["a"] * 1_000_000


def many_columns(header, metadata, body):
    columns = [{"number": str(n), "fill": 0.0} for n in range(100_000)]
    metadata["encoding"], metadata["feature_names"] = columns, None
    metadata["positions"] = {"columns": [WIDE] * 100_000, "n_columns": WIDE, "has_names": False}


def many_tensors(header, metadata, body):
    for number in range(100_000):
        header[f"t{number}"] = {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]}


LIBSVM = """svm_type c_svc
kernel_type {kernel}
degree {degree}
gamma 0.5
coef0 1
nr_class 2
total_sv 2
rho 0
label 1 -1
nr_sv 1 1
SV
1 1:1 {feature}:2
-1 2:1
"""


@pytest.fixture
def hostile(tmp_path):
    """A folder of small files that claim much."""
    classes = np.array([0, 1])
    plain = KernelExpansion(RBF(1.0), np.eye(2), np.ones((1, 2)), np.zeros(1))
    thin = KernelExpansion(RBF(1.0), sparse.eye_array(2).tocsr(), np.ones((1, 2)), np.zeros(1))
    packed = encode(np.eye(2), FORMATS["ternary"])
    coef = encode(np.ones((1, 2)), FORMATS["int8"])
    packed = QuantizedExpansion(np.ones(1), packed, coef, np.zeros(1))
    changes = {
        plain: (no_centers, deep_summary, many_names, many_columns, many_tensors),
        thin: (wide_sparse,),
        packed: (wide_packed,),
    }
    for expansion, edits in changes.items():
        kernlet.save(Model(expansion, "classifier", classes, "one output"), tmp_path / "m")
        content = (tmp_path / "m").read_bytes()
        for change in edits:
            (tmp_path / f"{change.__name__}.kernlet").write_bytes(edited(content, change))
    for kernel, degree, feature in (
        ("rbf", 3, WIDE),
        ("polynomial", 3, WIDE),
        ("polynomial", 2_000_000_000, 3),
        ("rbf", 3, 20_000_000),
        ("linear", 3, 8_000_000),
    ):
        text = LIBSVM.format(kernel=kernel, degree=degree, feature=feature)
        (tmp_path / f"{kernel}-{degree}-{feature}.model").write_text(text)
    return tmp_path


@pytest.mark.slow
def test_small_files_take_little_memory_and_time(hostile):
    run = [sys.executable, "-c", PROGRAM, str(hostile)]
    output = subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)
    assert output.returncode == 0, output.stderr[-2000:]
    lines = [line.split() for line in output.stdout.splitlines()]
    assert len(lines) == 12
    for name, megabytes, seconds in lines:
        assert float(megabytes) < MEGABYTES, (name, megabytes)
        assert float(seconds) < 10, (name, seconds)

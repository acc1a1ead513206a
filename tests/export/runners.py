"""Predictions of one machine by every exported form of it, run where its tool is installed.

A runner takes a :class:`Case` and an empty folder, exports the model there, runs what came out on
the rows of the case, and returns class numbers, or values of a regressor. It calls ``require`` for
every tool that it needs. RUNNERS has its arithmetic too, which says what it is compared with.
"""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernlet import CompactKernelClassifier, runtime, save, to_c, to_onnx, to_package
from kernlet.model.model import Model, as_model
from kernlet.tables.encode import ColumnEncoding
from support.build_systems import sketch_answers
from support.c_programs import compiled, run
from support.exportable_models import classifier, detector, regressor
from support.micropython_programs import run_micropython
from support.node_programs import run_modules, values
from support.rust_programs import rust_answers

N_ROWS = 60


@dataclass(frozen=True)
class Case:
    """A model, rows of features for it, and the table that they were made of, if any."""

    model: Model
    rows: np.ndarray
    table: dict[str, list[Any]] | None = None

    @property
    def expected(self) -> np.ndarray:
        """What Python predicts: class numbers, or values of a regressor."""
        outputs = self.model.outputs(self.rows)
        has_classes = self.model.classes is not None
        return self.model.codes(outputs) if has_classes else self.model.scores(outputs)


def require(*tools: str) -> None:
    """Skip a test that needs a program which is not installed."""
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"there is no {tool}")


# -- Models ----------------------------------------------------------------------------------------


def _case(pair: tuple[Any, np.ndarray]) -> Case:
    model, X = pair
    # in float32, which is what most targets read
    rows = np.float32(X[:: max(1, len(X) // N_ROWS)][:N_ROWS]).astype(float)
    return Case(as_model(model), rows)


def _table() -> Case:
    random = np.random.RandomState(0)
    colors, shapes = ["red", "green", "K\u00f6ln"], ["round", "flat"]
    table: dict[str, list[Any]] = {
        "weight [g]": [float(w) if w > -1 else None for w in random.normal(size=200).round(3)],
        "color": [colors[number] for number in random.randint(3, size=200)],
        "shape": [shapes[number] for number in random.randint(2, size=200)],
        "length": random.uniform(0, 5, size=200).round(2).tolist(),
    }
    encoding = ColumnEncoding.learned(table)
    rows = encoding.transform(table)
    labels = np.where(rows.sum(axis=1) > np.median(rows.sum(axis=1)), "ripe", "not ripe")
    machine = CompactKernelClassifier(10, n_epochs=20, random_state=0).fit(rows, labels)
    model = replace(as_model(machine), encoding=encoding, feature_names=encoding.feature_names)
    few = {name: cells[:N_ROWS] for name, cells in table.items()}
    return Case(model, np.float32(encoding.transform(few)).astype(float), few)


#: name -> a function that makes a case
CASES: dict[str, Callable[[], Case]] = {
    "packed": lambda: _case(classifier("compact int4 projected")),
    "steps": lambda: _case(classifier("compact steps")),
    "binary": lambda: _case(classifier("compact two classes")),
    "svc": lambda: _case(classifier("svc")),
    "regressor": lambda: _case(regressor("unlike columns")),
    "novelty": lambda: _case(detector("one class unlike columns")),
    "quantiles": lambda: _case(regressor("quantiles")),
    "table": _table,
}


@cache
def case(name: str) -> Case:
    """A case, made once a process."""
    return CASES[name]()


# -- Runners ---------------------------------------------------------------------------------------


def _c(arithmetic: str) -> Callable[[Case, Path], np.ndarray]:
    """A runner: the test program of an export to C."""

    def predict(case: Case, folder: Path) -> np.ndarray:
        require("gcc")
        source = to_c(case.model, folder, X=case.rows, arithmetic=arithmetic)
        has_classes = case.model.classes is not None
        result = run(compiled(source), case.rows, has_classes)
        if case.model.kind == "novelty":  # 1 and -1, and not numbers of classes
            return np.searchsorted(case.model.classes, result[0])
        if has_classes:
            return result[0]
        header = source.files[0].read_text("utf-8")
        step = re.search(r"#define MODEL_SCORE_STEP (\S+)f", header)
        return result.reshape(len(case.rows), -1) * (float(step[1]) if step else 1.0)

    return predict


def _onnx(case: Case, folder: Path) -> np.ndarray:
    onnxruntime = pytest.importorskip("onnxruntime")
    graph = to_onnx(case.model, X=case.rows)
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    answer = dict(zip(names, session.run(None, {"X": np.float32(case.rows)}), strict=True))
    if case.model.classes is not None:
        return np.searchsorted(case.model.classes, answer["label"])
    return answer["values"]


def _sketch(target: str, arithmetic: str) -> Callable[[Case, Path], np.ndarray]:
    """A runner: the example of a library, with a Serial that reads standard input."""

    def predict(case: Case, folder: Path) -> np.ndarray:
        require("gcc", "g++")
        rows = case.rows if case.table is None else case.table
        package = to_package(case.model, folder, target, X=rows, arithmetic=arithmetic)
        return sketch_answers(package, case)

    return predict


def _javascript(case: Case, folder: Path) -> np.ndarray:
    """The module in node; a table goes through encode."""
    require("node")
    path = to_package(case.model, folder, "javascript").files[0]
    rows = case.rows
    if case.table is not None:
        columns = zip(*case.table.values(), strict=True)
        cells = [dict(zip(case.table, row, strict=True)) for row in columns]
        rows = np.array(values(run_modules(folder, [(path, [], cells)])[0]["encode"]))
    (result,) = run_modules(folder, [(path, rows, [])])
    predicted = values(result["predict"])
    if case.model.classes is not None:
        return np.array([result["classes"].index(label) for label in predicted])
    return np.array(predicted)


def _rust(case: Case, folder: Path) -> np.ndarray:
    require("rustc")
    name = to_package(case.model, folder, "rust", X=case.rows).name
    answers = rust_answers(folder, [name], {name: case.rows[:0]}, {name: case.rows})
    has_classes = case.model.classes is not None
    if not has_classes:
        return answers[f"{name}.values"]
    predicted = answers[f"{name}.float_class"][:, 0]
    is_novelty = case.model.kind == "novelty"  # 1 and -1, and not numbers of classes
    return np.searchsorted(case.model.classes, predicted) if is_novelty else predicted


def _micropython(case: Case, folder: Path) -> np.ndarray:
    """The module in MicroPython; rows of a table are dictionaries."""
    to_package(case.model, folder, "micropython", X=case.rows)
    rows: Any = case.rows.tolist()
    if case.table is not None:
        columns = zip(*case.table.values(), strict=True)
        rows = [dict(zip(case.table, row, strict=True)) for row in columns]
    (folder / "rows.json").write_text(json.dumps(rows))
    (folder / "script.py").write_text(
        "import json\nimport model\n"
        "machine = model.load('model.kernlet')\n"
        "print(json.dumps([machine.predict(row) for row in json.load(open('rows.json'))]))\n"
    )
    predicted = json.loads(run_micropython(folder, "script.py"))
    if case.model.classes is not None:
        classes = case.model.classes.tolist()
        return np.array([classes.index(label) for label in predicted])
    return np.array(predicted)


def _runtime(case: Case, folder: Path) -> np.ndarray:
    save(case.model, folder / "model.kernlet")
    rows = case.rows if case.table is None else case.table
    predicted = runtime.load(folder / "model.kernlet").predict(rows)
    has_classes = case.model.classes is not None
    return np.searchsorted(case.model.classes, predicted) if has_classes else predicted


#: name -> a function that predicts, and its arithmetic
RUNNERS: dict[str, tuple[Callable[[Case, Path], np.ndarray], str]] = {
    "c": (_c("float"), "float"),
    "c in integers": (_c("integer"), "integer"),
    "onnx": (_onnx, "float"),
    "runtime": (_runtime, "float"),
    "arduino": (_sketch("arduino", "float"), "float"),
    "arduino in integers": (_sketch("arduino", "integer"), "integer"),
    "platformio": (_sketch("platformio", "float"), "float"),
    "javascript": (_javascript, "float"),
    "rust": (_rust, "integer"),
    "micropython": (_micropython, "integer"),
}

"""The box of the report: its script in node, with a document of a few elements, and in Chromium."""

import html
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import SVC

import support
from export.runners import case
from kernlet import CompactKernelClassifier, KernelExpansion
from kernlet.kernels.linear import Linear
from kernlet.model.model import Model, as_model
from kernlet.report.page import write_report
from kernlet.report.try_it import try_it
from kernlet.tables.encode import CategoryColumn, ColumnEncoding, NumberColumn, OrdinalColumn
from report.test_page import CHROMIUM, dumped
from support.exportable_models import (
    DIGIT_LABELS,
    DIGITS,
    IRIS,
    IRIS_LABELS,
    IRIS_NAMES,
    UNLIKE,
    classifier,
    detector,
    regressor,
)
from support.node_programs import NODE, needs_node

DOM = Path(support.__file__).parent / "dom.mjs"


def page_of(model, X, y, folder):
    write_report(as_model(model), X, y, folder / "page.html", sizes=False)
    return (folder / "page.html").read_text("utf-8")


def table_case():
    machine = case("table")
    return machine.model, machine.rows, machine.model.classes[machine.expected]


def digits_case():
    return classifier("compact int4 projected")[0], DIGITS, DIGIT_LABELS


CASES = {
    "steps": lambda: (classifier("compact steps")[0], IRIS, IRIS_NAMES),
    "pairs": lambda: (classifier("svc pairs")[0], IRIS, IRIS_LABELS),
    "two classes": lambda: (classifier("svc two classes")[0], IRIS, IRIS_LABELS == 1),
    "novelty": lambda: (detector("one class")[0], IRIS, np.where(IRIS_LABELS == 2, -1, 1)),
    "regressor": lambda: (regressor("unlike columns")[0], UNLIKE, IRIS_LABELS + 100.0),
    "quantiles": lambda: (regressor("quantiles")[0], IRIS[:, :3], IRIS[:, 3]),
    "two outputs": lambda: (
        regressor("two outputs")[0],
        IRIS,
        np.stack([IRIS_LABELS, IRIS[:, 0]], axis=1),
    ),
    "table": table_case,
    "pictures": digits_case,
}


def used(page, folder, actions):
    """What the box shows at first and after each action, lines of JavaScript."""
    scripts = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    assert len(scripts) == 1
    text = f'import {{ form, output, bars, root }} from "{DOM.as_uri()}";\n{scripts[0]}\n'
    text += "const seen = [];\nconst selects = form.all('select'), inputs = form.all('input');\n"
    text += "const look = () => seen.push([output.textContent, bars.textContent]);\nlook();\n"
    text += "\n".join(f"{action}; look();" for action in actions)
    text += "\nconsole.log(JSON.stringify({ seen, hidden: root.hidden }));"
    (folder / "page.mjs").write_text(text, "utf-8")
    ran = subprocess.run([NODE, folder / "page.mjs"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["hidden"] is False
    return result["seen"]


@pytest.mark.slow
@needs_node
@pytest.mark.parametrize("name", CASES)
def test_the_box_predicts_what_python_predicts(name, tmp_path):
    given, X, y = CASES[name]()
    model = as_model(given)
    rows = json.loads(try_it(model, X, y).data)["rows"]
    actions = [
        f"selects[0].selectedIndex = {i}; selects[0].emit('input')" for i in range(len(rows))
    ]
    seen = used(page_of(given, X, y, tmp_path), tmp_path, actions)
    outputs = model.outputs(np.array([row["values"] for row in rows], dtype=float))
    assert seen[0] == seen[1]
    for (answer, _), output in zip(seen[1:], outputs, strict=True):
        if model.kind == "regressor":
            numbers = [float(number) for number in answer.replace("\u2212", "-").split(", ")]
            assert numbers == pytest.approx(model.scores(output[None]).ravel(), abs=0.006)
        else:
            code = model.codes(output[None])[0]
            names = ["outlier", "inlier"] if model.kind == "novelty" else model.classes
            assert answer == str(names[code])


@needs_node
def test_numbers_lists_and_empty_fields(tmp_path):
    model, X, y = table_case()
    column = model.encoding.columns[1]  # color
    actions = [
        "inputs[0].value = '2.5'; inputs[0].emit('input')",
        "selects[1].selectedIndex = 2; selects[1].emit('input')",
        "inputs[1].value = '0.25'; inputs[1].emit('input')",  # the slider
        "inputs[0].value = ''; inputs[0].emit('input')",
    ]
    seen = used(page_of(model, X, y, tmp_path), tmp_path, actions)
    row = np.array(json.loads(try_it(model, X, y).data)["rows"][0]["values"], dtype=float)
    expected = [row.copy()]
    row[0] = 2.5
    expected.append(row.copy())
    row[1 : 1 + len(column.features)] = np.eye(len(column.features))[2]
    expected.append(row.copy())
    row[0] = 0.25
    expected.append(row.copy())
    shares = model.probabilities(model.outputs(np.array(expected)))
    for (_, text), share in zip(seen[:-1], shares, strict=True):
        assert f"{100 * share[1]:.1f} %" in text
    assert len({text for _, text in seen}) == 5
    assert seen[-1][0] == "no prediction"
    assert "Feature 0 (weight [g]) must be a finite number" in seen[-1][1]


@needs_node
def test_pictures_are_painted(tmp_path):
    model, X, y = digits_case()
    actions = [
        "form.all('button')[0].emit('click')",
        *(
            "form.all('canvas')[0].emit('pointerdown', "
            f"{{ buttons: 1, clientX: 55, clientY: {y} }})"
            for y in range(6, 100, 12)
        ),
        "form.all('canvas')[0].emit('keydown', { key: 'Delete' })",
        "form.all('canvas')[0].emit('keydown', { key: 'ArrowUp' })",
        "form.all('canvas')[0].emit('keydown', { key: 'Delete' })",
    ]
    seen = used(page_of(model, X, y, tmp_path), tmp_path, actions)
    picture = np.zeros((8, 8))
    expected = [picture.ravel().copy()]
    for line in range(8):
        picture[line, 4] = 16
        expected.append(picture.ravel().copy())
    picture[7, 4] = 0
    expected += [picture.ravel().copy()] * 2
    picture[6, 4] = 0
    expected.append(picture.ravel())
    assert [answer for answer, _ in seen[1:]] == list(map(str, model.predict(np.array(expected))))


def test_options_of_columns():
    columns = (
        CategoryColumn("c", ("a", "b", "d"), True, codes=(0, 0, 1, -1), unknown=-1),
        NumberColumn("n", 0.0),
        OrdinalColumn("o", ("x", "y"), (3.0, 1.0), missing=None, unknown=-1.0),
        CategoryColumn("r", ("p", "q"), False, unknown=None),
        CategoryColumn("m", (), True),
    )
    encoding = ColumnEncoding(columns)
    width = len(encoding.feature_names)
    expansion = KernelExpansion(Linear(), np.ones((1, width)), np.ones((1, 1)), np.zeros(1))
    model = Model(
        expansion,
        "classifier",
        np.array([0, 1]),
        "one output",
        encoding=encoding,
        feature_names=encoding.feature_names,
    )
    X = np.random.default_rng(0).normal(size=(5, width))
    inputs = json.loads(try_it(model, X, np.arange(5) % 2).data)["inputs"]
    assert [entry["label"] for entry in inputs] == ["c", "n", "o", "r", "m=(missing)"]
    assert [(o["text"], o["values"]) for o in inputs[0]["options"]] == [
        ("a, b", [1, 0]),
        ("d", [0, 1]),
        ("(missing), (other)", [0, 0]),
    ]
    assert [(o["text"], o["values"]) for o in inputs[2]["options"]] == [
        ("x", [3]),
        ("y", [1]),
        ("(other)", [-1]),
    ]
    assert [o["text"] for o in inputs[3]["options"]] == ["p", "q"]


def test_of_many_columns_the_most_varying_are_shown():
    X = np.random.default_rng(0).normal(size=(40, 50)) * np.arange(50)
    machine = CompactKernelClassifier(4, n_epochs=2, scale=False, random_state=0)
    model = as_model(machine.fit(X, X[:, 40] > 0))
    data = json.loads(try_it(model, X, X[:, 40] > 0).data)
    assert data["columns"] == 50
    assert len(data["inputs"]) == 20
    shown = [entry["feature"] for entry in data["inputs"]]
    assert shown == sorted(shown)
    sizes = X.std(axis=0) * np.abs(model.expansion.input_map.scale)
    assert set(shown) == set(np.argsort(-sizes)[:20].tolist())


def test_rows_are_of_all_classes_and_few():
    data = json.loads(try_it(as_model(classifier("svc")[0]), IRIS, IRIS_NAMES).data)
    names = [row["name"] for row in data["rows"]]
    assert len(names) == 30
    assert names[:4] == [
        "row 1 (setosa)",
        "row 51 (versicolor)",
        "row 101 (virginica)",
        "row 2 (setosa)",
    ]
    low, high = IRIS.min(axis=0), IRIS.max(axis=0)
    ends = [(entry["low"], entry["high"]) for entry in data["inputs"]]
    assert ends == list(zip(low, high, strict=True))
    wide = json.loads(try_it(as_model(classifier("compact")[0]), DIGITS, DIGIT_LABELS).data)
    assert len(wide["rows"]) == 30
    assert wide["side"] == 8
    assert not wide["inputs"]


def test_the_box_is_left_out_with_a_reason(tmp_path, monkeypatch):
    model = as_model(classifier("svc")[0])
    monkeypatch.setattr("kernlet.report.try_it._MAX_MODULE", 1000)
    text = page_of(model, IRIS, IRIS_NAMES, tmp_path)
    assert "<script" not in text
    assert "bytes of JavaScript, too many for a page: kernlet export --to javascript" in text
    monkeypatch.setattr("kernlet.export.javascript._MAX_TABLE_BYTES", 1000)
    text = page_of(model, IRIS, IRIS_NAMES, tmp_path)
    assert "make it smaller with kernlet.compress" in text


def test_pages_are_the_same_every_time(tmp_path):
    model = as_model(SVC().fit(IRIS, IRIS_LABELS))
    assert try_it(model, IRIS, IRIS_LABELS) == try_it(model, IRIS, IRIS_LABELS)


def test_names_from_outside_cannot_end_the_script(tmp_path):
    odd = ["</script><script>alert(1)</script>", "<!--\u2028", "`${1}", "a\ud800"]
    model = replace(
        as_model(SVC().fit(IRIS, np.array(odd[:3])[IRIS_LABELS])), feature_names=tuple(odd)
    )
    labels = np.array(odd[:3])[IRIS_LABELS]
    text = page_of(model, IRIS, labels, tmp_path)
    assert text.count("</script>") == text.count("<script") == 1
    assert "alert(1)<" not in text
    if NODE:
        assert used(text, tmp_path, [])[0][0] == odd[1]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("name", ["steps", "pictures", "table"])
def test_a_browser_shows_the_prediction(name, tmp_path):
    given, X, y = CASES[name]()
    page_of(given, X, y, tmp_path)
    shown = dumped(tmp_path / "page.html", tmp_path)
    model = as_model(given)
    row = np.array(json.loads(try_it(model, X, y).data)["rows"][0]["values"], dtype=float)
    output = model.outputs(row[None])
    (answer,) = re.findall(r"<output[^>]*>(.*?)</output>", shown)
    assert html.unescape(answer) == str(model.classes[model.codes(output)[0]])
    percents = [float(text) for text in re.findall(r"<td>([\d.]+) %</td>", shown)]
    shares = 100 * model.probabilities(output)[0]
    assert percents[: len(shares)] == pytest.approx(shares, abs=0.051)

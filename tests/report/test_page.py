import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics import r2_score, roc_auc_score

from kernlet import CompactKernelRegressor, L1KernelClassifier
from kernlet.expansion import KernelExpansion
from kernlet.kernels.rbf import RBF
from kernlet.model.model import Model, as_model
from kernlet.report.draw import as_drawn, image_side
from kernlet.report.evaluate import Size, Sizes, evaluate, try_sizes
from kernlet.report.explanation import rough_importance
from kernlet.report.page import write_report
from support.exportable_models import (
    DIGIT_LABELS,
    DIGITS,
    IRIS,
    IRIS_LABELS,
    IRIS_NAMES,
    classifier,
    detector,
    regressor,
)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
SECTIONS = [
    "sizes",
    "confusion",
    "classes",
    "importance",
    "certificate",
    "latency",
    "parameters",
    "data",
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Reports of machines of three kinds."""
    folder = tmp_path_factory.mktemp("pages")
    some = slice(0, 300)
    shipped = as_model(classifier("compact")[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kernlet.report.evaluate._SIZE_FACTORS", (0.25, 1.0))
        write_report(shipped, DIGITS[some], DIGIT_LABELS[some], folder / "digits.html")
    X, y = make_moons(200, noise=0.2, random_state=0)
    names = np.array(["<in>", "_$\\out$ $"])
    moons = L1KernelClassifier(random_state=0).fit(X[:100], names[y[:100]])
    labels = names[y[100:]]
    write_report(as_model(moons), X[100:], labels, folder / "moons.html", sizes=False)
    model, X = regressor("flat")
    write_report(as_model(model), X, DIGIT_LABELS + 100.0, folder / "numbers.html")
    model, X = detector("one class")
    write_report(as_model(model), X, None, folder / "unlabelled.html")
    signs = np.where(IRIS_LABELS == 2, -1, 1)
    write_report(as_model(model), X, signs, folder / "novelties.html")
    return folder


def sections(page):
    return re.findall(r'<section id="(\w+)"', page)


def test_every_section_is_there(pages):
    digits = (pages / "digits.html").read_text("utf-8")
    assert sections(digits) == ["try", *SECTIONS[:4], "images", *SECTIONS[5:]]  # no certificate
    moons = (pages / "moons.html").read_text("utf-8")
    assert sections(moons) == ["try", *SECTIONS[:4], "boundary", *SECTIONS[4:]]
    assert "leave-one-out error, at most" in moons
    assert "duality gap" in moons
    numbers = (pages / "numbers.html").read_text("utf-8")
    assert sections(numbers) == ["try", "sizes", "predictions", "importance", *SECTIONS[5:]]
    assert "exact values: no error exceeds" in moons
    assert "Class by class</h3>" in digits
    assert "balanced accuracy" in digits
    assert "\u00b1&nbsp;" in digits
    assert "says little" not in digits


def test_few_rows_get_a_caution(tmp_path):
    model, X = classifier("svc")
    write_report(as_model(model), X[:1], IRIS_NAMES[:1], tmp_path / "r.html")
    assert "1 row says little about other rows" in (tmp_path / "r.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("accuracy", "words"), [(0.95, "do better"), (0.9, "do as well"), (0.89, None)]
)
def test_the_page_says_if_fewer_centers_are_enough(accuracy, words, tmp_path, monkeypatch):
    model, X = classifier("compact two classes")
    chosen = Size(20, 800, 0.9)
    sizes = Sizes(100, 200, (Size(5, 200, accuracy), Size(40, 1600, 0.99)), chosen, chosen, 0.02)
    monkeypatch.setattr("kernlet.report.page.try_sizes", lambda *rows, **options: sizes)
    write_report(as_model(model), X[:100], DIGIT_LABELS[:100] > 4, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert ("Fewer centers" in page) == (words is not None)
    assert f"Fewer centers {words or ''}" in page or words is None


def test_pages_load_nothing_from_elsewhere(pages):
    for page in pages.iterdir():
        text = page.read_text("utf-8")
        sources = re.findall(r'(?:src|href)="([^"]*)"', text)
        assert all(s.startswith(("#", "data:")) for s in sources), sources
        assert re.findall(r"<script[^>]*>", text) == ['<script type="module">']
        assert not re.search(r"url\(http|\bfetch\(|XMLHttp|\bimport\(|^import ", text, re.MULTILINE)


def test_names_from_outside_are_escaped(pages):
    text = (pages / "moons.html").read_text("utf-8")
    assert "<in>" not in text
    assert "&lt;in&gt;" in text


def dumped(page, folder):
    """The document that Chromium makes of a page, without a message on its console."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"]
    logging = ["--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000"]
    ran = subprocess.run(
        [CHROMIUM, *options, *logging, "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in ran.stderr
    return ran.stdout


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("name", ["digits", "moons", "numbers"])
def test_a_browser_opens_the_page_without_a_complaint(pages, name, tmp_path):
    page = pages / f"{name}.html"
    shown = dumped(page, tmp_path)
    assert sections(shown) == sections(page.read_text("utf-8"))
    assert shown.count("<svg") == page.read_text("utf-8").count("<svg")


def test_numbers_are_those_of_the_machine():
    model, X = classifier("svc")
    found = evaluate(as_model(model), X, IRIS_NAMES)
    assert found.score == model.score(X, IRIS_NAMES)
    assert found.confusion.sum() == 150
    assert found.labels == tuple(model.classes_)
    assert found.classes[0].recall == pytest.approx(1.0)
    assert found.seconds_alone > 0


def test_labels_that_the_machine_does_not_know_are_shown():
    model, X = classifier("svc pairs")
    found = evaluate(as_model(model), X, np.where(IRIS_LABELS == 0, 7, IRIS_LABELS))
    assert found.labels == ("0", "1", "2", "7")
    assert found.classes[3].recall == 0.0


def test_other_sizes_are_tested_on_other_rows(monkeypatch):
    monkeypatch.setattr("kernlet.report.evaluate._SIZE_FACTORS", (0.125, 1.0))
    model, X = classifier("compact two classes")
    said = []
    sizes = try_sizes(as_model(model), X[:300], DIGIT_LABELS[:300] > 4, say=said.append)
    assert sizes.n_training + sizes.n_test == 300
    assert [s.n_centers for s in sizes.machines] == [2, 20]
    assert sizes.svc.accuracy > 0.9
    assert len(said) == 3
    assert try_sizes(as_model(model), X[:20], DIGIT_LABELS[:20] > 4) is None


def test_images_are_seen_for_what_they_are():
    model, X = classifier("compact")
    assert image_side(as_model(model), X) == 8
    assert image_side(as_model(model), X * np.arange(1, 65) ** 2) is None
    projected, X = classifier("compact int4 projected")
    assert image_side(as_model(projected), X) is None
    assert image_side(as_model(classifier("svc")[0]), IRIS) is None


def test_long_names_are_cut_visibly():
    assert as_drawn("x" * 24) == " " + "x" * 24
    assert as_drawn("x" * 25) == " " + "x" * 23 + "\u2026"


def test_many_classes_have_no_matrix(tmp_path):
    n = 40
    expansion = KernelExpansion(RBF(1.0), np.eye(n), np.eye(n), np.zeros(n))
    shipped = Model(expansion, "classifier", np.arange(n))
    write_report(shipped, np.eye(n), np.arange(n), tmp_path / "r.html", sizes=True)
    assert "too many classes for a matrix" in (tmp_path / "r.html").read_text("utf-8")


@pytest.mark.parametrize("gap", [10**400, -(10**400), float("nan"), float("inf")])
def test_a_gap_that_is_no_number_is_not_a_certificate(gap, tmp_path):
    model = replace(as_model(classifier("compact")[0]), summary={"gap": gap, "duality_gap": 1e-9})
    write_report(model, DIGITS[:20], DIGIT_LABELS[:20], tmp_path / "page.html", sizes=False)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "relative gap" not in page
    assert "1.0e-09" in page


def test_novelty_detectors(pages):
    model, X = detector("one class")
    page = (pages / "unlabelled.html").read_text("utf-8")
    assert sections(page) == ["try", "sizes", "scores", "importance", *SECTIONS[5:]]
    flagged = 100 * np.mean(model.predict(X) < 0)
    assert f"{flagged:.2f}&nbsp;%</b><span>of 150 rows are flagged" in page
    assert "ROC" not in page
    page = (pages / "novelties.html").read_text("utf-8")
    assert sections(page) == ["try", "sizes", "scores", *SECTIONS[1:4], *SECTIONS[5:]]
    signs = np.where(IRIS_LABELS == 2, -1, 1)
    area = roc_auc_score(signs, model.decision_function(X))
    assert f"{area:.4f}</b><span>area under the ROC curve" in page
    evaluation = evaluate(as_model(model), X, signs)
    assert evaluation.labels == ("outlier", "inlier")
    right = np.sum((model.predict(X) == -1) & (signs == -1))
    assert evaluation.confusion[0, 0] == right
    assert evaluate(as_model(model), X[:50], np.ones(50)).roc_auc is None


def test_names_that_utf_8_cannot_hold(tmp_path):
    model = replace(as_model(classifier("compact")[0]), summary={"data": {"file": "a\ud800.csv"}})
    write_report(model, DIGITS[:20], DIGIT_LABELS[:20], tmp_path / "page.html", sizes=False)
    assert "a\\ud800.csv" in (tmp_path / "page.html").read_text("utf-8")


def test_regressors_of_several_numbers(tmp_path):
    y = np.stack([DIGIT_LABELS, -DIGIT_LABELS], axis=1)[:200]
    machine = CompactKernelRegressor(4, n_epochs=2, random_state=0)
    with pytest.raises(
        ValueError, match="predicts 2 numbers per row, but y has 1 column: give one"
    ):
        evaluate(as_model(machine.fit(DIGITS[:200], y)), DIGITS[:200], y[:, 0])
    both = evaluate(as_model(machine), DIGITS[:200], y)
    expected = r2_score(y, machine.predict(DIGITS[:200]), multioutput="raw_values")
    assert [line.score for line in both.outputs] == pytest.approx(expected)
    assert both.score == pytest.approx(expected.mean())
    write_report(as_model(machine), DIGITS[:200], y, tmp_path / "two.html")
    page = (tmp_path / "two.html").read_text("utf-8")
    assert "<td>output 2</td>" in page
    assert page.count("<svg") == 2
    # one number in a column of a matrix is one number
    one = evaluate(as_model(machine.fit(DIGITS[:200], y[:, :1])), DIGITS[:200], y[:, 0])
    assert one.predictions.shape == (200,)
    assert one.rmse == pytest.approx(np.std(y[:, 0]), rel=0.5)


def test_quantiles_show_their_coverage(tmp_path):
    machine, X = regressor("quantiles")
    y = X[:, 2] / 3
    evaluation = evaluate(as_model(machine), X, y)
    predicted = machine.predict(X)
    inside = np.mean((predicted[:, 0] <= y) & (y <= predicted[:, -1]))
    assert evaluation.coverage == pytest.approx(inside)
    assert evaluation.score == pytest.approx(machine.score(X, y))
    assert [line.below for line in evaluation.outputs] == pytest.approx(
        (y[:, None] <= predicted).mean(axis=0)
    )
    write_report(as_model(machine), X, y, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert f"{100 * inside:.1f}&nbsp;%</b><span>of the rows inside the interval" in page
    assert "made for 80&nbsp;%" in page
    assert "True numbers and predicted quantiles" in page


def test_importance_is_of_complete_rows_where_distances_leave_out_features():
    f = KernelExpansion(RBF(0.3), IRIS[::40], np.ones((1, 4)), np.zeros(1), skips_missing=True)
    X = np.array(IRIS, dtype=float)
    X[::3, 1] = np.nan
    importance = rough_importance(Model(f, "regressor"), X)
    assert np.isfinite([bar.value for bar in importance.bars]).all()
    assert rough_importance(Model(f, "regressor"), X[::3]) is None

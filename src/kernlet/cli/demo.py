"""The demonstration: SVC and kernlet on a checkerboard and on digits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.svm import SVC

from kernlet.atomic import atomic_write
from kernlet.compact.classifier import CompactKernelClassifier
from kernlet.console import say
from kernlet.datasets import Dataset, make_checkerboard
from kernlet.lp.l1 import L1KernelClassifier
from kernlet.lp.minimal import MinimalKernelClassifier
from kernlet.progress import ProgressBar
from kernlet.report.draw import draw_image_centers, draw_plane, save_picture
from kernlet.report.evaluate import Measurement, markdown_table, measure
from kernlet.selection import count_centers, fewest_centers

Grid = dict[str, list[Any]]

BOARD_GRID: Grid = {"C": [30, 100, 300, 1000], "gamma": [2, 3, 4, 6, 8]}
DIGITS_GRID: Grid = {"C": [1, 3, 10], "gamma": [0.02, 0.04, 0.08, 0.12, 0.18]}


def run(folder: Path) -> None:
    """Fit, measure, draw; write two pictures and a table into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    board, digits = make_checkerboard(random_state=0), _digits()
    measurements: list[Measurement] = []
    board_machine = _compare(board, BOARD_GRID, {"mu": [10, 100]}, 256, measurements)
    digit_machine = _compare(digits, DIGITS_GRID, {"mu": [10]}, 2000, measurements)

    save_picture(draw_plane(board_machine, board.X, board.y), folder / "checkerboard.png", dpi=150)
    title = f"The {digit_machine.n_centers_} of {len(digits.X)} digits that make the machine"
    labels = digits.y[digit_machine.center_indices_]
    figure = draw_image_centers(digit_machine.expansion_, labels, (8, 8), title=title)
    save_picture(figure, folder / "digits.png", dpi=150)
    table = markdown_table(measurements)
    with atomic_write(folder / "table.md") as temporary:
        temporary.write_text(table + "\n", encoding="utf-8")
    click.echo(f"\n{table}\n\n{_FOOTNOTE}\n")
    click.echo(f"Wrote checkerboard.png, digits.png and table.md to {folder}/")


_FOOTNOTE = (
    "C, gamma and mu were chosen by five-fold cross-validation on the training part: the most\n"
    "accurate for SVC and the 1-norm machine; for the minimal machine the fewest centers within\n"
    "one standard error of that. The compact machine is given a number of bytes and chooses the\n"
    "rest itself. Times are CPU seconds of the final fit and of one prediction of the whole test\n"
    "part. The leave-one-out error is an upper bound; for the minimal machine it\n"
    "holds with the costs of its last linear program held fixed."
)


def _digits() -> Dataset:
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16.0, y, test_size=0.5, stratify=y, random_state=1)
    return Dataset("digits", X, y, X_test, y_test)


def _compare(
    data: Dataset,
    grid: Grid,
    minimal_grid: Grid,
    max_bytes: int,
    measurements: list[Measurement],
) -> MinimalKernelClassifier:
    """Tune and measure machines on a data set; return the minimal one."""
    contenders: list[tuple[str, Any, Grid]] = [
        ("SVC", SVC(), grid),
        ("L1KernelClassifier", L1KernelClassifier(random_state=0), grid),
        ("MinimalKernelClassifier", MinimalKernelClassifier(random_state=0), grid | minimal_grid),
    ]
    for name, machine, parameters in contenders:
        say(f"{data.name}: choosing the parameters of {name}")
        machine.set_params(**_tuned(machine, parameters, data))
        measurements.append(measure(name, machine, data))
    say(f"{data.name}: a compact machine of {max_bytes} bytes")
    compact = CompactKernelClassifier(max_bytes=max_bytes, random_state=0)
    measurements.append(measure("CompactKernelClassifier", compact, data))
    return machine  # the last of the contenders


def _tuned(machine: Any, grid: Grid, data: Dataset) -> dict[str, Any]:
    """The parameters that cross-validation on the training part chooses."""
    scoring: dict[str, Any] = {"score": "accuracy"}
    is_minimal = isinstance(machine, MinimalKernelClassifier)
    if is_minimal:
        scoring["centers"] = count_centers
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(machine, grid, cv=folds, scoring=scoring, refit=False, n_jobs=-1)
    if ProgressBar is not None and sys.stderr.isatty():
        search.set_callbacks(ProgressBar(max_propagation_depth=0))
    # no refit: measure fits the final machine, and takes the time
    results = search.fit(data.X, data.y).cv_results_
    best = fewest_centers(results) if is_minimal else int(results["mean_test_score"].argmax())
    return results["params"][best]

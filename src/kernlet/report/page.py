"""One self-contained page on a machine: measurements, figures, and its training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from kernlet import __version__
from kernlet.atomic import atomic_write
from kernlet.compact.inputs import without_missing
from kernlet.model.describe import operations
from kernlet.model.model import Model
from kernlet.report import draw
from kernlet.report.evaluate import MIN_TEST_ROWS, Evaluation, Sizes, evaluate, try_sizes
from kernlet.report.explanation import rough_importance
from kernlet.report.try_it import try_it

_MAX_CONFUSION_CLASSES = 30  # a larger matrix is unreadable
_MAX_SCATTERS = 6  # of a regressor of several numbers
_MAX_LISTED_COLUMNS = 300  # characters


def write_report(
    model: Model,
    X: Any,
    y: Any,
    path: Path,
    *,
    name: str = "machine",
    data: str = "",
    training: tuple[Any, Any] | None = None,
    sizes: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> Evaluation:
    """Measure a machine on some rows and write a page about it.

    Parameters
    ----------
    model : Model
        A classifier, a regressor, or a novelty detector.
    X : ndarray of shape (n_rows, n_features)
        Before scaling; preferably rows that the machine has not seen.
    y : ndarray of shape (n_rows,) or (n_rows, n_outputs), or None
        Of a novelty detector, 1 for inliers and -1 for outliers, or None.
    path : Path
        The HTML file, written atomically.
    name, data : str
        Names of the machine and of the rows.
    training : tuple of (X, y), default=None
        Rows to train other sizes on, as the machine was; half of the rows of the report unless
        given.
    sizes : bool, default=True
        Whether machines of other sizes and an SVC are trained.
    say : callable
        Receives messages on progress.

    Returns
    -------
    evaluation : Evaluation
    """
    say(f"measuring on {len(X):,} rows")
    evaluation = evaluate(model, X, y)
    tried = None
    if sizes and model.kind == "classifier":
        tried = try_sizes(model, X, y, training=training, say=say)
    X = without_missing(X)  # in pictures, medians stand for missing numbers
    page = template("report.html.jinja").render(
        name=name,
        data=data,
        version=__version__,
        model=model,
        kind=model.kind,
        evaluation=evaluation,
        sizes=tried,
        sizes_asked=sizes,
        figures=dict(_figures(model, evaluation, tried, X, y)),
        confusion=_confusion(evaluation),
        certificate=list(_certificate(model.summary)),
        smaller=tried.smaller if tried is not None else None,
        few_rows=evaluation.n_rows < MIN_TEST_ROWS,
        operations=operations(model.expansion),
        parameters=list(_parameters(model)),
        facts=list(_facts(model, X, data)),
        try_it=try_it(model, X, evaluation.predictions if y is None else y),
        importance=rough_importance(model, X),
    )
    with atomic_write(path) as temporary:
        # a lone surrogate in the name of a class cannot be written in UTF-8
        temporary.write_text(page, encoding="utf-8", errors="backslashreplace")
    return evaluation


def template(name: str) -> jinja2.Template:
    """A template of the folder beside this file."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kernlet.report"),
        undefined=jinja2.StrictUndefined,  # a misspelt name is an error, not an empty text
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,  # names of classes and columns come from files
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    return environment.get_template(name)


def _figures(
    model: Model, evaluation: Evaluation, sizes: Sizes | None, X: Any, y: Any
) -> Iterator[tuple[str, str]]:
    """SVG elements by their place on the page."""
    if sizes is not None:
        title = "Accuracy against centers and bytes"
        yield "sizes", draw.as_svg(draw.draw_sizes(sizes), title)
    if model.kind == "novelty":
        figure = draw.draw_scores(evaluation.values, y)
        yield "histogram", draw.as_svg(figure, "Histogram of the scores")
    elif model.kind != "classifier":
        yield "scatter", "".join(_scatter(model, evaluation, y))
        return
    truth = evaluation.predictions if y is None else y
    side = draw.image_side(model, X)
    if side is not None:
        yield "images", draw.as_svg(draw.draw_images(model, side), "The centers as pictures")
    if X.shape[1] == 2:
        yield "boundary", draw.as_svg(draw.draw_boundary(model, X, truth), "Regions of the classes")


def _scatter(model: Model, evaluation: Evaluation, y: Any) -> Iterator[str]:
    """Predicted against true numbers, of the first outputs, or the interval of quantiles."""
    values = evaluation.predictions
    if model.sorts_outputs:
        figure = draw.draw_intervals(y, values)
        yield draw.as_svg(figure, "True numbers and predicted quantiles")
    elif values.ndim == 1:
        figure = draw.draw_predictions(np.ravel(y), values)
        yield draw.as_svg(figure, "Predicted against true numbers")
    else:
        for number, line in enumerate(evaluation.outputs[:_MAX_SCATTERS]):
            figure = draw.draw_predictions(y[:, number], values[:, number], line.name)
            yield draw.as_svg(figure, f"Predicted against true numbers, output {number + 1}")


def _confusion(evaluation: Evaluation) -> list[tuple[str, list[tuple[int, float, bool]]]] | None:
    """Lines of cells: count, share of the line, and whether the class is right."""
    matrix, labels = evaluation.confusion, evaluation.labels
    if matrix is None or len(labels) > _MAX_CONFUSION_CLASSES:
        return None
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    numbers = range(len(labels))
    return [
        (labels[i], [(int(matrix[i, j]), float(shares[i, j]), i == j) for j in numbers])
        for i in numbers
    ]


def _certificate(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    known = (
        ("duality_gap", "largest relative duality gap", "{:.1e}"),
        ("gap", "relative gap", "{:.1e}"),
        ("loo_error_bound", "leave-one-out error, at most", "{:.1%}"),
    )
    for key, description, form in known:
        value = summary.get(key)
        # a model file may state anything, also integers that are too large for a float
        if isinstance(value, int | float) and abs(value) <= sys.float_info.max:
            yield description, form.format(value)


def _parameters(model: Model) -> Iterator[tuple[str, str]]:
    yield from model.describe().items()
    for key in ("estimator", "choice", "scaling"):
        if model.summary.get(key):
            yield key, str(model.summary[key])
    parameters = model.summary.get("parameters", {})
    if isinstance(parameters, dict):
        yield from ((k, str(v)) for k, v in sorted(parameters.items()) if v is not None)


def _facts(model: Model, X: Any, name: str) -> Iterator[tuple[str, str]]:
    """About the rows of the report and those of the training."""
    yield "rows of this report", f"{len(X):,}{f' ({name})' if name else ''}"
    yield "features", f"{model.n_features:,}"
    yield "values", f"{X.min():.4g} to {X.max():.4g}, mean {X.mean():.4g}"
    if model.encoding is not None:
        yield "columns", ", ".join(model.encoding.names)[:_MAX_LISTED_COLUMNS]
    # a model file may state anything: take nothing for granted
    test = model.summary.get("test")
    test = test.get("score") if isinstance(test, dict) else None
    validation = model.summary.get("validation_score")
    for key, score in (("validation score", validation), ("score on held-out rows", test)):
        if isinstance(score, float):
            yield f"training: {key}", f"{score:.4f}"
    trained = model.summary.get("data")
    for key, value in trained.items() if isinstance(trained, dict) else ():
        if value not in (None, {}) and key != "sha256":
            yield f"training: {key}", _as_text(value)


def _as_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}: {_as_text(v)}" for k, v in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)

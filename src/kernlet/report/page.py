"""One self-contained page on a machine: numbers, pictures, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from kernlet import __version__
from kernlet.atomic import atomic_write
from kernlet.model.model import Model
from kernlet.report import draw as drawings
from kernlet.report.evaluate import Evaluation, Sizes, evaluate, try_sizes

Rows = list[tuple[str, str]]
_MOST_CONFUSED = 30  # classes up to which the matrix is shown


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
        A classifier, or a regressor of one number.
    X : ndarray of shape (n_rows, n_features)
        Before scaling; best rows that the machine has not seen.
    y : ndarray of shape (n_rows,)
    path : Path
        Of an HTML file, which is there whole or not at all.
    name, data : str
        Of the machine, and of the rows.
    training : tuple of (X, y), default=None
        Rows that the machine was trained on, to train other sizes on; half of the rows of the
        report unless given.
    sizes : bool, default=True
        Whether machines of other sizes and an SVC are trained.
    say : callable
        Told what happens.

    Returns
    -------
    evaluation : Evaluation
    """
    say(f"measuring on {len(y):,} rows")
    evaluation = evaluate(model, X, y)
    tried = None
    if sizes and model.kind == "classifier":
        tried = try_sizes(model, X, y, training=training, say=say)
    text = (
        _environment()
        .get_template("report.html.jinja")
        .render(
            name=name,
            data=data,
            version=__version__,
            is_classifier=model.kind == "classifier",
            tiles=_tiles(model, evaluation),
            sizes=_sizes(tried),
            sizes_reason=_why_no_sizes(model, sizes),
            confusion=_confusion(evaluation),
            classes=evaluation.classes,
            scatter=_scatter(model, evaluation, y),
            images=_images(model, X),
            boundary=_boundary(model, X, y),
            certificate=list(_certificate(model)),
            latency=_latency(model, evaluation),
            parameters=_parameters(model),
            rows=_data(model, X, y, data),
        )
    )
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return evaluation


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("kernlet.report"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )


def _tiles(model: Model, evaluation: Evaluation) -> Rows:
    latency = f"{1e6 * evaluation.latency.single:,.0f} µs"
    tail = [
        (f"{model.expansion.n_centers:,}", "centers"),
        (f"{model.nbytes:,}", "bytes of tables"),
        (latency, "CPU time of one prediction in Python"),
    ]
    if evaluation.standard_error is None:
        return [(f"{evaluation.score:.4f}", f"R² on {evaluation.n_rows:,} rows"), *tail]
    error = f"accuracy on {evaluation.n_rows:,} rows, ± {100 * evaluation.standard_error:.2f}"
    return [(f"{100 * evaluation.score:.2f} %", error), *tail]


def _sizes(tried: Sizes | None) -> dict[str, Any] | None:
    if tried is None:
        return None
    title = "Accuracy against centers and bytes"
    return {
        "svg": drawings.as_svg(drawings.draw_sizes(tried), title),
        "n_training": tried.n_training,
        "n_test": tried.n_test,
        "lines": [
            *(("compact", m) for m in tried.machines),
            ("SVC, tuned", tried.svc),
            ("this machine", tried.chosen),
        ],
    }


def _why_no_sizes(model: Model, wanted: bool) -> str:
    if model.kind != "classifier":
        return "Other sizes are trained for classifiers only."
    if wanted:
        return "These rows are too few to train other sizes on."
    return "Other sizes were left out, with --no-sizes or sizes=False."


def _confusion(evaluation: Evaluation) -> dict[str, Any] | None:
    if evaluation.confusion is None or len(evaluation.labels) > _MOST_CONFUSED:
        return None
    matrix = evaluation.confusion
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    lines = [
        (label, [(int(n), float(s), i == j) for j, (n, s) in enumerate(zip(a, b, strict=True))])
        for i, (label, a, b) in enumerate(zip(evaluation.labels, matrix, shares, strict=True))
    ]
    return {"labels": evaluation.labels, "lines": lines}


def _scatter(model: Model, evaluation: Evaluation, y: Any) -> str | None:
    if model.kind == "classifier":
        return None
    figure = drawings.draw_predictions(y, evaluation.predictions)
    return drawings.as_svg(figure, "Predicted against true numbers")


def _images(model: Model, X: Any) -> str | None:
    side = drawings.image_side(model, X)
    if side is None or model.kind != "classifier":
        return None
    return drawings.as_svg(drawings.draw_images(model, side), "The centers as pictures")


def _boundary(model: Model, X: Any, y: Any) -> str | None:
    if X.shape[1] != 2 or model.kind != "classifier":
        return None
    return drawings.as_svg(drawings.draw_boundary(model, X, y), "Regions of the classes")


def _certificate(model: Model) -> Iterator[tuple[str, str]]:
    summary = model.summary
    known = (
        ("duality_gap", "largest relative duality gap", "{:.1e}"),
        ("gap", "relative gap", "{:.1e}"),
        ("loo_error_bound", "leave-one-out error, at most", "{:.1%}"),
        ("validation_score", "score on the validation part", "{:.4f}"),
    )
    for key, words, form in known:
        value = summary.get(key)
        if isinstance(value, int | float):
            yield words, form.format(value)
    test = summary.get("test")
    if isinstance(test, dict) and isinstance(test.get("score"), float):
        yield "score on rows kept aside in training", f"{test['score']:.4f}"


def _latency(model: Model, evaluation: Evaluation) -> Rows:
    expansion, latency = model.expansion, evaluation.latency
    rank = int(expansion.centers.shape[1])
    front = 0 if expansion.input_map is None else expansion.input_map.matrix is not None
    work = expansion.n_centers * (rank + expansion.n_outputs) + front * rank * model.n_features
    return [
        ("one row at a time", f"{1e6 * latency.single:,.0f} µs a row"),
        (f"batches of {latency.n_batch:,} rows", f"{1e6 * latency.batched:,.1f} µs a row"),
        ("multiplications a row, about", f"{work:,}"),
        ("exponentials a row", f"{expansion.n_centers:,}"),
    ]


def _parameters(model: Model) -> Rows:
    rows = [("kernel", model.expansion.kernel.describe(digits=4))]
    storage = getattr(model.expansion, "storage", None)
    if storage:
        rows.append(("storage", ", ".join(f"{k} {v}" for k, v in storage.items())))
    for key in ("estimator", "choice", "scaling"):
        if model.summary.get(key):
            rows.append((key, str(model.summary[key])))
    parameters = model.summary.get("parameters", {})
    if isinstance(parameters, dict):
        rows += [(k, str(v)) for k, v in sorted(parameters.items()) if v is not None]
    return rows


def _data(model: Model, X: Any, y: Any, name: str) -> Rows:
    rows = [
        ("rows of this report", f"{len(y):,}{f' ({name})' if name else ''}"),
        ("features", f"{model.n_features:,}"),
        ("values", f"{X.min():.4g} to {X.max():.4g}, mean {X.mean():.4g}"),
    ]
    if model.encoding is not None:
        rows.append(("columns", ", ".join(model.encoding.names)[:300]))
    trained = model.summary.get("data")
    if isinstance(trained, dict):
        known = {k: v for k, v in trained.items() if v not in (None, {}) and k != "sha256"}
        rows += [(f"training: {k}", _words(v)) for k, v in known.items()]
    return rows


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(
            f"{k}: {v:,}" if isinstance(v, int) else f"{k}: {v}" for k, v in value.items()
        )
    return f"{value:,}" if isinstance(value, int) else str(value)

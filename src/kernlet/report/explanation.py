"""The importance of features in pages: of a report, and the page of an explanation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernlet import __version__
from kernlet.atomic import atomic_write
from kernlet.explain.shapley import Explanation, explain_rows
from kernlet.model.model import Model

_MOST_FEATURES, _MOST_PER_OUTPUT, _MOST_OUTPUTS, _MOST_PER_ROW = 20, 5, 30, 10
# Of a report: what is explained is limited to this much work, a second or two.
_MOST_ROWS, _MOST_BACKGROUND, _MOST_WORK = 50, 30, 2e8
_ROUGH_TOL, _FEW_PERMUTATIONS = 1e-4, 100


@dataclass(frozen=True)
class Bar:
    """A name, a number and the ends of a bar as percentages of its track."""

    name: str
    value: float
    start: float
    length: float
    is_negative: bool = False
    cell: str = ""


@dataclass(frozen=True)
class Importance:
    """Bars of the features, over all outputs and per output."""

    bars: list[Bar]
    n_features: int
    outputs: list[tuple[str, list[Bar]]]
    n_outputs: int
    what: str  # classes or outputs
    n_rows: int
    n_background: int
    sentence: str


def error_and_size(explanation: Explanation) -> tuple[float, float]:
    """The largest error and the largest value."""
    error = float(explanation.error.max(initial=0.0))
    return error, float(np.abs(explanation.values).max(initial=0.0))


def error_sentence(kind: str, error: float, largest: float) -> str:
    """How exact the values are, from the kind of their errors and :func:`error_and_size`."""
    if kind == "bound":
        return f"exact values: no error exceeds {error:.1e}; the largest value is {largest:.3g}"
    return (
        "estimates from random permutations, because a projection or the kernel mixes the features:"
        f" standard errors are at most {error:.1e}; the largest value is {largest:.3g}"
    )


def order_note(model: Model) -> str:
    """What to know of the values of quantiles; nothing of other outputs."""
    if not model.sorts_outputs:
        return ""
    return (
        "values are of the quantiles before they are sorted: where quantiles of a row cross, they "
        "sum to other numbers than are predicted"
    )


def importance_of(model: Model, explanation: Explanation, n_background: int) -> Importance:
    """Mean absolute values, the largest features first."""
    importance = explanation.importance()
    names = explanation.feature_names
    overall = importance.sum(axis=1)
    outputs = []
    if len(explanation.output_names) > 1:
        largest = importance.max(initial=0.0)
        for output, column in zip(explanation.output_names, importance.T, strict=True):
            outputs.append((output, _bars(names, column, _MOST_PER_OUTPUT, largest)))
    return Importance(
        _bars(names, overall, _MOST_FEATURES, overall.max(initial=0.0)),
        len(names),
        outputs[:_MOST_OUTPUTS],
        len(outputs),
        "classes" if model.kind == "classifier" else "outputs",
        len(explanation.values),
        n_background,
        error_sentence(explanation.error_kind, *error_and_size(explanation)),
    )


def _bars(names: Any, values: Any, most: int, largest: float) -> list[Bar]:
    order = np.argsort(-values, kind="stable")[:most]
    largest = largest or 1.0
    return [Bar(names[e], float(values[e]), 0.0, 100 * float(values[e]) / largest) for e in order]


def rough_importance(model: Model, X: Any) -> Importance | None:
    """The importance of features over a few rows, in a second or two; None where it has none."""
    if model.expansion.skips_missing:
        X = X[~np.isnan(X).any(axis=1)]
        if not len(X):
            return None
    order = np.random.RandomState(0).permutation(len(X))
    others = X[np.sort(order[:_MOST_BACKGROUND])]
    maps = (model.scaler, model.expansion.input_map)
    parts = model.expansion.kernel.as_products(_ROUGH_TOL)
    per_center = 2.0 * _FEW_PERMUTATIONS  # of an estimate
    if parts is not None and all(map is None or map.matrix is None for map in maps):
        per_center = len(others) * len(parts[0])
    work = per_center * max(1, model.expansion.n_centers) * X.shape[1]
    n_rows = int(np.clip(_MOST_WORK // work, 3, _MOST_ROWS))
    rows = X[np.sort(order[-n_rows:])]
    try:
        explanation = explain_rows(
            model,
            np.asarray(rows, dtype=float),
            np.asarray(others, dtype=float),
            tol=_ROUGH_TOL,
            n_permutations=_FEW_PERMUTATIONS,
            random_state=0,
        )
    except ValueError:  # a curve behind a matrix, or an overflow
        return None
    return importance_of(model, explanation, len(others))


# -- The page of an explanation ------------------------------------------------------------------


@dataclass(frozen=True)
class ExplainedRow:
    """A row, what was predicted, and the features that it is due to."""

    number: int
    answer: str
    output: str
    base: float
    score: float
    bars: list[Bar]
    n_others: int
    others: float  # what the features that are not shown add together


def write_explanation(
    model: Model,
    explanation: Explanation,
    codes: Any,
    path: Path,
    *,
    name: str,
    data: str,
    n_background: int,
) -> None:
    """Write a page with the importance of all features and the first rows one by one.

    ``codes`` has the numbers of the classes that are predicted for these rows.
    """
    from kernlet.report.page import template

    page = template("explanation.html.jinja").render(
        name=name,
        data=data,
        version=__version__,
        importance=importance_of(model, explanation, n_background),
        rows=[_row(model, explanation, number, int(code)) for number, code in enumerate(codes)],
        note=order_note(model),
        is_exact=explanation.error_kind == "bound",
    )
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="backslashreplace")


def _row(model: Model, explanation: Explanation, number: int, code: int) -> ExplainedRow:
    """The bars of the class that is predicted, or of the first output."""
    scores = explanation.base_values + explanation.values[number].sum(axis=0)
    output = min(code, len(scores) - 1)
    values, base = explanation.values[number, :, output], float(explanation.base_values[output])
    is_classifier = model.kind == "classifier"
    answer = str(model.classes[code]) if is_classifier else f"{scores[output]:.4g}"
    order = np.argsort(-np.abs(values), kind="stable")[:_MOST_PER_ROW]
    unit = 50 / (np.abs(values).max(initial=0.0) or 1.0)
    bars = []
    for e in order:
        value = float(values[e])
        start = 50 + unit * min(0.0, value)
        cell = _cell(explanation.data[number, e])
        name = explanation.feature_names[e]
        bars.append(Bar(name, value, start, unit * abs(value), value < 0, cell))
    n_others = len(values) - len(order)
    rest = float(values.sum() - values[order].sum())
    score, title = float(scores[output]), explanation.output_names[output]
    title = f"of {title}" if is_classifier or len(scores) > 1 else ""
    return ExplainedRow(number + 1, answer, title, base, score, bars, n_others, rest)


def _cell(value: Any) -> str:
    """The cell of a feature; nothing where a group has several."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    text = f"{value:.5g}" if isinstance(value, float | np.floating) else str(value)
    return text if len(text) <= 24 else text[:23] + "\u2026"

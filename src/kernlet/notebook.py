"""What notebooks show of a machine: a table of facts, legible on light and dark grounds."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector

_MOST_LABELS = 6
_LONGEST_LABEL = 30  # characters

# Colours are those of the text around the table. Notebooks stripe rows and align numbers to the
# right by style sheets, which only the style of an element itself overrides.
_TABLE = "border-collapse: collapse; margin: 0.4em 0; width: auto; font-size: 0.9em;"
_ROW = "background: none; border-bottom: 1px solid rgba(128, 128, 128, 0.35);"
_CELL = "text-align: left; vertical-align: top; padding: 0.25em 1em 0.25em 0.3em;"
_NAME = f"{_CELL} font-weight: 600; white-space: nowrap;"
_VALUE = f"{_CELL} white-space: normal; max-width: 60em;"

# Fitted attributes that are certificates, in words.
_CERTIFICATES_IN_WORDS = {
    "duality_gap_": "relative duality gap {}",
    "gap_": "relative gap to the optimum {}",
    "ball_gap_": "furthest row {} radii outside its ball",
    "error_bound_": "round-off at most {}",
    "residual_": "relative residual of the normal equations {}",
}


def facts_table(facts: Iterable[tuple[str, str]]) -> str:
    """Names and values as an HTML table; empty where there are none."""
    rows = "".join(
        f'<tr style="{_ROW}"><th scope="row" style="{_NAME}">{escape(name)}</th>'
        f'<td style="{_VALUE}">{escape(value)}</td></tr>'
        for name, value in facts
    )
    return f'<table style="{_TABLE}"><tbody>{rows}</tbody></table>' if rows else ""


def count_of_labels(labels: Iterable[Any]) -> str:
    """How many labels there are, and the first of them."""
    texts = [str(label) for label in labels]
    shown = [_shortened(text) for text in texts[:_MOST_LABELS]]
    shown += ["..."] * (len(texts) > _MOST_LABELS)
    return f"{len(texts):,} ({', '.join(shown)})"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else f"{text[:_LONGEST_LABEL]}..."


def machine_facts(machine: Any) -> list[tuple[str, str]]:
    """Size, certificate and layout of a fitted estimator with an expansion, for reading."""
    expansion = machine.expansion_
    n_candidates = getattr(machine, "n_candidates_", None)
    of = "" if n_candidates is None else f" of {n_candidates:,} candidates"
    choice = getattr(machine, "choice_", "")
    storage = {} if choice else getattr(expansion, "storage", {})  # which a choice names
    facts = {
        "centers": f"{machine.n_centers_:,}{of}",
        "bytes": f"{getattr(machine, 'nbytes_', expansion.nbytes):,}",
        "certificate": "; ".join(_certificates(machine)),
        "choice": choice,
        "storage": ", ".join(f"{name} {form}" for name, form in storage.items()),
        "validation score": f"{getattr(machine, 'validation_score_', np.nan):.4f}",
        "kernel": expansion.kernel.describe(4),
        **input_and_output(machine),
    }
    return [(name, value) for name, value in facts.items() if value not in ("", "nan")]


def input_and_output(machine: Any) -> dict[str, str]:
    """Classes, quantiles or outputs of a fitted estimator, and its features, for reading."""
    facts, quantiles = {}, getattr(machine, "quantiles_", None)
    if is_classifier(machine):
        facts["classes"] = count_of_labels(machine.classes_)
    elif quantiles:
        facts["quantiles"] = ", ".join(f"{level:g}" for level in quantiles)
    elif not is_outlier_detector(machine):
        facts["outputs"] = f"{machine.expansion_.n_outputs:,}"
    n_features = getattr(machine, "n_features_in_", None)  # a text has none
    return facts if n_features is None else facts | {"features": f"{n_features:,}"}


def _certificates(machine: Any) -> list[str]:
    """The certificates of a fit in words, each for its worst output."""
    certificates = []
    for name, text in _CERTIFICATES_IN_WORDS.items():
        value = getattr(machine, name, None)
        if value is None:
            continue
        worst = float(np.max(value))
        nothing = name in ("gap_", "duality_gap_") and worst >= 1
        of = f" (largest of {np.size(value)} outputs)" if np.size(value) > 1 else ""
        certificates.append(text.format(f"{worst:.2g}") + of + ", which is not a bound" * nothing)
    return certificates

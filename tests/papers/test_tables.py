"""Verdicts, standard errors and what becomes of them in JSON and Markdown."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers.tables import (
    NOT_PUBLIC,
    Figure,
    Measurement,
    PaperTable,
    summarize,
    table_json,
    table_markdown,
)


def figure(paper, values, *, kind="accuracy", larger=True, **more):
    return Figure("row", "figure", kind, paper, Measurement(values, **more), larger)


@pytest.mark.parametrize(
    ("paper", "larger", "verdict"),
    [
        (8.0, True, "met"),
        (10.0, True, "met"),
        (7.9, True, "beaten"),
        (10.1, True, "not met"),
        (7.9, False, "not met"),
        (10.1, False, "beaten"),
    ],
)
def test_within_one_standard_error_is_met(paper, larger, verdict):
    assert figure(paper, [8.0, 10.0], larger=larger).verdict == verdict  # 9 with an error of 1


def test_the_error_of_one_test_part_joins_that_of_seeds():
    assert Measurement([90.0], n_test=900).standard_error == pytest.approx(1.0)
    joint = Measurement([89.0, 91.0], n_test=900)
    assert joint.standard_error == pytest.approx(math.sqrt(1.0 + 1.0))
    assert Measurement([100.0], n_test=50).standard_error == 0.0


def test_a_count_without_spread_is_compared_as_it_is():
    assert figure(27, [27], kind="size", larger=False).verdict == "met"
    assert figure(27, [26], kind="size", larger=False).verdict == "beaten"
    worse = figure(27, [28], kind="size", larger=False)
    assert worse.verdict == "not met"
    assert worse.to_json()["difference"] is None  # infinity is not a JSON number
    json.dumps(worse.to_json(), allow_nan=False)


def test_times_and_missing_figures_are_not_judged():
    assert figure(100.0, [1.0], kind="time").verdict == "-"
    assert figure(None, [1.0]).verdict == "-"
    assert Figure("row", "figure", "accuracy", 90.0, NOT_PUBLIC).verdict == "-"


@given(st.floats(50, 100), st.lists(st.floats(50, 100), min_size=2, max_size=10), st.booleans())
def test_the_verdict_agrees_with_the_difference(paper, values, larger):
    found = figure(paper, values, larger=larger)
    mirrored = figure(-paper, [-value for value in values], larger=not larger)
    assert found.verdict == mirrored.verdict
    expected = {"beaten": found.difference > 1, "not met": found.difference < -1}
    assert expected.get(found.verdict, abs(found.difference) <= 1)


def page(*figures, quick=False):
    table = PaperTable("garcia2006", "1", "A table", list(figures), ["A note."])
    return table_json(table, quick, 'make reproduce ARGS="garcia2006 --table 1"', "versions")


def test_a_page_shows_rows_settings_and_reasons():
    facts = page(
        figure(90.0, [80.0, 81.0], parameters="C=1", selection="by folds", reason="it is hard"),
        figure(70.0, [80.0, 81.0], parameters="C=1", selection="by folds"),
        Figure("faces", "figure", "accuracy", 90.0, NOT_PUBLIC),
    )
    text = table_markdown(json.loads(json.dumps(facts)))
    assert text.startswith("**A table**")
    assert "| row | figure | 90 | 80.50 ± 0.707 | 2 | -19.0 | not met |" in text
    assert "(1) C=1; by folds." in text
    assert "(2)" not in text  # both rows were have the same settings
    assert "- row, figure: it is hard" in text
    assert "| faces | figure | 90 | data not public |" in text


def test_the_summary_counts_by_paper_and_kind():
    facts = page(
        figure(90.0, [80.0, 81.0], reason="it is hard"),
        figure(70.0, [80.0, 81.0]),
        figure(80.5, [80.0, 81.0], kind="size"),
        figure(9.0, [80.0], kind="time"),
        Figure("faces", "figure", "accuracy", 90.0, NOT_PUBLIC),
    )
    text = summarize([facts])
    line = "1 | 0 | 1 | 50 % of 2 | 0 | 1 | 0 | 100 % of 1 | 1 | 0 |"
    assert f"| garcia2006 | {line}" in text
    assert f"| **all** | {line}" in text
    assert "- 1: row, figure (80.5 against 90): it is hard" in text


def test_a_reason_is_given_once_for_all_its_figures():
    figures = [
        Figure(row, "size", "accuracy", 90.0, Measurement([80.0, 81.0], reason=reason))
        for row, reason in [("a", "it is hard"), ("b", "noise"), ("c", "it is hard")]
    ]
    facts = page(*figures)
    assert "Not met:\n\n- a, size; c, size: it is hard\n- b, size: noise\n" in table_markdown(facts)
    assert "(80.5 against 90); 1: c, size (80.5 against 90): it is hard\n" in summarize([facts])


def test_a_quick_run_is_not_judged():
    facts = page(
        figure(90.0, [80.0, 81.0], reason="it is hard"),
        figure(90.0, [80.0]),
        figure(9.0, [80.0], kind="time"),
        Figure("faces", "figure", "accuracy", 90.0, NOT_PUBLIC),
        quick=True,
    )
    text = table_markdown(json.loads(json.dumps(facts)))
    assert text.startswith("**A table (quick: fewer rows, folds and seeds)**")
    assert "| row | figure | 90 | 80.50 ± 0.707 | 2 | - | quick: not judged |" in text
    assert "| row | figure | 90 | 80 | 1 | - | quick: not judged |" in text
    assert "met" not in text.replace("settings", "")
    summary = summarize([facts])
    assert "| garcia2006 | 0 | 0 | 0 | - | 0 | 0 | 0 | - | 1 | 0 |" in summary
    assert "Quick tables are not judged" in summary
    assert "it is hard" not in summary

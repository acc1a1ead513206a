"""Verdicts, standard errors and what becomes of them in JSON and Markdown."""

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from papers.summary import GROUPS, summarize
from papers.tables import (
    NOT_PUBLIC,
    ONE_SIDED,
    TWO_SIDED,
    Figure,
    Measurement,
    PaperTable,
    table_json,
    table_markdown,
)


def figure(paper, values, *, kind="accuracy", target="larger", **more):
    return Figure("row", "figure", kind, paper, Measurement(values, **more), target)


@pytest.mark.parametrize(
    ("paper", "target", "verdict"),
    [
        (8.0, "larger", "met"),
        (10.0, "larger", "met"),
        (7.9, "larger", "beaten"),
        (10.1, "larger", "not met"),
        (7.9, "smaller", "not met"),
        (10.1, "smaller", "beaten"),
        (7.6, "equal", "met"),
        (10.4, "equal", "met"),
        (7.5, "equal", "not met"),
        (10.5, "equal", "not met"),
    ],
)
def test_a_figure_is_met_within_its_limits(paper, target, verdict):
    assert figure(paper, [8.0, 10.0], target=target).verdict == verdict  # 9 with an error of 1


def test_the_error_of_one_test_part_joins_that_of_seeds():
    assert Measurement([90.0], n_test=900).standard_error == pytest.approx(1.0)
    joint = Measurement([89.0, 91.0], n_test=900)
    assert joint.standard_error == pytest.approx(math.sqrt(1.0 + 1.0))
    assert Measurement([100.0], n_test=50).standard_error == 0.0
    clusters = Measurement([89.0, 91.0], n_test=900, test_error=2.0)
    assert clusters.standard_error == pytest.approx(math.sqrt(1.0 + 4.0))


def test_the_limits_hold_for_84_percent_of_exact_repetitions():
    assert norm.sf(-ONE_SIDED) == pytest.approx(0.84, abs=0.002)
    assert 1 - 2 * norm.sf(TWO_SIDED) == pytest.approx(0.84, abs=0.002)


def test_a_count_without_spread_is_compared_as_it_is():
    assert figure(27, [27], kind="size", target="smaller").verdict == "met"
    assert figure(27, [26], kind="size", target="smaller").verdict == "beaten"
    worse = figure(27, [28], kind="size", target="smaller")
    assert worse.verdict == "not met"
    assert worse.to_json()["difference"] is None  # infinity is not a JSON number
    json.dumps(worse.to_json(), allow_nan=False)


def test_times_and_missing_figures_are_not_judged():
    assert figure(100.0, [1.0], kind="time").verdict == "-"
    assert figure(None, [1.0]).verdict == "-"
    assert Figure("row", "figure", "accuracy", 90.0, NOT_PUBLIC).verdict == "-"


@given(
    st.floats(50, 100),
    st.lists(st.floats(50, 100), min_size=2, max_size=10),
    st.sampled_from(["larger", "smaller"]),
)
def test_the_verdict_agrees_with_the_difference(paper, values, target):
    found = figure(paper, values, target=target)
    opposite = {"larger": "smaller", "smaller": "larger"}[target]
    mirrored = figure(-paper, [-value for value in values], target=opposite)
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
    assert "| row | figure | 90 | 80.50 ± 0.707 | 2 | -19.0 | missed |" in text
    assert "(1) C=1; by folds." in text
    assert "(2)" not in text  # both rows were have the same settings
    assert "- **It is hard.** row, figure." in text
    assert "| faces | figure | 90 | data not public |" in text


def test_the_summary_counts_by_group_and_by_paper():
    def size(paper, **labels):
        return Figure("row", "points", "size", paper, Measurement([8.0, 10.0]), **labels)

    facts = page(
        figure(90.0, [80.0, 81.0], reason="it is hard"),
        figure(70.0, [80.0, 81.0]),
        size(9.0, target="smaller"),
        size(20.0, target="smaller", is_free=False),
        size(20.0, target="smaller", role="baseline"),
        size(20.0, target="equal", role="baseline"),
        size(20.0, target="smaller", unjudged="a cap"),
        figure(9.0, [80.0], kind="time"),
        Figure("faces", "figure", "accuracy", 90.0, NOT_PUBLIC),
    )
    text = summarize([facts])
    assert "| the paper's method: accuracy | 1 | 0 | 1 | 50 % of 2 |" in text
    assert "| the paper's method: size | 0 | 1 | 0 | 100 % of 1 |" in text
    assert "| the paper's method: size fixed by construction | 1 | 0 | 0 | 100 % of 1 |" in text
    assert "| what it compares with: accuracy | 0 | 0 | 0 | - |" in text
    assert "| what it compares with: size | 1 | 0 | 0 | 100 % of 1 |" in text
    assert "| descriptive counts, two-sided | 0 | 0 | 1 | 0 % of 1 |" in text
    cells = "50 % of 2 | 100 % of 1 | - | 100 % of 1 | 0 % of 1 | 1 | 0 |"
    assert f"| garcia2006 | {cells}" in text
    assert "Shown, not judged: a cap (1)." in text
    assert "would match or beat 84 %" in text
    assert "- **It is hard.** table 1: row, figure (80.5 against 90)." in text


def test_every_judged_figure_is_in_one_group():
    labels = itertools.product(
        ["accuracy", "size"], ["larger", "smaller", "equal"], ["own", "baseline"], [True, False]
    )
    for kind, target, role, is_free in labels:
        fields = {"kind": kind, "target": target, "role": role, "is_free": is_free}
        assert sum(belongs(fields) for belongs in GROUPS.values()) == 1


def test_a_reason_is_given_once_for_all_its_figures():
    figures = [
        Figure(row, "size", "accuracy", 90.0, Measurement([80.0, 81.0], reason=reason))
        for row, reason in [("a", "it is hard"), ("b", "noise"), ("c", "it is hard")]
    ]
    facts = page(*figures)
    listed = "- **It is hard.** a, size; c, size.\n- **Noise.** b, size.\n"
    assert f"Missed, and why:\n\n{listed}" in table_markdown(facts)
    assert "(80.5 against 90); table 1: c, size (80.5 against 90).\n" in summarize([facts])


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
    assert "| garcia2006 | - | - | - | - | - | 1 | 0 |" in summary
    assert "Quick tables are not judged" in summary
    assert "it is hard" not in summary

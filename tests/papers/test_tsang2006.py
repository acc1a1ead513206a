"""Tables of Tsang et al. 2006 from made-up answers: labels, roles, errors and what is missing."""

import pytest

from papers.cache import ResultCache
from papers.tables import Results
from papers.tsang2006 import (
    NOT_EXACT,
    OTHER_METHOD,
    build_accuracies,
    build_growth,
    build_nodes,
    build_points,
    build_seconds,
    build_trees,
    experiments,
)


def answer(parameters):
    """All classifiers have 90 % on features of 100 points; the extended USPS has an error of 2."""
    n_per_class = parameters["options"].get("n_per_class", 5)
    keys = ["0"] if parameters["method"] in ("none", "kfd") else list("12345"[:n_per_class])
    names = [f"{classifier} {k}" for classifier in ("1-NN", "ANN", "SVM") for k in keys]
    names += ["tree"] if parameters["n_nodes"] else []
    facts = {
        "fit": dict.fromkeys(keys, 1.5),
        "points": dict.fromkeys(keys, 100.0),
        "parameters": "",
        "certificates": {"gap": 0.5, "ball_gap": 0.01},
        "n_test": 900,
        "accuracy": dict.fromkeys(names, 90.0),
        "test_error": dict.fromkeys(names, 2.0) if parameters["name"] == "usps" else {},
        "C": 10.0,
    }
    if parameters["n_nodes"]:
        facts |= {"nodes": parameters["n_nodes"], "rule": "pruned", "by_rule": {"pruned": 91.0}}
    return facts


@pytest.fixture
def results(tmp_path):
    named = experiments(False)
    cache = ResultCache(tmp_path / "cache.json")
    cache.results = {
        e.key: {"answer": answer(e.parameters), "seconds": 1.0} for es in named.values() for e in es
    }
    return Results(named, cache, lambda name, seconds: None, cached_only=True)


def test_core_sets_are_own_and_the_rest_baselines(results):
    """The paper proposes core sets; MMDA(SVM) is the original, with which it compares them."""
    for figure in build_accuracies(results, False).figures:
        assert (figure.role == "own") == (
            "MMDA(CVM)" in figure.row or "MMDA by landmarks" in figure.row
        )
        assert (figure.unjudged == OTHER_METHOD) == ("landmarks" in figure.row)
        assert figure.target == "larger"


def test_only_counts_of_margin_solvers_are_free(results):
    free = [f for f in build_points(results, False).figures if f.is_free and f.kind == "size"]
    assert {f.row.split(", ")[1] for f in free} == {"MMDA(SVM)", "MMDA(CVM)"}
    nodes = build_nodes(results, False).figures
    assert not any(f.is_free for f in nodes)
    assert not any("landmarks" in f.row for f in nodes)


def test_errors_of_shifted_digits_are_those_of_digits(results):
    for figure in build_accuracies(results, False).figures:
        if not isinstance(figure.ours, str):
            expected = 2.0 if figure.row.startswith("usps") else 1.0
            assert figure.ours.standard_error == pytest.approx(expected)


def test_what_the_exact_solver_leaves_out_says_so(results):
    tables = [build(results, False) for build in (build_trees, build_accuracies, build_seconds)]
    figures = [
        f for table in tables for f in table.figures if f.row.startswith("letter, MMDA(SVM)")
    ]
    missing = [f for f in figures if f.ours == NOT_EXACT]
    assert len(figures) == 10
    assert not any(f"{k} per class" in f.row for f in missing for k in (1, 3))
    assert len(missing) == 4


def test_the_certificate_is_that_of_section_four(results):
    rows = [f for f in build_points(results, False).figures if "radius" in f.quantity]
    assert len(rows) == 6
    assert rows[0].paper == pytest.approx(0.2001)
    assert rows[0].ours.mean == pytest.approx(2.01)
    assert rows[0].verdict == "-"


def test_curves_have_all_methods_and_numbers_of_features(results):
    table = build_growth(results, False)
    (axes, *_) = table.pictures["tsang2006-figure2.png"].axes
    assert [len(line.get_xdata()) for line in axes.lines] == [5] * 5
    assert table.notes[1].count("90.00 / 1.5") == 3 * 5 * 5


def test_points_of_the_exact_solver_are_descriptions(results):
    for figure in build_points(results, False).figures:
        assert (figure.target == "equal") == ("MMDA(SVM)" in figure.row)

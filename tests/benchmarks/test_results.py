"""What is written of the results is what the JSON files say."""

import numpy as np
import pytest

from benchmarks import results
from benchmarks.__main__ import discover
from benchmarks.frontier import goals, page, run, summary
from benchmarks.frontier.rows import pack_rows


@pytest.fixture(scope="module")
def committed():
    return results.read_frontier()


def record(competitor, accuracies, validated=0.5, nbytes=90, **others):
    return {
        "set": "toy",
        "budget": 100,
        "competitor": competitor,
        "accuracies": accuracies,
        "validated": validated,
        "nbytes": nbytes,
        "fits": True,
        **others,
    }


def document(*records, test="official"):
    names = {r["competitor"]: r["competitor"] == "compact_call" for r in records}
    return {
        "competitors": {n: {"title": n, "is_kernlet": ours} for n, ours in names.items()},
        "sets": {"toy": {"rows": 700, "test_rows": 300, "test": test, "classes": 2, "seeds": 2}},
        "n_settings": 12,
        "records": list(records),
    }


@pytest.mark.slow
def test_the_page_does_without_growth(committed):
    assert "frontier-growth" not in page.page(committed[0], None)


def test_a_readme_without_markers_is_refused():
    with pytest.raises(ValueError, match="no markers"):
        results.between_markers("# nothing", "frontier", "table")


def test_the_best_peer_is_chosen_by_validation_and_not_by_test_rows():
    found = document(
        record("compact_call", [0.6], validated=None),
        record("peer", [0.6], validated=0.9),
        record("other", [0.99], validated=0.8),
        record("small", [0.5], validated=0.9, nbytes=50),
    )
    assert summary.best_peer(found, "toy", 100)["competitor"] == "small"
    (comparison,) = summary.best_comparisons(found)
    assert comparison.theirs["competitor"] == "small"


def test_the_call_is_compared_with_an_svc_of_any_size_and_with_fewer_bytes():
    found = document(
        record("compact_call", [0.9, 0.9]),
        {**record("compact_call", [0.8, 0.8]), "budget": 200},
        {**record("svc", [0.95, 0.95]), "budget": summary.UNLIMITED},
    )
    assert summary.pairs(found) == [("toy", 100), ("toy", 200)]
    rows = summary.reference_table(found).rows
    assert [row[1] for row in rows] == ["100", "200"]
    assert rows[0][-2].startswith("**-5.00")
    assert rows[0][-1] == "-"
    assert rows[1][-1].startswith("**-10.00")


def test_differences_on_a_test_part_have_a_binomial_error():
    ours, theirs = record("compact_call", [0.9, 0.9]), record("theirs", [0.8])
    found = summary.compare(ours, theirs, document(ours, theirs)["sets"]["toy"])
    assert found.difference == pytest.approx(10.0)
    assert found.error == pytest.approx(100 * np.sqrt((0.9 * 0.1 + 0.8 * 0.2) / 300))
    assert found.verdict == "ahead"


def test_differences_on_splits_are_paired_and_corrected():
    ours, theirs = record("compact_call", [0.9, 0.7]), record("theirs", [0.88, 0.72])
    found = summary.compare(ours, theirs, document(ours, theirs, test="splits")["sets"]["toy"])
    assert found.difference == pytest.approx(0.0)
    assert found.error == pytest.approx(np.sqrt(8.0 * (1 / 2 + 300 / 700)))
    assert found.verdict == "tied"


def test_the_error_on_splits_is_at_least_a_row():
    ours, theirs = record("compact_call", [0.9, 0.7]), record("theirs", [0.898, 0.698])
    found = summary.compare(ours, theirs, document(ours, theirs, test="splits")["sets"]["toy"])
    assert found.error == pytest.approx(100 / 300)
    assert found.verdict == "tied"


def test_equal_machines_are_tied_and_losses_are_listed():
    found = document(
        record("compact_call", [0.8, 0.8]),
        record("equal", [0.8, 0.8]),
        record("better", [0.95, 0.95]),
    )
    verdicts = {c.theirs["competitor"]: c.verdict for c in summary.comparisons(found)}
    assert verdicts == {"equal": "tied", "better": "behind"}
    losses = page._losses(found)
    assert "| toy | 100 | better |" in losses
    assert "equal" not in losses


def test_a_peer_that_does_not_fit_is_counted_apart():
    gone = {"set": "toy", "budget": 100, "competitor": "gone", "fits": False}
    found = document(record("compact_call", [0.8, 0.8]), gone)
    rows = {row[0]: row for row in summary.verdict_table(found).rows}
    assert rows["gone"][1:5] == ["0 / 0 / 0", "0 / 0 / 0", "1", "0"]
    found["competitors"]["gone"]["title"] = "SVC"
    assert "| SVC | 0 | 0 | 0 | 1 |" in results.frontier_table(found)


def test_perfect_machines_still_have_an_error():
    ours, theirs = record("compact_call", [1.0, 1.0]), record("theirs", [1.0])
    found = summary.compare(ours, theirs, document(ours, theirs)["sets"]["toy"])
    assert found.error == pytest.approx(100 / 300)


def test_two_standard_errors_take_more():
    found = summary.Comparison({}, {}, difference=-1.5, error=1.0)
    assert (found.verdict, found.verdict_at(2)) == ("behind", "tied")


def test_the_same_two_machines_are_counted_as_such():
    twice = [
        record(name, accuracies, budget=budget, setting={"C": 1})
        for budget in (100, 200)
        for name, accuracies in (("compact_call", [0.9, 0.9]), ("peer", [0.8, 0.8]))
    ]
    rows = {row[0]: row for row in summary.verdict_table(document(*twice)).rows}
    assert rows["peer"][1] == "2 / 0 / 0"
    assert rows["peer"][4] == "1"


def test_incomplete_results_are_reported():
    whole = document(record("compact_call", [0.8, 0.8], n_settings=3))
    assert list(results._frontier_problems(whole)) == []
    large = document(record("compact_call", [0.8, 0.8, 0.8], n_settings=99, nbytes=101))
    found = " ".join(results._frontier_problems(large))
    assert "tried 99 settings" in found
    assert "takes 101 bytes" in found
    assert "has 3 seeds" in found


def test_every_suite_is_discovered():
    assert {"one-call", "growth", "compact-speed", "mmda-speed", "tall-speed"} <= set(discover())
    assert {"compression", "frontier", "frontier-growth"} <= set(discover())


def test_errors_are_paired_by_row_where_rows_are_stored():
    random = np.random.RandomState(0)
    wrong = [random.rand(300) < share for share in (0.1, 0.1, 0.05)]
    ours = [~wrong[0], ~wrong[1]]
    theirs = [~(wrong[0] | wrong[2])]  # wrong wherever ours is, and on some more rows
    a = record("compact_call", [of.mean() for of in ours], right=[pack_rows(of) for of in ours])
    b = record("theirs", [of.mean() for of in theirs], right=[pack_rows(of) for of in theirs])
    found = summary.compare(a, b, document(a, b)["sets"]["toy"])
    rows = np.mean(ours, axis=0) - theirs[0]
    seeds = np.var([100 * of.mean() for of in ours], ddof=1) / 2
    assert found.difference == pytest.approx(100 * rows.mean())
    assert found.error == pytest.approx(np.sqrt(1e4 * np.var(rows, ddof=1) / 300 + seeds))
    unpaired = {key: value for key, value in b.items() if key != "right"}
    assert summary.compare(a, unpaired, document(a, b)["sets"]["toy"]).error > found.error


def test_samples_are_paired_by_row_and_split():
    random = np.random.RandomState(1)
    ours, theirs = ([random.rand(300) < share for _ in range(3)] for share in (0.9, 0.8))
    a = record("compact_call", [of.mean() for of in ours], right=[pack_rows(of) for of in ours])
    b = record("theirs", [of.mean() for of in theirs], right=[pack_rows(of) for of in theirs])
    found = summary.compare(a, b, document(a, b, test="samples")["sets"]["toy"])
    rows = np.concatenate(ours).astype(float) - np.concatenate(theirs)
    splits = [100 * (x.mean() - y.mean()) for x, y in zip(ours, theirs, strict=True)]
    square = 1e4 * np.var(rows, ddof=1) / 900 + np.var(splits, ddof=1) / 3
    assert found.error == pytest.approx(np.sqrt(square))


def test_splits_that_both_have_are_compared():
    ours, theirs = record("compact_call", [0.9, 0.8, 0.1]), record("theirs", [0.8, 0.7])
    found = summary.compare(ours, theirs, document(ours, theirs, test="splits")["sets"]["toy"])
    assert found.difference == pytest.approx(10.0)
    drawn = summary.compare(ours, theirs, document(ours, theirs, test="draws")["sets"]["toy"])
    assert drawn.difference == pytest.approx(10.0)


def peers(best, others=(0.6, 0.6, 0.6)):
    """Tuned peers, the best of which is known by validation."""
    names = ("hist_gradient_boosting", "random_forest", "nystroem")
    worse = [record(n, [o] * 2, 0.5) for n, o in zip(names, others, strict=True)]
    return [record("svc", [best] * 2, validated=0.9), *worse]


def test_room_depends_on_the_peers_alone():
    assert summary.has_room(document(*peers(0.8)), "toy")
    assert not summary.has_room(document(*peers(0.62)), "toy")  # within two standard errors
    assert not summary.has_room(document(*peers(0.999)), "toy")  # at the ceiling
    ours = record("compact_call", [0.99, 0.99], validated=None)
    assert not summary.has_room(document(*peers(0.62), ours), "toy")


def test_goals_are_computed_from_the_records(monkeypatch):
    monkeypatch.setattr(goals, "GOALS", {("toy", 100): 90.0, ("toy", 200): 95.0, ("gone", 1): 1.0})
    found = document(
        *peers(0.8),
        record("compact_call", [0.9, 0.9], validated=None),
        record("compact_call", [0.94, 0.94], validated=None, budget=200),
        record("first_call", [0.97, 0.97], validated=None),
        record("mlp_call", [0.7, 0.7], validated=None),
        record("mlp_call", [0.94, 0.94], validated=None, budget=200),
    )
    assert goals.missed_goals(found) == [
        "toy 200 (94.00 %, not 95.0 %)",
        "gone 1 (not measured, not 1.0 %)",
    ]
    assert goals.worse_than_before(found) == ["toy 100"]
    # Of the two pairs one has peers and room, which is not more than half.
    assert goals.mlp_counts_with_room(found)["total"] == 0
    found["records"] = [r for r in found["records"] if r["budget"] == 100]
    assert goals.mlp_counts_with_room(found) == {"ahead": 1, "behind": 0, "total": 1}


def test_efforts_are_beside_each_other():
    found = document(
        record("compact_quick", [0.7, 0.7], fit_seconds=1.0),
        record("compact_call", [0.8, 0.8], fit_seconds=5.0),
        record("compact_thorough", [0.9, 0.9], fit_seconds=20.0),
    )
    (row,) = goals.effort_table(found).rows
    assert row[2:5] == ["70.00 ± 0.00; 1.0 s", "80.00 ± 0.00; 5.0 s", "90.00 ± 0.00; 20.0 s"]
    assert row[5].startswith("+10.00 (se ")


def test_rows_lie_in_a_file_of_their_own(data_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RESULTS", tmp_path / "frontier.json")
    monkeypatch.setattr(run, "ROWS", tmp_path / "frontier-rows.json")
    right = [pack_rows(np.ones(39_601, bool))]
    new = record("compact_call", [1.0], version=2, right=right) | {"set": "checkerboard_generated"}
    run._write([new])
    assert "right" not in (tmp_path / "frontier.json").read_text()
    (read,) = run.read_document()["records"]
    assert read == new
    run._write([new | {"competitor": "svc", "right": right}])
    assert [of["competitor"] for of in run.read_document()["records"]] == ["compact_call", "svc"]


def test_records_of_the_present_version_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RESULTS", tmp_path / "frontier.json")
    monkeypatch.setattr(run, "ROWS", tmp_path / "frontier-rows.json")
    assert run._kept("iris") == set()
    versions = {name: run.COMPETITORS[name].VERSION for name in ("knn", "svc", "compact_call")}
    records = [
        record("knn", [0.9] * 5, version=versions["knn"]),
        record("svc", [0.9] * 5, version=versions["svc"] - 1),
        record("compact_call", [0.9] * 5, version=versions["compact_call"]),
        record("first_call", [0.9] * 5, version=1),
        record("compact_call", [0.9] * 10, version=versions["compact_call"], budget=200),
    ]
    run._write([{**of, "set": "iris"} for of in records])
    assert run._kept("iris") == {(100, "knn"), (200, "compact_call")}


def test_competitors_are_measured_on_their_own_sets():
    assert run.is_measured("diabetes", "compact_regressor")
    assert not run.is_measured("diabetes", "compact_call")
    assert not run.is_measured("iris", "boosting_regressor")
    assert run.is_measured("mnist_60000", "compact_call")
    assert not run.is_measured("mnist_60000", "nystroem")


def test_augmented_calls_are_compared_with_each_other_only():
    found = document(
        record("compact_call", [0.8, 0.8], validated=None),
        record("compact_augmented", [0.9, 0.9], validated=None),
        record("mlp_augmented", [0.95, 0.95], validated=None),
    )
    found["competitors"]["compact_augmented"]["is_kernlet"] = True
    assert list(summary.comparisons(found)) == []
    assert "mlp_augmented" not in summary.by_peer(found)
    (row,) = goals.augmented_table(found).rows
    assert row[2:5] == ["80.00 ± 0.00", "90.00 ± 0.00", "95.00 ± 0.00"]
    assert row[5].startswith("-5.00 (se ")


def test_peers_that_were_not_measured_have_no_line():
    found = document(record("compact_call", [0.8, 0.8]), record("peer", [0.7, 0.7]))
    found["competitors"]["later"] = {"title": "later", "is_kernlet": False}
    assert list(summary.by_peer(found)) == ["peer", summary.BEST_PEER]


def test_what_was_measured_again_stands_beside_the_first_measurement():
    found = document(record("compact_call", [0.8, 0.8]), record("earlier_call", [0.7, 0.7]))
    found["competitors"]["earlier_call"]["is_kernlet"] = True
    (row,) = goals.remeasured_table(found).rows
    assert row[2:4] == ["70.00 ± 0.00", "80.00 ± 0.00"]
    assert list(summary.comparisons(found)) == []


def test_gaps_are_counted():
    found = document(
        record("compact_call", [0.8, 0.8]),
        record("compact_call", [0.8, 0.8], budget=200),
        record("mlp_symmetric", [0.8]),
    )
    assert page._gaps(found) == {"n_deep_missing": 1, "few_seeds": 1, "no_shared": "toy"}

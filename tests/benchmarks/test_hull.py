"""The tables of removal and its peers, from invented cells."""

import numpy as np

from benchmarks import budget
from benchmarks.pictures import removal_points
from benchmarks.suites import hull
from benchmarks.suites.hull import Cell


def cells(accuracies, size=20, choice=0.0):
    return [Cell(size, accuracy, 2.0, choice) for accuracy in accuracies]


def test_a_verdict_is_about_the_difference_on_the_same_folds():
    reference = np.array([0.5, 0.9, 0.7])
    assert hull._verdict(cells(reference + 0.01), cells(reference)) == "ahead of"
    assert hull._verdict(cells(reference - 0.01), cells(reference)) == "behind"
    assert hull._verdict(cells(reference), cells(reference)) == "tied with"
    assert (
        hull._verdict(cells(reference + np.array([0.1, -0.1, 0.02])), cells(reference))
        == "tied with"
    )


def measured():
    """One set on which every method is worse than the one before it."""
    columns = [*hull.METHODS]
    for column in (hull.AS_REMOVAL, hull.AS_FEW):
        columns += [column.format(title) for title in budget.METHODS]
    by_column = {}
    for k, column in enumerate(columns):
        of_budget = k >= len(hull.METHODS)
        by_column[column] = cells([0.9 - k / 100, 0.8 - k / 100], 50 - k, 4.0 * of_budget)
    return {"sonar": by_column}


def test_the_tables_have_every_peer(monkeypatch):
    monkeypatch.setattr(hull, "_names", lambda quick: ["sonar"])
    monkeypatch.setattr(hull, "_measure_set", lambda name: measured()[name])
    tables = list(hull.removal(True))
    assert tables[1].rows[-1][1:] == ["-"] + 3 * ["0 / 0 / 1"]
    assert tables[2].rows[1][1:] == ["-"] + 5 * ["0 / 0 / 1"]
    assert tables[2].rows[2][1:3] == ["1 / 0 / 0", "-"]
    times = {row[0]: row[1] for row in tables[3].rows}
    assert times["iterative removal, s"] == "2.00"
    assert times["full"] == "1x"
    assert times["Forgetron"] == "1x / 3x"
    # The picture of the page shows each method, the budget methods at both sizes.
    points = removal_points("\n\n".join(table.markdown() for table in tables))["sonar"]
    assert points["iterative removal"] == [(49.0, 0.84)]
    assert len(points["Forgetron"]) == 2

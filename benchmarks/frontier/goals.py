"""Goals that were set before the second generation of compact machines was measured.

They were set from a study that had looked at test rows of most of these sets twice; the page says
so beside them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.frontier.summary import (
    AUGMENTED,
    OURS,
    Comparison,
    Document,
    Record,
    accuracy,
    compare,
    comparisons_with,
    counts,
    has_room,
    records_at,
)
from benchmarks.tables import Table

#: Test accuracy in % of the public call, by data set and bytes.
GOALS = {
    ("letter", 1024): 92.5,
    ("letter", 4096): 97.6,
    ("letter", 16_384): 98.2,
    ("covertype", 4096): 85.0,
    ("covertype", 16_384): 86.9,
    ("satimage", 1024): 91.0,
    ("thyroid", 1024): 99.2,
    ("checkerboard_generated", 256): 98.0,
    ("mnist", 16_384): 97.9,
    ("mnist_60000", 16_384): 98.7,
    ("usps", 4096): 95.3,
}
#: The present machine's successor must not be worse than it, by more than one standard error.
BEFORE = "first_call"
EQUAL_MLP = "mlp_call"
AHEAD_SHARE, BEHIND_SHARE = 1 / 3, 1 / 20  # of the pairs of sets with room, two standard errors
TREES = ("hist_gradient_boosting", "random_forest")
#: CPU seconds that a call may take.
TIMED_PAIR, MOST_SECONDS = ("letter", 4096), 20.0
EFFORTS = ("compact_quick", OURS, "compact_thorough")


_BESIDE = ("first generation", "MLP, one call", "the call, augmented", "MLP, augmented")


def goal_table(document: Document) -> Table:
    """Every accuracy that was a goal, beside the call, the call before, and the MLP."""
    table = Table(
        "Test accuracy in % of the call: goal and measured, with the standard error of the mean "
        "(test rows and seeds)",
        ["data", "bytes", "goal", "the call", "standard error", "reached", *_BESIDE],
    )
    for (name, budget), goal in GOALS.items():
        records = records_at(document, name, budget)
        ours = records.get(OURS)
        others = [accuracy(records.get(other)) for other in (BEFORE, EQUAL_MLP, *AUGMENTED)]
        if ours is None or not ours["fits"]:
            table.add(name, f"{budget:,}", f"{goal:.1f}", "not measured", "", "no", *others)
            continue
        mean, error = 100 * np.mean(ours["accuracies"]), _error(ours, document["sets"][name])
        table.add(
            name,
            f"{budget:,}",
            f"{goal:.1f}",
            accuracy(ours),
            f"{error:.2f}",
            "yes" if mean >= goal else "no",
            *others,
        )
    return table


def _error(record: Record, facts: dict[str, Any]) -> float:
    """Standard error of a mean accuracy: test rows and seeds."""
    scores = 100 * np.asarray(record["accuracies"])
    n_tests = len(scores) if facts["test"] == "samples" else 1
    square = scores.mean() * (100 - scores.mean()) / (facts["test_rows"] * n_tests)
    square += np.var(scores, ddof=1) / len(scores) if len(scores) > 1 else 0.0
    return float(np.sqrt(square))


def sets_with_room(document: Document) -> list[str]:
    """Sets on which the peers tell machines apart."""
    return [name for name in document["sets"] if has_room(document, name)]


def aim_table(document: Document) -> Table:
    """The goals that count pairs."""
    table = Table(
        "Goals that count pairs of a data set and a number of bytes",
        ["goal", "measured", "reached"],
    )
    room = set(sets_with_room(document))
    equal = [c for c in comparisons_with(document, EQUAL_MLP) if c.ours["set"] in room]
    two = counts(equal, 2)
    n = max(1, len(equal))
    of_room = f"{len(equal)} pairs of the sets with room"
    table.add(
        "ahead of the equally treated MLP by two standard errors at a third of the pairs",
        f"{two['ahead']} of {of_room} ({100 * two['ahead'] / n:.0f} %)",
        _yes(bool(equal) and two["ahead"] >= AHEAD_SHARE * n),
    )
    table.add(
        "behind it by two at one in twenty at most",
        f"{two['behind']} of {of_room} ({100 * two['behind'] / n:.0f} %)",
        _yes(bool(equal) and two["behind"] <= BEHIND_SHARE * n),
    )
    for peer in TREES:
        behind = [c for c in comparisons_with(document, peer) if c.verdict_at(2) == "behind"]
        table.add(
            f"behind {document['competitors'][peer]['title']} by two nowhere",
            _named(behind, len(comparisons_with(document, peer))),
            _yes(not behind),
        )
    before = comparisons_with(document, BEFORE)
    worse = [c for c in before if c.verdict == "behind"]
    table.add(
        "worse than the first generation's call by one nowhere",
        _named(worse, len(before)),
        _yes(bool(before) and not worse),
    )
    timed = records_at(document, *TIMED_PAIR).get(OURS)
    if timed is not None:
        seconds = timed["fit_seconds"]
        table.add(
            f"the call at {TIMED_PAIR[0]}, {TIMED_PAIR[1]:,} bytes, in {MOST_SECONDS:.0f} CPU s",
            f"{seconds:.1f} s, beside other processes",
            _yes(seconds <= MOST_SECONDS),
        )
    return table


def _yes(is_reached: bool) -> str:
    return "yes" if is_reached else "no"


def _named(found: list[Comparison], n: int) -> str:
    """How many of ``n`` pairs, and which."""
    names = ", ".join(f"{c.ours['set']} {c.ours['budget']:,}" for c in found)
    return f"{len(found)} of {n} pairs" + (f": {names}" if names else "")


def effort_table(document: Document) -> Table:
    """The three efforts where all of them were measured: accuracy and CPU seconds of the call."""
    table = Table(
        "Test accuracy in % and CPU seconds of the call by effort; thorough minus default with its "
        "standard error",
        ["data", "bytes", "quick", "default", "thorough", "difference"],
    )
    pairs = [(r["set"], r["budget"]) for r in document["records"] if r["competitor"] == EFFORTS[0]]
    for name, budget in pairs:
        records = [records_at(document, name, budget).get(effort) for effort in EFFORTS]
        cells = [
            f"{accuracy(r)}; {r['fit_seconds']:.1f} s" if r and r["fits"] else "" for r in records
        ]
        difference = ""
        if records[1] and records[2]:
            found = compare(records[2], records[1], document["sets"][name])
            difference = f"{found.difference:+.2f} (se {found.error:.2f})"
        table.add(name, f"{budget:,}", *cells, difference)
    return table


def remeasured_table(document: Document) -> Table:
    """Calls that were measured again after a correction, beside the first measurement."""
    table = Table(
        "Measured again: test accuracy in %, difference and its standard error",
        ["data", "bytes", "first measurement", "again", "difference"],
    )
    for c in comparisons_with(document, "earlier_call"):
        difference = f"{c.difference:+.2f} (se {c.error:.2f})"
        cells = (accuracy(c.theirs), accuracy(c.ours), difference)
        table.add(c.ours["set"], f"{c.ours['budget']:,}", *cells)
    return table


def augmented_table(document: Document) -> Table:
    """Both calls with transformed images."""
    table = Table(
        'Test accuracy in % of images with augment="affine", difference and its standard error',
        ["data", "bytes", "the call", "the call, augmented", "MLP, augmented", "difference"],
    )
    for c in comparisons_with(document, AUGMENTED[1], AUGMENTED[0]):
        name, budget = c.ours["set"], c.ours["budget"]
        plain = accuracy(records_at(document, name, budget).get(OURS))
        difference = f"{c.difference:+.2f} (se {c.error:.2f})"
        table.add(name, f"{budget:,}", plain, accuracy(c.ours), accuracy(c.theirs), difference)
    return table


def mlp_table(document: Document) -> Table:
    """The call beside the equally treated MLP at every pair, with paired errors."""
    table = Table(
        "The call beside the equally treated MLP: accuracy in %, difference and its standard error",
        ["data", "room", "bytes", "the call", "MLP", "difference", "at two standard errors"],
    )
    room = set(sets_with_room(document))
    for c in comparisons_with(document, EQUAL_MLP):
        table.add(
            c.ours["set"],
            "yes" if c.ours["set"] in room else "no",
            f"{c.ours['budget']:,}",
            accuracy(c.ours),
            accuracy(c.theirs),
            f"{c.difference:+.2f} (se {c.error:.2f})",
            c.verdict_at(2),
        )
    return table

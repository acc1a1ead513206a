"""What the records say: kernlet's best machine beside each peer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.tables import Table, spread

Document = dict[str, Any]
Record = dict[str, Any]
VERDICTS = ("ahead", "tied", "behind")


@dataclass(frozen=True)
class Comparison:
    """Two machines on the same test rows.

    Parameters
    ----------
    ours, theirs : dict
        Their records.
    difference : float
        In points of accuracy, ours less theirs.
    error : float
        Its standard error.
    """

    ours: Record
    theirs: Record
    difference: float
    error: float

    @property
    def verdict(self) -> str:
        """Tied within one standard error."""
        if abs(self.difference) <= self.error or not self.difference:
            return "tied"
        return "ahead" if self.difference > 0 else "behind"


def pairs(document: Document) -> list[tuple[str, int]]:
    """Data sets and numbers of bytes, in order."""
    return list(dict.fromkeys((r["set"], r["budget"]) for r in document["records"]))


def records_at(document: Document, name: str, budget: int) -> dict[str, Record]:
    """By competitor, those that do not fit as well."""
    return {
        record["competitor"]: record
        for record in document["records"]
        if (record["set"], record["budget"]) == (name, budget)
    }


def best_of(document: Document, name: str, budget: int, is_kernlet: bool) -> Record | None:
    """The machine that validates best, of equally good ones the smaller; never by test rows."""
    fitting = [
        record
        for competitor, record in records_at(document, name, budget).items()
        if record["fits"] and document["competitors"][competitor]["is_kernlet"] == is_kernlet
    ]
    return max(fitting, key=lambda r: (r["validated"], -r["nbytes"]), default=None)


def compare(ours: Record, theirs: Record, facts: dict[str, Any]) -> Comparison:
    """The difference of two machines and its standard error.

    On an official test part the rows are a sample, and so are the seeds: p (1 - p) / n_test for the
    mean accuracy p of both, plus the variance of the seeds' differences over their number. On
    random splits the differences are paired by split, and their variance is taken times
    1 / n + n_test / n_train, since the splits share rows (Nadeau and Bengio, 2003); few splits may
    all differ by the same, so that the error is taken to be one test row at least.
    """
    a, b = (100 * np.asarray(record["accuracies"]) for record in (ours, theirs))
    n = max(len(a), len(b))
    differences = np.broadcast_to(a, n) - np.broadcast_to(b, n)
    variance = float(np.var(differences, ddof=1)) if n > 1 else 0.0
    if facts["test"] == "official":
        p = float(np.clip((a.mean() + b.mean()) / 200, 0, 1))
        square = 1e4 * p * (1 - p) / facts["test_rows"] + variance / n
    else:
        square = variance * (1 / n + facts["test_rows"] / facts["rows"])
        square = max(square, (100 / facts["test_rows"]) ** 2)
    return Comparison(ours, theirs, float(differences.mean()), float(np.sqrt(square)))


def comparisons(document: Document) -> Iterator[Comparison]:
    """The best of kernlet beside every peer that fits, pair by pair."""
    for name, budget in pairs(document):
        ours = best_of(document, name, budget, is_kernlet=True)
        if ours is None:
            continue
        for competitor, record in records_at(document, name, budget).items():
            if record["fits"] and not document["competitors"][competitor]["is_kernlet"]:
                yield compare(ours, record, document["sets"][name])


def best_comparisons(document: Document) -> Iterator[Comparison]:
    """The best of kernlet beside the best of all peers, both by validation."""
    for name, budget in pairs(document):
        best = [best_of(document, name, budget, is_kernlet) for is_kernlet in (True, False)]
        if best[0] is not None and best[1] is not None:
            yield compare(best[0], best[1], document["sets"][name])


def counts(found: list[Comparison]) -> Counter[str]:
    """How many are ahead, tied and behind."""
    return Counter(comparison.verdict for comparison in found)


def verdict_table(document: Document) -> Table:
    """For each peer, at how many pairs kernlet's best is ahead, tied and behind."""
    found = list(comparisons(document))
    n_pairs = len(pairs(document))
    table = Table(
        "kernlet's best machine (by validation) beside each peer: pairs of data set and bytes",
        ["peer", *VERDICTS, "peer does not fit", "ahead or tied", "mean difference"],
    )
    peers = [n for n, facts in document["competitors"].items() if not facts["is_kernlet"]]
    for peer in peers:
        _add(table, document, peer, [c for c in found if c.theirs["competitor"] == peer], n_pairs)
    _add(table, document, None, list(best_comparisons(document)), n_pairs)
    return table


def _add(
    table: Table, document: Document, peer: str | None, found: list[Comparison], n_pairs: int
) -> None:
    title = "best peer (by validation)" if peer is None else document["competitors"][peer]["title"]
    number = counts(found)
    good = number["ahead"] + number["tied"]
    share = f"{good} of {len(found)} ({100 * good / len(found):.0f} %)" if found else "-"
    mean = f"{np.mean([c.difference for c in found]):+.2f}" if found else "-"
    table.add(title, *(number[v] for v in VERDICTS), n_pairs - len(found), share, mean)


def set_table(document: Document, name: str) -> Table:
    """Accuracy of every competitor on a set, a column a budget."""
    facts = document["sets"][name]
    budgets = [budget for at, budget in pairs(document) if at == name]
    what = "seeds on the official test part" if facts["test"] == "official" else "random splits"
    table = Table(
        f"{name}: test accuracy in %, mean and deviation of {facts['seeds']} {what} "
        f"({facts['rows']:,} x {facts['features']} training rows, {facts['classes']} classes, "
        f"{facts['test_rows']:,} test rows)",
        ["machine", *(f"{budget:,} bytes" for budget in budgets)],
    )
    best = {budget: best_of(document, name, budget, is_kernlet=True) for budget in budgets}
    for competitor, about in document["competitors"].items():
        cells = []
        for budget in budgets:
            record = records_at(document, name, budget).get(competitor)
            is_best = record is not None and record is best[budget]
            cells.append(f"**{_score(record)}**" if is_best else _score(record))
        table.add(about["title"], *cells)
    return table


def _score(record: Record | None) -> str:
    if record is None:
        return ""
    if not record["fits"]:
        return "does not fit"
    scores = [100 * score for score in record["accuracies"]]
    return spread(scores) if len(scores) > 1 else f"{scores[0]:.2f}"

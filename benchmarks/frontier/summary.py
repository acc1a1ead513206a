"""Comparisons of the records: the public call against each peer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.tables import Table
from papers.tables import mean_and_deviation

Document = dict[str, Any]
Record = dict[str, Any]
VERDICTS = ("ahead", "tied", "behind")
BEST_PEER = "best peer (by validation)"
#: What is compared with every peer: the call that users make.
OURS = "compact_call"
#: The budget of an SVC that may be as large as it is, for comparison; more bytes than any has.
UNLIMITED = 2**40 - 1


@dataclass(frozen=True)
class Comparison:
    """Two machines on the same test rows.

    ``difference`` is ours minus theirs in percentage points, ``error`` its standard error.
    """

    ours: Record
    theirs: Record
    difference: float
    error: float

    @property
    def verdict(self) -> str:
        """Tied within one standard error."""
        return self.verdict_at(1)

    def verdict_at(self, n_errors: int) -> str:
        """Tied within ``n_errors`` standard errors."""
        if abs(self.difference) <= n_errors * self.error or not self.difference:
            return "tied"
        return "ahead" if self.difference > 0 else "behind"

    @property
    def machines(self) -> tuple[Any, ...]:
        """What is compared, regardless of the budget."""
        both = [(r["competitor"], str(r.get("setting"))) for r in (self.ours, self.theirs)]
        return (self.ours["set"], *both)


def pairs(document: Document) -> list[tuple[str, int]]:
    """Data sets and budgets, in order."""
    limited = [r for r in document["records"] if r["budget"] < UNLIMITED]
    return list(dict.fromkeys((r["set"], r["budget"]) for r in limited))


def our_pairs(document: Document) -> list[tuple[str, int]]:
    """Those at which the public call was measured, and fits."""
    return [
        (r["set"], r["budget"])
        for r in document["records"]
        if r["competitor"] == OURS and r["fits"]
    ]


def records_at(document: Document, name: str, budget: int) -> dict[str, Record]:
    """Records by competitor, including those that do not fit."""
    return {
        record["competitor"]: record
        for record in document["records"]
        if (record["set"], record["budget"]) == (name, budget)
    }


def best_peer(document: Document, name: str, budget: int) -> Record | None:
    """The best peer by validation score, the smaller of equals; never by test rows."""
    fitting = [
        record
        for competitor, record in records_at(document, name, budget).items()
        if record["fits"] and not document["competitors"][competitor]["is_kernlet"]
    ]
    return max(fitting, key=lambda r: (r["validated"], -r["nbytes"]), default=None)


def compare(ours: Record, theirs: Record, facts: dict[str, Any]) -> Comparison:
    """The difference of two machines and its standard error, at least one test row.

    On an official test set: the binomial variances p (1 - p) / n_test of both accuracies, as if
    they were measured on different rows (predictions are not stored), plus the variance of the
    seeds' differences over their number. On random splits the differences are paired by split, and
    their variance is multiplied by 1 / n + n_test / n_train, because the splits share rows (Nadeau
    and Bengio, 2003).
    """
    a, b = (100 * np.asarray(record["accuracies"]) for record in (ours, theirs))
    n = max(len(a), len(b))
    differences = np.broadcast_to(a, n) - np.broadcast_to(b, n)
    variance = float(np.var(differences, ddof=1)) if n > 1 else 0.0
    if facts["test"] == "official":
        binomial = sum(mean * (100 - mean) / facts["test_rows"] for mean in (a.mean(), b.mean()))
        square = binomial + variance / n
    else:
        square = variance * (1 / n + facts["test_rows"] / facts["rows"])
    error = max(float(np.sqrt(max(square, 0.0))), 100 / facts["test_rows"])
    return Comparison(ours, theirs, float(differences.mean()), error)


def comparisons(document: Document) -> Iterator[Comparison]:
    """The public call against every peer that fits, for each data set and budget."""
    for name, budget in our_pairs(document):
        ours = records_at(document, name, budget)[OURS]
        for competitor, record in records_at(document, name, budget).items():
            if record["fits"] and not document["competitors"][competitor]["is_kernlet"]:
                yield compare(ours, record, document["sets"][name])


def best_comparisons(document: Document) -> Iterator[Comparison]:
    """The public call against the best of all peers by validation."""
    for comparison in comparisons(document):
        ours, theirs = comparison.ours, comparison.theirs
        if theirs is best_peer(document, ours["set"], ours["budget"]):
            yield comparison


def reference_table(document: Document) -> Table:
    """Where the public call is below an SVC of any size or below a smaller machine of its own."""
    table = Table(
        "CompactKernelClassifier(max_bytes=...) beside a tuned SVC of any size, and beside the "
        "most accurate of its own machines within fewer bytes: difference in points and its "
        "standard error",
        ["data", "bytes", "accuracy", "SVC", "its bytes", "difference", "to fewer bytes"],
    )
    for name, budget in our_pairs(document):
        ours = records_at(document, name, budget)[OURS]
        smaller = [
            records_at(document, name, other)[OURS]
            for at, other in our_pairs(document)
            if at == name and other < budget
        ]
        best = max(smaller, key=lambda r: np.mean(r["accuracies"]), default=None)
        svc = records_at(document, name, UNLIMITED).get("svc")
        table.add(
            name,
            f"{budget:,}",
            accuracy(ours),
            accuracy(svc),
            f"{svc['nbytes']:,}" if svc else "",
            *(_difference(ours, theirs, document["sets"][name]) for theirs in (svc, best)),
        )
    return table


def _difference(ours: Record, theirs: Record | None, facts: dict[str, Any]) -> str:
    if theirs is None:
        return "-"
    comparison = compare(ours, theirs, facts)
    text = f"{comparison.difference:+.2f} (se {comparison.error:.2f})"
    return f"**{text}**" if comparison.verdict == "behind" else text


def counts(group: list[Comparison], n_errors: int = 1) -> Counter[str]:
    """How many are ahead, tied and behind."""
    return Counter(comparison.verdict_at(n_errors) for comparison in group)


def by_peer(document: Document) -> dict[str, list[Comparison]]:
    """The comparisons with every peer, by title; the best of all peers last."""
    everyone = list(comparisons(document))
    peers = {n: f["title"] for n, f in document["competitors"].items() if not f["is_kernlet"]}
    each = {t: [c for c in everyone if c.theirs["competitor"] == n] for n, t in peers.items()}
    return {**each, BEST_PEER: list(best_comparisons(document))}


def verdict_table(document: Document) -> Table:
    """Per peer, the number of pairs at which the public call is ahead, tied and behind."""
    n_pairs = len(our_pairs(document))
    table = Table(
        "CompactKernelClassifier(max_bytes=...) beside each tuned peer, at "
        f"{n_pairs} pairs of data set and bytes: ahead / tied / behind",
        [
            "peer",
            "by one standard error",
            "by two",
            "peer does not fit",
            "the same two machines again",
            "median difference",
        ],
    )
    for title, with_peer in by_peer(document).items():
        verdicts = [
            " / ".join(str(counts(with_peer, n_errors)[verdict]) for verdict in VERDICTS)
            for n_errors in (1, 2)
        ]
        repeats = len(with_peer) - len({c.machines for c in with_peer})
        median = f"{np.median([c.difference for c in with_peer]):+.2f}" if with_peer else "-"
        table.add(title, *verdicts, n_pairs - len(with_peer), repeats, median)
    return table


def set_table(document: Document, name: str) -> Table:
    """Accuracy of every competitor on a data set, a column per budget."""
    facts = document["sets"][name]
    budgets = [budget for at, budget in pairs(document) if at == name]
    runs = "seeds on the official test part" if facts["test"] == "official" else "random splits"
    table = Table(
        f"{name}: test accuracy in %, mean and deviation of {facts['seeds']} {runs} "
        f"({facts['rows']:,} x {facts['features']} training rows, {facts['classes']} classes, "
        f"{facts['test_rows']:,} test rows)",
        ["machine", *(f"{budget:,} bytes" for budget in budgets)],
    )
    for competitor, about in document["competitors"].items():
        cells = []
        for budget in budgets:
            record = records_at(document, name, budget).get(competitor)
            cells.append(f"**{accuracy(record)}**" if competitor == OURS else accuracy(record))
        table.add(about["title"], *cells)
    return table


def accuracy(record: Record | None) -> str:
    """Mean and deviation, or why there is no accuracy."""
    if record is None:
        return ""
    if not record["fits"]:
        return "does not fit"
    return mean_and_deviation([100 * score for score in record["accuracies"]])


#: Kernel methods; the target is to be ahead of each on every data set.
KERNEL_PEERS = ("nystroem", "rbf_sampler", "knn_prototypes", "rvm")
#: Others; the target is to be ahead at this share of the pairs, up to MOST_BYTES.
OTHER_PEERS = ("mlp", "random_forest", "hist_gradient_boosting")
SHARE, MOST_BYTES = 2 / 3, 65_536


def kernel_table(document: Document) -> Table:
    """Per kernel method, the data sets on which the public call is ahead, tied and behind."""
    everyone = list(comparisons(document))
    table = Table(
        "Wanted: ahead at equal bytes on every set. Reached: sets by what happens at their numbers "
        "of bytes, one standard error",
        ["peer", "sets", "ahead at all", "ahead or tied at all", "behind somewhere", "reached"],
    )
    for peer in KERNEL_PEERS:
        verdicts: dict[str, list[str]] = {}
        for comparison in everyone:
            if comparison.theirs["competitor"] == peer:
                verdicts.setdefault(comparison.ours["set"], []).append(comparison.verdict)
        ahead = [name for name, of_set in verdicts.items() if set(of_set) == {"ahead"}]
        behind = [name for name, of_set in verdicts.items() if "behind" in of_set]
        behind_text = f"{len(behind)} ({', '.join(behind)})" if behind else "0"
        table.add(
            document["competitors"][peer]["title"],
            len(verdicts),
            len(ahead),
            len(verdicts) - len(behind),
            behind_text,
            "yes" if len(ahead) == len(verdicts) else "no",
        )
    return table


def other_table(document: Document) -> Table:
    """The shares of pairs at which the public call is ahead of networks and trees."""
    everyone = [c for c in comparisons(document) if c.ours["budget"] <= MOST_BYTES]
    table = Table(
        f"Wanted: ahead at {100 * SHARE:.0f} % of the pairs of at most {MOST_BYTES:,} bytes. "
        "Reached",
        [
            "peer",
            "pairs",
            "higher mean",
            *(f"{v}, one standard error" for v in VERDICTS),
            "reached",
        ],
    )
    groups = {document["competitors"][peer]["title"]: (peer,) for peer in OTHER_PEERS}
    for title, peers in {**groups, "together": OTHER_PEERS}.items():
        group = [c for c in everyone if c.theirs["competitor"] in peers]
        n_verdicts, n = counts(group), max(1, len(group))
        higher = sum(c.difference > 0 for c in group)
        cells = [_share(count, n) for count in (higher, *(n_verdicts[v] for v in VERDICTS))]
        table.add(title, len(group), *cells, "yes" if n_verdicts["ahead"] >= SHARE * n else "no")
    return table


def _share(number: int, n: int) -> str:
    return f"{number} ({100 * number / n:.0f} %)"

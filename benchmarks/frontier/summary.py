"""Comparisons of the records: the public calls against each peer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.frontier.rows import unpack_rows
from benchmarks.tables import Table
from papers.tables import mean_and_deviation

Document = dict[str, Any]
Record = dict[str, Any]
VERDICTS = ("ahead", "tied", "behind")
BEST_PEER = "best peer (by validation)"
#: What is compared with every peer: the calls that users make.
OURS = "compact_call"
OUR_REGRESSOR = "compact_regressor"
#: Calls that get more than the rows, transforms of images: compared with each other only.
AUGMENTED = ("compact_augmented", "mlp_augmented")
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
        """What is compared, regardless of the budget: a call may find the same machine again."""
        both = [
            (r["competitor"], r["nbytes"], tuple(r["accuracies"])) for r in (self.ours, self.theirs)
        ]
        return (self.ours["set"], *both)


def pairs(document: Document, task: str = "classification") -> list[tuple[str, int]]:
    """Data sets and budgets of a task, in order."""
    limited = [r for r in document["records"] if r["budget"] < UNLIMITED]
    both = dict.fromkeys((r["set"], r["budget"]) for r in limited)
    return [pair for pair in both if task_of_set(document, pair[0]) == task]


def task_of_set(document: Document, name: str) -> str:
    """``"classification"`` or ``"regression"``."""
    return str(document["sets"][name].get("task", "classification"))


def our_pairs(document: Document, ours: str = OURS) -> list[tuple[str, int]]:
    """Those at which a call of ours was measured, and fits."""
    return [
        (r["set"], r["budget"])
        for r in document["records"]
        if r["competitor"] == ours and r["fits"]
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
        if record["fits"]
        and record["validated"] is not None
        and not document["competitors"][competitor]["is_kernlet"]
    ]
    return max(fitting, key=lambda r: (r["validated"], -r["nbytes"]), default=None)


MOST_ACCURATE = 99.5  # %, of a best peer that leaves room


def has_room(document: Document, name: str) -> bool:
    """Whether peers tell machines apart on a data set; no machine of kernlet is looked at.

    At more than half of its budgets the best peer by validation is at most ``MOST_ACCURATE`` %
    right, and ahead of the median of all tuned peers by two standard errors.
    """
    budgets = [budget for at, budget in pairs(document) if at == name]
    return sum(_pair_has_room(document, name, budget) for budget in budgets) > len(budgets) / 2


def _pair_has_room(document: Document, name: str, budget: int) -> bool:
    best = best_peer(document, name, budget)
    if best is None:
        return False
    tuned = [
        record
        for competitor, record in records_at(document, name, budget).items()
        if record["fits"]
        and record["validated"] is not None
        and not document["competitors"][competitor]["is_kernlet"]
    ]
    tuned.sort(key=lambda record: float(np.mean(record["accuracies"])))
    comparison = compare(best, tuned[(len(tuned) - 1) // 2], document["sets"][name])
    is_accurate = 100 * np.mean(best["accuracies"]) > MOST_ACCURATE
    return not is_accurate and comparison.verdict_at(2) == "ahead"


def compare(ours: Record, theirs: Record, facts: dict[str, Any]) -> Comparison:
    """The difference of two machines and its standard error, at least one test row.

    On an official test set the squared error is the variance of the rows' differences over their
    number, where the rows of both are stored (each row's share of seeds that are right), else the
    binomial variances p (1 - p) / n_test of both, as if they were measured on different rows; plus
    the variances of the seeds over their numbers. Samples of a much larger set are treated alike,
    split by split. On random splits of one set the differences are paired by split, and their
    variance is multiplied by 1 / n + n_test / n_train, because the splits share rows (Nadeau and
    Bengio, 2003); sets that are drawn from a formula for every seed do not share any.
    """
    a, b = (100 * np.asarray(record["accuracies"]) for record in (ours, theirs))
    n = min(len(a), len(b))
    if facts["test"] == "official":
        difference = float(a.mean() - b.mean())
        square = _row_variance(ours, theirs, facts, None) + sum(
            float(np.var(of, ddof=1)) / len(of) for of in (a, b) if len(of) > 1
        )
    else:
        differences = a[:n] - b[:n]
        difference = float(differences.mean())
        shared = facts["test_rows"] / facts["rows"] if facts["test"] == "splits" else 0.0
        square = float(np.var(differences, ddof=1)) * (1 / n + shared) if n > 1 else 0.0
        is_number = facts.get("task") == "regression"
        if facts["test"] == "samples" or (n == 1 and not is_number):
            square += _row_variance(ours, theirs, facts, n)
    least = 100 / facts["test_rows"] if facts.get("task") != "regression" else 0.0
    return Comparison(ours, theirs, difference, max(float(np.sqrt(max(square, 0.0))), least))


def _row_variance(ours: Record, theirs: Record, facts: dict[str, Any], n: int | None) -> float:
    """The part of the squared error that comes from the test rows; of ``n`` splits if given."""
    if "right" in ours and "right" in theirs:
        shares = []
        for record in (ours, theirs):
            right = [unpack_rows(text).astype(float) for text in record["right"][:n]]
            shares.append(np.mean(right, axis=0) if n is None else np.concatenate(right))
        return float(1e4 * np.var(shares[0] - shares[1], ddof=1) / len(shares[0]))
    means = [100 * float(np.mean(record["accuracies"])) for record in (ours, theirs)]
    return sum(mean * (100 - mean) for mean in means) / (facts["test_rows"] * (n or 1))


def comparisons(document: Document, ours: str = OURS) -> Iterator[Comparison]:
    """A call of ours against every peer that fits, for each data set and budget."""
    for name, budget in our_pairs(document, ours):
        record = records_at(document, name, budget)[ours]
        for competitor, peer in records_at(document, name, budget).items():
            is_ours = document["competitors"][competitor]["is_kernlet"]
            if peer["fits"] and not is_ours and competitor not in AUGMENTED:
                yield compare(record, peer, document["sets"][name])


def comparisons_with(document: Document, theirs: str, ours: str = OURS) -> list[Comparison]:
    """A call of ours against one competitor, also one of kernlet, where both fit."""
    found = []
    for name, budget in our_pairs(document, ours):
        records = records_at(document, name, budget)
        if theirs in records and records[theirs]["fits"]:
            found.append(compare(records[ours], records[theirs], document["sets"][name]))
    return found


def best_comparisons(document: Document, ours: str = OURS) -> Iterator[Comparison]:
    """A call of ours against the best of all tuned peers by validation."""
    for comparison in comparisons(document, ours):
        record, theirs = comparison.ours, comparison.theirs
        if theirs is best_peer(document, record["set"], record["budget"]):
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


def by_peer(document: Document, ours: str = OURS) -> dict[str, list[Comparison]]:
    """The comparisons with every peer, by title; the best of all peers last."""
    everyone = list(comparisons(document, ours))
    task = "regression" if ours == OUR_REGRESSOR else "classification"
    measured = {record["competitor"] for record in document["records"]}
    peers = {
        name: facts["title"]
        for name, facts in document["competitors"].items()
        if not facts["is_kernlet"]
        and facts.get("task", "classification") == task
        and name in measured
        and name not in AUGMENTED
    }
    each = {t: [c for c in everyone if c.theirs["competitor"] == n] for n, t in peers.items()}
    return {**each, BEST_PEER: list(best_comparisons(document, ours))}


def verdict_table(document: Document, ours: str = OURS) -> Table:
    """Per peer, the number of pairs at which a call of ours is ahead, tied and behind."""
    n_pairs = len(our_pairs(document, ours))
    estimator = "CompactKernelRegressor" if ours == OUR_REGRESSOR else "CompactKernelClassifier"
    table = Table(
        f"{estimator}(max_bytes=...) beside each peer, at "
        f"{n_pairs} pairs of data set and bytes: ahead / tied / behind",
        [
            "peer",
            "by one standard error",
            "by two",
            "peer does not fit, or was not measured",
            "the same two machines again",
            "median difference",
        ],
    )
    for title, with_peer in by_peer(document, ours).items():
        verdicts = [
            " / ".join(str(counts(with_peer, n_errors)[verdict]) for verdict in VERDICTS)
            for n_errors in (1, 2)
        ]
        repeats = len(with_peer) - len({c.machines for c in with_peer})
        median = f"{np.median([c.difference for c in with_peer]):+.2f}" if with_peer else "-"
        table.add(title, *verdicts, n_pairs - len(with_peer), repeats, median)
    return table


_TESTS = {
    "official": "seeds on the official test part",
    "splits": "random splits",
    "samples": "random splits of samples",
    "draws": "drawings of all rows",
}


def set_table(document: Document, name: str) -> Table:
    """Accuracy or R2 of every competitor on a data set, a column per budget."""
    facts = document["sets"][name]
    task = task_of_set(document, name)
    budgets = [budget for at, budget in pairs(document, task) if at == name]
    score = "test R2" if task == "regression" else "test accuracy"
    classes = "" if task == "regression" else f", {facts['classes']} classes"
    table = Table(
        f"{name}: {score} in %, mean and deviation of at most {facts['seeds']} "
        f"{_TESTS[facts['test']]} ({facts['rows']:,} x {facts['features']} training rows{classes}, "
        f"{facts['test_rows']:,} test rows)",
        ["machine", *(f"{budget:,} bytes" for budget in budgets), "runs"],
    )
    for competitor, about in document["competitors"].items():
        records = [records_at(document, name, budget).get(competitor) for budget in budgets]
        if not any(records):
            continue
        is_ours = competitor in (OURS, OUR_REGRESSOR)
        cells = [f"**{accuracy(of)}**" if of and is_ours else accuracy(of) for of in records]
        runs = [len(of["accuracies"]) for of in records if of and of["fits"]]
        table.add(about["title"], *cells, max(runs, default=""))
    return table


def accuracy(record: Record | None) -> str:
    """Mean and deviation, or why there is no accuracy."""
    if record is None:
        return ""
    if not record["fits"]:
        return "does not fit"
    return mean_and_deviation([100 * score for score in record["accuracies"]])

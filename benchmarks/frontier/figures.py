"""What was wanted of kernlet's best machine, and what is reached."""

from __future__ import annotations

from benchmarks.frontier.summary import VERDICTS, Comparison, Document, comparisons, counts
from benchmarks.tables import Table

#: Peers of the same kind: ahead of each on every set was wanted.
KERNEL_PEERS = ("nystroem", "rbf_sampler", "knn_prototypes", "rvm")
#: Ahead of each at this share of the pairs was wanted, up to so many bytes.
OTHER_PEERS = ("mlp", "random_forest", "hist_gradient_boosting")
SHARE, MOST_BYTES = 2 / 3, 65_536


def kernel_table(document: Document) -> Table:
    """For each kernel peer, the sets on which kernlet's best is ahead, level and behind."""
    found = list(comparisons(document))
    table = Table(
        "Wanted: ahead at equal bytes on every set. Reached: sets by what happens at their numbers "
        "of bytes, one standard error",
        ["peer", "sets", "ahead at all", "ahead or tied at all", "behind somewhere", "reached"],
    )
    for peer in KERNEL_PEERS:
        mine = [c for c in found if c.theirs["competitor"] == peer]
        sets = {name: [c.verdict for c in mine if c.ours["set"] == name] for name in _sets(mine)}
        ahead = [name for name, of in sets.items() if set(of) == {"ahead"}]
        behind = [name for name, of in sets.items() if "behind" in of]
        spoken = f"{len(behind)} ({', '.join(behind)})" if behind else "0"
        table.add(
            document["competitors"][peer]["title"],
            len(sets),
            len(ahead),
            len(sets) - len(behind),
            spoken,
            "yes" if len(ahead) == len(sets) else "no",
        )
    return table


def _sets(found: list[Comparison]) -> list[str]:
    return list(dict.fromkeys(c.ours["set"] for c in found))


def other_table(document: Document) -> Table:
    """The shares of pairs at which kernlet's best is ahead of perceptron and trees."""
    found = [c for c in comparisons(document) if c.ours["budget"] <= MOST_BYTES]
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
    of = {document["competitors"][peer]["title"]: (peer,) for peer in OTHER_PEERS}
    for title, peers in {**of, "together": OTHER_PEERS}.items():
        mine = [c for c in found if c.theirs["competitor"] in peers]
        number, n = counts(mine), max(1, len(mine))
        higher = sum(c.difference > 0 for c in mine)
        cells = [_share(many, n) for many in (higher, *(number[v] for v in VERDICTS))]
        table.add(title, len(mine), *cells, "yes" if number["ahead"] >= SHARE * n else "no")
    return table


def _share(number: int, n: int) -> str:
    return f"{number} ({100 * number / n:.0f} %)"

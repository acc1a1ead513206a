"""The page about the frontier and the short table in the README, from the JSON files alone.

``python -m benchmarks.frontier.page`` (``make results``) writes both, and the pictures.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined

from benchmarks.frontier.data import CHECKING_ROWS, MOST_ROWS, TUNING_ROWS
from benchmarks.frontier.growth import growth_table
from benchmarks.frontier.pictures import draw, groups
from benchmarks.frontier.summary import (
    VERDICTS,
    Document,
    best_of,
    comparisons,
    counts,
    pairs,
    set_table,
    verdict_table,
)
from benchmarks.tables import Table, spread
from kernlet.files import written_whole

ROOT = Path(__file__).parents[2]
FRONTIER = ROOT / "docs" / "results" / "frontier.json"
GROWTH = ROOT / "docs" / "results" / "frontier-growth.json"
TEMPLATE = Path(__file__).with_name("page.md.jinja")
PAGE = ROOT / "docs" / "frontier.md"
README = ROOT / "README.md"
START, END = "<!-- frontier: made by make results -->", "<!-- end of frontier -->"
#: Peers of the same kind, which kernlet's best should not be behind.
KERNEL_PEERS = ("nystroem", "rbf_sampler", "knn_prototypes", "rvm")
OTHER_PEERS = ("mlp", "random_forest", "hist_gradient_boosting")


def page(document: Document, growth: dict[str, Any]) -> str:
    """The whole page."""
    at = pairs(document)
    budgets = [f"{budget:,}" for budget in sorted({budget for _, budget in at})]
    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        TEMPLATE.read_text("utf-8")
    )
    return template.render(
        n_machines=len(document["competitors"]),
        n_sets=len(document["sets"]),
        n_pairs=len(at),
        budgets=f"{', '.join(budgets[:-1])} and {budgets[-1]}",
        command=document["command"],
        n_settings=document["n_settings"],
        tuning_rows=f"{TUNING_ROWS:,}",
        checking_rows=f"{CHECKING_ROWS:,}",
        most_rows=f"{MOST_ROWS:,}",
        verdicts=verdict_table(document).markdown(),
        reading=_reading(document),
        pictures=[(file, what) for file, (what, _) in groups(document).items()],
        losses=_losses(document),
        best=best_table(document).markdown(),
        costs=cost_table(document).markdown(),
        seed_note=_seed_note(document),
        growth=growth_table(growth).markdown(),
        growth_command=growth["command"],
        sets=[set_table(document, name).markdown() for name in document["sets"]],
        python=document["python"],
        packages=", ".join(" ".join(item) for item in document["packages"].items()),
    )


def _reading(document: Document) -> str:
    found = list(comparisons(document))
    lines = []
    for title, peers in (
        ("Nystroem, RBFSampler, kNN prototypes and RVM", KERNEL_PEERS),
        ("The perceptron and the tree ensembles", OTHER_PEERS),
    ):
        mine = [c for c in found if c.theirs["competitor"] in peers]
        number = counts(mine)
        behind = {c.ours["set"] for c in mine if c.verdict == "behind"}
        total = max(1, len(mine))
        lines.append(
            f"{title} together: ahead at {number['ahead']} of {len(mine)} comparisons "
            f"({100 * number['ahead'] / total:.0f} %), tied at {number['tied']}, behind at "
            f"{number['behind']}" + (f" (on {', '.join(sorted(behind))})." if behind else ".")
        )
    return "\n".join(f"- {line}" for line in lines)


def _losses(document: Document) -> str:
    """Every comparison in which a peer is ahead."""
    behind = [c for c in comparisons(document) if c.verdict == "behind"]
    if not behind:
        return "At no pair is a peer ahead by more than one standard error."
    table = Table(
        "Every pair at which a peer is ahead of kernlet's best by more than one standard error, "
        "the largest differences first",
        ["data", "bytes", "peer", "its accuracy", "kernlet's best", "its accuracy", "difference"],
    )
    for c in sorted(behind, key=lambda c: c.difference):
        table.add(
            c.ours["set"],
            f"{c.ours['budget']:,}",
            _title(document, c.theirs),
            _accuracy(c.theirs),
            _title(document, c.ours),
            _accuracy(c.ours),
            f"{c.difference:+.2f} (se {c.error:.2f})",
        )
    by_set = Counter(c.ours["set"] for c in behind)
    spoken = ", ".join(f"{name} ({number})" for name, number in by_set.most_common())
    return f"By data set: {spoken}.\n\n{table.markdown()}"


def _title(document: Document, record: dict[str, Any]) -> str:
    return str(document["competitors"][record["competitor"]]["title"])


def _accuracy(record: dict[str, Any]) -> str:
    scores = [100 * score for score in record["accuracies"]]
    return spread(scores) if len(scores) > 1 else f"{scores[0]:.2f}"


def best_table(document: Document) -> Table:
    """How often each machine of kernlet is its best."""
    best = [best_of(document, *pair, is_kernlet=True) for pair in pairs(document)]
    chosen = Counter(record["competitor"] for record in best if record is not None)
    table = Table(
        "Pairs at which a machine of kernlet validates best, and at which it fits at all",
        ["machine", "best", "fits"],
    )
    for name, facts in document["competitors"].items():
        if facts["is_kernlet"]:
            fits = sum(r["fits"] for r in document["records"] if r["competitor"] == name)
            table.add(facts["title"], chosen[name], fits)
    return table


def cost_table(document: Document) -> Table:
    """Median times of the chosen settings."""
    table = Table(
        "Medians over all pairs at which a machine fits: CPU seconds of tuning and of one fit, CPU "
        "milliseconds to predict 1,000 rows, share of the bytes used",
        ["machine", "settings", "tuning", "fit", "predict 1,000 rows", "bytes used"],
    )
    for name, facts in document["competitors"].items():
        mine = [r for r in document["records"] if r["competitor"] == name and r["fits"]]
        if not mine:
            continue
        table.add(
            facts["title"],
            f"{np.median([r['n_settings'] for r in mine]):.0f}",
            f"{np.median([r['tuning_seconds'] for r in mine]):.1f} s",
            f"{np.median([r['fit_seconds'] for r in mine]):.2f} s",
            f"{1000 * np.median([r['predict_seconds_per_1000'] for r in mine]):.1f} ms",
            f"{100 * np.median([r['nbytes'] / r['budget'] for r in mine]):.0f} %",
        )
    return table


def _seed_note(document: Document) -> str:
    mine = [r for r in document["records"] if r["fits"] and "nbytes_from_seed" in r]
    if not mine:
        return ""
    share = np.median([r["nbytes_from_seed"] / r["nbytes"] for r in mine])
    return (
        "The random directions of RBFSampler are stored. Where a device can make the same numbers "
        f"from a seed, its bytes are {100 * share:.0f} % of those counted here (median), and it "
        "would compete at a smaller number of bytes."
    )


def readme_table(document: Document) -> str:
    """The short table of the README, with its markers."""
    found = list(comparisons(document))
    table = Table(
        f"{len(document['sets'])} data sets, {len(pairs(document))} pairs of a set and a number of "
        "bytes: kernlet's best machine beside each peer within the same bytes",
        ["peer", *VERDICTS],
    )
    for name, facts in document["competitors"].items():
        mine = [c for c in found if c.theirs["competitor"] == name]
        if mine:
            number = counts(mine)
            table.add(facts["title"], *(number[verdict] for verdict in VERDICTS))
    link = (
        "Tied: within one standard error. How it is measured, the tables, and where kernlet loses: "
        "[docs/frontier.md](docs/frontier.md)."
    )
    return "\n".join([START, table.markdown(), "", link, END])


def with_table(readme: str, table: str) -> str:
    """The README with what lies between its markers replaced."""
    pattern = re.compile(f"{re.escape(START)}.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(readme):
        raise ValueError(f"The README has no markers {START!r} and {END!r}.")
    return pattern.sub(lambda _: table, readme)


def read() -> tuple[Document, dict[str, Any]]:
    """The two JSON files."""
    frontier, growth = (json.loads(path.read_text("utf-8")) for path in (FRONTIER, GROWTH))
    return frontier, growth


def main() -> None:
    """Write everything."""
    frontier, growth = read()
    readme = with_table(README.read_text("utf-8"), readme_table(frontier))
    for path, text in ((PAGE, page(frontier, growth)), (README, readme)):
        with written_whole(path) as part:
            part.write_text(text, encoding="utf-8")
    draw(frontier, ROOT / "docs" / "images")


if __name__ == "__main__":
    main()

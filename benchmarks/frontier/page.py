"""The page about the frontier and the short table in the README, from the JSON files alone.

``python -m benchmarks.frontier.page`` (``make results``) writes both, and the pictures.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined

from benchmarks.frontier.data import NAMES
from benchmarks.frontier.figures import kernel_table, other_table
from benchmarks.frontier.growth import growth_table
from benchmarks.frontier.measure import ROOT
from benchmarks.frontier.pictures import draw, groups
from benchmarks.frontier.summary import (
    VERDICTS,
    Document,
    accuracy,
    best_of,
    by_peer,
    comparisons,
    counts,
    pairs,
    set_table,
    verdict_table,
)
from benchmarks.readme import README, between_markers, papers_table
from benchmarks.tables import Table
from kernlet.files import written_whole

FRONTIER = ROOT / "docs" / "results" / "frontier.json"
GROWTH = ROOT / "docs" / "results" / "frontier-growth.json"
TEMPLATE = Path(__file__).with_name("page.md.jinja")
PAGE = ROOT / "docs" / "frontier.md"


def page(document: Document, growth: dict[str, Any] | None) -> str:
    """The whole page; without the growth with the rows where that was not measured."""
    at = pairs(document)
    titles = [facts["is_kernlet"] for facts in document["competitors"].values()]
    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        TEMPLATE.read_text("utf-8")
    )
    return template.render(
        n_machines=len(titles),
        n_ours=sum(titles),
        n_peers=len(titles) - sum(titles),
        n_sets=len(document["sets"]),
        n_pairs=len(at),
        budgets=_budgets(document),
        missing=[name for name in NAMES if name not in document["sets"]],
        seeds=_seeds(document),
        samples=_spoken([name for name, of in document["sets"].items() if of["is_sample"]]),
        command=document["command"],
        n_settings=document["n_settings"],
        limits=document["limits"],
        verdicts=verdict_table(document).markdown(),
        kernel_figure=kernel_table(document).markdown(),
        other_figure=other_table(document).markdown(),
        pictures=[(file, what) for file, (what, _) in groups(document).items()],
        losses=_losses(document),
        best=best_table(document).markdown(),
        costs=cost_table(document).markdown(),
        seed_note=_seed_note(document),
        growth=growth and growth_table(growth).markdown(),
        growth_command=growth and growth["command"],
        outdated=growth and _spoken(_outdated(document, growth)),
        sets=[set_table(document, name).markdown() for name in document["sets"]],
        python=document["python"],
        packages=", ".join(" ".join(item) for item in document["packages"].items()),
    )


def _outdated(document: Document, growth: dict[str, Any]) -> list[str]:
    """Machines whose growth was measured before their code changed; first versions are 1."""
    versions = growth.get("versions", {})
    return [
        title
        for name, title in growth["titles"].items()
        if versions.get(name, 1) != document["competitors"][name]["version"]
    ]


def _spoken(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _budgets(document: Document) -> list[str]:
    """Which sets have which numbers of bytes."""
    of: dict[tuple[int, ...], list[str]] = {}
    for name in document["sets"]:
        budgets = tuple(budget for at, budget in pairs(document) if at == name)
        of.setdefault(budgets, []).append(name)
    return [
        f"{_spoken([f'{budget:,}' for budget in budgets])} bytes: {_spoken(names)}"
        for budgets, names in of.items()
    ]


def _seeds(document: Document) -> list[str]:
    """Which sets are tested how."""
    of: dict[str, list[str]] = {}
    for name, facts in document["sets"].items():
        what = "an official test part" if facts["test"] == "official" else "random splits"
        many = "seeds" if facts["test"] == "official" else "of them"
        of.setdefault(f"{what}, {facts['seeds']} {many}", []).append(name)
    return [f"{what}: {_spoken(names)}" for what, names in of.items()]


def _losses(document: Document) -> str:
    """Every comparison in which a peer is ahead."""
    behind = [c for c in comparisons(document) if c.verdict == "behind"]
    if not behind:
        return "At no pair is a peer ahead by more than one standard error."
    table = Table(
        "Every pair at which a peer is ahead of kernlet's best by more than one standard error, "
        "the largest differences first",
        [
            "data",
            "bytes",
            "peer",
            "its accuracy",
            "kernlet's best",
            "its accuracy",
            "difference",
            "by two standard errors",
        ],
    )
    for c in sorted(behind, key=lambda c: c.difference):
        table.add(
            c.ours["set"],
            f"{c.ours['budget']:,}",
            _title(document, c.theirs),
            accuracy(c.theirs),
            _title(document, c.ours),
            accuracy(c.ours),
            f"{c.difference:+.2f} (se {c.error:.2f})",
            "yes" if c.verdict_at(2) == "behind" else "no",
        )
    by_set = Counter(c.ours["set"] for c in behind)
    spoken = ", ".join(f"{name} ({number})" for name, number in by_set.most_common())
    return f"By data set: {spoken}.\n\n{table.markdown()}"


def _title(document: Document, record: dict[str, Any]) -> str:
    return str(document["competitors"][record["competitor"]]["title"])


def best_table(document: Document) -> Table:
    """How often each machine of kernlet is its best."""
    best = [best_of(document, *pair, is_kernlet=True) for pair in pairs(document)]
    chosen = Counter(record["competitor"] for record in best if record is not None)
    table = Table(
        "Pairs at which a machine of kernlet validates best, at which it fits at all, and at which "
        "what fits is a constant, without any center",
        ["machine", "best", "fits", "a constant"],
    )
    for name, facts in document["competitors"].items():
        if facts["is_kernlet"]:
            mine = [r for r in document["records"] if r["competitor"] == name and r["fits"]]
            constant = sum(r["centers"] == 0 for r in mine)
            table.add(facts["title"], chosen[name], len(mine), constant)
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
    """The short table of the README."""
    n_pairs = len(pairs(document))
    table = Table(
        f"{len(document['sets'])} data sets, {n_pairs} pairs of a set and a number of "
        "bytes: kernlet's best machine beside each peer within the same bytes",
        ["peer", *VERDICTS, "peer does not fit"],
    )
    for title, found in by_peer(document).items():
        number = counts(found)
        table.add(title, *(number[verdict] for verdict in VERDICTS), n_pairs - len(found))
    ours = sum(facts["is_kernlet"] for facts in document["competitors"].values())
    link = (
        f"Tied: within one standard error. kernlet's best is one of {ours} machines, chosen by "
        f"validation like the best peer: it has {ours} times the settings of a single peer. How it "
        "is measured, the tables, and where kernlet loses: [docs/frontier.md](docs/frontier.md)."
    )
    return "\n".join([table.markdown(), "", link])


def readme_with_tables(readme: str, document: Document) -> str:
    """The README with its tables of results made anew."""
    readme = between_markers(readme, "papers", papers_table())
    return between_markers(readme, "frontier", readme_table(document))


def read() -> tuple[Document, dict[str, Any] | None]:
    """The two JSON files; growth with the rows may not have been measured."""
    growth = json.loads(GROWTH.read_text("utf-8")) if GROWTH.exists() else None
    return json.loads(FRONTIER.read_text("utf-8")), growth


def main() -> None:
    """Write everything."""
    frontier, growth = read()
    readme = readme_with_tables(README.read_text("utf-8"), frontier)
    for path, text in ((PAGE, page(frontier, growth)), (README, readme)):
        with written_whole(path) as part:
            part.write_text(text, encoding="utf-8")
    draw(frontier, ROOT / "docs" / "images")


if __name__ == "__main__":
    main()

"""The page about the frontier, docs/frontier.md, from the stored results alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined

from benchmarks.frontier.data import NAMES
from benchmarks.frontier.growth import growth_table
from benchmarks.frontier.pictures import groups
from benchmarks.frontier.summary import (
    UNLIMITED,
    Document,
    accuracy,
    comparisons,
    kernel_table,
    other_table,
    our_pairs,
    pairs,
    reference_table,
    set_table,
    verdict_table,
)
from benchmarks.tables import Table

TEMPLATE = Path(__file__).with_name("page.md.jinja")


def page(document: Document, growth: dict[str, Any] | None) -> str:
    """The whole page; without growth if that was not measured."""
    is_ours = [facts["is_kernlet"] for facts in document["competitors"].values()]
    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        TEMPLATE.read_text("utf-8")
    )
    return template.render(
        n_machines=len(is_ours),
        n_ours=sum(is_ours),
        n_peers=len(is_ours) - sum(is_ours),
        n_sets=len(document["sets"]),
        n_pairs=len(pairs(document)),
        n_our_pairs=len(our_pairs(document)),
        budgets=_budgets(document),
        missing=[name for name in NAMES if name not in document["sets"]],
        seeds=_seeds(document),
        samples=_joined([name for name, of in document["sets"].items() if of["is_sample"]]),
        command=document["command"],
        n_settings=document["n_settings"],
        limits=document["limits"],
        verdicts=verdict_table(document).markdown(),
        kernel_figure=kernel_table(document).markdown(),
        other_figure=other_table(document).markdown(),
        pictures=[(file, what) for file, (what, _) in groups(document).items()],
        losses=_losses(document),
        references=reference_table(document).markdown(),
        costs=cost_table(document).markdown(),
        seed_note=_seed_note(document),
        growth=growth and growth_table(growth).markdown(),
        growth_command=growth and growth["command"],
        outdated=growth and _joined(_outdated(document, growth)),
        sets=[set_table(document, name).markdown() for name in document["sets"]],
        python=document["python"],
        packages=", ".join(" ".join(item) for item in document["packages"].items()),
    )


def _outdated(document: Document, growth: dict[str, Any]) -> list[str]:
    """Machines whose growth was measured with an older version of their code."""
    # The first results have no versions: those were 1.
    versions = growth.get("versions", {})
    return [
        title
        for name, title in growth["titles"].items()
        if versions.get(name, 1) != document["competitors"][name]["version"]
    ]


def _joined(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _budgets(document: Document) -> list[str]:
    """Budgets, with the data sets that have them."""
    names_of: dict[tuple[int, ...], list[str]] = {}
    for name in document["sets"]:
        budgets = tuple(budget for at, budget in pairs(document) if at == name)
        names_of.setdefault(budgets, []).append(name)
    return [
        f"{_joined([f'{budget:,}' for budget in budgets])} bytes: {_joined(names)}"
        for budgets, names in names_of.items()
    ]


def _seeds(document: Document) -> list[str]:
    """Kinds of tests, with the data sets that have them."""
    names_of: dict[str, list[str]] = {}
    for name, facts in document["sets"].items():
        official = facts["test"] == "official"
        test, unit = (
            ("an official test part", "seeds") if official else ("random splits", "of them")
        )
        names_of.setdefault(f"{test}, {facts['seeds']} {unit}", []).append(name)
    return [f"{test}: {_joined(names)}" for test, names in names_of.items()]


def _losses(document: Document) -> str:
    """Every comparison in which a peer is ahead."""
    behind = [c for c in comparisons(document) if c.verdict == "behind"]
    if not behind:
        return "At no pair is a peer ahead by more than one standard error."
    table = Table(
        "Every pair at which a peer is ahead of the call by more than one standard error, "
        "the largest differences first",
        [
            "data",
            "bytes",
            "peer",
            "its accuracy",
            "accuracy of the call",
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
            accuracy(c.ours),
            f"{c.difference:+.2f} (se {c.error:.2f})",
            "yes" if c.verdict_at(2) == "behind" else "no",
        )
    by_set = Counter(c.ours["set"] for c in behind)
    counts = ", ".join(f"{name} ({number})" for name, number in by_set.most_common())
    return f"By data set: {counts}.\n\n{table.markdown()}"


def _title(document: Document, record: dict[str, Any]) -> str:
    return str(document["competitors"][record["competitor"]]["title"])


def _fitting(document: Document, name: str) -> list[dict[str, Any]]:
    of_name = [r for r in document["records"] if r["competitor"] == name and r["fits"]]
    return [r for r in of_name if r["budget"] < UNLIMITED]


def cost_table(document: Document) -> Table:
    """Median times of the chosen settings."""
    table = Table(
        "Medians over all pairs at which a machine fits: CPU seconds of tuning and of one fit, CPU "
        "milliseconds to predict 1,000 rows, share of the bytes used",
        ["machine", "settings", "tuning", "fit", "predict 1,000 rows", "bytes used"],
    )
    for name, facts in document["competitors"].items():
        fitting = _fitting(document, name)
        if not fitting:
            continue
        table.add(
            facts["title"],
            f"{np.median([r['n_settings'] for r in fitting]):.0f}",
            f"{np.median([r['tuning_seconds'] for r in fitting]):.1f} s",
            f"{np.median([r['fit_seconds'] for r in fitting]):.2f} s",
            f"{1000 * np.median([r['predict_seconds_per_1000'] for r in fitting]):.1f} ms",
            f"{100 * np.median([r['nbytes'] / r['budget'] for r in fitting]):.0f} %",
        )
    return table


def _seed_note(document: Document) -> str:
    fitting = [r for r in document["records"] if r["fits"] and "nbytes_from_seed" in r]
    if not fitting:
        return ""
    share = np.median([r["nbytes_from_seed"] / r["nbytes"] for r in fitting])
    return (
        "The random directions of RBFSampler are stored. Where a device can make the same numbers "
        f"from a seed, its bytes are {100 * share:.0f} % of those counted here (median), and it "
        "would compete at a smaller number of bytes."
    )

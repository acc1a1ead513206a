"""The pages frontier.md and frontier-tables.md of docs/evidence, from the stored results alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined, Template

from benchmarks.frontier.data import NAMES
from benchmarks.frontier.goals import (
    BEFORE,
    EFFORTS,
    GOALS,
    augmented_table,
    effort_table,
    missed_goals,
    mlp_counts_with_room,
    mlp_table,
    remeasured_table,
    sets_with_room,
    worse_than_before,
)
from benchmarks.frontier.growth import growth_table
from benchmarks.frontier.pictures import groups
from benchmarks.frontier.summary import (
    BEST_PEER,
    MOST_ACCURATE,
    OUR_REGRESSOR,
    OURS,
    UNLIMITED,
    VERDICTS,
    Document,
    accuracy,
    by_peer,
    comparisons,
    counts,
    our_pairs,
    pairs,
    records_at,
    reference_table,
    set_table,
    task_of_set,
    verdict_table,
)
from benchmarks.tables import Table

#: The sets whose test rows the study behind the present machine looked at.
STUDY_SETS = (
    "checkerboard_generated",
    "thyroid",
    "satimage",
    "optdigits",
    "pendigits",
    "letter",
    "usps",
    "covertype",
    "mnist",
)


def _template(name: str) -> Template:
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(Path(__file__).with_name(name).read_text("utf-8"))


def tables_page(document: Document) -> str:
    """All figures of every data set, those for classification first."""
    by_task = {
        task: [
            (name, set_table(document, name).markdown())
            for name in document["sets"]
            if task_of_set(document, name) == task
        ]
        for task in ("classification", "regression")
    }
    return _template("tables.md.jinja").render(
        sets=by_task["classification"], number_sets=by_task["regression"]
    )


def _verdict_counts(document: Document, title: str, ours: str = OURS) -> dict[str, int]:
    """Pairs ahead, tied and behind a peer, and all of them."""
    found = counts(by_peer(document, ours)[title])
    return {verdict: found[verdict] for verdict in VERDICTS} | {"total": found.total()}


def page(document: Document, growth: dict[str, Any] | None) -> str:
    """The whole page; without growth if that was not measured."""
    measured = {record["competitor"] for record in document["records"]}
    is_ours = [document["competitors"][name]["is_kernlet"] for name in measured]
    template = _template("page.md.jinja")
    return template.render(
        best=_verdict_counts(document, BEST_PEER),
        number_best=_verdict_counts(document, BEST_PEER, OUR_REGRESSOR),
        mlp_counts=_verdict_counts(document, document["competitors"]["mlp_call"]["title"]),
        n_goals=len(GOALS),
        missed=missed_goals(document),
        worse=_joined(worse_than_before(document)),
        timed=records_at(document, "letter", 4096).get(OURS, {}).get("fit_seconds"),
        with_room=mlp_counts_with_room(document),
        room=_joined(sets_with_room(document)),
        most_accurate=MOST_ACCURATE,
        mlp=mlp_table(document).markdown(),
        augmented=augmented_table(document).markdown(),
        remeasured=remeasured_table(document).markdown() if "earlier_call" in measured else "",
        **_gaps(document),
        unpaired=_joined(_unpaired(document, BEFORE)),
        unmeasured=_joined(
            [of["title"] for n, of in document["competitors"].items() if n not in measured]
        ),
        efforts=effort_table(document).markdown() if EFFORTS[0] in measured else "",
        has_efforts=EFFORTS[0] in measured,
        has_tuned_mlp="mlp" in measured,
        study_sets=_joined(list(STUDY_SETS)),
        devices=_devices(document),
        not_ours=_not_ours(document),
        regression_verdicts=verdict_table(document, OUR_REGRESSOR).markdown(),
        n_machines=len(is_ours),
        n_ours=sum(is_ours),
        n_peers=len(is_ours) - sum(is_ours),
        n_sets=len(document["sets"]),
        n_pairs=len(pairs(document)),
        n_our_pairs=len(our_pairs(document)),
        data=_data_table(document).markdown(),
        missing=[name for name in NAMES if name not in document["sets"]],
        samples=_joined([name for name, of in document["sets"].items() if of["is_sample"]]),
        command=document["command"],
        n_settings=document["n_settings"],
        limits=document["limits"],
        verdicts=verdict_table(document).markdown(),
        pictures=[(file, what) for file, (what, _) in groups(document).items()],
        losses=_losses(document),
        number_losses=_losses(document, OUR_REGRESSOR),
        references=reference_table(document).markdown(),
        costs=cost_table(document).markdown(),
        seed_note=_seed_note(document),
        growth=growth and growth_table(growth).markdown(),
        outdated=growth and _joined(_outdated(document, growth)),
        python=document["python"],
        packages=", ".join(" ".join(item) for item in document["packages"].items()),
    )


def _devices(document: Document) -> str:
    """Devices of the records, with how many there are of each."""
    made = Counter(of["device"] for r in document["records"] for of in r.get("made", ()))
    return ", ".join(f"{device} ({number} records)" for device, number in made.items())


def _gaps(document: Document) -> dict[str, Any]:
    """What the plan of the sweep has and the records have not."""
    pairs_of: dict[str, set[tuple[str, int]]] = {}
    few = 0
    for record in document["records"]:
        pairs_of.setdefault(record["competitor"], set()).add((record["set"], record["budget"]))
        if record["competitor"] == "mlp_symmetric" and record["fits"]:
            few += len(record["accuracies"]) == 1
    ours = set(our_pairs(document))
    names = dict.fromkeys(name for name, _ in our_pairs(document))
    shared = {name for name, _ in pairs_of.get("shared_trees", set())}
    return {
        "n_deep_missing": len(ours - pairs_of.get("mlp_symmetric", set())),
        "few_seeds": few,
        "no_shared": _joined([name for name in names if name not in shared]),
    }


def _unpaired(document: Document, competitor: str) -> list[str]:
    """Sets whose comparisons with a competitor would be paired by row if its rows were stored."""
    by_row = [n for n, of in document["sets"].items() if of["test"] in ("official", "samples")]
    records = [r for r in document["records"] if r["competitor"] == competitor and r["fits"]]
    return [n for n in by_row if any(r["set"] == n and "right" not in r for r in records)]


def _not_ours(document: Document) -> str:
    """Pairs at which the call was not measured."""
    ours = set(our_pairs(document))
    return _joined([f"{name} {b:,}" for name, b in pairs(document) if (name, b) not in ours])


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


_TESTS = {
    "official": "an official test part",
    "splits": "random splits",
    "samples": "splits of random samples",
    "draws": "drawn from a formula",
}


def _data_table(document: Document) -> Table:
    """Data sets by their numbers of bytes and their tests."""
    names_of: dict[tuple[str, str, int], list[str]] = {}
    for name, facts in document["sets"].items():
        task = task_of_set(document, name)
        budgets = [f"{budget:,}" for at, budget in pairs(document, task) if at == name]
        key = (_joined(budgets), _TESTS[facts["test"]], facts["seeds"])
        names_of.setdefault(key, []).append(name)
    table = Table("Data sets, bytes and tests", ["data", "bytes", "test rows", "seeds"])
    for key, names in names_of.items():
        table.add(", ".join(names), *key)
    return table


def _losses(document: Document, ours: str = OURS) -> str:
    """Every comparison in which a peer is ahead."""
    behind = [c for c in comparisons(document, ours) if c.verdict == "behind"]
    if not behind:
        return "At no pair is a peer ahead by more than one standard error."
    table = Table(
        "Every pair at which a peer is ahead of the call by more than one standard error, "
        "the largest differences first (on splits, those that both have)",
        [
            "data",
            "bytes",
            "peer",
            "its accuracy" if ours == OURS else "its R2",
            "the call",
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
        if not fitting or facts.get("task") == "regression":
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

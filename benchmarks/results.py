"""Pages and tables made of stored results: ``make results``.

Everything here is derived from JSON files in docs/results: the pages about the frontier and their
pictures, the pages of the papers' tables, their summary, and the table of the README. With
``--check`` nothing is written: files that differ from what would be written are listed, and so are
results that are incomplete or lack an explanation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from benchmarks.competitors.contract import N_SETTINGS
from benchmarks.frontier.measure import ROOT
from benchmarks.frontier.page import page, tables_page
from benchmarks.frontier.pictures import draw
from benchmarks.frontier.run import read_document
from benchmarks.frontier.summary import (
    BEST_PEER,
    VERDICTS,
    Document,
    by_peer,
    counts,
    our_pairs,
    pairs,
    records_at,
)
from benchmarks.tables import Table
from kernlet.atomic import atomic_write
from papers.reproduce import PAPERS
from papers.summary import read_tables, summarize
from papers.tables import table_markdown

README = ROOT / "README.md"
EVIDENCE = ROOT / "docs" / "evidence"
RESULTS = ROOT / "docs" / "results"
PAPER_RESULTS = RESULTS / "reproduce"
SITE = "https://kernlet.readthedocs.io/en/stable/"
#: The peers in the table of the README, and their names there.
SHORT_TITLES = {
    "SVC": "SVC",
    "Nystroem + linear": "Nystroem + linear model",
    "RBFSampler + linear": "RBFSampler + linear model",
    "MLP, one call": "quantized MLP",
    "deep MLP, 4 bits without zero": "deep MLP, 4 bits",
    "random forest": "random forest",
    "gradient boosting": "gradient boosting",
    BEST_PEER: "best peer, by validation",
}


def between_markers(readme: str, name: str, text: str) -> str:
    """The README with the text between the markers of a name replaced."""
    start, end = f"<!-- {name}: made by make results -->", f"<!-- end of {name} -->"
    pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(readme):
        raise ValueError(f"The README has no markers {start!r} and {end!r}.")
    return pattern.sub(lambda _: "\n".join([start, text, end]), readme)


def frontier_table(document: Document) -> str:
    """The short table of the frontier: the peers that readers know, and the best of all peers."""
    n_pairs = len(our_pairs(document))
    sets, budgets = ({pair[i] for pair in our_pairs(document)} for i in (0, 1))
    table = Table("", ["peer", *VERDICTS, "too large, or not measured"])
    for title, with_peer in by_peer(document).items():
        if title in SHORT_TITLES:
            n_verdicts = counts(with_peer)
            cells = (n_verdicts[verdict] for verdict in VERDICTS)
            table.add(SHORT_TITLES[title], *cells, n_pairs - len(with_peer))
    head = (
        "Test accuracy of `CompactKernelClassifier(max_bytes=...)` with its defaults, beside "
        f"peers in the same number of bytes ({min(budgets):,} to {max(budgets):,}): "
        f"{len(sets)} data sets, {n_pairs} comparisons per peer."
    )
    link = (
        "Tied means within one standard error. Peers are tuned over "
        f"{document['n_settings']} settings per size; the quantized MLP is found in one call, "
        "as ours is. All peers, and where kernlet loses: "
        f"[the frontier]({SITE}evidence/frontier.html)."
    )
    return "\n".join([head, "", *table.markdown().splitlines()[2:], "", link])


def read_frontier() -> tuple[Document, dict[str, Any] | None]:
    """Results of the frontier and of its growth with the rows, which may be missing."""
    growth = RESULTS / "frontier-growth.json"
    return (
        read_document(),
        json.loads(growth.read_text("utf-8")) if growth.exists() else None,
    )


def derived_files(document: Document, growth: dict[str, Any] | None) -> dict[Path, str]:
    """The text of every file that is made here."""
    readme = README.read_text("utf-8")
    files = {
        README: between_markers(readme, "frontier", frontier_table(document)),
        EVIDENCE / "frontier.md": page(document, growth),
        EVIDENCE / "frontier-tables.md": tables_page(document),
        PAPER_RESULTS / "summary.md": summarize(read_tables(PAPER_RESULTS)),
    }
    for path in sorted(PAPER_RESULTS.glob("*.json")):
        files[path.with_suffix(".md")] = table_markdown(json.loads(path.read_text("utf-8")))
    return files


def problems(document: Document, growth: dict[str, Any] | None) -> Iterator[str]:
    """What is wrong with the stored results, one sentence each."""
    if document["n_settings"] != N_SETTINGS:
        yield f"frontier.json has {document['n_settings']} settings per budget, not {N_SETTINGS}."
    for name, command in (("frontier", document), ("frontier-growth", growth or {})):
        if command and command["command"] != f"make bench ARGS={name}":
            yield f"{name}.json was made by {command['command']!r}."
    yield from _frontier_problems(document)
    for name, paper in PAPERS.items():
        for number in paper.TABLES:
            yield from _table_problems(f"{name}-{number}")


def _frontier_problems(document: Document) -> Iterator[str]:
    for name, budget in pairs(document):
        records = records_at(document, name, budget)
        place = f"frontier.json, {name} at {budget} bytes"
        # A setting of a smaller budget fits too and is tried again.
        n_budgets = sum(at == name and b <= budget for at, b in pairs(document))
        for competitor, record in records.items():
            if record["n_settings"] > N_SETTINGS * n_budgets:
                yield f"{place}: {competitor} tried {record['n_settings']} settings."
            if record["fits"] and record["nbytes"] > budget:
                yield f"{place}: {competitor} takes {record['nbytes']} bytes."
            n_seeds = document["sets"][name]["seeds"]
            if record["fits"] and not 0 < len(record["accuracies"]) <= n_seeds:
                yield f"{place}: {competitor} has {len(record['accuracies'])} seeds."


def _table_problems(stem: str) -> Iterator[str]:
    path = PAPER_RESULTS / f"{stem}.json"
    if not path.exists():
        yield f"{stem}.json is missing."
        return
    table = json.loads(path.read_text("utf-8"))
    if table["quick"]:
        yield f"{stem}.json was measured with --quick."
    for picture in table["pictures"]:
        if not (PAPER_RESULTS / picture).exists():
            yield f"{stem}.json: the picture {picture} is missing."
    for figure in table["figures"]:
        if figure["verdict"] == "not met" and not figure["reason"]:
            yield f"{stem}.json: {figure['row']}, {figure['quantity']} is not met without a reason."


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail where a file is out of date.")
def main(check: bool) -> None:
    """Make pages, pictures and tables of stored results, and check these results."""
    document, growth = read_frontier()
    found = list(problems(document, growth))
    for path, text in derived_files(document, growth).items():
        if check:
            if path.read_text("utf-8") != text:
                found.append(f"{path.relative_to(ROOT)} is out of date; run make results.")
        else:
            with atomic_write(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
    if not check:
        draw(document, ROOT / "docs" / "images")
    if found:
        raise click.ClickException("\n".join(found))


if __name__ == "__main__":
    main()

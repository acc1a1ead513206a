"""Time and accuracy by number of training rows, at one budget."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.competitors import COMPETITORS
from benchmarks.frontier.data import growing
from benchmarks.frontier.measure import ROOT, cache_of, cached, key_parts, run_once, tuned_setting
from benchmarks.tables import Table
from kernlet.atomic import atomic_write
from papers.cache import ResultCache

RESULTS = ROOT / "docs" / "results" / "frontier-growth.json"
COMMAND = "make bench ARGS=frontier-growth"
NAME, MAX_BYTES = "covertype", 16_384
SIZES = (1000, 4000, 16_000, 60_000)
#: Competitors without a limit on the rows, and the most rows they get.
MOST_ROWS = {
    "compact": 60_000,
    "nystroem": 60_000,
    "rbf_sampler": 16_000,
    "knn_prototypes": 60_000,
    "mlp": 60_000,
    "random_forest": 60_000,
    "hist_gradient_boosting": 60_000,
    "svc": 16_000,
}


def growth(quick: bool) -> Iterator[Table]:
    """Fit and predict times and accuracy, with the setting tuned for the frontier."""
    cache = cache_of(NAME)
    records = []
    for n_rows in SIZES[:1] if quick else SIZES:
        for competitor, most in MOST_ROWS.items():
            if n_rows <= most:
                records.append(_record(cache, competitor, n_rows))
    document = {
        "command": COMMAND,
        "set": NAME,
        "budget": MAX_BYTES,
        "titles": {name: COMPETITORS[name].TITLE for name in MOST_ROWS},
        "versions": {name: COMPETITORS[name].VERSION for name in MOST_ROWS},
        "records": records,
    }
    if not quick:
        with atomic_write(RESULTS) as part:
            part.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    yield growth_table(document)


def _record(cache: ResultCache, competitor: str, n_rows: int) -> dict[str, Any]:
    limit = None if competitor == "svc" else MAX_BYTES  # its size is not a parameter
    setting = tuned_setting(cache, NAME, MAX_BYTES, competitor, limit)
    run = cached(
        cache,
        lambda: run_once(growing(NAME, n_rows), competitor, setting, 0),
        "growth",
        *key_parts(competitor, setting),
        n_rows,
    )
    return {"competitor": competitor, "rows": n_rows, "setting": setting, **run}


def growth_table(document: dict[str, Any]) -> Table:
    """A row per competitor, a column per number of rows."""
    sizes = sorted({record["rows"] for record in document["records"]})
    table = Table(
        f"{document['set']} at {document['budget']:,} bytes, one seed: test accuracy in %, CPU "
        "seconds to fit, CPU milliseconds to predict 1,000 rows",
        ["machine", *(f"{size:,} rows" for size in sizes), "bytes at most"],
    )
    for competitor, title in document["titles"].items():
        by_size = {r["rows"]: r for r in document["records"] if r["competitor"] == competitor}
        cells = [_cell(by_size[size]) if size in by_size else "" for size in sizes]
        table.add(title, *cells, f"{max(r['nbytes'] for r in by_size.values()):,}")
    return table


def _cell(record: dict[str, Any]) -> str:
    return (
        f"{100 * record['score']:.2f}; {record['fit_seconds']:.2f} s; "
        f"{1000 * record['predict_seconds']:.1f} ms"
    )


BENCHMARKS = {"frontier-growth": growth}

"""``python -m fuzz``: a campaign over all targets, some of them, or one case once more."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fuzz.campaign import Tally, Target, all_targets, run_campaign, run_case

_PACKAGES = ("kernlet", "numpy", "scipy", "scikit-learn", "pyarrow", "highspy")


def main() -> int:
    """Run what the arguments ask for; 1 where a fault was found."""
    targets = all_targets()
    options = _parse(sorted({*targets, *(target.family for target in targets.values())}))
    chosen = [
        target
        for target in targets.values()
        if not options.names or {target.name, target.family} & set(options.names)
    ]
    if options.case is not None:
        for target in chosen:
            print(f"{target.name}: {run_case(target, options.seed, options.case)}")
        return 0
    minutes = options.minutes
    if minutes is None and options.cases is None:
        minutes = 10.0
    tallies = run_campaign(
        chosen,
        options.seed,
        n_cases=options.cases,
        minutes=minutes,
        n_jobs=options.jobs,
        report=lambda line: print(line, flush=True),
    )
    print(_table(chosen, tallies))
    if options.output is not None:
        options.output.write_text(json.dumps(_record(chosen, tallies, options.seed), indent=1))
    return int(any(tally.faults for tally in tallies.values()))


def _parse(names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument("--minutes", type=float, help="10 by default")
    parser.add_argument("--cases", type=int, help="in all, instead of a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--case", type=int, help="run this case only, with its traceback")
    parser.add_argument("--output", type=Path, help="a JSON file for the figures")
    options = parser.parse_args()
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error(f"there is no target or family {sorted(unknown)[0]}")
    return options


def _table(targets: list[Target], tallies: dict[str, Tally]) -> str:
    lines = [f"{'target':28} {'family':13} {'cases':>8} {'faults':>6} {'s/case':>8} {'slowest':>8}"]
    for target in targets:
        tally = tallies[target.name]
        mean = tally.seconds / max(1, tally.n_cases)
        outcomes = ", ".join(f"{name} {count:,}" for name, count in tally.outcomes.most_common(6))
        lines.append(
            f"{target.name:28} {target.family:13} {tally.n_cases:8,} {len(tally.faults):6} "
            f"{mean:8.4f} {tally.slowest:8.2f}  {outcomes}"
        )
    return "\n".join(lines)


def _record(targets: list[Target], tallies: dict[str, Tally], seed: int) -> dict[str, Any]:
    """What the documentation states: figures by target, and the versions they belong to."""
    return {
        "seed": seed,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
        "targets": [
            {
                "name": target.name,
                "family": target.family,
                "cases": tallies[target.name].n_cases,
                "outcomes": dict(tallies[target.name].outcomes.most_common()),
                "faults": [list(fault) for fault in tallies[target.name].faults],
                "slowest_seconds": round(tallies[target.name].slowest, 2),
            }
            for target in targets
        ],
    }


if __name__ == "__main__":
    sys.exit(main())

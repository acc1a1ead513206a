"""``python -m fuzz``: a campaign over all targets, some of them, or one case once more."""

from __future__ import annotations

import argparse
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

from fuzz.campaign import Tally, Target, all_targets, goals, run_campaign, run_case

_PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "highspy")

#: Cases of a whole campaign, by family.
CAMPAIGN = {"files": 200_000, "fits": 20_000, "certificates": 10_000, "c": 2_000}


def main() -> int:
    """Run what the arguments ask for; 1 where a fault was found."""
    targets = list(all_targets().values())
    options = _parse(sorted({name for target in targets for name in (target.name, target.family)}))
    if options.names:
        targets = [t for t in targets if {t.name, t.family} & set(options.names)]
    if options.case is not None:
        for target in targets:
            print(f"{target.name}: {run_case(target, options.seed, options.case)}")
        return 0
    began = time.monotonic()
    tallies = run_campaign(
        targets,
        options.seed,
        n_cases=_goals(targets, options),
        minutes=options.minutes,
        n_jobs=options.jobs,
        report=lambda line: print(line, flush=True),
    )
    table = _table(targets, tallies)
    print(table)
    if options.output is not None:
        minutes = (time.monotonic() - began) / 60
        options.output.write_text(f"{table}\n\n{_circumstances(options, minutes)}\n", "utf-8")
    return int(any(tally.faults for tally in tallies.values()))


def _goals(targets: list[Target], options: argparse.Namespace) -> dict[str, int] | None:
    """Cases of each target; None where time is all that counts."""
    if options.cases is not None:
        return goals(targets, options.cases)
    if not options.campaign:
        return None
    by_family = {family: [t for t in targets if t.family == family] for family in CAMPAIGN}
    return {
        name: n_cases
        for family, members in by_family.items()
        for name, n_cases in goals(members, CAMPAIGN[family]).items()
    }


def _parse(names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument("--minutes", type=float, help="how long; 10 by default")
    parser.add_argument("--cases", type=int, help="how many cases in all, instead of a time")
    parser.add_argument("--campaign", action="store_true", help=f"the cases {CAMPAIGN}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--case", type=int, help="run this case only, with its traceback")
    parser.add_argument("--output", type=Path, help="a Markdown file for the table")
    options = parser.parse_args()
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error(f"there is no target or family {sorted(unknown)[0]}")
    if options.minutes is None:
        options.minutes = float("inf") if options.cases or options.campaign else 10.0
    return options


def _table(targets: list[Target], tallies: dict[str, Tally]) -> str:
    lines = [
        "| family | target | cases | outcomes | faults | slowest case, s |",
        "|---|---|--:|---|--:|--:|",
    ]
    for target in sorted(targets, key=lambda t: (list(CAMPAIGN).index(t.family), t.name)):
        tally = tallies[target.name]
        outcomes = "; ".join(f"{name} {count:,}" for name, count in tally.outcomes.most_common(6))
        lines.append(
            f"| {target.family} | {target.name} | {tally.n_cases:,} | {outcomes} | "
            f"{len(tally.faults)} | {tally.slowest:.1f} |"
        )
    for family in CAMPAIGN:
        members = [tallies[target.name] for target in targets if target.family == family]
        n_cases = sum(tally.n_cases for tally in members)
        n_faults = sum(len(tally.faults) for tally in members)
        lines.append(f"| **{family}** | **all** | **{n_cases:,}** | | **{n_faults}** | |")
    return "\n".join(lines)


def _circumstances(options: argparse.Namespace, minutes: float) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    words = [word for word in sys.argv[1:] if word not in ("--output", str(options.output))]
    command = 'make fuzz ARGS="' + " ".join(words) + '"'
    return (
        f"`{command}`: {minutes:.0f} minutes with {options.jobs} processes; "
        f"Python {platform.python_version()}, {versions}."
    )


if __name__ == "__main__":
    sys.exit(main())

"""The first cases of every target, and that a campaign notices what it is there to notice."""

import numpy as np
import pytest

from fuzz.campaign import Target, all_targets, check_sentence, goals, run_campaign, run_case
from fuzz.mutate import damage
from support import faulty_cases


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(all_targets()))
def test_first_cases(name):
    target = all_targets()[name]
    for number in range(target.quick):
        assert isinstance(run_case(target, 0, number), str)


@pytest.mark.slow
def test_campaign_notices_every_kind_of_fault():
    cases = ("accept", "raise_error", "sleep", "abort", "allocate")
    targets = [Target(name, "files", getattr(faulty_cases, name)) for name in cases]
    lines: list[str] = []
    tallies = run_campaign(
        targets, 0, n_cases=goals(targets, 10), n_jobs=2, seconds_per_case=5.0, report=lines.append
    )
    assert {name: tally.n_cases for name, tally in tallies.items()} == dict.fromkeys(cases, 2)
    assert tallies["accept"].outcomes == {"accepted": 2}
    faults = {name: dict(tallies[name].faults)[1] for name in cases[1:]}
    assert faults["raise_error"].startswith("KeyError at faulty_cases.py:")
    assert faults["sleep"] == "not done after 5 s"
    assert "died with exit code -6" in faults["abort"]
    assert faults["allocate"].startswith("MemoryError")
    assert sum(line.startswith("FAULT") for line in lines) == 8


def test_campaign_ends_when_its_time_is_over():
    tallies = run_campaign(
        [Target("accept", "files", faulty_cases.accept)], 0, minutes=0.005, n_jobs=1
    )
    assert tallies["accept"].n_cases > 0


def test_weights_share_the_cases():
    targets = [
        Target("a", "files", faulty_cases.accept),
        Target("b", "files", faulty_cases.accept, weight=3),
    ]
    assert goals(targets, 8) == {"a": 2, "b": 6}
    assert goals(targets, 7) == {"a": 2, "b": 6}


def test_cases_depend_on_seed_target_and_number_alone():
    def draw(name, seed, number):
        return run_case(Target(name, "files", faulty_cases.draw), seed, number)

    assert draw("a", 0, 0) == draw("a", 0, 0)
    assert len({draw("a", 0, 0), draw("a", 0, 1), draw("a", 1, 0), draw("b", 0, 0)}) == 4


def test_damage_changes_most_files_and_repeats_itself():
    data = b"label,a,b\n" + b"x,1.5,2\ny,3,-4e5\n" * 20
    changed = [damage(data, np.random.default_rng(seed)) for seed in range(200)]
    assert changed == [damage(data, np.random.default_rng(seed)) for seed in range(200)]
    assert sum(copy != data for copy in changed) > 190
    assert max(map(len, changed)) < 100 * len(data)
    assert isinstance(damage(b"", np.random.default_rng(0)), bytes)


@pytest.mark.parametrize("message", ["", "x" * 2000, "operands could not be broadcast together"])
def test_unclear_messages_are_faults(message):
    with pytest.raises(AssertionError):
        check_sentence(ValueError(message))

import json

import pytest

from papers.cache import Experiment, ResultCache

CALLS = []


def double(number):
    CALLS.append(number)
    return {1: 2 * number}


@pytest.fixture(autouse=True)
def _no_calls():
    CALLS.clear()


def test_an_answer_is_kept_under_all_its_parameters(tmp_path):
    path = tmp_path / "new" / "cache.json"
    first = ResultCache(path).get_or_run(Experiment(double, {"number": 2}))
    again = ResultCache(path)
    assert again.get_or_run(Experiment(double, {"number": 2})) == first
    assert first["answer"] == {"1": 4}  # keys become strings in JSON
    assert again.get_or_run(Experiment(double, {"number": 3}))["answer"] == {"1": 6}
    assert CALLS == [2, 3]


def test_fresh_runs_again_and_forgets_nothing_else(tmp_path):
    path = tmp_path / "cache.json"
    kept = ResultCache(path)
    experiments = [Experiment(double, {"number": number}) for number in (1, 2)]
    for experiment in experiments:
        kept.get_or_run(experiment)
    fresh = ResultCache(path, fresh=True)
    fresh.get_or_run(experiments[0])
    fresh.get_or_run(experiments[0])
    assert CALLS == [1, 2, 1]
    assert experiments[1] in ResultCache(path)


@pytest.mark.parametrize("text", ['{"half": ', "[1, 2]", ""])
def test_a_corrupt_file_is_named_and_fresh_begins_again(tmp_path, text):
    path = tmp_path / "cache.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"cache.json is corrupt.*--fresh"):
        ResultCache(path)
    ResultCache(path, fresh=True).get_or_run(Experiment(double, {"number": 1}))
    assert len(json.loads(path.read_text())) == 1


def test_results_by_name_as_benchmarks_keep_them(tmp_path):
    cache = ResultCache(tmp_path / "cache.json")
    cache.fill("doubled", double, [(1,), (2,)])
    cache.put(5, "five", "a")
    again = ResultCache(tmp_path / "cache.json")
    assert again.get("five", "a") == 5
    assert again.get("doubled", 2) == {"1": 4}

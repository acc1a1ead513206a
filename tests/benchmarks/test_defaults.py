"""The benchmark of defaults: which estimators it has, and what it says of one."""

from benchmarks.suites.defaults import estimators, fit_default, tables


def test_all_estimators_are_there_with_their_defaults():
    every = estimators()
    assert {"MMDA", "L1KernelClassifier", "CompressedClassifier", "TypicalCondenser"} <= set(every)
    assert every["L1KernelClassifier"].candidates == "auto"


def test_the_facts_of_one():
    warned = []
    facts = fit_default("HullPerceptronClassifier", 300, 2, warned.append)
    assert facts["gap"] <= 1e-3
    assert warned == []
    assert fit_default("TypicalCondenser", 300, 2, warned.append)["size"].endswith(" rows")
    of = {"warnings": [], "seconds": 1.0, "score": 0.5, "size": "3", "gap": 0.1, "peak": 1.0}
    table, _ = tables({"one": of, "two": {"warnings": [(0.1, "Slow.")]}}, 300)
    assert table.rows[0][:4] == ["one", "1.0", "50.00", "3"]
    assert table.rows[1][1].startswith(">")

"""The benchmark of defaults: which estimators it has, and what it says of one."""

from benchmarks.suites.defaults import estimators, fit_default


def test_all_estimators_are_there_with_their_defaults():
    every = estimators()
    assert {"MMDA", "L1KernelClassifier", "CompressedClassifier", "TypicalCondenser"} <= set(every)
    assert every["L1KernelClassifier"].candidates == "auto"


def test_the_facts_of_one():
    facts = fit_default("HullPerceptronClassifier", 300, 2)
    assert facts["gap"] <= 1e-3
    assert facts["messages"] == []
    assert fit_default("TypicalCondenser", 300, 2)["size"].endswith(" rows")

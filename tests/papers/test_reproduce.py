import pytest

from papers.reproduce import PAPERS, tables_of


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("quick", [False, True])
def test_what_a_table_needs_has_keys_of_its_own(paper, quick):
    for number in tables_of(paper, None):
        named = PAPERS[paper].TABLES[number].experiments(quick)
        keys = [e.key for experiments in named.values() for e in experiments]
        assert len(set(keys)) >= 0.8 * len(keys)  # a set may have one solver in two rows


@pytest.mark.parametrize("paper", PAPERS)
def test_quick_is_less(paper):
    sizes = [
        sum(len(e) for t in PAPERS[paper].TABLES.values() for e in t.experiments(quick).values())
        for quick in (False, True)
    ]
    assert sizes[1] < sizes[0] / 2


def test_an_unknown_table_is_refused():
    with pytest.raises(ValueError, match="fung2002 has no table '7'; it has figure4, 1, 2"):
        tables_of("fung2002", "7")

import pytest

from kernlet.reproduce.papers import PAPERS, tables_of


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("quick", [False, True])
def test_what_a_table_needs_has_keys_of_its_own(paper, quick):
    for number in tables_of(paper, None):
        named = PAPERS[paper].TABLES[number].cells(quick)
        keys = [cell.key for cells in named.values() for cell in cells]
        assert len(set(keys)) >= 0.8 * len(keys)  # a set may have one solver in two rows


@pytest.mark.parametrize("paper", PAPERS)
def test_quick_is_less(paper):
    sizes = [
        sum(len(c) for t in PAPERS[paper].TABLES.values() for c in t.cells(quick).values())
        for quick in (False, True)
    ]
    assert sizes[1] < sizes[0] / 2


def test_an_unknown_table_is_refused():
    with pytest.raises(ValueError, match="mkc has no table '7'; it has figure4, 1, 2"):
        tables_of("mkc", "7")

import json

import pytest

from kernlet.reproduce.cells import Cell, Cells

CALLS = []


def double(number):
    CALLS.append(number)
    return {1: 2 * number}


@pytest.fixture(autouse=True)
def _no_calls():
    CALLS.clear()


def test_an_answer_is_kept_under_all_its_parameters(tmp_path):
    path = tmp_path / "new" / "cells.json"
    first = Cells(path).ask(Cell(double, {"number": 2}))
    again = Cells(path)
    assert again.ask(Cell(double, {"number": 2})) == first  # keys are texts from the start
    assert first["answer"] == {"1": 4}
    assert again.ask(Cell(double, {"number": 3}))["answer"] == {"1": 6}
    assert CALLS == [2, 3]


def test_fresh_measures_anew_and_forgets_nothing_else(tmp_path):
    path = tmp_path / "cells.json"
    kept = Cells(path)
    cells = [Cell(double, {"number": number}) for number in (1, 2)]
    for cell in cells:
        kept.ask(cell)
    fresh = Cells(path, fresh=True)
    fresh.ask(cells[0])
    fresh.ask(cells[0])
    assert CALLS == [1, 2, 1]
    assert cells[1] in Cells(path)


@pytest.mark.parametrize("text", ['{"half": ', "[1, 2]", ""])
def test_a_damaged_file_is_named_and_fresh_begins_again(tmp_path, text):
    path = tmp_path / "cells.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"cells.json is damaged.*--fresh"):
        Cells(path)
    Cells(path, fresh=True).ask(Cell(double, {"number": 1}))
    assert len(json.loads(path.read_text())) == 1


def test_results_by_name_as_benchmarks_keep_them(tmp_path):
    cells = Cells(tmp_path / "cells.json")
    cells.fill("doubled", double, [(1,), (2,)])
    cells.put(5, "five", "a")
    again = Cells(tmp_path / "cells.json")
    assert again.get("five", "a") == 5
    assert again.get("doubled", 2) == {"1": 4}

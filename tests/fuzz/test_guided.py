"""The readers that coverage-guided fuzzing calls, without atheris."""

import sys

import pytest

from fuzz import guided


@pytest.mark.parametrize("name", guided.READERS)
def test_readers_take_their_first_inputs_and_damaged_ones(name, tmp_path):
    inputs = guided.first_inputs(name)
    assert inputs
    for content in inputs[:5]:
        guided.READERS[name](content, tmp_path)
        guided.READERS[name](content[: len(content) // 2], tmp_path)
    guided.READERS[name](b"", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["guided"], "Give one of the readers model, metadata"), (["guided", "csv"], "needs atheris")],
)
def test_what_is_missing_gets_a_sentence(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.setitem(sys.modules, "atheris", None)
    assert guided.main() == 2
    assert message in capsys.readouterr().out

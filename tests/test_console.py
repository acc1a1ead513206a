"""What a terminal is shown."""

import io
import sys

import pytest

from kernlet.console import printable, reading_bar, say


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 😀 [red]", "plain é 😀 [red]"),
        ("two\nlines\tand  more", "two lines and more"),
        ("\x1b[31mred\x07", "�[31mred�"),
        ("\udcff.csv", "�.csv"),
        ("\u202egnp", "�gnp"),
    ],
)
def test_texts_in_one_line(text, shown, capsys):
    assert printable(text) == shown
    say(text)
    assert capsys.readouterr().err == shown + "\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_progress_bar_shows_names_as_they_are(tmp_path, monkeypatch):
    pytest.importorskip("rich")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    path = tmp_path / "[red]y\x1b[5m.csv"
    path.write_text("a,b\n1,2\n")
    with reading_bar(path) as advance:
        advance(8)
    assert "[red]y�[5m.csv" in terminal.getvalue()

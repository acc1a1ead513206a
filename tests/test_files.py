import os
from pathlib import Path

import pytest

from kernlet.atomic import atomic_write


def test_the_file_appears_when_all_is_written(tmp_path):
    path = tmp_path / "table.md"
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "table.md"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), atomic_write(path) as temporary:
        temporary.write_text("half \ud800", encoding="utf-8")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_that_was_planted_is_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_text("theirs")
    (tmp_path / ".table.md.part").symlink_to(other)
    with atomic_write(tmp_path / "table.md") as temporary:
        assert not temporary.is_symlink()
        temporary.write_text("new")
    assert other.read_text() == "theirs"
    assert (tmp_path / "table.md").read_text() == "new"


def test_two_writers_do_not_share_a_file(tmp_path):
    path = tmp_path / ("table" * 48)
    with atomic_write(path) as one, atomic_write(path) as two:
        one.write_text("one, the last to end")
        two.write_text("two")
    assert path.read_text() == "one, the last to end"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "usual").touch()
    with atomic_write(tmp_path / "table.md") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "table.md").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_devices_and_pipes_are_written_to(tmp_path):
    with atomic_write(Path("/dev/null")) as null:
        null.write_text("gone")
    assert Path("/dev/null").is_char_device()
    os.mkfifo(tmp_path / "pipe")
    with atomic_write(tmp_path / "pipe") as pipe:
        assert pipe == tmp_path / "pipe"
    assert list(tmp_path.iterdir()) == [tmp_path / "pipe"]

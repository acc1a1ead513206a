"""Atomic writes and checkpoints."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_moons

from kernlet.atomic import Checkpoint, atomic_write, fingerprint
from kernlet.kernels.rbf import RBF


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


X, y = make_moons(160, noise=0.2, random_state=0)


def test_fingerprints():
    parameters = {"C": (1.0, 2.0), "kernel": RBF(0.5)}
    one = fingerprint(parameters, X, y)
    assert fingerprint(dict(reversed(parameters.items())), X.copy(order="F"), y) == one
    thin = sparse.csr_array(X)
    others = [
        fingerprint({**parameters, "kernel": RBF(0.6)}, X, y),
        fingerprint(parameters, X, y.astype(float)),
        fingerprint(parameters, X.reshape(80, 4), y),
        fingerprint(parameters, X, y.astype(object)),
        fingerprint(parameters, thin, y),
        fingerprint(parameters, 2 * thin, y),
        fingerprint(parameters, thin[:, ::-1], y),
    ]
    assert len({one, *others}) == 1 + len(others)


def test_a_checkpoint_returns_what_was_saved(tmp_path):
    checkpoint = Checkpoint(tmp_path / "new" / "fit.npz", "this fit")
    assert checkpoint.load(lambda header, arrays: header) is None
    checkpoint.save({"round": 3}, coef=X)
    header, coef = checkpoint.load(lambda header, arrays: (header, arrays["coef"]))
    assert header["round"] == 3
    np.testing.assert_array_equal(coef, X, strict=True)
    with pytest.raises(ValueError, match="belongs to another fit: parameters or data differ"):
        Checkpoint(checkpoint.path, "another fit").load(lambda header, arrays: header)
    with pytest.raises(ValueError, match=r"fit\.npz is corrupt"):
        checkpoint.load(lambda header, arrays: arrays["intercept"])


def test_a_checkpoint_needs_a_seed_and_a_folder(tmp_path):
    with pytest.raises(ValueError, match="needs a whole number as random_state"):
        Checkpoint.of_fit(tmp_path / "fit.npz", {"random_state": None}, X)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FileExistsError):
        Checkpoint.of_fit(tmp_path / "file" / "fit.npz", {"random_state": 0}, X)

"""Atomic writes and checkpoints."""

import errno
import io
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_moons

from kernlet.atomic import (
    Checkpoint,
    atomic_write,
    atomic_writes,
    fingerprint,
    stored_numbers,
)
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


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "table.md"
    path.write_text("old")
    path.chmod(mode)
    if not os.access(path, os.W_OK):  # everybody but root
        with pytest.raises(PermissionError, match=r"table\.md"), atomic_write(path):
            pass
        assert list(tmp_path.iterdir()) == [path]
        return
    with atomic_write(path) as temporary:
        assert temporary.stat().st_mode & 0o077 == 0
        temporary.write_text("new")
    assert path.stat().st_mode & 0o777 == mode
    assert path.read_text() == "new"


def test_a_file_that_is_replaced_keeps_its_owner(tmp_path, monkeypatch):
    path = tmp_path / "table.md"
    path.write_text("old")
    try:
        os.chown(path, 1234, 2345)
    except (PermissionError, AttributeError):
        pytest.skip("only root gives files away")
    path.chmod(0o660)
    with atomic_write(path) as temporary:
        temporary.write_text("new")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)

    def refuse(*arguments):
        raise PermissionError

    monkeypatch.setattr(os, "chown", refuse)
    with atomic_write(path) as temporary:
        temporary.write_text("newer")
    assert path.stat().st_uid == os.geteuid()
    assert path.stat().st_mode & 0o777 == 0o600  # it was not for the group of root


def test_symbolic_links_stay(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    link.symlink_to("folder/target")
    for content in ("to a file that is not there yet", "to one that is"):
        with atomic_write(link) as temporary:
            temporary.write_text(content)
        assert link.is_symlink()
        assert target.read_text() == content
    assert list(target.parent.iterdir()) == [target]
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(OSError, match="circle"), atomic_write(circle):
        pass


def test_errors_name_what_the_user_named(tmp_path, monkeypatch):
    missing = tmp_path / "missing" / "table.md"
    with pytest.raises(FileNotFoundError, match=r"no folder .*missing; c"), atomic_write(missing):
        pass
    with pytest.raises(OSError, match="too long"), atomic_write(tmp_path / ("n" * 300)):
        pass
    path = tmp_path / "table.md"
    with pytest.raises(OSError, match=r"No space left.*table\.md"), atomic_write(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        pytest.raises(OSError, match=r"device: '[^']*/table\.md'$"),
        atomic_write(path) as temporary,
    ):
        raise OSError(errno.ENOSPC, "No space left on device", str(temporary))
    monkeypatch.setattr(os, "replace", lambda *names: os.rename(names[0], tmp_path / "no" / "x"))
    with pytest.raises(FileNotFoundError, match=r": '[^']*/table\.md'$"), atomic_write(path):
        pass
    assert not any(tmp_path.iterdir())


def test_the_umask_of_the_process_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "umask")
    with atomic_write(tmp_path / "table.md") as temporary:
        temporary.write_text("new")


def test_content_is_on_the_disk_before_its_name(tmp_path, monkeypatch):
    done, fsync, replace = [], os.fsync, os.replace

    def record_fsync(descriptor):
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def record_replace(old, new):
        done.append("replace")
        replace(old, new)

    if not os.path.exists("/proc/self/fd"):
        pytest.skip("names of open files are read from /proc")
    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    with atomic_write(tmp_path / "table.md") as temporary:
        temporary.write_text("new")
    assert done == [str(temporary), "replace", str(tmp_path)]


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def write_all(paths, error=None, n_bytes=0):
    with atomic_writes(*paths) as temporaries:
        for temporary in temporaries:
            temporary.write_text("new" + n_bytes * " ")
        if error is not None:
            raise error


def test_a_set_of_files_appears_together(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    paths[0].write_text("old")
    with atomic_writes(*paths) as temporaries:
        for temporary in temporaries:
            temporary.write_text("new")
        assert contents(tmp_path)["a"] == "old"
        assert not paths[1].exists()
    assert contents(tmp_path) == {"a": "new", "b": "new", "c": "new"}


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("error", [OSError("no"), KeyboardInterrupt(), SystemExit(143)])
@pytest.mark.parametrize("n_renamed", [0, 1, 2])
def test_a_set_of_files_is_replaced_as_a_whole(tmp_path, monkeypatch, error, n_renamed, links):
    paths = [tmp_path / name for name in "abc"]
    paths[0].write_text("old")
    paths[2].write_text("old")
    replace, calls = os.replace, []

    def fail(old, new):
        calls.append(new)
        if len(calls) == n_renamed + 1:
            raise error
        replace(old, new)

    monkeypatch.setattr(os, "replace", fail)
    if not links:
        monkeypatch.setattr(os, "link", lambda *names: (_ for _ in ()).throw(OSError("no links")))
    with pytest.raises(type(error)):
        write_all(paths)
    assert contents(tmp_path) == {"a": "old", "c": "old"}


@pytest.mark.parametrize("name", ["open", "close", "chmod", "fsync", "link", "replace"])
@pytest.mark.parametrize("n_call", [1, 2, 3, 4])
def test_a_signal_right_after_a_system_call(tmp_path, monkeypatch, name, n_call):
    """Handlers of signals run when the call has returned, before its result is used."""
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_text("old")
    call, calls = getattr(os, name), []

    def interrupted(*arguments, **more):
        result = call(*arguments, **more)
        calls.append(result)
        if len(calls) == n_call:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(os, name, interrupted)
    try:
        write_all(paths)
    except KeyboardInterrupt:
        assert contents(tmp_path) in ({"a": "old", "b": "old"}, {"a": "new", "b": "new"})
    else:
        assert len(calls) < n_call
        assert contents(tmp_path) == {"a": "new", "b": "new"}


def test_a_write_that_fails_replaces_no_file_of_a_set(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    paths[0].write_text("old")
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
        write_all(paths, full)
    assert contents(tmp_path) == {"a": "old"}


LIMITED = """
import resource, signal, sys
from pathlib import Path
from kernlet.atomic import atomic_writes
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
folder = Path(sys.argv[1])
with atomic_writes(folder / "a", folder / "b") as (a, b):
    a.write_bytes(bytes(10))
    b.write_bytes(bytes(20_000))
"""


def test_a_disk_that_is_full(tmp_path):
    pytest.importorskip("resource")
    (tmp_path / "a").write_text("old")
    command = [sys.executable, "-c", LIMITED, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"File too large: '{tmp_path}'" in done.stderr
    assert contents(tmp_path) == {"a": "old"}


def test_a_small_file_system(tmp_path):
    """Where mounting is allowed; elsewhere a limit on the size of files stands for it, above."""
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    if shutil.which("mount") is None or subprocess.run(command, check=False).returncode:
        pytest.skip("mounting is not allowed")
    try:
        paths = [tmp_path / name for name in "ab"]
        paths[0].write_text("old")
        with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
            write_all(paths, n_bytes=50_000)
        assert contents(tmp_path) == {"a": "old"}
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


SLOW = """
import sys, time
from pathlib import Path
from kernlet.atomic import atomic_write
with atomic_write(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_a_writer_that_is_killed_leaves_the_old_file(tmp_path):
    path = tmp_path / "table.md"
    path.write_text("old")
    with subprocess.Popen([sys.executable, "-c", SLOW, path], stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"writing\n"
        writer.kill()
    assert path.read_text() == "old"
    (left,) = set(tmp_path.iterdir()) - {path}
    assert left.name.startswith(".table.md.")
    assert left.suffix == ".part"


def test_many_writers_leave_one_whole_file(tmp_path):
    path = tmp_path / "table.md"
    texts = [str(number) * 100_000 for number in range(8)]

    def write(text):
        for _ in range(5):
            with atomic_write(path) as temporary:
                temporary.write_text(text)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert not path.exists() or path.read_text() in texts
    for thread in threads:
        thread.join()
    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]


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


def claim(checkpoint, name, shape):
    """Let an array of a checkpoint claim another shape, with valid checksums."""
    with zipfile.ZipFile(checkpoint.path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    array = np.load(io.BytesIO(members[name]))
    file = io.BytesIO()
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    members[name] = file.getvalue() + array.tobytes()
    with zipfile.ZipFile(checkpoint.path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)


@pytest.mark.parametrize("shape", [(10**12,), (10**12, 4), (10**30,), (-3, 4)])
def test_a_checkpoint_that_claims_more_than_it_holds(tmp_path, shape):
    checkpoint = Checkpoint(tmp_path / "fit.npz", "this fit")
    checkpoint.save({}, coef=X)
    claim(checkpoint, "coef.npy", shape)
    with pytest.raises(ValueError, match=r"corrupt \(it is corrupt: its array coef claims the sh"):
        checkpoint.load(lambda header, arrays: arrays["coef"])


@pytest.mark.parametrize("wrong", [np.float64(1), X[0], X[:, :1], X * np.nan, X > 0, X.astype("O")])
def test_numbers_of_another_shape_are_refused(wrong):
    assert stored_numbers(X, 160, 2) is X
    assert stored_numbers(X, None, 2) is X
    with pytest.raises(ValueError, match="does not suit this fit"):
        stored_numbers(np.asarray(wrong), None, 2)


def test_the_checkpoint_of_another_fit_is_not_decoded(tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit.npz", "another fit")
    checkpoint.save({}, coef=X)
    with pytest.raises(ValueError, match="belongs to another fit"):
        Checkpoint(checkpoint.path, "this fit").load(lambda header, arrays: 1 / 0)

"""Atomic file writes and resumable checkpoints."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile
from zlib import error as ZlibError  # noqa: N812

import numpy as np
from scipy import sparse

from kernlet.npy import open_npz

_CHECKPOINT_FORMAT = 1

#: Errors that reading a corrupt file may raise.
DAMAGE = (
    AttributeError,
    BadZipFile,
    EOFError,
    KeyError,
    OSError,
    OverflowError,
    RuntimeError,  # also NotImplementedError and RecursionError
    TypeError,
    ValueError,
    ZlibError,
)

Content = TypeVar("Content")


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside ``path`` that replaces it when the block succeeds."""
    with atomic_writes(path) as (temporary,):
        yield temporary


# A file that is replaced keeps its permissions and, where the system allows it, its owner. A
# symbolic link stays and its target is replaced; other hard links keep the old content. A file that
# could not be opened for writing is refused, although its folder would let it be replaced.
#
# The content is on the disk before its name is (fsync), so that a power failure leaves the old file
# or the new one. Between the renames of a set it can leave some files old and some new; any failure
# that Python sees, an interruption too, puts the old ones back. SIGKILL leaves the temporary files,
# which are hidden and end in .part.
@contextmanager
def atomic_writes(*paths: Path) -> Iterator[tuple[Path, ...]]:
    """Yield a temporary file for each path; all of the files are replaced, or none."""
    files: list[_Replacement] = []
    try:
        # All are known before one exists: a signal at any moment finds them in the list.
        files += [_Replacement.of(path) for path in paths]
        for file in files:
            file.create()
        yield tuple(file.temporary for file in files)
        for file in files:
            file.flush()
        _rename(files)
    except OSError as error:
        _name_output(error, files)
        raise
    finally:
        for file in files:
            file.discard()


@dataclass(frozen=True)
class _Replacement:
    """A temporary file and the file that it replaces; the same for a device or a pipe."""

    path: Path  # as the caller named it
    target: Path  # the file that the name stands for, after symbolic links
    temporary: Path
    old: os.stat_result | None = None

    @classmethod
    def of(cls, path: Path) -> _Replacement:
        """Choose the name of the temporary file."""
        target = Path(os.path.realpath(path))
        try:
            old = os.stat(path)
        except FileNotFoundError:
            old = None
        # A device or a pipe cannot be replaced: it is written to directly. So is standard output
        # by name, which may be a file that the shell has opened.
        is_stream = path.is_relative_to("/proc") or path.parent in (Path("/dev"), Path("/dev/fd"))
        if old is not None and (is_stream or not stat.S_ISREG(old.st_mode)):
            return cls(path, path, path)
        folder = target.parent if path.is_symlink() else path.parent
        if not folder.is_dir():
            raise FileNotFoundError(f"There is no folder {folder}; create it first.")
        if old is not None:
            os.close(os.open(target, os.O_WRONLY))  # refused where a plain open would be
        # A new file under an unpredictable name: a symbolic link planted at a guessed name is
        # never followed, and two writers never share a file.
        temporary = target.with_name(f".{target.name[:50]}.{secrets.token_hex(8)}.part")
        return cls(path, target, temporary, old)

    @property
    def is_stream(self) -> bool:
        """Whether the path itself is written to."""
        return self.temporary == self.path

    @property
    def backup(self) -> Path:
        """A second name, or a copy, of the file while it is replaced."""
        return self.temporary.with_suffix(".old.part")

    def create(self) -> None:
        """Create the temporary file."""
        if self.is_stream:
            return
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
        try:
            # The system applies the umask; what replaces a file is private until it does.
            os.close(os.open(self.temporary, flags, 0o666 if self.old is None else 0o600))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.target.parent)) from None

    def flush(self) -> None:
        """Set owner and permissions, and wait until the content is on the disk."""
        if self.is_stream:
            return
        if self.old is not None:
            mode = stat.S_IMODE(self.old.st_mode)
            if not _keep_owner(self.temporary, self.old):
                mode &= ~0o070  # they were those of another group
            os.chmod(self.temporary, mode)
        with open(self.temporary, "rb" if os.name == "posix" else "ab") as file:
            os.fsync(file.fileno())

    def keep(self) -> None:
        """Make the backup of the file that is replaced."""
        if self.old is None:
            return
        try:
            os.link(self.target, self.backup)
        except OSError:  # file systems without hard links
            shutil.copy2(self.target, self.backup)

    def restore(self) -> None:
        """Undo the replacement if it has been done."""
        if self.temporary.exists():
            return
        if self.old is None:
            self.target.unlink(missing_ok=True)
        else:
            os.replace(self.backup, self.target)

    def discard(self) -> None:
        """Remove the temporary file and the backup if they are still there."""
        if not self.is_stream:
            self.temporary.unlink(missing_ok=True)
            self.backup.unlink(missing_ok=True)


def _rename(files: list[_Replacement]) -> None:
    """Give the temporary files their names; undo it if one of them cannot have it."""
    files = [file for file in files if not file.is_stream]
    is_set = len(files) > 1
    try:
        for file in files if is_set else ():
            file.keep()
        for file in files:
            os.replace(file.temporary, file.target)
    except BaseException:
        for file in files if is_set else ():
            file.restore()
        raise
    for folder in {file.target.parent for file in files}:
        _flush_folder(folder)


def _flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can do that."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows cannot open a folder
        return
    try:
        os.fsync(descriptor)
    except OSError:  # not supported by some network file systems; the content is safe
        pass
    finally:
        os.close(descriptor)


def _keep_owner(path: Path, old: os.stat_result) -> bool:
    """Give a file the owner and the group of another; false if not even the group."""
    new = os.stat(path)
    if (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid):
        return True
    for owner in (old.st_uid, -1):  # only root may give a file away
        try:
            os.chown(path, owner, old.st_gid)
        except (OSError, AttributeError):  # AttributeError: Windows
            continue
        return True
    return False


def _name_output(error: OSError, files: list[_Replacement]) -> None:
    """Let an error name the file that the user knows, not a temporary one."""
    paths = {str(file.temporary): file.path for file in files}
    if error.filename is not None:
        name = paths.get(str(error.filename), error.filename)
        error.filename = str(name)
        del error.filename2  # the other name of a rename; None would be printed
    elif error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and files:
        # a write has failed, and its error names no file
        error.filename = str(files[0].path if len(files) == 1 else files[0].path.parent)


class Checkpoint:
    """One .npz file from which one fit resumes: these parameters on these data.

    The file holds arrays and a JSON header with a fingerprint of parameters and data; the
    checkpoint of another fit is refused.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path = path
        self.fingerprint = fingerprint
        # Now, so that a folder that cannot be made fails before hours of work and not after.
        path.parent.mkdir(parents=True, exist_ok=True)

    @classmethod
    def of_fit(cls, path: Path, parameters: dict[str, Any], *arrays: Any) -> Checkpoint:
        """The checkpoint of a fit with these parameters (``random_state`` among them) and data."""
        if not isinstance(parameters["random_state"], Integral):
            raise ValueError(
                "A checkpoint needs a whole number as random_state; otherwise a later fit would "
                "draw other samples."
            )
        return cls(path, fingerprint(parameters, *arrays))

    def save(self, header: dict[str, Any], **arrays: Any) -> None:
        """Replace the file atomically; the header holds JSON values."""
        header = {"format": _CHECKPOINT_FORMAT, "fingerprint": self.fingerprint, **header}
        content = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        with atomic_write(self.path) as temporary, open(temporary, "wb") as file:
            np.savez(file, header=content, **arrays)

    def load(self, decode: Callable[[dict[str, Any], Any], Content]) -> Content | None:
        """What ``decode(header, arrays)`` returns; None where there is no file."""
        if not self.path.exists():
            return None
        try:
            with open_npz(self.path) as arrays:
                header = json.loads(arrays["header"].tobytes())
                written_by = (header["format"], header["fingerprint"])
                is_ours = written_by == (_CHECKPOINT_FORMAT, self.fingerprint)
                content = decode(header, arrays) if is_ours else None
        except PermissionError:
            raise
        except DAMAGE as error:
            reason = str(error)[:200].rstrip(".") or type(error).__name__  # some quote the file
            raise ValueError(
                f"The checkpoint {self.path} is corrupt ({reason}). Delete it to start from "
                "scratch."
            ) from error
        if not is_ours:
            raise ValueError(
                f"The checkpoint {self.path} belongs to another fit: parameters or data differ. "
                "Give another folder, or delete it to start from scratch."
            )
        return content


def stored_numbers(array: Any, *shape: int | None) -> Any:
    """An array of a checkpoint; ValueError unless its numbers are finite and of this shape."""
    fits = (
        array.dtype in (np.float32, np.float64)
        and array.ndim == len(shape)
        and all(wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True))
    )
    if not (fits and np.isfinite(array).all()):
        raise ValueError(
            f"an array of {array.dtype} and shape {array.shape} in it does not suit this fit"
        )
    return array


def fingerprint(parameters: dict[str, Any], *arrays: Any) -> str:
    """SHA-256 of parameters and arrays, dense or sparse."""
    canonical = sorted((name, _canonical(value)) for name, value in parameters.items())
    digest = hashlib.sha256(repr(canonical).encode())
    for array in arrays:
        digest.update(str(array.shape).encode())
        is_sparse = sparse.issparse(array)
        for buffer in (array.data, array.indices, array.indptr) if is_sparse else (array,):
            digest.update(str(buffer.dtype).encode())
            # The bytes of an object array are addresses.
            is_object = buffer.dtype == object
            digest.update(repr(buffer.tolist()).encode() if is_object else buffer.tobytes())
    return digest.hexdigest()


def _canonical(value: Any) -> str:
    """The same text for equal values: 10 and 10.0, a list and an array."""
    if isinstance(value, dict):
        return repr(sorted((repr(key), _canonical(entry)) for key, entry in value.items()))
    if isinstance(value, list | tuple | np.ndarray):
        return repr([_canonical(entry) for entry in value])
    if isinstance(value, Real):
        return repr(float(value))
    return repr(value)

"""A fit that can be interrupted and go on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from numbers import Real
from pathlib import Path
from typing import Any
from zipfile import BadZipFile
from zlib import error as ZlibError  # noqa: N812

import numpy as np
from scipy import sparse

from kernlet.estimators.stage import RunRecord
from kernlet.files import written_whole
from kernlet.kernels.kernel import Floats

_FORMAT = 1
#: What reading a damaged file may raise.
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


@dataclass(frozen=True, eq=False)
class StagesDone:
    """What a later stage needs of those before it.

    Parameters
    ----------
    records : tuple of tuples of RunRecord
        One tuple a finished stage.
    candidates : ndarray of shape (n_candidates, n_features) or None
        The union of the synthetic points of the last stage; None before the first.
    start : ndarray of shape (n_points, n_features) or None
        The synthetic points from which the next search starts.
    """

    records: tuple[tuple[RunRecord, ...], ...] = ()
    candidates: Floats | None = None
    start: Floats | None = None


class Checkpoint:
    """Finished stages in a folder, for one fit: these parameters on these data.

    Parameters
    ----------
    folder : str or Path
        Made where it does not exist.
    fingerprint : str
        Of parameters and data; a checkpoint of another fit is refused.
    """

    def __init__(self, folder: str | Path, fingerprint: str) -> None:
        self.path = Path(folder) / "stages.npz"
        self.fingerprint = fingerprint
        self.path.parent.mkdir(parents=True, exist_ok=True)  # now, not after the first stage

    def save(self, done: StagesDone) -> None:
        """Write the finished stages; the file is there whole or not at all."""
        header = {
            "format": _FORMAT,
            "fingerprint": self.fingerprint,
            "records": [[asdict(record) for record in stage] for stage in done.records],
        }
        with written_whole(self.path) as temporary, open(temporary, "wb") as file:
            np.savez(
                file,
                header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8),
                candidates=np.asarray(done.candidates),
                start=np.asarray(done.start),
            )

    def load(self) -> StagesDone:
        """The finished stages, none where there is no file."""
        if not self.path.exists():
            return StagesDone()
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                header = json.loads(stored["header"].tobytes())
                done = StagesDone(
                    tuple(tuple(_record(r) for r in stage) for stage in header["records"]),
                    stored["candidates"],
                    stored["start"],
                )
        except PermissionError:
            raise
        except DAMAGE as error:
            raise ValueError(
                f"The checkpoint {self.path} is damaged ({error}). Delete it to start anew."
            ) from error
        if header.get("format") != _FORMAT or header.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"The checkpoint {self.path} belongs to another fit: parameters or data differ. "
                "Give another folder, or delete it to start anew."
            )
        return done


def _record(stored: dict[str, Any]) -> RunRecord:
    return RunRecord(**{**stored, "scores": tuple(stored["scores"])})


def fingerprint(parameters: dict[str, Any], *arrays: Any) -> str:
    """A hash of parameters and arrays, dense or sparse."""
    plain = sorted((name, _plain(value)) for name, value in parameters.items())
    digest = hashlib.sha256(repr(plain).encode())
    for array in arrays:
        digest.update(str(array.shape).encode())
        parts = (array.data, array.indices, array.indptr) if sparse.issparse(array) else (array,)
        for part in parts:
            digest.update(str(part.dtype).encode())
            digest.update(_bytes(part))
    return digest.hexdigest()


def _plain(value: Any) -> str:
    """The same text for equal values: 10 and 10.0, a list and an array."""
    if isinstance(value, dict):
        return repr(sorted((repr(key), _plain(entry)) for key, entry in value.items()))
    if isinstance(value, list | tuple | np.ndarray):
        return repr([_plain(entry) for entry in value])
    if isinstance(value, Real):
        return repr(float(value))
    return repr(value)


def _bytes(array: Any) -> bytes:
    if array.dtype == object:
        return repr(array.tolist()).encode()
    return bytes(np.ascontiguousarray(array).tobytes())

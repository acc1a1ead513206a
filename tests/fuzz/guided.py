"""``python -m fuzz.guided READER``: coverage-guided search for faults in the readers of files.

Atheris, libFuzzer for Python, keeps inputs that reach new branches of kernlet and mutates these.
It is not a dependency: ``pip install atheris`` (Linux, Python up to 3.13) before. Options that
follow the name are libFuzzer's, such as ``-runs=100000``, ``-max_total_time=300`` or a folder for
the inputs that are kept. It stops at the first fault and writes the input to a file.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fuzz.campaign import check_sentence
from fuzz.mutate import damage

Reader = Callable[[bytes, Path], None]


def _read_model(data: bytes, folder: Path) -> None:
    """The bytes are a model file."""
    from fuzz.model_files import load_and_use

    (folder / "m").write_bytes(data)
    load_and_use(folder / "m", np.random.default_rng(len(data)))


def _read_metadata(data: bytes, folder: Path) -> None:
    """The bytes choose a machine and are its metadata, under a good digest."""
    from fuzz.model_files import base_files, load_and_use, parts, signed

    files = base_files()
    header, body = parts(files[data[0] % len(files) if data else 0])
    header["__metadata__"]["kernlet"] = data[1:].decode(errors="replace")
    (folder / "m").write_bytes(signed(header, body))
    load_and_use(folder / "m", np.random.default_rng(len(data)))


def _read_libsvm(data: bytes, folder: Path) -> None:
    """The bytes are a LIBSVM model file."""
    from fuzz.model_files import read_and_use_libsvm

    (folder / "m").write_bytes(data)
    read_and_use_libsvm(folder / "m", np.random.default_rng(len(data)))


def _read_table(suffix: str) -> Reader:
    def read(data: bytes, folder: Path) -> None:
        """The bytes are a table, whose cells are read."""
        from kernlet.tables.read import read_table

        path = folder / f"t.{suffix}"
        path.write_bytes(data)
        try:
            for _ in read_table(path, label="y").batches():
                pass
        except (ValueError, OSError) as error:
            check_sentence(error)

    return read


READERS: dict[str, Reader] = {
    "model": _read_model,
    "metadata": _read_metadata,
    "libsvm": _read_libsvm,
    "csv": _read_table("csv"),
    "npz": _read_table("npz"),
}


def first_inputs(name: str) -> list[bytes]:
    """Valid inputs of a reader, to start from."""
    from fuzz.commands import _tables
    from fuzz.model_files import base_files, libsvm_files, parts

    if name == "libsvm":
        return [text.encode() for text in libsvm_files()]
    if name in ("model", "metadata"):
        files = base_files()
        if name == "model":
            return files
        texts = [parts(content)[0]["__metadata__"]["kernlet"] for content in files]
        texts = [json.dumps(json.loads(text), separators=(",", ":")) for text in texts]
        return [bytes([number]) + text.encode() for number, text in enumerate(texts)]
    return [content for suffix, content in _tables().items() if suffix.endswith(name)]


def main() -> int:
    """Search until an option of libFuzzer says stop; 2 where atheris is missing."""
    if len(sys.argv) < 2 or sys.argv[1] not in READERS:
        print(f"Give one of the readers {', '.join(READERS)}, then options of libFuzzer.")
        return 2
    try:
        import atheris
    except ImportError:
        print("Coverage-guided fuzzing needs atheris, which is not installed: pip install atheris.")
        return 2
    name = sys.argv.pop(1)
    warnings.simplefilter("ignore")
    with atheris.instrument_imports(include=["kernlet"]):
        import kernlet.export.file
        import kernlet.model.convert
        import kernlet.tables.read  # noqa: F401
    read = READERS[name]

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        if seed % 2:  # libFuzzer's own mutations, which know the constants that code compares with
            return atheris.Mutate(data, max_size)
        return damage(data, np.random.default_rng(seed))[:max_size]

    # libFuzzer ends the process, so that nothing could remove a temporary folder afterwards.
    scratch = Path(tempfile.gettempdir()) / f"kernlet-guided-{name}"
    shutil.rmtree(scratch, ignore_errors=True)
    seeds, folder = scratch / "seeds", scratch / "case"
    seeds.mkdir(parents=True)
    folder.mkdir()
    for number, content in enumerate(first_inputs(name)):
        (seeds / str(number)).write_bytes(content)

    def run(data: bytes) -> None:
        with np.errstate(all="ignore"):
            read(data, folder)

    limits = ["-timeout=60", "-rss_limit_mb=3000", "-max_len=20000", "-artifact_prefix=guided-"]
    arguments = [sys.argv[0], *limits, *sys.argv[1:], str(seeds)]
    atheris.Setup(arguments, run, custom_mutator=mutate)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())

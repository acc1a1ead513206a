"""Array files that claim what they do not hold."""

import io
import zipfile

import numpy as np
import pytest

from kernlet.npy import open_npz, read_npy_header


def npy(header, content=b""):
    text = header if isinstance(header, bytes) else repr(header).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


def header(shape, descr="<f8"):
    return {"descr": descr, "fortran_order": False, "shape": shape}


def read(content):
    return read_npy_header(io.BytesIO(content), len(content))


def test_headers_of_numpy():
    for array in (
        np.ones((3, 4)),
        np.ones((3, 4), order="F"),
        np.ones(0),
        np.array(2),
        np.array("a"),
    ):
        file = io.BytesIO()
        np.save(file, array)
        shape, is_fortran, dtype = read(file.getvalue())
        assert (shape, dtype) == (array.shape, array.dtype)
        assert is_fortran == (not array.flags.c_contiguous)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(header((10**12, 4)), bytes(64)), "claims float64 values of shape .1000000000000, 4."),
        (npy(header((-3, 4)), bytes(96)), "claims float64 values of shape .-3, 4."),
        (npy(header((3, 4)), bytes(95)), "but has 95 bytes"),
        (npy(header((10**400,)), bytes(8)), "claims"),
        (npy(header((1,), "|O"), bytes(8)), "Python objects"),
        (npy(b"(" * 500), "header of the array is corrupt"),
        (npy(b"-" * 9000 + b"1"), "header of the array is corrupt"),
        (npy(header((1,), "<f7")), "header of the array is corrupt"),
        (npy({"descr": "<f8"}), "header of the array is corrupt"),
        (npy(header((1,)))[:-30], "header of the array is corrupt"),
        (b"\x93NUMPY\x09\x00", "unknown version"),
        (b"", "header of the array is corrupt"),
    ],
)
def test_headers_that_lie(content, message):
    with pytest.raises(ValueError, match=message):
        read(content)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_of_numpy(tmp_path, save):
    path = tmp_path / "arrays.npz"
    save(path, X=np.zeros((300, 400)), y=np.array(["a", "b"]), none=np.zeros(0))
    with open_npz(path) as arrays:
        assert set(arrays) == {"X", "y", "none"}
        assert arrays["X"].shape == (300, 400)


def test_archives_that_lie(tmp_path):
    path = tmp_path / "arrays.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", npy(header((10**12, 4)), bytes(64)))
    with pytest.raises(ValueError, match=r"'X\.npy' in it: it claims"), open_npz(path):
        pass
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("X.npy", npy(header((8,)), bytes(64)))
    with pytest.raises(ValueError, match=r"the size of 'X\.npy' in it is corrupt"), open_npz(path):
        pass
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", npy(header((10**12,)), bytes(64)))
        # the directory at the end of the archive claims as much as the header of the array
        archive.infolist()[0].file_size = 8 * 10**12 + 128
    with pytest.raises(ValueError, match=r"the size of 'X\.npy' in it is corrupt"), open_npz(path):
        pass

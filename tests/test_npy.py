"""Array files that claim what they do not hold."""

import io
import zipfile

import numpy as np
import pytest

from kernlet.npy import check_arrays, open_npz, read_npy_header


def npy(header, content=b""):
    text = header if isinstance(header, bytes) else repr(header).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


def header(shape, descr="<f8"):
    return {"descr": descr, "fortran_order": False, "shape": shape}


def test_headers_of_numpy():
    arrays = (np.ones((3, 4)), np.ones((3, 4), order="F"), np.ones(0), np.array(2), np.array("a"))
    for array in arrays:
        file = io.BytesIO()
        np.save(file, array)
        file.seek(0)
        shape, is_fortran, dtype = read_npy_header(file, "it")
        assert (shape, dtype) == (array.shape, array.dtype)
        assert is_fortran == (not array.flags.c_contiguous)


BAD_HEADERS = [
    npy(b"(" * 500),
    npy(b"-" * 9000 + b"1"),
    npy(header((1,), "<f7")),
    npy({"descr": "<f8"}),
    npy(header((1,)))[:-30],
    b"",
]


@pytest.mark.parametrize("content", BAD_HEADERS)
def test_bad_headers(content):
    with pytest.raises(ValueError, match=r"x\.npy is corrupt, or not an array of numpy\.save"):
        read_npy_header(io.BytesIO(content), "x.npy")


def test_unknown_versions():
    with pytest.raises(ValueError, match=r"x\.npy has format version 3\.0"):
        read_npy_header(io.BytesIO(b"\x93NUMPY\x03\x00"), "x.npy")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_of_numpy(tmp_path, save):
    path = tmp_path / "arrays.npz"
    save(path, X=np.zeros((300, 400)), y=np.array(["a", "b"]), none=np.zeros(0))
    with open_npz(path) as arrays:
        assert set(arrays) == {"X", "y", "none"}
        assert arrays["X"].shape == (300, 400)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(header((10**12, 4)), bytes(64)), r"claims the shape \(1000000000000, 4\), which"),
        (npy(header((-3, 4)), bytes(96)), r"claims the shape \(-3, 4\)"),
        (npy(header((3, 4)), bytes(95)), "which its bytes do not hold"),
        (npy(header((10**400,)), bytes(8)), r"claims the shape \(100000000\.\.\.\)"),
        (npy(header((1,), "|O"), bytes(8)), "holds Python objects"),
        (BAD_HEADERS[0], "is corrupt, or not an array"),
    ],
)
def test_arrays_that_lie(content, message, tmp_path):
    path = tmp_path / "arrays.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("y.npy", npy(header((2,)), bytes(16)))
        archive.writestr("X.npy", content)
    with pytest.raises(ValueError, match=f"its array X {message}|{message}"), open_npz(path):
        pass


def test_archives_that_lie(tmp_path):
    path = tmp_path / "arrays.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", npy(header((10**12,)), bytes(64)))
        # the directory at the end of the archive claims as much as the header of the array
        archive.infolist()[0].file_size = 8 * 10**12 + 128
    with pytest.raises(ValueError, match="its array X claims the shape"):
        check_arrays(path)

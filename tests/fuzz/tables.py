"""Damaged tables of every kind: a file is read as a table of consistent shape, or refused."""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.campaign import Target, check_sentence, run_command
from fuzz.mutate import damage
from kernlet.rows import open_rows
from kernlet.tables.encode import ColumnEncoding, distinct_texts, learned_categories
from kernlet.tables.read import DataTable, read_table
from kernlet.tables.sniff import TextFormat
from kernlet.tables.split import learn_encoding

N_ROWS = 30
_WORDS = ("", "NA", "nan", "true", "1,5", "1.234,5", "2024-01-31", "01", "1e400", "x" * 300, "é")


def attempt(function: Callable[[], Any]) -> str:
    """Whether a function accepts or refuses its input, with a sentence."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            function()
    except ValueError as error:
        check_sentence(error)
        return "refused"
    return "accepted"


def check_table(table: DataTable, rng: np.random.Generator, label: str | None) -> None:
    """Assert that a table that was accepted is consistent, and use it as the commands do."""
    assert table.n_rows > 0
    if not table.has_columns:
        assert table.X.shape[0] == table.n_rows
        assert np.isfinite(table.X).all()
        assert table.y is None or table.y.shape == table.X.shape[:1]
    else:
        assert len(set(table.names)) == len(table.names) > 0
        rows = 0
        for start, batch in table.batches():
            assert start == rows
            assert batch.column_names == list(table.names)
            rows += batch.num_rows
            for kind in batch.schema.types:
                assert kind in (pa.float64(), pa.string())
        assert rows == table.n_rows
    features, classes, codes = table.split_target(label, bool(rng.random() < 0.5))
    assert len(codes) == table.n_rows
    assert codes.max() < len(classes)
    assert (np.unique(classes) == classes).all()
    if features.has_columns and features.names and rng.random() < 0.3:
        encoding, _, _ = learn_encoding(features, np.flatnonzero(codes >= 0))
        encoded = encoding.transform(features.batch(0))
        assert encoded.shape[1] == len(encoding.feature_names)
        assert np.isfinite(encoded).all()


# -- Text files --------------------------------------------------------------------------------


@functools.cache
def frame() -> pd.DataFrame:
    """A table with columns of many kinds."""
    rng = np.random.default_rng(0)
    flag = rng.random(N_ROWS) < 0.5
    return pd.DataFrame(
        {
            "number": rng.normal(size=N_ROWS).round(3),
            "whole": np.where(rng.random(N_ROWS) < 0.1, np.nan, rng.integers(0, 9, N_ROWS)),
            "flag": flag,
            "color": rng.choice(["red", "green", "dark; blue", 'a "b"', None], N_ROWS),
            "day": pd.date_range("2024-01-05", periods=N_ROWS).astype(str),
            "y": np.where(flag, "p", "q"),
        }
    )


@functools.cache
def text_files() -> list[bytes]:
    """Valid text files: separators, decimal commas, comments, encodings, without a header."""
    table = frame()
    texts = [table.to_csv(index=False, sep=separator) for separator in ",;\t|"]
    texts += [table.to_csv(sep=";", decimal=","), table.to_csv(index=False, header=False)]
    texts.append("# made by hand\n\n" + table.iloc[:, [0, 1, 5]].to_csv(index=False, sep=" "))
    texts.append("sep=;\r\n" + table.to_csv(index=False, sep=";", lineterminator="\r\n"))
    encoded = [text.encode() for text in texts]
    encoded += [texts[0].encode("utf-16"), texts[1].replace("red", "né").encode("cp1252")]
    return [*encoded, b"\xef\xbb\xbf" + texts[0].encode()]


def _changed_text(rng: np.random.Generator) -> bytes:
    """A text file with damage of bytes, of cells or of lines."""
    files = text_files()
    data = files[rng.integers(len(files))]
    kind = rng.integers(4)
    if kind == 0:
        return damage(data, rng)
    lines = data.split(b"\n")
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(lines)))
        word = _WORDS[rng.integers(len(_WORDS))].encode()
        if kind == 1:
            cells = lines[at].split(b",")
            cells[rng.integers(len(cells))] = word
            lines[at] = b",".join(cells)
        elif kind == 2:
            lines[at : at + int(rng.integers(3))] = [lines[rng.integers(len(lines))]] * 2
        else:
            old, new = rng.choice([b",", b";", b"\t", b" ", b'"', b"\n", b"."], 2)
            lines[at] = lines[at].replace(old, new)
    return b"\n".join(lines)


def text_case(rng: np.random.Generator, folder: Path) -> str:
    """A text file with damage."""
    data = _changed_text(rng)
    name = str(rng.choice(["t.csv", "t.txt", "t.tsv", "t.csv.gz"], p=[0.6, 0.2, 0.1, 0.1]))
    if name.endswith("gz"):
        data = gzip.compress(data, 1)
        data = damage(data, rng) if rng.random() < 0.5 else data
    (folder / name).write_bytes(data)
    label = str(rng.choice(["y", "color", "6", "number"]))
    options: dict[str, Any] = {"label": label, "names": [label]}
    if rng.random() < 0.2:
        options["category"] = [str(rng.choice(["y", "whole", "flag", "1"]))]
    if rng.random() < 0.1:
        encoding = str(rng.choice(["utf-8", "utf-16", "cp1252", "ascii", "idna", "utf-7", "hex"]))
        separator = rng.choice([",", "space", ";"])
        options["text_format"] = TextFormat(str(separator), bool(rng.random() < 0.5), encoding)
    return attempt(lambda: check_table(read_table(folder / name, **options), rng, label))


@functools.cache
def libsvm_file() -> bytes:
    """Valid LIBSVM rows."""
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.choice([-1, 1])} "
        + " ".join(f"{k}:{rng.normal():.3g}" for k in range(1, 9) if rng.random() < 0.6)
        for _ in range(N_ROWS)
    ]
    return "\n".join(rows).encode() + b"\n"


def libsvm_case(rng: np.random.Generator, folder: Path) -> str:
    """LIBSVM rows with damage."""
    data = damage(libsvm_file(), rng)
    if rng.random() < 0.3:
        word = [b"99999999999:1", b"0:1", b"300000000:1", b"qid:3", b"5:", b":", b"-1:2", b"9:1e39"]
        data = data.replace(b" ", b" " + word[rng.integers(len(word))] + b" ", 1)
    path = folder / str(rng.choice(["t.svm", "t.txt", "t.libsvm"]))
    path.write_bytes(data)
    n_features = int(rng.integers(1, 12)) if rng.random() < 0.3 else None
    return attempt(lambda: check_table(read_table(path, n_features=n_features), rng, "y"))


# -- Files of NumPy ----------------------------------------------------------------------------

_SHAPES = (
    "(30, 3)",
    "(3, 30)",
    "(-3, 3)",
    "(1000000000000, 3)",
    "(90,)",
    "()",
    "(30, 0)",
    "(0, 3)",
)
_SHAPES += (f"(1{100 * '0'}, 3)", "(30, 3, 1)", "(True, 3)", "(30.0, 3)", "30", "None", "(" * 60)
_DTYPES = (
    "<f8",
    "<f4",
    ">f8",
    "<i8",
    "|b1",
    "|u1",
    "<f2",
    "<c16",
    "|O",
    "<U3",
    "|S2",
    "<M8[s]",
    "f",
)
_DTYPES += (
    "<g",
    "|V9",
    "(2,3)<f8",
    "",
    "1",
    "|S0",
    "<f9",
    "<m8[fortnight]",
    "<i8,<f8",
    "<U99999999",
)


def _npy(rng: np.random.Generator, array: Any) -> bytes:
    """An array as NumPy saves it, often with another header."""
    file = io.BytesIO()
    np.save(file, np.asfortranarray(array) if rng.random() < 0.1 else array)
    data = file.getvalue()
    if rng.random() < 0.6:
        return data
    if rng.random() < 0.4:
        return damage(data, rng)
    size = int.from_bytes(data[8:10], "little")
    shape = str(array.shape) if rng.random() < 0.5 else str(rng.choice(_SHAPES))
    descr = array.dtype.str if rng.random() < 0.5 else str(rng.choice(_DTYPES))
    order = str(rng.choice(["False", "True", "None", "1"], p=[0.7, 0.1, 0.1, 0.1]))
    header = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    header = damage(header, rng) if rng.random() < 0.3 else header
    header += b" " * (-len(header) % 64) + b"\n"
    version = bytes(rng.choice([[1, 0], [1, 0], [2, 0], [3, 0], [9, 9]]).tolist())
    width = 2 if version[0] == 1 else 4
    body = data[10 + size :]
    return b"\x93NUMPY" + version + len(header).to_bytes(width, "little") + header + body


def _array(rng: np.random.Generator) -> Any:
    values = rng.normal(size=(N_ROWS, 3)) * 10.0 ** rng.integers(-3, 4)
    return values.astype(rng.choice(["f8", "f4", "i8", "b1", "u1", ">f8", "f2"]))


def npy_case(rng: np.random.Generator, folder: Path) -> str:
    """A .npy file with damage, read block by block."""
    path = folder / "rows.npy"
    path.write_bytes(_npy(rng, _array(rng)))

    def read() -> None:
        rows = open_rows(path)
        assert len(rows) == rows.shape[0] >= 0
        for bounds, block in rows.blocks():
            assert block.shape == (bounds.stop - bounds.start, rows.shape[1])
            assert block.dtype == rows.dtype

    return attempt(read)


def npz_case(rng: np.random.Generator, folder: Path) -> str:
    """An .npz file with damage of its arrays, of its archive or of both."""
    y = rng.integers(0, 2, N_ROWS)
    y = y.astype(rng.choice(["i8", "f8", "U3", "b1", "S2", "f4", "O", "c16", "M8[s]"]))
    packing = zipfile.ZIP_DEFLATED if rng.random() < 0.5 else zipfile.ZIP_STORED
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", packing) as archive:
        for name, array in (("X", _array(rng)), ("y", y)):
            if rng.random() < 0.95:
                member = f"{name}.npy" if rng.random() < 0.97 else f"{name}tr.npy"
                archive.writestr(member, _npy(rng, array) if array.dtype != object else b"")
    data = content.getvalue()
    if rng.random() < 0.3:
        data = _damaged_archive(data, rng)
    (folder / "t.npz").write_bytes(data)
    return attempt(lambda: check_table(read_table(folder / "t.npz"), rng, None))


def _damaged_archive(data: bytes, rng: np.random.Generator) -> bytes:
    """Damage of the directory of a zip file, where sizes and versions are, or of any bytes."""
    start = max(0, data.find(b"PK\x01\x02"))
    if rng.random() < 0.4:
        return damage(data, rng)
    if rng.random() < 0.5:
        return data[:start] + damage(data[start:], rng)
    field, width = [(6, 2), (8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (42, 4)][rng.integers(7)]
    value = int(rng.choice([0, 1, 8, 12, 14, 99, 2 ** (8 * width - 1), 2 ** (8 * width) - 1]))
    at = start + field
    return data[:at] + value.to_bytes(width, "little") + data[at + width :]


# -- Parquet -----------------------------------------------------------------------------------


@functools.cache
def parquet_tables() -> list[Any]:
    """Tables with columns of many types."""
    plain = pa.Table.from_pandas(frame(), preserve_index=False)
    n, rng = N_ROWS, np.random.default_rng(1)
    odd = {
        "list": pa.array([[i % 3] for i in range(n)]),
        "struct": pa.array([{"a": i % 3} for i in range(n)]),
        "map": pa.array([[("k", i % 3)] for i in range(n)], pa.map_(pa.string(), pa.int64())),
        "decimal": pa.array([i % 4 for i in range(n)], pa.decimal128(9, 2)),
        "moment": pa.array([10**9 * i for i in range(n)], pa.timestamp("us", "UTC")),
        "binary": pa.array([b"\xff", b"b", None] * (n // 3)),
        "dictionary": pa.array(["u", "v", None] * (n // 3)).dictionary_encode(),
        "null": pa.nulls(n),
        "long": pa.array([2**60 + i % 3 for i in range(n)]),
        "y": pa.array(["p", "q"] * (n // 2)),
    }
    numbers = {f"x{k}": rng.normal(size=n).astype("f4") for k in range(3)}
    return [plain, pa.table(odd), pa.table(numbers | {"y": rng.integers(0, 3, n)})]


def _parquet(rng: np.random.Generator, table: Any) -> bytes:
    content = io.BytesIO()
    pq.write_table(
        table,
        content,
        row_group_size=int(rng.choice([7, 10, 100])),
        compression=str(rng.choice(["NONE", "SNAPPY", "GZIP"])),
        use_dictionary=bool(rng.random() < 0.5),
        version=str(rng.choice(["1.0", "2.6"])),
    )
    data = content.getvalue()
    kind = rng.integers(4)
    if kind == 0:
        return damage(data, rng)
    if kind == 1:  # the footer: schema, claimed sizes, encodings
        size = int.from_bytes(data[-8:-4], "little")
        footer = damage(data[-8 - size : -8], rng)
        return data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    if kind == 2:  # one byte of it, which most often leaves the rest in order
        at = len(data) - 9 - int(rng.integers(int.from_bytes(data[-8:-4], "little")))
        return data[:at] + bytes([rng.integers(256)]) + data[at + 1 :]
    return data


def _changed_table(rng: np.random.Generator) -> Any:
    tables = parquet_tables()
    table = tables[rng.integers(len(tables))]
    kind = rng.integers(6)
    if kind == 0:  # two columns of one name
        names = list(table.column_names)
        names[rng.integers(len(names))] = names[rng.integers(len(names))]
        return table.rename_columns(names)
    if kind == 1:
        return table.select([int(k) for k in rng.permutation(table.num_columns)[:3]])
    if kind == 2:
        return table.slice(0, int(rng.integers(3)))
    return table


def parquet_case(rng: np.random.Generator, folder: Path) -> str:
    """Parquet with damage: read at once, in batches and as rows of numbers, with one answer."""
    path = folder / "t.parquet"
    if rng.random() < 0.2:
        path = folder / "t"
        path.mkdir()
        for part in range(2):
            (path / f"part.{part}.parquet").write_bytes(_parquet(rng, _changed_table(rng)))
    else:
        path.write_bytes(_parquet(rng, _changed_table(rng)))
    read: list[DataTable] = []

    def read_all(max_bytes: float) -> None:
        table = read_table(path, label="y", max_bytes=max_bytes)
        read.append(table)
        for _ in table.batches():
            pass

    at_once, in_batches = (attempt(lambda limit=limit: read_all(limit)) for limit in (np.inf, 0))
    if at_once == in_batches == "accepted":
        whole, pieces = read[0].batch(0), [batch for _, batch in read[1].batches()]
        assert whole.equals(pa.concat_tables(pieces)) or _has_nan(whole)
        attempt(lambda: check_table(read[rng.integers(2)], rng, "y"))
    return f"{at_once} (as rows: {attempt(lambda: _read_rows(path))})"


def _has_nan(table: Any) -> bool:
    """NaN, which damage may make, is not equal to itself."""
    columns = [c.to_numpy() for c in table.columns if c.type == pa.float64()]
    return any(np.isnan(column).any() for column in columns)


def _read_rows(path: Path) -> None:
    rows = open_rows(path)
    if "y" in rows.columns:
        rows, labels = rows.split("y")
        assert len(labels) == len(rows)
    for bounds, block in rows.blocks():
        assert block.shape == (bounds.stop - bounds.start, rows.shape[1])


# -- Categories of five sources ------------------------------------------------------------------


def spelling_case(rng: np.random.Generator, folder: Path) -> str:
    """A column of categories in CSV, Parquet, pandas, polars and Arrow: the same features."""
    import polars

    kind, values = _values(rng)
    if kind != pa.int64() or max(values) < 2**53:  # pandas makes floats of them beside None
        values = [None if rng.random() < 0.1 else value for value in values]
    values[0] = values[0] if values[0] is not None else values[-1]
    cells = pa.array(values, kind)
    if cells.null_count == len(cells):
        return "empty"
    table = pa.table({"c": cells, "x": np.arange(len(cells), dtype=float)})
    pq.write_table(table, folder / "t.parquet")
    (folder / "t.csv").write_text(polars.from_arrow(table).write_csv(), encoding="utf-8")
    with contextlib.redirect_stderr(io.StringIO()):
        sources = [
            read_table(folder / "t.parquet", category=["c"]).batch(0),
            read_table(folder / "t.csv", category=["c"]).batch(0),
            table.to_pandas(),
            polars.from_arrow(table),
            table,
        ]
    for trained in sources:
        column = trained["c"] if hasattr(trained["c"], "combine_chunks") else None
        texts, codes = distinct_texts(np.asarray(trained["c"]) if column is None else column)
        categories = learned_categories("c", {texts[code] for code in codes}, len(codes))
        encoding = ColumnEncoding((categories,))
        features = [encoding.transform(source) for source in sources]
        for other in features:
            assert np.array_equal(other, features[0]), (kind, values)
            assert (other.sum(axis=1) == 1).all(), (kind, values)
    return "equal"


def _values(rng: np.random.Generator) -> tuple[Any, list[Any]]:
    n = int(rng.integers(2, 9))
    whole = rng.integers(-5, 1000, n)
    texts = ["red", "Blue", "a b", "x,y", "é", "7up", "1-2", 'q"', "0x1", "1_0"]
    makers: list[Callable[[], tuple[Any, list[Any]]]] = [
        lambda: (pa.bool_(), [bool(v) for v in rng.random(n) < 0.5]),
        lambda: (pa.int64(), whole.tolist()),
        lambda: (pa.int64(), (2**53 + whole).tolist()),
        lambda: (pa.float64(), [float(v) for v in whole]),
        lambda: (pa.float64(), (whole / 8 * 10.0 ** rng.integers(-9, 9)).tolist()),
        lambda: (pa.float32(), (whole / 7).astype("f4").tolist()),
        lambda: (pa.string(), rng.choice(texts, n).tolist()),
        lambda: (pa.string(), [f"{v:05d}" for v in np.abs(whole)]),
        lambda: (pa.date32(), whole.tolist()),
        lambda: (pa.timestamp("us"), (whole * 43_200_000_000).tolist()),
        lambda: (pa.timestamp("ns", "UTC"), (whole * 10**9).tolist()),
        lambda: (pa.dictionary(pa.int32(), pa.string()), rng.choice(texts, n).tolist()),
    ]
    kind, values = makers[rng.integers(len(makers))]()
    return kind, list(values)


# -- Commands ------------------------------------------------------------------------------------


@functools.cache
def model_bytes() -> bytes:
    """A machine that takes the valid table."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        table, model = Path(folder) / "t.csv", Path(folder) / "m.kernlet"
        table.write_bytes(text_files()[0])
        options = ["--target", "y", "--date", "day", "--centers", "3", "--no-svc", "-o", model]
        code, output = run_command(["fit", table, *options])
        assert code == 0, output
        return model.read_bytes()


def command_case(rng: np.random.Generator, folder: Path) -> str:
    """``kernlet predict``, and now and then ``fit``, with a damaged table."""
    if rng.random() < 0.5:
        table = folder / "t.csv"
        table.write_bytes(_changed_text(rng))
    else:
        table = folder / "t.parquet"
        table.write_bytes(_parquet(rng, _changed_table(rng)))
    model = folder / "m.kernlet"
    if rng.random() < 0.03:
        options = ["--target", "y", "--centers", "2", "--no-svc", "--seed", "1", "-o", model]
        memory = ["--memory", "1"] if rng.random() < 0.5 else []
        code, _ = run_command(["fit", table, *options, *memory])
        return f"fit, exit {code}"
    model.write_bytes(model_bytes())
    code, _ = run_command(["predict", model, table, "-o", folder / "out.csv"])
    left = {path.name for path in folder.iterdir()} - {table.name, model.name}
    assert left == ({"out.csv"} if code == 0 else set()), left
    return f"predict, exit {code}"


TARGETS = [
    Target("csv-tables", "files", text_case, 40),
    Target("libsvm-rows", "files", libsvm_case, 40),
    Target("npy-rows", "files", npy_case, 60),
    Target("npz-tables", "files", npz_case, 60),
    Target("parquet-tables", "files", parquet_case, 40),
    Target("category-spellings", "files", spelling_case, 30),
    Target("table-commands", "files", command_case, 10),
]

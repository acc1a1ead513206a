"""Text files as users have them: separators, quotes, headers and encodings."""

import gzip

import numpy as np
import pytest
from click.testing import CliRunner

import kernlet
from kernlet.cli import main
from kernlet.tables.read import read_table
from kernlet.tables.sniff import TextFormat

ROWS = [(0.5, -1.25, "a"), (1.5, 2.0, "b c"), (-3.0, 4.75, "a")]
WANTED = {"x": [0.5, 1.5, -3.0], "z": [-1.25, 2.0, 4.75], "y": ["a", "b c", "a"]}


def table_text(separator, *, header=True, quotes=False, decimal="."):
    def cell(value):
        if isinstance(value, str):
            return f'"{value}"' if quotes or " " in value else value
        return str(value).replace(".", decimal)

    rows = [("x", "z", "y")] * header + ROWS
    return "".join(separator.join(map(cell, row)) + "\n" for row in rows)


def read(path, content, **options):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, **options)


@pytest.mark.parametrize("quotes", [False, True])
@pytest.mark.parametrize("name", ["t.csv", "t.txt", "t.dat", "t"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " ", "    "])
def test_separators_are_found_in_files_of_any_name(separator, name, quotes, tmp_path):
    table = read(tmp_path / name, table_text(separator, quotes=quotes))
    assert table.batch(0).to_pydict() == WANTED


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " "])
def test_files_without_a_header(separator, tmp_path):
    content = table_text(separator, header=False)
    table = read(tmp_path / "t.csv", content)
    assert table.names == ("column_1", "column_2", "column_3")
    assert list(table.batch(0).to_pydict().values()) == list(WANTED.values())
    _, classes, codes = table.split_target("3")
    assert classes[codes].tolist() == WANTED["y"]


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("separator", [";", "\t", "|", " "])
def test_decimal_commas_are_not_taken_for_separators(separator, header, tmp_path):
    content = table_text(separator, header=header, decimal=",")
    columns = read(tmp_path / "t.csv", content).batch(0).to_pydict()
    assert list(columns.values()) == list(WANTED.values())


@pytest.mark.parametrize(
    ("encoding", "note"), [("utf-8", ""), ("utf-8-sig", ""), ("utf-16", ""), ("cp1252", "cp1252")]
)
@pytest.mark.parametrize("separator", [";", " "])
def test_encodings_are_found(separator, encoding, note, tmp_path, capsys):
    content = separator.join(["Gr\u00f6\u00dfe", "y"]) + "\r\n1" + separator + "K\u00f6ln\r\n"
    table = read(tmp_path / "t.txt", content.encode(encoding))
    assert table.batch(0).to_pydict() == {"Gr\u00f6\u00dfe": [1.0], "y": ["K\u00f6ln"]}
    assert ("not UTF-8" in capsys.readouterr().err) == bool(note)


def test_a_byte_outside_utf8_late_in_a_large_file_is_found(tmp_path):
    content = b"x,y\n" + b"1,a\n" * 400_000 + "2,\u00e9\n".encode("cp1252")
    table = read(tmp_path / "t.csv.gz", gzip.compress(content, 1))
    assert table.batch(0)["y"][-1].as_py() == "\u00e9"


def test_what_is_given_is_not_detected(tmp_path):
    given = TextFormat(separator="semicolon", header=False, encoding="latin-1")
    table = read(tmp_path / "t.csv", "a,b;c\nd,e;f\n", text_format=given)
    assert table.batch(0).to_pydict() == {"column_1": ["a,b", "d,e"], "column_2": ["c", "f"]}
    with pytest.raises(ValueError, match="--separator is one character"):
        read(tmp_path / "t.csv", "a,b\n", text_format=TextFormat(separator="::"))
    with pytest.raises(ValueError, match="there is no encoding 'utf-9'"):
        read(tmp_path / "t.csv", "a,b\n", text_format=TextFormat(encoding="utf-9"))
    content = "a,y\n1,Z\u00fcrich\n".encode("latin-1")
    with pytest.raises(ValueError, match="row 1, column 'y' is not in the encoding"):
        read(tmp_path / "t.csv", content, text_format=TextFormat(encoding="utf-8"))


def test_row_names_and_separators_at_the_end_of_lines(tmp_path, capsys):
    table = read(tmp_path / "r.txt", '"x" "y"\n"1" 0.5 "a b"\n"2" 1.5 "c"\n')
    assert table.batch(0).to_pydict() == {"x": [0.5, 1.5], "y": ["a b", "c"]}
    assert "left out as row names" in capsys.readouterr().err
    for header in ("a,b,", "a,b"):
        assert read(tmp_path / "t.csv", f"{header}\n1,2,\n3,4,\n").names == ("a", "b")
    assert read(tmp_path / "t.csv", ",a,y\n0,1,b\n1,3,c\n").names == ("column_1", "a", "y")


def test_cells_that_look_like_several(tmp_path):
    table = read(tmp_path / "t.csv", '"a,b";c\n"x;y";1\n"p,q";2\n')
    assert table.batch(0).to_pydict() == {"a,b": ["x;y", "p,q"], "c": [1, 2]}
    table = read(tmp_path / "t.csv", "name\nSmith, J\nDoe, A\n")
    assert table.batch(0).to_pydict() == {"name": ["Smith, J", "Doe, A"]}
    table = read(tmp_path / "t.csv", "t,x\n2024-01-01 10:00,1.5\n2024-01-02 11:00,2.5\n")
    assert table.names == ("t", "x")


@pytest.mark.parametrize(
    ("content", "label", "names"),
    [
        ("p,x,s\ne,x,y\np,x,s\n", None, ("column_1", "column_2", "column_3")),
        ("color,size\nred,big\nblue,small\n", None, ("color", "size")),
        ("2019,2020,y\n1,2,a\n3,4,b\n", "y", ("2019", "2020", "y")),
        ("2019,2020,a\n1,2,a\n3,4,b\n", "a", ("column_1", "column_2", "column_3")),
        ("2024-01-01,a\n2024-01-02,b\n", None, ("column_1", "column_2")),
        ("\n\na,b\n1,2\n", None, ("a", "b")),
    ],
)
def test_headers(content, label, names, tmp_path):
    assert read(tmp_path / "t.csv", content, label=label).names == names


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x:z:w\n1:2:3\n", "one column was found, 'x:z:w'.*--separator"),
        ("1,2,b\n3,4,c\n", r"the file has no header.*\(separated by ','\).*a number from 1 to 3"),
        ("x|2020|w\n1|2|3\n", "separated by '|'.*first line has numbers.*--no-header"),
        ("x\tz\n1\t2\n", "no column 'y' among 'x', 'z' .separated by tabs"),
    ],
)
def test_a_target_that_is_not_found_gets_advice(content, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "t.txt", content).split_target("y")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"a,b", "its only line is 'a, b'"),
        (b"PK\x03\x04\0\0", "not a text file.*save a sheet as CSV"),
        (b'a,"b\n1,2\n', "its quotes do not match"),
        (b"a b\n1 2\n3\n", "Row 2: Expected 2 columns, got 1"),
        (b"\n\na|b\n1|2\n3\n", "Row 2: Expected 2 columns, got 1"),
        (b"1 1:2\n-1 3:x\n1 1:3\n", "line 2, '-1 3:x', is not a label and pairs"),
    ],
)
def test_files_that_are_not_tables(content, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "t.txt", content)


def test_libsvm_rows_are_recognised_by_content(tmp_path):
    table = read(tmp_path / "t.txt", "1 1:0.5 3:2\n-1 qid:3 2:1 # note\n")
    np.testing.assert_array_equal(table.X, [[0.5, 0, 2], [0, 1, 0]])
    assert read(tmp_path / "t.txt", "time x\n12:30 5\n12:40 6\n").names == ("time", "x")


def test_the_command_line_without_a_header(tmp_path):
    random = np.random.RandomState(0)
    X = random.randn(120, 2).round(3)
    lines = [f"{a} {b} {'up' if a * b > 0 else 'down'}" for a, b in X]
    (tmp_path / "rows.txt").write_text("\n".join(lines))

    def command(*words, status=0):
        result = CliRunner().invoke(main, [str(word) for word in words])
        assert result.exit_code == status, result.output
        return result.output

    options = ["--separator", "space", "--no-header"]
    model = tmp_path / "m.kernlet"
    fit = ("fit", tmp_path / "rows.txt", "--target", 3, "--no-svc", "--centers", 6, "-o", model)
    assert "test accuracy" in command(*fit, *options)
    assert kernlet.load(model).model_.encoding.names == ("column_1", "column_2")
    (tmp_path / "years.txt").write_text("\n".join(["2019 2020 class", *lines]))
    years = ("fit", tmp_path / "years.txt", *fit[2:])
    assert "--header if that is wrong" in command(*years)
    assert "--header" not in command(*years, "--header")
    assert kernlet.load(model).model_.encoding.names == ("2019", "2020")
    command(*fit, *options)
    (tmp_path / "one.txt").write_text("1.5 2.5\n")
    for given in ([], options):
        assert command("predict", model, tmp_path / "one.txt", *given).count("\n") == 3
    said = command(
        *("report", model, tmp_path / "rows.txt", "--no-sizes"),
        *options,
        "-o",
        tmp_path / "page.html",
    )
    assert "on 24 rows" in said


def test_an_output_does_not_replace_the_table(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,a\n2,b\n")
    words = ["fit", "t.csv", "--target", "y", "-o", "t.csv"]
    words = [str(tmp_path / word) if word == "t.csv" else word for word in words]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "would overwrite" in result.output


@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
@pytest.mark.parametrize("before", ["# logger 3, 2024\n", "\n#\n# a; b, c\n\n"])
def test_comments_before_the_table(before, separator, tmp_path):
    table = read(tmp_path / "t.txt", before + table_text(separator))
    assert table.batch(0).to_pydict() == WANTED


def test_a_header_may_begin_like_a_comment(tmp_path):
    table = read(tmp_path / "t.csv", "# from a logger\n#t,v\n1,2\n3,4\n")
    assert table.batch(0).to_pydict() == {"#t": [1.0, 3.0], "v": [2.0, 4.0]}


def test_the_separator_line_of_spreadsheets(tmp_path):
    content = "sep=;\r\n" + table_text(";", decimal=",").replace("\n", "\r\n")
    assert read(tmp_path / "t.csv", content).batch(0).to_pydict() == WANTED


def test_a_missing_header_is_noted(tmp_path, capsys):
    read(tmp_path / "t.csv", table_text(","))
    assert "header" not in capsys.readouterr().err
    read(tmp_path / "t.csv", table_text(",", header=False))
    assert "note: t.csv seems to have no header" in capsys.readouterr().err
    read(tmp_path / "t.csv", table_text(",", header=False), text_format=TextFormat(header=False))
    assert "header" not in capsys.readouterr().err


def test_years_are_names_of_columns_where_they_are_expected(tmp_path):
    content = "2019,2020,2021\n" + "".join(f"{i},{i + 1},{i % 2}\n" for i in range(20))
    assert read(tmp_path / "t.csv", content).names == ("column_1", "column_2", "column_3")
    assert read(tmp_path / "t.csv", content, label="3").names[2] == "column_3"
    assert read(tmp_path / "t.csv", content, label="2021").names == ("2019", "2020", "2021")


def test_a_header_is_seen_where_the_training_had_none(tmp_path):
    names = ["column_1", "column_2"]
    assert read(tmp_path / "t.csv", "a,b\n1,2\n3,4\n", names=names).names == ("a", "b")
    assert read(tmp_path / "t.csv", "1,2\n3,4\n", names=names).names == tuple(names)
    assert read(tmp_path / "t.csv", "u,v\nw,x\n", names=names).names == tuple(names)

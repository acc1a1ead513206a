import pytest

from kernlet.units import parse_bytes, parse_count


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("2k", 2000),
        ("2kB", 2000),
        (" 2 KB ", 2000),
        ("1.5k", 1500),
        (".5k", 500),
        ("1M", 1_000_000),
        ("16Ki", 16_384),
        ("1GiB", 2**30),
    ],
)
def test_numbers_of_bytes(text, n_bytes):
    assert parse_bytes(text) == n_bytes


@pytest.mark.parametrize("text", ["", "k", "two", "2x", "-1k", "0", "0.0001k", "1e3"])
def test_what_is_not_a_number_of_bytes_is_refused(text):
    with pytest.raises(ValueError, match="is not a number of bytes, such as 4096, '2k' or '16Ki'"):
        parse_bytes(text)


def test_counts():
    assert [parse_count(text) for text in (7, "7", "200k", "1.5 M")] == [7, 7, 200_000, 1_500_000]
    for text in ("", "0", "2Ki", "2kB", "many"):
        with pytest.raises(ValueError, match="is not a number such as 500, '200k' or '1M'"):
            parse_count(text)

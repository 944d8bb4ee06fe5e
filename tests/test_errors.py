"""What leaves the program: one line that any terminal can show."""

import sys
import unicodedata

import pytest

from tileharvest.errors import HIDDEN, TileHarvestError, counted, duration_in_words, printable


def test_what_is_hidden_is_what_unicode_says_of_control_and_format_characters() -> None:
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    every = map(chr, range(sys.maxunicode + 1))
    said = {one for one in every if unicodedata.category(one) in hidden}
    found = {one for one in map(chr, range(sys.maxunicode + 1)) if HIDDEN.fullmatch(one)}
    # Later versions of Unicode than Python's may know more.
    assert said <= found
    assert {unicodedata.category(one) for one in found - said} <= {"Cn"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Z\u00fcrich \u4e16\u754c \U0001f5fa", "Z\u00fcrich \u4e16\u754c \U0001f5fa"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("two\r\nlines", "two\\r\\nlines"),
        ("gnp.\u202eexe", "gnp.\\u202eexe"),
        ("half \ud800", "half \\ud800"),
        ("a\xa0b\u3000c", "a\xa0b\u3000c"),
    ],
)
def test_what_cannot_be_seen_is_written_as_in_python(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize("sign", ["a", "\x1b", "\U000e0001"])
def test_no_line_is_longer_than_2000_characters(sign: str) -> None:
    line = printable(sign * 1_000_000)
    assert len(line) <= 2000
    assert line.endswith("...")


def test_an_error_is_one_printable_line() -> None:
    assert str(TileHarvestError("the site says \x1b[2J\nthis")) == "the site says \\x1b[2J\\nthis"


def test_one_thing_has_no_plural() -> None:
    words = [counted(number, "tile") for number in (0, 1, 2, 1000)]
    assert words == ["0 tiles", "1 tile", "2 tiles", "1,000 tiles"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.4, "0 s"),
        (90, "90 s"),
        (100, "2 min"),
        (1500, "25 min"),
        (12_000, "3 h 20 min"),
        (187_200, "2 days 4 h"),
    ],
)
def test_a_time_in_words(seconds: float, told: str) -> None:
    assert duration_in_words(seconds) == told

"""The page's texts: numbers have the words that fit them, and nothing in them is unseen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[str, str, list[Any]], list[Any]]


def test_a_number_has_the_word_that_fits_it(call: Call) -> None:
    place = {"place": "here", "days": "today"}
    cases = {
        ("areaEarlier", 1): "1 earlier day is not shown.",
        ("areaEarlier", 2): "2 earlier days are not shown.",
        ("eventsMore", 1): "1 smaller one is not shown.",
        ("harvestsMore", 1): "1 more map: write a part of a name to find them.",
        ("changeMany", 1): "1 tile changed in view",
        ("changeMany", 1000): "1,000 tiles changed in view",
        ("eventGone", 1): "1 tile is gone around here, today",
        ("eventGone", 3): "3 tiles are gone around here, today",
    }
    assert call("text.js", "text", [[key, {**place, "n": n}] for key, n in cases]) == list(cases.values())
    days = [["heatPlace", {"place": "here", "days": number}] for number in (1, 2)]
    assert call("text.js", "text", days) == ["here: changed on 1 day", "here: changed on 2 days"]


def test_what_has_changed_is_never_told_as_0_percent(call: Call) -> None:
    told = {
        0: "0 % changed",
        0.000001: "less than 0.1 % changed",
        0.00049: "less than 0.1 % changed",
        0.0005: "0.1 % changed",
        0.0999: "10 % changed",
        0.104: "10 % changed",
        1: "100 % changed",
    }
    assert call("text.js", "changedInWords", [[share] for share in told]) == list(told.values())


def test_what_a_site_writes_cannot_turn_or_hide_the_words_around_it(call: Call) -> None:
    (told,) = call("text.js", "text", [["linkNoMap", {"map": "a\u202eb\x1b\u2028c"}]])
    assert told == r"There is no map a\u{202e}b\u{1b}\u{2028}c here"

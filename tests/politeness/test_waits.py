"""When a person is told that something is waited for, and until when."""

from datetime import datetime, timedelta, timezone

import pytest

from tileharvest.politeness.waits import Wait

ZONE = timezone(timedelta(hours=1), "CET")
EVENING = datetime(2024, 5, 1, 23, 59, 30, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("until", "words"),
    [
        (None, "; no end is known"),
        (50.0, ", until 23:59:30 CET"),
        (129.0, ", until 23:59:59 CET"),
        (131.0, ", until 2024-05-02 00:00:01 CET"),
    ],
    ids=["nobody knows", "over already", "today", "tomorrow"],
)
def test_until_when_is_told_by_the_clocks_of_who_reads_it(until: float | None, words: str) -> None:
    assert Wait("robots.txt", 0.0, until).in_words(100.0, EVENING) == f"waiting for robots.txt{words}"

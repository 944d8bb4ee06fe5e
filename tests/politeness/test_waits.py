"""When a person is told that something is waited for, and until when."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone

import pytest

from tests.middlewares.making import run_jumping
from tileharvest.politeness.waits import Wait, noted

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


def test_a_wait_is_noted_while_it_lasts_however_it_ends() -> None:
    waits: list[Wait] = []

    async def fail() -> None:
        with noted(waits, "an answer", 30.0):
            await asyncio.sleep(7.0)
            assert waits == [Wait("an answer", 0.0, 30.0)]
            raise ConnectionError

    with pytest.raises(ConnectionError):
        run_jumping(fail())
    assert waits == []

"""Which maps begin while others are under way, and how their lines of the log are told apart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.queue.driven import DAY, entry
from tileharvest.commands.runner import Runner
from tileharvest.queue.sqlite.queue import SqliteQueue
from tileharvest.spiders.log import WHOSE, PrintableLines


class Progress:
    def __init__(self, held: int) -> None:
        self.held = held

    def held_up(self) -> list[str]:
        return [f"held-{number}" for number in range(self.held)]


@pytest.mark.parametrize(
    ("at_once", "under_way", "held", "has_place"),
    [
        (2, 1, 0, True),
        (2, 2, 0, False),
        (2, 2, 1, True),
        (2, 3, 1, False),
        (2, 19, 19, True),
        (2, 20, 20, False),
        (1, 0, 0, True),
        (1, 1, 1, False),
    ],
    ids=[
        "one of two",
        "two of two",
        "one waits and leaves its place",
        "it goes on, and has its place again",
        "ten for each place",
        "no more than ten for each place, however they wait",
        "the first of them one after the other",
        "one after the other, also when one waits",
    ],
)
def test_a_map_begins_while_there_is_a_place(
    at_once: int, under_way: int, held: int, has_place: bool
) -> None:
    progress: Any = Progress(held)
    tested = Runner(None, progress, print, at_once=at_once, arguments={})  # type: ignore[arg-type]
    tested._crawlers.update(dict.fromkeys(map(str, range(under_way))))
    assert tested._has_place() is has_place


def test_the_thread_of_a_queue_knows_whose_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """There the filter says that it is full."""

    async def overfill(name: str) -> None:
        WHOSE.set(name)
        queue = SqliteQueue(expected=1)
        await queue.open(DAY, 0.0)
        await queue.exchange([entry(str(number)) for number in range(2000)], (), None, 0.0)
        await queue.close()

    async def both() -> None:
        await asyncio.gather(overfill("one"), overfill("other"))

    with caplog.filtering(PrintableLines()):
        asyncio.run(both())
    told = [line.partition(": the filter of seen requests is full")[0] for line in caplog.messages]
    assert sorted(told) == ["map 'one'", "map 'other'"]

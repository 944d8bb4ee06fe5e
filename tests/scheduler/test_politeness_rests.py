"""A host that asks to be left alone: what a person is told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.middlewares.making import run_jumping
from tests.scheduler.polite_crawl import HOST, crawling

if TYPE_CHECKING:
    import pytest


def told(caplog: pytest.LogCaptureFixture, *rests: tuple[float, float]) -> list[str]:
    """What is said of rests: after how many seconds each is asked for, and how many it is to take."""

    async def test() -> None:
        async with crawling() as crawl:
            for pause, seconds in rests:
                await asyncio.sleep(pause)
                crawl.politeness.rest(HOST, seconds)
                await asyncio.wait(crawl.politeness._telling)

    run_jumping(test())
    return [record.getMessage() for record in caplog.records]


def test_a_long_rest_is_said_once_for_all_that_was_on_the_way(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = told(caplog, (0, 600.0), (1, 600.0), (1, 600.0))
    assert line == (
        f"{HOST} has asked to be left alone: nothing is asked of it for 600 s, then the harvest goes on"
    )


def test_the_next_rest_is_said_anew(caplog: pytest.LogCaptureFixture) -> None:
    assert len(told(caplog, (0, 60.0), (61, 60.0))) == 2


def test_of_a_short_rest_nobody_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert told(caplog, (0, 3.0)) == []

"""A host that asks to be left alone: it is, and a person is told."""

from __future__ import annotations

import asyncio

import pytest

from tests.middlewares.making import run_jumping
from tests.scheduler.polite_crawl import HOST, crawling
from tileharvest.politeness.rate_limit import Pace
from tileharvest.politeness.reasons import Reason
from tileharvest.politeness.waits import waiting_for


def told(caplog: pytest.LogCaptureFixture, *rests: tuple[float, float]) -> list[str]:
    """Returns what is logged of rests. Each rest has the seconds after which it is asked for, and those that
    it takes."""

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


def test_a_wait_is_told_with_its_end_in_one_sentence() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            crawl.politeness.rest(HOST, 60.0)
            (wait,) = crawl.politeness.waits(0.0)
            told = waiting_for(wait.what, "17:20:31 UTC")
            assert told == f"waiting for {HOST}, which has asked to be left alone, until 17:20:31 UTC"

    run_jumping(test())


def rested(*seconds: float) -> float:
    """Returns for how many seconds nothing may start if the host asks for these rests at the same time."""

    async def test() -> float:
        async with crawling() as crawl:
            now = asyncio.get_running_loop().time
            began = now()
            for one in seconds:
                crawl.politeness.rest(HOST, one)
            assert crawl.politeness.reasons == {Reason.RESTING}
            await crawl.politeness.may_go_on()
            return now() - began

    taken: float = run_jumping(test())
    return taken


@pytest.mark.parametrize("seconds", [(20.0,), (20.0, 10.0), (10.0, 20.0)])
def test_nothing_starts_before_the_end_of_the_longest_rest(seconds: tuple[float, ...]) -> None:
    assert rested(*seconds) == pytest.approx(20)


def test_a_rest_that_follows_makes_it_longer() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            crawl.politeness.rest(HOST, 10.0)
            await asyncio.sleep(5)
            crawl.politeness.rest(HOST, 10.0)
            await asyncio.sleep(9)
            assert crawl.politeness.reasons == {Reason.RESTING}
            await asyncio.sleep(2)
            assert crawl.politeness.reasons == set()

    run_jumping(test())


def test_a_rest_is_no_time_worked() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            crawl.worked = 5.0
            crawl.politeness.rest(HOST, 10.0)
            crawl.worked = 100.0
            await crawl.politeness.may_go_on()
            crawl.worked = 101.0
            assert crawl.traffic.worked == 6.0

    run_jumping(test())


def test_another_process_leaves_the_host_alone_too() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            crawl.politeness.rest(HOST, 10.0)
            await asyncio.wait(crawl.politeness._telling)
            turn = await crawl.queue.take_turn(Pace(HOST, 1))
            assert turn is not None
            assert turn[0] == pytest.approx(10)

    run_jumping(test())

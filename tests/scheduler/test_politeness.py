"""A crawl that keeps to what its host may expect, and does what it is told."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest
from scrapy import Request

from tests.middlewares.making import JumpingLoop, run_jumping
from tests.queue.polite_memory import comes_true
from tests.scheduler.polite_crawl import HOST, NOON, crawling
from tileharvest.errors import ConfigurationError
from tileharvest.maps.budgets import Budget
from tileharvest.maps.quiet_hours import QuietHours
from tileharvest.maps.rates import NO_GAP, Gap
from tileharvest.politeness.rate_limit import Host, Pace
from tileharvest.politeness.reasons import Reason
from tileharvest.politeness.rules import Rules
from tileharvest.politeness.waits import Wait
from tileharvest.queue import orders
from tileharvest.queue.requests import DELAY
from tileharvest.scheduler.politeness import LOOK, NO_PLACE


def test_a_paused_map_offers_nothing_until_it_is_resumed(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with crawling() as crawl:
            assert not crawl.politeness.reasons
            await orders.pause(crawl.queue, "10:00")
            await comes_true(lambda: bool(crawl.politeness.reasons))
            going_on, wakes = asyncio.ensure_future(crawl.politeness.may_go_on()), crawl.wakes
            await orders.resume(crawl.queue)
            await asyncio.wait_for(going_on, 5)
            assert not crawl.politeness.reasons
            assert crawl.wakes > wakes

    run_jumping(test())
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert line == (
        "map 'world' is paused since 10:00: nothing is asked; `tileharvest resume world` lets it go on"
    )


def test_a_pause_is_no_time_worked() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            crawl.worked = 5.0
            await orders.pause(crawl.queue, "10:00")
            await comes_true(lambda: bool(crawl.politeness.reasons))
            crawl.worked = 100.0
            await orders.resume(crawl.queue)
            await comes_true(lambda: not crawl.politeness.reasons)
            crawl.worked = 101.0
            assert crawl.traffic.worked == 6.0

    run_jumping(test())


def test_who_waits_for_the_end_of_a_pause_ends_with_the_crawl() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await orders.pause(crawl.queue, "10:00")
            await comes_true(lambda: bool(crawl.politeness.reasons))
            waiting = asyncio.ensure_future(crawl.politeness.may_go_on())
            await asyncio.sleep(0)
            crawl.politeness.cut_short()
            await asyncio.wait([waiting], timeout=5)
            assert waiting.cancelled()

    run_jumping(test())


def test_after_its_end_nothing_is_asked_aside() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            crawl.politeness.cut_short()
            with pytest.raises(asyncio.CancelledError):
                await crawl.politeness.aside()

    run_jumping(test())


def test_who_waits_for_a_far_turn_ends_with_the_crawl() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(3600.0, 3600.0)) as crawl:
            crawl.offers()
            await crawl.politeness.aside()
            before = asyncio.get_running_loop().time()
            waiting = asyncio.ensure_future(crawl.politeness.aside())
            resting = asyncio.ensure_future(crawl.politeness.wait(3000.0))
            asyncio.get_running_loop().call_later(5.0, crawl.politeness.cut_short)
            await asyncio.wait([waiting, resting])
            assert waiting.cancelled()
            assert resting.cancelled()
            assert asyncio.get_running_loop().time() - before < 10

    run_jumping(test())


def test_an_order_to_stop_ends_it() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await orders.stop(crawl.queue)
            await comes_true(lambda: bool(crawl.ends))
            assert crawl.ends == ["stopped"]

    run_jumping(test())


def test_requests_are_kept_apart_by_the_longer_of_the_gaps_of_map_and_host() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(0.1, 0.1), host_gap=Gap(0.5, 0.9)) as crawl:
            crawl.offers()
            assert crawl.worker.apart == [0.5]

    run_jumping(test())


def test_a_rate_set_by_hand_is_the_pace_at_once() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(0.5, 0.5)) as crawl:
            crawl.offers()
            await orders.set_rate(crawl.queue, "10/s")
            await comes_true(lambda: len(crawl.worker.apart) > 1)
            assert crawl.worker.apart == [0.5, 0.1]
            assert crawl.politeness.pace == Pace(HOST, 4, Gap(0.1, 0.1))

    run_jumping(test())


def test_a_rate_set_by_hand_is_not_faster_than_robots_and_quiet_hours_want() -> None:
    quiet = QuietHours.parse("18:00-23:00")

    async def test() -> None:
        async with crawling(quiet=(quiet,), quiet_gap=Gap(9.0, 9.0)) as crawl:
            await orders.set_rate(crawl.queue, "10/s")
            await comes_true(lambda: crawl.politeness._orders.rate is not None)
            crawl.politeness.obey(Gap(3.0, 3.0))
            assert crawl.politeness.pace == Pace(HOST, 4, Gap(3.0, 3.0))
            crawl.local_time = NOON + timedelta(hours=7)
            assert crawl.politeness.pace == Pace(HOST, 4, Gap(9.0, 9.0))

    run_jumping(test())


def test_quiet_hours_hold_everything_back_until_they_end(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with crawling(quiet=(QuietHours.parse("12:00-23:00"),)) as crawl:
            assert crawl.politeness.reasons
            going_on = asyncio.ensure_future(crawl.politeness.may_go_on())
            crawl.local_time = NOON + timedelta(hours=11)
            await asyncio.wait_for(going_on, 5)

    run_jumping(test())
    assert "map 'world' has quiet hours: nothing is asked until 2026-11-21 23:00 UTC" in caplog.text


def test_a_rate_that_is_set_while_the_first_requests_are_prepared_holds_for_them() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(0.1, 0.1)) as crawl:
            pace = crawl.politeness.pace
            assert pace is not None
            await orders.set_rate(crawl.queue, "2/s")
            await comes_true(lambda: crawl.politeness._orders.rate is not None)
            crawl.politeness.offers(crawl.worker, pace)
            await comes_true(lambda: crawl.worker.apart[-1] == 0.5)

    run_jumping(test())


def test_what_is_asked_aside_waits_while_it_is_paused() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await orders.pause(crawl.queue, "10:00")
            await comes_true(lambda: bool(crawl.politeness.reasons))
            asking = asyncio.ensure_future(crawl.politeness.aside())
            await asyncio.sleep(60)
            assert not asking.done()
            await orders.resume(crawl.queue)
            await asyncio.wait_for(asking, 5)

    run_jumping(test())


def test_what_is_asked_aside_leaves_the_host_alone_for_as_long_as_another_has_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with crawling() as crawl:
            now = asyncio.get_running_loop().time
            crawl.queue._clock = now
            began = now()
            await crawl.queue.rest(HOST, 600.0)
            await crawl.politeness.aside()
            assert now() - began == pytest.approx(600)

    run_jumping(test())
    assert f"{HOST} has asked to be left alone: nothing is asked of it for 600 s" in caplog.text


def test_what_is_asked_aside_of_a_host_that_rests_ends_with_the_crawl() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            await crawl.queue.rest(HOST, 600.0)
            asking = asyncio.ensure_future(crawl.politeness.aside())
            await asyncio.sleep(60)
            crawl.politeness.cut_short()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(asking, 5)

    run_jumping(test())


def test_at_another_rate_what_was_leased_before_has_its_start_drawn_anew() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(0.1, 0.1)) as crawl:
            crawl.offers()
            await orders.set_rate(crawl.queue, "2/s")
            await comes_true(lambda: crawl.worker.apart[-1] == 0.5)
            assert crawl.worker.anew == 1

    run_jumping(test())


def test_when_it_goes_on_what_was_leased_before_has_its_start_drawn_anew() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            crawl.offers()
            crawl.politeness.hold(Reason.DOWN)
            crawl.politeness.hold(Reason.PAUSED)
            crawl.politeness.let_go(Reason.DOWN)
            assert crawl.worker.anew == 0
            crawl.politeness.let_go(Reason.PAUSED)
            assert crawl.worker.anew == 1

    run_jumping(test())


def test_what_is_asked_aside_keeps_the_gap_of_the_host_too() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(0.01, 0.01), host_gap=Gap(3600.0, 3600.0)) as crawl:
            now = asyncio.get_running_loop().time
            crawl.queue._clock = now
            began = now()
            await crawl.politeness.aside()
            await crawl.politeness.aside()
            assert now() - began == pytest.approx(3600)

    run_jumping(test())


def test_what_is_asked_aside_too_late_is_followed_no_sooner_for_that() -> None:
    """The loop is busy while its turn comes."""

    async def test() -> None:
        async with crawling(gap=Gap(2.0, 2.0)) as crawl:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, JumpingLoop)
            crawl.queue._clock = loop.time
            await crawl.politeness.aside()
            asking = asyncio.ensure_future(crawl.politeness.aside())
            await asyncio.sleep(0.1)
            loop.jump(3.4)
            await asking
            began = loop.time()
            await crawl.politeness.aside()
            assert loop.time() - began == pytest.approx(2)
            loop.jump(1.5)
            crawl.offers()
            assert crawl.worker.ago == [pytest.approx(1.5)]

    run_jumping(test())


def test_the_worker_hears_of_a_request_when_it_starts_not_when_it_is_held_back() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(2.0, 2.0)) as crawl:
            crawl.offers()
            first, late = (Request(f"http://{HOST}/{name}", meta={DELAY: 30}) for name in "ab")
            assert crawl.politeness.starts_now(first)
            before = len(crawl.worker.ago)
            assert not crawl.politeness.starts_now(late)
            assert len(crawl.worker.ago) == before
            await asyncio.sleep(30)
            assert crawl.politeness.starts_now(late)
            assert crawl.worker.ago[before:] == [0.0]

    run_jumping(test())


def test_while_a_request_waits_for_a_connection_no_other_starts_and_the_next_keeps_its_gap() -> None:
    async def test() -> None:
        async with crawling(gap=Gap(2.0, 2.0)) as crawl:
            crawl.offers()
            politeness, wakes, told = crawl.politeness, crawl.wakes, len(crawl.worker.ago)
            with politeness.delayed(60.0):
                now = asyncio.get_running_loop().time()
                assert politeness._turns == [Wait("a free connection", now, now + 60.0)]
                assert not politeness.starts_now(Request(f"http://{HOST}/a"))
                assert (crawl.wakes, len(crawl.worker.ago)) == (wakes, told)
            assert (crawl.wakes, crawl.worker.ago[told:]) == (wakes + 1, [0.0])
            assert politeness.starts_now(Request(f"http://{HOST}/a"))

    run_jumping(test())


def test_nobody_is_woken_for_a_request_whose_turn_comes_after_the_end() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            first, late = (Request(f"http://{HOST}/{name}", meta={DELAY: 30}) for name in "ab")
            assert crawl.politeness.starts_now(first)
            assert not crawl.politeness.starts_now(late)
            crawl.politeness.cut_short()
            wakes = crawl.wakes
            await asyncio.sleep(60)
            assert crawl.wakes == wakes

    run_jumping(test())


def test_it_wakes_only_when_the_first_reason_comes_or_the_last_one_goes() -> None:
    async def test() -> None:
        async with crawling() as crawl:
            before = crawl.wakes
            crawl.politeness.let_go(Reason.DOWN)
            for reason in (Reason.PAUSED, Reason.PAUSED, Reason.DOWN):
                crawl.politeness.hold(reason)
            for reason in (Reason.DOWN, Reason.PAUSED, Reason.PAUSED):
                crawl.politeness.let_go(reason)
            assert crawl.wakes == before + 2

    run_jumping(test())


def test_the_pace_of_a_map_whose_tiles_all_lie_on_another_host_is_that_hosts_pace() -> None:
    slow = Gap.of(0.5)

    async def test() -> None:
        async with crawling(limits_at=lambda host: (7, slow), host_concurrency=2) as crawl:
            politeness = crawl.politeness
            assert politeness.pace == Pace(HOST, 4, NO_GAP, 2)
            await politeness.ask_at("tiles.example.net")
            assert politeness.pace == Pace("tiles.example.net", 4, slow, 7, slow)
            assert not politeness.is_elsewhere("tiles.example.net")
            assert politeness.is_elsewhere(HOST)
            # What a person writes into maps.toml meanwhile is about the map, wherever its tiles lie.
            await politeness.amend(Rules(HOST, 3, limits_at=lambda host: (7, slow)), Budget(requests=5))
            assert politeness.pace == Pace("tiles.example.net", 3, slow, 7, slow)

    run_jumping(test())


def test_a_turn_at_another_host_is_waited_for_from_the_first_look_on() -> None:
    async def test() -> None:
        async with crawling(limits_at=lambda host: (1, NO_GAP)) as crawl:
            began = asyncio.get_running_loop().time()
            await crawl.politeness.take_turn_at("other")
            second = asyncio.ensure_future(crawl.politeness.take_turn_at("other"))
            await asyncio.sleep(60)
            (wait,) = crawl.politeness.waits(0.0)
            assert (wait.what, wait.since) == ("its turn at other", began)
            assert wait.until == pytest.approx(began + NO_PLACE)
            crawl.politeness.leave("other")
            await second
            await crawl.queue.rest("third", 600.0)
            resting = asyncio.ensure_future(crawl.politeness.take_turn_at("third"))
            await asyncio.sleep(1)
            (wait,) = crawl.politeness.waits(0.0)
            assert wait.until is not None
            assert wait.until - wait.since == pytest.approx(600.0)
            crawl.politeness.cut_short()
            with pytest.raises(asyncio.CancelledError):
                await resting

    run_jumping(test())


def test_two_maps_that_redirect_to_each_others_hosts_do_not_wait_for_each_other_without_an_end() -> None:
    async def test() -> None:
        async with crawling(limits_at=lambda host: (1, NO_GAP)) as crawl:
            crawl.queue._clock = clock = asyncio.get_running_loop().time
            began = clock()
            # Somebody is at the other host and does not leave it.
            await crawl.politeness.take_turn_at("other")
            for number in (1, 2):
                with pytest.raises(TimeoutError):
                    await crawl.politeness.take_turn_at("other")
                assert clock() - began == pytest.approx(number * NO_PLACE, abs=number * LOOK)
            assert not list(crawl.politeness.waits(0.0))
            crawl.politeness.leave("other")
            await crawl.politeness.take_turn_at("other")
            # A rest that is announced may take longer, and does not count.
            await crawl.queue.rest("other", 3 * NO_PLACE)
            began = clock()
            with pytest.raises(TimeoutError):
                await crawl.politeness.take_turn_at("other")
            assert clock() - began == pytest.approx(4 * NO_PLACE, abs=2 * LOOK)

    run_jumping(test())


def test_a_maps_file_that_has_become_wrong_ends_no_request_to_another_host() -> None:
    async def test() -> None:
        is_right = True

        def limits_at(host: str) -> tuple[int, Gap]:
            if not is_right:
                raise ConfigurationError("maps.toml is not valid TOML")
            return 7, NO_GAP

        async def concurrency_at(host: str) -> int | None:
            await crawl.politeness.take_turn_at(host)
            crawl.politeness.leave(host)
            # The host forgets its limits, so that the next request tells them again.
            limits = await crawl.queue._hosts.change(Host, host, 0.0, lambda known, now: known.own)
            await crawl.queue._hosts.change(Host, host, 0.0, lambda known, now: setattr(known, "own", None))
            return None if limits is None else limits.concurrency

        async with crawling(limits_at=limits_at) as crawl:
            assert await concurrency_at("known.example.net") == 7
            is_right = False
            assert await concurrency_at("known.example.net") == 7
            # Nothing is known of this one, so the map's own concurrency counts.
            assert await concurrency_at("unknown.example.net") == 4

    run_jumping(test())

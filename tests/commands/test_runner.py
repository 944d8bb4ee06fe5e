"""Which maps begin while others are under way, and what a process does with those that fail."""

from __future__ import annotations

import asyncio
import logging
from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from scrapy.utils.project import get_project_settings

from tests.scheduler.driving import entry
from tileharvest.commands.runner import CrawlSettings, Places, _lines_from, spread
from tileharvest.queue.port import Changes
from tileharvest.queue.sqlite.queue import SqliteQueue
from tileharvest.spiders.log import WHOSE, PrintableRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def begun(at_once: int, *names: str, most: int = 1000) -> Places:
    places = Places(at_once, most)
    for name in names:
        places.take(name, now=0.0)
    return places


def test_so_many_maps_are_at_work_at_once() -> None:
    places = begun(2, "one")
    assert places.is_any_free
    places.take("two", now=0.0)
    assert not places.is_any_free
    places.leave("one")
    assert places.is_any_free


async def fifty_maps() -> AsyncIterator[str]:
    for number in range(50):
        yield str(number)


@pytest.mark.parametrize("cost", [0.011, 0.5])
def test_other_work_comes_between_beginnings_that_take_longer_than_they_are_apart(cost: float) -> None:
    now, turn, turns = 0.0, 0, []

    async def other_work() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    def clock() -> float:
        return now

    async def begin_all() -> None:
        nonlocal now
        task = asyncio.ensure_future(other_work())
        async for _ in spread(fifty_maps(), clock):
            now += cost
            turns.append(turn)
        task.cancel()

    asyncio.run(begin_all())
    assert len(turns) == 50
    assert max(len(list(same)) for _, same in groupby(turns)) <= 11


def test_a_map_that_is_held_back_leaves_its_place_to_another_one() -> None:
    places = begun(2, "one", "two")
    places.look("one", 5, is_held=True, now=1.0)
    assert places.is_any_free


def test_a_map_that_goes_on_is_at_work_again() -> None:
    places = begun(2, "one", "two")
    places.look("one", 5, is_held=True, now=1.0)
    places.look("one", 5, is_held=False, now=2.0)
    assert not places.is_any_free


def test_a_map_whose_site_is_slow_leaves_its_place_after_ten_seconds() -> None:
    places = begun(2, "slow", "two")
    for now in (1.0, 11.0):
        places.look("slow", 4, is_held=False, now=now)
        places.look("two", int(now), is_held=False, now=now)
    assert places.is_any_free
    places.look("slow", 5, is_held=False, now=12.0)
    assert not places.is_any_free


def test_no_more_than_ten_maps_for_each_place_are_under_way_however_they_wait() -> None:
    names = [str(number) for number in range(20)]
    places = begun(2, *names)
    for name in names:
        places.look(name, 0, is_held=True, now=1.0)
    assert not places.is_any_free
    places.leave("7")
    assert places.is_any_free


def test_with_one_place_each_map_waits_for_the_one_before_it() -> None:
    places = begun(1, "paused")
    places.look("paused", 0, is_held=True, now=100.0)
    assert not places.is_any_free


def test_no_places_are_refused() -> None:
    with pytest.raises(ValueError, match="0 maps at once"):
        Places(0, 10)


def test_no_more_maps_are_under_way_than_the_process_can_hold() -> None:
    places = begun(8, "one", "two", most=2)
    assert not places.is_any_free


def test_lines_that_are_not_written_are_not_made(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with _lines_from("WARNING"):
        logging.getLogger("tests").info("not written")
        logging.getLogger("tests").warning("written")
    logging.getLogger("tests").debug("after it")
    assert caplog.messages == ["written", "after it"]


def test_the_thread_of_a_queue_knows_whose_it_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the filter says that it is full."""
    monkeypatch.setattr("logging._logRecordFactory", PrintableRecord)

    async def overfill(name: str) -> None:
        WHOSE.set(name)
        queue = SqliteQueue(expected=1)
        await queue.open(0.0)
        await queue.exchange(Changes(pushed=[entry(str(number)) for number in range(2000)]), 0, 0.0)
        await queue.close()

    async def both() -> None:
        await asyncio.gather(overfill("one"), overfill("other"))

    asyncio.run(both())
    told = [line.partition(": the filter of seen requests is full")[0] for line in caplog.messages]
    assert sorted(told) == ["map 'one'", "map 'other'"]


def test_settings_are_updated_with_those_that_they_are_a_copy_of_as_scrapy_does_it() -> None:
    scrapys = get_project_settings()
    ours = CrawlSettings.of(scrapys)
    copies = ours.copy(), scrapys.copy()
    for copied, settings in zip(copies, (ours, scrapys), strict=True):
        copied.set("BOT_NAME", "a spider's", "spider")
        copied.set("LOG_LEVEL", "ERROR", settings.getpriority("LOG_LEVEL") or 0)
        copied["DOWNLOADER_MIDDLEWARES"].set("other", 1)
        settings.set("ADDED", [1], "cmdline")
        copied.update(settings)
        copied.update({"GIVEN": 2}, "cmdline")
    assert copies[0].copy_to_dict() == copies[1].copy_to_dict()
    assert [copies[0].getpriority(name) for name in copies[1]] == [
        copies[1].getpriority(name) for name in copies[1]
    ]


def test_a_copy_of_the_settings_is_as_scrapys_own() -> None:
    own = get_project_settings()
    settings = CrawlSettings.of(own)
    copied = settings.copy()
    assert copied.copy_to_dict() == own.copy_to_dict()
    assert [copied.getpriority(name) for name in own] == [own.getpriority(name) for name in own]
    copied.set("CONCURRENT_REQUESTS", 1, "spider")
    copied["DOWNLOADER_MIDDLEWARES"].set("other", 1)
    copied["RETRY_HTTP_CODES"].append(1)
    assert settings.copy_to_dict() == own.copy_to_dict()


def test_a_copy_of_a_setting_with_settings_inside_keeps_its_own_priority() -> None:
    own = get_project_settings()
    own["DOWNLOADER_MIDDLEWARES"].set("one", 1, "cmdline")
    copies = CrawlSettings.of(own).copy(), own.copy()
    for copied in copies:
        assert copied["DOWNLOADER_MIDDLEWARES"]["one"] == 1
        copied.set("DOWNLOADER_MIDDLEWARES", {"one": 2}, "spider")
    ours, scrapys = (dict(copied["DOWNLOADER_MIDDLEWARES"]) for copied in copies)
    assert ours == scrapys == {"one": 2}

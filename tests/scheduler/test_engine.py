"""When a request is through: in a real Scrapy engine, seen beside the pipelines and the scheduler."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.scheduler.crawling import Crawls, run
from tileharvest.scheduler.engine import EngineHook, process_in_turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


WATCHED = {
    "SCHEDULER": "tests.scheduler.stub_spiders.WatchedScheduler",
    "ITEM_PIPELINES": {"tests.scheduler.stub_spiders.SlowPipeline": 1},
}


@pytest.fixture(scope="module", params=[False, True], ids=["as Scrapy does", "in turn"])
def events(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """What happened to which path in a crawl of a page, its links, and an address that does not answer."""
    from tests.servers.nginx import nginx  # noqa: PLC0415  # the fixture of that name is per test

    folder: Path = tmp_path_factory.mktemp("completion")
    (folder / "site").mkdir()
    with nginx(folder / "site", location="rewrite ^/old$ /b redirect;") as server:
        crawls = Crawls(folder, server)
        root = crawls.write_page("root", "/a", "/b", "/old")
        crawls.write_page("a")
        crawls.write_page("b")
        (crawled,) = crawls.crawl(
            run(
                root,
                {"url": "http://127.0.0.1:1/refused", "errback": "failed"},
                **WATCHED,
                CONCURRENT_ITEMS=1,
                IN_TURN=request.param,
            )
        )
    happened = [line.split()[1:] for line in crawled.said("INFO") if line.startswith("event ")]
    return [(what, path) for what, path in happened]


def test_each_request_is_through_exactly_once(events: list[tuple[str, str]]) -> None:
    through = sorted(path for what, path in events if what == "through")
    # The redirect leads to /b, which the page has named before.
    assert through == ["/a", "/b", "/old", "/refused", "/root"]


@pytest.mark.parametrize("path", ["/root", "/a", "/b"])
def test_a_request_is_through_after_its_items_have_passed_the_pipelines(
    events: list[tuple[str, str]], path: str
) -> None:
    assert events.index(("through", path)) > events.index(("item", path))


def test_a_request_is_through_after_its_children_are_enqueued(events: list[tuple[str, str]]) -> None:
    through = events.index(("through", "/root"))
    assert {("enqueued", path) for path in ("/a", "/b", "/old")} <= set(events[:through])


def test_a_redirected_request_is_through_after_the_new_one_is_enqueued(events: list[tuple[str, str]]) -> None:
    through = events.index(("through", "/old"))
    assert events[:through].count(("enqueued", "/b")) == events.count(("enqueued", "/b"))


class Scraper:
    """Processes what is yielded, and notes it."""

    def __init__(self, concurrent_items: int) -> None:
        self.concurrent_items = concurrent_items
        self.seen: list[Any] = []

    async def handle_spider_output_async(self, result: Any, request: Any, response: Any) -> None:
        self.seen.append("as Scrapy does")

    async def _process_spidermw_output_async(self, output: Any, response: Any) -> None:
        self.seen.append(("begun", output))
        await asyncio.sleep(0)
        self.seen.append(("done", output))

    def handle_spider_error(self, failure: Any, request: Any, response: Any) -> None:
        self.seen.append((str(failure.value), request, response))


def yielded() -> Iterator[int]:
    yield 1
    yield 2
    raise ValueError("no more")


async def yielded_later() -> AsyncIterator[int]:
    for one in yielded():
        yield one


@pytest.mark.parametrize("found", [yielded, yielded_later])
def test_in_turn_one_is_done_before_the_next_and_an_error_is_told(found: Any) -> None:
    scraper = Scraper(1)
    process_in_turn(SimpleNamespace(scraper=scraper))
    asyncio.run(scraper.handle_spider_output_async(found(), "request", "response"))
    in_turn = [(what, number) for number in (1, 2) for what in ("begun", "done")]
    assert scraper.seen == [*in_turn, ("no more", "request", "response")]


def test_where_several_are_allowed_scrapy_sees_to_them() -> None:
    scraper = Scraper(2)
    process_in_turn(SimpleNamespace(scraper=scraper))
    asyncio.run(scraper.handle_spider_output_async([], None, None))
    assert scraper.seen == ["as Scrapy does"]


class NextCall:
    def __init__(self) -> None:
        self.scheduled = 0

    def schedule(self) -> None:
        self.scheduled += 1


def engine(**slot: Any) -> Any:
    return SimpleNamespace(_slot=SimpleNamespace(**slot), downloader=SimpleNamespace(active=set()))


@pytest.mark.parametrize(
    "unknown",
    [
        SimpleNamespace(),
        SimpleNamespace(_slot=None),
        engine(nextcall=NextCall()),
        engine(nextcall=NextCall(), inprogress=[]),
        engine(inprogress=set()),
        SimpleNamespace(_slot=engine(nextcall=NextCall(), inprogress=set())._slot),
    ],
    ids=["no slot", "slot of None", "no inprogress", "inprogress is a list", "no nextcall", "no downloader"],
)
def test_another_engine_is_refused_with_what_to_do(unknown: Any) -> None:
    with pytest.raises(
        RuntimeError, match=r"engine\.downloader\.active: install the version that requirements"
    ):
        EngineHook(print).attach(unknown)


@pytest.mark.parametrize(("closing", "scheduled"), [(None, 1), ("a Deferred", 0)])
def test_an_engine_is_woken_unless_it_closes(closing: Any, scheduled: int) -> None:
    nextcall = NextCall()
    hook = EngineHook(print)
    hook.attach(engine(nextcall=nextcall, inprogress=set(), closing=closing))
    hook.wake()
    assert nextcall.scheduled == scheduled


def test_requests_that_are_under_way_already_are_told_of_too() -> None:
    told: list[str] = []
    known = engine(nextcall=NextCall(), inprogress={"before"}, closing=None)
    EngineHook(told.append).attach(known)
    known._slot.inprogress.add("after")
    for request in ("before", "after"):
        known._slot.inprogress.remove(request)
    assert told == ["before", "after"]
    assert not known._slot.inprogress


def test_requests_on_the_way_are_those_of_the_downloader() -> None:
    known = engine(nextcall=NextCall(), inprogress=set(), closing=None)
    hook = EngineHook(print)
    hook.attach(known)
    assert len(hook.on_the_way) == 0
    known.downloader.active.update({"one", "another"})
    assert len(hook.on_the_way) == 2


def test_before_there_is_an_engine_nothing_is_on_the_way_and_nobody_is_woken() -> None:
    hook = EngineHook(print)
    hook.wake()
    assert len(hook.on_the_way) == 0

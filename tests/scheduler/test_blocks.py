"""Blocks: which tiles follow each other in one, and what Scrapy's engine has of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from twisted.python.failure import Failure

from tileharvest.queue.codec import VERSION, QueuedRequest
from tileharvest.queue.port import Lease
from tileharvest.queue.requests import FAILURE, STATE, RequestState
from tileharvest.scheduler.blocks import Block, Blocks, QueuedTile
from tileharvest.tiles.questions import TileQuestion

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST: Final = "map.example.net"


def tile(name: str, host: str = HOST) -> Request:
    meta = {"download_slot": host, STATE: RequestState(TileQuestion("day"))}
    return Request(
        f"http://{host}/{name}", method="HEAD", callback=lambda _: [], errback=lambda _: [], meta=meta
    )


def queued(name: str) -> QueuedTile:
    lease = Lease(1, 1, b"", "2024-05-01", 0)
    meta = {"download_slot": HOST}
    return QueuedTile(
        lease, QueuedRequest(version=VERSION, url=f"http://{HOST}/{name}", method="HEAD", meta=meta)
    )


class Engine:
    """Scrapy's engine, as far as blocks know it. It tells what passed which part."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.running = True
        self.paused = False
        self._slot = SimpleNamespace(closing=None)
        self.downloader: Any = SimpleNamespace(
            total_concurrency=1,
            active={"this block"},
            middleware=SimpleNamespace(
                download_async=self.through_middlewares,
                _process_response=self.from_answer_on,
                _process_exception=self.from_failure_on,
            ),
            handlers=SimpleNamespace(download_request_async=self.download),
        )
        self.scraper = SimpleNamespace(
            slot=SimpleNamespace(MIN_RESPONSE_SIZE=1024, active_size=0, needs_backout=lambda: self.is_full),
            spidermw=SimpleNamespace(middlewares=()),
            handle_spider_output_async=self.handle,
        )
        self.is_full = False
        self.sizes: dict[str, int] = {}
        """What counted as being on the way when a tile came to its callback."""
        self.was_asked_beside = asyncio.Event()

    async def through_middlewares(self, download: Any, request: Request) -> Any:
        self.events.append(("middlewares", name_of(request)))
        if "again" in request.url:
            return request.replace(url=f"http://{HOST}/repeat")
        if "cut" in request.url:
            raise asyncio.CancelledError
        if "kept" in request.url:
            raise IgnoreRequest
        answer = await download(request)
        if "redirected" in request.url:
            await self.was_asked_beside.wait()
        return answer

    async def from_answer_on(self, answer: Response, request: Request) -> Response:
        self.events.append(("from the answer on", name_of(request)))
        return answer

    async def from_failure_on(self, failure: Exception, request: Request) -> Response:
        self.events.append(("from the failure on", name_of(request)))
        raise failure

    async def download(self, request: Request) -> Response:
        if "broken" in request.url:
            raise ConnectionError
        if "beside" in request.url:
            self.was_asked_beside.set()
        return Response(request.url, body=bytes(1_000) if "image" in request.url else b"")

    async def handle(self, _result: Any, request: Request, answer: Any) -> None:
        assert answer.request is request
        if "unfit" in request.url:
            raise ValueError("unfit")
        what = "errback" if isinstance(answer, Failure) else "callback"
        self.events.append((what, name_of(request)))
        self.sizes[name_of(request)] = self.scraper.slot.active_size

    def crawl(self, request: Request) -> None:
        self.events.append(("enqueued", name_of(request)))


class Tiles:
    """Has these tiles after the first one."""

    def __init__(self, engine: Engine, *names: str) -> None:
        self.engine = engine
        self.waiting: list[Request | QueuedTile] = [tile(name) for name in names]
        self.all_asked = asyncio.Event()
        self.blocks = Blocks(engine, self, most=4)

    def next_tile(self, before: Request | QueuedTile) -> Request | QueuedTile | None:
        if not self.waiting:
            self.all_asked.set()
            return None
        return self.waiting.pop(0)

    def request_of(self, one: QueuedTile) -> Request | None:
        return None if "unreadable" in one.url else tile(name_of(one))

    def all_through(self, tiles: Sequence[QueuedTile]) -> None:
        self.engine.events.append(("all through", " ".join(map(name_of, tiles))))

    def through(self, request: Request) -> None:
        self.engine.events.append(("through", name_of(request)))

    def cut_off(self, request: Request | QueuedTile) -> None:
        self.engine.events.append(("cut off", name_of(request)))

    async def make(self, first: str | QueuedTile) -> Response:
        """What the engine does with a block."""
        block = Block(tile(first) if isinstance(first, str) else first)
        downloader = self.engine.downloader
        answer: Response = await downloader.middleware.download_async(
            downloader.handlers.download_request_async, block
        )
        assert block.callback is not None
        assert [found async for found in block.callback(answer)] == []
        return answer


class Way:
    """A short way. The names of tiles say what becomes of them."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.transaction: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def takes(self, lease: Lease, queued: QueuedRequest, *, is_begun: bool) -> bool:
        return True

    def may_ask(self, tile: QueuedTile) -> bool:
        return "conditional" not in tile.url

    async def ask(self, tile: QueuedTile) -> Any:
        if "cut" in tile.url:
            raise asyncio.CancelledError
        return ConnectionError() if "broken" in tile.url else 200

    def keep(self, tile: QueuedTile, answer: Any) -> asyncio.Future[BaseException | None] | None:
        if "odd" in tile.url:
            raise ValueError("an answer that nobody understands")
        return None if "changed" in tile.url or isinstance(answer, Exception) else self.transaction

    def kept(self, tiles: Sequence[QueuedTile], failure: BaseException | None) -> bool:
        return failure is None

    def response(self, request: Request, answer: Any) -> Response | Exception:
        return answer if isinstance(answer, Exception) else Response(request.url, status=answer)


async def make_shortly(engine: Engine, *names: str, failure: Exception | None = None) -> None:
    """A block of these tiles, which may go the short way; their transaction ends when all are asked."""
    tiles = Tiles(engine)
    first, *tiles.waiting = map(queued, names)
    way = tiles.blocks.short_way = Way()
    making = asyncio.ensure_future(tiles.make(first))
    await asyncio.wait_for(tiles.all_asked.wait(), 10)
    assert not making.done()
    engine.events.append(("kept", ""))
    way.transaction.set_result(failure)
    await asyncio.wait_for(making, 10)
    assert engine.scraper.slot.active_size == 0


def name_of(request: Request | QueuedTile) -> str:
    return request.url.rpartition("/")[2]


def asked(engine: Engine) -> list[str]:
    return [name for what, name in engine.events if what == "middlewares"]


def test_tiles_follow_each_other_in_a_block_up_to_its_size() -> None:
    engine = Engine()
    tiles = Tiles(engine, "1", "2", "3", "4")
    assert asyncio.run(tiles.make("0")).status == 200
    assert asked(engine) == ["0", "1", "2", "3"]
    assert [name_of(left) for left in tiles.waiting] == ["4"]


def test_each_tile_is_through_by_itself_after_its_own_way() -> None:
    engine = Engine()
    asyncio.run(Tiles(engine, "broken", "again").make("0"))
    ways = {
        name: [what for what, of in engine.events if of == name]
        for name in ("0", "broken", "again", "repeat")
    }
    assert ways == {
        "0": ["middlewares", "callback", "through"],
        "broken": ["middlewares", "errback", "through"],
        "again": ["middlewares", "through"],
        "repeat": ["enqueued"],
    }
    assert engine.scraper.slot.active_size == 0


def test_an_image_counts_more_than_its_bytes_until_it_is_kept() -> None:
    """So that not thousands of them wait for a slow disk: each takes more memory than its bytes."""
    engine = Engine()
    asyncio.run(Tiles(engine, "image").make("0"))
    assert engine.sizes["0"] == 1_024
    assert engine.sizes["image"] >= 8 * 1_024 + 1_000
    assert engine.scraper.slot.active_size == 0


def test_an_answer_whose_middlewares_ask_for_something_else_holds_no_connection() -> None:
    engine = Engine()
    asyncio.run(asyncio.wait_for(Tiles(engine, "beside").make("redirected"), 10))
    assert [of for what, of in engine.events if what == "through"] == ["beside", "redirected"]


def test_a_tile_that_a_middleware_keeps_from_being_asked_holds_up_no_other() -> None:
    engine = Engine()
    asyncio.run(asyncio.wait_for(Tiles(engine, "1").make("kept-from-it"), 10))
    assert ("errback", "kept-from-it") in engine.events
    assert ("callback", "1") in engine.events


def test_a_tile_whose_wait_is_cut_short_is_not_through() -> None:
    engine = Engine()
    asyncio.run(asyncio.wait_for(Tiles(engine, "1").make("cut"), 10))
    assert [event for event in engine.events if event[1] == "cut"] == [
        ("middlewares", "cut"),
        ("cut off", "cut"),
    ]
    assert ("through", "1") in engine.events
    assert engine.scraper.slot.active_size == 0


def test_a_tile_of_which_nothing_was_kept_has_failed() -> None:
    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        tiles = Tiles(engine, "unfit")
        (unfit,) = tiles.waiting
        await tiles.make("0")
        assert unfit.meta[FAILURE] == "unfit"

    engine = Engine()
    asyncio.run(test())
    assert ("through", "unfit") in engine.events


@pytest.mark.parametrize(
    "change",
    [
        {"running": False},
        {"paused": True},
        {"is_full": True},
        {"_slot": SimpleNamespace(closing="soon")},
        {"_slot": None},
    ],
    ids=["stopped", "paused", "results wait to be kept", "closing", "closed"],
)
def test_a_block_takes_no_other_tile_where_the_engine_would_ask_for_none(change: dict[str, Any]) -> None:
    engine = Engine()
    tiles = Tiles(engine, "1")
    vars(engine).update(change)
    asyncio.run(tiles.make("0"))
    assert asked(engine) == ["0"]


def test_a_block_ends_where_fewer_are_to_be_on_the_way() -> None:
    engine = Engine()
    tiles = Tiles(engine, "1")
    engine.downloader.active = {"this block", "another one"}
    asyncio.run(tiles.make("0"))
    assert asked(engine) == ["0"]


def test_other_requests_are_made_as_before() -> None:
    engine = Engine()
    Tiles(engine, "1")
    downloader = engine.downloader
    made = downloader.middleware.download_async(downloader.handlers.download_request_async, tile("0"))
    assert asyncio.run(made).status == 200
    assert engine.events == [("middlewares", "0")]


def test_where_a_project_has_a_spider_middleware_blocks_are_not_possible() -> None:
    engine = Engine()
    assert Blocks.is_possible(engine)
    engine.scraper.spidermw.middlewares = ("one of the project's",)
    assert not Blocks.is_possible(engine)


def test_tiles_of_the_short_way_are_through_together_once_they_are_kept() -> None:
    engine = Engine()
    asyncio.run(make_shortly(engine, "0", "1", "2"))
    assert engine.events == [("kept", ""), ("all through", "0 1 2")]


def test_tiles_that_could_not_be_kept_are_not_through() -> None:
    engine = Engine()
    asyncio.run(make_shortly(engine, "0", "1", failure=OSError()))
    assert engine.events == [("kept", ""), ("cut off", "0"), ("cut off", "1")]


def test_what_is_new_goes_the_usual_way_from_its_answer_on_and_is_asked_once() -> None:
    engine = Engine()
    asyncio.run(make_shortly(engine, "0", "changed", "broken"))
    ways = {name: [what for what, of in engine.events if of == name] for name in ("changed", "broken")}
    assert ways == {
        "changed": ["from the answer on", "callback", "through"],
        "broken": ["from the failure on", "errback", "through"],
    }
    assert ("all through", "0") in engine.events


def test_an_answer_that_cannot_be_judged_goes_the_usual_way_too() -> None:
    engine = Engine()
    asyncio.run(make_shortly(engine, "odd", "1"))
    assert [what for what, of in engine.events if of == "odd"] == [
        "from the answer on",
        "callback",
        "through",
    ]
    assert ("all through", "1") in engine.events


def test_a_tile_of_which_no_request_can_be_made_holds_up_no_other() -> None:
    engine = Engine()
    asyncio.run(make_shortly(engine, "unreadable-changed", "unreadable-conditional", "1"))
    assert engine.events == [("kept", ""), ("all through", "1")]


def test_a_tile_that_must_not_go_the_short_way_goes_the_usual_one() -> None:
    engine = Engine()
    asyncio.run(make_shortly(engine, "0", "conditional"))
    assert [what for what, of in engine.events if of == "conditional"] == [
        "middlewares",
        "callback",
        "through",
    ]


def test_a_tile_of_the_short_way_whose_wait_is_cut_short_is_not_through() -> None:
    async def test() -> None:
        tiles = Tiles(engine)
        tiles.blocks.short_way = Way()
        with pytest.raises(asyncio.CancelledError):
            await tiles.make(queued("cut"))

    engine = Engine()
    asyncio.run(test())
    assert engine.events == [("cut off", "cut")]

"""Blocks, over real connections: which tiles start, when a block ends, and what is left of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date
from types import SimpleNamespace
from typing import Any, Final

import pytest
from scrapy import Spider
from scrapy.exceptions import DownloadFailedError, IgnoreRequest
from scrapy.utils.test import get_crawler

from tileharvest.harvest.walks import LayerWalk
from tileharvest.history.blocks import KnownBlock
from tileharvest.maps.budgets import Budget
from tileharvest.politeness.map_throttle import MapThrottle
from tileharvest.politeness.rules import Rules
from tileharvest.politeness.sqlite import SqliteThrottle
from tileharvest.politeness.waits import HoldReason
from tileharvest.renderers.addresses import QuadtreeAddresses
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.spiders import download
from tileharvest.spiders.blocks import BlockRequest, BlockResponse
from tileharvest.spiders.download import TileDownloadHandler
from tileharvest.tiles.block import Block, mask_of
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.verdict import Answer
from tileharvest.tiles.versions import Image, Validator, Version
from tileharvest.walk.walk import Walk

LAYER: Final = "day"
MOVED: Final = b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n"
REFUSED: Final = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
NOT_FOUND: Final = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
UNAVAILABLE: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
PLAIN: Final = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: 4\r\n\r\n'


class Stage:
    """A site that answers when it is told to, and the handler that asks it."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.on_the_way = 0
        self.most = 0
        """The most requests that were on the way at the same time."""
        self.go_on = asyncio.Event()
        """Set while the site answers."""
        self.go_on.set()
        self.answers: dict[str, bytes] = {}
        """By path: answers other than the usual one."""
        self.refused_head = b""
        """The answer to every HEAD, if the site refuses HEAD."""
        self.late: dict[str, asyncio.Event] = {}
        """By path: what the answer to HEAD waits for."""
        self.handler: TileDownloadHandler
        self.throttle: MapThrottle
        self.crawl: Any
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self.heads.append(head)
                self.on_the_way += 1
                self.most = max(self.most, self.on_the_way)
                await self.go_on.wait()
                await asyncio.sleep(0)
                self.on_the_way -= 1
                method, path, _ = head.split(" ", 2)
                answer = self.answers.get(path, PLAIN + (b"body" if method == "GET" else b""))
                if method == "HEAD" and self.refused_head:
                    answer = self.refused_head
                    if path in self.late:
                        await self.late[path].wait()
                if not answer:
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    def path(self, tile: Any) -> str:
        layer = self.crawl.harvest.layers[LAYER].layer
        return str(layer.addresses.url_of(tile)).removeprefix(self.url)

    async def ask(self, mask: int, **options: Any) -> BlockResponse:
        options = {"method": "HEAD", **options}
        request = BlockRequest.of(Block(LAYER, 0, 0, -1, mask), f"{self.url}/day/0.png", **options)
        response = await self.handler.download_request(request)
        assert isinstance(response, BlockResponse)
        return response

    async def ask_known(self, mask: int) -> BlockResponse:
        """The answers to a block of tiles that are known to exist."""
        request = BlockRequest.of(Block(LAYER, 0, 0, -1, mask), f"{self.url}/day/0.png", method="HEAD")
        request.expected = mask
        known = Version(date(2024, 5, 1), Image("a" * 40, "png", 4), Validator('"1"'))
        request.known = KnownBlock({0: known})
        response = await self.handler.download_request(request)
        assert isinstance(response, BlockResponse)
        return response

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - only the site knows when it was asked
                await asyncio.sleep(0)


@asynccontextmanager
async def stage(
    *, concurrency: int = 4, budget: Budget | None = None, **settings: Any
) -> AsyncIterator[Stage]:
    """A handler of a crawl of its own, at a site of its own."""
    site = Stage()
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    crawler = get_crawler(Spider, {"DOWNLOAD_TIMEOUT": 60, **settings})
    site.crawl = crawl_of(crawler)
    layer = Layer(LAYER, Pyramid(8), "png", QuadtreeAddresses(f"{site.url}/day", 8, "png"))
    site.crawl.harvest = SimpleNamespace(
        layers={LAYER: LayerWalk(layer, Walk(layer.pyramid))},
        understood=lambda answer: answer,
        answers_head=True,
        description=SimpleNamespace(page=f"{site.url}/", host="127.0.0.1", gap=None),
    )
    rules = Rules("127.0.0.1", concurrency, robots=False)
    shared = SqliteThrottle()
    await shared.open()
    site.crawl.rules = rules
    site.throttle = site.crawl.throttle = MapThrottle(
        shared, "small", rules, site.crawl.cost_meter, lasts=300.0, zone=UTC
    )
    site.throttle.budget = budget or Budget()
    await site.throttle.look()
    site.handler = TileDownloadHandler(crawler)
    try:
        yield site
    finally:
        await site.handler.close()
        await shared.close()
        server.close()
        await server.wait_closed()


async def test_a_block_returns_an_answer_for_each_of_its_tiles_over_few_connections() -> None:
    async with stage() as site:
        response = await site.ask(mask_of(range(20)))
        assert response.answers == {bit: Answer(200, response.answers[0].validator, 4) for bit in range(20)}
        assert response.asked == mask_of(range(20))
        assert site.crawl.cost_meter.requests == len(site.heads) == 20
        asked = {head.split(" ")[1] for head in site.heads}
        block = Block(LAYER, 0, 0, -1, mask_of(range(20)))
        assert asked == {site.path(tile) for _, tile in block.tiles()}


async def test_never_more_tiles_are_on_the_way_than_the_map_allows_of_however_many_blocks() -> None:
    async with stage(concurrency=3) as site:
        await asyncio.gather(*(site.ask(0b11111 << shift) for shift in range(0, 25, 5)))
        assert site.most == 3
        assert len(site.heads) == 25


async def test_a_host_with_no_place_free_keeps_no_tile_of_another_host_waiting() -> None:
    async with stage(concurrency=1) as site, site.throttle.place("127.0.0.1"):
        waiting = asyncio.ensure_future(site.ask(0b1))
        await site.until(lambda: bool(site.handler._open))
        layers, moved = site.crawl.harvest.layers, site.url.replace("127.0.0.1", "localhost")
        there = replace(layers[LAYER].layer, addresses=QuadtreeAddresses(f"{moved}/day", 8, "png"))
        layers[LAYER] = layers[LAYER]._replace(layer=there)
        async with asyncio.timeout(60):
            assert (await site.ask(0b1)).asked == 0b1
        waiting.cancel()


async def test_the_tiles_of_the_most_urgent_block_start_first() -> None:
    async with stage(concurrency=1) as site:
        site.go_on.clear()
        first = asyncio.ensure_future(site.ask(0b111))
        await site.until(lambda: len(site.heads) == 1)
        urgent = asyncio.ensure_future(site.ask(0b11000, method="GET", priority=1))
        await asyncio.sleep(0)
        site.go_on.set()
        await asyncio.gather(first, urgent)
        assert [head.split(" ")[0] for head in site.heads] == ["HEAD", "GET", "GET", "HEAD", "HEAD"]


async def test_a_block_is_cut_short_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "LONGEST", 0.0)
    async with stage(concurrency=1) as site:
        site.go_on.clear()
        asking = asyncio.ensure_future(site.ask(0b1111))
        await site.until(lambda: len(site.heads) == 1)
        await asyncio.sleep(0.01)
        site.go_on.set()
        assert (await asking).asked == 0b1


async def test_a_block_is_cut_short_when_its_bodies_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MOST_BYTES", 8)
    async with stage(concurrency=1) as site:
        response = await site.ask(0b1111, method="GET")
        assert response.asked == 0b11
        assert response.body == b"bodybody"


async def test_a_hold_leaves_what_has_not_started_and_waits_for_what_has() -> None:
    async with stage(concurrency=2) as site:
        site.go_on.clear()
        asking = asyncio.ensure_future(site.ask(0b1111))
        await site.until(lambda: len(site.heads) == 2)
        await site.throttle.look(is_paused=True)
        assert site.throttle.held is not None
        assert site.throttle.held.reason is HoldReason.PAUSED
        site.go_on.set()
        assert (await asking).asked == 0b11
        assert (await site.ask(0b1)).asked == 0


async def test_a_budget_of_requests_is_kept_to_the_tile() -> None:
    async with stage(budget=Budget(requests=5)) as site:
        response = await site.ask(mask_of(range(20)))
        assert response.asked.bit_count() == len(site.heads) == 5
        assert site.throttle.lacking == "requests"


async def test_a_mistake_at_a_start_ends_the_crawl_and_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as site:
        monkeypatch.setattr(site.handler, "_transfer", None)
        async with asyncio.timeout(60):
            assert (await site.ask(0b1)).asked == 0
        assert site.crawl.is_ending


async def test_a_tile_without_an_answer_has_its_failure_and_one_that_is_forbidden_is_not_asked() -> None:
    async with stage() as site:
        tiles = dict(Block(LAYER, 0, 0, -1, 0b111).tiles())
        site.answers[site.path(tiles[1])] = b""
        forbidden = f"User-agent: *\nDisallow: {site.path(tiles[2])}\n"
        site.crawl.robots.read(site.url, 200, forbidden.encode())
        answers = (await site.ask(0b111)).answers
        assert isinstance(answers[0], Answer)
        assert isinstance(answers[1], DownloadFailedError)
        assert isinstance(answers[2], IgnoreRequest)
        assert len(site.heads) == 2


async def test_a_redirect_of_a_tile_is_followed_on_the_site() -> None:
    async with stage() as site:
        (tile,) = [tile for _, tile in Block(LAYER, 0, 0, -1, 0b1).tiles()]
        site.answers[site.path(tile)] = MOVED % b"/moved.png"
        (answer,) = (await site.ask(0b1)).answers.values()
        assert isinstance(answer, Answer)
        assert answer.status == 200
        assert [head.split(" ")[:2] for head in site.heads] == [
            ["HEAD", site.path(tile)],
            ["HEAD", "/moved.png"],
        ]


async def test_a_redirected_tile_that_would_wait_in_a_pause_is_left() -> None:
    async with stage() as site:
        (tile,) = [tile for _, tile in Block(LAYER, 0, 0, -1, 0b1).tiles()]
        site.answers[site.path(tile)] = MOVED % b"/moved.png"
        site.go_on.clear()
        asking = asyncio.ensure_future(site.ask(0b1))
        await site.until(lambda: len(site.heads) == 1)
        await site.throttle.look(is_paused=True)
        site.go_on.set()
        async with asyncio.timeout(60):
            assert (await asking).asked == 0
        assert len(site.heads) == 1


@pytest.mark.parametrize("status", [b"403 Forbidden", b"404 Not Found", b"405 Method Not Allowed"])
async def test_a_tile_for_which_head_is_refused_and_all_others_are_asked_by_get(status: bytes) -> None:
    async with stage(concurrency=1) as site:
        site.refused_head = b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n"
        several = await asyncio.gather(*(site.ask_known(0b1111 << shift) for shift in (0, 4)))
        assert [(one.asked, one.gets) for one in several] == [(0b1111, 0b1111), (0b1111 << 4, 0b1111 << 4)]
        assert [head.split(" ")[0] for head in site.heads] == ["HEAD"] + ["GET"] * 8
        (known,) = (head for head in site.heads if 'If-None-Match: "1"' in head)
        assert known.split(" ")[1] == site.path(next(Block(LAYER, 0, 0, -1, 0b1).tiles())[1])


async def test_an_answer_to_head_that_comes_when_the_host_is_known_to_refuse_head_does_not_count() -> None:
    async with stage(concurrency=2) as site:
        site.refused_head = NOT_FOUND
        (_, tile) = next(Block(LAYER, 0, 0, -1, 0b10).tiles())
        site.late[site.path(tile)] = asyncio.Event()
        waiting = asyncio.ensure_future(site.ask_known(0b10))
        await site.until(lambda: len(site.heads) == 1)
        assert (await site.ask_known(0b1)).gets == 0b1
        site.late[site.path(tile)].set()
        assert (await waiting).gets == 0b10


async def test_a_host_that_has_answered_404_for_what_is_not_there_may_still_refuse_head() -> None:
    async with stage() as site:
        site.refused_head = NOT_FOUND
        assert (await site.ask(0b1)).gets == 0
        assert (await site.ask_known(0b10)).gets == 0b10
        assert [head.split(" ")[0] for head in site.heads] == ["HEAD", "HEAD", "GET"]


async def test_a_tile_that_is_gone_is_checked_by_a_get_and_all_others_are_asked_by_head() -> None:
    async with stage(concurrency=1) as site:
        (_, tile) = next(Block(LAYER, 0, 0, -1, 0b1).tiles())
        site.answers[site.path(tile)] = NOT_FOUND
        assert (await site.ask_known(0b111)).gets == 0b1
        assert [head.split(" ")[0] for head in site.heads] == ["HEAD", "GET", "HEAD", "HEAD"]


@pytest.mark.parametrize("failure", [REFUSED, UNAVAILABLE, b""], ids=["403", "503", "no answer"])
async def test_no_tile_of_a_row_that_makes_the_host_doubted_loses_an_attempt(failure: bytes) -> None:
    async with stage(concurrency=1, HOST_DOWN_AFTER=3, HOST_DOWN_PAUSE=60) as site:
        tiles = dict(Block(LAYER, 0, 0, -1, mask_of(range(7))).tiles())
        site.answers |= {site.path(tiles[bit]): failure for bit in (1, 3, 4, 5)}
        # The first one stands alone between good answers, and is asked once more, too.
        assert (await site.ask(mask_of(range(7)))).asked == 0b101
        assert len(site.heads) == 6
        assert site.throttle.held is not None
        assert site.throttle.held.reason is HoldReason.DOWN


async def test_a_host_that_asks_for_a_rest_gets_it_and_the_tiles_that_have_not_started_are_left() -> None:
    async with stage(concurrency=1) as site:
        (_, first), *_ = Block(LAYER, 0, 0, -1, 0b111).tiles()
        site.answers[site.path(first)] = (
            b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n"
        )
        response = await site.ask(0b111)
        assert response.asked == 0b1
        assert site.throttle.held is not None
        assert site.throttle.held.reason is HoldReason.RESTING


async def test_an_agent_of_several_and_headers_of_the_request_hold_for_each_tile() -> None:
    async with stage() as site:
        await site.ask(0b11, headers={"User-Agent": "one", "X-Key": "a"})
        assert all("User-Agent: one" in head and "X-Key: a" in head for head in site.heads)

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.settings import Settings

from tests.middlewares.making import run_jumping
from tileharvest.errors import BudgetError
from tileharvest.maps.description import MapDescription
from tileharvest.middlewares import redirect as redirects
from tileharvest.middlewares.redirect import TileRedirectMiddleware
from tileharvest.queue.requests import NEAR, STATE, RequestState, state_of
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.spiders.settings import suit_tiles
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.questions import TileQuestion
from tileharvest.tiles.verdict import Answer

URL = "http://map.example.net/world-day/0.png"
META = {"layer": "world-day", "tile": (-1, -2, 2), "download_slot": "map.example.net", "verbatim_url": True}


@pytest.fixture
def tested() -> TileRedirectMiddleware:
    settings = Settings()
    suit_tiles(settings)
    crawler = Crawler(Spider, settings)
    crawler.spider = Spider(name="harvesting")
    return TileRedirectMiddleware.from_crawler(crawler)


def redirect(status: int, location: str) -> Response:
    return Response(URL, status=status, headers={"Location": location})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirected_head_stays_a_head_of_the_same_tile(tested: TileRedirectMiddleware, status: int) -> None:
    request = Request(URL, method="HEAD", meta=dict(META))
    followed = tested.process_response(request, redirect(status, "/new/0.png"))
    assert isinstance(followed, Request)
    assert (followed.method, followed.url) == ("HEAD", "http://map.example.net/new/0.png")
    assert META.items() <= followed.meta.items()


def test_a_condition_is_kept_on_the_way(tested: TileRedirectMiddleware) -> None:
    request = Request(URL, headers={"If-None-Match": '"a"'}, meta=dict(META))
    followed = tested.process_response(request, redirect(302, "/new/0.png"))
    assert followed.headers[b"If-None-Match"] == b'"a"'


@pytest.mark.parametrize(
    ("own", "target", "is_followed"),
    [
        ("93.184.216.34", "93.184.216.35", True),
        ("93.184.216.34", "169.254.169.254", False),
        ("93.184.216.34", "10.0.0.1", False),
        ("127.0.0.1", "169.254.169.254", False),
        ("10.0.0.2", "10.0.0.1", True),
    ],
)
def test_a_look_without_a_harvest_is_not_led_into_a_network_of_ours(
    tested: TileRedirectMiddleware, monkeypatch: pytest.MonkeyPatch, own: str, target: str, is_followed: bool
) -> None:
    async def addresses_of(host: str) -> list[str]:
        return [own if host == "map.example.net" else target]

    async def test() -> Request:
        first = Request("http://map.example.net/overviewerConfig.js")
        near = tested.process_response(first, redirect(302, "/moved/overviewerConfig.js"))
        return await tested.process_response(near, redirect(302, "http://other.example.net/a.js"))

    monkeypatch.setattr(redirects, "addresses_of", addresses_of)
    if is_followed:
        assert asyncio.run(test()).url == "http://other.example.net/a.js"
    else:
        with pytest.raises(IgnoreRequest, match=r"http://other\.example\.net was not followed"):
            asyncio.run(test())


def test_a_redirect_to_no_place_on_the_web_is_an_answer(tested: TileRedirectMiddleware) -> None:
    response = redirect(302, "file:///etc/passwd")
    assert tested.process_response(Request(URL, meta=dict(META)), response) is response


def test_the_sixth_redirect_is_not_followed(tested: TileRedirectMiddleware) -> None:
    request = Request(URL, method="HEAD", meta=dict(META))
    for _ in range(5):
        followed = tested.process_response(request, redirect(302, "/world-day/0.png"))
        assert isinstance(followed, Request)
        request = followed
    with pytest.raises(IgnoreRequest):
        tested.process_response(request, redirect(302, "/world-day/0.png"))


def test_nothing_is_said_about_it(tested: TileRedirectMiddleware, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        tested.process_response(Request(URL, meta=dict(META)), redirect(302, "/new/0.png"))
    assert caplog.records == []


class Harvesting:
    """What the middleware asks of a harvest. All missing tiles lead to one image."""

    description = MapDescription(name="m", url="http://map.example.net/")
    layers: ClassVar[dict[str, object]] = {}

    def understood(self, answer: Answer, tile: Tile) -> Answer:
        return Answer(404) if (answer.location or "").endswith("blank.png") else answer


def test_what_the_renderer_takes_for_an_answer_is_not_followed(tested: TileRedirectMiddleware) -> None:
    crawl_of(tested.crawler).harvest = Harvesting()  # type: ignore[assignment]
    question = TileQuestion("world/flat", Tile(0, 1, -1))
    request = Request(URL, method="HEAD", meta={**META, STATE: RequestState(question)})
    missing, moved = redirect(302, "../images/blank.png"), redirect(302, "/new/0.png")
    assert tested.process_response(request, missing) is missing
    assert isinstance(tested.process_response(request, moved), Request)
    aside = Request(URL, meta={STATE: RequestState(is_aside=True)})
    assert isinstance(tested.process_response(aside, missing), Request)


OTHER, INSIDE = "http://other.example.net", "http://inside.example.net"


class Elsewhere:
    """Redirects to other sites: what their robots.txt answer in turn, and the addresses of names."""

    def __init__(self, tested: TileRedirectMiddleware, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tested = tested
        self.answers: list[int | BaseException] = []
        self.asked: list[Request] = []
        self.addresses = {
            "map.example.net": ["93.184.215.14"],
            "other.example.net": ["93.184.215.15"],
            "inside.example.net": ["10.0.0.1"],
        }
        self.ends: list[Any] = []
        crawl = crawl_of(tested.crawler)
        crawl.harvest = Harvesting()  # type: ignore[assignment]
        monkeypatch.setattr(crawl, "end", self.ends.append)
        tested.crawler.engine = SimpleNamespace(download_async=self.download)  # type: ignore[assignment]
        monkeypatch.setattr(redirects, "addresses_of", self.look_up)

    async def look_up(self, host: str) -> list[str]:
        return self.addresses.get(host, [])

    async def download(self, request: Request) -> Response:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return Response(request.url, status=answer)

    def tile(self) -> Request:
        question = TileQuestion("world/flat", Tile(0, 1, -1))
        return Request(URL, method="HEAD", meta={**META, STATE: RequestState(question, attempt=1)})

    async def follow(self, request: Request, location: str) -> Any:
        found: Any = self.tested.process_response(request, redirect(302, location))
        return await found if hasattr(found, "__await__") else found

    async def reason(self, location: str = f"{OTHER}/0.png") -> str:
        with pytest.raises(IgnoreRequest) as raised:
            await self.follow(self.tile(), location)
        return str(raised.value)


@pytest.fixture
def elsewhere(tested: TileRedirectMiddleware, monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    return Elsewhere(tested, monkeypatch)


@pytest.mark.parametrize(
    "cut", [asyncio.CancelledError(), BudgetError("spent", "requests")], ids=["the end", "a spent budget"]
)
def test_a_tile_goes_back_where_its_look_at_another_host_is_cut_short(
    elsewhere: Elsewhere, cut: BaseException
) -> None:
    async def test() -> None:
        tile = elsewhere.tile()
        elsewhere.answers = [cut, 404]
        back = await elsewhere.follow(tile, f"{OTHER}/0.png")
        assert (back.url, back.method, back.dont_filter) == (URL, "HEAD", True)
        assert elsewhere.ends == ([cut] if isinstance(cut, BudgetError) else [])
        # Nothing of it is taken for what the host has said.
        assert (await elsewhere.follow(tile, f"{OTHER}/0.png")).url == f"{OTHER}/0.png"

    asyncio.run(test())


def test_a_robots_txt_that_cannot_be_read_is_asked_for_again_after_some_minutes(elsewhere: Elsewhere) -> None:
    async def test() -> None:
        elsewhere.answers = [TimeoutError("too long"), 503, 404]
        for reason in ("cannot be read (too long)", "answers 503"):
            for _ in range(2):
                assert (await elsewhere.reason()).endswith(f"its robots.txt {reason}")
            await asyncio.sleep(301)
        assert isinstance(await elsewhere.follow(elsewhere.tile(), f"{OTHER}/0.png"), Request)

    run_jumping(test())


def test_a_request_that_was_answered_by_a_redirect_was_sent(elsewhere: Elsewhere) -> None:
    async def test() -> None:
        tile = elsewhere.tile()
        with pytest.raises(IgnoreRequest):
            await elsewhere.follow(tile, f"{INSIDE}/0.png")
        assert state_of(tile).was_sent

    asyncio.run(test())


def test_no_path_leads_a_tile_into_a_network_of_ours(elsewhere: Elsewhere) -> None:
    async def test() -> None:
        for path in ("0.png", "robots.txt"):
            assert "a network that is private" in await elsewhere.reason(f"{INSIDE}/{path}")
        assert elsewhere.asked == []

    asyncio.run(test())


def test_a_map_that_leads_each_tile_to_another_site_leads_to_a_hundred_of_them(elsewhere: Elsewhere) -> None:
    async def test() -> None:
        sites = [f"http://{number}.example.com" for number in range(101)]
        elsewhere.answers = [404] * 101
        for site in sites[:100]:
            assert (await elsewhere.follow(elsewhere.tile(), f"{site}/0.png")).url == f"{site}/0.png"
        reason = await elsewhere.reason(f"{sites[100]}/0.png")
        assert reason == "a redirect to more than 100 other sites was not followed"
        assert [request.url for request in elsewhere.asked] == [f"{site}/robots.txt" for site in sites[:100]]
        # Those that are known are followed still.
        assert (await elsewhere.follow(elsewhere.tile(), f"{sites[0]}/1.png")).url == f"{sites[0]}/1.png"

    asyncio.run(test())


def test_a_robots_txt_may_lie_on_another_host_but_not_in_a_network_of_ours(elsewhere: Elsewhere) -> None:
    async def test() -> None:
        first = Request("http://map.example.net/robots.txt", meta={STATE: RequestState(is_aside=True)})
        second = await elsewhere.follow(first, f"{OTHER}/elsewhere.txt")
        third = await elsewhere.follow(second, f"{OTHER}/robots.txt")
        assert (second.url, third.url) == (f"{OTHER}/elsewhere.txt", f"{OTHER}/robots.txt")
        with pytest.raises(IgnoreRequest, match="private"):
            await elsewhere.follow(third, f"{INSIDE}/robots.txt")
        assert elsewhere.asked == []

    asyncio.run(test())


def test_a_request_that_another_worker_was_sent_to_a_site_with_waits_for_a_look_of_this_one(
    elsewhere: Elsewhere,
) -> None:
    async def test() -> None:
        followed = elsewhere.tile().replace(url=f"{OTHER}/0.png")
        followed.meta[NEAR] = elsewhere.addresses["map.example.net"]
        elsewhere.answers = [asyncio.CancelledError(), 404]
        looking = elsewhere.tested.process_request(followed)
        assert looking is not None
        assert isinstance(await looking, Request)
        assert not state_of(followed).was_sent
        looking = elsewhere.tested.process_request(followed)
        assert looking is not None
        assert await looking is None
        assert state_of(followed).was_sent
        assert elsewhere.tested.process_request(followed) is None

    asyncio.run(test())


def test_what_nobody_knows_of_a_name_is_left_to_who_connects(elsewhere: Elsewhere) -> None:
    """A name server that fails at first may tell a connection something else."""

    async def test() -> None:
        elsewhere.addresses["other.example.net"], elsewhere.answers = [], [404]
        followed = await elsewhere.follow(elsewhere.tile(), f"{OTHER}/0.png")
        near = elsewhere.addresses["map.example.net"]
        assert [request.meta[NEAR] for request in (*elsewhere.asked, followed)] == [near, near]

    asyncio.run(test())


def test_a_map_of_a_network_is_looked_up_again_where_its_own_name_was_not_found(elsewhere: Elsewhere) -> None:
    async def test() -> None:
        del elsewhere.addresses["map.example.net"]
        assert "the map's own host is not known" in await elsewhere.reason(f"{INSIDE}/0.png")
        elsewhere.addresses["map.example.net"], elsewhere.answers = ["10.0.0.7"], [404]
        assert (await elsewhere.follow(elsewhere.tile(), f"{INSIDE}/0.png")).url == f"{INSIDE}/0.png"

    asyncio.run(test())

from __future__ import annotations

import logging
from typing import ClassVar

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.settings import Settings

from tileharvest.maps.description import MapDescription
from tileharvest.middlewares.redirect import TileRedirectMiddleware
from tileharvest.queue.requests import STATE, RequestState
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
    followed = tested.process_response(request, redirect(302, "https://other.example.net/0.png"))
    assert followed.headers[b"If-None-Match"] == b'"a"'


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

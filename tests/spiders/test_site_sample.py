"""The asking for a sample, of sites whose size is counted here."""

from __future__ import annotations

import asyncio
import io
import random
from hashlib import sha1
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from scrapy.http import Response

from tests.harvest.test_sample import Pyramid, island, roads
from tileharvest.errors import ConfigurationError, SiteError, TileHarvestError
from tileharvest.politeness.rules import Rules
from tileharvest.spiders.site_sample import SiteSampleSpider
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.pyramid import Pyramid as Form

if TYPE_CHECKING:
    from scrapy import Request

LOOKED = 3
"""Requests that the look at the site has taken."""
DESCRIPTION: Any = SimpleNamespace(first="get", name="small", zooms=None, zones=(), max_depth=None, blank=())


class Layers:
    """A site that answers for the tiles of these pyramids."""

    def __init__(
        self,
        *pyramids: Pyramid,
        status: int = 404,
        seeds: tuple[Tile, ...] = (),
        blank: bytes = b"",
        renderer: str = "overviewer",
    ) -> None:
        self.spider: SiteSampleSpider
        self.tiles = sum(len(pyramid.sizes) for pyramid in pyramids)
        self.pyramids = pyramids
        self._missing = status
        """The status for a tile that is not there."""
        self.failing: Tile | None = None
        """A tile of which the site gives no usable answer."""
        self.blank = blank
        """What is sent in place of such a tile; with it the site tells no state of any tile."""
        layers = [
            SimpleNamespace(
                name=str(place),
                pyramid=Form.endless(one.depth, seeds) if seeds else Form(one.depth),
                host="h",
                addresses=SimpleNamespace(url_of=f"http://h/{place}/{{}}".format),
            )
            for place, one in enumerate(pyramids)
        ]
        self.site: Any = SimpleNamespace(layers=layers, renderer=renderer, answers_head=True)

    async def download_async(self, request: Request) -> Response:
        self.spider.count()
        place, name = request.url.split("/")[-2:]
        size = self.pyramids[int(place)].sizes.get(Tile.parse(name))
        if self.blank:
            body = self.blank if size is None else b"x" * size
            headers = {"Content-Length": str(len(body))}
            return Response(request.url, headers=headers, body=body if request.method == "GET" else b"")
        if size is None or Tile.parse(name) == self.failing:
            return Response(request.url, status=self._missing if size is None else 503)
        return Response(request.url, headers={"Content-Length": str(size), "ETag": f'"{name}"'})

    def sampled(self, requests: int | None, description: Any = DESCRIPTION) -> SiteSampleSpider:
        async def ask() -> SiteSampleSpider:
            self.spider = spider = SiteSampleSpider(description, Rules("h", 4), requests, random.Random(1))
            spider.crawler = SimpleNamespace(engine=self)  # type: ignore[assignment]
            spider.made = LOOKED
            spider.plan = await spider.sample(self.site)
            return spider

        return asyncio.run(ask())


@pytest.mark.parametrize("requests", [260, 400, 1000])
def test_no_more_is_asked_than_allowed_of_all_layers_together(requests: int) -> None:
    layers = Layers(island(3, 5), island(7, 50), roads(6))
    spider = layers.sampled(requests)
    assert spider.plan is not None
    assert requests / 2 < spider.made <= requests
    assert not spider.plan.is_exact


def test_a_map_of_several_layers_is_counted_exactly_where_the_requests_suffice() -> None:
    layers = Layers(island(3, 5), island(4, 8))
    spider = layers.sampled(600)
    assert spider.plan is not None
    assert spider.plan.is_exact
    assert spider.plan.expected.tiles == layers.tiles
    assert spider.made == spider.plan.expected.requests


def test_a_map_of_which_a_tile_gives_no_usable_answer_is_not_counted_exactly() -> None:
    layers = Layers(island(4, 8))
    layers.failing = next(tile for tile in layers.pyramids[0].sizes if tile.zoom == -1)
    spider = layers.sampled(600)
    assert spider.plan is not None
    assert not spider.plan.is_exact
    assert len(spider.failures) == 1
    assert spider.plan.expected.tiles < layers.tiles


def test_a_map_of_many_layers_is_asked_more_than_usual() -> None:
    layers = Layers(*[island(5, 12)] * 8)
    assert 200 < layers.sampled(None).made <= LOOKED + 8 * 40


def test_what_would_suffice_is_told() -> None:
    layers = Layers(island(5, 12), island(6, 20))
    with pytest.raises(ConfigurationError, match=f"--requests 90 .* write --requests {LOOKED + 96}, or more"):
        layers.sampled(90)
    layers.sampled(LOOKED + 96)


def test_a_site_of_which_too_much_fails_is_not_planned() -> None:
    layers = Layers(island(6, 30), status=503)
    with pytest.raises(SiteError, match=r"no usable answer \(503 Service Unavailable\), nor do others"):
        layers.sampled(None)


def test_a_site_that_does_not_answer_head_as_it_should_is_asked_nothing() -> None:
    layers = Layers(island(6, 30))
    layers.site.answers_head = False
    with pytest.raises(TileHarvestError, match=r"does not answer HEAD as it should, .* with a budget"):
        layers.sampled(None)
    assert layers.spider.made == LOOKED


def test_a_site_that_redirects_the_requests_for_its_tiles_is_not_planned() -> None:
    """Each tile would take two requests, of which one was not allowed."""
    layers = Layers(island(6, 30), status=301)
    with pytest.raises(TileHarvestError, match=r"redirects the requests for its tiles, .* with a budget"):
        layers.sampled(None)


def blank_png() -> bytes:
    body = io.BytesIO()
    Image.new("RGBA", (128, 128)).save(body, "PNG")
    return body.getvalue()


@pytest.mark.parametrize("renderer", ["xyz", "dynmap"])
def test_blank_images_are_no_tiles_but_cost_a_request_and_their_bytes(renderer: str) -> None:
    """maps.toml names that of plain tiles. Older servers of Dynmap send it without an ETag."""
    blank = blank_png()
    layers = Layers(island(4, 8), blank=blank, renderer=renderer)
    hashes = (sha1(blank).hexdigest(),) if renderer == "xyz" else ()
    description = SimpleNamespace(**{**vars(DESCRIPTION), "first": "head", "blank": hashes})
    spider = layers.sampled(600, description)
    assert spider.plan is not None
    assert spider.plan.is_exact
    there, expected = [size for one in layers.pyramids for size in one.sizes.values()], spider.plan.expected
    assert expected.tiles == len(there)
    assert expected.missing > 0
    assert expected.requests == LOOKED + 2 * (len(there) + expected.missing) == spider.made
    assert expected.received_bytes == sum(there) + expected.missing * len(blank)


@pytest.mark.parametrize("requests", [130, 200])
def test_no_more_is_asked_than_allowed_where_each_tile_takes_two_requests(requests: int) -> None:
    layers = Layers(island(7, 50), blank=blank_png(), renderer="dynmap")
    spider = layers.sampled(requests)
    assert spider.made <= requests
    with pytest.raises(ConfigurationError, match="--requests 70 are too few"):
        layers.sampled(70)
    assert layers.spider.made <= 70


def test_where_nobody_says_how_far_a_layer_reaches_its_top_is_searched_first() -> None:
    """Six tiles in a row, of which the walk begins with one, and the 18 places around them."""
    row = {Tile.at(-1, column, 0): 1000 for column in range(6)}
    below = {child: 100 for tile in row for child in tile.children()}
    layers = Layers(Pyramid(2, row | below), seeds=(Tile.at(-1, 0, 0),))
    spider = layers.sampled(300)
    assert spider.plan is not None
    assert spider.plan.is_exact
    assert spider.plan.expected.tiles == layers.tiles == 30
    assert spider.made == spider.plan.expected.requests == LOOKED + 24 + 24


def test_of_a_top_that_is_too_large_to_be_searched_the_rest_is_estimated() -> None:
    row = {Tile.at(-1, column, 0): 1000 for column in range(200)}
    below = {child: 100 for tile in row for child in tile.children()}
    layers = Layers(Pyramid(2, row | below), seeds=(Tile.at(-1, 0, 0),))
    spider = layers.sampled(200)
    assert spider.made <= 200
    assert spider.plan is not None
    assert not spider.plan.is_exact

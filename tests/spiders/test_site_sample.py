"""The asking for a sample, of sites whose size is counted here."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
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
DESCRIPTION: Any = SimpleNamespace(first="get", name="small", zooms=None, zones=(), max_depth=None)


class Layers:
    """A site that answers for the tiles of these pyramids."""

    def __init__(self, *pyramids: Pyramid, status: int = 404, seeds: tuple[Tile, ...] = ()) -> None:
        self.spider: SiteSampleSpider
        self.tiles = sum(len(pyramid.sizes) for pyramid in pyramids)
        self._pyramids = pyramids
        self._missing = status
        """The status for a tile that is not there."""
        layers = [
            SimpleNamespace(
                name=str(place),
                pyramid=Form.endless(one.depth, seeds) if seeds else Form(one.depth),
                host="h",
                addresses=SimpleNamespace(url_of=f"http://h/{place}/{{}}".format),
            )
            for place, one in enumerate(pyramids)
        ]
        self.site: Any = SimpleNamespace(layers=layers, renderer="overviewer", answers_head=True)

    async def download_async(self, request: Request) -> Response:
        self.spider.count()
        place, name = request.url.split("/")[-2:]
        size = self._pyramids[int(place)].sizes.get(Tile.parse(name))
        if size is None:
            return Response(request.url, status=self._missing)
        return Response(request.url, headers={"Content-Length": str(size)})

    def sampled(self, requests: int | None) -> SiteSampleSpider:
        async def ask() -> SiteSampleSpider:
            self.spider = spider = SiteSampleSpider(DESCRIPTION, Rules("h", 4), requests, random.Random(1))
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

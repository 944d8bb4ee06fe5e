"""The asking for a sample, of sites whose size is counted here."""

import asyncio
import io
from hashlib import sha1
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image
from scrapy import Request
from scrapy.http import Response

from tests.harvest.test_plan import Pyramid, island
from tileharvest.errors import SiteError, TileHarvestError
from tileharvest.history.costs import CostMeter
from tileharvest.politeness.rules import Rules
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.spiders.site_probe import SiteProbeSpider
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.pyramid import Pyramid as Form

LOOKED = 3
"""Requests that the look at the site has taken."""
DESCRIPTION: Any = SimpleNamespace(first="get", name="small", zooms=None, zones=(), blank=())


class Layers:
    """A site that answers for the tiles of these pyramids."""

    def __init__(
        self,
        *pyramids: Pyramid,
        status: int = 404,
        blank: bytes = b"",
        renderer: str = "overviewer",
    ) -> None:
        self.spider: SiteProbeSpider
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
                pyramid=Form(one.depth),
                host="h",
                addresses=SimpleNamespace(url_of=f"http://h/{place}/{{}}".format),
            )
            for place, one in enumerate(pyramids)
        ]
        self.site: Any = SimpleNamespace(layers=layers, renderer=renderer, answers_head=True)

    async def download_async(self, request: Request) -> Response:
        crawl_of(self.spider.crawler).cost_meter.requests += 1
        place, name = request.url.split("/")[-2:]
        size = self.pyramids[int(place)].sizes.get(Tile.parse(name))
        if self.blank:
            body = self.blank if size is None else b"x" * size
            headers = {"Content-Length": str(len(body))}
            return Response(request.url, headers=headers, body=body if request.method == "GET" else b"")
        if size is None or Tile.parse(name) == self.failing:
            return Response(request.url, status=self._missing if size is None else 503)
        return Response(request.url, headers={"Content-Length": str(size), "ETag": f'"{name}"'})

    def sampled(self, description: Any = DESCRIPTION) -> SiteProbeSpider:
        async def ask() -> SiteProbeSpider:
            self.spider = spider = SiteProbeSpider(description, Rules("h", 4))
            crawl = SimpleNamespace(cost_meter=CostMeter(requests=LOOKED))
            spider.crawler = SimpleNamespace(engine=self, tileharvest=crawl)  # type: ignore[assignment]
            spider.plan = await spider.sample(self.site)
            return spider

        return asyncio.run(ask())


def test_about_two_hundred_tiles_are_asked_of_all_layers_together() -> None:
    spider = Layers(island(3, 5), island(7, 50), island(7, 30)).sampled()
    assert spider.plan is not None
    assert 100 < spider.made <= LOOKED + 200
    assert not spider.plan.is_exact


def test_a_small_map_is_counted_exactly_and_the_same_each_time() -> None:
    layers = Layers(island(3, 5), island(3, 6))
    spider = layers.sampled()
    assert spider.plan is not None
    assert spider.plan.is_exact
    assert spider.plan.expected.tiles == layers.tiles
    assert spider.made == spider.plan.expected.requests
    assert layers.sampled().plan == spider.plan._replace(
        **{name: getattr(layers.spider.plan, name) for name in ("expected", "most", "least")}
    )


def test_a_map_of_which_a_tile_gives_no_usable_answer_is_not_counted_exactly() -> None:
    layers = Layers(island(4, 8))
    layers.failing = next(tile for tile in layers.pyramids[0].sizes if tile.zoom == -1)
    spider = layers.sampled()
    assert spider.plan is not None
    assert not spider.plan.is_exact
    assert len(spider.failures) == 1
    assert spider.plan.expected.tiles < layers.tiles


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (503, SiteError, r"no usable answer \(503 Service Unavailable\), nor do others"),
        (301, TileHarvestError, r"redirects the requests for its tiles, .* with a budget"),
        (405, TileHarvestError, r"refuses HEAD, .* with a budget"),
    ],
)
def test_a_site_whose_tiles_cannot_be_counted_is_not_planned(
    status: int, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        Layers(island(6, 30), status=status).sampled()


def test_a_site_that_does_not_answer_head_as_it_should_is_asked_nothing() -> None:
    layers = Layers(island(6, 30))
    layers.site.answers_head = False
    with pytest.raises(TileHarvestError, match=r"does not answer HEAD as it should, .* with a budget"):
        layers.sampled()
    assert layers.spider.made == LOOKED


def blank_png() -> bytes:
    body = io.BytesIO()
    Image.new("RGBA", (128, 128)).save(body, "PNG")
    return body.getvalue()


@pytest.mark.parametrize("renderer", ["xyz", "dynmap"])
def test_blank_images_are_not_counted_as_tiles(renderer: str) -> None:
    """maps.toml names that of plain tiles. Older servers of Dynmap send it without an ETag."""
    blank = blank_png()
    layers = Layers(island(4, 8), blank=blank, renderer=renderer)
    hashes = (sha1(blank).hexdigest(),) if renderer == "xyz" else ()
    spider = layers.sampled(SimpleNamespace(**{**vars(DESCRIPTION), "first": "head", "blank": hashes}))
    assert spider.plan is not None
    assert spider.plan.is_exact
    assert spider.plan.expected.tiles == layers.tiles

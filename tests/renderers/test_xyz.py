"""Plain tiles: what a template and a TileJSON say, and what is refused."""

import asyncio
import json
from typing import Any

import pytest

from tests.servers.plain_tiles import WORLD
from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.maps.description import MapDescription, TileBounds
from tileharvest.maps.regions import Canvas, bounds_at
from tileharvest.renderers.registry import probe
from tileharvest.renderers.site import Fetched, Site
from tileharvest.renderers.xyz import mercator
from tileharvest.tiles.grid import Tile, TileRange, Zone
from tileharvest.tiles.layers import Layer
from tileharvest.walk.walk import Walk

TEMPLATE = "https://tiles.example.net/snow/{z}/{x}/{y}.png"
TILE_JSON = "https://tiles.example.net/services/snow/tiles.json"
ALL = (-180, -90, 180, 90)
SWITZERLAND = (5.95, 45.81, 10.5, 47.81)


def site(url: str = TEMPLATE, answer: str | None = None, status: int = 200, **keys: Any) -> Site:
    """What is read of an entry. `answer` is what is at its address; without one nothing may be asked."""
    asked = []

    async def fetch(method: str, asked_url: str) -> Fetched:
        asked.append((method, asked_url))
        return Fetched(status, (answer or "").encode(), asked_url)

    found = asyncio.run(probe(MapDescription(name="m", url=url, **keys), fetch))
    assert asked == ([] if answer is None else [("GET", url)])
    return found


def layer(url: str = TEMPLATE, answer: str | None = None, **keys: Any) -> Layer:
    (found,) = site(url, answer, **keys).layers
    return found


def tile_json(**changed: Any) -> str:
    said = {"tilejson": "3.0.0", "tiles": [TEMPLATE], "minzoom": 4, "maxzoom": 9, "bounds": SWITZERLAND}
    return json.dumps({key: value for key, value in (said | changed).items() if value is not None})


@pytest.mark.parametrize(
    ("bounds", "zoom", "expected"),
    [
        *((bounds, zoom, (0, 2**zoom - 1, 0, 2**zoom - 1)) for bounds in (WORLD, ALL) for zoom in (0, 3, 12)),
        # A tile of which only the edge belongs to the bounds is left out, as a program rounds it.
        ((0.0000001, 0, 90.0000001, 66.51326), 2, (2, 2, 1, 1)),
        ((13.405, 52.52, 13.405, 52.52), 9, (275, 275, 167, 167)),
    ],
)
def test_which_tiles_bounds_have(
    bounds: tuple[float, float, float, float], zoom: int, expected: tuple[int, ...]
) -> None:
    assert bounds_at(bounds, zoom) == expected


def test_a_template_costs_no_request_and_has_one_layer_called_by_its_deepest_zoom() -> None:
    found = layer(bounds=SWITZERLAND, site_zooms=(4, 9))
    assert (found.name, found.depth, found.image_extension) == ("zoom9", 6, "png")
    assert (found.tile_size, found.host) == ((256, 256), "tiles.example.net")
    x_from, x_to, y_from, y_to = bounds_at(SWITZERLAND, 9)
    assert found.pyramid.range_at(0) == TileRange.between(Tile.at(0, x_from, y_from), Tile.at(0, x_to, y_to))
    first = [found.addresses.url_of(tile) for tile in Walk(found.pyramid).start()]
    assert first == ["https://tiles.example.net/snow/4/8/5.png"]


def test_bounds_in_tiles_are_those_tiles_and_lie_nowhere_on_earth() -> None:
    found = layer(bounds=TileBounds(zoom=2, x=(-2, 1), y=(-1, 0)), site_zooms=(2, 5))
    first = {found.addresses.url_of(tile) for tile in Walk(found.pyramid).start()}
    assert first == {f"https://tiles.example.net/snow/2/{x}/{y}.png" for x in range(-2, 2) for y in (-1, 0)}
    assert len(found.pyramid.range_at(0)) == 64 * 8
    assert found.projection is None


@pytest.mark.parametrize(
    ("scheme", "url"),
    [
        ("xyz", "https://tiles.example.net/snow/4/8/5.png"),
        ("tms", "https://tiles.example.net/snow/4/8/10.png"),
    ],
)
def test_a_tile_json_says_all(scheme: str, url: str) -> None:
    found = layer(TILE_JSON, tile_json(scheme=scheme, name="Snow", tileSize=512))
    assert (found.name, found.depth, found.world, found.tile_size) == ("zoom9", 6, "Snow", (512, 512))
    assert found.addresses.url_of(Tile.at(-5, 8, 5)) == url
    assert found.addresses.tile_of(url) == Tile.at(-5, 8, 5)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "nobody says which zooms .* write for example site_zooms = "),
        ({"bounds": SWITZERLAND}, "nobody says which zooms"),
        ({"site_zooms": (0, 9)}, r"nobody says how far .* the world has 262,144 of zoom 9: write bounds = "),
        (
            {"site_zooms": (14, 16), "bounds": WORLD},
            r"the 268,435,456 tiles of zoom 14, .* by .* or by zones, .* site_zooms = \[11, 16\]",
        ),
        ({"site_zooms": (0, 3), "bounds": TileBounds(zoom=5, x=(0, 1), y=(0, 1))}, "no deeper one than 3"),
        ({"url": "https://h/{x}/{y}.png"}, r"has no \{z\}, so it is a canvas .* write how many tiles"),
        *(
            ({"url": TILE_JSON, "answer": answer, **keys}, message)
            for answer, keys, message in (
                ('{"tilejson": "3.0.0", ', {}, "is not as a TileJSON is written"),
                (tile_json(tiles=[]), {}, r"tiles is \[\]"),
                (tile_json(scheme="zyx"), {}, "scheme is zyx: expected xyz or tms"),
                (tile_json(tiles=["https://h/{z}/{x}.png"]), {}, "has tiles at 'https://h/{z}/{x}.png': a "),
                (
                    tile_json(),
                    {"site_zooms": (10, 12)},
                    "none of the site's zooms 4 to 9 is among site_zooms",
                ),
                (tile_json(), {"site_zooms": (0, 3)}, "none of the site's zooms 4 to 9 is among site_zooms"),
                (tile_json(maxzoom=30), {}, "names zoom 30, and kept is what lies between 0 and 24"),
                # By the specification these would be all of the world, and zoom 30.
                (tile_json(bounds=None), {}, "nobody says how far"),
                (tile_json(maxzoom=None), {}, "nobody says which zooms"),
                (tile_json(tileSize=4096), {}, "its tiles have 4,096 x 4,096 pixels, and 8,388,608 are the"),
                (tile_json(tiles=["https://h/{z}/{x}/{y}.pbf"]), {}, "kept are PNG, JPEG and WebP"),
            )
        ),
    ],
)
def test_tiles_that_cannot_be_kept_are_refused_with_what_to_write(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(TileHarvestError, match=message):
        site(**keys)


@pytest.mark.parametrize(
    ("url", "answer", "tells"),
    [
        (TEMPLATE, None, ("png", 256, False)),
        (TEMPLATE.replace("{y}.png", "{y}@2x.webp"), None, ("webp", 512, True)),
        (TEMPLATE.replace("{y}.png", "{y}.jpeg"), None, ("jpg", 256, False)),
        (TEMPLATE.replace("{y}.png", "{y}.aspx"), None, ("png", 256, False)),
        (TILE_JSON, tile_json(tiles=["../{z}/{x}/{y}.webp"]), ("webp", 256, False)),
        (TILE_JSON, tile_json(tileSize=512), ("png", 512, True)),
    ],
)
def test_the_kind_of_image_is_that_of_the_address_and_the_size_is_what_is_said(
    url: str, answer: str | None, tells: tuple[str, int, bool]
) -> None:
    keys = {} if answer else {"bounds": SWITZERLAND, "site_zooms": (4, 9)}
    found = layer(url, answer, **keys)
    assert (found.image_extension, found.tile_size[0], found.tells_size) == tells


@pytest.mark.parametrize("keys", [{"bounds": SWITZERLAND}, {"site_zooms": (0, 5)}])
def test_of_another_renderers_map_they_limit_nothing_and_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="of a map of Mapcrafter keep a part by zones and zooms"):
        site("https://h/map/", renderer="mapcrafter", **keys)


CANVAS = "https://canvas.example.net/tiles/{x}/{y}.png"
ZONE = Zone(center=(2, -2), width=2, height=2, zoom=0)


def test_an_address_without_a_zoom_is_a_canvas_of_one_zoom() -> None:
    found = layer(CANVAS, canvas=Canvas(tiles=(40, 20), tile=1000))
    assert (found.depth, found.tile_size, found.tells_size) == (1, (1000, 1000), True)
    assert found.pyramid.range_at(0) == TileRange.between(Tile.at(0, 0, 0), Tile.at(0, 39, 19))
    url = "https://canvas.example.net/tiles/39/19.png"
    assert found.addresses.url_of(Tile.at(0, 39, 19)) == url
    assert found.addresses.tile_of(url) == Tile.at(0, 39, 19)
    # A pixel counts as a block.
    assert found.projection is not None
    assert found.projection.place_at(3, -1) == pytest.approx((1500, 500))


def test_wplace_is_known_by_its_host_and_lies_on_the_earth() -> None:
    url = "https://backend.wplace.live/files/s0/tiles/{x}/{y}.png"
    found = layer(url)
    assert (found.name, found.tile_size) == ("zoom11", (1000, 1000))
    assert found.projection == mercator(11)
    assert Walk(found.pyramid).start_size == 4_194_304


def test_a_canvas_that_no_walk_could_go_through_is_refused_unless_zones_keep_a_part_of_it() -> None:
    larger = Canvas(tiles=(2048, 2049))
    assert layer(CANVAS, canvas=larger, zones=(ZONE,)).depth == 1
    with pytest.raises(ConfigurationError, match=r"would begin with the 4,196,352 tiles .* or by zones"):
        layer(CANVAS, canvas=larger)

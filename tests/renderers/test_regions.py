"""What squaremap and Pl3xMap have in common: where tiles lie, where a search begins, and what is missing."""

from __future__ import annotations

import asyncio
import json
from math import floor
from typing import TYPE_CHECKING

import pytest

from tests.renderers.sites import PAGE
from tileharvest.errors import SiteError
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.columns import ColumnAddresses
from tileharvest.renderers.pl3xmap import Pl3xMap
from tileharvest.renderers.regions import BLOCKS, Place, endless_pyramid
from tileharvest.renderers.site import Fetched
from tileharvest.renderers.squaremap import Squaremap
from tileharvest.tiles.grid import Tile
from tileharvest.walk.walk import Walk

if TYPE_CHECKING:
    from tileharvest.renderers.site import Site

FOLDER = f"{PAGE}tiles/minecraft_overworld"
SQUAREMAP = ColumnAddresses(FOLDER, "/{zoom}/{x}_{y}.png", 4, deepest=3, step=1)
PL3XMAP = ColumnAddresses(f"{PAGE}tiles/minecraft-overworld", "/{zoom}/basic/{x}_{y}.png", 4)

BLOCKS_AT = [(0, 0), (511, 511), (-1, -1), (-399, 78), (512, -513), (100_000, -30_000)]


@pytest.mark.parametrize(("x", "z"), BLOCKS_AT)
@pytest.mark.parametrize("out", range(4))
def test_a_block_is_in_the_tile_that_the_renderers_formula_names(x: int, z: int, out: int) -> None:
    """A tile is 512 * 2^n blocks wide n levels from the deepest. `Image.java` of squaremap: the region's x /
    2^n, rounded down; `TileImage.java` of Pl3xMap: x >> n. squaremap counts levels from the coarsest."""
    column, row = floor(x / (512 * 2**out)), floor(z / (512 * 2**out))
    tile = Tile.at(-out, column, row)
    assert SQUAREMAP.url_of(tile) == f"{FOLDER}/{3 - out}/{column}_{row}.png"
    assert PL3XMAP.url_of(tile) == f"{PAGE}tiles/minecraft-overworld/{out}/basic/{column}_{row}.png"
    right, up = BLOCKS.point_of(x, z)
    assert abs(right - tile.x) <= tile.reach
    assert abs(up - tile.y) <= tile.reach
    assert BLOCKS.block_at(right, up) == (x, z)


@pytest.mark.parametrize("addresses", [SQUAREMAP, PL3XMAP])
def test_a_tile_is_drawn_between_the_blocks_at_its_corners(addresses: ColumnAddresses) -> None:
    tile = addresses.tile_of(addresses.url_of(Tile.at(-2, -3, 1)))
    assert tile is not None
    left_top = BLOCKS.block_at(tile.x - tile.reach, tile.y + tile.reach)
    right_bottom = BLOCKS.place_at(tile.x + tile.reach, tile.y - tile.reach)
    assert left_top == (-3 * 2048, 1 * 2048)
    assert right_bottom == (-2 * 2048, 2 * 2048)


def columns_and_rows(tiles: tuple[Tile, ...]) -> set[tuple[int, int]]:
    return {(tile.column, tile.row) for tile in tiles}


def test_the_search_begins_around_the_origin_and_the_spawn() -> None:
    """A coarsest tile of four levels is 4,096 blocks wide."""
    spawn = Place(x=41_000, z=-4097)
    pyramid = endless_pyramid(4, [spawn])
    around_origin = {(x, y) for x in range(-2, 2) for y in range(-2, 2)}
    around_spawn = {(x, y) for x in (9, 10, 11) for y in (-3, -2, -1)}
    assert columns_and_rows(pyramid.start()) == around_origin | around_spawn


def test_land_beyond_one_place_without_any_is_found_and_farther_away_it_is_not() -> None:
    pyramid = endless_pyramid(4, [])
    walk = Walk(pyramid)
    assert walk.goes_sideways
    found = columns_and_rows(pyramid.beside(Tile.at(-3, -1, -1)))
    assert {(-3, -2), (1, 1)} <= found
    assert (-4, -1) not in found


@pytest.mark.parametrize("levels", [0, 17, 10**9])
def test_a_map_of_more_levels_than_the_world_is_wide_is_refused(levels: int) -> None:
    with pytest.raises(ValueError, match="where 1 to 16 can be"):
        endless_pyramid(levels, [])


def probed(renderer: Squaremap | Pl3xMap, *bodies: bytes) -> tuple[Site, list[str]]:
    """A look at a site whose files are these, one after the other; and what was asked."""
    asked: list[str] = []

    async def fetch(method: str, url: str) -> Fetched:
        asked.append(url.removeprefix(PAGE))
        return Fetched(200, bodies[len(asked) - 1], url)

    description = MapDescription(name="m", url=PAGE)
    return asyncio.run(renderer.probe(description, fetch)), asked


WORLDS = json.dumps({"worldSettings": [{"name": "minecraft-w", "renderers": [{"label": "basic"}]}]}).encode()
WORLD = json.dumps({"zoom": {"maxOut": 3}}).encode()


def test_a_file_that_is_being_written_is_read_again() -> None:
    """Pl3xMap empties each of its two files once a second, and writes it anew (`FileUtil.java`)."""
    site, asked = probed(Pl3xMap(), b"", WORLDS[:40], WORLDS, WORLD[:-2], WORLD)
    assert [layer.name for layer in site.layers] == ["minecraft-w/basic"]
    assert asked == ["tiles/settings.json"] * 3 + ["tiles/minecraft-w/settings.json"] * 2


def test_a_file_that_stays_cut_off_is_told() -> None:
    with pytest.raises(SiteError, match=r"tiles/settings\.json is cut off or damaged"):
        probed(Pl3xMap(), *[WORLDS[:40]] * 3)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<!doctype html><title>Map</title>", "there is no .*/tiles/settings.json"),
        (b'{"worlds": [{"title": "w"}]}', "not as squaremap writes it: .*name"),
        (b'{"worlds": []}', "has no layer"),
    ],
)
def test_what_squaremap_has_not_written_is_refused_with_what_is_wrong(body: bytes, message: str) -> None:
    with pytest.raises(SiteError, match=message):
        probed(Squaremap(), body)


@pytest.mark.parametrize("zoom", ["-1", "40", '"3"', "null"])
def test_a_world_whose_zooms_cannot_be_is_refused(zoom: str) -> None:
    world = f'{{"zoom": {{"max": {zoom}}}}}'.encode()
    with pytest.raises(SiteError, match=r"tiles/w/settings\.json"):
        probed(Squaremap(), b'{"worlds": [{"name": "w"}]}', world)

"""Modules of the page alone, against the server's arithmetic and against Overviewer's formulas."""

from __future__ import annotations

import random
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileharvest.renderers.overviewer import projection_of
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from tests.browser.conftest import Call


def some_tiles() -> list[Tile]:
    """Tiles of all zooms near the centre and far out, beyond 32 bits."""
    chance = random.Random(1)
    tiles = [Tile(0, 1, 1), Tile(0, -1, -1), Tile(-3, -440, 216), Tile(-3, 8, -8)]
    for _ in range(400):
        zoom = -chance.randrange(0, 30)
        reach = 1 << chance.randrange(0, 45 + zoom)
        x, y = (2 * chance.randrange(-reach, reach) + 1 for _ in "xy")
        tiles.append(Tile(zoom, x << -zoom, y << -zoom))
    return tiles


def as_object(tile: Tile) -> dict[str, int]:
    return {"zoom": tile.zoom, "x": tile.x, "y": tile.y}


def test_the_grid_is_the_servers(call: Call) -> None:
    """Names, ancestors, and the tile at a point."""
    tiles, chance = some_tiles(), random.Random(2)
    plain = [[as_object(tile)] for tile in tiles]
    assert call("grid.js", "tileName", plain) == [str(tile) for tile in tiles]
    assert call("grid.js", "parseTile", [[str(tile)] for tile in tiles]) == [one for (one,) in plain]
    for up in (0, 1, 3, 5):
        found = call("grid.js", "ancestor", [[as_object(tile), up] for tile in tiles])
        assert found == [as_object(tile.ancestor(up)) for tile in tiles]
    reaches = [(1 << bits, -zoom) for bits in range(1, 40) for zoom in range(0, bits, 3)]
    points = [[chance.uniform(-reach, reach), chance.uniform(-reach, reach), zoom] for reach, zoom in reaches]
    for (x, y, zoom), found in zip(points, call("grid.js", "tileAt", points), strict=True):
        tile = Tile(**found)
        assert tile.zoom == zoom
        assert max(abs(x - tile.x), abs(y - tile.y)) <= tile.reach


def test_a_chunk_is_the_16_by_16_tiles_that_share_an_ancestor(call: Call) -> None:
    tiles = [tile for tile in some_tiles() if tile.zoom > -25][:40]
    chunks = call("grid.js", "chunkOf", [[as_object(tile)] for tile in tiles])
    for tile, chunk in zip(tiles, chunks, strict=True):
        above, reach = tile.ancestor(4), 15 * tile.reach
        across = {"xFrom": above.x - reach, "xTo": above.x + reach}
        assert chunk == {"zoom": tile.zoom, **across, "yFrom": above.y - reach, "yTo": above.y + reach}


def block_at(north: int, levels: int, size: int, lng: Fraction, lat: Fraction) -> dict[str, int]:
    """The block at height 64 at these fractions of a map, as Overviewer's `fromLatLngToWorld` says."""
    per_pixel = Fraction(1, size * 2**levels)
    lng -= Fraction(1, 2) - Fraction(1, 2 ** (levels + 1))
    lat -= Fraction(1, 2)
    x = floor((lng - 2 * lat) / (24 * per_pixel)) + 256 - 64
    z = floor((lng + 2 * lat) / (24 * per_pixel)) - (256 - 64)
    x, z = {0: (x, z), 1: (z, -x + 15), 2: (-x + 15, -z + 15), 3: (-z + 15, x)}[north]
    return {"x": x, "z": z}


@pytest.mark.parametrize(("north", "levels", "size"), [(0, 1, 384), (1, 7, 256), (2, 17, 384), (3, 7, 384)])
def test_a_block_is_where_overviewers_page_shows_it(call: Call, north: int, levels: int, size: int) -> None:
    # Odd numerators over a prime lie on no block's edge, where doubles and fractions may part.
    chance = random.Random(4)
    places = [[Fraction(chance.randrange(1, 10_000_019), 10_000_019) for _ in "xy"] for _ in range(40)]
    blocks = [block_at(north, levels, size, lng, lat) for lng, lat in places]
    layout = {"projection": msgspec.to_builtins(projection_of(size, north))}
    half = Fraction(1, 2)
    # Grid units count from the middle of the map, of which each half has 2^levels of them.
    units = 2 ** (levels + 1)
    points = [
        [{"x": float((lng - half) * units), "y": -float((lat - half) * units)}, layout] for lng, lat in places
    ]
    assert call("projection.js", "blockAt", points) == blocks
    back = call("projection.js", "worldToGrid", [[{**block, "y": 64}, layout] for block in blocks])
    assert call("projection.js", "blockAt", [[point, layout] for point in back]) == blocks


def test_a_block_lies_in_its_region_file(call: Call) -> None:
    regions = {(0, 0): "r.0.0.mca", (511, 512): "r.0.1.mca", (-512, -513): "r.-1.-2.mca"}
    assert call("projection.js", "regionFile", [list(block) for block in regions]) == list(regions.values())


@pytest.mark.parametrize(
    ("typed", "block"),
    [
        ("120 -340", (120, None, -340)),
        ("120.5 64 -340.5", (120.5, 64, -340.5)),
        ("X 120，Z -340", (120, None, -340)),
        ("x: 120, y: 64, z: -340", (120, 64, -340)),
        ("/teleport Alex_7 120 64 -340", (120, 64, -340)),
        ("/execute in minecraft:overworld run tp @s 120.50 64.00 -340.50 -90.15 12.40", (120.5, 64, -340.5)),
        ("r.-2.3.mca", (-768, None, 1792)),
        *((wrong, None) for wrong in ("/tp @s 1 2", "r.1.mca", "#/1/2/3", "https://e.example/1/2")),
    ],
)
def test_a_place_that_is_typed(call: Call, typed: str, block: tuple[float | None, ...] | None) -> None:
    assert call("destination.js", "blockIn", [[typed]]) == [block and dict(zip("xyz", block, strict=True))]


def test_a_number_has_the_word_that_fits_it(call: Call) -> None:
    place = {"place": "here", "days": "today"}
    cases = {
        ("areaEarlier", 1): "1 earlier day is not shown.",
        ("areaEarlier", 2): "2 earlier days are not shown.",
        ("changeMany", 1000): "1,000 tiles changed in view",
        ("eventGone", 1): "1 tile is gone around here, today",
    }
    assert call("text.js", "text", [[key, {**place, "n": n}] for key, n in cases]) == list(cases.values())
    shares = {0: "0 % changed", 0.000001: "less than 0.1 % changed", 0.104: "10 % changed"}
    assert call("text.js", "changedInWords", [[share] for share in shares]) == list(shares.values())


def test_what_a_site_writes_cannot_turn_or_hide_the_words_around_it(call: Call) -> None:
    (told,) = call("text.js", "text", [["linkNoMap", {"map": "a\u202eb\x1b\u2028c"}]])
    assert told == r"There is no map a\u{202e}b\u{1b}\u{2028}c here"


@st.composite
def spans(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, int], int]:
    """A part of a history's time, all of it, and a day in the part."""
    first, last = sorted(draw(st.tuples(st.integers(0, 30_000), st.integers(0, 30_000))))
    left, right = sorted(draw(st.tuples(st.integers(first, last), st.integers(first, last))))
    return {"from": left, "to": right}, {"from": first, "to": last}, draw(st.integers(left, right))


@given(st.lists(st.tuples(spans(), st.integers(-3, 3), st.integers(0, 30_000)), min_size=20, max_size=60))
@settings(max_examples=10)
def test_the_part_of_the_time_that_is_shown_never_leaves_the_history(call: Call, cases: list[Any]) -> None:
    asked = [[span, whole, at, turns] for (span, whole, at), turns, _ in cases]
    for (span, whole, at, turns), now in zip(asked, call("time-axis.js", "nearer", asked), strict=True):
        assert whole["from"] <= now["from"] <= now["to"] <= whole["to"]
        assert now["from"] - 1 <= at <= now["to"] + 1
        longer = (now["to"] - now["from"]) - (span["to"] - span["from"])
        assert longer * turns <= 0 or span["to"] - span["from"] < 7
    moved = [[span, min(max(day, whole["from"]), whole["to"]), whole] for (span, whole, _), _, day in cases]
    for (span, day, whole), now in zip(moved, call("time-axis.js", "including", moved), strict=True):
        assert whole["from"] <= now["from"] <= day <= now["to"] <= whole["to"]
        assert now["to"] - now["from"] == span["to"] - span["from"]

"""Modules of the page alone: arithmetic, differences, words, links, and those of the maps' own pages."""

import random
from datetime import date
from math import floor
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from playwright.sync_api import Page

from tests.browser.conftest import Call
from tests.renderers.test_places import PLACES
from tileharvest.maps.permalink import permalink
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import Projection


def as_object(tile: Tile) -> dict[str, int]:
    return {"zoom": tile.zoom, "x": tile.x, "y": tile.y}


def test_the_grid_is_the_servers(call: Call) -> None:
    """Names, ancestors, chunks of 16 by 16 tiles, and the tile at a point, near the centre and far out."""
    chance = random.Random(1)
    tiles = [Tile(0, 1, 1), Tile(0, -1, -1), Tile(-3, -440, 216), Tile(-3, 8, -8)]
    for _ in range(400):
        zoom = -chance.randrange(0, 25)
        reach = 1 << chance.randrange(0, 45 + zoom)
        x, y = (2 * chance.randrange(-reach, reach) + 1 for _ in "xy")
        tiles.append(Tile(zoom, x << -zoom, y << -zoom))
    plain = [[as_object(tile)] for tile in tiles]
    assert call("grid.js", "tileName", plain) == [str(tile) for tile in tiles]
    assert call("grid.js", "parseTile", [[str(tile)] for tile in tiles]) == [one for (one,) in plain]
    for up in (0, 1, 3, 5):
        found = call("grid.js", "ancestor", [[as_object(tile), up] for tile in tiles])
        assert found == [as_object(tile.ancestor(up)) for tile in tiles]
    for tile, chunk in zip(tiles, call("grid.js", "chunkOf", plain), strict=True):
        above, reach = tile.ancestor(4), 15 * (1 << -tile.zoom)
        across = {"xFrom": above.x - reach, "xTo": above.x + reach}
        assert chunk == {"zoom": tile.zoom, **across, "yFrom": above.y - reach, "yTo": above.y + reach}
    reaches = [(1 << bits, -zoom) for bits in range(1, 40) for zoom in range(0, bits, 3)]
    points = [[chance.uniform(-reach, reach), chance.uniform(-reach, reach), zoom] for reach, zoom in reaches]
    for (x, y, zoom), found in zip(points, call("grid.js", "tileAt", points), strict=True):
        tile = Tile(**found)
        assert tile.zoom == zoom
        assert max(abs(x - tile.x), abs(y - tile.y)) <= (1 << -tile.zoom)


CELL, SIZE = 8, 48


def compared(page: Page, before: Image.Image, after: Image.Image | None) -> tuple[list[bool], Image.Image]:
    """Which cells of two pictures differ, row by row, and the drawing of it."""
    pixels = [image and list(image.tobytes()) for image in (before, after)]
    changed, drawing = page.evaluate(_COMPARING, [pixels, SIZE])
    return list(map(bool, changed)), Image.frombytes("RGBA", before.size, bytes(drawing))


_COMPARING = """async ([pixels, size]) => {
  const { difference, drawDifference } = await import("/difference.js");
  const [before, after] = pixels.map((one) => one && new ImageData(Uint8ClampedArray.from(one), size, size));
  const found = difference(before, after);
  const output = new ImageData(size, size);
  drawDifference(before, after, found, output);
  return [[...found.changed], [...output.data]];
}"""


def test_a_cell_differs_if_its_mean_colour_or_opacity_is_more_than_5_apart(module_page: Page) -> None:
    grey = (100, 100, 100, 255)
    cases = [
        (grey, (105, 105, 105, 255), False),
        (grey, (106, 106, 105, 255), True),
        (grey, (115, 100, 100, 255), False),
        (grey, (110, 93, 100, 255), True),
        (grey, (100, 100, 100, 249), True),
        ((0, 0, 0, 255), (0, 0, 0, 250), False),
        ((200, 100, 50, 0), (10, 250, 7, 0), False),
    ]
    before, after = (Image.new("RGBA", (SIZE, SIZE), grey) for _ in range(2))
    for number, (old, new, _) in enumerate(cases):
        row, column = divmod(number, SIZE // CELL)
        box = (column * CELL, row * CELL, column * CELL + CELL, row * CELL + CELL)
        before.paste(old, box)
        after.paste(new, box)
    # Noise in the last cell, which its mean does not have.
    for x in range(SIZE - CELL, SIZE):
        after.putpixel((x, SIZE - 1), (grey[0] + (20 if x % 2 else -20),) * 3 + (255,))
    changed, _ = compared(module_page, before, after)
    rest = [False] * (len(changed) - len(cases))
    assert changed == [differs for _, _, differs in cases] + rest


def test_a_drawn_difference_has_what_changed_in_colour_with_a_line_around_it_and_the_rest_faded(
    module_page: Page,
) -> None:
    before = Image.new("RGBA", (SIZE, SIZE), (30, 160, 60, 255))
    after = before.copy()
    after.paste((200, 120, 40, 255), (0, 16, 16, 32))
    after.paste((0, 0, 0, 0), (32, 32, 48, 48))
    (cells, changed), (_, gone) = compared(module_page, before, after), compared(module_page, before, None)
    wanted = {(2, 0), (2, 1), (3, 0), (3, 1), (4, 4), (4, 5), (5, 4), (5, 5)}
    assert {divmod(number, 6) for number, cell in enumerate(cells) if cell} == wanted
    assert changed.getpixel((8, 24)) == (200, 120, 40, 255)
    # Along the picture's edge there is no line.
    line = [changed.getpixel(place) == (255, 0, 200, 255) for place in ((15, 24), (8, 16), (0, 24), (32, 40))]
    assert line == [True, True, False, True]
    red, green, blue, opacity = changed.getpixel((24, 8))
    assert red == green == blue
    assert 0 < opacity < 128
    for drawing in (changed, gone):
        red, green, blue, opacity = drawing.getpixel((42, 42))
        assert red > blue > green
        assert opacity > 128


def test_a_place_is_where_the_server_has_it(call: Call) -> None:
    for its, found in PLACES:
        layout = {"projection": msgspec.to_builtins(its)}
        # On the page whole numbers are the middles of blocks.
        places = [[{"x": x - 0.5, "y": y, "z": z - 0.5}, layout] for x, y, z in found]
        points = call("projection.js", "worldToGrid", places)
        assert [(at["x"], at["y"]) for at in points] == [pytest.approx(at, abs=1e-6) for at in found.values()]
        inside = [{"x": at["x"] + 0.1, "y": at["y"] + 0.1} for at in points]
        blocks = [dict(zip("xz", map(floor, its.place_at(**at)), strict=True)) for at in inside]
        assert call("projection.js", "blockAt", [[at, layout] for at in inside]) == blocks
    regions = {(511, 512): "r.0.1.mca", (-512, -513): "r.-1.-2.mca"}
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


def test_words_fit_their_values(call: Call) -> None:
    place = {"place": "here", "days": "today"}
    cases = {
        ("areaEarlier", 1): "1 earlier day is not shown.",
        ("areaEarlier", 2): "2 earlier days are not shown.",
        ("changeMany", 1000): "1,000 tiles changed in view",
        ("eventGone", 1): "1 tile is gone around here, today",
    }
    assert call("text.js", "text", [[key, {**place, "n": n}] for key, n in cases]) == list(cases.values())
    # What a site writes cannot turn or hide the words around it.
    (told,) = call("text.js", "text", [["linkNoMap", {"map": "a\u202eb\x1b\u2028c"}]])
    assert told == r"There is no map a\u{202e}b\u{1b}\u{2028}c here"
    shares = {0: "0 % changed", 0.000001: "less than 0.1 % changed", 0.104: "10 % changed"}
    assert call("text.js", "changedInWords", [[share] for share in shares]) == list(shares.values())


def test_the_part_of_the_time_that_is_shown_never_leaves_the_history(call: Call) -> None:
    chance, cases = random.Random(3), []
    for _ in range(400):
        first, left, right, last = sorted(chance.randrange(30_000) for _ in range(4))
        whole, span = {"from": first, "to": last}, {"from": left, "to": right}
        cases.append((span, whole, chance.randint(left, right), chance.randint(-3, 3)))
    for (span, whole, at, turns), now in zip(cases, call("time-axis.js", "nearer", cases), strict=True):
        assert whole["from"] <= now["from"] <= now["to"] <= whole["to"]
        assert now["from"] - 1 <= at <= now["to"] + 1
        longer = (now["to"] - now["from"]) - (span["to"] - span["from"])
        assert longer * turns <= 0 or span["to"] - span["from"] < 7
    moved = [[span, chance.randint(whole["from"], whole["to"]), whole] for span, whole, _, _ in cases]
    for (span, day, whole), now in zip(moved, call("time-axis.js", "including", moved), strict=True):
        assert whole["from"] <= now["from"] <= day <= now["to"] <= whole["to"]
        assert now["to"] - now["from"] == span["to"] - span["from"]


PAGE = "https://map.example.net/w/"
OVERVIEWER_LAYERS = [
    {"name": "day", "world": "Survival - overworld"},
    {"name": "nether", "world": "Survival - nether"},
    {"name": "night", "world": "Survival - overworld"},
    {"name": "creative", "world": "Creative"},
]

days = st.dates(date(1, 1, 1), date(9999, 12, 31)).map(date.isoformat)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
places = st.integers(-9_999_999_999, 9_999_999_999).map(lambda tenth: tenth / 10)
ranges = st.tuples(days, days).map(sorted).map(lambda both: dict(zip(("after", "until"), both, strict=True)))
looks = st.fixed_dictionaries(
    {
        "map": names,
        "layer": names,
        "day": days,
        "other": st.none() | days,
        "mode": st.sampled_from(["one", "swipe", "side", "onion", "difference"]),
        "heat": st.none() | ranges,
        "x": places,
        "z": places,
        "zoom": st.integers(-30, 2),
    }
)


@given(st.lists(looks, min_size=10, max_size=40))
@settings(max_examples=15)
def test_what_the_page_and_a_notice_write_is_read_again(call: Call, shown: list[dict[str, Any]]) -> None:
    said = [{key: one for key, one in look.items() if one is not None and one != "one"} for look in shown]
    written = call("permalink.js", "writeHash", [[look] for look in shown])
    assert call("permalink.js", "readHash", [[link] for link in written]) == said
    keys = ("map", "layer", "day", "x", "z", "zoom")
    links = [
        permalink("https://e.example/?a#b", look["map"], look["layer"], date.fromisoformat(look["day"]),
                  look["x"], look["z"], look["zoom"])
        for look in shown
    ]  # fmt: skip
    expected = [{key: look[key] for key in keys} for look in shown]
    assert call("permalink.js", "readHash", [[link] for link in links]) == expected


@pytest.mark.parametrize(
    ("hash_", "said", "unread"),
    [
        ("#/-220/64/-89/-2/world/day", {}, {}),
        ("map=a&unknown=1&map=b&__proto__=1", {"map": "a"}, {}),
        ("#map=%zz&layer=%e4", {"map": "%zz", "layer": "\ufffd"}, {}),
        ("#day=2021-02-29&with=2020-02-29", {"other": "2020-02-29"}, {"day": "2021-02-29"}),
        ("#day=20210203&with=2021-13-01", {}, {"day": "20210203", "with": "2021-13-01"}),
        ("#x=1.25&z=-2.04", {"x": 1.25, "z": -2.04}, {}),
        ("#x=8.5417694&z=-0.0000004", {"x": 8.541769, "z": 0}, {}),
        ("#x=1e3&z=Infinity", {}, {"x": "1e3", "z": "Infinity"}),
        ("#x=1&z=99999999999", {}, {"x": "1", "z": "99999999999"}),
        ("#zoom=3&mode=constructor", {}, {"zoom": "3", "mode": "constructor"}),
        ("#heat=2021-02-13..2021-05-12", {"heat": {"after": "2021-02-13", "until": "2021-05-12"}}, {}),
        ("#heat=2021-05-12..2021-02-13", {}, {"heat": "2021-05-12..2021-02-13"}),
    ],
)
def test_what_cannot_be_is_left_out_and_can_be_told(
    call: Call, hash_: str, said: dict[str, Any], unread: dict[str, str]
) -> None:
    assert call("permalink.js", "readHash", [[hash_]]) == [said]
    assert call("permalink.js", "unreadIn", [[hash_]]) == [unread]


def link_to(x: int, z: int, y: int | None = None, **said: object) -> dict[str, object]:
    return {"x": x, "y": y, "z": z, "zoom": None, "world": None, "style": None, **said}


@pytest.mark.parametrize(
    ("renderer", "address", "link"),
    [
        # All versions of Overviewer: with names, with numbers, with less, and written by hand.
        ("overviewer", "#/0/64/15/min/50%/day", link_to(0, 15, 64, zoom="min", world="50%", style="day")),
        ("overviewer", "#/1/2/3/-4/0", link_to(1, 3, 2, zoom=-4)),
        ("overviewer", "#/-1.7/64/-0/deep", link_to(-1, 0, 64)),
        *(("overviewer", wrong, None) for wrong in (PAGE, "#map=a&x=1&z=2", "#/1/2", "#/1e99/64/3")),
        # `PosHashHandler.updateHash` of Mapcrafter's page.
        (
            "mapcrafter",
            f"{PAGE}#map_world_day/1/5/-220/-89/64",
            link_to(-220, -89, 64, zoom=5, world="map_world_day", style="tr"),
        ),
        ("mapcrafter", "#map_world/1/5/-220/-89", None),
        # `getUrlFromView` of squaremap's and Pl3xMap's pages.
        (
            "squaremap",
            f"{PAGE}?world=minecraft_overworld&zoom=3&x=-512&z=77",
            link_to(-512, 77, zoom=3, world="minecraft_overworld"),
        ),
        ("squaremap", "?x=1&z=2", link_to(1, 2)),
        ("squaremap", f"{PAGE}#x=1&z=2", None),
        (
            "pl3xmap",
            f"{PAGE}?world=minecraft:the_end&renderer=basic&zoom=-1&x=9&z=-9",
            link_to(9, -9, zoom=-1, world="minecraft-the_end", style="basic"),
        ),
        # `updatePageAddress` of BlueMap's page.
        (
            "bluemap",
            f"{PAGE}#hub_rainbow:-52:0:130:1500:0:0:0:0:perspective",
            link_to(-52, 130, zoom=1500, world="hub_rainbow"),
        ),
        ("bluemap", "#world:1:2:3", None),
        # `RedDotMarker` of uNmINeD's page.
        ("unmined", f"{PAGE}unmined.index.html#rx=12&rz=-7", link_to(12, -7)),
        ("unmined", "#x=12&z=-7", None),
        # `getLink` of Dynmap's page.
        (
            "dynmap",
            f"{PAGE}?worldname=world_nether&mapname=flat&zoom=5&x=-10&y=64&z=8",
            link_to(-10, 8, 64, zoom=5, world="world_nether", style="flat"),
        ),
        ("dynmap", f"{PAGE}?worldname=world_nether", None),
        ("xyz", "#5/95.1/8.5", None),
    ],
)
def test_a_link_is_read_as_its_page_writes_it(
    call: Call, renderer: str, address: str, link: dict[str, Any] | None
) -> None:
    assert call(f"renderers/{renderer}.js", "parseLink", [[address]]) == [link]


def test_a_link_of_overviewer_finds_its_layer(call: Call) -> None:
    """By names, by numbers, and after either was changed."""
    found = {
        ("Survival - overworld", "night"): "night",
        ("a world that was renamed", "night"): "night",
        ("0", "1"): "night",  # The second tileset of the first world.
        ("Creative", "a title of old"): "creative",
        (None, None): "day",
    }
    links = [link_to(0, 0, 64, zoom="max", world=world, style=style) for world, style in found]
    layers = call("renderers/overviewer.js", "layerOf", [[link, OVERVIEWER_LAYERS] for link in links])
    assert layers == list(found.values())


@pytest.mark.parametrize(
    ("renderer", "layer", "depth", "zooms", "address"),
    [
        ("overviewer", "night", 5, (0,), "#/120/64/-340/max/0/night"),
        ("mapcrafter", "map_w/br", 6, (-5, -1, 0), "#map_w/2/6/120/-340/64"),
        ("squaremap", "w_o", 4, (-3, -1, 0), "?world=w_o&zoom=3&x=120&z=-340"),
        ("pl3xmap", "w-o/basic", 4, (-3, -1, 1, 0), "?world=w-o&renderer=basic&zoom=0&x=120&z=-340"),
        ("bluemap", "hub", 3, (-2, -1.5, -0.5, 0), "#hub:120:64:-340:500:0:0:0:1:flat"),
        ("unmined", "tiles", 11, (), "#rx=120&rz=-340"),
        ("dynmap", "w/flat", 5, (-4, -1, 0), "?worldname=w&mapname=flat&zoom=4&x=120&y=64&z=-340"),
    ],
)
def test_the_live_map_is_opened_at_the_same_place_and_its_link_leads_back(
    call: Call, renderer: str, layer: str, depth: int, zooms: tuple[float, ...], address: str
) -> None:
    name = f"renderers/{renderer}.js"
    layers = [{"name": "another/one", "world": "another"}, {"name": layer, "world": None}]
    place = {"x": 120, "z": -340, "zoom": 0, "depth": depth, "layer": layer, "world": None}
    assert call(name, "writeLink", [[PAGE, place], [f"{PAGE}#c", place]]) == [PAGE + address] * 2
    for zoom in zooms:
        (written,) = call(name, "writeLink", [[PAGE, {**place, "zoom": zoom}]])
        (link,) = call(name, "parseLink", [[written]])
        assert (link["x"], link["z"]) == (120, -340)
        if renderer != "overviewer":
            assert call(name, "layerOf", [[link, layers]]) == [layer]
            assert call(name, "zoomOf", [[link, {"depth": depth}]]) == [zoom]


@pytest.mark.parametrize("address", ["#7/47.37/8.54", "https://map.example.net/#map=7/47.37/8.54&layers=N"])
def test_degrees_in_a_link_lead_to_their_tile(call: Call, address: str) -> None:
    """By the formula of "Slippy map tilenames" they lie in the tile 536/358 of zoom 10."""
    mercator = Projection((1024 / 180, 0, 0, 1024), (0, 0, -1024 / 180, -1024), height=0)
    layout = {"projection": msgspec.to_builtins(mercator)}
    (link,) = call("renderers/xyz.js", "parseLink", [[address]])
    (point,) = call("projection.js", "worldToGrid", [[{"x": link["x"], "z": link["z"]}, layout]])
    assert (point["x"] // 2, -point["y"] // 2) == (536, 358)
    assert call("renderers/xyz.js", "zoomOf", [[link, layout]]) == [-3]

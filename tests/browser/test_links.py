"""Links: those of this page and of notices, and those of the renderers' own pages, read and written."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileharvest.maps.permalink import permalink
from tileharvest.tiles.ground import Projection

if TYPE_CHECKING:
    from tests.browser.conftest import Call

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

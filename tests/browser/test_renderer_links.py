"""Links of the own pages of renderers, read and written. Overviewer's have tests of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tileharvest.tiles.projection import Projection

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[str, str, list[Any]], list[Any]]

PAGE = "https://map.example.net/w/"
NOT_SAID = {"y": None, "zoom": None, "world": None, "style": None}


def module(renderer: str) -> str:
    return f"renderers/{renderer}.js"


@pytest.mark.parametrize(
    ("renderer", "address", "link"),
    [
        # `PosHashHandler.updateHash` of Mapcrafter's page, and what its unreleased version writes.
        (
            "mapcrafter",
            f"{PAGE}#map_world_day/1/5/-220/-89/64",
            {"x": -220, "y": 64, "z": -89, "zoom": 5, "world": "map_world_day", "style": "tr"},
        ),
        (
            "mapcrafter",
            "#map_world/-/0/0/12/7/64",
            {"x": 12, "y": 64, "z": 7, "zoom": 0, "world": "map_world", "style": "tl"},
        ),
        ("mapcrafter", "#map_world/1/5/-220/-89", None),
        ("mapcrafter", "#/216/80/183/-3/world/day", None),
        ("mapcrafter", f"{PAGE}#map=a&x=1&z=2", None),
        # `getUrlFromView` of squaremap's and Pl3xMap's pages.
        (
            "squaremap",
            f"{PAGE}?world=minecraft_overworld&zoom=3&x=-512&z=77",
            {**NOT_SAID, "x": -512, "z": 77, "zoom": 3, "world": "minecraft_overworld"},
        ),
        ("squaremap", "?x=1&z=2", {**NOT_SAID, "x": 1, "z": 2}),
        ("squaremap", f"{PAGE}?uuid=00000000&zoom=2", None),
        ("squaremap", f"{PAGE}#x=1&z=2", None),
        (
            "pl3xmap",
            f"{PAGE}?world=minecraft:the_end&renderer=basic&zoom=-1&x=9&z=-9",
            {**NOT_SAID, "x": 9, "z": -9, "zoom": -1, "world": "minecraft-the_end", "style": "basic"},
        ),
        # `updatePageAddress` of BlueMap's page.
        (
            "bluemap",
            f"{PAGE}#hub_rainbow:-52:0:130:1500:0:0:0:0:perspective",
            {**NOT_SAID, "x": -52, "z": 130, "zoom": 1500, "world": "hub_rainbow"},
        ),
        ("bluemap", "#hub_rainbow", None),
        ("bluemap", "#world:1:2:3", None),
        # `RedDotMarker` of uNmINeD's page.
        ("unmined", f"{PAGE}unmined.index.html#rx=12&rz=-7", {**NOT_SAID, "x": 12, "z": -7}),
        ("unmined", "#rx=12", None),
        ("unmined", "#x=12&z=-7", None),
        # `getLink` of Dynmap's page.
        (
            "dynmap",
            f"{PAGE}?worldname=world_nether&mapname=flat&zoom=5&x=-10&y=64&z=8",
            {"x": -10, "y": 64, "z": 8, "zoom": 5, "world": "world_nether", "style": "flat"},
        ),
        ("dynmap", f"{PAGE}?worldname=world_nether", None),
        ("xyz", "#5/95.1/8.5", None),
        ("xyz", "#map=antworld&layer=day&day=2021-02-13", None),
        ("xyz", PAGE, None),
    ],
)
def test_a_link_is_read_as_its_page_writes_it(
    call: Call, renderer: str, address: str, link: dict[str, Any] | None
) -> None:
    assert call(module(renderer), "parseLink", [[address]]) == [link]


@pytest.mark.parametrize(
    ("renderer", "place", "address"),
    [
        ("mapcrafter", {"layer": "map_w/br", "zoom": -2, "depth": 6}, "#map_w/2/4/120/-340/64"),
        ("mapcrafter", {"layer": "map_w/tl", "zoom": 2, "depth": 6}, "#map_w/0/6/120/-340/64"),
        (
            "squaremap",
            {"layer": "minecraft_overworld", "zoom": -1, "depth": 4},
            "?world=minecraft_overworld&zoom=2&x=120&z=-340",
        ),
        (
            "pl3xmap",
            {"layer": "minecraft-overworld/basic", "zoom": -2, "depth": 4},
            "?world=minecraft-overworld&renderer=basic&zoom=2&x=120&z=-340",
        ),
        (
            "bluemap",
            {"layer": "hub_rainbow", "zoom": -1, "depth": 3},
            "#hub_rainbow:120:64:-340:2500:0:0:0:1:flat",
        ),
        ("unmined", {"layer": "tiles", "zoom": -4, "depth": 11}, "#rx=120&rz=-340"),
        (
            "dynmap",
            {"layer": "world_nether/flat_day", "zoom": -1, "depth": 5},
            "?worldname=world_nether&mapname=flat&zoom=3&x=120&y=64&z=-340",
        ),
    ],
)
def test_the_live_map_is_opened_at_the_same_place(
    call: Call, renderer: str, place: dict[str, Any], address: str
) -> None:
    asked = {"x": 120, "z": -340, "world": None, **place}
    written = call(module(renderer), "writeLink", [[PAGE, asked], [f"{PAGE}?a=b#c", asked]])
    assert written == [PAGE + address] * 2


@pytest.mark.parametrize(
    ("renderer", "layer", "depth", "zooms"),
    [
        ("mapcrafter", "map_w/bl", 6, (-5, -1, 0)),
        ("squaremap", "minecraft_the_end", 4, (-3, -1, 0)),
        ("pl3xmap", "minecraft-the_end/night", 4, (-3, -1, 0, 1)),
        ("bluemap", "world", 3, (-2, -1.5, -0.5, 0)),
        ("dynmap", "world/flat", 5, (-4, -1, 0)),
    ],
)
def test_a_link_to_the_live_map_leads_back(
    call: Call, renderer: str, layer: str, depth: int, zooms: tuple[float, ...]
) -> None:
    name = module(renderer)
    layers = [{"name": "another/one", "world": "another"}, {"name": layer, "world": "its world"}]
    for zoom in zooms:
        place = {"x": -7, "z": 12, "zoom": zoom, "depth": depth, "layer": layer, "world": "its world"}
        (address,) = call(name, "writeLink", [[PAGE, place]])
        (link,) = call(name, "parseLink", [[address]])
        assert (link["x"], link["z"]) == (-7, 12)
        assert call(name, "layerOf", [[link, layers]]) == [layer]
        assert call(name, "zoomOf", [[link, {"depth": depth}]]) == [zoom]


MERCATOR_10 = Projection((1024 / 180, 0, 0, 1024), (0, 0, -1024 / 180, -1024), height=0)
"""Where plain tiles lie whose deepest zoom is 10: the world is 2048 grid units wide."""


@pytest.mark.parametrize("address", ["#7/47.37/8.54", "https://map.example.net/#map=7/47.37/8.54&layers=N"])
def test_degrees_in_a_link_lead_to_their_tile(call: Call, address: str) -> None:
    """By the formula of "Slippy map tilenames" they lie in the tile 536/358 of zoom 10."""
    layout = {"projection": msgspec.to_builtins(MERCATOR_10)}
    (link,) = call(module("xyz"), "parseLink", [[address]])
    (point,) = call("projection.js", "worldToGrid", [[{"x": link["x"], "z": link["z"]}, layout]])
    assert (point["x"] // 2, -point["y"] // 2) == (536, 358)
    assert call(module("xyz"), "zoomOf", [[link, layout]]) == [-3]

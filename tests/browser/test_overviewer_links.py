"""Links of Minecraft-Overviewer's own page, of all its versions, read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[str, str, list[Any]], list[Any]]

MODULE = "renderers/overviewer.js"
NOWHERE = {"world": None, "style": None}
LAYERS = [
    {"name": "day", "world": "Survival - overworld"},
    {"name": "nether", "world": "Survival - nether"},
    {"name": "night", "world": "Survival - overworld"},
    {"name": "creative", "world": "Creative"},
]


@pytest.mark.parametrize(
    ("text", "link"),
    [
        # Versions that name the world and the tileset.
        (
            "https://map.example.net/world/#/-220/64/-89/-2/Survival%20-%20overworld/day",
            {"x": -220, "y": 64, "z": -89, "zoom": -2, "world": "Survival - overworld", "style": "day"},
        ),
        (
            "#/0/64/15/max/W%C3%B6rld/day",
            {"x": 0, "y": 64, "z": 15, "zoom": "max", "world": "W\u00f6rld", "style": "day"},
        ),
        (
            "#/0/64/15/min/50%/day",
            {"x": 0, "y": 64, "z": 15, "zoom": "min", "world": "50%", "style": "day"},
        ),
        # Versions that count them.
        ("#/1/2/3/-1/0/2", {"x": 1, "y": 2, "z": 3, "zoom": -1, "world": "0", "style": "2"}),
        ("  #/1/2/3/6/0/0\n", {"x": 1, "y": 2, "z": 3, "zoom": 6, "world": "0", "style": "0"}),
        # Old links that say less.
        ("#/1/2/3", {"x": 1, "y": 2, "z": 3, "zoom": None, **NOWHERE}),
        ("#/1/2/3/-4", {"x": 1, "y": 2, "z": 3, "zoom": -4, **NOWHERE}),
        ("#/1/2/3/-4/0", {"x": 1, "y": 2, "z": 3, "zoom": -4, **NOWHERE}),
        # Written by hand.
        ("#/-1.7/64/-0/deep", {"x": -1, "y": 64, "z": 0, "zoom": None, **NOWHERE}),
        # No links at all.
        ("", None),
        ("https://map.example.net/world/", None),
        ("#map=antworld&x=1&z=2", None),
        ("#/1/2", None),
        ("#/a/64/b/max/0/0", None),
        ("/1/2/3/max/0/0", None),
        ("#/1e99/64/3", None),
    ],
)
def test_a_link_is_read_as_overviewer_reads_it(call: Call, text: str, link: dict[str, Any] | None) -> None:
    assert call(MODULE, "parseLink", [[text]]) == [link]


@pytest.mark.parametrize(
    ("world", "style", "layer"),
    [
        ("Survival - overworld", "night", "night"),
        ("a world that was renamed", "night", "night"),
        ("0", "1", "night"),  # The second tileset of the first world.
        ("1", "0", "nether"),
        ("2", "0", "creative"),
        ("Survival - overworld", "1", "night"),
        ("Creative", "a title of old", "creative"),
        ("0", "9", "day"),
        ("9", "0", "day"),
        (None, None, "day"),
    ],
)
def test_a_link_finds_its_layer(call: Call, world: str | None, style: str | None, layer: str) -> None:
    link = {"x": 0, "y": 64, "z": 0, "zoom": "max", "world": world, "style": style}
    assert call(MODULE, "layerOf", [[link, LAYERS]]) == [layer]


@pytest.mark.parametrize(
    ("place", "address"),
    [
        (
            {"x": -220, "z": -89, "zoom": -2, "world": "Survival - overworld", "layer": "day"},
            "https://map.example.net/w/#/-220/64/-89/-2/Survival%20-%20overworld/day",
        ),
        (
            {"x": 0.9, "z": -0.1, "zoom": 0, "world": None, "layer": "night"},
            "https://map.example.net/w/#/0/64/-1/max/0/night",
        ),
        (
            {"x": 1, "z": 1, "zoom": 2, "world": "W", "layer": "day"},
            "https://map.example.net/w/#/1/64/1/max/W/day",
        ),
    ],
)
def test_the_live_map_is_opened_at_the_same_place(call: Call, place: dict[str, Any], address: str) -> None:
    urls = ["https://map.example.net/w/", "https://map.example.net/w/#/1/2/3"]
    assert call(MODULE, "writeLink", [[url, place] for url in urls]) == [address, address]

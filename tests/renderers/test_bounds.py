# ruff: noqa: E501 - the files of sites
"""Configurations that no renderer has written: each is refused in one line, and the other layers are kept."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.renderers.sites import PAGE
from tileharvest.errors import SiteError, printable
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.registry import RENDERERS
from tileharvest.renderers.site import Fetched, Site

DEPTH: Final = ("-1", "33", "64", "100000", "1000000000", "1e30", "1" + "0" * 30, '"x"', "null")
SIDE: Final = ("0", "-1", "16385", "9223372036854775808", "1e999")
PLACE: Final = ("1e999", "-1e999", "1e300", "9223372036854775808")
TIME: Final = ("1e999", "1e300", "9223372036854775808")
TURNS: Final = ("9", "-1", "9223372036854775808")
TEXT: Final = ('"\\ud800"', '"' + "a" * 5000 + '"', '"' + "a" * 1_000_000 + '"', '"\\u0000"')
NAME: Final = ('""', *TEXT)
TAG: Final = ('"\\ud800"', '"' + "a" * 257 + '"', '"' + "a" * 1_000_000 + '"')
SUFFIX: Final = ('"bmp"', '"../png"', '"\\ud800"', '"' + "p" * 1_000_000 + '"')


@dataclass(frozen=True)
class Written:
    """A site of two layers. In its files, `<key>` stands for a value of the second layer."""

    files: dict[str, str]
    keys: dict[str, tuple[str, tuple[str, ...]]]
    """For each key its healthy value and its impossible values."""
    whole: frozenset[str] = frozenset()
    """The keys of values that all layers share."""
    is_alone: bool = False
    """Whether the site has only one layer."""

    def asked(self, renderer: str, **values: str) -> Site:
        return read(renderer, {name: self.filled(text, values) for name, text in self.files.items()})

    def filled(self, text: str, values: dict[str, str]) -> str:
        for key, (healthy, _) in self.keys.items():
            text = text.replace(f"<{key}>", values.get(key, healthy))
        return text


WRITTEN: Final = {
    "overviewer": Written(
        {
            "overviewerConfig.js": (
                'var overviewerConfig = {"CONST": {"tileSize": <tileSize>}, "map": {"cacheTag": <cacheTag>}, '
                '"tilesets": [{"path": "good", "zoomLevels": 3, "imgextension": "png"}, {"path": <path>, '
                '"zoomLevels": <zoomLevels>, "imgextension": <imgextension>, "world": <world>, "bgcolor": <bgcolor>, '
                '"base": <base>, "north_direction": <north_direction>, "spawn": [1, 2, <spawn>], '
                '"last_rendertime": <last_rendertime>}]};'
            )
        },
        {
            "tileSize": ("384", SIDE),
            "cacheTag": ('"1"', TAG),
            "path": ('"other"', (*NAME, '"good"', '"file:///etc/"', '"http://h:99999/"')),
            "zoomLevels": ("3", (*DEPTH, "0")),
            "imgextension": ('"png"', SUFFIX),
            "world": ('"w"', TEXT),
            "bgcolor": ('"#fff"', TEXT),
            "base": ('""', (*TEXT, '"ftp://h/"', '"http://[/"')),
            "north_direction": ("0", TURNS),
            "spawn": ("3", PLACE),
            "last_rendertime": ("5", TIME),
        },
        whole=frozenset({"tileSize", "cacheTag"}),
    ),
    "mapcrafter": Written(
        {
            "config.js": (
                'var CONFIG = {"maps": {"good": {"imageFormat": "png", "maxZoom": 3, "rotations": [0], '
                '"tileSize": 384, "textureSize": 12}, <name>: {"imageFormat": <imageFormat>, "maxZoom": <maxZoom>, '
                '"rotations": [<rotation>], "tileSize": [<tileSize>, 384], "textureSize": <textureSize>, '
                '"tileOffsets": [[0, <tileOffset>]], "lastRendered": [<lastRendered>], "world": <world>}}};'
            )
        },
        {
            "name": ('"other"', NAME),
            "imageFormat": ('"png"', SUFFIX),
            "maxZoom": ("3", DEPTH),
            "rotation": ("0", TURNS),
            "tileSize": ("384", SIDE),
            "textureSize": ("12", SIDE),
            "tileOffset": ("0", PLACE),
            "lastRendered": ("5", TIME),
            "world": ('"w"', TEXT),
        },
    ),
    "dynmap": Written(
        {
            "up/configuration": (
                '{"worlds": [{"name": "w", "maps": [{"type": "HDMapType", "name": "good", "prefix": "g", '
                '"worldtomap": [4, 0, 0, 0, 0, -4, 0, 1, 0]}]}, {"name": <world>, "center": {"x": <center>}, '
                '"maps": [{"type": "HDMapType", "name": <name>, "prefix": <prefix>, "image-format": <image-format>, '
                '"worldtomap": [<worldtomap>, 0, 0, 0, 0, -4, 0, 1, 0], "mapzoomout": <mapzoomout>, '
                '"tilescale": <tilescale>, "background": <background>}]}]}'
            )
        },
        {
            "world": ('"v"', NAME),
            "center": ("0", PLACE),
            "name": ('"other"', TEXT),
            "prefix": ('"o"', TEXT),
            "image-format": ('"png"', SUFFIX),
            "worldtomap": ("4", PLACE),
            "mapzoomout": ("3", DEPTH),
            "tilescale": ("0", ("-1", "5", "1e999")),
            "background": ('"#fff"', TEXT),
        },
    ),
    "bluemap": Written(
        {
            "settings.json": '{"maps": ["good", <name>], "mapDataRoot": <root>}',
            "maps/good/settings.json": (
                '{"lowres": {"tileSize": [500, 500], "lodFactor": 5, "lodCount": 3}}'
            ),
            "maps/other/settings.json": (
                '{"lowres": {"tileSize": [<tileSize>, <tileSize>], "lodFactor": <lodFactor>, "lodCount": <lodCount>},'
                ' "name": <label>, "sorting": <sorting>, "startPos": [<startPos>, 0], "voidColor": [<colour>, 0, 0]}'
            ),
        },
        {
            "name": ('"other"', NAME),
            "root": ('"maps"', TEXT),
            "tileSize": ("500", SIDE),
            "lodFactor": ("5", ("1", "0", "1025", "1e999")),
            "lodCount": ("3", ("0", *DEPTH)),
            "label": ('"w"', TEXT),
            "sorting": ("1", TIME),
            "startPos": ("0", PLACE),
            "colour": ("0", PLACE),
        },
        whole=frozenset({"name", "root"}),
    ),
    "squaremap": Written(
        {
            "tiles/settings.json": '{"worlds": [{"name": "good"}, {"name": <name>, "order": <order>}]}',
            "tiles/good/settings.json": '{"zoom": {"max": 3}}',
            "tiles/other/settings.json": (
                '{"zoom": {"max": <max>}, "spawn": {"x": <x>, "z": 0}, "center": {"x": 0, "z": <z>}}'
            ),
        },
        {
            "name": ('"other"', (*NAME, '"good"')),
            "order": ("1", TIME),
            "max": ("3", DEPTH),
            "x": ("0", PLACE),
            "z": ("0", PLACE),
        },
    ),
    "pl3xmap": Written(
        {
            "tiles/settings.json": (
                '{"format": <format>, "worldSettings": [{"name": "good", "renderers": [{"label": "basic"}]}, '
                '{"name": "other", "renderers": [{"label": <label>}], "order": <order>}]}'
            ),
            "tiles/good/settings.json": '{"zoom": {"maxOut": 3}}',
            "tiles/other/settings.json": '{"zoom": {"maxOut": <maxOut>}, "spawn": {"x": <x>, "z": 0}}',
        },
        {
            "format": ('"png"', SUFFIX),
            "label": ('"basic"', NAME),
            "order": ("1", TIME),
            "maxOut": ("3", DEPTH),
            "x": ("0", PLACE),
        },
        whole=frozenset({"format"}),
    ),
    "unmined": Written(
        {
            "unmined.map.properties.js": (
                'UnminedMapProperties = {"minZoom": <minZoom>, "maxZoom": <maxZoom>, "imageFormat": <imageFormat>, '
                '"worldName": <worldName>, "background": <background>}'
            ),
            "unmined.map.regions.js": "UnminedRegions = [{x: <x>, z: 0, m: [<word>]}]",
        },
        {
            "minZoom": ("-3", ("1e999", "1e5", "-100000", "9223372036854775808", '"x"', "null")),
            "maxZoom": ("0", ("1e999", "-100000", "9223372036854775808", '"x"', "null")),
            "imageFormat": ('"png"', SUFFIX),
            "worldName": ('"w"', TEXT),
            "background": ('"#fff"', TEXT),
            "x": ("0", PLACE),
            "word": ("1", ("-1", "4294967296", "1e999")),
        },
        is_alone=True,
    ),
    "xyz": Written(
        {
            "": '{"tilejson": "3.0.0", "tiles": ["<template>"], "minzoom": <minzoom>, "maxzoom": 7, "name": <name>, "bounds": [-180, -85, 180, 85], "tileSize": <tileSize>}'
        },
        {
            "minzoom": ("4", ("1e999", "1e5", "9223372036854775808", '"x"')),
            "name": ('"w"', TEXT),
            "tileSize": ("256", SIDE),
            "template": ("https://map.example.net/t/{z}/{x}/{y}.png", ("\\ud800", "a" * 5000, "{z}", "http://[/{z}/{x}/{y}")),
        },
        is_alone=True,
    ),
}  # fmt: skip

CASES: Final = [(renderer, key) for renderer, written in WRITTEN.items() for key in written.keys]


def read(renderer: str, files: dict[str, str]) -> Site:
    async def fetch(method: str, url: str) -> Fetched:
        text = files.get(url.removeprefix(PAGE))
        return Fetched(404, b"", url) if text is None else Fetched(200, text.encode(), url)

    return asyncio.run(RENDERERS[renderer].probe(MapDescription(name="m", url=PAGE), fetch))


def refusals(site_of: Any, *given: Any, **values: str) -> tuple[list[str], list[str]]:
    """Returns the lines in which layers are refused, and the names of the layers that are kept."""
    try:
        site = site_of(*given, **values)
    except SiteError as error:
        return [str(error)], []
    return list(site.refused), [layer.name for layer in site.layers]


def assert_clear(line: str) -> None:
    assert line.startswith(PAGE)
    assert len(line) < 500
    assert line == printable(line)


@pytest.mark.parametrize("renderer", WRITTEN)
def test_a_healthy_site_has_its_layers(renderer: str) -> None:
    site = WRITTEN[renderer].asked(renderer)
    assert site.refused == ()
    assert len(site.layers) == (1 if WRITTEN[renderer].is_alone else 2)


@pytest.mark.parametrize(("renderer", "key"), CASES)
def test_a_value_that_cannot_be_is_refused_in_one_line(renderer: str, key: str) -> None:
    written = WRITTEN[renderer]
    is_shared = written.is_alone or key in written.whole
    for value in written.keys[key][1]:
        lines, names = refusals(written.asked, renderer, **{key: value})
        assert (len(lines), len(names)) == (1, 0 if is_shared else 1), value[:40]
        assert_clear(lines[0])


def test_every_renderer_is_tried() -> None:
    assert WRITTEN.keys() == RENDERERS.keys()


LARGE: Final = {
    "nested": "[" * 10_000,
    "nested objects": '{"a":' * 10_000,
    "many": "[" + "{}," * 500_000 + "{}]",
    "numbers": "[" + "1," * 500_000 + "1]",
    "long": '"' + "a" * (17 * 1024 * 1024) + '"',
}


@pytest.mark.parametrize("fault", LARGE)
@pytest.mark.parametrize("renderer", WRITTEN)
def test_a_file_that_would_take_too_much_is_refused_in_one_line(renderer: str, fault: str) -> None:
    name, text = next(iter(WRITTEN[renderer].files.items()))
    start = text[: text.find("{") + 1] + ('"tilejson": 1, ' if renderer == "xyz" else "")
    lines, names = refusals(read, renderer, {name: f'{start}"a": {LARGE[fault]}'})
    assert len(lines) == 1
    assert_clear(lines[0])
    assert names == []


def test_a_line_names_file_layer_key_value_and_what_was_expected() -> None:
    lines, names = refusals(WRITTEN["overviewer"].asked, "overviewer", zoomLevels="33")
    said = "layer 'other' is not as Overviewer writes it: zoomLevels is 33: expected `int` <= 32"
    assert lines == [f"{PAGE}overviewerConfig.js: {said}"]
    assert names == ["good"]


def test_a_site_of_more_than_1000_layers_is_refused() -> None:
    tileset = '{"path": "%s", "zoomLevels": 3, "imgextension": "png"}'
    many = ", ".join(tileset % number for number in range(1001))
    with pytest.raises(SiteError, match=r"tilesets is .*expected `array` of length <= 1000"):
        read("overviewer", {"overviewerConfig.js": f"var overviewerConfig = {{tilesets: [{many}]}};"})


def test_a_value_is_shown_by_its_first_60_characters() -> None:
    lines, _ = refusals(WRITTEN["overviewer"].asked, "overviewer", imgextension='"' + "p" * 1_000_000 + '"')
    assert f"imgextension is {'p' * 57}...: expected" in lines[0]

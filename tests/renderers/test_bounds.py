# ruff: noqa: E501 - the files of sites
"""Configurations that no renderer has written: each is refused in one line, and the other layers are kept."""

import json
import re
from itertools import islice
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from tests.renderers.sites import PAGE, WrittenSite
from tileharvest.errors import ConfigurationError, SiteError, printable
from tileharvest.renderers.registry import RENDERERS
from tileharvest.renderers.site import Site
from tileharvest.walk.walk import Walk

TEXT: Final = ('"\\ud800"', '"' + "a" * 5000 + '"', '"' + "a" * 1_000_000 + '"', '"\\u0000"')
WRITTEN: Final[dict[str, dict[str, str]]] = {
    "overviewer": {
        "overviewerConfig.js": (
            'var overviewerConfig = {"CONST": {"tileSize": <tileSize=384>}, "map": {"cacheTag": <cacheTag="1">}, '
            '"tilesets": [{"path": "good", "zoomLevels": 3, "imgextension": "png"}, {"path": <path="other">, '
            '"zoomLevels": <zoomLevels=3>, "imgextension": <imgextension="png">, "world": <world="w">, "bgcolor": <bgcolor="#fff">, '
            '"base": <base="">, "north_direction": <north_direction=0>, "spawn": [1, 2, <spawn=3>], '
            '"last_rendertime": <last_rendertime=5>}]};'
        )
    },
    "mapcrafter": {
        "config.js": (
            'var CONFIG = {"maps": {"good": {"imageFormat": "png", "maxZoom": 3, "rotations": [0], '
            '"tileSize": 384, "textureSize": 12}, <name="other">: {"imageFormat": <imageFormat="png">, "maxZoom": <maxZoom=3>, '
            '"rotations": [<rotation=0>], "tileSize": [<tileSize=384>, 384], "textureSize": <textureSize=12>, '
            '"tileOffsets": [[0, <tileOffset=0>]], "lastRendered": [<lastRendered=5>], "world": <world="w">}}};'
        )
    },
    "dynmap": {
        "up/configuration": (
            '{"worlds": [{"name": "w", "maps": [{"type": "HDMapType", "name": "good", "prefix": "g", '
            '"worldtomap": [4, 0, 0, 0, 0, -4, 0, 1, 0]}]}, {"name": <world="v">, "center": {"x": <center=0>}, '
            '"maps": [{"type": "HDMapType", "name": <name="other">, "prefix": <prefix="o">, "image-format": <image-format="png">, '
            '"worldtomap": [<worldtomap=4>, 0, 0, 0, 0, -4, 0, 1, 0], "mapzoomout": <mapzoomout=3>, '
            '"tilescale": <tilescale=0>, "background": <background="#fff">}]}]}'
        )
    },
    "bluemap": {
        "settings.json": '{"maps": ["good", <name="other">], "mapDataRoot": <root="maps">}',
        "maps/good/settings.json": (
            '{"lowres": {"tileSize": [500, 500], "lodFactor": 5, "lodCount": 3}}'
        ),
        "maps/other/settings.json": (
            '{"lowres": {"tileSize": [<tileSize=500>, <tileSize=500>], "lodFactor": <lodFactor=5>, "lodCount": <lodCount=3>},'
            ' "name": <label="w">, "sorting": <sorting=1>, "startPos": [<startPos=0>, 0], "voidColor": [<colour=0>, 0, 0]}'
        ),
    },
    "squaremap": {
        "tiles/settings.json": '{"worlds": [{"name": "good"}, {"name": <name="other">, "order": <order=1>}]}',
        "tiles/good/settings.json": '{"zoom": {"max": 3}}',
        "tiles/other/settings.json": (
            '{"zoom": {"max": <max=3>}, "spawn": {"x": <x=0>, "z": 0}, "center": {"x": 0, "z": <z=0>}}'
        ),
    },
    "pl3xmap": {
        "tiles/settings.json": (
            '{"format": <format="png">, "worldSettings": [{"name": "good", "renderers": [{"label": "basic"}]}, '
            '{"name": "other", "renderers": [{"label": <label="basic">}], "order": <order=1>}]}'
        ),
        "tiles/good/settings.json": '{"zoom": {"maxOut": 3}}',
        "tiles/other/settings.json": '{"zoom": {"maxOut": <maxOut=3>}, "spawn": {"x": <x=0>, "z": 0}}',
    },
    "unmined": {
        "unmined.map.properties.js": (
            'UnminedMapProperties = {"minZoom": <minZoom=-3>, "maxZoom": <maxZoom=0>, "imageFormat": <imageFormat="png">, '
            '"worldName": <worldName="w">, "background": <background="#fff">}'
        ),
        "unmined.map.regions.js": "UnminedRegions = [{x: <x=0>, z: 0, m: [<word=1>]}]",
    },
    "xyz": {
        "": '{"tilejson": "3.0.0", "tiles": ["<template=https://map.example.net/t/{z}/{x}/{y}.png>"], "minzoom": <minzoom=4>, "maxzoom": 7, "name": <name="w">, "bounds": [-180, -85, 180, 85], "tileSize": <tileSize=256>}'
    },
}  # fmt: skip
"""Sites of two layers; those of uNmINeD and plain tiles have one. `<key=value>` is a healthy value of the last."""
_VALUE: Final = re.compile("<([^=>]+)=([^>]*)>")

IMPOSSIBLE: Final = {
    "zoomLevels": ("0", "-1", "33", "64", "100000", "1000000000", "1e30", "1" + "0" * 30, '"x"', "null"),
    "path": ('""', *TEXT, '"good"', '"file:///etc/"', '"http://h:99999/"'),
    "imgextension": ('"bmp"', '"../png"', '"\\ud800"', '"' + "p" * 1_000_000 + '"'),
    "world": TEXT,
    "base": (*TEXT, '"ftp://h/"', '"http://[/"'),
    "north_direction": ("9", "-1", "9223372036854775808"),
    "spawn": ("1e999", "-1e999", "1e300", "9223372036854775808"),
    "last_rendertime": ("1e999", "1e300", "9223372036854775808"),
    "tileSize": ("0", "-1", "16385", "9223372036854775808", "1e999"),
    "cacheTag": ('"\\ud800"', '"' + "a" * 257 + '"', '"' + "a" * 1_000_000 + '"'),
}
"""Values of an Overviewer's configuration. Other renderers' files are read through the same types."""


def filled(renderer: str, values: dict[str, str]) -> dict[str, str]:
    """The files of a site with these values."""
    return {
        name: _VALUE.sub(lambda found: values.get(found[1], found[2]), text)
        for name, text in WRITTEN[renderer].items()
    }


def read(renderer: str, files: dict[str, str]) -> Site:
    return WrittenSite(files).probed(renderer)


def refusals(renderer: str, files: dict[str, str]) -> tuple[list[str], list[str]]:
    """Returns the lines in which layers are refused, and the names of the layers that are kept."""
    try:
        site = read(renderer, files)
    except SiteError as error:
        return [str(error)], []
    return list(site.refused), [layer.name for layer in site.layers]


def assert_clear(line: str) -> None:
    assert line.startswith(PAGE)
    assert len(line) < 500
    assert line == printable(line)


@pytest.mark.parametrize("renderer", WRITTEN)
def test_a_healthy_site_has_its_layers(renderer: str) -> None:
    assert WRITTEN.keys() == RENDERERS.keys()
    site = read(renderer, filled(renderer, {}))
    assert site.refused == ()
    assert len(site.layers) == (1 if renderer in ("unmined", "xyz") else 2)


@pytest.mark.parametrize("key", IMPOSSIBLE)
def test_a_value_that_cannot_be_is_refused_in_one_line_and_the_other_layer_is_kept(key: str) -> None:
    for value in IMPOSSIBLE[key]:
        lines, names = refusals("overviewer", filled("overviewer", {key: value}))
        # All layers share the size of tiles and the tag.
        assert (len(lines), len(names)) == (1, 0 if key in ("tileSize", "cacheTag") else 1), value[:40]
        assert_clear(lines[0])


WRONG: Final = [
    ("mapcrafter", "rotation", "4", "rotations[0] is 4: expected"),
    ("mapcrafter", "maxZoom", '"six"', "maxZoom is six: expected"),
    ("dynmap", "mapzoomout", "99", "mapzoomout is 99: expected"),
    ("dynmap", "worldtomap", "0", "the world as a line"),
    ("dynmap", "image-format", '"bmp"', "image-format is bmp: expected"),
    ("bluemap", "lodFactor", "1", "lowres.lodFactor is 1: expected"),
    ("bluemap", "lodCount", "0", "lowres.lodCount is 0: expected"),
    ("bluemap", "tileSize", "0", "lowres.tileSize"),
    ("bluemap", "startPos", '"here"', "startPos[0] is here: expected"),
    ("squaremap", "max", "40", "a map of 41 zoom levels, where 1 to 16 can be"),
    ("squaremap", "max", "-1", "a map of 0 zoom levels, where 1 to 16 can be"),
    ("squaremap", "max", "null", "it names no last zoom"),
    ("squaremap", "x", "99999999", "spawn.x is 99999999: expected `int` <="),
    ("pl3xmap", "format", '"bmp"', "format is bmp: expected"),
    ("unmined", "imageFormat", '"bmp"', "imageFormat is bmp: expected"),
    ("unmined", "minZoom", "1", "its zooms are 1 to 0"),
    ("unmined", "minZoom", "-1000000000", "its zooms are -1000000000 to 0"),
    ("unmined", "word", '"1"', "m[0] is 1: expected"),
]


@pytest.mark.parametrize(("renderer", "key", "value", "message"), WRONG)
def test_what_a_renderer_never_writes_is_refused(renderer: str, key: str, value: str, message: str) -> None:
    lines, _ = refusals(renderer, filled(renderer, {key: value}))
    assert len(lines) == 1
    assert message in lines[0]
    assert_clear(lines[0])


LARGE: Final = {
    "nested": "[" * 10_000,
    "nested objects": '{"a":' * 10_000,
    "many": "[" + "{}," * 500_000 + "{}]",
    "numbers": "[" + "1," * 500_000 + "1]",
    "long": '"' + "a" * (17 * 1024 * 1024) + '"',
}


@pytest.mark.parametrize("fault", LARGE)
@pytest.mark.parametrize("renderer", ["overviewer", "bluemap"])
def test_a_file_that_would_take_too_much_is_refused_in_one_line(renderer: str, fault: str) -> None:
    name, text = next(iter(WRITTEN[renderer].items()))
    start = text[: text.find("{") + 1]
    lines, names = refusals(renderer, {name: f'{start}"a": {LARGE[fault]}'})
    assert len(lines) == 1
    assert_clear(lines[0])
    assert names == []


def test_a_line_names_file_layer_key_value_and_what_was_expected() -> None:
    lines, names = refusals("overviewer", filled("overviewer", {"zoomLevels": "33"}))
    said = "layer 'other' is not as Overviewer writes it: zoomLevels is 33: expected `int` <= 32"
    assert lines == [f"{PAGE}overviewerConfig.js: {said}"]
    assert names == ["good"]
    long = '"' + "p" * 1_000_000 + '"'
    lines, _ = refusals("overviewer", filled("overviewer", {"imgextension": long}))
    assert f"imgextension is {'p' * 57}...: expected" in lines[0]


def test_a_site_of_more_than_1000_layers_is_refused() -> None:
    tileset = '{"path": "%s", "zoomLevels": 3, "imgextension": "png"}'
    many = ", ".join(tileset % number for number in range(1001))
    with pytest.raises(SiteError, match=r"tilesets is .*expected `array` of length <= 1000"):
        read("overviewer", {"overviewerConfig.js": f"var overviewerConfig = {{tilesets: [{many}]}};"})


# -- made-up values


NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0, -1, 2**31, 2**53, 2**63, -(2**63), 2**64, 10**400, 1e308, 5e-324]),
)
TEXTS = st.one_of(
    st.text(st.characters(), max_size=20),
    st.sampled_from(
        ["", "..", "/", "//h", "http://[", "{z}", "\ud800", "\0", "%", "{x.__class__}", "http://h:0/"]
    ),
)
VALUES: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=6,
)


@pytest.mark.parametrize("renderer", WRITTEN)
@fuzzed(80)
@given(data=st.data())
def test_any_values_of_a_configuration(renderer: str, data: st.DataObject) -> None:
    known = sorted({key for text in WRITTEN[renderer].values() for key, _ in _VALUE.findall(text)})
    keys = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
    values = {key: json.dumps(data.draw(VALUES)) for key in keys}
    if renderer == "xyz":
        values = {key: value for key, value in values.items() if key != "template"}
    try:
        site = read(renderer, filled(renderer, values))
    except (SiteError, ConfigurationError) as error:
        lines = [str(error)]
    else:
        lines = list(site.refused)
        for layer in site.layers:
            for tile in islice(Walk(layer.pyramid).start(), 4):
                assert layer.addresses.url_of(tile).encode()
    for line in lines:
        assert line == printable(line)

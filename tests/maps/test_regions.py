"""Regions of canvases and of plain tiles, as people say them."""

from pathlib import Path

import pytest

from tileharvest.errors import ConfigurationError
from tileharvest.maps.maps_file import add_map, load_maps
from tileharvest.tiles.grid import Tile, TileRange

WPLACE = 'url = "https://backend.wplace.live/files/s0/tiles/{x}/{y}.png"'
OTHER = 'url = "https://h/{x}/{y}.png"\ncanvas = {tiles = [40, 20], tile = 1000}'
LINK = '{{link = "https://wplace.live/{}lat=-0.01&lng=0.01&zoom=11", size = {}}}'
PLAIN = 'url = "https://h/{z}/{x}/{y}.png"\nsite_zooms = [4, 9]'


def area(file: Path, entry: str, zone: str) -> TileRange:
    file.write_text(f"[m]\n{entry}\nzones = [{zone}]\n")
    (found,) = load_maps(file)["m"].zones
    return found.tiles()


def between(left: int, top: int, right: int, bottom: int) -> TileRange:
    return TileRange.between(Tile.at(0, left, top), Tile.at(0, right, bottom))


@pytest.mark.parametrize(
    ("entry", "zone", "expected"),
    [
        (OTHER, "{pixels = [1500, 0, 1000, 2000]}", between(1, 0, 2, 1)),
        (OTHER, "{pixels = [39999, 19999, 1, 1]}", between(39, 19, 39, 19)),
        (WPLACE, "{bounds = [-180, 84.9, -179.9, 85.1]}", between(0, 0, 0, 9)),
        # Null Island lies where the four tiles in the middle meet.
        (WPLACE, LINK.format("?", "[2, 3]"), between(1023, 1023, 1024, 1025)),
        (WPLACE, LINK.format("#/?", "[1, 1]"), between(1024, 1024, 1024, 1024)),
        (PLAIN, "{bounds = [13.4, 52.5, 13.41, 52.53]}", between(275, 167, 275, 167)),
        (PLAIN, "{center = [2, -2], width = 2, height = 2, zoom = 0}", between(0, 0, 1, 1)),
    ],
)
def test_a_region_is_the_tiles_that_show_it(
    tmp_path: Path, entry: str, zone: str, expected: TileRange
) -> None:
    assert area(tmp_path / "maps.toml", entry, zone) == expected


@pytest.mark.parametrize(
    ("entry", "zone", "message"),
    [
        (OTHER, "{pixels = [50000, 0, 10, 10]}", "outside of the canvas, which has 40 x 20 tiles"),
        (OTHER, "{pixels = [0, 0, 0, 10]}", "a region is {pixels = "),
        (OTHER, "{pixels = [0, 0, 1, 1], width = 2}", "a region is {pixels = "),
        (OTHER, "{bounds = [0, 0, 1, 1]}", "degrees need site_zooms, or a canvas with earth = true"),
        (WPLACE, "{bounds = [1, 0, 0, 1]}", "a region is {pixels = "),
        (WPLACE, "{bounds = [0, 86, 1, 87]}", "outside of the map, which ends at 85.05 degrees"),
        (WPLACE, "{bounds = [nan, 0, 0, inf]}", "a region is {pixels = "),
        (WPLACE, '{link = "https://wplace.live/", size = [1, 1]}', "has no lat= and lng= of a place"),
        (WPLACE, '{link = "https://h/?lat=nan&lng=1", size = [1, 1]}', "has no lat= and lng= of a place"),
        (WPLACE, '{link = "https://h/?lat=89&lng=1", size = [1, 1]}', "has no lat= and lng= of a place on"),
        (PLAIN, "{pixels = [0, 0, 1, 1]}", "pixels are of use with canvas = "),
        (PLAIN.replace("9", "999999"), "{bounds = [0, 0, 1, 1]}", "degrees need site_zooms"),
        (OTHER.replace("40", "0"), "{pixels = [0, 0, 1, 1]}", "a canvas has 1 to 16,777,216 tiles"),
        (OTHER.replace("1000}", "1, earth = true}"), "{pixels = [0, 0, 1, 1]}", "as many columns as rows"),
    ],
)
def test_a_region_that_cannot_be_is_one_clear_line(
    tmp_path: Path, entry: str, zone: str, message: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        area(tmp_path / "maps.toml", entry, zone)
    assert message in str(raised.value)
    assert "map 'm': " in str(raised.value)


def test_a_region_is_written_as_it_was_said(tmp_path: Path) -> None:
    file, zone = tmp_path / "maps.toml", {"link": "https://wplace.live/?lat=0&lng=0", "size": [4, 4]}
    add_map(file, "m", {"url": WPLACE.removeprefix('url = "')[:-1], "zones": [zone]})
    assert 'zones = [{link = "https://wplace.live/?lat=0&lng=0", size = [4, 4]}]' in file.read_text()
    assert len(load_maps(file)["m"].zones[0].tiles()) == 16

"""Archives, read by PMTiles' own reader, by sqlite3 and as a zip, beside the published files."""

import io
import re
import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from PIL import Image
from pmtiles.reader import MmapSource, Reader, all_tiles

from tests.export.conftest import Count, noise
from tests.export.test_restored_tree import imported
from tests.viewer.building import FIRST, MAP, SECOND, SIZE, World, as_png, name_of
from tests.viewer.building import picture as coloured
from tileharvest.errors import ConfigurationError, ExitStatus, TileHarvestError
from tileharvest.export.archive import Archived, write_archive
from tileharvest.export.excerpt import excerpt_of
from tileharvest.history.database import History
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

Tiles = dict[tuple[int, int, int], bytes]
"""By zoom, column and row, which is counted down."""
FORMS: Final = (".pmtiles", ".mbtiles", ".zip")


def archive(world: World, path: Path, zooms: str | None = None, **wanted: Any) -> Archived:
    with History.open_read_only(f"sqlite:///{world.database}") as history:
        excerpt = excerpt_of(history, MAP, **wanted)
        return write_archive(excerpt, path, zooms, world.store, Count())


def tiles_in(path: Path) -> Tiles:
    """Read by other programs than ours."""
    if path.suffix == ".pmtiles":
        with path.open("rb") as file:
            return dict(all_tiles(MmapSource(file)))
    if path.suffix == ".mbtiles":
        with closing(sqlite3.connect(path)) as opened:
            rows = opened.execute("SELECT zoom_level, tile_column, tile_row, tile_data FROM tiles").fetchall()
        # Its rows are counted from below.
        return {(zoom, column, (1 << zoom) - 1 - row): body for zoom, column, row, body in rows}
    with zipfile.ZipFile(path) as opened_zip:
        names = [name for name in opened_zip.namelist() if name != "tiles.json"]
        places = [tuple(map(int, name.rpartition(".")[0].split("/"))) for name in names]
        return {place: opened_zip.read(name) for place, name in zip(places, names, strict=True)}  # type: ignore[misc]


def overviewer_place(path: str) -> tuple[int, int, int]:
    """Of a tile's digits: 0 upper left, 1 upper right, 2 lower left, 3 lower right."""
    column = row = 0
    digits = path.split("/")
    for digit in digits:
        column, row = 2 * column + int(digit) % 2, 2 * row + int(digit) // 2
    return len(digits), column, row


@pytest.mark.parametrize("ending", FORMS)
def test_an_overviewer_map_has_its_own_zooms_and_bytes(
    shared_maps: Path, tmp_path: Path, ending: str
) -> None:
    """Its tile of n digits has zoom n: what its own page shows at that zoom."""
    past, sites = imported(shared_maps, "antworld", (1,), tmp_path)
    (site,) = sites.values()
    path = tmp_path / f"map{ending}"
    with past.history as history:
        excerpt = excerpt_of(history, "antworld")
        told = write_archive(excerpt, path, None, past.store, Count())
    layer = site / "world-lighting"
    expected = {
        overviewer_place(file.relative_to(layer).with_suffix("").as_posix()): file.read_bytes()
        for file in layer.rglob("*.png")
        if file.name not in {"base.png", "blank.png"}
    }
    assert tiles_in(path) == expected
    assert (told.tiles, told.composed, told.missing) == (len(expected), 0, 0)
    assert told.bytes == path.stat().st_size


def test_zooms_without_images_are_composed_and_readers_learn_where_the_tiles_are(
    world: World, tmp_path: Path
) -> None:
    """Of the island the deepest zoom alone has images. It lies around the middle of the square."""
    for ending in (".pmtiles", ".mbtiles"):
        told = archive(world, tmp_path / f"map{ending}", day=SECOND.isoformat())
    found = tiles_in(tmp_path / "map.pmtiles")
    zooms = [zoom for zoom, _, _ in found]
    its = {(column, row): body for (zoom, column, row), body in found.items() if zoom == max(zooms)}
    left, top = min(column for column, _ in its), min(row for _, row in its)
    for (column, row), body in its.items():
        shown = world.shown(Tile.at(0, column - left - 2, row - top - 2), SECOND)
        assert shown is not None
        assert shown.image == name_of(body)
    assert told.composed == len(found) - len(its) > 0
    with (tmp_path / "map.pmtiles").open("rb") as file:
        reader = Reader(MmapSource(file))
        header, place = reader.header(), next(iter(found))
        assert reader.get(*place) == found[place]
    assert (header["min_zoom"], header["max_zoom"]) == (min(zooms), max(zooms))
    assert header["clustered"]
    with closing(sqlite3.connect(tmp_path / "map.mbtiles")) as opened:
        rows = dict(opened.execute("SELECT name, value FROM metadata").fetchall())
    assert (rows["format"], int(rows["minzoom"]), int(rows["maxzoom"])) == ("png", min(zooms), max(zooms))
    west, south, east, north = map(float, rows["bounds"].split(","))
    assert west < 0 < east
    assert south < 0 < north


def test_images_of_two_kinds_become_the_kind_of_most(tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    bodies = {}
    for kind, form, places in (("webp", "WEBP", ((1, 1), (3, 1), (5, 1))), ("jpg", "JPEG", ((1, 3),))):
        for x, y in places:
            body = io.BytesIO()
            Image.new("RGB", (SIZE, SIZE), (40 * x, 40 * y, 0)).save(body, form)
            bodies[x, y] = body.getvalue() + bytes([x, y])
        found = {Tile(0, x, y): bodies[x, y] for x, y in places}
        world.harvest(FIRST if kind == "webp" else SECOND, found, extension=kind)
    archive(world, tmp_path / "map.pmtiles", zooms="0")
    tiles = tiles_in(tmp_path / "map.pmtiles")
    (anew,) = [body for body in tiles.values() if body not in bodies.values()]
    assert len(tiles) == 4
    with Image.open(io.BytesIO(anew)) as image:
        assert image.format == "WEBP"
        colour = image.convert("RGB").getpixel((4, 4))
        assert isinstance(colour, tuple)
        assert max(abs(a - b) for a, b in zip(colour, (40, 120, 0), strict=True)) < 6


def test_where_tiles_nest_by_five_one_zoom_is_archived(tmp_path: Path) -> None:
    """Of what BlueMap keeps in a tile the picture."""
    world = World(tmp_path / "world")
    layer = Layer("day", Pyramid.endless(2, (Tile.at(-1, 0, 0),), 5), "png", tile_size=(SIZE, SIZE))
    whole = Image.new("RGBA", (SIZE + 1, 2 * SIZE + 2), (9, 9, 9, 255))
    whole.paste((250, 0, 0, 255), (0, 0, SIZE, SIZE))
    found = {Tile.at(0, 7, -3): as_png(whole), Tile.at(-1, 1, -1): as_png(whole)}
    world.harvest(FIRST, found, described=layer, renderer="bluemap")
    told = archive(world, tmp_path / "map.pmtiles")
    tiles = tiles_in(tmp_path / "map.pmtiles")
    assert told.tiles == len(tiles) == 1
    ((zoom, column, row),) = tiles
    half = 1 << zoom - 1
    assert (column - half, row - half) == (7, -3)
    with Image.open(io.BytesIO(tiles[zoom, column, row])) as image:
        assert image.size == (SIZE, SIZE)
        assert image.convert("RGBA").getcolors() == [(SIZE * SIZE, (250, 0, 0, 255))]


def test_what_cannot_be_is_one_line(world: World, tmp_path: Path) -> None:
    narrow, layer = World(tmp_path / "narrow"), Layer("day", Pyramid(4), "png", tile_size=(8, 16))
    narrow.harvest(FIRST, {Tile(0, 1, 1): coloured(height=16)}, described=layer)
    for of, name, wanted, words in [
        (world, "map.tar", {}, "end it with .pmtiles, .mbtiles, .zip; nothing was made"),
        (world, "map.zip", {"area": "90000,90000,90001,90001"}, "nothing was there in this area"),
        (narrow, "map.mbtiles", {}, "tiles of 8 x 16 pixels are not square, which .mbtiles asks for"),
    ]:
        with pytest.raises(ConfigurationError, match=re.escape(words)):
            archive(of, tmp_path / name, **wanted)
    assert archive(narrow, tmp_path / "map.zip", zooms="0").tiles == 1


def test_images_that_cannot_be_read_are_counted_and_without_any_other_there_is_no_archive(
    tmp_path: Path,
) -> None:
    world, path = World(tmp_path / "world"), tmp_path / "out" / "map.pmtiles"
    world.harvest(FIRST, {Tile(0, 1, 1): noise(1), Tile(0, 3, 1): noise(2)})
    path.parent.mkdir()
    next(world.data.rglob("*.png")).unlink()
    told = archive(world, path, zooms="0")
    assert (told.tiles, told.missing) == (1, 1)
    path.unlink()
    shutil.rmtree(world.data / "tiles")
    with pytest.raises(TileHarvestError, match=r"was not made, .* tileharvest check-store names") as raised:
        archive(world, path)
    assert raised.value.exit_status == ExitStatus.FAILED_TILES
    assert not any(path.parent.iterdir())

"""Excerpts of a map; mosaics and differences of them, beside pictures put together by Pillow; and what stays
if the file of an export cannot be made."""

import csv
import json
import os
import signal
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from PIL import Image, ImageChops, ImageDraw, ImageStat

from tests.commands.running import run_here
from tests.export.conftest import CHANGED, GONE, NEW, Count, most_bytes_of_a_file, picture
from tests.viewer.building import DAY_LAYER, FIRST, MAP, NIGHT_LAYER, SECOND, SIZE, THIRD, World, as_png
from tests.viewer.building import picture as coloured
from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.export import mosaic
from tileharvest.export.archive import write_archive
from tileharvest.export.difference import changed_pixels, write_difference, write_list
from tileharvest.export.excerpt import Excerpt, excerpt_of, zooms_between
from tileharvest.export.film import film_of, write_film
from tileharvest.export.mosaic import sheet_of, write_mosaic
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.maps.named_areas import NamedArea
from tileharvest.pictures.pixels import on_ground
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import Ground, Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

SPAWN = NamedArea(name="spawn", layer="top", corners=((9, 0), (0, 19)))


def test_nothing_said_is_the_whole_first_layer_on_its_last_day(history: History) -> None:
    found = excerpt_of(history, MAP)
    assert (found.layer.name, found.first, found.last) == (DAY_LAYER, THIRD, THIRD)
    assert found.box(0) == (-2 * SIZE, -2 * SIZE, 2 * SIZE, 2 * SIZE)
    assert found.box(-1) == (-SIZE, -SIZE, SIZE, SIZE)
    assert found.box(-3) == (-SIZE // 4, -SIZE // 4, SIZE // 4, SIZE // 4)
    assert list(found.zooms()) == list(range(0, -9, -1))


def test_a_period_of_a_map_that_was_there_in_between_reaches_as_far_as_it_did_then(tmp_path: Path) -> None:
    """On the first day and on the last nothing is there. A single day is empty all the same."""
    world, nothing = World(tmp_path), Tile(0, 9, 9)
    world.harvest(FIRST, {nothing: coloured()})
    world.harvest(SECOND, {nothing: None})
    world.harvest(SECOND + timedelta(days=1), {Tile(0, 1, 1): coloured(), Tile(0, 5, 1): coloured()})
    world.harvest(SECOND + timedelta(days=2), {Tile(0, 5, 1): None, Tile(0, 1, 3): coloured()})
    world.harvest(THIRD, {Tile(0, 1, 1): None, Tile(0, 1, 3): None})
    with History.open_read_only(f"sqlite:///{world.database}") as history:
        period = {"first": str(SECOND), "day": str(THIRD)}
        assert excerpt_of(history, MAP, **period).box(0) == (0, -16, 24, 0)
        projection = map_outline(history, MAP).layers[0].latest.projection
        assert projection is not None
        x, z = projection.place_at(1, 3)
        area = f"{x:.0f},{z:.0f},{x:.0f},{z:.0f}"
        assert excerpt_of(history, MAP, **period, area=area).box(0)
        assert excerpt_of(history, MAP, day=str(THIRD), area=area).box(0) is None
        assert excerpt_of(history, MAP, day=str(THIRD)).box(0) is None


@pytest.mark.parametrize(
    ("beyond", "begins_coarse", "box"),
    [(None, False, (2, -4, 4, 0)), (Tile.at(-2, 1, 0), False, (0, -8, 16, 8)), (None, True, (2, -4, 4, 0))],
)
def test_a_coarse_picture_ends_with_the_deepest_tiles_unless_some_are_missing(
    tmp_path: Path, beyond: Tile | None, box: tuple[int, int, int, int], *, begins_coarse: bool
) -> None:
    """Of a tile of zoom -2 with 8 pixels a deepest tile shows two. A difference has the edges of a mosaic."""
    world, deep = World(tmp_path), [Tile.at(0, 1, -2), Tile.at(0, 1, -1)]
    above = {tile.ancestor(levels) for tile in deep for levels in (1, 2)} | ({beyond} if beyond else set())
    world.harvest(FIRST, dict.fromkeys(above if begins_coarse else [*deep, *above], coloured()))
    world.harvest(SECOND, dict.fromkeys(deep, coloured(GREEN)))
    with History.open_read_only(f"sqlite:///{world.database}") as history:
        day, period = {"day": str(SECOND)}, {"first": str(FIRST), "day": str(SECOND)}
        assert [excerpt_of(history, MAP, **wanted).box(-2) for wanted in (day, period)] == [box] * 2


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"layer": "nigth"}, "did you mean 'night'?"),
        ({"layer": NIGHT_LAYER}, "had no tile yet on 2021-05-12"),
        ({"day": "yesterday"}, "yesterday is not a day: write it as 2021-05-12"),
        ({"day": "2021-02-12"}, "before the history of map 'world', which begins on 2021-02-13"),
        ({"first": "2021-05-12", "day": "2021-02-16"}, "the first day, 2021-05-12, is later than"),
        ({"area": "spawm"}, "did you mean 'spawn'?"),
        ({"area": "1,2,3"}, "write two corners in blocks, such as --area=-100,-50,100,50"),
    ],
)
def test_what_a_map_does_not_have_is_said(history: History, wanted: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=r"\S") as caught:
        excerpt_of(history, MAP, **wanted, named={"spawn": SPAWN})
    assert words in str(caught.value)


def test_zooms_are_written_in_these_ways() -> None:
    zooms = [-3, -2, -1, 0]
    for text, chosen in ((None, zooms), ("-2..0", zooms[1:]), ("-2..", zooms[1:]), ("..-2", zooms[:2])):
        assert zooms_between(zooms, text) == chosen
    assert zooms_between(zooms, "-1") == [-1]
    for wrong in ("1", "-9", "..", "", "0..-2", "deep"):
        with pytest.raises(ConfigurationError):
            zooms_between(zooms, wrong)


def made(
    world: World, excerpt: Excerpt, path: Path, zoom: int = 0, background: tuple[int, int, int] | None = None
) -> tuple[Image.Image, int]:
    """The picture, and how many of its tiles are not whole."""
    sheet, watch = sheet_of(excerpt, path, zoom, None), Count()
    path.parent.mkdir()
    size, damaged = write_mosaic(sheet, path, world.store, watch, background=background)
    assert path.stat().st_size == size
    assert watch.done == watch.expected == sheet.box.height
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208 - hidden ones, too
    opened = Image.open(path)
    opened.load()
    return opened, damaged


@pytest.mark.parametrize(
    ("day", "ending", "zoom", "edges", "band"),
    [
        (FIRST, "tif", 0, (0, 0, 32, 32), 1),
        (SECOND, "png", 0, (5, 3, 26, 31), 700),
        (THIRD, "png", 0, (0, 0, 32, 32), 1 << 20),
        (FIRST, "png", -1, (0, 0, 16, 16), 1 << 20),
    ],
)
def test_each_day_is_as_its_tiles_were_whatever_the_memory_holds(
    world: World,
    history: History,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    day: date,
    ending: str,
    zoom: int,
    edges: tuple[int, int, int, int],
    band: int,
) -> None:
    """Zoom -1 has no images. An image that cannot be read leaves its place blank, and is counted."""
    monkeypatch.setattr(mosaic, "_BAND", band)
    left, top, right, bottom = (edge / SIZE * 2 * 2**-zoom - 4 for edge in edges)
    excerpt = replace(excerpt_of(history, MAP, day=str(day)), ground=Ground(left, -bottom, right, -top))
    found, damaged = made(world, excerpt, tmp_path / "out" / f"map.{ending}", zoom)
    side = 4 * SIZE >> -zoom
    whole = picture(world, day).resize((side, side), Image.Resampling.BOX)
    assert found.tobytes() == whole.crop(edges).tobytes()
    assert damaged == (1 if day == THIRD else 0)


@pytest.mark.parametrize(("ending", "apart"), [("png", 0), ("jpg", 60), ("webp", 60), ("avif", 90)])
def test_what_cannot_be_transparent_lies_on_a_ground(
    world: World, history: History, tmp_path: Path, ending: str, apart: int
) -> None:
    """Of noise, which no lossy form keeps well, the mean of all pixels is kept."""
    ground, path = (10, 20, 30), tmp_path / "out" / f"map.{ending}"
    found, _ = made(world, excerpt_of(history, MAP, day=str(FIRST)), path, background=ground)
    expected = on_ground(picture(world, FIRST), ground)
    assert max(ImageStat.Stat(ImageChops.difference(found.convert("RGB"), expected)).mean) <= apart


def test_max_pixels_chooses_the_deepest_zoom_that_fits_and_what_cannot_be_made_is_said(
    history: History,
) -> None:
    excerpt = excerpt_of(history, MAP)
    zooms = {most: sheet_of(excerpt, Path("map.png"), None, most).zoom for most in (1024, 1023, 256, 255)}
    assert zooms == {1024: 0, 1023: -1, 256: -1, 255: -2}
    why = r"zoom 0 has 32 x 32 pixels, and --max-pixels allows 1,023; .* --zoom -1 fits: 16 x 16"
    for name, zoom, most, words in (
        ("map.png", 0, 1023, why),
        ("map.png", None, 3, "no zoom fits: choose a smaller --area"),
        ("map.bmp", 0, None, "map.bmp is not a name for a picture: end it with .png"),
        (".", 0, None, r"^\. is not a name for a picture"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            sheet_of(excerpt, Path(name), zoom, most)


GREEN: Final = (0, 200, 60, 255)
RED: Final = (230, 30, 30, 255)


def between(history: History, first: date, last: date) -> Excerpt:
    return excerpt_of(history, MAP, first=str(first), day=str(last))


def place(tile: Tile) -> tuple[int, int, int, int]:
    """Where a tile lies in the picture of the island."""
    left, top = (tile.column + 2) * SIZE, (tile.row + 2) * SIZE
    return left, top, left + SIZE, top + SIZE


def is_faded(found: Image.Image, before: Image.Image) -> bool:
    """Whether each pixel has a quarter of the colours, and half of the way to grey."""
    colours = before.convert("RGB")
    pale = Image.blend(colours.convert("L").convert("RGB"), colours, 0.25)
    pale = Image.blend(Image.new("RGB", pale.size, (128, 128, 128)), pale, 0.5)
    pale.putalpha(before.getchannel("A"))
    return all(most <= 2 for _, most in ImageStat.Stat(ImageChops.difference(found, pale)).extrema)


def test_what_has_changed_has_its_colours_and_all_else_is_faded(
    world: World, history: History, tmp_path: Path
) -> None:
    path, excerpt = tmp_path / "diff.png", between(history, FIRST, SECOND)
    _, damaged = write_difference(sheet_of(excerpt, path, 0, None), path, world.store, Count(), None)
    found, before, now = Image.open(path), picture(world, FIRST), picture(world, SECOND)
    assert (found.size, damaged) == (now.size, 0)
    expected = {CHANGED: now.crop(place(CHANGED)), GONE: before.crop(place(GONE)), NEW: now.crop(place(NEW))}
    for tile, colour in ((GONE, RED), (NEW, GREEN)):
        ImageDraw.Draw(expected[tile]).rectangle((0, 0, SIZE - 1, SIZE - 1), outline=colour)
    for tile in (Tile.at(0, column, row) for column in range(-2, 2) for row in range(-2, 2)):
        part = found.crop(place(tile))
        if tile in expected:
            assert part.tobytes() == expected[tile].tobytes(), tile
        else:
            assert is_faded(part, now.crop(place(tile))), tile


def test_lists_name_the_blocks_of_each_tile(tmp_path: Path) -> None:
    """A tile has 500 of them, as those of BlueMap: that of column -2 and row 1 the blocks -1000 to -501 and
    500 to 999."""
    projection = Projection.from_above(500)
    layer = Layer("flat", Pyramid(4), "png", tile_size=(8, 8), projection=projection)
    world, tiles = World(tmp_path / "flat"), [Tile.at(0, -2, 1), Tile.at(0, 0, 0)]
    world.harvest(FIRST, dict.fromkeys(tiles, coloured(RED)), layer="flat", described=layer)
    world.harvest(SECOND, {tiles[0]: coloured(GREEN)}, layer="flat", described=layer)
    with History.open_read_only(f"sqlite:///{world.database}") as history:
        excerpt = between(history, FIRST, SECOND)
        for ending in ("json", "csv"):
            size = write_list(excerpt, tmp_path / f"diff.{ending}", Count())
            assert size == (tmp_path / f"diff.{ending}").stat().st_size
    (row,) = json.loads((tmp_path / "diff.json").read_text("utf-8"))
    assert list(row.values())[:6] == ["0_-3_-3", "changed", -1000, 500, -501, 999]
    assert list(row)[:6] == ["tile", "change", "west", "north", "east", "south"]
    with (tmp_path / "diff.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [{key: str(value) for key, value in row.items()}]


def test_changed_pixels_are_counted_with_the_box_around_them(tmp_path: Path) -> None:
    """Two of a tile left of the middle, in its colours, and one of a new tile right of it."""
    world = World(tmp_path)
    before = Image.new("RGBA", (SIZE, SIZE), RED)
    now, new = before.copy(), Image.new("RGBA", (SIZE, SIZE))
    for image, place in ((now, (1, 2)), (now, (3, 2)), (new, (5, 6))):
        image.putpixel(place, GREEN)
    world.harvest(FIRST, {Tile.at(0, -1, 0): as_png(before)})
    world.harvest(SECOND, {Tile.at(0, -1, 0): as_png(now), Tile.at(0, 0, 0): as_png(new)}, finished=False)
    with History.open_read_only(f"sqlite:///{world.database}") as history:
        found = changed_pixels(between(history, FIRST, SECOND), world.store)
        assert found == (3, (1 - SIZE, 2, 6, 7))
        assert f"{SECOND}, of which the harvest is not" in between(history, FIRST, SECOND).in_words()
        assert changed_pixels(between(history, SECOND, SECOND), world.store) == (0, None)


def write(path: Path, world: World, history: History, **limit: Any) -> None:
    excerpt = excerpt_of(history, MAP, first=str(FIRST), day=str(SECOND))
    if path.stem == "mosaic":
        write_mosaic(sheet_of(excerpt, path, 0, None), path, world.store, Count(), **limit)
    elif path.stem == "diff":
        write_difference(sheet_of(excerpt, path, 0, None), path, world.store, Count(), None, **limit)
    elif path.stem == "film":
        write_film(film_of(excerpt, path, (352, 352)), path, world.store, Count(), **limit)
    else:
        write_archive(excerpt, path, None, world.store, Count(), **limit)


@pytest.mark.parametrize(
    "name",
    [
        *("mosaic.png", "diff.png", "film.mp4", "film.webm", "film.webp", "film.gif"),
        *("archive.pmtiles", "archive.mbtiles", "archive.zip"),
    ],
)
def test_a_full_disk_and_too_large_a_file_leave_the_file_from_before(
    world: World, history: History, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"before")
    (tmp_path / f".{name}.0.unfinished").write_bytes(b"what a kill has left")
    with most_bytes_of_a_file(1000), pytest.raises(TileHarvestError, match="the disk is full"):
        write(path, world, history)
    with pytest.raises(TileHarvestError, match=r"more than 1\.0 kB, the most that was allowed; nothing was"):
        write(path, world, history, most_bytes=1000)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == [name]  # noqa: PTH208 - hidden ones, too


@pytest.mark.parametrize("command", [("mosaic", "map.png"), ("film", "film.mp4"), ("archive", "map.pmtiles")])
def test_a_signal_ends_it_in_one_line_and_leaves_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, str]
) -> None:
    """It comes while an image is read."""
    read = FileStore.named

    def named(store: FileStore, name: str) -> bytes:
        os.kill(os.getpid(), signal.SIGTERM)
        return read(store, name)

    monkeypatch.setattr(FileStore, "named", named)
    (tmp_path / "maps.toml").touch()
    places = {"TILEHARVEST_MAPS": str(tmp_path / "maps.toml"), "TILEHARVEST_DATA": str(world.data)}
    done = run_here("tileharvest", (command[0], MAP, str(tmp_path / command[1])), places)
    end = "stopped: nothing was made, and what was there before is as it was"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, end)
    assert os.listdir(tmp_path) == ["maps.toml"]  # noqa: PTH208

"""Films as files, decoded again, beside pictures put together by Pillow."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Self

import av
import pytest
from PIL import Image

from tests.end_to_end.real_maps import days
from tests.export.island import noise, picture
from tests.export.test_restored_tree import PastMap
from tests.export.watching import Count, most_bytes_of_a_file
from tests.servers.published import published
from tests.viewer.building import (
    BLUE,
    DAY_LAYER,
    FIRST,
    GREEN,
    MAP,
    NIGHT_LAYER,
    RED,
    SECOND,
    SIZE,
    THIRD,
    World,
    as_png,
    square,
)
from tests.viewer.building import picture as coloured
from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.export.excerpt import Wanted, excerpt_of
from tileharvest.export.film import FilmStyle, film_of, foretold, size_of, write_film
from tileharvest.export.film_file import FILM_FORMS, TICKS, usual_ending
from tileharvest.export.picture_file import on_ground
from tileharvest.history.database import History
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from tileharvest.export.film import Film

GROUND = (10, 20, 30)
EDGE = 32 * 8
"""The island has 32 x 32 pixels, which are shown eightfold, with room for the lettering around."""
STYLE = FilmStyle((EDGE + 96, EDGE + 96), pace=1, background="#0a141e")
PLACE = (48, 48, 48 + EDGE, 48 + EDGE)


def made(
    world: World, history: History, path: Path, style: FilmStyle = STYLE, wanted: Wanted | None = None
) -> tuple[Film, list[tuple[Image.Image, float]], int]:
    """The film; its pictures, each with the milliseconds for which it is shown; and its damaged tiles."""
    film = film_of(excerpt_of(history, MAP, wanted or Wanted(is_period=True)), path, style)
    watch = Count()
    size, damaged = write_film(film, path, world.store, watch)
    assert path.stat().st_size == size
    assert watch.done == watch.expected == len(film.moments)
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208 - hidden ones, too
    shown = decoded(path)
    assert all(image.size == style.size for image, _ in shown)
    assert sum(milliseconds for _, milliseconds in shown) == pytest.approx(1000 * film.seconds, abs=1)
    return film, shown, damaged


def decoded(path: Path) -> list[tuple[Image.Image, float]]:
    if path.suffix in {".mp4", ".webm"}:
        with av.open(path) as container:
            frames = list(container.decode(video=0))
            starts = [1000 * float(frame.time or 0) for frame in frames]
            # The last one is there for a tick.
            ends = [*starts[1:], starts[-1] + 1000 / TICKS]
            images = [frame.to_image().convert("RGB") for frame in frames]
        return [(image, end - start) for image, start, end in zip(images, starts, ends, strict=True)]
    found = []
    with Image.open(path) as opened:
        for number in range(opened.n_frames):
            opened.seek(number)
            opened.load()
            found.append((opened.convert("RGB"), float(opened.info["duration"])))
    return found


def expected(world: World, day: date) -> Image.Image:
    return on_ground(picture(world, day), GROUND).resize((EDGE, EDGE), Image.Resampling.NEAREST)


def test_each_state_is_as_its_tiles_were(world: World, history: History, tmp_path: Path) -> None:
    """After a cross-fade of two pictures, and two with an outline, what is new stands alone."""
    film, shown, damaged = made(world, history, tmp_path / "film.apng")
    assert [moment.day for moment in film.moments] == [FIRST, SECOND, THIRD]
    assert [milliseconds for _, milliseconds in shown] == [
        *(1000, 50, 50, 400, 50, 450),
        *(50, 50, 400, 50, 1450),
    ]
    for number, day in ((0, FIRST), (5, SECOND), (10, THIRD)):
        assert shown[number][0].crop(PLACE).tobytes() == expected(world, day).tobytes()
    # An image that cannot be read leaves its place blank, and is counted.
    assert damaged == 1


def test_a_change_fades_in_below_a_soft_outline(world: World, history: History, tmp_path: Path) -> None:
    _, shown, _ = made(world, history, tmp_path / "film.apng")
    before, now = expected(world, FIRST), expected(world, SECOND)
    # The tile that is changed has columns 2 and rows 1 of four; the line goes along its edges.
    middle, unchanged = (2 * 64 + 30, 64 + 30), (20, 3 * 64 + 20)
    for step in (1, 2):
        faded = shown[step][0].crop(PLACE)
        assert faded.getpixel(unchanged) == before.getpixel(unchanged)
        for channel in range(3):
            old, new = (image.getpixel(middle)[channel] for image in (before, now))  # type: ignore[index]
            found = faded.getpixel(middle)[channel]  # type: ignore[index]
            assert abs(found - (old + (new - old) * step / 3)) <= 1
    outlined, clean = shown[3][0].crop(PLACE), shown[5][0].crop(PLACE)
    differing = [
        (x, y)
        for x in range(EDGE)
        for y in range(EDGE)
        if outlined.getpixel((x, y)) != clean.getpixel((x, y))
    ]
    assert differing
    # It is yellow, and near one of the three tiles that have changed: CHANGED, NEW, and the one that is gone.
    yellow = [outlined.getpixel(place) for place in differing]
    assert sum(one[0] for one in yellow) > 1.3 * sum(one[2] for one in yellow)  # type: ignore[index]
    assert all(y < 2 * 64 + 40 and x >= 64 - 40 for x, y in differing)


@pytest.mark.parametrize(
    ("ending", "apart"),
    [
        # x264 at 20 rounds to 0.625 * 2^(20 / 6) = 6.3, and AV1 at 34 to about 8. Each loses as much again
        # when colours are converted and their resolution is halved.
        ("mp4", 12),
        ("webm", 14),
        ("webp", 12),
        ("avif", 14),
        # Few colours are kept as they are.
        ("gif", 2),
        ("apng", 0),
    ],
)
def test_each_form_has_the_colours_and_the_times(tmp_path: Path, ending: str, apart: int) -> None:
    world = World(tmp_path / "world")
    left, right = Tile(0, -1, 1), Tile(0, 1, 1)
    world.harvest(FIRST, {left: coloured(RED), right: coloured(BLUE)})
    world.harvest(SECOND, {right: coloured(GREEN)})
    style = FilmStyle((256, 192), pace=1.5)
    (tmp_path / "film").mkdir()
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        _, shown, _ = made(world, history, tmp_path / "film" / f"film.{ending}", style)
    for number, colours in ((0, (RED, BLUE)), (-1, (RED, GREEN))):
        image = shown[number][0]
        # Each is 64 pixels wide and high, on both sides of the middle.
        for x, colour in zip((96, 160), colours, strict=True):
            found = image.getpixel((x, 96))
            assert isinstance(found, tuple)
            assert max(abs(one - other) for one, other in zip(found, colour[:3], strict=True)) <= apart


@pytest.mark.parametrize(
    ("ending", "pace", "apart"),
    # What would stay of an outline is apart by a hundred. Near an edge codecs mix the colours of both sides.
    [
        *(("apng", 0.1, 0), ("apng", 0.5, 0), ("webp", 0.5, 24)),
        *(("mp4", 0.1, 24), ("mp4", 0.5, 24), ("webm", 0.1, 24), ("webm", 0.5, 24)),
    ],
)
def test_nothing_of_what_was_shown_before_stays(tmp_path: Path, ending: str, apart: int, pace: float) -> None:
    """Neither an outline nor an edge of what was drawn anew: the last picture is as if it were the only
    one."""
    world, chance = World(tmp_path / "world"), Random(5)
    shown: dict[Tile, tuple[int, int, int, int]] = {}
    for number in range(7):
        tiles = [Tile.at(0, column, row) for column in range(20) for row in range(12)]
        chosen = chance.sample(tiles, (0, 1, 3, 100, 2, 4, 3)[number]) if number else tiles
        new = {tile: (*chance.randbytes(3), 255) for tile in chosen}
        world.harvest(FIRST + timedelta(days=number), {tile: coloured(new[tile]) for tile in chosen})
        shown |= new
    whole = Image.new("RGB", (20 * SIZE, 12 * SIZE))
    for tile, colour in shown.items():
        whole.paste(colour[:3], (tile.column * SIZE, tile.row * SIZE, *_end(tile)))
    (tmp_path / "film").mkdir()
    # Each tile fourfold, with room for the lettering around.
    style = FilmStyle((20 * SIZE * 4 + 100, 12 * SIZE * 4 + 100), pace=pace)
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        film, pictures, _ = made(world, history, tmp_path / "film" / f"film.{ending}", style)
    assert film.lens.scale == 4
    expected_image = whole.resize((whole.width * 4, whole.height * 4), Image.Resampling.NEAREST)
    found = pictures[-1][0].crop((50, 50, 50 + whole.width * 4, 50 + whole.height * 4))
    for tile in shown:
        for across, down in ((16, 16), (4, 4), (28, 28)):
            place = tile.column * 32 + across, tile.row * 32 + down
            pair = found.getpixel(place), expected_image.getpixel(place)
            differing = [abs(one - other) for one, other in zip(*pair, strict=True)]  # type: ignore[arg-type]
            assert max(differing) <= apart, (tile, place, pair)


def _end(tile: Tile) -> tuple[int, int]:
    return (tile.column + 1) * SIZE, (tile.row + 1) * SIZE


@pytest.mark.parametrize(
    ("every", "days"),
    [
        ("day", [FIRST + timedelta(days=number) for number in range(89)]),
        ("week", [*(FIRST + timedelta(days=7 * number) for number in range(13)), THIRD]),
        ("month", [FIRST, date(2021, 3, 1), date(2021, 4, 1), date(2021, 5, 1), THIRD]),
    ],
)
def test_time_may_pass_evenly(history: History, every: str, days: list[date]) -> None:
    excerpt = excerpt_of(history, MAP, Wanted(is_period=True))
    film = film_of(excerpt, Path("film.gif"), FilmStyle((64, 64), every=every))
    assert [moment.day for moment in film.moments] == days


@pytest.mark.parametrize("every", ["change", "day", "week", "month"])
def test_a_film_ends_with_the_last_harvest(history: History, every: str) -> None:
    style = FilmStyle((64, 64), every=every)
    last = film_of(excerpt_of(history, MAP, Wanted(is_period=True)), Path("film.gif"), style)
    later = film_of(excerpt_of(history, MAP, Wanted(last="9999-12-31")), Path("film.gif"), style)
    assert later.moments == last.moments
    assert later.as_plain() == last.as_plain()


def test_what_has_not_changed_is_not_drawn_again(world: World, history: History, tmp_path: Path) -> None:
    """89 days, of which two changed: each image is read once."""
    read: list[str] = []

    class Told:
        def named(self, name: str) -> bytes:
            read.append(name)
            return world.store.named(name)

    path = tmp_path / "film.webp"
    film = film_of(excerpt_of(history, MAP, Wanted(is_period=True)), path, FilmStyle((64, 64), every="day"))
    store: Any = Told()
    write_film(film, path, store, Count())
    assert len(read) == len(set(read)) == 15 + 2 + 1


def test_a_period_begins_with_what_was_there(world: World, history: History, tmp_path: Path) -> None:
    wanted = Wanted(first=str(SECOND), is_period=True)
    film, shown, _ = made(world, history, tmp_path / "film.apng", wanted=wanted)
    assert [moment.day for moment in film.moments] == [SECOND, THIRD]
    assert shown[0][0].crop(PLACE).tobytes() == expected(world, SECOND).tobytes()


def test_a_large_area_is_made_smaller_until_it_fits(world: World, history: History, tmp_path: Path) -> None:
    """Zoom -1 has 16 x 16 pixels: of 24 the deepest ones are made smaller."""
    excerpt = excerpt_of(history, MAP, Wanted(is_period=True))
    sizes = {}
    for edge in (64, 80, 128):
        lens = film_of(excerpt, Path("film.gif"), FilmStyle((edge, edge))).lens
        sizes[edge] = lens.zoom, lens.scale
    assert sizes == {64: (0, 2), 80: (0, 2), 128: (0, 4)}


def test_images_of_several_kinds_and_layers_are_shown_together(tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    left, right = Tile(0, -1, 1), Tile(0, 1, 1)
    world.harvest(FIRST, {left: as_file(RED, "WEBP")}, layer=NIGHT_LAYER, extension="webp")
    world.harvest(SECOND, {left: coloured(GREEN)})
    world.harvest(THIRD, {right: as_file(BLUE, "JPEG")}, layer=NIGHT_LAYER, extension="jpg")
    (tmp_path / "film").mkdir()
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        _, shown, _ = made(
            world,
            history,
            tmp_path / "film" / "film.apng",
            FilmStyle((256, 192), pace=1),
            Wanted(layer=NIGHT_LAYER, is_period=True),
        )
    found = [shown[-1][0].getpixel((x, 96)) for x in (96, 160)]
    assert all(
        abs(one - other) <= 3
        for colour, right_one in zip(found, (RED, BLUE), strict=True)
        for one, other in zip(colour, right_one, strict=False)  # type: ignore[arg-type]
    )


def as_file(colour: tuple[int, int, int, int], form: str) -> bytes:
    body = io.BytesIO()
    Image.new("RGB", (SIZE, SIZE), colour[:3]).save(body, form, quality=95)
    return body.getvalue()


def test_tiles_that_nest_by_five_are_shown_at_a_zoom_that_there_is(tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    described = Layer(DAY_LAYER, Pyramid.kept(2, 5), "png", tile_size=(SIZE, SIZE))
    deep = {Tile.at(0, column, row): coloured(RED) for column in range(10) for row in range(10)}
    coarse = {Tile.at(-1, column, row): coloured(BLUE) for column in range(2) for row in range(2)}
    world.harvest(FIRST, deep | coarse, described=described, renderer="bluemap")
    world.harvest(SECOND, {Tile.at(-1, 0, 0): coloured(GREEN)}, described=described, renderer="bluemap")
    (tmp_path / "film").mkdir()
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        # 80 pixels of the deepest zoom do not fit into 64, and 16 of the next do, in a frame of that size.
        film, shown, _ = made(world, history, tmp_path / "film" / "film.apng", FilmStyle((64, 64), pace=1))
        assert (film.lens.zoom, film.lens.scale) == (0, 0.8)
        near = film_of(
            excerpt_of(history, MAP, Wanted(is_period=True)),
            Path("film.gif"),
            FilmStyle((64, 64), zoom=-1),
        )
    assert (near.lens.zoom, near.lens.scale) == (-1, 1)
    assert shown[0][0].getpixel((32, 20)) == RED[:3]


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> World:
    """64 tiles beside each other. On the second day one at the left changes, then one at the right."""
    world = World(tmp_path_factory.mktemp("road"))
    tiles = [Tile.at(0, column, 0) for column in range(64)]
    colours = [(4 * column, 255 - 4 * column, 128, 255) for column in range(64)]
    world.harvest(FIRST, dict(zip(tiles, map(coloured, colours), strict=True)))
    world.harvest(SECOND, {tiles[10]: coloured(RED)})
    world.harvest(THIRD, {tiles[50]: coloured(BLUE)})
    return world


def test_a_camera_that_follows_goes_where_it_changes(road: World, tmp_path: Path) -> None:
    """Eight pixels of a tile; a frame has 128, and the road 512."""
    style = FilmStyle((128, 64), camera="follow", zoom=0, pace=1)
    with History.open_read_only(f"sqlite:///{road.history_file}") as history:
        film, shown, _ = made(road, history, tmp_path / "film.apng", style)
    lefts = [moment.corner[0] for moment in film.moments]
    # Tile 10 lies around 84, and tile 50 around 404; the frame ends where the road does.
    assert lefts == [84 - 64, 84 - 64, min(404 - 64, 512 - 128)]
    last = shown[-1][0]
    assert last.getpixel((404 - lefts[-1], 32)) == BLUE[:3]
    # On its way it is at each place in between, and never turns back.
    assert film.drift(film.moments[1].corner, film.moments[2].corner) == 3 * TICKS
    assert len(shown) > 3 * TICKS


def test_one_that_is_well_in_view_needs_no_move(road: World) -> None:
    with History.open_read_only(f"sqlite:///{road.history_file}") as history:
        film = film_of(
            excerpt_of(history, MAP, Wanted(is_period=True)),
            Path("film.gif"),
            FilmStyle((1024, 64), camera="follow", zoom=0),
        )
    assert all(before.corner == after.corner for before, after in pairwise(film.moments))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1280*720", "is no size: write wide, square, upright, or 1280x720"),
        ("1281x720", "an edge has 64 to 4,096 pixels, in steps of 2"),
        ("2x2", "an edge has 64 to 4,096 pixels"),
        ("99999999x99999999", "an edge has 64 to 4,096 pixels"),
    ],
)
def test_a_size_that_cannot_be_is_said(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        size_of(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "style", "wanted", "words"),
    [
        ("film.avi", FilmStyle(), Wanted(), "film.avi is no name of a film: end it with .mp4, .webm"),
        ("film.gif", FilmStyle((4096, 4096)), Wanted(), "packed in 300 MB of memory"),
        ("film.gif", FilmStyle(), Wanted(area="90000,90000,90001,90001"), "nothing was there in this area"),
        ("film.gif", FilmStyle((64, 64), title="\U0010fffd"), Wanted(), "no font here has all signs"),
        ("film.gif", FilmStyle((64, 64), font="none.ttf"), Wanted(), "--font none.ttf is no font"),
    ],
)
def test_what_cannot_be_made_is_said(
    history: History, name: str, style: FilmStyle, wanted: Wanted, words: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        film_of(excerpt_of(history, MAP, wanted), Path(name), style)
    assert words in str(caught.value)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A map of noise, which no codec makes small. On each day but the first all of it changes."""
    world, chance = World(tmp_path_factory.mktemp("noisy")), Random(1)
    layer = Layer("day", Pyramid(4), "png", tile_size=(48, 48))
    for number in range(10):
        image = as_png(Image.frombytes("RGB", (48, 48), chance.randbytes(48 * 48 * 3)))
        tiles = [Tile.at(0, column, row) for column in range(6) for row in range(4)]
        world.harvest(FIRST + timedelta(days=number), dict.fromkeys(tiles, image), described=layer)
    return world


@pytest.mark.parametrize("quality", [None, 100])
@pytest.mark.parametrize("ending", FILM_FORMS)
def test_a_film_of_noise_has_as_many_bytes_as_foretold(
    noisy: World, tmp_path: Path, ending: str, quality: int | None
) -> None:
    path = tmp_path / f"film{ending}"
    with History.open_read_only(f"sqlite:///{noisy.history_file}") as history:
        film = film_of(
            excerpt_of(history, MAP, Wanted(is_period=True)), path, FilmStyle((320, 240), quality=quality)
        )
        least, most = foretold(film, path, noisy.store, Count())
        size, _ = write_film(film, path, noisy.store, Count())
    assert least <= size <= most < 2 * least


def test_of_an_avif_that_is_too_long_it_is_said_how_many_frames_fit(noisy: World, tmp_path: Path) -> None:
    path = tmp_path / "film.avif"
    with History.open_read_only(f"sqlite:///{noisy.history_file}") as history:
        film = film_of(excerpt_of(history, MAP, Wanted(is_period=True)), path, FilmStyle((320, 240)))
        _, size = foretold(film, path, noisy.store, Count())
        short = replace(film, form=film.form._replace(most_bytes=size // 2))
        with pytest.raises(
            ConfigurationError,
            match=r"a file has .* at most: of its 10 frames about [45] fit; choose \.webp, \.mp4, a smaller",
        ):
            foretold(short, path, noisy.store, Count())


@pytest.mark.parametrize("ending", FILM_FORMS)
def test_a_film_whose_changes_differ_has_as_many_bytes_as_foretold(tmp_path: Path, ending: str) -> None:
    """One tile, some or all of them change, to noise or to a single colour. On some days nothing does."""
    world, chance = World(tmp_path / "world"), Random(3)
    layer = Layer("day", Pyramid(4), "png", tile_size=(48, 48))
    tiles = [Tile.at(0, column, row) for column in range(6) for row in range(4)]
    for number in range(40):
        pixels = chance.choice((chance.randbytes(48 * 48 * 3), chance.randbytes(3) * 48 * 48))
        image = as_png(Image.frombytes("RGB", (48, 48), pixels))
        chosen = chance.sample(tiles, chance.choice((1, 5, 24))) if number else tiles
        day = FIRST + timedelta(days=number + number // 10 * 7)
        world.harvest(day, dict.fromkeys(chosen, image), described=layer)
    path = tmp_path / f"film{ending}"
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        film = film_of(
            excerpt_of(history, MAP, Wanted(is_period=True)), path, FilmStyle((320, 240), every="day")
        )
        least, most = foretold(film, path, world.store, Count())
        size, _ = write_film(film, path, world.store, Count())
    assert least <= size <= most


def test_of_a_map_that_is_gone_the_size_is_foretold_by_what_was_there(tmp_path: Path) -> None:
    world, tiles = World(tmp_path / "world"), square(0, 4)
    world.harvest(FIRST, {tile: noise(tile.x) for tile in tiles})
    world.harvest(SECOND, dict.fromkeys(tiles))
    path = tmp_path / "film.webp"
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        film = film_of(excerpt_of(history, MAP, Wanted(is_period=True)), path, FilmStyle((128, 64)))
        least, most = foretold(film, path, world.store, Count())
        size, _ = write_film(film, path, world.store, Count())
    assert least <= size <= most < 2 * least


@pytest.mark.parametrize("name", ["jgore43", "antworld"])
@pytest.mark.parametrize(
    ("ending", "quality"),
    [("mp4", None), ("webm", None), ("webp", None), ("gif", None), ("avif", None), ("avif", 100)],
)
def test_a_film_of_a_real_map_has_as_many_bytes_as_foretold(
    shared_maps: Path, tmp_path: Path, name: str, ending: str, quality: int | None
) -> None:
    """The film shows all versions of the map."""
    past, path = PastMap(tmp_path, name), tmp_path / f"film.{ending}"
    for number, day in enumerate(days(shared_maps, name), 1):
        past.add(published(shared_maps, name, number, tmp_path / f"site-{number}"), date.fromisoformat(day))
    with History.open_read_only(past.url) as history:
        style = FilmStyle((960, 540), quality=quality)
        film = film_of(excerpt_of(history, name, Wanted(is_period=True)), path, style)
        least, most = foretold(film, path, past.store, Count())
        size, _ = write_film(film, path, past.store, Count())
    assert least <= size <= most <= 2 * size


def test_a_zoom_that_does_not_fit_is_refused(road: World) -> None:
    with (
        History.open_read_only(f"sqlite:///{road.history_file}") as history,
        pytest.raises(ConfigurationError, match="zoom 0 has 512 x 8 pixels of this area"),
    ):
        film_of(
            excerpt_of(history, MAP, Wanted(is_period=True)), Path("film.gif"), FilmStyle((128, 64), zoom=0)
        )


@pytest.mark.parametrize(("ending", "codec"), [("mp4", "h264"), ("webm", "av1")])
def test_a_video_is_of_the_codec_that_is_promised_and_each_picture_plays(
    world: World, history: History, tmp_path: Path, ending: str, codec: str
) -> None:
    """A picture that stays is repeated once a second."""
    _, shown, _ = made(world, history, tmp_path / f"film.{ending}")
    with av.open(tmp_path / f"film.{ending}") as container:
        (stream,) = container.streams.video
        assert stream.codec_context.codec.canonical_name == codec
        assert sum(packet.size > 0 for packet in container.demux(stream)) == len(shown)
    # The first picture, five of each change, and two repetitions of the last one while it stays.
    assert len(shown) == 1 + 5 + 5 + 2


@pytest.mark.parametrize(("ending", "name"), [("mp4", "libx264"), ("webm", "libsvtav1")])
def test_a_pyav_without_the_codec_is_said_in_one_line(
    world: World, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, name: str
) -> None:
    """PyAV itself raises the error, of a name that it does not know."""

    class Lacking:
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self._container = opened(*arguments, **options)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self._container.close()

        def add_stream(self, codec: str, **options: Any) -> None:
            self._container.add_stream(f"{codec}-of-another-build", **options)

    opened: Any = av.open
    monkeypatch.setattr(av, "open", Lacking)
    with pytest.raises(ConfigurationError, match=rf"\.{ending} needs the codec {name}, which the PyAV of"):
        made(world, history, tmp_path / f"film.{ending}")
    assert not any(tmp_path.iterdir())


def test_a_video_without_its_extra_says_how_to_get_it(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ConfigurationError, match=r"\.mp4 needs PyAV: pip install av; \.webp and \.gif need"):
        film_of(excerpt_of(history, MAP, Wanted()), Path("film.mp4"), STYLE)
    assert usual_ending() == ".webp"


@pytest.mark.parametrize("ending", [ending[1:] for ending in FILM_FORMS])
def test_a_full_disk_leaves_the_film_from_before(
    world: World, history: History, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"film.{ending}"
    path.write_bytes(b"before")
    with most_bytes_of_a_file(1500), pytest.raises(TileHarvestError, match="the disk is full"):
        made(world, history, path)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == [path.name]  # noqa: PTH208


@pytest.mark.parametrize("ending", [ending[1:] for ending in FILM_FORMS])
def test_what_stops_it_leaves_nothing(world: World, history: History, tmp_path: Path, ending: str) -> None:
    class Stopped(Count):
        def passed(self, parts: int = 1) -> None:
            raise TileHarvestError("stopped")

    path = tmp_path / f"film.{ending}"
    film = film_of(excerpt_of(history, MAP, Wanted(is_period=True)), path, STYLE)
    with pytest.raises(TileHarvestError, match="stopped"):
        write_film(film, path, world.store, Stopped())
    assert not any(tmp_path.iterdir())


def test_a_harvest_beside_it_is_no_part_of_the_film(tmp_path: Path) -> None:
    """What it adds comes later than the last day that the film has."""
    world = World(tmp_path / "world")
    tiles = square(0, 2, -1, -1)
    world.harvest(FIRST, {tile: coloured(RED) for tile in tiles})
    world.harvest(SECOND, {tiles[0]: coloured(BLUE)})
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:

        class Beside(Count):
            def passed(self, parts: int = 1) -> None:
                super().passed(parts)
                if self.done == 1:
                    world.harvest(THIRD, {tile: coloured(GREEN) for tile in tiles})

        path = tmp_path / "film.apng"
        film = film_of(excerpt_of(history, MAP, Wanted(is_period=True)), path, FilmStyle((128, 128), pace=1))
        write_film(film, path, world.store, Beside())
    last = decoded(path)[-1][0]
    assert last.getcolors(100_000) is not None
    assert GREEN[:3] not in {colour for _, colour in last.getcolors(100_000) or ()}
    assert BLUE[:3] in {colour for _, colour in last.getcolors(100_000) or ()}

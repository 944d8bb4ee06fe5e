"""Films as files, decoded again, beside pictures put together by Pillow."""

import os
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import av
import pytest
from PIL import Image

from tests.export.watching import Count, most_bytes_of_a_file
from tests.viewer.building import BLUE, FIRST, GREEN, MAP, RED, SECOND, THIRD, World, picture
from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.export.excerpt import excerpt_of
from tileharvest.export.film import (
    FILM_FORMATS,
    TICKS,
    Film,
    FilmStyle,
    film_of,
    size_of,
    usual_ending,
    write_film,
)
from tileharvest.history.database import History
from tileharvest.tiles.grid import Tile

STYLE = FilmStyle((352, 352), pace=1)
PERIOD = {"is_period": True}
CODECS = {"mp4": "h264", "webm": "av1"}
Pictures = list[tuple[Image.Image, float]]


def planned(
    history: History, style: FilmStyle, wanted: dict[str, Any] = PERIOD, path: Path = Path("film.webp")
) -> Film:
    return film_of(excerpt_of(history, MAP, **wanted), path, style)


def made(world: World, history: History, path: Path, style: FilmStyle = STYLE) -> tuple[Film, Pictures, int]:
    """The film; its pictures, each with the milliseconds for which it is shown; and its damaged tiles."""
    film, watch = planned(history, style, path=path), Count()
    path.parent.mkdir(exist_ok=True)
    size, damaged = write_film(film, path, world.store, watch)
    assert path.stat().st_size == size
    assert watch.done == watch.expected == len(film.shots())
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208 - hidden ones, too
    shown = decoded(path)
    assert all(image.size == style.size for image, _ in shown)
    assert sum(milliseconds for _, milliseconds in shown) == pytest.approx(1000 * film.seconds, abs=1)
    return film, shown, damaged


def decoded(path: Path) -> Pictures:
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


def pixel(image: Image.Image, place: tuple[int, int]) -> tuple[int, ...]:
    found = image.getpixel(place)
    assert isinstance(found, tuple)
    return found


def apart(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return max(abs(left - right) for left, right in zip(one, other, strict=False))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Two tiles beside each other. The right one turns from blue to green."""
    world = World(tmp_path_factory.mktemp("two"))
    world.harvest(FIRST, {Tile(0, -1, 1): picture(RED), Tile(0, 1, 1): picture(BLUE)})
    world.harvest(SECOND, {Tile(0, 1, 1): picture(GREEN)})
    return world


@pytest.mark.parametrize(
    ("ending", "most"),
    # Codecs lose a little, and again when colours are converted and their resolution is halved. A GIF keeps
    # few colours as they are.
    [("mp4", 12), ("webm", 14), ("webp", 12), ("gif", 2)],
)
def test_each_format_has_the_colours_and_the_times(
    two: World, tmp_path: Path, ending: str, most: int
) -> None:
    with History.open_read_only(f"sqlite:///{two.history_file}") as history:
        style = FilmStyle((256, 192), pace=1.5)
        _, shown, _ = made(two, history, tmp_path / "film" / f"film.{ending}", style)
    for number, colours in ((0, (RED, BLUE)), (-1, (RED, GREEN))):
        # Each is 64 pixels wide and high, on both sides of the middle.
        for x, colour in zip((96, 160), colours, strict=True):
            assert apart(pixel(shown[number][0], (x, 96)), colour) <= most
    if ending in CODECS:
        with av.open(tmp_path / "film" / f"film.{ending}") as container:
            (stream,) = container.streams.video
            assert stream.codec_context.codec.canonical_name == CODECS[ending]


def test_a_change_has_a_soft_outline_at_first_and_then_stands_alone(two: World, tmp_path: Path) -> None:
    with History.open_read_only(f"sqlite:///{two.history_file}") as history:
        style = FilmStyle((256, 192), pace=1, quality=100)
        _, shown, _ = made(two, history, tmp_path / "film" / "film.webp", style)
    assert [milliseconds for _, milliseconds in shown] == [1000, 500, 1500]
    outlined, clean = (image for image, _ in shown[1:])
    lit = [(x, 96) for x in range(256) if apart(pixel(outlined, (x, 96)), pixel(clean, (x, 96))) > 40]
    # The line is yellow, and lies along the edges of the tile that has changed.
    assert {x for x, _ in lit} & set(range(120, 136))
    assert all(min(abs(x - 128), abs(x - 192)) < 40 for x, _ in lit)
    assert all(pixel(outlined, place)[0] > pixel(outlined, place)[2] for place in lit)


def test_each_state_has_its_time_and_an_image_that_cannot_be_read_is_counted(
    world: World, history: History, tmp_path: Path
) -> None:
    film, shown, damaged = made(world, history, tmp_path / "film.gif")
    assert [day for day, _ in film.moments] == [FIRST, SECOND, THIRD]
    # On the third day nothing that can be shown has changed, so its pictures are one.
    assert [milliseconds for _, milliseconds in shown[:3]] == [1000, 500, 500]
    assert damaged == 1
    assert "3 frames of 352 x 352 pixels, 4 s" in film.in_words()
    one = planned(history, STYLE, {"first": str(THIRD), "is_period": True})
    assert "1 frame of 352 x 352 pixels, 2 s" in one.in_words()


@pytest.mark.parametrize(
    ("every", "days"),
    [
        ("day", [FIRST + timedelta(days=number) for number in range(89)]),
        ("week", [*(FIRST + timedelta(days=7 * number) for number in range(13)), THIRD]),
        ("month", [FIRST, date(2021, 3, 1), date(2021, 4, 1), date(2021, 5, 1), THIRD]),
    ],
)
def test_time_may_pass_evenly_and_ends_with_the_last_harvest(
    history: History, every: str, days: list[date]
) -> None:
    for wanted in (PERIOD, {"last": "9999-12-31"}):
        film = planned(history, FilmStyle((64, 64), every=every), wanted)
        assert [day for day, _ in film.moments] == days


def test_a_small_area_is_enlarged_by_a_whole_number(history: History) -> None:
    lenses = [planned(history, FilmStyle((edge, edge))).lens for edge in (64, 80, 128)]
    assert [(lens.zoom, lens.scale) for lens in lenses] == [(0, 2), (0, 2), (0, 4)]


@pytest.mark.parametrize(
    ("name", "style", "wanted", "words"),
    [
        (
            "film.avi",
            FilmStyle(),
            PERIOD,
            r"a film: end it with \.mp4, \.webm, \.webp, \.gif;",
        ),
        ("film.apng", FilmStyle(), PERIOD, "not a name for a film"),
        ("film.gif", FilmStyle(), {"area": "90000,90000,90001,90001"}, "nothing was there in this area"),
        ("film.gif", FilmStyle((64, 64), title="\U0010fffd"), PERIOD, "no font of this computer"),
    ],
)
def test_what_cannot_be_made_is_said(
    history: History, name: str, style: FilmStyle, wanted: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        planned(history, style, wanted, Path(name))


@pytest.mark.parametrize("text", ["4096x4096", "62x64", "65x64", "4098x64", "wider", "640"])
def test_a_size_that_no_film_can_have_is_refused(text: str) -> None:
    assert (size_of("upright"), size_of("1280x720")) == ((1080, 1920), (1280, 720))
    with pytest.raises(ConfigurationError, match=f"--size {text} "):
        size_of(text)


def test_a_video_without_its_extra_says_how_to_get_it(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ConfigurationError, match=r"\.mp4 needs PyAV: pip install av; \.webp and \.gif need"):
        planned(history, STYLE, path=Path("film.mp4"))
    assert usual_ending() == ".webp"


class Stopped(Count):
    def passed(self, parts: int = 1) -> None:
        raise TileHarvestError("stopped")


@pytest.mark.parametrize("ending", FILM_FORMATS)
def test_a_full_disk_a_signal_and_too_large_a_file_leave_the_film_from_before(
    world: World, history: History, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"film{ending}"
    path.write_bytes(b"before")
    with most_bytes_of_a_file(1500), pytest.raises(TileHarvestError, match="the disk is full"):
        made(world, history, path)
    with pytest.raises(TileHarvestError, match="stopped"):
        write_film(planned(history, STYLE, path=path), path, world.store, Stopped())
    with pytest.raises(TileHarvestError, match=r"more than 1\.5 kB, the most that was allowed; nothing was"):
        write_film(planned(history, STYLE, path=path), path, world.store, Count(), 1500)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == [path.name]  # noqa: PTH208

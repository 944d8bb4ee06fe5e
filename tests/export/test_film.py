"""Films as files, decoded again, beside pictures put together by Pillow."""

import os
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import av
import pytest
from PIL import Image

from tests.export.conftest import Count
from tests.viewer.building import BLUE, FIRST, GREEN, MAP, RED, SECOND, THIRD, World, picture
from tileharvest.errors import ConfigurationError
from tileharvest.export.excerpt import excerpt_of
from tileharvest.export.film import TICKS, Film, film_of, size_of, usual_ending, write_film
from tileharvest.history.database import History
from tileharvest.tiles.grid import Tile

PERIOD = {"is_period": True}
CODECS = {".mp4": "h264", ".webm": "av1"}


def planned(
    history: History, path: str | Path = "film.webp", wanted: dict[str, Any] = PERIOD, **style: Any
) -> Film:
    return film_of(excerpt_of(history, MAP, **wanted), Path(path), **{"size": (352, 352), **style})


def shown_by(path: Path) -> list[tuple[Image.Image, float]]:
    """The frames, each with the milliseconds for which it is shown."""
    if path.suffix in CODECS:
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


def apart(image: Image.Image, place: tuple[int, int], colour: tuple[int, ...]) -> int:
    found = image.getpixel(place)
    assert isinstance(found, tuple)
    return max(abs(left - right) for left, right in zip(found, colour, strict=False))


@pytest.mark.parametrize(
    ("ending", "most"),
    # Codecs lose a little, and again when colours are converted and their resolution is halved. A GIF keeps
    # few colours as they are.
    [(".mp4", 12), (".webm", 14), (".webp", 12), (".gif", 2)],
)
def test_each_format_has_the_colours_and_the_times(tmp_path: Path, ending: str, most: int) -> None:
    """Of two tiles beside each other the right one turns from blue to green. Title and day lie in corners."""
    world, path, watch = World(tmp_path), tmp_path / "film" / f"film{ending}", Count()
    world.harvest(FIRST, {Tile(0, -1, 1): picture(RED), Tile(0, 1, 1): picture(BLUE)})
    world.harvest(SECOND, {Tile(0, 1, 1): picture(GREEN)})
    path.parent.mkdir()
    with History.open_read_only(f"sqlite:///{world.database}") as history:
        film = planned(history, path, size=(256, 192), pace=1.5, title="Our\n")
        assert write_film(film, path, world.store, watch) == (path.stat().st_size, 0)
    assert watch.done == watch.expected == len(film.days) == 2
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208 - hidden ones, too
    shown = shown_by(path)
    assert [sum(times) for times in ([shown[0][1]], [time for _, time in shown[1:]])] == [1500, 2000]
    for number, colours in ((0, (RED, BLUE)), (-1, (RED, GREEN))):
        image = shown[number][0]
        # Each is 64 pixels wide and high, on both sides of the middle.
        assert all(
            apart(image, (x, 96), colour) <= most for x, colour in zip((96, 160), colours, strict=True)
        )
        for top in (0, 172):
            # Of letters the edges are neither dark nor white.
            assert max(image.convert("L").crop((0, top, 64, top + 20)).tobytes()) > 180
    if ending in CODECS:
        with av.open(path) as container:
            (stream,) = container.streams.video
            assert stream.codec_context.codec.canonical_name == CODECS[ending]


def test_an_image_that_cannot_be_read_is_counted(world: World, history: History, tmp_path: Path) -> None:
    film = planned(history, path := tmp_path / "film.gif")
    assert (film.days, write_film(film, path, world.store, Count())[1]) == ((FIRST, SECOND, THIRD), 1)
    assert "3 frames of 352 x 352 pixels, 3 s" in film.in_words()
    one = planned(history, wanted={"first": str(THIRD), "is_period": True})
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
    assert list(planned(history, wanted={"day": "9999-12-31", **PERIOD}, every=every).days) == days


def test_a_small_area_is_enlarged_by_a_whole_number(history: History) -> None:
    lenses = [planned(history, size=(edge, edge)).lens for edge in (64, 80, 128)]
    assert [(lens.zoom, lens.scale) for lens in lenses] == [(0, 2), (0, 2), (0, 4)]


@pytest.mark.parametrize(
    ("name", "wanted", "style", "words"),
    [
        ("film.apng", {}, {}, r"film.apng is not a name for a film: end it with \.mp4, \.webm, \.webp"),
        ("film.gif", {"area": "90000,90000,90001,90001"}, {}, "nothing was there in this area"),
        ("film.gif", {}, {"title": "\U0010fffd"}, "no font of this computer"),
        ("film.mp4", {}, {}, r"\.mp4 needs PyAV: pip install av; \.webp and \.gif need"),
    ],
)
def test_what_cannot_be_made_is_one_line(
    history: History,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    wanted: dict[str, Any],
    style: dict[str, Any],
    words: str,
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    assert usual_ending() == ".webp"
    with pytest.raises(ConfigurationError, match=words):
        planned(history, name, PERIOD | wanted, **style)


@pytest.mark.parametrize("text", ["4096x4096", "62x64", "65x64", "4098x64", "wider", "640"])
def test_a_size_that_no_film_can_have_is_refused(text: str) -> None:
    assert (size_of("upright"), size_of("1280x720")) == ((1080, 1920), (1280, 720))
    with pytest.raises(ConfigurationError, match=f"--size {text} "):
        size_of(text)

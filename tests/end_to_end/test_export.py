"""What leaves the house, made by the commands of a harvested map."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from PIL import Image

from tests.end_to_end.forking import Forked
from tests.end_to_end.project import Project, await_condition
from tests.end_to_end.real_maps import ANTWORLD, SMALL, Harvested
from tests.end_to_end.rendering import Rendering
from tests.servers.nginx import Nginx


def test_a_picture_a_film_and_an_archive_show_the_days_of_a_map(
    project: Project, antworld: list[Harvested], tmp_path: Path
) -> None:
    project.adopt(antworld[-1].data)
    told = {}
    for command, file, *more in (
        ("mosaic", "map.png", "--zoom", "-3", "--day", antworld[1].day),
        ("film", "film.webp", "--size", "320x180", "--every", "month"),
        ("archive", "map.zip", "--day", antworld[1].day),
    ):
        made = project.scrapy(command, ANTWORLD, str(tmp_path / file), *more, "--json")
        told[command] = json.loads(made.stdout)
        assert told[command]["bytes"] == (tmp_path / file).stat().st_size
    with Image.open(tmp_path / "map.png") as found, Image.open(tmp_path / "film.webp") as shown:
        assert found.size == (told["mosaic"]["width"], told["mosaic"]["height"])
        assert (shown.size, shown.n_frames > 1) == ((320, 180), True)
    assert told["archive"]["tiles"] == len(antworld[1].images)


def test_a_restored_map_can_be_served_again(
    project: Project, antworld: list[Harvested], nginx: Callable[..., Nginx], tmp_path: Path
) -> None:
    """Elsewhere than before. Its files have the site's times, of which nginx makes their ETags: so a harvest
    finds everything unchanged."""
    last, web = antworld[-1], tmp_path / "web"
    web.mkdir()
    project.adopt(last.data)
    project.add_map(ANTWORLD, f"{nginx(web).url}/map/", walk="full")
    told = json.loads(project.scrapy("restore", ANTWORLD, str(web / "map"), "--json").stdout)
    assert (told["day"], told["tiles"], told["missing"]) == (last.day, len(last.images), 0)
    counts = project.harvest(ANTWORLD, "2021-06-01")["counts"]
    assert {outcome: tiles for outcome, tiles in counts.items() if tiles and outcome != "404"} == {
        "ign": len(last.images)
    }


@contextmanager
def held_at_an_image(project: Project, *arguments: str) -> Iterator[tuple[Forked, Callable[[], None]]]:
    """The command while it waits for the bytes of an image, and what lets it have them."""
    images = [one for one in project.versions() if one.zoom == -3 and one.sha1 is not None]
    name = max(images, key=lambda one: one.day).sha1
    assert name is not None
    image = project.data / "tiles" / name[:2] / f"{name}.png"
    body = image.read_bytes()
    # An image is a pipe, and whoever reads it waits.
    image.unlink()
    os.mkfifo(image)
    with project.running(*arguments) as process:
        held: list[int] = []
        assert await_condition(lambda: is_read(image, held), process)
        # Others find the image as it was.
        beside = image.with_name("beside")
        beside.write_bytes(body)
        beside.replace(image)

        def go_on() -> None:
            os.set_blocking(held[0], True)
            with os.fdopen(held[0], "wb") as pipe:
                pipe.write(body)

        yield process, go_on


def is_read(pipe: Path, held: list[int]) -> bool:
    """Whether somebody reads it: before that the system lets nobody write without waiting."""
    with suppress(OSError):
        held.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    return bool(held)


REPETITION: Final = pytest.mark.repetition


@pytest.mark.parametrize(
    ("command", "arguments", "number"),
    [
        ("film", ["map.mp4", "--zoom", "-3", "--size", "1920x1200"], signal.SIGINT),
        ("restore", ["map"], signal.SIGTERM),
        pytest.param("mosaic", ["map.png", "--zoom", "-3"], signal.SIGTERM, marks=REPETITION),
        pytest.param("archive", ["map.pmtiles"], signal.SIGTERM, marks=REPETITION),
    ],
)
def test_a_signal_ends_it_in_one_line_and_leaves_nothing(
    project: Project,
    harvested_map: Rendering,
    tmp_path: Path,
    command: str,
    arguments: list[str],
    number: int,
) -> None:
    target, *options = arguments
    before = set(tmp_path.iterdir())
    held = held_at_an_image(project, command, SMALL, str(tmp_path / target), *options)
    with held as (process, go_on):
        process.send_signal(number)
        go_on()
        _, told = process.communicate(timeout=240)
        assert process.wait() == 1
    assert "Traceback" not in told
    end = told.splitlines()[-1]
    assert end == "stopped: nothing was made, and what was there before is as it was"
    assert set(tmp_path.iterdir()) == before


def test_a_killed_publish_leaves_the_page_from_before(
    project: Project, harvested_map: Rendering, tmp_path: Path
) -> None:
    folder = tmp_path / "map"
    # Of zooms without the image that the next one waits for.
    project.scrapy("publish", SMALL, str(folder), "--zooms=-6..-4")
    before = contents(folder)
    with held_at_an_image(project, "publish", SMALL, str(folder)) as (process, _):
        process.kill()
        process.wait(timeout=240)
    after = contents(folder)
    assert {name: after[name] for name in before} == before
    # The next one finds the folder free, and leaves nothing half written.
    project.scrapy("publish", SMALL, str(folder))
    project.scrapy("publish", SMALL, str(tmp_path / "alone"))
    assert contents(folder) == contents(tmp_path / "alone")


def contents(folder: Path) -> dict[str, bytes]:
    there = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in there}

"""What leaves the house, made by the commands of a harvested map."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

import pytest
from PIL import Image

from tests.end_to_end.project import await_condition
from tests.end_to_end.real_maps import ANTWORLD, SMALL, SMALL_DAY
from tests.viewer.building import picture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path, PurePath

    from tests.end_to_end.forking import Forked
    from tests.end_to_end.project import Project
    from tests.end_to_end.real_maps import Harvested
    from tests.end_to_end.rendering import Rendering
    from tests.servers.nginx import Nginx


def test_a_mosaic_is_put_together_of_the_published_tiles(
    project: Project, harvested_map: Rendering, tmp_path: Path
) -> None:
    """Zoom -3 of a map of depth 5 has the tiles of two digits, four in a row. The picture ends with the tiles
    of five digits, of which one has 48 pixels of it."""
    path = tmp_path / "map.png"
    told = json.loads(project.scrapy("mosaic", SMALL, str(path), "--zoom", "-3", "--json").stdout)
    layer = harvested_map.folder / "world-lighting"
    whole = Image.new("RGBA", (4 * 384, 4 * 384))
    for file in layer.glob("?/?.png"):
        column, row = place_of(file.relative_to(layer))
        with Image.open(file) as image:
            whole.paste(image.convert("RGBA"), (384 * column, 384 * row))
    columns, rows = zip(
        *(place_of(file.relative_to(layer)) for file in layer.glob("?/?/?/?/?.png")), strict=True
    )
    edges = min(columns), min(rows), max(columns) + 1, max(rows) + 1
    expected = whole.crop(tuple(48 * edge for edge in edges))
    with Image.open(path) as found:
        assert found.size == (told["width"], told["height"]) == expected.size
        assert found.tobytes() == expected.tobytes()
    assert told["bytes"] == path.stat().st_size
    assert (told["day"], told["damaged"]) == (SMALL_DAY, 0)


def place_of(path: PurePath) -> tuple[int, int]:
    """Column and row of a tile of Overviewer from the upper left, by the digits of its path."""
    column = row = 0
    for digit in map(int, path.with_suffix("").parts):
        column, row = 2 * column + digit % 2, 2 * row + digit // 2
    return column, row


def test_the_differences_are_those_of_the_published_files(
    project: Project, antworld: list[Harvested], tmp_path: Path
) -> None:
    """Of a map of depth 7 the tiles of the deepest zoom have seven digits."""
    first, last = antworld[0], antworld[-1]
    project.adopt(last.data)
    listed, shown = tmp_path / "diff.json", tmp_path / "diff.webp"
    arguments = ("diff", ANTWORLD, first.day, last.day, str(listed), str(shown), "--json")
    told = json.loads(project.scrapy(*arguments).stdout)
    before, now = (
        {tile: body for tile, body in one.images.items() if tile.zoom == 0} for one in (first, last)
    )
    expected = {f"0_{tile.x}_{tile.y}": "new" for tile in now.keys() - before.keys()}
    changed = [tile for tile in now.keys() & before.keys() if now[tile] != before[tile]]
    expected |= {f"0_{tile.x}_{tile.y}": "changed" for tile in changed}
    assert {row["tile"]: row["change"] for row in json.loads(listed.read_text("utf-8"))} == expected
    assert (told["new"], told["changed"]) == (len(expected) - len(changed), len(changed))
    with Image.open(shown) as picture:
        assert picture.size == (told["files"][1]["width"], told["files"][1]["height"])


def test_a_film_shows_the_days_of_a_map(project: Project, antworld: list[Harvested], tmp_path: Path) -> None:
    project.adopt(antworld[-1].data)
    path = tmp_path / "film.webp"
    arguments = ("film", ANTWORLD, str(path), "--size", "320x180", "--every", "month", "--json")
    done = project.scrapy(*arguments)
    told = json.loads(done.stdout)
    assert (told["first"], told["last"]) == (antworld[0].day, antworld[-1].day)
    assert (told["width"], told["height"], told["damaged"]) == (320, 180, 0)
    with Image.open(path) as film:
        assert film.size == (320, 180)
        durations = []
        for number in range(film.n_frames):
            film.seek(number)
            film.load()
            durations.append(film.info["duration"])
    assert sum(durations) == 1000 * told["seconds"]
    assert told["bytes"] == path.stat().st_size
    wrong = project.scrapy("film", ANTWORLD, str(tmp_path / "film.avi"), check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "film.avi is no name of a film" in wrong.stderr.splitlines()[-1]


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


def test_what_was_made_before_a_signal_is_told(
    project: Project, antworld: list[Harvested], tmp_path: Path
) -> None:
    """With --json no size is foretold, so the image is not read before the list is made."""
    first, last = antworld[0], antworld[-1]
    project.adopt(last.data)
    listed, shown = tmp_path / "diff.json", tmp_path / "diff.png"
    arguments = ["diff", ANTWORLD, first.day, last.day, str(listed), str(shown), "--zoom", "-3", "--json"]
    with held_at_an_image(project, arguments) as (process, go_on):
        process.send_signal(signal.SIGTERM)
        go_on()
        _, told = process.communicate(timeout=240)
    assert f"stopped: {listed} was made, {shown} was not, and what was there before is as it was" in told
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("diff")] == ["diff.json"]


SECONDS: Final = 1_475_900_000
"""A day after the small map's first harvest, in seconds since 1970."""
WITH_IMAGES: Final = {
    "mosaic": ("map.png", "--zoom", "-3"),
    "diff": (SMALL_DAY, SMALL_DAY, "map.png", "--zoom", "-3"),
    "restore": ("map", "--day", SMALL_DAY),
    "publish": ("map", "--days", SMALL_DAY),
    "archive": ("map.pmtiles", "--day", SMALL_DAY),
    "film": ("map.webp", "--size", "1920x1200", "--zoom", "-3", "--to", SMALL_DAY),
}
"""Commands that read images of zoom -3, with their arguments behind the map's name; the target has a name of
its own."""


def arguments_of(command: str, folder: Path) -> list[str]:
    """As one writes them, with the target in this folder."""
    more = (str(folder / one) if one.startswith("map") else one for one in WITH_IMAGES[command])
    return [command, SMALL, *more]


@contextmanager
def held_at_an_image(project: Project, arguments: list[str]) -> Iterator[tuple[Forked, Callable[[], None]]]:
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


@pytest.mark.parametrize("command", WITH_IMAGES)
def test_a_signal_ends_it_in_one_line_and_leaves_nothing(
    project: Project, harvested_map: Rendering, tmp_path: Path, command: str
) -> None:
    leaves_nothing(project, tmp_path, command, signal.SIGTERM)


def test_an_interrupt_from_the_keyboard_ends_a_film_in_one_line(
    project: Project, harvested_map: Rendering, tmp_path: Path
) -> None:
    leaves_nothing(project, tmp_path, "film", signal.SIGINT)


def test_a_film_that_is_stopped_leaves_the_one_from_before(
    project: Project, harvested_map: Rendering, tmp_path: Path
) -> None:
    path = tmp_path / "map.mp4"
    path.write_bytes(b"before")
    with held_at_an_image(project, ["film", SMALL, str(path), *WITH_IMAGES["film"][1:]]) as (process, go_on):
        process.send_signal(signal.SIGTERM)
        go_on()
        _, told = process.communicate(timeout=240)
    assert told.splitlines()[-1].startswith("stopped: nothing was made")
    assert path.read_bytes() == b"before"
    assert [one.name for one in tmp_path.iterdir() if "map.mp4" in one.name] == ["map.mp4"]


def leaves_nothing(project: Project, beside: Path, command: str, number: int) -> None:
    """Stops the command while it waits for an image, by this signal."""
    folder = beside / "made"
    folder.mkdir()
    with held_at_an_image(project, arguments_of(command, folder)) as (process, go_on):
        assert any(folder.iterdir())
        process.send_signal(number)
        go_on()
        _, told = process.communicate(timeout=240)
        assert process.wait() == 1
    assert "Traceback" not in told
    end = told.splitlines()[-1]
    if command == "publish":
        assert end == "stopped: nothing was published, and what was there before is as it was"
        assert not (folder / "map" / "index.html").exists()
    else:
        assert end == "stopped: nothing was made, and what was there before is as it was"
        assert not any(folder.iterdir())


def test_no_list_is_made_beside_a_picture_that_cannot_be(
    project: Project, harvested_map: Rendering, tmp_path: Path
) -> None:
    listed, shown = tmp_path / "diff.json", tmp_path / "diff.webp"
    arguments = ("diff", SMALL, SMALL_DAY, SMALL_DAY, str(listed), str(shown), "--zoom", "0")
    done = project.scrapy(*arguments, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "WEBP is packed in memory as a whole" in done.stderr.splitlines()[-1]
    assert not listed.exists()


def test_a_killed_publish_leaves_the_page_from_before(
    project: Project, harvested_map: Rendering, tmp_path: Path
) -> None:
    folder = tmp_path / "map"
    # Of zooms without the image that the next one waits for.
    project.scrapy("publish", SMALL, str(folder), "--zooms=-6..-4")
    before = contents(folder)
    with held_at_an_image(project, ["publish", SMALL, str(folder)]) as (process, _):
        assert contents(folder).keys() >= before.keys()
        process.kill()
        process.wait(timeout=240)
    after = contents(folder)
    assert {name: after[name] for name in before} == before
    # The next one finds the folder free, and leaves nothing half written.
    project.scrapy("publish", SMALL, str(folder))
    whole, alone = contents(folder), tmp_path / "alone"
    project.scrapy("publish", SMALL, str(alone))
    assert whole == contents(alone)


def contents(folder: Path) -> dict[str, bytes]:
    there = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in there}


def test_a_harvest_beside_it_changes_nothing_of_what_was_asked_for(
    project: Project, harvested_map: Rendering, tmp_path: Path
) -> None:
    alone, beside = tmp_path / "alone", tmp_path / "beside"
    for folder in (alone, beside):
        for command in WITH_IMAGES:
            (folder / command).mkdir(parents=True)
    for command in WITH_IMAGES:
        project.scrapy(*arguments_of(command, alone / command))
    with ExitStack() as running:
        waiting = [
            running.enter_context(held_at_an_image(project, arguments_of(command, beside / command)))
            for command in WITH_IMAGES
        ]
        harvested_map.replace(min(harvested_map.paths()), picture(size=384), SECONDS)
        project.crawl(SMALL, "2016-10-08")
        for process, go_on in waiting:
            go_on()
            process.communicate(timeout=240)
            assert process.wait() == 0
    assert files_of(beside) == files_of(alone)
    assert len({one.day for one in project.versions()}) == 2


def files_of(folder: Path) -> dict[str, bytes]:
    there = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in there}


def is_read(pipe: Path, held: list[int]) -> bool:
    """Whether somebody reads it: before that the system lets nobody write without waiting."""
    with suppress(OSError):
        held.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    return bool(held)


def test_what_is_wrong_is_one_line(project: Project, harvested_map: Rendering, tmp_path: Path) -> None:
    lines = [
        (("smal",), 2, "the history has no map 'smal'; it has 'small'"),
        ((SMALL, str(tmp_path / "none/map.png")), 1, "name a folder that is there and can be written"),
        ((SMALL, str(tmp_path / "map.png"), "--zoom", "1"), 2, "has zooms 0 to -12 on 2016-10-06"),
        ((SMALL, str(tmp_path / "map.png"), "--max-pixels", "0"), 2, "leaves nothing to draw"),
        ((SMALL, str(tmp_path / "map.jpg"), "--quality", "101"), 2, "write 1 to 100"),
        ((SMALL, str(tmp_path / "map.png"), "--background", "grue"), 2, "--background grue is no colour"),
        (
            (SMALL, str(tmp_path / "map.png"), "--area", "900000,900000,900001,900001"),
            2,
            "nothing was there in this area",
        ),
    ]
    diff = (SMALL, SMALL_DAY, SMALL_DAY, str(tmp_path / "map.png"), "--max-pixels", "0")
    commands = [("mosaic", *line) for line in lines]
    for command, arguments, status, words in (*commands, ("diff", diff, 2, "leaves nothing to draw")):
        done = project.scrapy(command, *arguments, check=False)
        assert (done.returncode, done.stdout) == (status, "")
        assert words in done.stderr.splitlines()[-1]


def test_what_is_wrong_with_a_published_folder_is_one_line(
    project: Project, harvested_map: Rendering, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    out = str(tmp_path / "out")
    lines = [
        (("smal", out), 2, "the history has no map 'smal'; it has 'small'"),
        ((SMALL, str(tmp_path / "file")), 2, "is no folder; nothing was written"),
        ((SMALL, str(tmp_path)), 2, "holds files that were not published here; nothing was written"),
        ((SMALL, out, "--days", "2001-01-01"), 2, "before the history of map 'small'"),
        ((SMALL, out, "--zooms", "5"), 2, "are no zooms: write them as -5..0"),
        ((SMALL, out, "--layer", "day"), 2, "has no layer 'day'"),
        ((SMALL, out, "--mirror", "ftp://away"), 2, "--mirror is no address on S3"),
        ((SMALL, out, "--area", "900000,900000,900001,900001"), 2, "nothing was there in this area"),
    ]
    for arguments, status, words in lines:
        done = project.scrapy("publish", *arguments, check=False)
        assert (done.returncode, done.stdout) == (status, ""), done.stderr
        assert words in done.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_programs_are_told_what_was_published(
    project: Project, harvested_map: Rendering, tmp_path: Path
) -> None:
    arguments = ("publish", SMALL, str(tmp_path / "out"), "--json", "--zooms=-6..-4")
    first, again = (json.loads(project.scrapy(*arguments).stdout) for _ in range(2))
    names = {str(one.sha1)[:16] for one in project.versions() if -6 <= one.zoom <= -4}
    assert first["images"] == first["new_images"] == len(names)
    assert (again["images"], again["new_images"], again["new_lists"]) == (len(names), 0, 0)
    found = {file.stem for file in (tmp_path / "out" / "images").rglob("*.png")}
    assert found == names


def test_every_second_day_has_an_archive_of_its_own(
    project: Project, antworld: list[Harvested], tmp_path: Path
) -> None:
    """The last one always has."""
    project.adopt(antworld[-1].data)
    arguments = ("archive", ANTWORLD, str(tmp_path / "map.zip"), "--every", "2", "--json")
    told = json.loads(project.scrapy(*arguments).stdout)
    chosen = [antworld[1], antworld[3]]
    assert [(one["day"], one["tiles"]) for one in told] == [(one.day, len(one.images)) for one in chosen]
    assert sorted(tmp_path.glob("*.zip")) == [tmp_path / f"map-{one.day}.zip" for one in chosen]
    for wrong in (("--every", "0"), ("--every", "2", "--day", antworld[0].day), ("--days", "2")):
        done = project.scrapy("archive", ANTWORLD, str(tmp_path / "wrong.zip"), *wrong, check=False)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)

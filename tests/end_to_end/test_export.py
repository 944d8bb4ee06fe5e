"""What leaves the house, made by the commands of a harvested map."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from PIL import Image

from tests.end_to_end.project import await_condition
from tests.end_to_end.real_maps import ANTWORLD, SMALL, SMALL_DAY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.project import Project
    from tests.end_to_end.real_maps import Harvested
    from tests.end_to_end.rendering import Rendering
    from tests.servers.nginx import Nginx


def test_a_mosaic_is_put_together_of_the_published_tiles(
    project: Project, harvested_map: Rendering, tmp_path: Path
) -> None:
    """Zoom -3 of a map of depth 5 has the tiles of two digits, four in a row."""
    path = tmp_path / "map.png"
    told = json.loads(project.scrapy("mosaic", SMALL, str(path), "--zoom", "-3", "--json").stdout)
    places = {}
    for file in harvested_map.folder.glob("world-lighting/?/?.png"):
        first, second = int(file.parent.name), int(file.stem)
        places[2 * (first % 2) + second % 2, 2 * (first // 2) + second // 2] = file
    columns, rows = ({place[axis] for place in places} for axis in (0, 1))
    expected = Image.new("RGBA", (384 * len(columns), 384 * len(rows)))
    for (column, row), file in places.items():
        with Image.open(file) as image:
            left, top = 384 * (column - min(columns)), 384 * (row - min(rows))
            expected.paste(image.convert("RGBA"), (left, top))
    with Image.open(path) as found:
        assert found.size == (told["width"], told["height"]) == expected.size
        assert found.tobytes() == expected.tobytes()
    assert told["bytes"] == path.stat().st_size
    assert (told["day"], told["damaged"]) == (SMALL_DAY, 0)


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


def test_a_signal_ends_it_in_one_line_and_leaves_nothing(
    project: Project, harvested_map: Rendering, tmp_path: Path
) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    told = stopped(project, "mosaic", SMALL, str(folder / "map.png"), "--zoom", "-3")
    assert told == "error: stopped: nothing was made, and what was there before is as it was"
    assert not any(folder.iterdir())


def test_what_was_made_before_a_signal_is_told(
    project: Project, antworld: list[Harvested], tmp_path: Path
) -> None:
    first, last = antworld[0], antworld[-1]
    project.adopt(last.data)
    listed, shown = tmp_path / "diff.json", tmp_path / "diff.png"
    told = stopped(project, "diff", ANTWORLD, first.day, last.day, str(listed), str(shown), "--zoom", "-3")
    assert f"stopped: {listed} was made, {shown} was not, and what was there before is as it was" in told
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("diff")] == ["diff.json"]


def stopped(project: Project, *words: str) -> str:
    """The last line of a command to which SIGTERM comes while it reads an image of zoom -3."""
    # The image is a pipe, and whoever reads it waits.
    images = [one for one in project.versions() if one.zoom == -3 and one.sha1 is not None]
    name = max(images, key=lambda one: one.day).sha1
    assert name is not None
    image = project.data / "tiles" / name[:2] / f"{name}.png"
    image.unlink()
    os.mkfifo(image)
    with project.running(*words) as process:
        held: list[int] = []
        assert await_condition(lambda: is_read(image, held), process)
        process.send_signal(signal.SIGTERM)
        # Now the pipe ends.
        os.close(held[0])
        _, told = process.communicate(timeout=60)
        assert process.wait() == 1
    assert "Traceback" not in told
    return told.splitlines()[-1]


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

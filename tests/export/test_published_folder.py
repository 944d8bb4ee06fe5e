"""Published folders: what is written, what is left alone, and what is removed."""

import fcntl
import gzip
import json
import os
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.project import contents
from tests.export.conftest import Count, most_bytes_of_a_file, noise
from tests.viewer.building import FIRST, MAP, SECOND, THIRD, World, square
from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.export import published_folder
from tileharvest.export.excerpt import excerpt_of
from tileharvest.export.published_folder import MARK, Published, published_zooms
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.tiles.grid import Tile


def publish(world: World, folder: Path, days: int | None = None, most: int | None = None) -> Published:
    """Publishes the days of the last harvests, of all of the first layer."""
    with History.open_read_only(f"sqlite:///{world.database}") as history:
        harvested = map_outline(history, MAP).days
        excerpt = replace(excerpt_of(history, MAP), first=harvested[-(days or len(harvested))])
        layers = [(excerpt, published_zooms(excerpt))]
        with most_bytes_of_a_file(most):
            return published_folder.publish(layers, None, folder, world.store, Count())


def path_of(image: str) -> str:
    """The path of an image of the store in a published folder."""
    sha1, _, extension = image.partition(".")
    return f"images/{sha1[:2]}/{sha1[:16]}.{extension}"


def named(found: dict[str, bytes], kind: str) -> set[str]:
    return {name for name in found if name.startswith(f"{kind}/")}


@pytest.fixture
def small(tmp_path: Path) -> World:
    """Two tiles, of which one changes on the second day."""
    world = World(tmp_path / "small")
    world.harvest(FIRST, {Tile(0, 1, 1): noise(1), Tile(0, 3, 1): noise(2)})
    world.harvest(SECOND, {Tile(0, 1, 1): noise(3)})
    return world


def test_a_new_day_adds_what_is_new_before_the_index_and_removes_the_lists_that_it_replaces(
    small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, synced = tmp_path / "out", list[set[str]]()
    publish(small, out)
    before = contents(out)
    small.harvest(THIRD, {Tile(0, 201, 1): noise(4), Tile(0, 5, 1): noise(2)})

    def sync(paths: list[str], descriptor: int) -> None:
        assert os.fstat(descriptor).st_dev == out.stat().st_dev
        assert (out / "index.html").read_bytes() == before["index.html"]
        synced.append({Path(path).relative_to(out).as_posix() for path in paths})

    monkeypatch.setattr(published_folder, "sync", sync)
    told = publish(small, out)
    after = contents(out)
    # Each image lies there once, with its bytes, and is on the disk before it has its name.
    stored = {path_of(path.split("/")[1]): body for path, body in contents(small.data / "tiles").items()}
    assert {path: after[path] for path in named(after, "images")} == stored
    assert synced == [(named(after, "lists") | named(after, "page")) - before.keys()]
    assert (told.images, told.new_images, told.missing) == (4, 1, 0)
    # The block of the first two tiles stays.
    assert named(before, "lists") & named(after, "lists")
    assert told.removed == len(named(before, "lists") - named(after, "lists")) > 0
    assert {name for name in before.keys() & after.keys() if before[name] != after[name]} == {"index.html"}


def test_files_of_others_stay_and_an_occupied_folder_is_refused(small: World, tmp_path: Path) -> None:
    for name, words in (("images/mine.png", "holds files that were"), (MARK, "holds another map")):
        theirs = tmp_path / words
        (theirs / name).parent.mkdir(parents=True)
        (theirs / name).write_bytes(b'{"map": "nether"}')
        with pytest.raises(ConfigurationError, match=f"{words}.*; nothing was written"):
            publish(small, theirs)
        assert contents(theirs) == {name: b'{"map": "nether"}'}
    mine = {"CNAME", "images/mine.png", "lists/ab/note.js", "page/own/x.js", "images/zz.txt"}
    publish(small, tmp_path / "out")
    for name in mine:
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_bytes(b"mine")
    publish(small, tmp_path / "out", days=1)
    assert {name for name, body in contents(tmp_path / "out").items() if body == b"mine"} == mine


def test_somebody_else_at_work_and_a_full_disk_leave_what_was_published_before(
    small: World, tmp_path: Path
) -> None:
    publish(small, tmp_path / "out")
    before = contents(tmp_path / "out")
    small.harvest(THIRD, {Tile(0, 7, 7): noise(9) + b" " * 5000})
    with (tmp_path / "out" / MARK).open("ab") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        with pytest.raises(TileHarvestError, match=r"another .* publish is at work there; this one has"):
            publish(small, tmp_path / "out")
    assert contents(tmp_path / "out") == before
    with pytest.raises(TileHarvestError, match=r"as it did: the disk is full: .* goes on from here"):
        publish(small, tmp_path / "out", most=4000)
    after = contents(tmp_path / "out")
    assert {name: after[name] for name in before} == before
    assert not [name for name in after if name.endswith(".unfinished")]
    assert publish(small, tmp_path / "out").images == 4


def lists_of(folder: Path) -> list[Any]:
    """What the lists hand over."""
    scripts = [body for name, body in contents(folder).items() if name.startswith("lists/")]
    return [json.loads(gzip.decompress(b64decode(script.split(b'"')[3]))) for script in scripts]


def test_of_a_month_the_largest_events_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    alone = [Tile(0, 201 + 20 * (n % 20), 1 + 20 * (n // 20)) for n in range(210)]
    world.harvest(FIRST, {tile: noise(1) for tile in [*alone, Tile(0, 1, 1), Tile(0, 3, 1)]})
    # In May.
    world.harvest(THIRD, {tile: noise(2) for tile in [*alone, Tile(0, 1, 1), Tile(0, 3, 1)]})
    publish(world, tmp_path / "out")
    lists = [one for one in lists_of(tmp_path / "out") if "count" in one]
    (of_may,) = (one for one in lists if one["events"][0]["first"] == THIRD.isoformat())
    assert (of_may["count"], len(of_may["events"]), of_may["events"][0]["tiles"]) == (211, 200, 2)


def test_a_square_has_the_story_of_each_tile(small: World, tmp_path: Path) -> None:
    """Days are numbers of harvests and steps. The tiles lie in the lowest row of a square."""
    small.harvest(THIRD, {Tile(0, 3, 1): None})
    publish(small, tmp_path / "out")
    (square,) = (one for one in lists_of(tmp_path / "out") if "tiles" in one)
    codes = [
        [f"p{version.image[:16]}" for version in small.versions(Tile(0, x, 1)) if version.image]
        for x in (1, 3)
    ]
    gone = f"-{'0' * 16}"
    assert square == {
        "tiles": {str(63 * 64): [[0, 1], "".join(codes[0])], str(63 * 64 + 1): [[0, 2], codes[1][0] + gone]},
        "below": {},
    }


def test_a_square_that_would_be_too_large_is_divided_into_its_blocks(tmp_path: Path) -> None:
    world, harvested = World(tmp_path / "world"), square(0, 16)
    for number, day in enumerate((FIRST, SECOND, THIRD)):
        world.harvest(day, {tile: noise(1000 * number + tile.x * 64 + tile.y) for tile in harvested})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(published_folder, "_LARGEST", 5000)
        publish(world, tmp_path / "out")
    every = lists_of(tmp_path / "out")
    (divided,) = (one for one in every if "blocks" in one)
    assert divided["blocks"].keys() == {f"{column}_{row}" for column in (0, 1) for row in (-1, -2)}
    blocks = [one["tiles"] for one in every if "tiles" in one]
    assert [len(tiles) for tiles in blocks] == [64] * 4
    assert len(set().union(*blocks)) == 256


def test_fewer_days_are_named_in_the_index_and_take_the_older_images_away(
    small: World, tmp_path: Path
) -> None:
    publish(small, tmp_path / "out")
    told = publish(small, tmp_path / "out", days=1)
    shown = {small.shown(tile, SECOND) for tile in (Tile(0, 1, 1), Tile(0, 3, 1))}
    expected = {path_of(str(one.image)) for one in shown if one is not None}
    assert named(contents(tmp_path / "out"), "images") == expected
    assert told.images == 2
    (index,) = (one for one in lists_of(tmp_path / "out") if "every" in one)
    assert index["map"].keys() == {"name", "url", "renderer", "unfinished", "layers"}
    assert (index["every"], index["days"]) == ([str(FIRST), str(SECOND)], [str(SECOND)])


def test_what_a_kill_or_a_power_cut_has_left_is_swept_up_or_written_anew(
    small: World, tmp_path: Path
) -> None:
    publish(small, tmp_path / "out")
    whole = contents(tmp_path / "out")
    for name in named(whole, "images") | named(whole, "lists") | named(whole, "page"):
        (tmp_path / "out" / name).write_bytes(b"")
    half = tmp_path / "out" / "images" / "ab" / f".{'ab' * 8}.png.unfinished"
    half.parent.mkdir(exist_ok=True)
    half.write_bytes(b"half")
    told = publish(small, tmp_path / "out")
    assert contents(tmp_path / "out") == whole
    assert (told.new_images, told.new_lists, told.removed) == (told.images, told.lists, 1)

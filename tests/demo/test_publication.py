"""The published folders, looked at as files: nothing here asks the world what it meant to publish."""

from __future__ import annotations

import io
import json
import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chompjs
import pytest
from PIL import Image, ImageChops

from tests.demo.snapshots import MOVED
from tileharvest.demo.publication import publish

if TYPE_CHECKING:
    from tests.demo.snapshots import Snapshot
    from tileharvest.demo.world import World

ROUNDING = 2
"""The greatest difference, of 255. Along transparent edges Pillow's `reduce` and `resize` each round the
opacity and the colour weighted with it; inside they agree."""
CONFIG_FILE = "overviewerConfig.js"
REAL_CONFIGS = Path(__file__).parents[3] / "shared" / "maps" / "configs"


def grown(snapshot: Snapshot) -> Snapshot:
    """Returns the tiles by the paths that they have when the map is one level deeper."""
    return {MOVED[path[0]] + path[1:]: file for path, file in snapshot.items() if path != "base"}


def children(snapshot: Snapshot, path: str) -> list[str]:
    prefix = "" if path == "base" else path
    return [child for child in (prefix + digit for digit in "0123") if child in snapshot]


def parents(snapshot: Snapshot) -> list[str]:
    return [path for path in snapshot if children(snapshot, path)]


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def config(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = chompjs.parse_js_object((folder / CONFIG_FILE).read_text())
    return found


def composed(snapshot: Snapshot, path: str) -> Image.Image:
    image = Image.new("RGBA", (384, 384))
    for child in children(snapshot, path):
        tile = Image.open(io.BytesIO(snapshot[child].content)).convert("RGBA")
        corner = {"0": (0, 0), "1": (192, 0), "2": (0, 192), "3": (192, 192)}[child[-1]]
        image.paste(tile.resize((192, 192), Image.Resampling.BOX), corner)
    return image


def difference(one: Image.Image, other: Image.Image) -> int:
    """Returns the largest difference in any channel of any pixel, as one sees it: the colour of a faint pixel
    counts little."""
    highest = []
    for background in ("white", "black"):
        paper = Image.new("RGBA", one.size, background)
        shown = ImageChops.difference(
            Image.alpha_composite(paper, one).convert("RGB"),
            Image.alpha_composite(paper, other).convert("RGB"),
        )
        highest += [max(channel.tobytes()) for channel in shown.split()]
    return max(highest)


@pytest.mark.parametrize("day", [0, 1, 2])
def test_every_parent_is_composed_of_its_four_children(days: list[Snapshot], day: int) -> None:
    snapshot = days[day]
    for path in parents(snapshot):
        published = Image.open(io.BytesIO(snapshot[path].content))
        assert difference(published, composed(snapshot, path)) <= ROUNDING, path


@pytest.mark.parametrize("day", [0, 1, 2])
def test_a_parent_is_as_new_as_its_newest_child(days: list[Snapshot], day: int) -> None:
    snapshot = days[day]
    for path in parents(snapshot):
        assert snapshot[path].modified == max(snapshot[child].modified for child in children(snapshot, path))


@pytest.mark.parametrize(("day", "depth"), [(0, 3), (1, 3), (2, 4)])
def test_the_pyramid_has_no_loose_ends(days: list[Snapshot], day: int, depth: int) -> None:
    for path in days[day].keys() - {"base"}:
        assert path[:-1] in days[day] or len(path) == 1
        assert len(path) == depth or children(days[day], path)


@pytest.mark.parametrize("day", [0, 1, 2])
def test_all_tiles_are_square_images_that_show_something(days: list[Snapshot], day: int) -> None:
    for file in days[day].values():
        image = Image.open(io.BytesIO(file.content))
        assert (image.format, image.mode, image.size) == ("PNG", "RGBA", (384, 384))
        assert image.getbbox() is not None


def test_the_map_has_holes(days: list[Snapshot]) -> None:
    assert len([path for path in days[0] if len(path) == 3]) < 64


def test_files_are_dated_with_the_days_on_which_they_were_drawn(
    days: list[Snapshot], first_day: date
) -> None:
    midnight = int(datetime(first_day.year, first_day.month, first_day.day, tzinfo=UTC).timestamp())
    assert {file.modified for file in days[0].values()} == {midnight}
    assert {file.modified for file in days[2].values()} == {midnight, midnight + 86400, midnight + 2 * 86400}


def test_day_2_redraws_some_tiles_with_the_same_bytes(days: list[Snapshot]) -> None:
    redated = [
        path
        for path in days[0].keys() & days[1].keys()
        if days[0][path].content == days[1][path].content and days[0][path].modified < days[1][path].modified
    ]
    assert {len(path) for path in redated} >= {3}


def test_day_2_changes_tiles_in_two_places(days: list[Snapshot]) -> None:
    both = days[0].keys() & days[1].keys()
    changed = {path for path in both if days[0][path].content != days[1][path].content}
    assert {path[0] for path in changed if len(path) == 3} >= {"1", "3"}


def test_day_2_lacks_a_corner_and_the_ancestor_that_became_empty(days: list[Snapshot]) -> None:
    vanished = days[0].keys() - days[1].keys()
    assert {len(path) for path in vanished} == {2, 3}
    assert {path[:2] for path in vanished} == {"22"}
    assert days[0]["2"].content != days[1]["2"].content


def test_day_3_moves_tiles_by_overviewers_law(days: list[Snapshot]) -> None:
    before, after = grown(days[1]), days[2]
    assert before.keys() <= after.keys()
    added = after.keys() - before.keys() - {"base"}
    assert all(len(path) == 1 or path[:2] not in MOVED.values() for path in added)


def test_tiles_that_only_move_keep_their_files_and_times(days: list[Snapshot]) -> None:
    before, after = grown(days[1]), days[2]
    same = [path for path in before if before[path].modified == after[path].modified]
    assert len(same) > 30
    assert [path for path in same if before[path] != after[path]] == []


def test_no_tile_changes_under_an_etag_that_stays(days: list[Snapshot]) -> None:
    for before, after in ((days[0], days[1]), (grown(days[1]), days[2])):
        for path in before.keys() & after.keys():
            one, other = before[path], after[path]
            unchanged = (one.modified, len(one.content)) == (other.modified, len(other.content))
            assert unchanged == (one.content == other.content and one.modified == other.modified)


@pytest.mark.parametrize("day", [1, 2, 3])
def test_publishing_twice_touches_nothing(world: World, first_day: date, tmp_path: Path, day: int) -> None:
    publish(world, day, first_day, tmp_path)
    before = state(tmp_path)
    publish(world, day, first_day, tmp_path)
    assert state(tmp_path) == before


def test_a_day_published_at_once_equals_one_reached_day_by_day(
    world: World, days: list[Snapshot], first_day: date, tmp_path: Path
) -> None:
    publish(world, 3, first_day, tmp_path)
    found = {str(path.relative_to(tmp_path)): path for path in (tmp_path / "world-day").rglob("*.png")}
    expected = {
        "world-day/" + "/".join([path] if path == "base" else path) + ".png": path for path in days[2]
    }
    assert found.keys() == expected.keys()
    for name, path in expected.items():
        assert found[name].read_bytes() == days[2][path].content
        assert int(found[name].stat().st_mtime) == days[2][path].modified


def test_a_new_day_replaces_only_what_differs(days: list[Snapshot]) -> None:
    for path in days[0].keys() & days[1].keys():
        one, other = days[0][path], days[1][path]
        differs = (one.content, one.modified) != (other.content, other.modified)
        assert (one.inode != other.inode) == differs


def test_publishing_leaves_no_temporary_files_or_empty_folders(
    world: World, first_day: date, tmp_path: Path
) -> None:
    for day in (1, 2, 3):
        publish(world, day, first_day, tmp_path)
        for folder, folders, files in os.walk(tmp_path):
            assert folders or files, folder
            assert all(name.endswith((".png", ".js")) for name in files)


def test_files_of_others_are_left_alone(world: World, first_day: date, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("mine")
    publish(world, 1, first_day, tmp_path)
    assert (tmp_path / "index.html").read_text() == "mine"


@pytest.mark.parametrize(("day", "depth"), [(1, 3), (3, 4)])
def test_the_config_tells_the_depth(
    world: World, first_day: date, tmp_path: Path, day: int, depth: int
) -> None:
    publish(world, day, first_day, tmp_path)
    (tileset,) = config(tmp_path)["tilesets"]
    assert (tileset["zoomLevels"], tileset["maxZoom"], tileset["path"]) == (depth, depth, "world-day")


def test_the_config_tells_when_it_was_written(world: World, first_day: date, tmp_path: Path) -> None:
    publish(world, 2, first_day, tmp_path)
    rendered = config(tmp_path)["tilesets"][0]["last_rendertime"]
    assert datetime.fromtimestamp(rendered, UTC).date() == date(2026, 11, 19)
    assert (tmp_path / CONFIG_FILE).stat().st_mtime == rendered


def test_the_config_is_plain_json_behind_the_variable(world: World, first_day: date, tmp_path: Path) -> None:
    publish(world, 1, first_day, tmp_path)
    text = (tmp_path / CONFIG_FILE).read_text()
    assert json.loads(text.removeprefix("var overviewerConfig = ").removesuffix(";\n")) == config(tmp_path)


@pytest.mark.skipif(not REAL_CONFIGS.is_dir(), reason="the real configs are not here")
def test_the_config_has_the_fields_of_a_real_one(world: World, first_day: date, tmp_path: Path) -> None:
    publish(world, 1, first_day, tmp_path)
    real: dict[str, Any] = chompjs.parse_js_object((REAL_CONFIGS / "overviewer-darkness4.js").read_text())
    ours = config(tmp_path)
    assert list(ours) == list(real)
    for part in ("CONST", "map"):
        assert ours[part].keys() == real[part].keys()
    assert ours["tilesets"][0].keys() == real["tilesets"][0].keys()


@pytest.mark.parametrize("day", [0, 4])
def test_a_day_that_the_world_does_not_have_is_refused(
    world: World, first_day: date, tmp_path: Path, day: int
) -> None:
    with pytest.raises(ValueError, match=f"days 1 to 3, not {day}"):
        publish(world, day, first_day, tmp_path)

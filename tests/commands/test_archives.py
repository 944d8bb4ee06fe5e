"""`scrapy archive --every`: days without anything in the area, and a file that fails after others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests.export.island import noise
from tests.viewer.building import FIRST, MAP, SECOND, THIRD, World
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Tileharvest


FAR: Final = Tile(0, 2001, 1)
ARCHIVE: Final = ("archive", MAP, "--every", "1", "--zooms", "0", "--json")


@pytest.fixture(autouse=True)
def world(tmp_path: Path) -> World:
    """One tile from the first day on, and one far away from the second."""
    world = World(tmp_path)
    world.harvest(FIRST, {Tile(0, 1, 1): noise(1)})
    world.harvest(SECOND, {FAR: noise(2)})
    world.harvest(THIRD, {Tile(0, 1, 1): noise(3)})
    return world


def named(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.iterdir() if path.is_file())


def test_days_before_anything_was_in_the_area_have_no_file_and_are_told(
    world: World, tmp_path: Path, tileharvest: Tileharvest
) -> None:
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        projection = map_outline(history, MAP).layers[0].latest.projection
    assert projection is not None
    x, z = projection.place_at(FAR.x, FAR.y)
    area = f"--area={x:.0f},{z:.0f},{x:.0f},{z:.0f}"
    told = tileharvest(*ARCHIVE, str(tmp_path / "map.zip"), area)
    assert [one["day"] for one in json.loads(told.out)] == [SECOND.isoformat(), THIRD.isoformat()]
    assert "nothing was there in this area on 1 day" in told.err
    assert named(tmp_path) == [f"map-{SECOND}.zip", f"map-{THIRD}.zip"]


def test_an_area_without_anything_on_any_day_is_refused(tmp_path: Path, tileharvest: Tileharvest) -> None:
    done = tileharvest(*ARCHIVE, str(tmp_path / "map.zip"), "--area=90000,90000,90001,90001")
    assert done.status == 2
    assert "nothing was there in this area; nothing was made" in done.err
    assert named(tmp_path) == []


def test_an_error_names_the_files_that_were_made_before(tmp_path: Path, tileharvest: Tileharvest) -> None:
    (tmp_path / f"map-{THIRD}.zip").mkdir()
    done = tileharvest(*ARCHIVE, str(tmp_path / "map.zip"))
    made = [f"map-{FIRST}.zip", f"map-{SECOND}.zip"]
    assert done.status == 1
    assert done.err.endswith(f"; {', '.join(str(tmp_path / name) for name in made)} were made\n")
    assert named(tmp_path) == made

"""`scrapy archive --every`: days without anything in the area, and a file that fails after others."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from scrapy.settings import Settings

from tests.export.island import noise
from tests.viewer.building import FIRST, MAP, SECOND, THIRD, World
from tileharvest.commands.archive import Command
from tileharvest.errors import ConfigurationError, ExitStatus, TileHarvestError
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from pathlib import Path


FAR: Final = Tile(0, 2001, 1)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One tile from the first day on, and one far away from the second."""
    world = World(tmp_path / "world")
    world.harvest(FIRST, {Tile(0, 1, 1): noise(1)})
    world.harvest(SECOND, {FAR: noise(2)})
    world.harvest(THIRD, {Tile(0, 1, 1): noise(3)})
    return world


def archive(world: World, path: Path, **more: Any) -> None:
    settings = Settings({"TILEHARVEST_DATA": str(world.data), "TILEHARVEST_MAPS": str(world.maps_file)})
    asked = {"layer": None, "day": None, "first": None, "last": None, "area": None, "json": True}
    asked |= {"days": None, "every": 1, "zooms": "0", "max_bytes": None}
    Command().answer(settings, [MAP, str(path)], argparse.Namespace(**{**asked, **more}))


def named(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.iterdir() if path.is_file())


def test_days_before_anything_was_in_the_area_have_no_file_and_are_told(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        projection = map_outline(history, MAP).layers[0].latest.projection
    assert projection is not None
    x, z = projection.place_at(FAR.x, FAR.y)
    archive(world, tmp_path / "map.zip", area=f"{x:.0f},{z:.0f},{x:.0f},{z:.0f}")
    told = capsys.readouterr()
    assert [one["day"] for one in json.loads(told.out)] == [SECOND.isoformat(), THIRD.isoformat()]
    assert "nothing was there in this area on 1 day" in told.err
    assert named(tmp_path) == [f"map-{SECOND}.zip", f"map-{THIRD}.zip"]


def test_an_area_without_anything_on_any_day_is_refused(world: World, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing was there in this area; nothing was made"):
        archive(world, tmp_path / "map.zip", area="90000,90000,90001,90001")
    assert named(tmp_path) == []


def test_files_that_were_made_before_one_that_fails_are_told(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"map-{THIRD}.zip").mkdir()
    with pytest.raises(
        TileHarvestError, match=r"was not made, .*; 2 files made before have stayed$"
    ) as raised:
        archive(world, tmp_path / "map.zip")
    assert raised.value.exit_status == ExitStatus.ERROR
    made = [f"map-{FIRST}.zip", f"map-{SECOND}.zip"]
    assert [one["file"].rpartition("/")[2] for one in json.loads(capsys.readouterr().out)] == made
    assert named(tmp_path) == made

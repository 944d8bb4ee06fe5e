"""`scrapy diff` with several files: one that cannot be made is said before another one is."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest
from scrapy.settings import Settings

from tests.export.island import noise
from tests.viewer.building import FIRST, MAP, SECOND, World
from tileharvest.commands.diff import Command
from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "world")
    for number, day in enumerate((FIRST, SECOND)):
        world.harvest(day, {Tile(0, 1, 1): noise(number)})
    return world


def diff(world: World, *paths: Path) -> None:
    settings = Settings({"TILEHARVEST_DATA": str(world.data), "TILEHARVEST_MAPS": str(world.maps_file)})
    asked = {"layer": None, "day": None, "first": None, "last": None, "area": None, "json": True}
    asked |= {"zoom": None, "max_pixels": None, "background": None, "max_bytes": None}
    arguments = [MAP, FIRST.isoformat(), SECOND.isoformat(), *map(str, paths)]
    Command().answer(settings, arguments, argparse.Namespace(**asked))


def named(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_a_folder_that_is_not_there_is_said_before_the_first_file_is_made(
    world: World, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no folder .*/nodir; nothing was made: make the"):
        diff(world, tmp_path / "a.json", tmp_path / "nodir" / "b.png")
    assert named(tmp_path) == []


def test_files_that_were_made_before_one_that_fails_are_told(world: World, tmp_path: Path) -> None:
    (tmp_path / "c.png").mkdir()
    one, other = tmp_path / "a.json", tmp_path / "b.csv"
    with pytest.raises(TileHarvestError, match=rf"c\.png was not made, .*; {one}, {other} were made$"):
        diff(world, one, other, tmp_path / "c.png")
    assert named(tmp_path) == ["a.json", "b.csv"]

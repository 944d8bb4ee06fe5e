"""`tileharvest diff` with several files: one that cannot be made is named before another one is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.export.island import noise
from tests.viewer.building import FIRST, MAP, SECOND, World
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Tileharvest

DIFF: Final = ("diff", MAP, str(FIRST), str(SECOND))


@pytest.fixture(autouse=True)
def world(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number, day in enumerate((FIRST, SECOND)):
        world.harvest(day, {Tile(0, 1, 1): noise(number)})


def test_a_missing_folder_is_named_before_the_first_file_is_made(
    tmp_path: Path, tileharvest: Tileharvest
) -> None:
    done = tileharvest(*DIFF, str(tmp_path / "a.json"), str(tmp_path / "nodir" / "b.png"))
    assert done.status == 2
    assert f"there is no folder {tmp_path / 'nodir'}; nothing was made: make the" in done.err
    assert not (tmp_path / "a.json").exists()


def test_an_error_names_the_files_that_were_made_before(tmp_path: Path, tileharvest: Tileharvest) -> None:
    (tmp_path / "c.png").mkdir()
    one, other = tmp_path / "a.json", tmp_path / "b.csv"
    done = tileharvest(*DIFF, str(one), str(other), str(tmp_path / "c.png"))
    assert done.status == 1
    assert "c.png was not made, " in done.err
    assert done.err.endswith(f"; {one}, {other} were made\n")
    assert one.exists()
    assert other.exists()

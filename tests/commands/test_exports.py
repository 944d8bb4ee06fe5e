"""What exporting commands refuse, and how commands count what they did."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest

from tests.commands.conftest import Tileharvest
from tests.export.island import noise
from tests.viewer.building import FIRST, MAP, SECOND, THIRD, World
from tileharvest.commands import publish
from tileharvest.export.published_folder import Published
from tileharvest.tiles.grid import Tile

FAR: Final = Tile(0, 2001, 1)
DIFF: Final = ("diff", MAP, str(FIRST), str(THIRD))
ARCHIVE: Final = ("archive", MAP, "--zooms", "0")


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


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["mosaic", "worl"], 2, f"the history has no map 'worl'; it has '{MAP}'"),
        (["mosaic", MAP, "none/map.png"], 1, "name a folder that is there and can be written"),
        (["mosaic", MAP, "map.png", "--zoom", "1"], 2, f"has zooms 0 to -8 on {THIRD}"),
        (["mosaic", MAP, "map.png", "--max-bytes", "lots"], 2, "'lots' is not a size"),
        ([*DIFF, "map.png", "--max-pixels", "0"], 2, "--max-pixels: 0 cannot be: write 1 or more"),
        ([*DIFF, "a.json", "nodir/b.png"], 2, "there is no folder nodir; nothing was made: make the"),
        (["film", MAP, "film.avi"], 2, "film.avi is not a name for a film"),
        (["publish", MAP, "out", "--days", "0"], 2, "--days: 0 cannot be: write 1 or more"),
        (["publish", MAP, "out", "--zooms", "5"], 2, "cannot be: write the zooms as -5..0"),
        ([*ARCHIVE, "map.zip", "--area=90000,90000,90001,90001"], 2, "nothing was there in this area; "),
    ],
)
def test_what_is_wrong_is_one_line_and_makes_nothing(
    tmp_path: Path, tileharvest: Tileharvest, words: list[str], status: int, said: str
) -> None:
    done = tileharvest(*words)
    assert (done.status, done.out) == (status, "")
    assert said in done.err.splitlines()[-1]
    assert named(tmp_path) == []


def test_numbers_have_their_nouns() -> None:
    published = publish._in_words(Path("out"), Published(images=1, lists=2, removed=1))
    assert "out: 1 image, 0 of them new; 2 lists, 0 new;" in published
    assert published.endswith("; 1 file removed that nothing names any more")


def test_an_import_says_how_many_images_are_missing() -> None:
    shown = SimpleNamespace(unread=[{}], missing=[{}] * 31_574, days={})
    assert list(import_module("tileharvest.commands.import")._in_words("m", shown)) == [
        "missing in the source: 1 day",
        "missing in the source: 31,574 images; --json names them all",
        "map 'm': nothing was imported",
    ]

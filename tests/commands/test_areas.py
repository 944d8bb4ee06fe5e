"""`tileharvest areas`."""

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Tileharvest
from tests.viewer.building import BLUE, DAY_LAYER, FIRST, MAP, SECOND, World, picture, square
from tileharvest.tiles.ground import Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

LAYER = Layer(
    DAY_LAYER,
    Pyramid(10),
    "png",
    tile_size=(8, 8),
    projection=Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0)),
)


@pytest.fixture(autouse=True)
def world(tmp_path: Path) -> None:
    """A map whose upper left tile has changed."""
    world = World(tmp_path)
    tiles = square(0, 8, bottom=-8)
    world.harvest(FIRST, dict.fromkeys(tiles, picture()), described=LAYER)
    world.harvest(SECOND, {tiles[7]: picture(BLUE)}, described=LAYER)


def test_an_area_is_added_listed_and_removed(tileharvest: Tileharvest, tmp_path: Path) -> None:
    assert (
        tileharvest("areas", MAP).stdout
        == f"map '{MAP}' has no area yet: tileharvest areas {MAP} add AREA X,Z X,Z\n"
    )
    added = tileharvest("areas", MAP, "add", "my base", "0,0", "31,31")
    assert (
        added.stdout == f"area 'my base' of map '{MAP}': 4 tiles of layer 'day', last changed on {SECOND}\n"
    )
    tileharvest("areas", MAP, "add", "far off", "-1000,-1000", "-990.5,-980", "--layer", "day")
    keys = ("name", "corners", "tiles", "days", "last_change", "fault")
    rows = json.loads(tileharvest("areas", "--json", MAP).stdout)
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("my base", [[0, 0], [31, 31]], 4, 2, str(SECOND), None),
        ("far off", [[-1000, -1000], [-990.5, -980]], 4, 0, None, None),
    ]
    listed = tileharvest("areas", MAP).stdout.splitlines()
    assert " ".join(listed[0].split()) == "area layer corners tiles days with a change last change"
    assert listed[3].split() == ["far", "off", "day", "-1000,-1000", "-990.5,-980", "4", "0"]
    removed = tileharvest("areas", MAP, "remove", "my base")
    assert removed.stdout == f"area 'my base' of map '{MAP}' is removed; the history keeps all of it\n"
    assert [area["name"] for area in json.loads(tileharvest("areas", MAP, "--json").stdout)] == ["far off"]
    file = tmp_path / "data" / "areas.toml"
    old = f'[[{MAP}]]\nname = "old"\nlayer = "cave"\ncorners = [[0, 0], [31, 31]]\n'
    file.write_text(f"{file.read_text()}{old}")
    said = f"warning: area 'old' of map '{MAP}' shows no change: map '{MAP}' has no layer"
    assert tileharvest("areas", MAP).stderr.startswith(said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "base", "0", "0", "31", "31"], "write each corner as X,Z in one word"),
        (["remove"], "write tileharvest areas NAME [add AREA"),
        (["add", "base", "0;0", "1,1"], "'0;0' is not a corner: write two numbers, such as 80,-400"),
        (["add", "base", "0,0", "1,1", "--layer", "cave"], f"map '{MAP}' has no layer 'cave'; it has 'day'"),
        (["add", "base", "0,0", "9999,9999"], "area 'base' is not added: it needs 390,625 tiles, and 16,384"),
        (["remove", "base"], f"map '{MAP}' has no area 'base'; it has none yet"),
    ],
)
def test_what_cannot_be_is_one_line_and_changes_nothing(
    tileharvest: Tileharvest, tmp_path: Path, arguments: list[str], said: str
) -> None:
    done = tileharvest("areas", MAP, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "data" / "areas.toml").exists()

"""What commands show of a history, and what those that export refuse."""

import json
from pathlib import Path
from typing import Final

import pytest

from tests.commands.conftest import Tileharvest
from tests.export.conftest import noise
from tests.viewer.building import DAY_LAYER, FIRST, MAP, NIGHT_LAYER, SECOND, THIRD, URL, World
from tileharvest.tiles.grid import Tile

FAR: Final = Tile(0, 2001, 1)


@pytest.fixture(autouse=True)
def world(tmp_path: Path) -> World:
    """One tile from the first day on, and one far away from the second."""
    world = World(tmp_path)
    world.harvest(FIRST, {Tile(0, 1, 1): noise(1)})
    world.harvest(SECOND, {FAR: noise(2)})
    world.harvest(THIRD, {Tile(0, 1, 1): noise(3)})
    return world


def test_maps_are_shown_as_json_and_as_a_table(tileharvest: Tileharvest, world: World) -> None:
    world.describe(note="the ants' own")
    with world.maps_file.open("a") as file:
        file.write(f'[asleep]\nurl = "{URL}asleep/"\nenabled = false\n')
    done = tileharvest("maps", "--json")
    known, asleep = json.loads(done.stdout)
    # It depends on the present time.
    assert known.pop("due").endswith("+00:00")
    walk = "no full harvest is finished so far"
    nothing = {"enabled": False, "note": "", "due_because": None, "last_harvest": None, "walk_reasons": {}}
    nothing |= {"walk": "full", "paused": None, "tiles": 0, "versions": 0, "bytes": 0}
    assert asleep == nothing | {"map": "asleep", "url": f"{URL}asleep/", "due": None}
    assert known == nothing | {
        "map": MAP,
        "url": URL,
        "enabled": True,
        "note": "the ants' own",
        "due_because": "once a segment",
        "last_harvest": {"day": str(THIRD), "reason": "finished"},
        "walk_reasons": {DAY_LAYER: walk, NIGHT_LAYER: walk},
        "tiles": 2,
        "versions": 3,
        "bytes": sum(len(noise(number)) for number in (1, 2, 3)),
    }
    assert done.stderr == ""
    _, _, first, second, why = tileharvest("maps", "--why").stdout.splitlines()
    assert first.split()[:5] == [MAP, str(THIRD), "finished", "full", "2"]
    assert first.endswith("the ants' own")
    assert second.startswith("asleep (not enabled)")
    assert why == f"{MAP}: the next walk is full: {walk}"


def test_a_history_as_json_has_every_version_once(tileharvest: Tileharvest, world: World) -> None:
    shown = json.loads(tileharvest("history", MAP, "--json").stdout)
    assert [(one["tile"], one["day"], f"{one['sha1']}.{one['extension']}") for one in shown] == sorted(
        (
            (str(tile), str(one.day), one.image)
            for tile in (Tile(0, 1, 1), FAR)
            for one in world.versions(tile)
        ),
        key=lambda row: row[1],
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mosaic", MAP, "map.png", "--zoom", "1"], f"has zooms 0 to -8 on {THIRD}"),
        (["mosaic", MAP, "map.png", "--max-bytes", "lots"], "'lots' is not a size"),
        (["mosaic", MAP, "nodir/map.png"], "there is no folder nodir; nothing was made: make the folder"),
        (["history", MAP, "cave:0_1_1"], f"map '{MAP}' has no layer 'cave'; it has '{DAY_LAYER}'"),
        (["publish", MAP, "out", "--zooms", "5"], "cannot be: write the zooms as -5..0"),
    ],
)
def test_what_is_wrong_is_one_line_and_makes_nothing(
    tmp_path: Path, tileharvest: Tileharvest, words: list[str], said: str
) -> None:
    done = tileharvest(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[-1]
    assert [path for path in tmp_path.iterdir() if path.is_file()] == []

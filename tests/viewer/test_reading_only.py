"""A viewer changes nothing, and disturbs nobody who does."""

from __future__ import annotations

from shutil import rmtree
from typing import TYPE_CHECKING, Any

from tests.viewer.asking import of_area, serving
from tests.viewer.building import (
    BLUE,
    DAY_LAYER,
    FIRST,
    MAP,
    SECOND,
    name_of,
    picture,
    square,
)
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from pathlib import Path

    from tests.viewer.asking import Client
    from tests.viewer.building import World

API = f"/api/v1/maps/{MAP}"
AREA = TileRange(0, -15, 15, -15, 15)


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Of every file and folder: bytes and time of change."""
    return {
        file.relative_to(folder).as_posix(): (
            file.read_bytes() if file.is_file() else b"",
            file.stat().st_mtime_ns,
        )
        for file in [folder, *folder.rglob("*")]
    }


def ask_everything(client: Client) -> None:
    area = of_area(AREA, layer=DAY_LAYER)
    asked: list[tuple[str, dict[str, Any] | None]] = [
        ("/", None),
        ("/api/v1/maps", None),
        (API, None),
        (f"{API}/harvests", None),
        (f"{API}/view", {**area, "day": SECOND}),
        (f"{API}/changes", area),
        (f"{API}/heat", {**area, "after": FIRST, "until": SECOND}),
        (f"{API}/places", {"layer": DAY_LAYER, "after": FIRST, "until": SECOND}),
        (f"{API}/tiles/0_1_1", {"layer": DAY_LAYER}),
        (f"{API}/composed/-2_4_4/{FIRST}.png", {"layer": DAY_LAYER}),
        (f"/tiles/{name_of(picture())}", None),
    ]
    for path, query in asked:
        assert client.get(path, query).status == 200, path


def test_nothing_is_changed_but_for_the_cache(world: World) -> None:
    world.describe()
    world.harvest(FIRST, dict.fromkeys(square(0, 8), picture()))
    world.harvest(SECOND, {Tile(0, 1, 1): picture(BLUE)})
    left = world.data / "tiles" / "ab" / ".left.0123.unfinished"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"half")
    before = state(world.folder)
    with serving(world) as client:
        ask_everything(client)
        during = {name for name in state(world.folder) if name not in before}
    rmtree(world.data / "cache")
    during = {name for name in during if not name.startswith("data/cache")}
    after = state(world.folder)
    # SQLite's readers announce themselves in two files, which go with the last of them.
    assert during <= {"data/history.sqlite-shm", "data/history.sqlite-wal"}
    for both in (before, after):
        both.pop("data")
    assert after == before

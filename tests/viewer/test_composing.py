"""How pictures are composed: from how many images, how often, by how many at once."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.viewer.asking import HOST, running
from tests.viewer.building import BLUE, DAY_LAYER, FIRST, MAP, SECOND, SIZE, World, picture, square
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.pictures.composer import Composer, ComposerStoppedError, PastLayer, Picture
from tileharvest.store.cache import DiskCache
from tileharvest.tiles.grid import Tile
from tileharvest.viewer.application import Application
from tileharvest.viewer.served_maps import ServedMaps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date
    from pathlib import Path

    from tileharvest.store.files import FileStore

API = f"/api/v1/maps/{MAP}"
LEVELS = 4
TOP = Tile(-LEVELS, 1 << LEVELS, 1 << LEVELS)
IMAGES = 4**LEVELS


class WatchedStore:
    """Counts how often each image is read; each reading waits until `let_go` is set."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self.read: Counter[str] = Counter()
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.let_go.set()

    def named(self, name: str) -> bytes:
        self.read[name] += 1
        self.begun.release()
        assert self.let_go.wait(240)
        return self._store.named(name)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Every tile of TOP has an image of its own on the first day; one changes on the second."""
    world = World(tmp_path_factory.mktemp("world"))
    tiles = square(0, 1 << LEVELS)
    world.harvest(FIRST, {tile: picture((number, 0, 0, 255)) for number, tile in enumerate(tiles)})
    world.harvest(SECOND, {tiles[0]: picture(BLUE)})
    return world


@pytest.fixture
def history(world: World) -> Iterator[History]:
    with History.open_read_only(f"sqlite:///{world.history_file}") as opened:
        yield opened


@pytest.fixture
def store(world: World) -> WatchedStore:
    return WatchedStore(world.store)


def scene(history: History, day: date, settled: date = SECOND, imported: datetime | None = None) -> PastLayer:
    layer = next(layer for layer in map_outline(history, MAP).layers if layer.name == DAY_LAYER)
    days = (FIRST, SECOND) if settled == SECOND else (FIRST,)
    return PastLayer(history, layer.id, day, 0, (SIZE, SIZE), days, (imported,) * len(days))


def compose(composer: Composer, of: PastLayer, tile: Tile = TOP) -> Picture:
    plan = composer.composition(of, tile)
    assert plan is not None
    return composer.picture(of, plan)


def below(tile: Tile, levels: int) -> list[Tile]:
    tiles = [tile]
    for _ in range(levels):
        tiles = [child for each in tiles for child in each.children()]
    return tiles


@pytest.mark.parametrize("day", [FIRST, SECOND])
def test_each_image_is_read_once(history: History, store: WatchedStore, day: date) -> None:
    compose(Composer(store), scene(history, day))
    assert len(store.read) == IMAGES
    assert set(store.read.values()) == {1}


def test_after_a_change_only_what_covers_it_is_made_again(history: History, store: WatchedStore) -> None:
    composer = Composer(store)
    compose(composer, scene(history, FIRST))
    store.read.clear()
    compose(composer, scene(history, SECOND))
    # The four tiles of the one picture that has the change in it.
    assert sum(store.read.values()) == 4


def test_a_stopped_composer_ends_after_the_image_it_is_at(history: History, store: WatchedStore) -> None:
    composer = Composer(store)
    store.let_go.clear()
    with ThreadPoolExecutor(1) as threads:
        making = threads.submit(compose, composer, scene(history, FIRST))
        assert store.begun.acquire(timeout=240)
        composer.stop()
        store.let_go.set()
        with pytest.raises(ComposerStoppedError):
            making.result(240)
    assert sum(store.read.values()) == 1


def test_the_key_says_all_that_a_picture_depends_on(history: History, store: WatchedStore) -> None:
    composer = Composer(store)
    base = scene(history, FIRST)
    scenes = [
        base,
        scene(history, SECOND),
        scene(history, FIRST, settled=FIRST),
        scene(history, FIRST, imported=datetime(2022, 1, 1, tzinfo=UTC)),
        replace(base, tile_size=(SIZE, SIZE + 1)),
    ]
    keys = {plan.key for each in scenes if (plan := composer.composition(each, TOP)) is not None}
    keys |= {plan.key for tile in TOP.children() if (plan := composer.composition(base, tile)) is not None}
    assert len(keys) == len(scenes) + 4


def test_what_nobody_waits_for_any_more_is_not_begun(
    world: World, history: History, store: WatchedStore, tmp_path: Path
) -> None:
    served = ServedMaps(world.maps_file, world.data / "areas.toml", lambda: history, lambda _: 0)
    application = Application(served, store, Composer(store), {}, DiskCache(tmp_path, 0))
    wanted = [f"GET {API}/composed/{tile}/{FIRST}.png?layer=day HTTP/1.1" for tile in below(TOP, 1)]
    store.let_go.clear()
    with running(application) as client, ExitStack() as waiting:
        for line in wanted[:2]:
            connection = waiting.enter_context(socket.create_connection((HOST, client.port)))
            connection.sendall(f"{line}\r\nHost: localhost\r\n\r\n".encode())
        # Both threads have something to do, so that the next one has to wait.
        assert all(store.begun.acquire(timeout=240) for _ in wanted[:2])
        with socket.create_connection((HOST, client.port)) as connection:
            connection.sendall(f"{wanted[2]}\r\nHost: localhost\r\n\r\n".encode())
            assert client.get("/healthz").status == 200
        assert client.get("/healthz").status == 200
        store.let_go.set()
        assert client.get(wanted[3].split()[1]).status == 200
    application.close()
    # Not the third quarter.
    assert len(store.read) == IMAGES * 3 // 4

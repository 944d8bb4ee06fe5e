"""Pictures of levels that the history lacks: how a client gets them, and of how many images they are made."""

import io
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from tests.viewer.asking import HOST, Client, Reply, serving
from tests.viewer.building import (
    BLUE,
    DAY_LAYER,
    FIRST,
    GREEN,
    MAP,
    RED,
    SECOND,
    SIZE,
    THIRD,
    World,
    picture,
    square,
)  # fmt: skip
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.pictures.composer import Composer, ComposerStoppedError, Composition, PastLayer, Picture
from tileharvest.store.files import FileStore
from tileharvest.store.port import sha1_of
from tileharvest.tiles.grid import Tile, TileRange

API = f"/api/v1/maps/{MAP}"
QUARTERED = Tile(-1, 2, 2)


def composed(client: Client, tile: Tile | str, day: date | str) -> Reply:
    return client.get(f"{API}/composed/{tile}/{day}.png", {"layer": DAY_LAYER})


def colours(reply: Reply) -> list[tuple[int, ...]]:
    """Of the middle of each quarter, in the order of Overviewer's digits."""
    image = Pillow.open(io.BytesIO(reply.body))
    assert (image.format, image.mode, image.size) == ("PNG", "RGBA", (SIZE, SIZE))
    at = (SIZE // 4, 3 * SIZE // 4)
    found: list[Any] = [image.getpixel((x, y)) for y in at for x in at]
    return found


def test_four_tiles_make_one_in_which_what_is_missing_or_gone_is_clear(world: World) -> None:
    upper_left, upper_right, _, lower_right = QUARTERED.children()
    world.harvest(FIRST, {upper_left: picture(RED), upper_right: picture(GREEN)})
    world.harvest(SECOND, {upper_right: None})
    world.harvest(THIRD, {lower_right: picture(BLUE)})
    clear = (0, 0, 0, 0)
    days = {FIRST: [RED, GREEN, clear, clear], SECOND: [RED, *[clear] * 3], THIRD: [RED, clear, clear, BLUE]}
    with serving(world) as client:
        assert {day: colours(composed(client, QUARTERED, day)) for day in days} == days
        nowhere = composed(client, "-1_62_62", FIRST)
    assert (nowhere.status, nowhere.error) == (404, "there was nothing at -1_62_62 by 2021-02-13")


@pytest.mark.parametrize("damage", [b"", picture(BLUE)])
def test_a_damaged_image_is_left_out_and_then_nothing_is_kept(
    world: World, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    upper_left, upper_right, *_ = QUARTERED.children()
    bad = picture(GREEN)
    world.harvest(FIRST, {upper_left: picture(RED), upper_right: bad})
    world.harvest(SECOND, {})
    file = Path(world.store.path(f"{sha1_of(bad)}.png"))
    file.write_bytes(damage)
    with serving(world) as client:
        broken, _ = (composed(client, QUARTERED, FIRST) for _ in range(2))
        file.write_bytes(bad)
        restored = composed(client, QUARTERED, FIRST)
    assert colours(broken)[:2] == [RED, (0, 0, 0, 0)]
    assert (broken.headers["Cache-Control"], broken.headers["ETag"]) == ("no-store", None)
    assert colours(restored)[:2] == [RED, GREEN]
    (record,) = caplog.records
    assert "is left out of composed pictures" in record.getMessage()


LEVELS = 2
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
def tall(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Every tile of TOP has an image of its own on the first day; one changes on the second."""
    tall = World(tmp_path_factory.mktemp("world"))
    tiles = square(0, 1 << LEVELS)
    tall.harvest(FIRST, {tile: picture((number, 0, 0, 255)) for number, tile in enumerate(tiles)})
    tall.harvest(SECOND, {tiles[0]: picture(BLUE)})
    return tall


@pytest.fixture
def history(tall: World) -> Iterator[History]:
    with History.open_read_only(f"sqlite:///{tall.database}") as opened:
        yield opened


@pytest.fixture
def store(tall: World) -> WatchedStore:
    return WatchedStore(tall.store)


def scene(history: History, day: date) -> PastLayer:
    (layer,) = (layer for layer in map_outline(history, MAP).layers if layer.name == DAY_LAYER)
    return PastLayer(history, layer.id, day, 0, (SIZE, SIZE), (FIRST, SECOND), (None, None))


def compose(composer: Composer, of: PastLayer) -> Picture:
    plan = composer.parts(of, TileRange.of(TOP))[TOP]
    assert isinstance(plan, Composition)
    return composer.picture(of, plan)


def test_each_image_is_read_once_and_after_a_change_only_what_covers_it(
    history: History, store: WatchedStore
) -> None:
    composer = Composer(store)
    compose(composer, scene(history, FIRST))
    assert (len(store.read), set(store.read.values())) == (IMAGES, {1})
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
    composer, base = Composer(store), scene(history, FIRST)
    scenes = [
        base,
        scene(history, SECOND),
        replace(base, days=(FIRST,), ended=(None,)),
        replace(base, ended=(datetime(2022, 1, 1, tzinfo=UTC), None)),
        replace(base, tile_size=(SIZE, SIZE + 1)),
    ]
    asked = [*((each, TOP) for each in scenes), *((base, tile) for tile in TOP.children())]
    plans = [composer.parts(of, TileRange.of(tile))[tile] for of, tile in asked]
    keys = {plan.key for plan in plans if isinstance(plan, Composition)}
    assert len(keys) == len(asked)


def test_what_nobody_waits_for_any_more_is_not_begun(
    tall: World, store: WatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tileharvest.commands.serve.open_store", lambda _: store)
    wanted = [f"{API}/composed/{tile}/{FIRST}.png?layer=day" for tile in TOP.children()]
    store.let_go.clear()
    with serving(tall) as client, ExitStack() as waiting:

        def ask(path: str) -> socket.socket:
            connection = socket.create_connection((HOST, client.port))
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            return connection

        for path in wanted[:2]:
            waiting.enter_context(ask(path))
        # Both threads have something to do, so that the next one has to wait.
        assert all(store.begun.acquire(timeout=240) for _ in wanted[:2])
        with ask(wanted[2]):
            assert client.get("/healthz").status == 200
        assert client.get("/healthz").status == 200
        store.let_go.set()
        assert client.get(wanted[3]).status == 200
    # Not the third quarter.
    assert len(store.read) == IMAGES * 3 // 4

"""What one client can take from the others: connections, time for headers, places in queues."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from tests.viewer.asking import serving
from tests.viewer.building import BLUE, DAY_LAYER, FIRST, MAP, SECOND, picture
from tileharvest.tiles.grid import Tile
from tileharvest.viewer.application import WorkQueue
from tileharvest.viewer.replies import RefusedError

if TYPE_CHECKING:
    from tests.viewer.building import World

API = f"/api/v1/maps/{MAP}"


@pytest.mark.parametrize("header", ["rebound.example", "rebound.example:80", "192.168.1.5"])
def test_a_name_that_is_not_the_viewers_is_misdirected(world: World, header: str) -> None:
    world.harvest(FIRST, {Tile(0, 1, 1): picture()})
    with serving(world) as client:
        for path in ("/", "/healthz", "/api/v1/maps", API, "/page/main.js", "/nothing"):
            asked = f"GET {path} HTTP/1.1\r\nHost: {header}\r\nConnection: close\r\n\r\n"
            reply = client.send(asked.encode())
            assert reply.status == 421
            assert reply.error.startswith(f"the viewer is not at '{header}'")
            assert reply.headers["Cache-Control"] == "no-store"


def test_an_allowed_name_is_answered(world: World) -> None:
    with serving(world, allowed=["maps.example.net"]) as client:
        request = b"GET /healthz HTTP/1.1\r\nHost: maps.example.net\r\nConnection: close\r\n\r\n"
        assert client.send(request).json == {"ok": True}


def test_a_full_queue_refuses_and_says_when_to_come_again() -> None:
    let_go, began = threading.Event(), threading.Semaphore(0)

    def work() -> str:
        began.release()
        assert let_go.wait(240)
        return "done"

    async def ask() -> None:
        queue = WorkQueue("test", threads=2, most_waiting=1)
        under_way = [asyncio.create_task(queue.run(work)) for _ in range(3)]
        for _ in range(2):
            await asyncio.to_thread(began.acquire)
        with pytest.raises(RefusedError) as refused:
            await queue.run(work)
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "5"})
        # Who has gone gives no place free: the work goes on.
        under_way[0].cancel()
        await asyncio.sleep(0)
        with pytest.raises(RefusedError):
            await queue.run(work)
        let_go.set()
        assert await asyncio.gather(*under_way[1:]) == ["done", "done"]
        assert await queue.run(work) == "done"
        queue.close()

    asyncio.run(ask())


PLACES = (f"{API}/places", {"layer": DAY_LAYER, "after": "2021-02-12", "until": SECOND})


def test_the_places_of_ended_harvests_are_kept_on_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.harvest(FIRST, {Tile(0, 1, 1): picture()})
    with serving(world) as client:
        known = client.get(*PLACES).body

    def unasked(*_: object) -> object:
        raise AssertionError("the history was asked again")

    with monkeypatch.context() as patched, serving(world) as client:
        patched.setattr("tileharvest.viewer.api.changed_blocks", unasked)
        assert client.get(*PLACES).body == known
    world.harvest(SECOND, {Tile(0, 1, 1): picture(BLUE)})
    with serving(world) as client:
        assert client.get(*PLACES).json == {"places": [{"tile": "0_1_1", "days": 2, "tiles": 2}]}


def test_the_places_of_an_unfinished_harvest_are_asked_each_time(world: World) -> None:
    world.harvest(FIRST, {Tile(0, 1, 1): picture()}, finished=False)
    with serving(world) as client:
        assert client.get(*PLACES).status == 200
    assert not (world.data / "cache").exists()


def test_a_question_about_a_map_that_is_not_served_is_not_answered_from_the_cache(world: World) -> None:
    world.harvest(FIRST, {Tile(0, 1, 1): picture()})
    world.harvest(FIRST, {Tile(0, 1, 1): picture()}, name="other")
    with serving(world) as client:
        assert client.get(*PLACES).status == 200
    with serving(world, ["other"]) as client:
        assert client.get(*PLACES).status == 404

"""What one client can take from the others: connections, time for headers, places in queues."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.viewer.asking import HOST, Client, serving
from tests.viewer.building import BLUE, DAY_LAYER, FIRST, MAP, SECOND, picture, square
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import Tile
from tileharvest.viewer.replies import RefusedError
from tileharvest.viewer.work_queue import WorkQueue

if TYPE_CHECKING:
    from tests.viewer.building import World

API = f"/api/v1/maps/{MAP}"
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connected(port: int) -> Any:
    return closing(socket.create_connection((HOST, port), timeout=240))


def all_of(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    received = b""
    while part := connection.recv(65536):
        received += part
    return received


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


def test_a_request_without_a_name_is_misdirected(world: World) -> None:
    with serving(world) as client:
        assert client.send(b"GET /healthz HTTP/1.0\r\n\r\n").status == 421


def test_an_allowed_name_is_answered(world: World) -> None:
    with serving(world, allowed=["maps.example.net"]) as client:
        request = b"GET /healthz HTTP/1.1\r\nHost: maps.example.net\r\nConnection: close\r\n\r\n"
        assert client.send(request).json == {"ok": True}


def test_slow_headers_end_their_connection_and_no_other(world: World) -> None:
    with serving(world, header_seconds=0.2) as client, connected(client.port) as slow:
        slow.sendall(REQUEST[:-2])
        with connected(client.port) as other:
            # The other one has asked in time, and may stay without asking again.
            other.sendall(REQUEST)
            assert other.recv(65536).startswith(b"HTTP/1.1 200")
            answer = all_of(slow)
            other.sendall(REQUEST)
            assert other.recv(65536).startswith(b"HTTP/1.1 200")
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"Content-Security-Policy" in answer
    assert answer.endswith(b'\r\n\r\n{"error":"the request\'s headers did not come in time"}')


def test_headers_that_drip_get_no_more_time(world: World) -> None:
    with serving(world, header_seconds=0.2) as client, connected(client.port) as slow:
        stopped = threading.Event()

        def drip() -> None:
            slow.sendall(b"GET /healthz HTTP/1.1\r\n")
            while not stopped.wait(0.01):
                try:
                    slow.sendall(b"A: b\r\n")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert slow.recv(12) == b"HTTP/1.1 408"
        finally:
            stopped.set()
            dripping.join()


def test_slow_headers_end_a_connection_that_has_asked_before(world: World) -> None:
    with serving(world, header_seconds=0.2) as client, connected(client.port) as slow:
        slow.sendall(REQUEST)
        assert slow.recv(65536).startswith(b"HTTP/1.1 200")
        slow.sendall(REQUEST[:-2])
        assert all_of(slow).startswith(b"HTTP/1.1 408")


def test_a_connection_that_says_nothing_is_closed_without_a_word(world: World) -> None:
    with serving(world, header_seconds=0.2) as client, connected(client.port) as silent:
        assert all_of(silent) == b""


def test_one_connection_more_than_may_be_is_told_to_come_again(world: World) -> None:
    with serving(world, most_connections=3) as client, ExitStack() as opened:
        for _ in range(3):
            held = opened.enter_context(connected(client.port))
            held.sendall(REQUEST)
            assert held.recv(65536).startswith(b"HTTP/1.1 200")
        with connected(client.port) as refused:
            answer = all_of(refused)
        assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"\r\nRetry-After: 5\r\n" in answer
        # Those that are held are still answered, and their places are free again when they go.
        held.sendall(REQUEST)
        assert held.recv(65536).startswith(b"HTTP/1.1 200")
        opened.close()
        while client_status(client) != 200:
            pass


def test_many_requests_at_once_are_answered_and_then_the_connection_may_idle(world: World) -> None:
    with serving(world, header_seconds=0.2) as client, connected(client.port) as idle:
        # More than aiohttp keeps for one connection.
        idle.sendall(REQUEST * 50)
        read_answers(idle, 50)
        with connected(client.port) as silent:
            # Which is ended after the time that headers have, and after the idle one would have been.
            assert all_of(silent) == b""
        idle.sendall(REQUEST)
        assert idle.recv(65536).startswith(b"HTTP/1.1 200")


def read_answers(connection: socket.socket, count: int) -> None:
    received = b""
    while received.count(b"HTTP/1.1 200") < count or not received.endswith(b'{"ok":true}'):
        received += connection.recv(65536)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux ends such connections")
def test_a_reader_that_takes_nothing_gives_its_place_back(world: World) -> None:
    with serving(world, most_connections=1, unread_seconds=0.5) as client, connected(client.port) as held:
        held.settimeout(0.2)
        asked = b"GET /page/leaflet/leaflet.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        # Until neither side's buffers take any more.
        with suppress(OSError):
            while True:
                held.sendall(asked * 50)
        while client_status(client) != 200:
            pass


def test_a_reader_that_leaves_a_story_is_no_failure(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(28):
        body = picture(BLUE) if number % 2 else picture()
        world.harvest(FIRST.replace(day=number + 1), {Tile(0, 1, 1): body})
    question = f"GET {API}/pixels?layer={DAY_LAYER}&ground=0,0,2,2 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(world) as client:
        for _ in range(5):
            with connected(client.port) as leaving:
                leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                leaving.sendall(question.encode())
                leaving.recv(64)
        # The one thread for long questions has done with the others before it.
        assert client.get(f"{API}/pixels", {"layer": DAY_LAYER, "ground": "0,0,2,2"}).status == 200
    assert caplog.records == []


def client_status(client: Client) -> int:
    return client.get("/healthz").status


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


def test_a_call_that_fails_gives_its_place_free() -> None:
    def fail() -> None:
        raise KeyError("x")

    async def ask() -> None:
        queue = WorkQueue("test", threads=1, most_waiting=0)
        for _ in range(3):
            with pytest.raises(KeyError):
                await queue.run(fail)
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


def test_composed_pictures_outlive_the_viewer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.harvest(FIRST, dict.fromkeys(square(0, 4), picture()))
    world.harvest(SECOND, {Tile(0, -1, -1): picture(BLUE)})
    path = f"{API}/composed/-2_4_4/{FIRST}.png?layer={DAY_LAYER}"
    with serving(world) as client:
        known = client.get(path).body

    def unread(*_: object) -> bytes:
        raise AssertionError("an image was read again")

    monkeypatch.setattr(FileStore, "named", unread)
    with serving(world) as client:
        assert client.get(path).body == known


def test_a_question_about_a_map_that_is_not_served_is_not_answered_from_the_cache(world: World) -> None:
    world.harvest(FIRST, {Tile(0, 1, 1): picture()})
    world.harvest(FIRST, {Tile(0, 1, 1): picture()}, name="other")
    with serving(world) as client:
        assert client.get(*PLACES).status == 200
    with serving(world, ["other"]) as client:
        assert client.get(*PLACES).status == 404

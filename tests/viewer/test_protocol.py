"""What holds for every answer, whatever was asked: names, methods, headers, refusals, queues, the cache."""

from __future__ import annotations

import asyncio
import gzip
import threading
from hashlib import sha1
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import pytest

from tests.viewer.asking import Client, of_area, serving
from tests.viewer.building import BLUE, DAY_LAYER, FIRST, MAP, SECOND, World, picture, square
from tileharvest.errors import ConfigurationError
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.viewer.application import WorkQueue
from tileharvest.viewer.host_names import HostNames
from tileharvest.viewer.replies import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.viewer.asking import Client


API = f"/api/v1/maps/{MAP}"
BODY = picture()
IMAGE = f"/tiles/{sha1(BODY).hexdigest()}.png"
VIEW = (f"{API}/view", of_area(TileRange(0, 1, 31, 1, 31), layer=DAY_LAYER, day=FIRST))
COMPOSED = (f"{API}/composed/-1_2_2/{FIRST}.png", {"layer": DAY_LAYER})

FINE: list[tuple[str, dict[str, Any] | None]] = [
    ("/", None),
    ("/page/index.html", None),
    ("/healthz", None),
    ("/api/v1/maps", None),
    (API, None),
    (f"{API}/harvests", None),
    (f"{API}/tiles/0_1_1", {"layer": DAY_LAYER}),
    VIEW,
    COMPOSED,
    (IMAGE, None),
]
REFUSED: list[tuple[str, dict[str, Any] | None, int]] = [
    ("/nothing", None, 404),
    ("/page/nothing", None, 404),
    (f"/tiles/{'0' * 40}.png", None, 404),
    ("/api/v1/maps/nowhere", None, 404),
    (f"{API}/nothing", None, 404),
    (f"{API}/view", None, 400),
]
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
        " connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Server": "TileHarvest",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    world = World(tmp_path_factory.mktemp("world"))
    world.harvest(FIRST, dict.fromkeys(square(0, 16), BODY))
    with serving(world) as running:
        yield running


def expect_security(headers: Any) -> None:
    assert {name: headers.get_all(name) for name in SECURITY} == {
        name: [value] for name, value in SECURITY.items()
    }


@pytest.mark.parametrize(("path", "query", "status"), REFUSED)
def test_every_refusal_has_them_too_and_is_json_that_is_not_kept(
    client: Client, path: str, query: dict[str, Any], status: int
) -> None:
    reply = client.get(path, query)
    assert reply.status == status
    assert reply.error
    expect_security(reply.headers)
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["ETag"] is None


@pytest.mark.parametrize(("path", "query"), [case for case in FINE if case[0] != "/healthz"])
def test_who_knows_an_answer_gets_304_with_the_same_headers(
    client: Client, path: str, query: dict[str, Any]
) -> None:
    first = client.get(path, query)
    for known in (first.headers["ETag"], f"W/{first.headers['ETag']}", f'"x", {first.headers["ETag"]}', "*"):
        again = client.get(path, query, if_none_match=known)
        assert (again.status, again.body) == (304, b"")
        expect_security(again.headers)
        for name in ("ETag", "Cache-Control", "Vary"):
            assert again.headers[name] == first.headers[name]


@pytest.mark.parametrize(("path", "query"), [*FINE, *((path, query) for path, query, _ in REFUSED)])
def test_head_has_the_headers_of_get_and_no_body(client: Client, path: str, query: dict[str, Any]) -> None:
    get, head = client.get(path, query), client.head(path, query)
    assert (head.status, head.body) == (get.status, b"")
    headers = [dict(reply.headers) for reply in (get, head)]
    for named in headers:
        named.pop("Date")
    assert headers[0] == headers[1]
    assert int(headers[1]["Content-Length"]) == len(get.body)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"])
def test_other_methods_are_refused_wherever_they_go(client: Client, method: str) -> None:
    for path in ("/", IMAGE, f"{API}/view", "/nothing"):
        reply = client.ask(method, path, {"Content-Length": "0"})
        assert reply.status == 405
        assert reply.headers["Allow"] == "GET, HEAD"
        assert "only GET, HEAD" in reply.error
        expect_security(reply.headers)


NOWHERE = """
    /index.html /api /api/ /api/v1 /api/v2/maps /api/v1/maps/ {API}/ /page /page/ // /./ /../ /.git/config
    /%2e%2e/ /%2e%2e%2f%2e%2e%2fetc%2fpasswd /page/../serving.py /page/..%2fserving.py /page/%2e%2e/serving.py
    /page//etc/passwd /page/%2fetc%2fpasswd /page/index.html/ /page/index.html%00 /page/INDEX.HTML
    /page/..\\serving.py /page/leaflet /tiles /tiles/ /%00 /%ff /% /healthz/ /HEALTHZ {API}/view/
    {API}/view/more {API}/tiles {API}/composed/0_1_1 /api/v1//maps {API}%2fview /api/v1/maps%00 /robots.txt
"""


@pytest.mark.parametrize(
    "path", [*NOWHERE.format(API=API).split(), "/" + "a" * 8000, "/page/" + "../" * 2000]
)
def test_what_is_not_there_is_not_found(client: Client, path: str) -> None:
    reply = client.get(path)
    assert reply.status == 404
    assert len(reply.error) < 450
    expect_security(reply.headers)


def test_a_question_that_is_not_there_names_those_that_are(client: Client) -> None:
    asked = client.get(f"{API}/tiles")
    assert asked.status == 404
    assert asked.error.startswith(
        "'tiles' is not a question about a map; there are: view, changes, heat, tiles/{tile}"
    )


def test_a_long_answer_is_compressed_for_who_takes_that(client: Client) -> None:
    plain, zipped = client.get(*VIEW), client.get(*VIEW, accept_encoding="deflate, GZIP;q=0.5, br")
    assert len(plain.body) > 2048
    assert plain.headers["Content-Encoding"] is None
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(zipped.body) == plain.body
    assert len(zipped.body) < len(plain.body) / 2
    assert zipped.headers["ETag"] == f"W/{plain.headers['ETag']}"
    assert plain.headers["Vary"] == zipped.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize("accepted", ["", "identity", "br", "xgzip", "deflate"])
def test_who_does_not_take_gzip_gets_none(client: Client, accepted: str) -> None:
    assert client.get(*VIEW, accept_encoding=accepted).headers["Content-Encoding"] is None


def test_a_bug_is_not_shown_to_the_client(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> object:
        raise KeyError("secret")

    monkeypatch.setattr("tileharvest.viewer.api.outline", broken)
    world = World(tmp_path)
    world.harvest(FIRST, {Tile(0, 1, 1): BODY})
    with serving(world) as client:
        reply = client.get(API)
        assert client.get("/healthz").status == 200
    assert (reply.status, reply.error) == (500, "the viewer failed; its log says why")
    expect_security(reply.headers)
    (record,) = caplog.records
    assert record.exc_info is not None


LOCAL = HostNames.of("127.0.0.1")
OPEN = HostNames.of("0.0.0.0", ["maps.example.net"])


@pytest.mark.parametrize(
    "authority",
    ["127.0.0.1", "127.0.0.1:8000", "127.8.9.1", "localhost", "LocalHost:80", "localhost.", "[::1]:8000"],
)
def test_the_loopback_is_always_admitted(authority: str) -> None:
    assert LOCAL.admit(authority)
    assert OPEN.admit(authority)


@pytest.mark.parametrize(
    "authority",
    [
        *("rebound.example", "rebound.example:8000", "127.0.0.1.rebound.example", "localhost.example", ""),
        *("notlocalhost", "192.168.1.5", "[2001:db8::5]:80", "user@localhost", "localhost:80:80", "[::1"),
        *("local host", "localhost/", "localhost:eighty", "0x7f000001", "2130706433", "127.1"),
    ],
)
def test_nothing_else_is_admitted_where_only_this_computer_may_ask(authority: str) -> None:
    assert not LOCAL.admit(authority)


@pytest.mark.parametrize("authority", ["192.168.1.5:8000", "[2001:db8::5]:80", "10.0.0.1"])
def test_where_others_may_ask_any_address_is_admitted_because_no_name_server_tells_it(authority: str) -> None:
    assert OPEN.admit(authority)


def test_a_name_is_admitted_once_it_was_allowed() -> None:
    assert OPEN.admit("Maps.Example.NET:443")
    assert OPEN.admit("maps.example.net.")
    assert not OPEN.admit("more.maps.example.net")
    assert not OPEN.admit("example.net")


@pytest.mark.parametrize("name", ["https://maps.example.net", "example.net:443", "*", "", "a b", "-x", "a/b"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="write a name alone") as refused:
        HostNames.of("127.0.0.1", [name])
    assert str(refused.value).startswith(f"--allow-host {name} cannot be")


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


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Of every file and folder: bytes and time of change."""
    return {
        file.relative_to(folder).as_posix(): (
            file.read_bytes() if file.is_file() else b"",
            file.stat().st_mtime_ns,
        )
        for file in [folder, *folder.rglob("*")]
    }


def test_nothing_is_changed_but_for_the_cache(world: World) -> None:
    world.describe()
    world.harvest(FIRST, dict.fromkeys(square(0, 8), picture()))
    world.harvest(SECOND, {Tile(0, 1, 1): picture(BLUE)})
    left = world.data / "tiles" / "ab" / ".left.0123.unfinished"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"half")
    before = state(world.folder)
    with serving(world) as client:
        for path, query in (*FINE, PLACES):
            assert client.get(path, query).status == 200, path
        during = {name for name in state(world.folder) if name not in before}
    rmtree(world.data / "cache")
    during = {name for name in during if not name.startswith("data/cache")}
    after = state(world.folder)
    # SQLite's readers announce themselves in two files, which go with the last of them.
    assert during <= {"data/history.sqlite-shm", "data/history.sqlite-wal"}
    for both in (before, after):
        both.pop("data")
    assert after == before

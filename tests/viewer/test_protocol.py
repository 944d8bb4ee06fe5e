"""What holds for every answer, whatever was asked: names, methods, headers, refusals, queues, the cache."""

import gzip
from collections.abc import Callable, Iterator
from hashlib import sha1
from pathlib import Path
from shutil import rmtree
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.viewer.asking import Client, of_area, serving
from tests.viewer.building import DAY_LAYER, FIRST, MAP, World, picture, square
from tileharvest.tiles.grid import TileRange
from tileharvest.viewer.server import admission

API = f"/api/v1/maps/{MAP}"
BODY = picture()
IMAGE = f"/tiles/{sha1(BODY).hexdigest()}.png"
VIEW = (f"{API}/view", of_area(TileRange(0, 1, 31, 1, 31), layer=DAY_LAYER, day=FIRST))
COMPOSED = (f"{API}/composed/-1_2_2/{FIRST}.png", {"layer": DAY_LAYER})

FINE: list[tuple[str, dict[str, Any] | None]] = [("/", None), (API, None), VIEW, COMPOSED, (IMAGE, None)]
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


def test_a_refusal_is_json_that_is_not_kept(client: Client) -> None:
    for path in ("/page/nothing", f"/tiles/{'0' * 40}.png", f"{API}/nothing", f"{API}/view"):
        reply = client.get(path)
        assert reply.error
        expect_security(reply.headers)
        kept = [reply.headers[name] for name in ("Content-Type", "Cache-Control", "ETag")]
        assert kept == ["application/json", "no-store", None]


@pytest.mark.parametrize(("path", "query"), FINE)
def test_who_knows_an_answer_gets_304_with_the_same_headers(
    client: Client, path: str, query: dict[str, Any]
) -> None:
    first = client.get(path, query)
    for known in (first.headers["ETag"], f"W/{first.headers['ETag']}", f'"x", {first.headers["ETag"]}'):
        again = client.get(path, query, if_none_match=known)
        assert (again.status, again.body) == (304, b"")
        expect_security(again.headers)
        for name in ("ETag", "Cache-Control", "Vary"):
            assert again.headers[name] == first.headers[name]


def test_head_has_the_headers_of_get_and_no_body(client: Client) -> None:
    for target in (f"{VIEW[0]}?{urlencode(VIEW[1])}", IMAGE, "/nothing"):
        get, head = client.ask("GET", target), client.ask("HEAD", target)
        assert (head.status, head.body) == (get.status, b"")
        without_date = [{**dict(reply.headers), "Date": ""} for reply in (get, head)]
        assert without_date[0] == without_date[1]


def test_other_methods_are_refused_wherever_they_go(client: Client) -> None:
    for method, path in (("POST", "/"), ("PROPFIND", IMAGE), ("DELETE", f"{API}/view"), ("PUT", "/nothing")):
        reply = client.ask(method, path, {"Content-Length": "0"})
        assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD")
        assert "only GET, HEAD" in reply.error
        expect_security(reply.headers)


def test_a_long_answer_is_compressed_for_who_takes_that(client: Client) -> None:
    plain, zipped = client.get(*VIEW), client.get(*VIEW, accept_encoding="deflate, GZIP;q=0.5, br")
    assert len(plain.body) > 2048
    assert plain.headers["Content-Encoding"] is None
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(zipped.body) == plain.body
    assert len(zipped.body) < len(plain.body) / 2
    assert zipped.headers["ETag"] == f"W/{plain.headers['ETag']}"
    assert plain.headers["Vary"] == zipped.headers["Vary"] == "Accept-Encoding"


def test_a_bug_is_not_shown_to_the_client(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tileharvest.viewer.api.outline", lambda *_: {}["secret"])
    with serving(world) as client:
        reply = client.get(API)
        assert client.get("/healthz").status == 200
    assert (reply.status, reply.error) == (500, "the viewer failed; its log says why")
    assert [record.exc_info is None for record in caplog.records] == [False]


LOCAL = ["127.0.0.1:8000", "127.8.9.1", "LocalHost:80", "localhost.", "[::1]:8000"]
NEVER = [
    *("rebound.example:8000", "127.0.0.1.rebound.example", "localhost.example", "[::1", "user@localhost"),
    *("notlocalhost", "localhost/", "localhost:80:80", "localhost:eighty", "2130706433", "127.1", ""),
]
ADDRESSES = ["192.168.1.5", "[2001:db8::5]:80"]
"""No name server can give an address another meaning."""
ALLOWED = ["Maps.Example.NET:443", "maps.example.net."]


@pytest.mark.parametrize(
    ("admits", "admitted"),
    [
        (admission("127.0.0.1"), LOCAL),
        (admission("0.0.0.0", ["maps.example.net"]), [*LOCAL, *ADDRESSES, *ALLOWED]),
    ],
    ids=["this computer", "everybody"],
)
def test_a_request_may_name_the_viewers_hosts_and_no_other(
    admits: Callable[[str], bool], admitted: list[str]
) -> None:
    asked = [*LOCAL, *ADDRESSES, *ALLOWED, *NEVER]
    assert [one for one in asked if admits(one)] == admitted


def test_a_name_that_is_not_the_viewers_is_misdirected(world: World) -> None:
    with serving(world, allowed=["maps.example.net"]) as client:
        for path in ("/healthz", "/api/v1/maps", "/page/main.js"):
            reply = client.ask("GET", path, {"Host": "rebound.example"})
            assert reply.status == 421
            assert reply.error.startswith("the viewer is not at 'rebound.example'")
        assert client.ask("GET", "/healthz", {"Host": "maps.example.net"}).json == {"ok": True}


def test_nothing_is_changed_but_for_the_cache(world: World) -> None:
    def state() -> dict[Path, tuple[bytes, int]]:
        files = [file for file in world.folder.rglob("*") if file.is_file()]
        return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}

    world.describe()
    world.harvest(FIRST, dict.fromkeys(square(0, 8), BODY))
    before = state()
    with serving(world) as client:
        for path, query in FINE:
            assert client.get(path, query).status == 200, path
    rmtree(world.data / "cache")
    assert state() == before

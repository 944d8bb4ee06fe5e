"""What holds for every answer, whatever was asked: methods, headers, refusals, nonsense."""

from __future__ import annotations

import gzip
from hashlib import sha1
from typing import TYPE_CHECKING, Any

import pytest

from tests.viewer.asking import Client, of_area, serving
from tests.viewer.building import DAY_LAYER, FIRST, MAP, World, picture, square
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        "'tiles' is no question about a map; there are: view, changes, heat, tiles/{tile}"
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


@pytest.mark.parametrize("accepted", ["", "identity", "br", "gzip;q=0", "gzip; q=0.00", "xgzip", "deflate"])
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

"""Tests of the test servers themselves: other tests are only as true as the servers they run against."""

from __future__ import annotations

import http.client
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.servers.misbehaving import Misbehaving
    from tests.servers.nginx import Nginx

IMAGE = bytes(range(256)) * 4
CHANGED_AT = 1_600_000_000


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


def ask(url: str, path: str = "/a.png", method: str = "GET", *, timeout: float = 10, **headers: str) -> Reply:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=timeout)
    try:
        connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        reply = connection.getresponse()
        return Reply(reply.status, dict(reply.getheaders()), reply.read())
    finally:
        connection.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    site.mkdir()
    (site / "a.png").write_bytes(IMAGE)
    os.utime(site / "a.png", (CHANGED_AT, CHANGED_AT))
    return site


@pytest.fixture
def site(misbehaving: Callable[[Path], Misbehaving], folder: Path) -> Misbehaving:
    return misbehaving(folder)


def test_nginx_logs_each_request_before_the_log_is_read(nginx: Callable[..., Nginx], folder: Path) -> None:
    server = nginx(folder)
    for number in range(20):
        ask(server.url, f"/a.png?c={number}", User_Agent="someone", If_None_Match='"x"')
    lines = list(server.log())
    assert [line.query for line in lines] == [f"c={number}" for number in range(20)]
    line = lines[0]
    assert (line.method, line.path, line.status, line.size) == ("GET", "/a.png", 200, len(IMAGE))
    assert (line.agent, line.if_none_match) == ("someone", '"x"')


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "conditions",
    [
        {},
        {"If_None_Match": '"5f5e1000-400"'},
        {"If_None_Match": 'W/"5f5e1000-400"'},
        {"If_None_Match": '"0-0", "5f5e1000-400"'},
        {"If_None_Match": '"0-0"'},
        {"If_None_Match": "*"},
        {"If_Modified_Since": "Sun, 13 Sep 2020 12:26:40 GMT"},
        {"If_Modified_Since": "Sun, 13 Sep 2026 12:26:40 GMT"},
        {"If_Modified_Since": "Sun, 13 Sep 2020 12:26:40 GMT", "If_None_Match": '"0-0"'},
    ],
)
def test_without_rules_it_answers_as_nginx(
    nginx: Callable[..., Nginx], site: Misbehaving, folder: Path, method: str, conditions: dict[str, str]
) -> None:
    proper, ours = (
        ask(url, "/a.png", method, timeout=240, **conditions) for url in (nginx(folder).url, site.url)
    )
    assert (ours.status, ours.body) == (proper.status, proper.body)
    names = ("ETag", "Last-Modified", *(("Content-Length", "Content-Type") if proper.status == 200 else ()))
    assert [ours.headers[name] for name in names] == [proper.headers[name] for name in names]

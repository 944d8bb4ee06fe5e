"""The demo's server against the rules of HTTP, values known from real servers, and a real nginx."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.servers.nginx import nginx
from tileharvest.demo.server import entity_tag, serve

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MODIFIED = 0x5D528B4C
BODY = b"x" * 0x264
ETAG = '"5d528b4c-264"'
"""What nginx 1.17.3 answers for the welcome page of its package: 612 bytes, of 13 August 2019."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("secret")
    site = tmp_path / "site"
    for name in ("overviewerConfig.js", "world-day/base.png", "world-day/0/3/1.png"):
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(BODY)
        os.utime(path, (MODIFIED, MODIFIED))
    return site


Answer = tuple[int, "Mapping[str, str]", bytes]
"""Status, headers, body; header names in any case, as HTTP has them."""


def ask(folder: Path, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
    async def talk() -> Answer:
        async with serve(folder) as site:
            return await asked(site + path, method, headers or {})

    return asyncio.run(talk())


async def asked(url: str, method: str, headers: Mapping[str, str]) -> Answer:
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers) as answer:
        return answer.status, answer.headers, await answer.read()


def ask_raw(folder: Path, target: bytes) -> bytes:
    """Everything that the server says to a target that a client library would have tidied up."""

    async def talk() -> bytes:
        async with serve(folder) as site:
            port = int(site.rstrip("/").rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

    return asyncio.run(talk())


def test_get_gives_the_file(folder: Path) -> None:
    status, headers, body = ask(folder, "world-day/0/3/1.png")
    assert (status, body) == (200, BODY)
    assert headers["Content-Type"] == "image/png"


def test_head_gives_the_same_headers_without_the_file(folder: Path) -> None:
    _, expected, _ = ask(folder, "world-day/base.png")
    status, headers, body = ask(folder, "world-day/base.png", "HEAD")
    assert (status, body) == (200, b"")
    assert headers["Content-Length"] == "612"
    assert headers.keys() == expected.keys()


def test_the_validators_are_nginxs(folder: Path) -> None:
    _, headers, _ = ask(folder, "world-day/base.png")
    assert headers["ETag"] == ETAG
    assert headers["Last-Modified"] == "Tue, 13 Aug 2019 10:05:00 GMT"


def test_the_etag_is_written_in_small_letters_without_zeros_in_front() -> None:
    assert entity_tag(0xABCDEF, 0x0A) == '"abcdef-a"'


@pytest.mark.parametrize("asked_for", [ETAG, f"W/{ETAG}", f'"other", {ETAG}', "*"])
def test_a_known_state_is_answered_with_304(folder: Path, asked_for: str) -> None:
    status, headers, body = ask(folder, "world-day/base.png", headers={"If-None-Match": asked_for})
    assert (status, headers["ETag"], body) == (304, ETAG, b"")


def test_another_state_is_answered_with_the_file(folder: Path) -> None:
    status, _, body = ask(folder, "world-day/base.png", headers={"If-None-Match": '"5d528b4c-265"'})
    assert (status, body) == (200, BODY)


def test_a_cache_tag_makes_no_difference(folder: Path) -> None:
    assert ask(folder, "world-day/base.png?c=1563139367")[0] == 200


@pytest.mark.parametrize("path", ["", "world-day", "world-day/", "world-day/9.png", "world-day/base.png/"])
def test_whatever_is_no_file_is_answered_with_404(folder: Path, path: str) -> None:
    assert ask(folder, path)[0] == 404


def test_writing_is_refused(folder: Path) -> None:
    assert ask(folder, "world-day/base.png", "PUT")[0] == 405


@pytest.mark.parametrize(
    "target",
    [
        b"/../secret.txt",
        b"/world-day/../../secret.txt",
        b"/%2e%2e/secret.txt",
        b"/..%2fsecret.txt",
        b"/%2e%2e%2fsecret.txt",
        b"/world-day/%2e%2e/%2e%2e/secret.txt",
        b"/..%5csecret.txt",
        b"//etc/passwd",
        b"/%2fetc/passwd",
        b"/etc/passwd",
        b"/..",
        b"/%00",
        b"/world-day/base.png%00.txt",
        b"/" + b"a" * 5000,
        b"/%ff%fe",
        b"/link.txt",
    ],
)
def test_no_path_leads_out_of_the_folder(folder: Path, target: bytes) -> None:
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    answer = ask_raw(folder, target)
    assert answer.split()[1] in (b"404", b"400")
    assert b"secret" not in answer.partition(b"\r\n\r\n")[2]


def test_a_file_that_changes_is_answered_as_it_is_now(folder: Path) -> None:
    async def talk() -> tuple[Answer, Answer]:
        async with serve(folder) as site:
            before = await asked(f"{site}world-day/base.png", "HEAD", {})
            (folder / "world-day/base.png").write_bytes(b"new")
            os.utime(folder / "world-day/base.png", (MODIFIED + 1, MODIFIED + 1))
            return before, await asked(f"{site}world-day/base.png", "GET", {})

    before, after = asyncio.run(talk())
    assert before[1]["ETag"] == ETAG
    assert (after[1]["ETag"], after[2]) == ('"5d528b4d-3"', b"new")


def test_two_sites_run_side_by_side(folder: Path) -> None:
    async def talk() -> tuple[str, str]:
        async with serve(folder) as one, serve(folder) as other:
            return one, other

    one, other = asyncio.run(talk())
    assert one != other


@pytest.mark.skipif(shutil.which("nginx", path="/usr/sbin:/usr/bin") is None, reason="nginx is not installed")
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [{}, {"If-None-Match": ETAG}, {"If-None-Match": '"other"'}])
@pytest.mark.parametrize("path", ["world-day/0/3/1.png", "overviewerConfig.js", "world-day/3.png"])
def test_a_real_nginx_answers_the_same(folder: Path, path: str, headers: dict[str, str], method: str) -> None:
    compared = ("ETag", "Last-Modified", "Content-Type", "Content-Length")
    with nginx(folder) as server:
        status, theirs, body = asyncio.run(asked(f"{server.url}/{path}", method, headers))
    our_status, ours, our_body = ask(folder, path, method, headers)
    assert our_status == status
    if status != 404:
        assert our_body == body
        assert {name: ours.get(name) for name in compared} == {name: theirs.get(name) for name in compared}

"""The download handler, over real connections: what it promises of any answer."""

import asyncio
import gc
import socket
import ssl
import struct
import subprocess
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from scrapy import Request, Spider
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
)
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from tileharvest.politeness.rules import Rules
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.spiders.blocks import ATTEMPT
from tileharvest.spiders.download import TileDownloadHandler
from tileharvest.spiders.transfer import Reply

_PLAIN: Final = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: 4\r\n\r\n'
_SECOND: Final = b'HTTP/1.1 200 OK\r\nETag: "second"\r\nContent-Length: 0\r\n\r\n'
_BEHIND_PROXY: Final = "http://nowhere.invalid/moved"
_MOVED: Final = b"HTTP/1.1 302 Found\r\nLocation: /plain\r\nContent-Length: 0\r\n\r\n"

_EARLY: Final = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"

ANSWERS: Final = {
    "/plain": _PLAIN,
    "/empty": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "/early": b"HTTP/1.1 103 Early Hints\r\nETag: early\r\n\r\n" + _PLAIN,
    "/body": _PLAIN + b"body",
    "/two": _SECOND + _PLAIN,
    "/moved": _MOVED,
    _BEHIND_PROXY: _MOVED,
    "/cookie": b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\n\r\n",
    "/large": b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000,
    "/endless-body": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"400\r\n%b\r\n" % (b"x" * 1024) * 8,
    "/endless": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"400\r\n" * 4,
    "/colon": b"HTTP/1.1 103 Hints: early\r\nETag: early\r\n\r\n"
    b"HTTP/1.1 200 OK: fine\r\nContent-Length: 4\r\n\r\nbody",
    "/trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: ETag\r\n\r\n"
    b'4\r\nbody\r\n0\r\nETag: "late"\r\n\r\n',
    "/bytes": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % (b"1\r\nx\r\n" * 300_000),
    "/hints": _EARLY * 20 + _PLAIN,
    "/endless-hints": _EARLY * 5_000 + _PLAIN,
    "/endless-head": b"HTTP/1.1 200 OK\r\n" + b"A: %b\r\n" % (b"x" * 1000) * 310,
    "/silent": b"",
    "/no-http": b"hello\r\n\r\n",
}
"""The site's answers by path, whatever the method. It keeps the connection open after each."""
_CUT: Final = "/cut"
"""The site closes the connection in the middle of this answer."""
_RESET: Final = "/reset/"
"""The site resets the connection behind as many bytes of the plain answer as the path says."""
_CUT_LARGE: Final = "/cut-large"
"""The site closes the connection in the middle of this answer, after a megabyte."""


class Site:
    """What a site was asked, and over how many connections."""

    def __init__(self) -> None:
        self.url = ""
        self.heads: list[str] = []
        self.connections = 0
        self.open: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.open.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self.heads.append(head)
                path = head.split(" ")[1]
                if path == _CUT_LARGE:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 1_000_000)
                    await writer.drain()
                    return
                if path.startswith(_RESET):
                    writer.write((_PLAIN + b"body")[: int(path.removeprefix(_RESET))])
                    connection = writer.get_extra_info("socket")
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                if path == _CUT:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut")
                    return
                writer.write(ANSWERS[path])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()
            self.open.discard(task)


class Asking:
    """A handler, and the site that it asks."""

    def __init__(self, handler: TileDownloadHandler, site: Site) -> None:
        self.handler = handler
        self.site = site

    async def ask(self, path: str, method: str = "HEAD", **meta: Any) -> Response:
        url = path if "://" in path else self.site.url + path
        meta = {"dont_redirect": True, **meta}
        return await self.handler.download_request(Request(url, method=method, meta=meta))


@asynccontextmanager
async def asking(
    host: str = "127.0.0.1", tls: ssl.SSLContext | None = None, own: str | None = None, **settings: Any
) -> AsyncIterator[Asking]:
    """`own` is the map's own host."""
    crawler = get_crawler(Spider, {"DOWNLOAD_TIMEOUT": 10, **settings})
    crawl_of(crawler).rules = None if own is None else Rules(own, 4)
    handler = TileDownloadHandler(crawler)
    site = Site()
    server = await asyncio.start_server(site.serve, host, 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    named = f"[{host}]" if ":" in host else host
    site.url = f"{'http' if tls is None else 'https'}://{named}:{port}"
    try:
        yield Asking(handler, site)
    finally:
        await handler.close()
        server.close()
        if site.open:
            await asyncio.wait(site.open, timeout=10)
        await server.wait_closed()


async def test_one_connection_serves_one_request_after_the_other_without_cookies() -> None:
    async with asking() as crawl:
        for path in ("/plain", "/cookie", "/empty", "/plain"):
            assert (await crawl.ask(path, "GET" if path == "/empty" else "HEAD")).status == 200
        assert crawl.site.connections == 1
        assert "Cookie" not in crawl.site.heads[-1]
        # Nothing that no middleware has set.
        names = {line.split(":")[0] for line in crawl.site.heads[-1].splitlines()[1:] if line}
        assert names == {"Host"}


async def test_a_request_whose_caller_is_cancelled_leaves_its_handle_to_the_next() -> None:
    async with asking() as crawl:
        silent = asyncio.ensure_future(crawl.ask("/silent"))
        while not crawl.site.heads:  # noqa: ASYNC110 - nobody but the site knows when it was asked
            await asyncio.sleep(0)
        silent.cancel()
        with pytest.raises(asyncio.CancelledError):
            await silent
        assert (await crawl.ask("/moved")).status == 302
        assert len(crawl.handler._idle["HEAD"]) == 1


@pytest.mark.parametrize("path", ["/body", "/two", "/early"])
async def test_an_answer_out_of_shape_is_never_taken_for_the_next_one(path: str) -> None:
    async with asking() as crawl:
        first = await crawl.ask(path)
        after = await crawl.ask("/moved")
        assert first.headers["ETag"] == (b'"second"' if path == "/two" else b'"1"')
        assert (after.status, after.headers["Location"]) == (302, b"/plain")


@pytest.mark.parametrize(
    ("path", "method", "raised", "said"),
    [
        (_CUT, "GET", ResponseDataLossError, ""),
        ("/no-http", "HEAD", DownloadFailedError, ""),
        ("/large", "GET", DownloadCancelledError, "the answer has more than 4,000 bytes"),
        ("/endless-body", "GET", DownloadCancelledError, "the answer has more than 4,000 bytes"),
        ("/endless", "GET", DownloadTimeoutError, "less than 1,000 bytes a second for 1 s"),
        ("/silent", "HEAD", DownloadTimeoutError, "less than 1,000 bytes a second for 1 s"),
        ("/endless-hints", "HEAD", DownloadFailedError, "Too many response headers, 5000 is max"),
        ("/endless-head", "GET", DownloadFailedError, "Too large response headers"),
        ("http://nowhere.invalid/", "HEAD", CannotResolveHostError, ""),
        ("http://127.0.0.1:1/", "HEAD", DownloadConnectionRefusedError, ""),
    ],
)
async def test_what_is_no_answer_is_one_of_scrapys_errors_with_the_same_words_for_all_tiles_and_asked_once(
    path: str, method: str, raised: type[Exception], said: str
) -> None:
    async with asking(DOWNLOAD_LOW_SPEED_TIME=1 if raised is DownloadTimeoutError else 240) as crawl:
        # On a connection that was used before libcurl would ask again by itself.
        await crawl.ask("/moved")
        with pytest.raises(raised) as caught:
            await crawl.ask(path, method, download_timeout=240, download_maxsize=4000)
        assert said in ("", str(caught.value))
        assert len(crawl.site.heads) == (1 if "://" in path else 2)
        # The handler is none the worse for it.
        assert (await crawl.ask("/hints")).headers["ETag"] == b'"1"'


@pytest.mark.parametrize("path", ["/colon", "/trailer"])
async def test_only_the_last_head_tells_of_an_answer(path: str) -> None:
    async with asking() as crawl:
        answer = await crawl.ask(path, "GET")
        assert (answer.status, answer.body, answer.headers.get("ETag")) == (200, b"body", None)
    redirect = Reply(302, b"HTTP/1.1 302 Found\r\nLocation: /a\r\n\r\nLocation: /b\r\n\r\n", b"body")
    assert redirect.location == "/a"


@pytest.mark.parametrize(("method", "whole"), [("HEAD", _PLAIN), ("GET", _PLAIN + b"body")])
async def test_an_answer_that_is_reset_at_whichever_byte_is_no_answer_until_it_is_whole(
    method: str, whole: bytes
) -> None:
    async with asking() as crawl:
        for sent in range(len(whole)):
            with pytest.raises((DownloadFailedError, ResponseDataLossError)):
                await crawl.ask(f"{_RESET}{sent}", method)
        answer = await crawl.ask("/body", method)
        assert (answer.status, answer.body) == (200, b"body" if method == "GET" else b"")


def test_nothing_is_kept_of_what_was_received_and_a_body_in_pieces_takes_the_memory_of_its_bytes() -> None:
    """Python's collector of cycles looks too seldom for bodies."""

    async def test() -> None:
        async with asking() as crawl:
            for _ in range(2):
                with pytest.raises(ResponseDataLossError):
                    await crawl.ask(_CUT_LARGE, "GET")
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(8):
                with pytest.raises(ResponseDataLossError):
                    await crawl.ask(_CUT_LARGE, "GET")
            assert tracemalloc.get_traced_memory()[0] - before < 1_000_000
            tracemalloc.reset_peak()
            assert len((await crawl.ask("/bytes", "GET")).body) == 300_000
            assert tracemalloc.get_traced_memory()[1] - before < 5 * 300_000

    gc.disable()
    tracemalloc.start()
    try:
        asyncio.run(test())
    finally:
        tracemalloc.stop()
        gc.enable()


async def test_the_answer_that_is_waited_for_longest_is_known_and_when_it_is_given_up() -> None:
    async with asking(DOWNLOAD_TIMEOUT=180) as crawl:
        (oldest,) = crawl.handler._crawl.oldest_requests
        assert oldest() is None
        began, silent = time.time(), asyncio.ensure_future(crawl.ask("/silent"))
        # Nobody but the site knows when it was asked.
        while not crawl.site.heads:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await crawl.ask("/moved")
        wait = oldest()
        assert wait is not None
        assert wait.what == f"{crawl.site.url}/silent to answer"
        # The time for its connection comes first.
        assert began + 29 <= wait.until <= time.time() + 31
        silent.cancel()
        slow = asyncio.ensure_future(crawl.ask("/endless", "GET"))
        # Nor does anybody tell when its first bytes have come.
        while (wait := oldest()) is None or not began + 179 < wait.until < time.time() + 181:  # noqa: ASYNC110
            await asyncio.sleep(0)
        slow.cancel()


async def test_a_request_with_a_body_leaves_nothing_to_the_next_one() -> None:
    async with asking() as crawl:
        with_body = Request(crawl.site.url + "/moved", body=b"body", meta={"dont_redirect": True})
        await crawl.handler.download_request(with_body)
        await crawl.ask("/moved", "GET")
        # What it sent stands before the next request, which the site takes for one text.
        assert crawl.site.heads[0].startswith("GET /moved ")
        assert crawl.site.heads[-1].startswith("bodyGET /moved ")
        assert "Content-Length" not in crawl.site.heads[-1]


async def test_no_request_is_sent_into_a_network_in_which_the_maps_own_host_is_not() -> None:
    async with asking(own="127.0.0.1") as near, asking(own="93.184.215.14") as crawl:
        with pytest.raises(IgnoreRequest, match="this computer's own"):
            await crawl.ask("/plain")
        # Nor over a connection that another crawl has kept open.
        assert (await near.ask("/plain")).status == 200
        with pytest.raises(IgnoreRequest, match="this computer's own"):
            await crawl.ask(f"{near.site.url}/plain")
        assert len(near.site.heads) == 1
        # The address of a proxy does not give away that of the site.
        assert (await crawl.ask(_BEHIND_PROXY, proxy=crawl.site.url)).status == 302
        assert crawl.site.connections == 1
        await near.handler.close()
    async with asking(own="no..name") as crawl:
        with pytest.raises(IgnoreRequest, match="this computer's own"):
            await crawl.ask("/plain")
        # A name that could not be resolved is looked up again.
        crawl.handler._crawl.rules = Rules("127.0.0.1", 4)
        assert (await crawl.ask("/plain")).status == 200


async def test_what_fails_over_http_2_is_asked_again_over_http_1_1(tmp_path: Path) -> None:
    """The site's TLS agrees on HTTP/2, which it does not speak."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(made_certificate(tmp_path))
    tls.set_alpn_protocols(["h2", "http/1.1"])
    async with asking(tls=tls, DOWNLOAD_VERIFY_CERTIFICATES=False) as crawl:
        with pytest.raises((DownloadFailedError, DownloadTimeoutError, ResponseDataLossError)):
            await crawl.ask("/moved", download_timeout=1)
        assert (await crawl.ask("/moved", **{ATTEMPT: 1})).status == 302


async def test_a_proxy_is_asked_in_place_of_the_host() -> None:
    async with asking(own="nowhere.invalid") as crawl:
        answer = await crawl.ask(_BEHIND_PROXY, proxy=crawl.site.url)
        # The host was not looked up.
        assert (answer.status, crawl.handler._own) == (302, None)
        assert crawl.site.heads[0].startswith(f"HEAD {_BEHIND_PROXY} HTTP/1.1\r\nHost: nowhere.invalid")


def test_a_certificate_is_checked_unless_a_setting_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = made_certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)

    async def test(**settings: Any) -> int:
        async with asking(tls=tls, **settings) as crawl:
            return (await crawl.ask("/moved")).status

    with pytest.raises(DownloadConnectionRefusedError, match="certificate"):
        asyncio.run(test(DOWNLOAD_VERIFY_CERTIFICATES=True))
    assert asyncio.run(test(DOWNLOAD_VERIFY_CERTIFICATES=False)) == 302
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert asyncio.run(test(DOWNLOAD_VERIFY_CERTIFICATES=True)) == 302
    with pytest.raises(ValueError, match="TLSv9"):
        asyncio.run(test(DOWNLOAD_TLS_MIN_VERSION="TLSv9"))


def made_certificate(folder: Path) -> Path:
    """Writes a certificate for 127.0.0.1 with its key, signed by nobody else."""
    file = folder / "certificate.pem"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    names = ("-subj", "/CN=map", "-addext", "subjectAltName=IP:127.0.0.1")
    words = ["openssl", "req", "-x509", *curve, *names, "-keyout", str(file), "-out", str(file)]
    subprocess.run(words, check=True, capture_output=True)
    return file

"""The download handler of tiles: libcurl's connections, as Scrapy asks for them."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from math import ceil
from secrets import choice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn
from urllib.parse import urlsplit

import pycurl
from scrapy import Request
from scrapy.core.downloader.handlers._base_http import BaseHttpDownloadHandler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)
from scrapy.http import Headers, Response
from scrapy.utils._download_handlers import make_response, normalize_bind_address
from scrapy.utils.url import add_http_if_no_scheme

from tileharvest.maps.settings import setting
from tileharvest.politeness.neighbours import refused_network
from tileharvest.politeness.reasons import HeldBackError, Reason
from tileharvest.politeness.waits import Wait
from tileharvest.queue.requests import NEAR, is_offered, state_of
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.spiders.connections import connections

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

_TOLD: Final = {b"etag", b"last-modified", b"content-length", b"retry-after", b"location"}
"""The headers of an answer to HEAD that anything here reads: middlewares, verdict and redirects."""

_FAILURES: Final[Mapping[int, type[Exception]]] = {
    pycurl.E_URL_MALFORMAT: UnsupportedURLSchemeError,
    pycurl.E_COULDNT_RESOLVE_PROXY: DownloadConnectionRefusedError,
    pycurl.E_COULDNT_RESOLVE_HOST: CannotResolveHostError,
    pycurl.E_COULDNT_CONNECT: DownloadConnectionRefusedError,
    pycurl.E_SSL_CONNECT_ERROR: DownloadConnectionRefusedError,
    pycurl.E_PEER_FAILED_VERIFICATION: DownloadConnectionRefusedError,
    pycurl.E_PARTIAL_FILE: ResponseDataLossError,
}
"""What Scrapy raises for an error of libcurl's. All others are a DownloadFailedError."""

MOST_INTERIM: Final = 20
"""Answers that a server may send before its answer (status 1xx). The usual number is none, or one."""
MOST_HEAD: Final = 64 * 1024
"""Bytes of all headers that come with an answer. Web servers send 1 kB, and take 8 kB themselves."""

_TOOK: Final = re.compile(r" after \d+ ms")
"""How long it took says nothing, and would make two failures of one kind look different."""

_HTTP_1_1: Final[int] = pycurl.CURL_HTTP_VERSION_1_1
_HTTP_2: Final[int] = pycurl.CURL_HTTP_VERSION_2TLS
"""Where TLS agrees on it; else HTTP/1.1."""

_QUICK_EXIT: Final = 322
"""CURLOPT_QUICK_EXIT, for which PycURL has no name: whoever gives up a transfer waits for no name server."""

_GO_ON: Final[int] = pycurl.PREREQFUNC_OK
_ABORT: Final[int] = pycurl.PREREQFUNC_ABORT

_TLS: Final[Mapping[str, tuple[int, int]]] = {
    "TLSv1.0": (pycurl.SSLVERSION_TLSv1_0, pycurl.SSLVERSION_MAX_TLSv1_0),
    "TLSv1.1": (pycurl.SSLVERSION_TLSv1_1, pycurl.SSLVERSION_MAX_TLSv1_1),
    "TLSv1.2": (pycurl.SSLVERSION_TLSv1_2, pycurl.SSLVERSION_MAX_TLSv1_2),
    "TLSv1.3": (pycurl.SSLVERSION_TLSv1_3, pycurl.SSLVERSION_MAX_TLSv1_3),
}
"""As the least version, and as the highest one."""


class Reply(NamedTuple):
    """What a site has answered."""

    status: int
    headers: list[tuple[bytes, bytes]]
    """By their names in lower case. The reply to a HEAD has only those that are read."""
    body: bytes = b""

    def response(self, method: str, url: str) -> Response:
        """Returns the reply as Scrapy has it. Scrapy's engine adds the request."""
        if method == "HEAD":
            return Response(url, status=self.status, headers=self.headers)
        return make_response(url=url, status=self.status, headers=Headers(self.headers), body=self.body)


class TileDownloadHandler(BaseHttpDownloadHandler):
    """Asks with libcurl, at a third of what aiohttp takes: `docs/decisions/026` has the figures.

    Most requests of a harvest are HEADs, and all have the same headers. So the headers of the settings
    (`USER_AGENT`, `DEFAULT_REQUEST_HEADERS`) are made once, instead of per request by two middlewares. Of an
    answer to HEAD only the headers that are read are kept. Where the setting `USER_AGENTS` lists several,
    each request that our scheduler offers takes any of them; requests that find out about a site or a host
    have the one of `USER_AGENT`.

    As with Scrapy's own handlers: `download_timeout` is for the whole answer; one that is larger than
    `download_maxsize` is given up; certificates are checked as the settings say; `meta["proxy"]` names a
    proxy. It follows no redirect and keeps no cookie. A part of an answer is no answer. Scrapy's signals for
    parts of one are not sent. An answer is also given up that for `DOWNLOAD_LOW_SPEED_TIME` seconds brings
    less than `DOWNLOAD_LOW_SPEED_LIMIT` bytes a second, or that has more headers, or more interim answers
    before it, than any server has a use for.

    Raises HeldBackError for an offered request while requests are held back, unless that is only
    because a budget is spent.
    """

    lazy = True
    """Made for the first request: it needs a running event loop, which the shell has only then."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._crawl = crawl_of(crawler)
        self._loop = asyncio.get_running_loop()
        self._connections = connections()
        self._connections.join(self._crawl)
        settings = crawler.settings
        constant = settings.getdict("DEFAULT_REQUEST_HEADERS")
        self._constant = Headers(_given({**constant, "User-Agent": settings["USER_AGENT"]}))
        agents = settings.getlist("USER_AGENTS", setting(settings, "USER_AGENTS"))
        self._agents: list[str] = agents if len(agents) > 1 else []
        self._lines = _lines(self._constant)
        agents_in_turn = [{**self._constant, "User-Agent": agent} for agent in self._agents]
        self._lines_of_agents = [_lines(Headers(headers)) for headers in agents_in_turn]
        self._timeout = settings.getfloat("DOWNLOAD_TIMEOUT")
        self._least = int(setting(settings, "DOWNLOAD_LOW_SPEED_LIMIT"))
        silence = int(setting(settings, "DOWNLOAD_LOW_SPEED_TIME"))
        # libcurl's own bound for a connection, which 0 would be, is 300 s.
        self._silence = silence or ceil(self._timeout)
        self._options = [
            (pycurl.LOW_SPEED_LIMIT, self._least),
            (pycurl.LOW_SPEED_TIME, silence),
            (pycurl.CONNECTTIMEOUT, self._silence),
            *_options(settings),
        ]
        self._free: dict[str, list[_Transfer]] = {"HEAD": [], "GET": []}
        self._under_way: dict[_Transfer, float] = {}
        """When each began, by the clock of the event loop; the oldest first."""
        self._crawl.oldest_requests.append(self._oldest)

    async def download_request(self, request: Request) -> Response:
        # Between the scheduler and here lies Scrapy's own delay, of AutoThrottle for one.
        if self._is_held_back and is_offered(request):
            raise HeldBackError
        request.meta.setdefault("download_timeout", self._timeout)
        # A body makes a POST of whatever request the handle makes.
        free = None if request.body else self._free.get(request.method)
        transfer = free.pop() if free else _Transfer(request.method, self._options)
        transfer.prepare(request, self._lines_for(request), self._default_maxsize)
        try:
            try:
                reply = await self._replied(transfer, request.method, is_offered=is_offered(request))
            except pycurl.error as error:
                self._raise(error, transfer, request)
            request.meta["download_latency"] = transfer.curl.getinfo(pycurl.STARTTRANSFER_TIME)
        finally:
            # Also of a failure: a handle and what it has received know each other, and Python's collector of
            # such cycles looks seldom.
            transfer.clear()
            if free is None:
                transfer.curl.close()
            else:
                free.append(transfer)
        return reply.response(request.method, request.url)

    async def ask(self, method: str, url: str) -> Reply:
        """Asks an address by HEAD or GET, as `download_request` does for an offered request that has nothing
        of its own, and raises what that raises. Whether requests are held back is looked at only if it had
        to wait for a connection."""
        free = self._free[method]
        transfer = free.pop() if free else _Transfer(method, self._options)
        lines = choice(self._lines_of_agents) if self._agents else self._lines
        maxsize = 0 if method == "HEAD" else self._default_maxsize
        transfer.prepare_plain(url, lines, self._timeout, maxsize)
        try:
            return await self._replied(transfer, method, is_offered=True)
        except pycurl.error as error:
            self._raise(error, transfer, Request(url, meta={"download_timeout": self._timeout}))
        finally:
            transfer.clear()
            free.append(transfer)

    async def _replied(self, transfer: _Transfer, method: str, *, is_offered: bool) -> Reply:
        """Returns what the site replies to a prepared transfer, for which this waits until there is a
        connection. Raises pycurl.error, and HeldBackError as `_wait_for_place`."""
        if not self._connections.take(self._crawl):
            await self._wait_for_place(is_offered=is_offered)
        self._under_way[transfer] = self._loop.time()
        try:
            await self._connections.transfer(transfer.curl)
        finally:
            del self._under_way[transfer]
            self._connections.leave(self._crawl)
        status, by_head = transfer.curl.getinfo(pycurl.RESPONSE_CODE), method == "HEAD"
        return Reply(status, _headers(transfer.head, by_head=by_head), b"".join(transfer.body))

    async def close(self) -> None:
        if self._oldest in self._crawl.oldest_requests:
            self._crawl.oldest_requests.remove(self._oldest)
            if not self._crawl.oldest_requests:
                self._connections.part(self._crawl)
            self._connections.close()

    @property
    def _is_held_back(self) -> bool:
        """Whether a request that was offered must not start any more. What was offered before the budget was
        spent is a part of that."""
        politeness = self._crawl.politeness
        return politeness is not None and bool(politeness.reasons) and politeness.reasons != {Reason.SPENT}

    async def _wait_for_place(self, *, is_offered: bool) -> None:
        """Returns when a request may have a connection. Raises HeldBackError where an offered one must not
        start any more by then."""
        politeness = self._crawl.politeness
        if politeness is None:
            await self._connections.wait(self._crawl)
            return
        with politeness.delayed():
            await self._connections.wait(self._crawl)
        if is_offered and (self._is_held_back or politeness.is_over):
            self._connections.leave(self._crawl)
            raise HeldBackError

    def _oldest(self) -> Wait | None:
        """Returns which answer has been waited for longest, and when it is given up."""
        if not self._under_way:
            return None
        transfer, since = next(iter(self._under_way.items()))
        curl = transfer.curl
        is_silent = self._least and not curl.getinfo(pycurl.HEADER_SIZE)
        # Its silence begins when the connection is made.
        silence = self._silence + curl.getinfo(pycurl.PRETRANSFER_TIME)
        patience = min(silence, self._timeout) if is_silent else self._timeout
        return Wait(f"{curl.getinfo(pycurl.EFFECTIVE_URL)} to answer", since, since + patience)

    def _lines_for(self, request: Request) -> list[bytes]:
        """Returns the lines of the headers that the request is sent with."""
        if not request._headers and not (self._agents and is_offered(request)):
            return self._lines
        headers = self._constant.copy()
        if self._agents and is_offered(request):
            headers["User-Agent"] = choice(self._agents)
        headers.update(request.headers)
        headers.pop("Proxy-Authorization", None)
        return _lines(headers)

    def _too_slow(self, words: str, request: Request) -> str:
        """Says which bound a transfer has passed. It names no address: the same words for many tiles are one
        reason."""
        if "too slow" in words:
            return f"less than {self._least:,} bytes a second for {self._silence} s"
        seconds = request.meta["download_timeout"]
        # Not by the time before the transfer, which libcurl sets in this case, too.
        if not words.startswith("Operation timed out"):
            return f"no connection within {min(seconds, self._silence):g} s"
        return f"no whole answer within {seconds:g} s"

    def _raise(self, error: pycurl.error, transfer: _Transfer, request: Request) -> NoReturn:
        curl = transfer.curl
        # PycURL's own errors have no number.
        number, words = error.args if len(error.args) == 2 else (0, str(error))
        if number == pycurl.E_OPERATION_TIMEDOUT:
            raise DownloadTimeoutError(self._too_slow(words, request)) from None
        if transfer.broken is not None:
            raise DownloadFailedError(transfer.broken) from None
        if number == pycurl.E_FILESIZE_EXCEEDED:
            limit = _limit(request, self._default_maxsize)
            raise DownloadCancelledError(f"the answer has more than {limit:,} bytes") from error
        if transfer.refused is not None:
            state_of(request).was_sent = False
            raise IgnoreRequest(
                f"{urlsplit(request.url).hostname} was not asked: its address is of a network that is"
                f" {transfer.refused}, and the map's own host is not in it"
            )
        if number == pycurl.E_ABORTED_BY_CALLBACK:
            words = "the connection was closed without an answer"
        code = curl.getinfo(pycurl.OS_ERRNO) if number == pycurl.E_COULDNT_CONNECT else 0
        cause = OSError(code, os.strerror(code)) if code else error
        raise _FAILURES.get(number, DownloadFailedError)(_TOOK.sub("", words)) from cause


class _Transfer:
    """One of libcurl's handles, with what it has received. It makes one request after the other."""

    def __init__(self, method: str, options: Iterable[tuple[int, Any]]) -> None:
        self.head: list[bytes] = []
        """The lines of all heads: those of a proxy, and of interim answers, come before the last one."""
        self.body: list[bytes] = []
        self.refused: str | None = None
        """The kind of network into which the request was not sent."""
        self.broken: str | None = None
        """Why the answer was given up while its headers came."""
        self._room = self._heads = 0
        """The bytes of headers, and the heads, that may still come."""
        self._own: list[str] | None = None
        self._set: dict[int, Any] = {}
        """The options that the last request was made with."""
        self.curl = curl = pycurl.Curl()
        for option, value in options:
            curl.setopt(option, value)
        if method == "HEAD":
            curl.setopt(pycurl.NOBODY, 1)
        elif method != "GET":
            curl.setopt(pycurl.CUSTOMREQUEST, method)
        curl.setopt(pycurl.HEADERFUNCTION, self._hears)
        curl.setopt(pycurl.WRITEFUNCTION, self.body.append)
        curl.setopt(pycurl.PREREQFUNCTION, self._begins)
        self._is_sent = False

    def prepare_plain(
        self,
        url: str,
        lines: list[bytes],
        timeout: float,
        maxsize: int,
        version: int = _HTTP_2,
        proxy: str | None = None,
        own: list[str] | None = None,
    ) -> None:
        """Makes the handle ready to ask an address with these headers."""
        self.refused, self.broken, self._own, self._is_sent = None, None, own, False
        # The answer has a head, and a proxy may have one before it.
        self._room, self._heads = MOST_HEAD, MOST_INTERIM + (2 if proxy else 1)
        curl, was_set = self.curl, self._set
        curl.setopt(pycurl.URL, url)
        # To set an option takes as long as much else that is done for a tile, and most stay as they are. An
        # empty proxy also keeps libcurl from looking for one itself.
        if was_set.get(pycurl.HTTPHEADER) is not lines:
            curl.setopt(pycurl.HTTPHEADER, lines)
            was_set[pycurl.HTTPHEADER] = lines
        others = (
            (pycurl.HTTP_VERSION, version),
            (pycurl.TIMEOUT_MS, int(timeout * 1000)),
            (pycurl.PROXY, proxy or ""),
            (pycurl.MAXFILESIZE_LARGE, maxsize),
        )
        for option, value in others:
            if was_set.get(option) != value:
                curl.setopt(option, value)
                was_set[option] = value

    def prepare(self, request: Request, lines: list[bytes], maxsize: int) -> None:
        """Makes the handle ready to make a request with these headers."""
        curl, meta = self.curl, request.meta
        proxy = meta.get("proxy")
        self.prepare_plain(
            request.url,
            lines,
            meta["download_timeout"],
            # Of an answer to HEAD no body is taken, so that its Content-Length is no size.
            0 if request.method == "HEAD" else _limit(request, maxsize),
            # What HTTP/2 has failed with may need HTTP/1.1. That libcurl would find out by sending it again.
            _HTTP_1_1 if "retry_times" in meta else _HTTP_2,
            add_http_if_no_scheme(proxy) if proxy else None,
            # The address of a proxy says nothing of where it asks.
            None if proxy else meta.get(NEAR),
        )
        if proxy:
            leave = request.headers.get("Proxy-Authorization")
            curl.setopt(pycurl.PROXYHEADER, [b"Proxy-Authorization: " + leave] if leave else [])
        if request.body:
            curl.setopt(pycurl.POSTFIELDS, request.body)
            curl.setopt(pycurl.CUSTOMREQUEST, request.method)

    def clear(self) -> None:
        """Let go of what was received."""
        self.head.clear()
        self.body.clear()

    def _hears(self, line: bytes) -> int | None:
        """Keeps a line of a head. libcurl gives up where another number than that of its bytes is returned,
        and takes None for it."""
        self.head.append(line)
        self._room -= len(line)
        if line.startswith(b"HTTP/"):
            self._heads -= 1
        if self._room >= 0 and self._heads >= 0:
            return None
        what = "64 kB of headers" if self._room < 0 else f"{MOST_INTERIM} answers before the answer"
        self.broken = f"the server sent more than {what}"
        return 0

    def _begins(self, address: str, *_others: object) -> int:
        """Lets libcurl send the request once. It would repeat at once what breaks on a connection kept open:
        uncounted, without a pause, and on top of our own attempts. A request that was redirected is not sent
        to an address that it must not be sent to, whatever its host's name meant when that was looked up."""
        if self._own is not None:
            self.refused = refused_network([address], self._own)
            if self.refused is not None:
                return _ABORT
        was_sent, self._is_sent = self._is_sent, True
        return _ABORT if was_sent else _GO_ON


def _limit(request: Request, maxsize: int) -> int:
    limit: int = request.meta.get("download_maxsize", maxsize)
    return limit


def _headers(lines: list[bytes], *, by_head: bool) -> list[tuple[bytes, bytes]]:
    """Returns the headers of the last head, named in lower case; of one that answers HEAD only those that are
    read. What follows the parts of a body is no header."""
    found: list[tuple[bytes, bytes]] = []
    is_within = False
    for line in lines:
        if not is_within:
            if line.startswith(b"HTTP/"):
                is_within = True
                found.clear()
            continue
        name, colon, value = line.partition(b":")
        if colon:
            name = name.lower()
            if not by_head or name in _TOLD:
                found.append((name, value.strip()))
        elif not line.strip():
            is_within = False
    return found


def _given(headers: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if value}


def _lines(headers: Headers) -> list[bytes]:
    """Returns headers as libcurl takes them. It would add an Accept, and leave out what has no value."""
    lines = [
        name + (b": " + value if value else b";") for name, values in headers.items() for value in values
    ]
    return lines if b"Accept" in headers else [*lines, b"Accept:"]


def _options(settings: BaseSettings) -> list[tuple[int, Any]]:
    """Returns what all requests have in common. Raises ValueError for a version of TLS that is none."""
    options: list[tuple[int, Any]] = [
        (pycurl.NOSIGNAL, 1),
        (pycurl.PATH_AS_IS, 1),
        (pycurl.NOPROXY, ""),
        (pycurl.HEADEROPT, pycurl.HEADER_SEPARATE),
        (_QUICK_EXIT, 1),
    ]
    if not settings.getbool("DOWNLOAD_VERIFY_CERTIFICATES"):
        options += [(pycurl.SSL_VERIFYPEER, 0), (pycurl.SSL_VERIFYHOST, 0)]
    paths = ssl.get_default_verify_paths()
    # Those of this system. What libcurl was built with is another one's.
    for option, path in ((pycurl.CAINFO, paths.cafile), (pycurl.CAPATH, paths.capath)):
        if path is not None:
            options.append((option, path))
    version = 0
    for name, end in (("DOWNLOAD_TLS_MIN_VERSION", 0), ("DOWNLOAD_TLS_MAX_VERSION", 1)):
        if (wanted := settings[name]) is not None:
            if wanted not in _TLS:
                raise ValueError(f"Unknown {name} value: {wanted}")
            version |= _TLS[wanted][end]
    options.append((pycurl.SSLVERSION, version))
    if ciphers := settings["DOWNLOADER_CLIENT_TLS_CIPHERS"]:
        options.append((pycurl.SSL_CIPHER_LIST, ciphers))
    bound = normalize_bind_address(settings.get("DOWNLOAD_BIND_ADDRESS"))
    if bound is not None:
        options += [(pycurl.INTERFACE, f"host!{bound[0]}"), (pycurl.LOCALPORT, bound[1])]
    return options

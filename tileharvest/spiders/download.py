"""The download handler of tiles, over libcurl's connections."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from math import ceil
from secrets import choice
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import pycurl
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

from tileharvest.errors import TileHarvestError
from tileharvest.maps.settings import setting
from tileharvest.politeness.neighbours import refused_network
from tileharvest.politeness.reasons import HeldBackError, Reason
from tileharvest.politeness.waits import Wait
from tileharvest.queue.requests import NEAR, is_offered, state_of
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.politeness import NO_PLACE
from tileharvest.spiders.connections import connections

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

_HEADER: Final = re.compile(rb"\n([^:\n]*):([^\n]*)")
_TOLD: Final = re.compile(
    rb"\n(etag|last-modified|content-length|retry-after|location):([^\n]*)", re.IGNORECASE
)
"""The headers of an answer to HEAD that are kept: middlewares, verdict and redirects read no others."""
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")

_FAILURES: Final[Mapping[int, type[Exception]]] = {
    pycurl.E_URL_MALFORMAT: UnsupportedURLSchemeError,
    pycurl.E_COULDNT_RESOLVE_PROXY: DownloadConnectionRefusedError,
    pycurl.E_COULDNT_RESOLVE_HOST: CannotResolveHostError,
    pycurl.E_COULDNT_CONNECT: DownloadConnectionRefusedError,
    pycurl.E_SSL_CONNECT_ERROR: DownloadConnectionRefusedError,
    pycurl.E_PEER_FAILED_VERIFICATION: DownloadConnectionRefusedError,
    pycurl.E_PARTIAL_FILE: ResponseDataLossError,
}
"""By error of libcurl: the exception that Scrapy raises for it. All others are a DownloadFailedError."""

MOST_INTERIM: Final = 20
"""Answers that a server may send before its answer (status 1xx). The usual number is none, or one."""
MOST_HEAD: Final = 64 * 1024
"""Bytes of all headers that come with an answer. Web servers send 1 kB, and take 8 kB themselves."""

_TOOK: Final = re.compile(r" after \d+ ms")
"""The time in an error of libcurl. It is left out, as two failures of one kind are to look the same."""

_HTTP_1_1: Final[int] = pycurl.CURL_HTTP_VERSION_1_1
_HTTP_2: Final[int] = pycurl.CURL_HTTP_VERSION_2TLS
"""HTTP/2 if TLS agrees on it, and else HTTP/1.1."""

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
"""By Scrapy's name of a version: libcurl's number for it as the least version, and as the highest one."""


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

    The headers of the settings (`USER_AGENT`, `DEFAULT_REQUEST_HEADERS`) are the same for all tiles. They are
    made once, instead of for each request by two middlewares. If the setting `USER_AGENTS` lists several,
    each request that our scheduler offers takes any of them; requests that find out about a site or a host
    have the one of `USER_AGENT`. Of an answer to HEAD only the headers that are read are kept.

    As with Scrapy's own handlers, `download_timeout` is for the whole answer; an answer that is larger than
    `download_maxsize` is given up; certificates are checked as the settings say; and `meta["proxy"]` names a
    proxy. The handler follows no redirect and keeps no cookie. A part of an answer is no answer, and Scrapy's
    signals for parts are not sent. It also gives up an answer that for `DOWNLOAD_LOW_SPEED_TIME` seconds
    brings less than `DOWNLOAD_LOW_SPEED_LIMIT` bytes a second, or that has more headers, or more interim
    answers before it, than any server has a use for.

    Raises HeldBackError for an offered request if requests are held back by then, unless the only reason is
    that a budget is spent.
    """

    lazy = True
    """Scrapy makes the handler for the first request. It needs a running event loop, and the shell has one
    only then."""

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
        """When each transfer began, by the clock of the event loop; the oldest first."""
        self._late: set[asyncio.Task[None]] = set()
        """The transfers that wait for a connection."""
        self._crawl.oldest_requests.append(self._oldest)

    async def download_request(self, request: Request) -> Response:
        # Scrapy's own delay, such as that of AutoThrottle, lies between the scheduler and here.
        if self._is_held_back and is_offered(request):
            raise HeldBackError
        async with self._visiting(request):
            return await self._downloaded(request)

    @asynccontextmanager
    async def _visiting(self, request: Request) -> AsyncIterator[None]:
        """Lets a request to a host that is not the map's own keep the limits of that host. Raises
        HeldBackError for an offered request that must not start any more when its turn comes, and
        IgnoreRequest if its turn does not come."""
        politeness, host = self._crawl.politeness, urlsplit(request.url).hostname or ""
        if politeness is None or not politeness.is_elsewhere(host):
            yield
            return
        try:
            await politeness.take_turn_at(host)
            while politeness.reasons and not is_offered(request):
                # A pause may be long, and the maps of the host need the place.
                politeness.leave(host)
                await politeness.may_go_on()
                await politeness.take_turn_at(host)
        except TimeoutError:
            state_of(request).was_sent = False
            raise IgnoreRequest(
                f"{host} was not asked: requests of its other maps left no place for {NO_PLACE:g} s"
            ) from None
        except (asyncio.CancelledError, TileHarvestError) as error:
            if not is_offered(request):
                raise
            if isinstance(error, TileHarvestError):
                self._crawl.end(error)
            raise HeldBackError from error
        try:
            if is_offered(request) and self._is_held_back:
                raise HeldBackError
            yield
        finally:
            politeness.leave(host)

    async def _downloaded(self, request: Request) -> Response:
        request.meta.setdefault("download_timeout", self._timeout)
        # A handle that has sent a body makes a POST of every later request.
        free = None if request.body else self._free.get(request.method)
        transfer = free.pop() if free else self._new(request.method, free)
        try:
            transfer.prepare(request, self._lines_for(request), self._default_maxsize)
            if not self._connections.take(self._crawl):
                await self._wait_for_place(self._delay(), is_offered=is_offered(request))
        except BaseException:
            transfer.curl.close()
            raise
        replied: asyncio.Future[Reply | BaseException] = self._loop.create_future()

        def answered(answer: Reply | BaseException) -> None:
            if isinstance(answer, Reply):
                request.meta["download_latency"] = transfer.curl.getinfo(pycurl.STARTTRANSFER_TIME)
            if transfer.refused is not None:
                state_of(request).was_sent = False
            if not replied.done():
                replied.set_result(answer)

        self._begin(transfer, answered)
        try:
            reply = await replied
        except asyncio.CancelledError:
            # The transfer ends with its caller. One that has ended may make another request already.
            if replied.cancelled():
                self._connections.stop(transfer)
            raise
        if isinstance(reply, BaseException):
            raise reply
        return reply.response(request.method, request.url)

    def ask(self, method: str, url: str, answered: Callable[[Reply | BaseException], None]) -> None:
        """Asks an address by HEAD or GET, as `download_request` does for an offered request that has nothing
        of its own. But this looks whether requests are held back only if it has to wait for a connection.

        `answered` is called once, and not before this returns. It hears the reply, or what `download_request`
        would raise."""
        free = self._free[method]
        transfer = free.pop() if free else self._new(method, free)
        lines = choice(self._lines_of_agents) if self._agents else self._lines
        maxsize = 0 if method == "HEAD" else self._default_maxsize
        transfer.prepare_plain(url, lines, self._timeout, maxsize)
        if self._connections.take(self._crawl):
            self._begin(transfer, answered)
        else:
            late = asyncio.ensure_future(self._begin_late(transfer, answered, self._delay()))
            self._late.add(late)
            late.add_done_callback(self._late.discard)

    async def _begin_late(
        self, transfer: _Transfer, answered: Callable[[Reply | BaseException], None], delay: ExitStack
    ) -> None:
        try:
            await self._wait_for_place(delay, is_offered=True)
        except BaseException as error:  # noqa: BLE001 - whoever has asked hears of it
            transfer.curl.close()
            answered(error)
        else:
            self._begin(transfer, answered)

    def _new(self, method: str, free: list[_Transfer] | None) -> _Transfer:
        """Returns a new transfer by this method, which is one of the `free` ones when it has ended."""
        transfer = _Transfer(method, self._options)
        transfer.ended = partial(self._ended, transfer, free)
        return transfer

    def _begin(self, transfer: _Transfer, answered: Callable[[Reply | BaseException], None]) -> None:
        """Begins a prepared transfer that has a connection."""
        transfer.answered = answered
        self._under_way[transfer] = self._loop.time()
        try:
            self._connections.begin(transfer)
        except pycurl.error as error:
            # The connections are closed.
            self._loop.call_soon(transfer.ended, error)

    def _ended(self, transfer: _Transfer, free: list[_Transfer] | None, error: BaseException | None) -> None:
        """Tells whoever has asked what a transfer has brought."""
        del self._under_way[transfer]
        self._connections.leave(self._crawl)
        if isinstance(error, pycurl.error) or transfer.excess is not None:
            transfer.answered(self._failure(error, transfer))
        elif error is not None:
            transfer.answered(error)
        else:
            status = transfer.curl.getinfo(pycurl.RESPONSE_CODE)
            headers = _headers(transfer.head, by_head=transfer.by_head)
            transfer.answered(Reply(status, headers, b"".join(transfer.body)))
        # What was received goes after a failure, too: a handle and what it has received refer to each other,
        # and Python's collector of such cycles looks seldom.
        transfer.head.clear()
        transfer.body.clear()
        if free is None:
            transfer.curl.close()
        else:
            free.append(transfer)

    async def close(self) -> None:
        if self._oldest in self._crawl.oldest_requests:
            self._crawl.oldest_requests.remove(self._oldest)
            if not self._crawl.oldest_requests:
                self._connections.part(self._crawl)
            self._connections.close()

    @property
    def _is_held_back(self) -> bool:
        """Whether a request that was offered must not start any more. If only the budget is spent it may
        start: it is a part of what was spent."""
        politeness = self._crawl.politeness
        return politeness is not None and bool(politeness.reasons) and politeness.reasons != {Reason.SPENT}

    def _delay(self) -> ExitStack:
        """Lets nothing else of the crawl start until what this returns is closed."""
        delay = ExitStack()
        if self._crawl.politeness is not None:
            most = self._connections.most_ended_before(self._crawl) * self._timeout
            delay.enter_context(self._crawl.politeness.delayed(most))
        return delay

    async def _wait_for_place(self, delay: ExitStack, *, is_offered: bool) -> None:
        """Returns when a request may have a connection, and ends the delay of others. Raises HeldBackError if
        the request was offered and must not start any more by then."""
        with delay:
            await self._connections.wait(self._crawl)
        politeness = self._crawl.politeness
        if politeness is not None and is_offered and (self._is_held_back or politeness.is_over):
            self._connections.leave(self._crawl)
            raise HeldBackError

    def _oldest(self) -> Wait | None:
        """Returns the answer that has been waited for longest, and when it is given up. None if there is
        none."""
        if not self._under_way:
            return None
        transfer, since = next(iter(self._under_way.items()))
        curl = transfer.curl
        is_silent = self._least and not curl.getinfo(pycurl.HEADER_SIZE)
        # libcurl counts the silence from the moment at which the connection is made.
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

    def _too_slow(self, words: str, seconds: float) -> str:
        """Returns in words which bound a transfer has passed that may take so many seconds. The words name no
        address, so that they are one reason for many tiles."""
        if "too slow" in words:
            return f"less than {self._least:,} bytes a second for {self._silence} s"
        # The words tell it. libcurl sets the time before the transfer in both cases.
        if not words.startswith("Operation timed out"):
            return f"no connection within {min(seconds, self._silence):g} s"
        return f"no whole answer within {seconds:g} s"

    def _failure(self, error: BaseException | None, transfer: _Transfer) -> Exception:
        """Returns Scrapy's exception for a transfer that has failed, or has brought more than it may."""
        # PycURL's own errors have no number.
        number, words = error.args if error is not None and len(error.args) == 2 else (0, str(error))
        if number == pycurl.E_OPERATION_TIMEDOUT:
            return DownloadTimeoutError(self._too_slow(words, transfer.timeout))
        if transfer.excess is not None:
            return DownloadFailedError(f"the server sent more than {transfer.excess}")
        if number == pycurl.E_FILESIZE_EXCEEDED:
            bound = f"the answer has more than {transfer.maxsize:,} bytes"
            failure: Exception = DownloadCancelledError(bound)
        elif transfer.refused is not None:
            failure = IgnoreRequest(
                f"{urlsplit(transfer.url).hostname} was not asked: its address is of a network that is"
                f" {transfer.refused}, and the map's own host is not in it"
            )
        else:
            if number == pycurl.E_ABORTED_BY_CALLBACK:
                words = "the connection was closed without an answer"
            failure = _FAILURES.get(number, DownloadFailedError)(_TOOK.sub("", words))
        code = transfer.curl.getinfo(pycurl.OS_ERRNO) if number == pycurl.E_COULDNT_CONNECT else 0
        failure.__cause__ = OSError(code, os.strerror(code)) if code else error
        return failure


class _Transfer:
    """One of libcurl's handles, with the bytes that it has received. It makes one request after the other."""

    ended: Callable[[BaseException | None], None]
    """Called when a request has ended; as `Transfer.ended` of the connections."""
    answered: Callable[[Reply | BaseException], None]
    """Called with the answer to the present request, or with why there is none."""

    def __init__(self, method: str, options: Iterable[tuple[int, Any]]) -> None:
        self.head = bytearray()
        """The lines of all heads that came: of a proxy and of interim answers first, of the answer last."""
        self.body: list[bytes] = []
        self.refused: str | None = None
        """The kind of network into which the request must not be sent. None unless it was refused."""
        self.url, self.timeout, self.maxsize = "", 0.0, 0
        """What the present request was prepared with."""
        self._most_heads = 0
        """How many heads the answer may have."""
        self.by_head = method == "HEAD"
        self._own: list[str] | None = None
        self._lines: list[bytes] | None = None
        self._others: tuple[int, float, str | None, int] | None = None
        """The options of the last request: lines of headers; HTTP's version, time-out, proxy and size."""
        self.curl = curl = pycurl.Curl()
        for option, value in options:
            curl.setopt(option, value)
        if method == "HEAD":
            curl.setopt(pycurl.NOBODY, 1)
        elif method != "GET":
            curl.setopt(pycurl.CUSTOMREQUEST, method)
        # A function of ours would be called for each line.
        curl.setopt(pycurl.HEADERFUNCTION, self.head.extend)
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
        """Makes the handle ready for a request that has at most these properties. `maxsize` 0 is no bound.
        `own` are the addresses of the map's own host, if the request was redirected."""
        self.url, self.timeout, self.maxsize = url, timeout, maxsize
        self.refused, self._own, self._is_sent = None, own, False
        # The answer has a head, and a proxy may have one before it.
        self._most_heads = MOST_INTERIM + (2 if proxy else 1)
        curl, others = self.curl, (version, timeout, proxy, maxsize)
        curl.setopt(pycurl.URL, url)
        # To set an option takes time, and most stay as they are.
        if self._lines is not lines:
            self._lines = lines
            curl.setopt(pycurl.HTTPHEADER, lines)
        if self._others != others:
            self._others = others
            curl.setopt(pycurl.HTTP_VERSION, version)
            curl.setopt(pycurl.TIMEOUT_MS, int(timeout * 1000))
            # An empty proxy also keeps libcurl from looking for one itself.
            curl.setopt(pycurl.PROXY, proxy or "")
            curl.setopt(pycurl.MAXFILESIZE_LARGE, maxsize)

    def prepare(self, request: Request, lines: list[bytes], maxsize: int) -> None:
        """Makes the handle ready for a Scrapy request that is sent with these headers."""
        curl, meta = self.curl, request.meta
        proxy = meta.get("proxy")
        self.prepare_plain(
            request.url,
            lines,
            meta["download_timeout"],
            # Of an answer to HEAD no body is taken, so that its Content-Length is no size.
            0 if request.method == "HEAD" else _limit(request, maxsize),
            # A repeat uses HTTP/1.1, as HTTP/2 may have failed. libcurl would find that out by sending again.
            _HTTP_1_1 if "retry_times" in meta else _HTTP_2,
            add_http_if_no_scheme(proxy) if proxy else None,
            # The address of a proxy does not tell the address of the site.
            None if proxy else meta.get(NEAR),
        )
        if proxy:
            leave = request.headers.get("Proxy-Authorization")
            curl.setopt(pycurl.PROXYHEADER, [b"Proxy-Authorization: " + leave] if leave else [])
        if request.body:
            curl.setopt(pycurl.POSTFIELDS, request.body)
            curl.setopt(pycurl.CUSTOMREQUEST, request.method)

    @property
    def excess(self) -> str | None:
        """What the server has sent too much of, in words, or None. libcurl's own bound is 300 kB."""
        heads = self.head.startswith(b"HTTP/") + self.head.count(b"\nHTTP/")
        if heads > self._most_heads:
            return f"{MOST_INTERIM} answers before the answer"
        return "64 kB of headers" if len(self.head) > MOST_HEAD else None

    def _begins(self, address: str, *_others: object) -> int:
        """Lets libcurl send the request once. libcurl would send again what breaks on a connection that was
        kept open: uncounted, without a pause, and on top of our own attempts. A redirected request is not
        sent into a refused network, even if its host's name meant another address when it was looked up."""
        if self._own is not None:
            self.refused = refused_network([address], self._own)
            if self.refused is not None:
                return _ABORT
        was_sent, self._is_sent = self._is_sent, True
        return _ABORT if was_sent else _GO_ON


def _limit(request: Request, maxsize: int) -> int:
    limit: int = request.meta.get("download_maxsize", maxsize)
    return limit


def _headers(heads: bytes | bytearray, *, by_head: bool) -> list[tuple[bytes, bytes]]:
    """Returns the headers of the last of these heads, by their names in lower case. Of an answer to HEAD only
    those are returned that are read. Trailers, which follow the parts of a body, are no headers."""
    start = max(heads.rfind(b"\n\nHTTP/"), heads.rfind(b"\n\r\nHTTP/") + 1) + 2
    blank = _BLANK_LINE.search(heads, start)
    lines = (_TOLD if by_head else _HEADER).findall(heads, start, blank.start() if blank else len(heads))
    return [(name.lower(), value.strip()) for name, value in lines]


def _given(headers: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if value}


def _lines(headers: Headers) -> list[bytes]:
    """Returns headers as libcurl takes them, in a form to which it adds no Accept, and drops no empty one."""
    lines = [
        name + (b": " + value if value else b";") for name, values in headers.items() for value in values
    ]
    return lines if b"Accept" in headers else [*lines, b"Accept:"]


def _options(settings: BaseSettings) -> list[tuple[int, Any]]:
    """Returns libcurl's options that all requests share. Raises ValueError for an unknown version of TLS."""
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
    # The certificates are those of this system: the paths that libcurl was built with are another one's.
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

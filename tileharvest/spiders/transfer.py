"""One of libcurl's transfers: a request as it is sent, and what comes back."""

from __future__ import annotations

import os
import re
import socket
import ssl
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
import pycurl
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

from tileharvest.politeness.neighbours import refused_network
from tileharvest.tiles.verdict import Answer, length_of
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scrapy.http import Headers
    from scrapy.settings import BaseSettings

_HEADER: Final = re.compile(rb"\n([^:\n]*):([^\n]*)")
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_READ: Final = re.compile(
    r"\n(etag|last-modified|content-length|location|retry-after):([^\n]*)", re.IGNORECASE | re.ASCII
)
"""The headers on which a verdict rests, and those by which a redirect and a rest are understood."""

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

_NUMBERS: Final = re.compile(r" after \d+ ms|: \d+ > \d+")
"""Numbers in an error of libcurl. They are left out, as two failures of one kind are to look the same."""

HTTP_1_1: Final[int] = pycurl.CURL_HTTP_VERSION_1_1
HTTP_2: Final[int] = pycurl.CURL_HTTP_VERSION_2TLS
"""HTTP/2 if TLS agrees on it, and else HTTP/1.1."""
_SEND: Final[int] = pycurl.PREREQFUNC_OK
_ABORT: Final[int] = pycurl.PREREQFUNC_ABORT
_QUICK_EXIT: Final = 322
"""CURLOPT_QUICK_EXIT, for which PycURL has no name: whoever gives up a transfer waits for no name server."""

_TLS: Final[Mapping[str, tuple[int, int]]] = {
    "TLSv1.0": (pycurl.SSLVERSION_TLSv1_0, pycurl.SSLVERSION_MAX_TLSv1_0),
    "TLSv1.1": (pycurl.SSLVERSION_TLSv1_1, pycurl.SSLVERSION_MAX_TLSv1_1),
    "TLSv1.2": (pycurl.SSLVERSION_TLSv1_2, pycurl.SSLVERSION_MAX_TLSv1_2),
    "TLSv1.3": (pycurl.SSLVERSION_TLSv1_3, pycurl.SSLVERSION_MAX_TLSv1_3),
}
"""By Scrapy's name of a version: libcurl's number for it as the least version, and as the highest one."""


class Terms(NamedTuple):
    """What several requests have in common: how they are sent, and what they may take."""

    lines: list[bytes]
    """The lines of the headers, as `header_lines` returns them."""
    timeout: float
    """Seconds for a whole answer."""
    most_bytes: int
    """The most bytes of a body, or 0 for any number."""
    silence: float
    """Seconds for a connection. An answer ends if for this time it brings less than `least` bytes a
    second."""
    least: int
    proxy: str | None = None
    proxy_lines: tuple[bytes, ...] = ()
    version: int = HTTP_2
    own: tuple[str, ...] | None = None
    """The IP addresses of the map's own host. Hosts are asked only in the internet, or in a network to which
    one of these belongs. None for any network."""

    def with_headers(self, headers: Mapping[str, str]) -> Terms:
        """Returns the same terms with more headers."""
        lines = [f"{name}: {value}".encode("latin-1") for name, value in headers.items()]
        return self._replace(lines=[*self.lines, *lines])


_NO_TERMS: Final = Terms([], 0.0, 0, 0.0, 0)


class Reply(msgspec.Struct, frozen=True, gc=False):
    """What a site has answered."""

    status: int
    heads: bytes
    """The lines of all heads that came: of a proxy and of interim answers first, of the answer last."""
    body: bytes

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(name, value.strip()) for name, value in _HEADER.findall(_last_head(self.heads))]

    @property
    def location(self) -> str | None:
        """The address to which a redirect leads, as the server wrote it."""
        return self.answer(by_head=False).location

    def answer(self, *, by_head: bool) -> Answer:
        """Returns the parts on which a verdict rests. Of a header that came twice, the last one counts."""
        heads = self.heads
        # A body may have trailers behind it.
        head = (heads if by_head and b"\nHTTP/" not in heads else _last_head(heads)).decode("latin-1")
        said = {name.lower(): value.strip(" \t\r") for name, value in _READ.findall(head)}.get
        return Answer(
            self.status,
            Validator(said("etag"), said("last-modified")),
            length_of(said("content-length")) if by_head else len(self.body),
            self.body,
            said("location"),
            said("retry-after"),
        )


class Transfer:
    """One of libcurl's handles, which makes one request after the other, by HEAD or by GET."""

    def __init__(self, method: str, options: Iterable[tuple[int, Any]], idle: list[Transfer] | None) -> None:
        """The transfer joins those that are `idle` when a request is through. Without them it ends then."""
        self.method, self._idle = method, idle
        self.answered: Callable[[Transfer, Reply | Exception], None] | None = None
        """Called once for each request, with the answer or with why there is none. None between two
        requests."""
        self.since = 0.0
        """When the request began, in seconds on the clock of the event loop."""
        self.heads: list[bytes] = []
        """What comes, as `Reply.heads` has it."""
        self.body = bytearray()
        """The bytes themselves: a site may send each in a piece of its own."""
        self.url = ""
        self.refused: str | None = None
        """The kind of network into which the request must not be sent. None unless it was refused."""
        self.terms = _NO_TERMS
        self._is_sent = False
        self._sockets: list[socket.socket] = []
        """The sockets of this request's new connections, of which libcurl uses copies."""
        self.curl = curl = pycurl.Curl()
        for option, value in options:
            curl.setopt(option, value)
        if method == "HEAD":
            curl.setopt(pycurl.NOBODY, 1)
        elif method != "GET":
            curl.setopt(pycurl.CUSTOMREQUEST, method)
        curl.setopt(pycurl.HEADERFUNCTION, self.heads.append)
        curl.setopt(pycurl.WRITEFUNCTION, self.body.extend)
        curl.setopt(pycurl.PREREQFUNCTION, self._begins)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, self._connects)

    def prepare(self, url: str, terms: Terms, body: bytes = b"") -> None:
        """Makes the handle ready for a request. Only options that differ from those of the last request are
        set, as each takes time. A handle that has sent a body makes a POST of every later request."""
        self.url, self.refused, self._is_sent = url, None, False
        curl, before = self.curl, self.terms
        curl.setopt(pycurl.URL, url)
        if body:
            curl.setopt(pycurl.POSTFIELDS, body)
            curl.setopt(pycurl.CUSTOMREQUEST, self.method)
        if terms is before or terms == before:
            return
        self.terms = terms
        curl.setopt(pycurl.HTTPHEADER, terms.lines)
        curl.setopt(pycurl.HTTP_VERSION, terms.version)
        curl.setopt(pycurl.TIMEOUT_MS, int(terms.timeout * 1000))
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, int(terms.silence * 1000))
        curl.setopt(pycurl.LOW_SPEED_LIMIT, terms.least)
        curl.setopt(pycurl.LOW_SPEED_TIME, int(terms.silence) if terms.least else 0)
        # An empty proxy also keeps libcurl from looking for one itself.
        curl.setopt(pycurl.PROXY, terms.proxy or "")
        curl.setopt(pycurl.PROXYHEADER, list(terms.proxy_lines))
        # An answer to HEAD has no body, so its Content-Length does not count.
        curl.setopt(pycurl.MAXFILESIZE_LARGE, 0 if self.method == "HEAD" else terms.most_bytes)

    def ended(self, error: BaseException | None) -> None:
        """Hears from the connections that the request is through, and passes on what came."""
        if error is None:
            status = self.curl.getinfo(pycurl.RESPONSE_CODE)
            outcome: Reply | Exception = Reply(status, b"".join(self.heads), bytes(self.body))
        else:
            outcome = self._failure(error)
        # A handle and what it has received refer to each other, and Python's collector of such cycles looks
        # seldom.
        self.heads.clear()
        self.body.clear()
        while self._sockets:
            self._sockets.pop().close()
        answered, self.answered = self.answered, None
        if self._idle is None:
            self.curl.close()
        else:
            self._idle.append(self)
        if answered is not None:
            answered(self, outcome)

    def _is_refused(self, address: str) -> bool:
        """Returns whether the request must not be sent to an address, because of its network."""
        if self.terms.own is not None:
            self.refused = refused_network(address, self.terms.own)
        return self.refused is not None

    def _connects(self, _purpose: int, address: Any) -> Any:
        """Makes a socket for libcurl, unless that would connect into a refused network."""
        family, kind, protocol, where = address
        if self._is_refused(where[0]):
            return pycurl.SOCKET_BAD
        try:
            self._sockets.append(socket.socket(family, kind, protocol))
        except OSError:
            # The process may open no more files.
            return pycurl.SOCKET_BAD
        return self._sockets[-1]

    def _begins(self, address: str, *_others: object) -> int:
        """Lets libcurl send the request once. libcurl would send again what breaks on a connection that was
        kept open: uncounted, without a pause, and on top of our own attempts. Another crawl may have kept one
        open to a network that this one must not enter."""
        if self._is_sent:
            return _ABORT
        self._is_sent, own = True, self.terms.own
        return _ABORT if own is not None and address not in own and self._is_refused(address) else _SEND

    def _failure(self, error: BaseException | None) -> Exception:
        """Returns Scrapy's exception for a request that has failed, or has brought more than it may."""
        # PycURL's own errors have no number.
        number, words = error.args if error is not None and len(error.args) == 2 else (0, str(error))
        if number == pycurl.E_OPERATION_TIMEDOUT:
            return DownloadTimeoutError(_too_slow(words, self.terms))
        if number == pycurl.E_FILESIZE_EXCEEDED:
            bound = f"the answer has more than {self.terms.most_bytes:,} bytes"
            failure: Exception = DownloadCancelledError(bound)
        elif self.refused is not None:
            failure = IgnoreRequest(
                f"{urlsplit(self.url).hostname} was not asked: its address is of a network that is"
                f" {self.refused}, and the map's own host is not in it"
            )
        else:
            if number == pycurl.E_ABORTED_BY_CALLBACK:
                words = "the connection was closed without an answer"
            failure = _FAILURES.get(number, DownloadFailedError)(_NUMBERS.sub("", words))
        code = self.curl.getinfo(pycurl.OS_ERRNO) if number == pycurl.E_COULDNT_CONNECT else 0
        failure.__cause__ = OSError(code, os.strerror(code)) if code else error
        return failure


def header_lines(headers: Headers) -> list[bytes]:
    """Returns headers as libcurl takes them, in a form to which it adds no Accept, and drops no empty one."""
    lines = [
        name + (b": " + value if value else b";")
        for name, values in headers.items()
        if name != b"Proxy-Authorization"
        for value in values
    ]
    return lines if b"Accept" in headers else [*lines, b"Accept:"]


def shared_options(settings: BaseSettings) -> list[tuple[int, Any]]:
    """Returns libcurl's options that all requests of a crawl share. Raises ValueError for an unknown version
    of TLS."""
    options: list[tuple[int, Any]] = [
        (pycurl.NOSIGNAL, 1),
        (pycurl.USERAGENT, ""),
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
    if bound := settings.get("DOWNLOAD_BIND_ADDRESS"):
        host, port = (bound, 0) if isinstance(bound, str) else bound
        options += [(pycurl.INTERFACE, f"host!{host}"), (pycurl.LOCALPORT, port)]
    return options


def _too_slow(words: str, terms: Terms) -> str:
    """Returns in words which bound a transfer has passed. The words name no address, so that they are one
    reason for many tiles."""
    if "too slow" in words:
        return f"less than {terms.least:,} bytes a second for {terms.silence:g} s"
    # Only the words say it. libcurl sets the time before the transfer in both cases.
    if not words.startswith("Operation timed out"):
        return f"no connection within {min(terms.timeout, terms.silence):g} s"
    return f"no whole answer within {terms.timeout:g} s"


def _last_head(heads: bytes) -> bytes:
    """Returns the headers of the last of these heads, with a line feed before and behind them. Trailers,
    which follow the parts of a body, are no headers."""
    start = max(heads.rfind(b"\n\nHTTP/"), heads.rfind(b"\n\r\nHTTP/") + 1) + 2
    blank = _BLANK_LINE.search(heads, start)
    end = blank.start() if blank else len(heads)
    return heads[heads.find(b"\n", start) : end] + b"\n"

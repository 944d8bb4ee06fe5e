"""Replies: their headers, ETags and compression, and refusals."""

from __future__ import annotations

import gzip
import hashlib
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from tileharvest.errors import printable, program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_ECHOED: Final = 80
"""The most characters of a client's own text that a message repeats."""

JSON: Final = "application/json"

FOR_EVER: Final = "public, max-age=31536000, immutable"
"""Cache-Control for an address that names its content. A year is the longest time that caches are used to
(RFC 9111)."""
AFTER_ASKING: Final = "no-cache"
"""Cache-Control for a reply that a cache may keep, and must ask for each time. The answer is 304 if nothing
has changed."""
NEVER: Final = "no-store"
_SOON_STALE: Final = "private, max-age=5"
"""Cache-Control for a reply that a harvest may change at any moment."""

_COMPRESSED_FROM: Final = 2048
"""The least bytes of a body that is compressed. A body that fits into one or two packets gains nothing."""

_POLICY: Final = "Content-Security-Policy"
HEADERS: Final = {
    _POLICY: "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    # aiohttp would send its version and Python's.
    "Server": "TileHarvest",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every reply. With them the page loads nothing from elsewhere, no site shows it in a frame,
and no browser takes another file for a script."""


def reply(body: bytes, headers: Mapping[str, str], status: int = HTTPStatus.OK) -> web.Response:
    """Replies with these headers and those that every reply has."""
    return web.Response(body=body, status=status, headers={**HEADERS, **headers})


def knows(request: web.BaseRequest, tag: str) -> bool:
    """Returns whether If-None-Match names this ETag, compared weakly (RFC 9110, section 13.1.2)."""
    return any(tag == f'"{one.value}"' for one in request.if_none_match or ())


def takes_gzip(request: web.BaseRequest) -> bool:
    """Returns whether Accept-Encoding names gzip."""
    accepted = request.headers.get("Accept-Encoding", "").lower().split(",")
    return "gzip" in (part.partition(";")[0].strip() for part in accepted)


def framed(response: web.Response, ancestors: Sequence[str]) -> web.Response:
    """Lets the pages of these sites, and the viewer's own, show an answer in a frame. Without sites the
    answer stays as it is."""
    if ancestors:
        sites = " ".join(("'self'", *ancestors))
        response.headers[_POLICY] = HEADERS[_POLICY].replace(
            "frame-ancestors 'none'", f"frame-ancestors {sites}"
        )
        # This header cannot name several sites, and browsers disagree about what both headers together mean.
        del response.headers["X-Frame-Options"]
    return response


class RefusedError(Exception):
    """A request that is refused, with the status and the one line of the reply."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def wrong(message: str) -> RefusedError:
    """Returns the refusal of a request that is wrong, whatever the history holds."""
    return RefusedError(HTTPStatus.BAD_REQUEST, message)


def unknown(message: str) -> RefusedError:
    """Returns the refusal of a request that is right but names something that is not there."""
    return RefusedError(HTTPStatus.NOT_FOUND, message)


def damaged(what: str) -> RefusedError:
    """Returns the refusal of a picture that needs an image which the store has lost. `what` is the subject of
    the picture, such as `place`."""
    return RefusedError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        f"an image of this {what} is missing or damaged: `{program()} check-store` names it",
    )


def echoed(text: str) -> str:
    """Returns a client's own text for a message, in one line and cut."""
    return printable(text, _MOST_ECHOED)


def quoted(text: str) -> str:
    """Returns a client's own text as `echoed` does, in quotes."""
    return f"'{echoed(text)}'"


def error(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """Replies `{"error": message}`, which no cache keeps."""
    body = msgspec.json.encode({"error": message})
    return reply(body, {"Content-Type": JSON, "Cache-Control": NEVER, **(headers or {})}, status)


def json(body: bytes, request: web.BaseRequest) -> web.Response:
    """Replies with JSON. The ETag is made of the body, so a client gets an equal reply once."""
    return compressible(body, {"Content-Type": JSON, "Cache-Control": _SOON_STALE}, request)


def compressible(body: bytes, headers: Mapping[str, str], request: web.BaseRequest) -> web.Response:
    """Replies with a text, which is compressed if it is long and the client takes gzip. The ETag is made of
    the body."""
    zips = len(body) >= _COMPRESSED_FROM and takes_gzip(request)
    return tagged(body, headers, request, gzip.compress(body, compresslevel=1, mtime=0) if zips else None)


def tagged(
    body: bytes, headers: Mapping[str, str], request: web.BaseRequest, zipped: bytes | None = None
) -> web.Response:
    """Replies with the body's ETag: 304 to a client that has it, and `zipped` to a client that takes gzip.

    A compressed reply has the ETag in its weak form, because its bytes differ.
    """
    tag = f'"{hashlib.sha1(body, usedforsecurity=False).hexdigest()}"'
    named = {**headers, "Vary": "Accept-Encoding", "ETag": tag}
    if knows(request, tag):
        return reply(b"", named, HTTPStatus.NOT_MODIFIED)
    if zipped is None or not takes_gzip(request):
        return reply(body, named)
    return reply(zipped, {**named, "ETag": f"W/{tag}", "Content-Encoding": "gzip"})

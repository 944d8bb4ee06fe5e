"""Replies to a request, before they become HTTP: JSON, pictures, files, refusals. Pure."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_ECHOED: Final = 80
"""How many characters of a client's own text a message repeats."""

FOR_EVER: Final = "public, max-age=31536000, immutable"
"""For an address that names its content. A year is the longest time that caches are used to (RFC 9111)."""
AFTER_ASKING: Final = "no-cache"
"""A cache may keep it, and asks each time: the answer is 304 where nothing has changed."""
NEVER: Final = "no-store"
_SOON_STALE: Final = "private, max-age=5"
"""For what a harvest may change at any moment."""

_COMPRESSED_FROM: Final = 2048
"""Bytes from which on a body is compressed. What fits into one or two packets anyway gains nothing."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Status, body and headers. The security headers are added when it becomes HTTP."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = HTTPStatus.OK


@dataclass(frozen=True, slots=True)
class Caller:
    """What a client says of itself, as far as answers depend on it."""

    known: str = ""
    """The value of the header If-None-Match."""
    takes_gzip: bool = False

    def knows(self, tag: str) -> bool:
        """Says whether If-None-Match names this ETag, compared weakly (RFC 9110, section 13.1.2).

        `*` counts as its name, so ask only for what is known to exist.
        """
        return self.known.strip() == "*" or self.names(tag)

    def names(self, tag: str) -> bool:
        """Says what `knows` does, but `*` does not count."""
        return bool(self.known) and tag in (part.strip().removeprefix("W/") for part in self.known.split(","))


def takes_gzip(accepted: str) -> bool:
    """Says whether a value of Accept-Encoding accepts gzip by its name."""
    for part in accepted.split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() == "gzip":
            return weight.replace(" ", "").rstrip("0") not in {"q=", "q=0."}
    return False


class RefusedError(Exception):
    """A request that gets a status and one line instead of what it asked for."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def wrong(message: str) -> RefusedError:
    """Refuses a request that is wrong, whatever the history holds."""
    return RefusedError(HTTPStatus.BAD_REQUEST, message)


def unknown(message: str) -> RefusedError:
    """Refuses a request that is right but names something that is not there."""
    return RefusedError(HTTPStatus.NOT_FOUND, message)


def quoted(text: str) -> str:
    """Returns a client's own text for a message: not too long, and without what UTF-8 cannot say."""
    shown = text if len(text) <= MOST_ECHOED else f"{text[:MOST_ECHOED]}..."
    return f"'{shown.encode(errors='replace').decode()}'"


def error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Reply:
    """Replies `{"error": message}`, which no cache keeps."""
    body = msgspec.json.encode({"error": message})
    named = {"Content-Type": "application/json", "Cache-Control": NEVER}
    return Reply(body, {**named, **(headers or {})}, status)


def json(value: Any, caller: Caller) -> Reply:
    """Replies with a value of plain types. Its ETag is made of the body, so an equal reply is sent once."""
    body = msgspec.json.encode(value)
    zips = caller.takes_gzip and len(body) >= _COMPRESSED_FROM
    zipped = gzip.compress(body, compresslevel=1, mtime=0) if zips else None
    headers = {
        "Content-Type": "application/json",
        "Cache-Control": _SOON_STALE,
        "Vary": "Accept-Encoding",
    }
    return tagged(body, tag_of(body), headers, caller, zipped)


def tag_of(body: bytes) -> str:
    """Returns an ETag that is the same for the same bytes."""
    return f'"{hashlib.sha1(body, usedforsecurity=False).hexdigest()}"'


def tagged(
    body: bytes, tag: str, headers: Mapping[str, str], caller: Caller, zipped: bytes | None = None
) -> Reply:
    """Replies with an ETag: 304 to a caller that has it, and `zipped` to a caller that takes gzip.

    A compressed reply has the ETag in its weak form, because its bytes differ.
    """
    named = {**headers, "ETag": tag}
    if caller.knows(tag):
        return Reply(b"", named, HTTPStatus.NOT_MODIFIED)
    if zipped is None or not caller.takes_gzip:
        return Reply(body, named)
    return Reply(zipped, {**named, "ETag": f"W/{tag}", "Content-Encoding": "gzip"})

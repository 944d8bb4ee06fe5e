"""The fingerprint of a request, by which two requests are the same."""

from __future__ import annotations

import re
from hashlib import sha1
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote_plus

from w3lib.url import canonicalize_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler

FORMAT: Final = 1
"""The version of the rule, which is part of every fingerprint. Raise it with any change of the rule, w3lib's
rules included, so that fingerprints of two rules are never equal. A request is then made once more, rather
than taken for another."""

_PLAIN_ADDRESS: Final = (
    r"https?://[a-z0-9.-]+(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?(?:/(?!\.)[A-Za-z0-9_~!$&'()*+,=:@.-]*)+"
)
"""Addresses that canonicalization leaves as they are: no upper-case host, no character that is or must be
percent-encoded, no `;`, no segment that begins with a dot, no port with a leading zero, no fragment. Ports
from 60000 on are left out, because not all of them exist."""
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_~.-]+", re.ASCII)
_PLAIN_VALUE: Final = r"[A-Za-z0-9_~.%-]*"


class SegmentFingerprinter:
    """The fingerprinter for Scrapy's REQUEST_FINGERPRINTER_CLASS.

    Requests of the same method, address and body are equal. Addresses are compared in the canonical form
    of `w3lib.url.canonicalize_url`, without fragment, and without the keys of the setting
    DEDUP_IGNORE_QUERY in their query, such as cache busters and names of JSONP callbacks, which change with
    every request though the answer does not. By default no key is ignored. Headers and meta do not count.

    A fingerprint is the SHA-1, 20 bytes, of: FORMAT, method and canonical address, each with a line feed
    behind it, and the body; in UTF-8. Neither a method nor a canonical address can hold a line feed.
    """

    def __init__(self, ignored: Iterable[str] = ()) -> None:
        keys = frozenset(ignored)
        # Encoded as canonicalization does, so that keys are recognised however a site encodes them.
        self._ignored = frozenset(quote_plus(key) for key in keys)
        self._is_canonical = _plain_addresses(keys).fullmatch

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.settings.getlist("DEDUP_IGNORE_QUERY"))

    def fingerprint(self, request: Request) -> bytes:
        """Returns the fingerprint of a request, 20 bytes. Raises ValueError for an address that has no
        canonical form, such as one with a port beyond 65535."""
        return self.fingerprint_of(request.method, request.url, request.body)

    def fingerprint_of(self, method: str, url: str, body: bytes = b"") -> bytes:
        """Returns the fingerprint of a request with these parts. Raises ValueError as `fingerprint` does."""
        plain = self._is_canonical(url)
        address = plain[1] if plain else self.canonical_address(url)
        head = f"{FORMAT}\n{method}\n{address}\n".encode()
        return sha1(head + body, usedforsecurity=False).digest()

    def canonical_address(self, url: str) -> str:
        """Returns the part of the address that counts. Raises ValueError as `fingerprint` does."""
        address, _, query = canonicalize_url(url).partition("?")
        kept = [field for field in query.split("&") if field.partition("=")[0] not in self._ignored]
        return f"{address}?{'&'.join(kept)}" if any(kept) else address


def _plain_addresses(ignored: Iterable[str]) -> re.Pattern[str]:
    """Returns a pattern of addresses that have no query, or only `ignored` keys in it. Its first group is the
    canonical form."""
    keys = "|".join(re.escape(key) for key in ignored if _PLAIN_KEY.fullmatch(key))
    field = f"(?:{keys})(?:={_PLAIN_VALUE})?"
    query = rf"(?:\?{field}(?:&{field})*)?" if keys else ""
    return re.compile(f"({_PLAIN_ADDRESS}){query}", re.ASCII)

"""A version: what one tile was on one day. Pure values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import date

_SHA1: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)
EXTENSIONS: Final = frozenset({"png", "jpg", "webp"})
"""What image files are called, on the sites and in the store; renderers write no other format."""


def is_sha1(text: str) -> bool:
    """Whether the text has the form of a sha1: 40 lower-case hexadecimal digits."""
    return _SHA1.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Image:
    """The bytes of a version, by name: what the store must hold for it."""

    sha1: str
    extension: str
    size: int
    """In bytes, more than 0."""

    def __post_init__(self) -> None:
        if not is_sha1(self.sha1):
            raise ValueError(f"'{self.sha1}' is no sha1")
        if self.extension not in EXTENSIONS:
            raise ValueError(f"'{self.extension}' is no image extension")
        if self.size <= 0:
            raise ValueError(f"an image of {self.size} bytes is none")


@dataclass(frozen=True, slots=True)
class Validator:
    """What a server says to tell one state of a file from another (RFC 9110, section 8.8)."""

    etag: str | None = None
    """As the server wrote it, quotes and `W/` included."""
    last_modified: str | None = None
    """As the server wrote it, an HTTP date."""

    @property
    def entity(self) -> str | None:
        """The ETag's value without its strength: `W/"a"` and `"a"` name the same state for us."""
        return None if self.etag is None else self.etag.removeprefix("W/")


@dataclass(frozen=True, slots=True)
class Version:
    """A recorded state of a tile, from its day on until the next version's day."""

    day: date
    image: Image | None
    """None: the tile was gone."""
    validator: Validator = field(default_factory=Validator)

    @property
    def gone(self) -> bool:
        return self.image is None

"""A version: what one tile was on one day. Pure values."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_HEADER: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
"""What the value of a header may be (RFC 9110, section 5.5)."""
_SHA1: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)
Extension: TypeAlias = Literal["png", "jpg", "webp"]
EXTENSIONS: Final = frozenset(get_args(Extension))
"""The endings of image files, on the sites and in the store. Renderers write no other format."""


def is_image_name(text: str) -> bool:
    """Returns whether the text has the form of `Image.file_name`."""
    sha1, _, extension = text.partition(".")
    return _SHA1.fullmatch(sha1) is not None and extension in EXTENSIONS


class Image(msgspec.Struct, frozen=True, gc=False):
    """The name of the bytes of a version. The store holds the bytes."""

    sha1: Annotated[str, Meta(min_length=40, max_length=40)]
    extension: Extension
    size: Annotated[int, Meta(gt=0)]
    """The number of bytes."""

    @property
    def file_name(self) -> str:
        """The image's name in stores and in the viewer: the sha1 and the extension, with a dot between
        them."""
        return f"{self.sha1}.{self.extension}"


class Validator(msgspec.Struct, frozen=True, gc=False):
    """The values by which a server distinguishes the states of a file (RFC 9110, section 8.8)."""

    etag: str | None = None
    """The ETag as the server wrote it, quotes and `W/` included."""
    last_modified: str | None = None
    """The HTTP date as the server wrote it."""

    @property
    def entity(self) -> str | None:
        """The ETag without its strength. For us `W/"a"` and `"a"` name the same state."""
        return None if self.etag is None else self.etag.removeprefix("W/")

    @property
    def conditions(self) -> Mapping[str, str]:
        """The headers of a request to which the server answers 304 if the file is still in this state. There
        are none for an ETag that no server can have sent, such as a damaged archive has."""
        if self.etag is not None:
            return {"If-None-Match": self.etag} if _OF_HEADER.fullmatch(self.etag) else {}
        return {} if self.last_modified is None else {"If-Modified-Since": self.last_modified}


class Version(msgspec.Struct, frozen=True, gc=False):
    """A recorded state of a tile. It holds from its day until the day of the next version."""

    day: date
    image: Image | None
    """The image, or None if the tile was gone."""
    validator: Validator = Validator()

    @property
    def gone(self) -> bool:
        return self.image is None

    @property
    def image_name(self) -> str | None:
        """The file name of the image, or None if the tile was gone."""
        return None if self.image is None else self.image.file_name

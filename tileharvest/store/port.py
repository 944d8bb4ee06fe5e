"""What the program asks of a store, and the checks that all stores share."""

from __future__ import annotations

from hashlib import sha1
from typing import TYPE_CHECKING, Protocol

from tileharvest.errors import StoreError
from tileharvest.tiles.versions import EXTENSIONS, is_sha1

if TYPE_CHECKING:
    from tileharvest.tiles.versions import Image


class MissingImageError(StoreError):
    """The store has no image of that name."""


class TileStore(Protocol):
    """Keeps images by their sha1. May be used by several threads and by several programs at once.

    When `put` has returned, the image outlives SIGKILL and power loss. When it raised or never returned,
    the store holds the whole image or nothing of it under its name, and putting it again is right. So a
    history that is written after `put` never points at bytes that do not exist. Nothing is ever deleted.
    """

    def put(self, image: Image, body: bytes) -> bool:
        """Keeps the bytes; True if they were not there before.

        Raises ValueError when the bytes are not the image's, and StoreError when they cannot be kept.
        """
        ...

    def get(self, image: Image) -> bytes:
        """The image's bytes. Raises StoreError when they are missing or cannot be read."""
        ...

    def named(self, sha1: str, extension: str) -> bytes:
        """The bytes of the image of this name, which have this sha1: for those who will keep them.

        Raises MissingImageError when there are none, StoreError when they are damaged or cannot be read,
        and ValueError for a name that no image has, such as one that leads elsewhere.
        """
        ...

    def __contains__(self, image: Image) -> bool:
        """Whether the whole image is there. Raises StoreError when that cannot be found out."""
        ...


def expect_bytes_of(image: Image, body: bytes) -> None:
    """Raises ValueError when the bytes have not the image's size and sha1. About 1 ms per megabyte."""
    if len(body) != image.size:
        raise ValueError(f"{len(body)} bytes are not image {image.sha1} of {image.size} bytes")
    found = sha1_of(body)
    if found != image.sha1:
        raise ValueError(f"bytes with sha1 {found} are not image {image.sha1}")


def expect_image_name(name: str, extension: str) -> None:
    """Raises ValueError unless a sha1 and an extension name an image."""
    if not is_sha1(name):
        raise ValueError(f"'{name}' is no sha1")
    if extension not in EXTENSIONS:
        raise ValueError(f"'{extension}' is no image extension")


def sha1_of(body: bytes) -> str:
    """As names of images have it."""
    return sha1(body, usedforsecurity=False).hexdigest()

"""The port of stores, the checks that all stores share, and the store of a dry run."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha1
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol

from tileharvest.errors import StoreError
from tileharvest.tiles.versions import is_image_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tileharvest.tiles.versions import Image


class MissingImageError(StoreError):
    """The store has no image of that name."""


class HeldImage(NamedTuple):
    """An image of a store."""

    name: str
    """Its file name, such as `<sha1>.png`."""
    size: int
    """The number of its bytes."""
    stored: float
    """When it was stored, in seconds since 1970, by the store's clock."""


class TileStore(Protocol):
    """Keeps images by their sha1. Several threads and several programs may use a store at once.

    When `put` has returned, the images outlive SIGKILL and power loss. If it raised or never returned, the
    store holds each image whole or not at all, and the image may be put again. So a history that is written
    after `put` never points at bytes that do not exist. Only `remove` deletes anything.
    """

    def put(self, images: Mapping[Image, bytes]) -> set[Image]:
        """Keeps the bytes of each image. Returns the images that were not there before.

        Many images together cost less than one by one, because they wait for the disk, or for a service, at
        the same time. Raises ValueError if bytes are not the image's, and StoreError if they cannot be kept.
        After an error some of the images may have been kept. They count as there before when they are put
        again; then only the history knows whether any version names them.
        """
        ...

    def named(self, name: str) -> bytes:
        """Returns the bytes of the image of this file name, after it has checked their sha1.

        Raises MissingImageError if there is no such image, StoreError if it is damaged or cannot be read, and
        ValueError for a name that no image can have, such as one that leads out of the store.
        """
        ...

    def held(self) -> Iterator[HeldImage]:
        """Yields all images, in any order, without reading their bytes. Raises StoreError."""
        ...

    def remove(self, names: Sequence[str]) -> None:
        """Removes the images of these file names, and what killed writers have left. Names that the store
        lacks are ignored. Raises StoreError.

        The caller must know that no history names these images.
        """
        ...


def expect_bytes_of(image: Image, body: bytes) -> None:
    """Raises ValueError if the bytes do not have the image's size and sha1. Takes about 1 ms per megabyte."""
    if len(body) != image.size:
        raise ValueError(f"{len(body)} bytes are not image {image.sha1} of {image.size} bytes")
    found = sha1_of(body)
    if found != image.sha1:
        raise ValueError(f"bytes with sha1 {found} are not image {image.sha1}")


def expect_image_name(name: str) -> None:
    """Raises ValueError unless this is the file name of an image."""
    if not is_image_name(name):
        raise ValueError(f"'{name}' is not a sha1 with the extension of an image")


def expect_intact(place: str, name: str, body: bytes) -> None:
    """Raises StoreError, which names the place, if the bytes are not those of the image of this name."""
    found = sha1_of(body)
    if found != name.partition(".")[0]:
        raise StoreError(f"image {place} is damaged, its sha1 is {found}: restore it from a backup")


def mend(store: TileStore, image: Image, body: bytes) -> bool:
    """Puts the image if the store lacks it, or holds it damaged. Returns whether that was so.

    Reads the image that is there. Raises as `put` does.
    """
    with suppress(StoreError):
        if len(store.named(image.file_name)) == image.size:
            return False
    store.remove([image.file_name])
    return bool(store.put({image: body}))


def sha1_of(body: bytes) -> str:
    """Returns the sha1 of some bytes, as images are named by it."""
    return sha1(body, usedforsecurity=False).hexdigest()


class DryStore:
    """Checks images as a real store does, and forgets them at once. It keeps nothing, so it gives no
    guarantee.

    Every image counts as new, each time it is put.
    """

    def put(self, images: Mapping[Image, bytes]) -> set[Image]:
        for image, body in images.items():
            expect_bytes_of(image, body)
        return set(images)

    def named(self, name: str) -> NoReturn:
        expect_image_name(name)
        raise MissingImageError(f"image {name} was not kept: this is a dry run")

    def held(self) -> Iterator[HeldImage]:
        return iter(())

    def remove(self, names: Sequence[str]) -> None:
        """Does nothing: the store holds no image."""

"""A store for dry runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tileharvest.store.port import MissingImageError, expect_bytes_of, expect_image_name

if TYPE_CHECKING:
    from tileharvest.tiles.versions import Image


class DryStore:
    """Checks images as a real store does, and forgets them at once: it gives no crash guarantee.

    Every image counts as new, each time.
    """

    def put(self, image: Image, body: bytes) -> bool:
        expect_bytes_of(image, body)
        return True

    def get(self, image: Image) -> NoReturn:
        self.named(image.sha1, image.extension)

    def named(self, sha1: str, extension: str) -> NoReturn:
        expect_image_name(sha1, extension)
        raise MissingImageError(f"image {sha1} was not kept: this is a dry run")

    def __contains__(self, image: Image) -> bool:
        return False

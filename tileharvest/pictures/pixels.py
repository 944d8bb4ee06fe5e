"""The pixels of tiles: a store's images unpacked, for whoever makes pictures of them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from PIL import Image as Pillow

from tileharvest.errors import StoreError

if TYPE_CHECKING:
    from tileharvest.store.port import TileStore

LARGEST: Final = 4096
"""The most pixels that a tile may be wide and high. Renderers make tiles of 384. What claims to be far larger
is no tile, and would fill the memory when it is unpacked."""

UNREADABLE: Final = (
    StoreError,
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    Pillow.DecompressionBombError,
    Warning,
)
"""What is raised for an image that is missing, and by Pillow for bytes that are no whole image."""

_FORMATS: Final = ("PNG", "JPEG", "WEBP")


def stored(store: TileStore, name: str, size: int) -> Pillow.Image:
    """Returns the image `<sha1>.<extension>` as `decoded` does. Raises one of `UNREADABLE`."""
    return decoded(store.named(name), size)


def decoded(body: bytes, size: int) -> Pillow.Image:
    """Returns an image in RGBA, of this width and height. Raises one of `UNREADABLE` for what is no tile."""
    with Pillow.open(io.BytesIO(body), formats=_FORMATS) as image:
        if max(image.size) > LARGEST:
            raise ValueError(f"{image.width} x {image.height} pixels are too many for a tile")
        whole = image.convert("RGBA")
    return whole if whole.size == (size, size) else whole.resize((size, size), Pillow.Resampling.BOX)

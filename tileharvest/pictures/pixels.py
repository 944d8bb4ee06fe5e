"""The pixels of tiles: a store's images unpacked, for whoever makes pictures of them."""

from __future__ import annotations

import io
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from PIL import Image as Pillow

from tileharvest.errors import StoreError
from tileharvest.tiles.images import opened

if TYPE_CHECKING:
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.layers import Size

Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom, in pixels."""

LARGEST: Final = 4096
"""The most pixels along the edge of a tile in a picture. Renderers make tiles of 384."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_MODE: Final = "RGBA"
_COMPRESSION: Final = 1
"""Of zlib: more bytes than with 6, in a quarter of the time."""

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


def stored(store: TileStore, name: str, size: Size) -> Pillow.Image:
    """Returns the image `<sha1>.<extension>` as `decoded` does. Raises one of `UNREADABLE`."""
    return decoded(store.named(name), size)


def decoded(body: bytes, size: Size) -> Pillow.Image:
    """Returns the picture of an image in RGBA, of this width and height.

    Raises one of `UNREADABLE` for what is no tile.
    """
    whole = _picture(body)
    return whole if whole.size == size else whole.resize(size, Pillow.Resampling.BOX)


def stored_part(store: TileStore, name: str, size: Size, box: Box) -> Pillow.Image:
    """Returns what `stored` does, cut to a box. Of a PNG that has this size no rows below the box are
    unpacked, which takes most of the time. Raises one of `UNREADABLE`."""
    body = store.named(name)
    if _png_size(body) == size and not _holds_more(*size):
        # An animation, for one, is no longer right in itself.
        with suppress(*UNREADABLE), opened(_down_to(body, box[3])) as image:
            part = image.crop(box)
            # To convert to the same copies all pixels once more.
            return part if part.mode == _MODE else part.convert(_MODE)
    return decoded(body, size).crop(box)


def _png_size(body: bytes) -> Size | None:
    """Returns the width and the height that a PNG tells in its first chunk; None for another image."""
    if not body.startswith(_PNG):
        return None
    return int.from_bytes(body[16:20], "big"), int.from_bytes(body[20:24], "big")


def _down_to(body: bytes, rows: int) -> bytes:
    """Returns a PNG that says that it has only so many rows. Its rows follow each other, unless it is
    interlaced: then it stays as it is."""
    first = body[12:20] + rows.to_bytes(4, "big") + body[24:29]
    is_interlaced = first[-1] != 0
    return body if is_interlaced else body[:12] + first + zlib.crc32(first).to_bytes(4, "big") + body[33:]


def limited(size: Size) -> Size:
    """Returns the size of a layer's tiles, or what of it pictures are made in."""
    width, height = size
    return min(width, LARGEST), min(height, LARGEST)


def picture_of(body: bytes) -> bytes:
    """Returns what a person is to see of an image: the bytes as they are, or a PNG of a part of it.

    Raises one of `UNREADABLE` where an image that holds more than a picture is no tile. No other image is
    unpacked, so it costs nearly nothing.
    """
    size = _png_size(body)
    if size is None or not _holds_more(*size):
        return body
    part = io.BytesIO()
    _picture(body).save(part, "PNG", compress_level=_COMPRESSION)
    return part.getvalue()


def _picture(body: bytes) -> Pillow.Image:
    with opened(body) as image:
        whole = image.convert(_MODE)
    if not _holds_more(*whole.size):
        return whole
    # The last column and the last row are the first ones of the neighbours.
    side = whole.width - 1
    return whole.crop((0, 0, side, side))


def _holds_more(width: int, height: int) -> bool:
    """Returns whether an image holds more than a picture.

    BlueMap has light and heights below it, in an image of (n + 1) x 2 (n + 1) pixels (`LowresTile.java`).
    No other renderer draws tiles that are twice as high as they are wide.
    """
    return width > 1 and height == 2 * width

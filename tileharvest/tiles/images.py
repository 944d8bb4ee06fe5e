"""Images: whether some bytes are one whole image that may be a tile, and which image it is. Pure."""

from __future__ import annotations

import hashlib
import io
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final
from zlib import crc32

from PIL import Image as Pillow
from PIL import UnidentifiedImageError

from tileharvest.tiles.versions import Image

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileharvest.tiles.layers import Size
    from tileharvest.tiles.versions import Extension

_EXTENSIONS: Final[dict[str, Extension]] = {"PNG": "png", "JPEG": "jpg", "WEBP": "webp"}

_ENDS: Final = {"PNG": b"IEND\xaeB`\x82", "JPEG": b"\xff\xd9"}
"""The last bytes of an image: PNG's IEND chunk with its checksum, JPEG's end-of-image marker.

Pillow also reads images whose last bytes are missing. A WebP states its length at the start, and Pillow
checks that length."""

_PNG_START: Final = b"\x89PNG\r\n\x1a\n"
_PNG_HEADER: Final = b"\0\0\0\rIHDR"
"""The length and the kind of a PNG's first chunk."""
_PNG_DEPTHS: Final = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""The numbers of bits of a sample that a PNG of each type of colour can have (PNG, section 11.2.1)."""
_JPEG_START: Final = b"\xff\xd8"
_JPEG_SCAN: Final = b"\xff\xda"
"""The marker that begins a scan of a JPEG. Within a scan no marker has these bytes."""
_JPEG_SEGMENT: Final = re.compile(rb"\xff[\xe0-\xef\xfe\xff]")
"""The markers of the segments that a program may add to a JPEG at will, which Pillow keeps in memory, and
bytes that fill the room between segments. The pixels have no such bytes, and other segments have few."""

_WEBP_HEADER: Final = 30
"""Bytes of a WebP up to the end of its width and height, for the two longer of its three headers."""
_VP8L_HEADER: Final = 25
"""The same for the shortest header. A whole image of that kind can have 28 bytes."""
_TAIL: Final = 64
"""The number of last bytes that are searched for the end. Some programs append a few bytes of their own."""


MOST_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of an image, unless maps.toml says another number."""
MOST_PIXELS: Final = 1 << 23
"""The most pixels of an image: twice as many as Dynmap's largest tiles have. Pillow takes some 17 bytes of
memory for each pixel of a WebP, and a WebP of 36 bytes can claim any number of pixels."""
_MOST_PARTS: Final = 10_000
"""The most chunks of a PNG, and the most added segments of a JPEG. Pillow takes 130 bytes of memory for a
segment of 4 bytes, which would be 1 GB for an image of 32 MB."""
_TOO_MANY_PARTS: Final = f"the image has more than {_MOST_PARTS:,} chunks or segments"
_MOST_SCANS: Final = 100
"""The most scans of a JPEG; a progressive one has about ten. Pillow goes through all pixels for each, even if
it has 12 bytes: an image of 300 kB could take half a minute."""
# Pillow's own limit is 20 times as high. It would refuse an image in other words, or warn of it and go on.
Pillow.MAX_IMAGE_PIXELS = None
_LEAST, _MOST = 0.25, 4.0
"""The least and the greatest width and height of an image, in tiles of its layer. Images for screens of high
density have two pixels for each pixel of the layer, and BlueMap's images have heights below the picture."""


def identify(body: bytes, tile_size: Size | None = None, most: int = MOST_BYTES) -> Image:
    """Returns the name of the image that the bytes are.

    `tile_size` is that of the layer, or None if it is not known. `most` is the most bytes that an image may
    have. Raises ValueError for anything but a whole PNG, JPEG or WebP of about the tile's size, and says what
    the bytes are instead. An image that is too large, or has too many parts, is refused before anything is
    decoded. Only JPEG and WebP are decoded to see whether they are whole, because they carry no checksums.
    """
    if not body:
        raise ValueError("the answer has no bytes")
    if len(body) > most:
        raise ValueError(f"the image has {len(body):,} bytes, and {most:,} are the most")
    if (size := _png_size(body)) is not None:
        _check_pixels(size, tile_size)
        image_format = "PNG"
    elif body.startswith(b"version https://git-lfs"):
        raise ValueError("the answer is a Git-LFS pointer, not the image itself")
    elif body[:256].lstrip().startswith(b"<"):
        raise ValueError("the answer is a page of HTML or XML")
    else:
        with opened(body, tile_size) as image:
            image_format = str(image.format)
            try:
                image.load()
            except ValueError as error:
                raise OSError(error) from None
    if _ENDS.get(image_format, b"") not in body[-_TAIL:]:
        raise ValueError("the image is cut off: it has no end")
    sha1 = hashlib.sha1(body, usedforsecurity=False).hexdigest()
    return Image(sha1, _EXTENSIONS[image_format], len(body))


def size_of(body: bytes) -> Size:
    """Returns width and height of an image. Raises ValueError for bytes that may not be a tile."""
    with opened(body) as image:
        return image.size


def is_transparent(body: bytes) -> bool:
    """Returns whether the bytes are an image of which every pixel is transparent. Decodes the image.

    Returns False for bytes that are not a whole image.
    """
    with suppress(ValueError), opened(body) as image:
        return image.convert("RGBA").getchannel("A").getextrema() == (0, 0)
    return False


@contextmanager
def opened(body: bytes, tile_size: Size | None = None) -> Iterator[Pillow.Image]:
    """Opens the bytes as an image after their header has shown that they may be a tile. Raises ValueError if
    they are not, or if Pillow fails while the image is open."""
    said = _png_size(body) or _webp_size(body)
    if said is not None:
        # Pillow unpacks a WebP as it opens it.
        _check_pixels(said, tile_size)
    elif body.startswith(_JPEG_START):
        # Pillow would take minutes or much memory.
        if len(_JPEG_SEGMENT.findall(body)) > _MOST_PARTS:
            raise ValueError(_TOO_MANY_PARTS)
        if (scans := body.count(_JPEG_SCAN)) > _MOST_SCANS:
            raise ValueError(f"the image has {scans:,} scans, and {_MOST_SCANS:,} are the most")
    try:
        with Pillow.open(io.BytesIO(body), formats=tuple(_EXTENSIONS)) as image:
            _check_pixels(image.size, tile_size)
            yield image
    except UnidentifiedImageError:
        raise ValueError("the answer is not a PNG, JPEG or WebP image") from None
    except (OSError, SyntaxError, EOFError) as error:
        raise ValueError(f"the image is cut off or damaged: {error}") from None


def _check_pixels(size: Size, tile_size: Size | None) -> None:
    """Raises ValueError for an image that is too large, or too small, for a tile."""
    width, height = size
    if width < 1 or height < 1 or width * height > MOST_PIXELS:
        raise ValueError(f"the image has {width:,} x {height:,} pixels, and {MOST_PIXELS:,} are the most")
    for side, usual in zip(size, tile_size or size, strict=True):
        if not _LEAST * usual <= side <= _MOST * usual:
            tiles = "the tiles of its layer {:,} x {:,}".format(*(tile_size or size))
            raise ValueError(f"the image has {width:,} x {height:,} pixels, and {tiles}")


def _png_size(body: bytes) -> Size | None:
    """Returns the size of a whole PNG, of which every chunk has its checksum, or None for no PNG. Raises
    ValueError for a damaged one, and for one of so many chunks that Pillow would take much memory."""
    if not body.startswith(_PNG_START):
        return None
    view, at, kind, has_pixels, parts = memoryview(body), len(_PNG_START), b"", False, 0
    while kind != b"IEND":
        kind, end = body[at + 4 : at + 8], at + 8 + int.from_bytes(body[at : at + 4])
        if end + 4 > len(body):
            raise ValueError("the image is cut off: it has no end")
        if crc32(view[at + 4 : end]) != int.from_bytes(body[end : end + 4]):
            raise ValueError("the image is damaged: a checksum is wrong")
        has_pixels |= kind == b"IDAT"
        at, parts = end + 4, parts + 1
        if parts > _MOST_PARTS:
            raise ValueError(_TOO_MANY_PARTS)
    starts = body.startswith(_PNG_HEADER, len(_PNG_START)) and has_pixels
    if not starts or body[24] not in _PNG_DEPTHS.get(body[25], ()) or body[26] or body[27]:
        raise ValueError("the answer is not a PNG, JPEG or WebP image")
    return int.from_bytes(body[16:20]), int.from_bytes(body[20:24])


def _webp_size(body: bytes) -> Size | None:
    """Returns the size that a WebP says in its first chunk (RFC 9649, section 2), or None for no WebP."""
    if body[:4] != b"RIFF" or body[8:12] != b"WEBP":
        return None
    kind = body[12:16]
    if len(body) < (_VP8L_HEADER if kind == b"VP8L" else _WEBP_HEADER):
        return None
    if kind == b"VP8X":
        return int.from_bytes(body[24:27], "little") + 1, int.from_bytes(body[27:30], "little") + 1
    if kind == b"VP8L":
        sides = int.from_bytes(body[21:25], "little")
        return (sides & 0x3FFF) + 1, (sides >> 14 & 0x3FFF) + 1
    return int.from_bytes(body[26:28], "little") & 0x3FFF, int.from_bytes(body[28:30], "little") & 0x3FFF

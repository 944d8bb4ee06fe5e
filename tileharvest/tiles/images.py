"""Images: whether some bytes are one whole image, and which. Pure."""

from __future__ import annotations

import hashlib
import io
import warnings
from typing import Final

from PIL import Image as Pillow
from PIL import UnidentifiedImageError

from tileharvest.tiles.versions import Image

_EXTENSIONS: Final = {"PNG": "png", "JPEG": "jpg", "WEBP": "webp"}

_ENDS: Final = {"PNG": b"IEND\xaeB`\x82", "JPEG": b"\xff\xd9"}
"""The last bytes of an image: PNG's IEND chunk with its checksum, JPEG's end-of-image marker.

Pillow reads images whose last bytes are missing. A WebP states its length at the start, and Pillow checks
that."""

_TAIL: Final = 64
"""How many of the last bytes are searched for the end: some programs append a few bytes of their own."""


def identify(body: bytes) -> Image:
    """Returns the name of the image that the bytes are.

    Raises ValueError, which says what the bytes are instead, for anything but a whole PNG, JPEG or WebP.
    Every byte is read; JPEG and WebP, which carry no checksums, are decoded as well.
    """
    if not body:
        raise ValueError("the answer has no bytes")
    if body.startswith(b"version https://git-lfs"):
        raise ValueError("the answer is a Git-LFS pointer, not the image itself")
    if body[:256].lstrip().startswith(b"<"):
        raise ValueError("the answer is a page of HTML or XML")
    return Image(hashlib.sha1(body, usedforsecurity=False).hexdigest(), _extension(body), len(body))


def is_transparent(body: bytes) -> bool:
    """Returns whether the bytes are an image of which nothing can be seen. It is decoded for that.

    Returns False for bytes that are no whole image.
    """
    try:
        with warnings.catch_warnings(), Pillow.open(io.BytesIO(body), formats=tuple(_EXTENSIONS)) as image:
            warnings.simplefilter("error", Pillow.DecompressionBombWarning)
            return image.convert("RGBA").getchannel("A").getextrema() == (0, 0)
    except (OSError, SyntaxError, ValueError, EOFError, Pillow.DecompressionBombError, Warning):
        return False


def _extension(body: bytes) -> str:
    try:
        # A tile is far below the size from which Pillow warns of decompression bombs; a bomb is no tile.
        with warnings.catch_warnings(), Pillow.open(io.BytesIO(body), formats=tuple(_EXTENSIONS)) as image:
            warnings.simplefilter("error", Pillow.DecompressionBombWarning)
            image_format = str(image.format)
            if image_format == "PNG":
                image.verify()
            else:
                image.load()
    except UnidentifiedImageError:
        raise ValueError("the answer is no PNG, JPEG or WebP image") from None
    except (OSError, SyntaxError, ValueError, EOFError, Pillow.DecompressionBombError, Warning) as error:
        raise ValueError(f"the image is cut off or damaged: {error}") from None
    if _ENDS.get(image_format, b"") not in body[-_TAIL:]:
        raise ValueError("the image is cut off: it has no end")
    return _EXTENSIONS[image_format]

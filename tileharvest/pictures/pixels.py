"""Images of a store as pixels, for whoever composes pictures of them. Pure."""

from __future__ import annotations

import io
from typing import Final

from PIL import Image as Pillow

LARGEST: Final = 4096
"""Pixels, of a tile's width and height. Renderers make tiles of 384; what claims to be far larger is no tile,
and would fill the memory when it is unpacked."""

UNREADABLE: Final = (OSError, SyntaxError, ValueError, EOFError, Pillow.DecompressionBombError, Warning)
"""What Pillow raises for bytes that are no whole image."""

_FORMATS: Final = ("PNG", "JPEG", "WEBP")


def decoded(body: bytes, size: int) -> Pillow.Image:
    """An image in RGBA, of this width and height. Raises one of `UNREADABLE` for what is no tile."""
    with Pillow.open(io.BytesIO(body), formats=_FORMATS) as image:
        if max(image.size) > LARGEST:
            raise ValueError(f"{image.width} x {image.height} pixels are too many for a tile")
        whole = image.convert("RGBA")
    return whole if whole.size == (size, size) else whole.resize((size, size), Pillow.Resampling.BOX)

"""The pixels of tiles: images of the store, unpacked, and the colour behind them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, TypeAlias

from PIL import Image as Pillow
from PIL import ImageColor

from tileharvest.errors import ConfigurationError, StoreError
from tileharvest.tiles.images import opened

if TYPE_CHECKING:
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.layers import Size

Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom, in pixels."""

LARGEST: Final = 4096
"""The most pixels along the edge of a tile in a picture. Most renderers make tiles of 256 or 384."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_PALETTE: Final = 256
"""The most colours of a palette."""
_COMPRESSION: Final = 1
"""The level of zlib. It gives more bytes than level 6, in a quarter of the time."""
_QUALITY: Final = 90
"""The quality of JPEG."""

BACKGROUND: Final = (26, 26, 26)
"""The colour that Overviewer shows where there is no tile, `#1a1a1a`."""

UNREADABLE: Final = (StoreError, OSError, SyntaxError, ValueError, EOFError, Warning)
"""The errors for an image that is missing or damaged, and those of Pillow for bytes that are not a whole
image."""


def stored(store: TileStore, name: str, size: Size) -> Pillow.Image:
    """Returns the picture of the image `<sha1>.<extension>`, as `decoded` does. Raises one of
    `UNREADABLE`."""
    return decoded(store.named(name), size)


def decoded(body: bytes, size: Size) -> Pillow.Image:
    """Returns the picture of an image in RGBA, scaled to this width and height.

    Raises one of `UNREADABLE` for bytes that are not a tile.
    """
    whole = unpacked(body)
    return whole if whole.size == size else whole.resize(size, Pillow.Resampling.BOX)


def _png_size(body: bytes) -> Size | None:
    """Returns the width and the height in a PNG's first chunk, or None for an image of another form."""
    if not body.startswith(_PNG):
        return None
    return int.from_bytes(body[16:20], "big"), int.from_bytes(body[20:24], "big")


def shrunk(image: Pillow.Image, size: Size, keeps_colours: bool) -> Pillow.Image:
    """Returns a smaller image. Its pixels are averages, for which Pillow weighs colours by their opacity, so
    that no edge gets dark.

    If `keeps_colours` is true and the image has no more colours than a palette, its pixels are some of the
    image's own.
    """
    if keeps_colours and image.getcolors(_PALETTE) is not None:
        return image.resize(size, Pillow.Resampling.NEAREST)
    return image.resize(size, Pillow.Resampling.BOX)


def limited(size: Size) -> Size:
    """Returns the size in which a layer's tiles are drawn: their own, with edges of `LARGEST` at most."""
    width, height = size
    return min(width, LARGEST), min(height, LARGEST)


def background(css: str | None) -> tuple[int, int, int]:
    """Returns the colour behind a layer's tiles: the colour that the site describes in CSS, or `BACKGROUND`
    if it describes none that Pillow knows."""
    try:
        red, green, blue, *_ = ImageColor.getrgb(css or "")
    except ValueError:
        return BACKGROUND
    return red, green, blue


def background_of(said: str | None, described: str | None) -> tuple[int, int, int]:
    """Returns the colour where a map shows nothing: the colour that a person has `said`, or else the colour
    that the site describes.

    Raises ConfigurationError if a person has said something else.
    """
    if said is None:
        return background(described)
    try:
        red, green, blue, *_ = ImageColor.getrgb(said)
    except ValueError:
        raise ConfigurationError(
            f"--background {said} cannot be read as a colour: write it as '#1a1a1a' or black"
        ) from None
    return red, green, blue


def on_ground(image: Pillow.Image, ground: tuple[int, int, int]) -> Pillow.Image:
    """Returns an image of RGBA on a ground of this colour, in RGB."""
    whole = Pillow.new("RGB", image.size, ground)
    whole.paste(image, mask=image)
    return whole


def picture_of(body: bytes) -> bytes:
    """Returns the part of an image that a person is to see: the bytes as they are, or a PNG of a part.

    Only an image that holds more than a picture is unpacked, so the call costs nearly nothing for any other.
    Raises one of `UNREADABLE` if the image that is unpacked is not a tile.
    """
    size = _png_size(body)
    if size is None or not _holds_more(*size):
        return body
    part = io.BytesIO()
    unpacked(body).save(part, "PNG", compress_level=_COMPRESSION)
    return part.getvalue()


def packed(image: Pillow.Image, kind: str, ground: tuple[int, int, int]) -> bytes:
    """Returns an image of RGBA as a file of this kind, `png`, `jpg` or `webp`, without loss. JPEG has loss,
    and a ground of this colour."""
    body = io.BytesIO()
    if kind == "jpg":
        on_ground(image, ground).save(body, "JPEG", quality=_QUALITY)
    else:
        image.save(body, kind, lossless=True, method=0)
    return body.getvalue()


def unpacked(body: bytes) -> Pillow.Image:
    """Returns the part of an image that a person is to see, in RGBA. Raises one of `UNREADABLE`."""
    with opened(body) as image:
        whole = image.convert("RGBA")
    if not _holds_more(*whole.size):
        return whole
    # The last column and the last row repeat the first ones of the neighbours.
    side = whole.width - 1
    return whole.crop((0, 0, side, side))


def _holds_more(width: int, height: int) -> bool:
    """Returns whether an image holds more than a picture.

    BlueMap has light and heights below it, in an image of (n + 1) x 2 (n + 1) pixels (`LowresTile.java`).
    No other renderer draws tiles that are twice as high as they are wide.
    """
    return width > 1 and height == 2 * width

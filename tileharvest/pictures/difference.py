"""Pictures of a place before and after, side by side, with frames around the parts that differ."""

from __future__ import annotations

from typing import Final, TypeAlias

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont

GAP: Final = 8
HEADING: Final = 32
_TEXT: Final = 18
_PAPER: Final = "#ffffff"
_INK: Final = "#202020"
_FRAME: Final = "#ff00c8"
"""No block of the game has this colour."""
CELL: Final = 3
"""The width in pixels of a cell, whose pixels are compared as one, and of the line of a frame."""
_NOTICEABLE: Final = 12
"""The least difference of two cells that counts, of 255. Lossy images of the same thing differ by a few."""


Half: TypeAlias = tuple[str, Image.Image]
"""One side of a picture: its heading, and its image in RGB."""


def differing_cells(before: Image.Image, after: Image.Image) -> Image.Image:
    """Returns a mask with a pixel for each cell, which is 255 if the two images differ noticeably there. Both
    images have one size."""
    red, green, blue = ImageChops.difference(before, after).split()
    strongest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return strongest.reduce(CELL).point([255 if value >= _NOTICEABLE else 0 for value in range(256)])


def frame_around(differing: Image.Image) -> Image.Image:
    """Returns a mask, in pixels, of frames around the cells that differ, a few pixels away from them."""
    # Cells that lie close together share a frame, so that not each leaf of a tree has its own.
    around = differing.filter(ImageFilter.MaxFilter(7))
    frame = ImageChops.subtract(around.filter(ImageFilter.MaxFilter(3)), around)
    return frame.resize((frame.width * CELL, frame.height * CELL), Image.Resampling.NEAREST)


def side_by_side(before: Half, after: Half, frame: Image.Image) -> Image.Image:
    """Returns both halves below their headings, with the frame in each."""
    width, height = before[1].size
    whole = Image.new("RGB", (2 * width + GAP, height + HEADING), _PAPER)
    frame = frame.crop((0, 0, width, height))
    draw = ImageDraw.Draw(whole)
    for left, (heading, image) in ((0, before), (width + GAP, after)):
        whole.paste(image, (left, HEADING))
        whole.paste(_FRAME, (left, HEADING), frame)
        draw.text((left + GAP, HEADING // 2), heading, _INK, ImageFont.load_default(_TEXT), "lm")
    return whole

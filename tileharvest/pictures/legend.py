"""The legend of a picture: its title, its day and a scale bar, each on a dark plate."""

from __future__ import annotations

from math import cos, hypot, log10, radians
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageDraw, ImageFont

from tileharvest.errors import ConfigurationError, counted
from tileharvest.renderers.xyz import latitude_of

if TYPE_CHECKING:
    from tileharvest.tiles.layers import Size
    from tileharvest.tiles.projection import Projection

_PLATE: Final = (0, 0, 0, 150)
_INK: Final = (255, 255, 255, 255)
_LINES: Final = 32
"""The number of lines of text that fit into the picture's shorter edge."""
_SMALLEST: Final = 10
"""The least height in pixels of a line that can be read."""
_METRES: Final = 111_319.49
"""The length of a degree of longitude at the equator, on the sphere of web maps with its radius of 6,378,137
m."""
_WIDEST: Final = 0.22
"""The largest share of the picture's width that the bar may take."""
_FONTS: Final = (
    "NotoSansCJK-Regular.ttc",
    "NotoSansSC-Regular.otf",
    "wqy-microhei.ttc",
    "msyh.ttc",
    "PingFang.ttc",
    "DejaVuSans.ttf",
)
"""Fonts of operating systems with signs that Pillow's own font lacks, in the order in which they are
tried."""


class Legend:
    """Writes title, day and scale bar on pictures of one size."""

    def __init__(self, size: Size, title: str = "", bar: tuple[int, str] | None = None) -> None:
        """`bar` is the answer of `scale_bar`. Raises ConfigurationError if no font has all signs of the
        title."""
        self._size = size
        line = max(_SMALLEST, min(size) // _LINES)
        self._font = _font(title, line)
        self._margin = line // 2
        self._title = self._plate(title) if title else None
        self._bar = None if bar is None else self._bar_plate(*bar)
        self._stamp: tuple[str, Image.Image] | None = None

    def write(self, image: Image.Image, stamp: str) -> None:
        """Writes on a picture of RGB: the title at the top, the stamp and the bar at the bottom."""
        (width, height), margin = self._size, self._margin
        if self._stamp is None or self._stamp[0] != stamp:
            self._stamp = stamp, self._plate(stamp)
        plate = self._stamp[1]
        image.paste(plate, (margin, height - margin - plate.height), plate)
        if self._title is not None:
            image.paste(self._title, (margin, margin), self._title)
        if self._bar is not None:
            place = width - margin - self._bar.width, height - margin - self._bar.height
            image.paste(self._bar, place, self._bar)

    def _plate(self, text: str) -> Image.Image:
        pad = self._margin // 2
        left, _, right, _ = self._font.getbbox(text)
        # The font's own height makes all plates equally high, whatever their letters are.
        ascent, descent = self._font.getmetrics()
        width = min(self._size[0] - 2 * self._margin, round(right - left) + 2 * pad)
        plate = Image.new("RGBA", (max(1, width), ascent + descent + 2 * pad), _PLATE)
        ImageDraw.Draw(plate).text((pad - left, pad), text, _INK, self._font)
        return plate

    def _bar_plate(self, length: int, text: str) -> Image.Image:
        words, pad = self._plate(text), self._margin // 2
        plate = Image.new("RGBA", (max(words.width, length + 2 * pad), words.height + 2 * pad), _PLATE)
        plate.paste(words, ((plate.width - words.width) // 2, 0))
        draw, thick = ImageDraw.Draw(plate), max(2, pad // 3)
        left, bottom = (plate.width - length) // 2, plate.height - pad // 2
        draw.rectangle((left, bottom - thick, left + length - 1, bottom - 1), _INK)
        for end in (left, left + length - thick):
            draw.rectangle((end, bottom - 3 * thick, end + thick - 1, bottom - 1), _INK)
        return plate


def scale_bar(
    projection: Projection | None,
    point: tuple[float, float],
    pixel: float,
    width: int,
    *,
    on_earth: bool,
) -> tuple[int, str] | None:
    """Returns the length of a scale bar in pixels and its text, or None if the projection is not known.

    `pixel` is the width of a pixel in grid units, `point` the place of the grid for which the bar is right,
    and `width` the picture's width in pixels. On an isometric map the bar measures along the picture's
    horizontal.
    """
    if projection is None:
        return None
    (east, south), (other_east, other_south) = (
        projection.place_at(x, point[1]) for x in (point[0], point[0] + pixel)
    )
    length = hypot(other_east - east, other_south - south)
    unit = "block"
    if on_earth:
        length, unit = (other_east - east) * _METRES * cos(radians(latitude_of(south))), "m"
    if length <= 0:
        return None
    number = _round(_WIDEST * width * length)
    if number is None:
        return None
    if unit == "block":
        text = counted(number, "block")
    else:
        text = f"{number // 1000:,} km" if number >= 1000 else f"{number} m"
    return max(1, round(number / length)), text


def _round(most: float) -> int | None:
    """Returns the largest of 1, 2, 5, 10, 20 ... that is not above `most`, or None if `most` is below 1."""
    if most < 1:
        return None
    ten: int = 10 ** int(log10(most) + 1e-9)
    return max(ten * step for step in (1, 2, 5) if ten * step <= most)


def _font(text: str, line: int) -> ImageFont.FreeTypeFont:
    own = ImageFont.load_default(line)
    assert isinstance(own, ImageFont.FreeTypeFont)
    if _has_all(own, text):
        return own
    for name in _FONTS:
        try:
            font = ImageFont.truetype(name, line)
        except OSError:
            continue
        if _has_all(font, text):
            return font
    raise ConfigurationError(
        "no font of this computer has all signs of the title: install one that has, such as fonts-noto-cjk"
    )


def _has_all(font: ImageFont.FreeTypeFont, text: str) -> bool:
    """Returns whether a font has every sign of a text. A sign that it lacks looks like a sign that no font
    has."""

    def drawn(sign: str) -> bytes:
        image = Image.new("L", (2 * _SMALLEST, 2 * _SMALLEST))
        ImageDraw.Draw(image).text((0, 0), sign, 255, font)
        return image.tobytes()

    lacking = drawn("\U0010fffd")
    return not any(drawn(sign) == lacking for sign in set(text) if not sign.isspace())

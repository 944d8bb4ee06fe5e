"""The legend of a picture: its title and its day, each on a dark plate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PIL import Image, ImageDraw, ImageFont

from tileharvest.errors import ConfigurationError

if TYPE_CHECKING:
    from tileharvest.tiles.layers import Size

_PLATE: Final = (0, 0, 0, 150)
_INK: Final = (255, 255, 255, 255)
_LINES: Final = 32
"""The number of lines of text that fit into the picture's shorter edge."""
_SMALLEST: Final = 10
"""The least height in pixels of a line that can be read."""
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
    """Writes title and day on pictures of one size."""

    def __init__(self, size: Size, title: str = "") -> None:
        """Raises ConfigurationError if no font has all signs of the title."""
        line = max(_SMALLEST, min(size) // _LINES)
        self._font = _font(title, line)
        self._margin = line // 2
        self._widest = size[0] - 2 * self._margin
        self._title = self._plate(title) if title else None

    def write(self, image: Image.Image, stamp: str) -> None:
        """Writes on a picture of RGB: the title at the top, the stamp at the bottom."""
        plate, margin = self._plate(stamp), self._margin
        image.paste(plate, (margin, image.height - margin - plate.height), plate)
        if self._title is not None:
            image.paste(self._title, (margin, margin), self._title)

    def _plate(self, text: str) -> Image.Image:
        pad = self._margin // 2
        left, _, right, _ = self._font.getbbox(text)
        # The font's own height makes all plates equally high, whatever their letters are.
        ascent, descent = self._font.getmetrics()
        width = min(self._widest, round(right - left) + 2 * pad)
        plate = Image.new("RGBA", (max(1, width), ascent + descent + 2 * pad), _PLATE)
        ImageDraw.Draw(plate).text((pad - left, pad), text, _INK, self._font)
        return plate


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

"""Sprites: the pictures of single blocks, painted pixel by pixel.

A block is 24 x 24 pixels, as Overviewer draws it. Its top is a rhombus of 24 x 12 pixels. Below lie its left
and its right face, each 12 pixels wide and 12 high. Rhombi that lie (12, 6) pixels apart join without a gap.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Mapping

Colour: TypeAlias = tuple[int, int, int]


class Material(NamedTuple):
    """The look of one kind of block."""

    top: Colour
    side: Colour
    grain: float
    """The share by which the brightness differs from spot to spot."""
    pattern: str
    """How its faces are painted: `turf`, `rows`, `window`, `door`, `water`, or plain."""


MATERIALS: Final[Mapping[str, Material]] = {
    name: Material(tuple(look["top"]), tuple(look["side"]), look["grain"], look["pattern"])
    for name, look in json.loads((resources.files(__package__) / "materials.json").read_bytes()).items()
}
"""All materials by name. Names that end in `_0`, `_1`, ... are a scale: water by depth, turf by lushness."""
SIDE: Final = 24
"""Pixels along each edge of a sprite."""
VARIANTS: Final = 4
"""How many sprites of one material there are, which differ in their grain."""
SHADES: Final = 7
"""The number of shades, from 0 (full light) to 6 (the deepest shadow)."""

_HALF: Final = SIDE // 2
_LIGHT: Final = {"top": 1.0, "left": 0.86, "right": 0.68}
"""The brightness of each face: the sun stands to the upper left."""
_PANE: Final = (126, 178, 206)
_WOOD: Final = (104, 72, 46)
_MASK: Final = 0xFFFFFFFF


@lru_cache(maxsize=1 << 16)
def chance(seed: int, x: int, z: int) -> float:
    """Returns a number from 0 up to, but not including, 1, that follows from a seed and a place.

    The numbers of neighbouring places look independent of each other. The mixing steps are those of
    `lowbias32` (C. Wellons, "Prospecting for Hash Functions").
    """
    n = (x * 0x1F123BB5 ^ z * 0x9E3779B1 ^ seed * 0x85EBCA6B) & _MASK
    n = (n ^ n >> 16) * 0x7FEB352D & _MASK
    n = (n ^ n >> 15) * 0x846CA68B & _MASK
    return (n ^ n >> 16) / (_MASK + 1)


@cache
def sprite(name: str, variant: int, shade: int) -> Image.Image:
    """Returns the picture of a block, transparent around it. It is made once, and nobody may change it."""
    if shade:
        # Shadows are a little blue, as under an open sky.
        light = 1 - 0.068 * shade
        factors = (light - 0.012 * shade, light, light + 0.02 * shade, 1.0)
        table = [min(255, round(value * factor)) for factor in factors for value in range(256)]
        return sprite(name, variant, 0).point(table)
    image, material = Image.new("RGBA", (SIDE, SIDE)), MATERIALS[name]
    for x in range(SIDE):
        reach = (min(x, SIDE - 1 - x) + 1) // 2
        for y in range(6 - reach, 6 + reach):
            across, down = (x - _HALF + 2 * y) // 2, (2 * y - x + _HALF) // 2
            image.putpixel((x, y), _spot(material, variant, "top", across % _HALF, down % _HALF))
        face = "left" if x < _HALF else "right"
        for row in range(_HALF):
            image.putpixel((x, 6 + reach + row), _spot(material, variant, face, x % _HALF, row))
    return image


def _spot(material: Material, variant: int, face: str, u: int, v: int) -> Colour:
    """Returns the colour of a face at the pixel (u, v); both go from 0 to 11. The grain is that of
    Minecraft's 16 x 16 textures."""
    colour, brightness = _painted(material, variant, u, v, is_top=face == "top")
    place = u // 2 + 8 * (v // 2) + 64 * variant
    brightness *= 1 + material.grain * (chance(len(face), place, sum(material.top)) - 0.5)
    red, green, blue = (max(0, min(255, round(part * brightness * _LIGHT[face]))) for part in colour)
    return red, green, blue


def _painted(material: Material, variant: int, u: int, v: int, *, is_top: bool) -> tuple[Colour, float]:
    """Returns the colour of a pixel, and its brightness by the pattern."""
    colour = material.top if is_top else material.side
    match material.pattern:
        case "turf" if not is_top and v < 5 + 2 * ((u // 2 + variant) % 3):
            return material.top, 0.95
        case "rows":
            return colour, 0.86 if v % 4 == 3 or (u + v // 4 * 3) % 6 == 5 else 1.0
        case "water":
            return colour, 1.14 if is_top and variant == 0 and v == 5 and 3 <= u <= 7 else 1.0
        case "window" if not is_top and 2 <= u <= 9 and 2 <= v <= 9:
            is_frame = u in (2, 9) or v in (2, 9)
            return (_WOOD, 1.0) if is_frame else (_PANE, 1.25 if u + v < 10 else 1.0)
        case "door" if not is_top and 2 <= u <= 9:
            return _WOOD, 0.85 if u % 3 == 2 else 1.0
    return colour, 1.0


def below(surface: str, depth: int) -> str:
    """Returns the material `depth` blocks under a column's surface, for the sides of cliffs. The depth is at
    least 1."""
    if surface.startswith("water"):
        bed = 1 + int(surface[-1]) // 3
        return surface if depth <= bed else "sand" if depth == bed + 1 else "stone"
    if surface in ("stone", "snow") or depth > 2:
        return "stone"
    return "sand" if surface == "sand" else "earth"

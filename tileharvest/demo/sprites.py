"""Sprites: the pictures of single blocks, painted pixel by pixel.

A block is 24 x 24 pixels, as Overviewer draws it. Its top is a rhombus of 24 x 12 pixels. Below lie its left
and its right face, each 12 pixels wide and 12 high. Rhombi that lie (12, 6) pixels apart join without a gap.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from PIL import Image

from tileharvest.demo.materials import MATERIALS, Colour, Material, Pattern
from tileharvest.demo.noise import chance

SIDE: Final = 24
"""Pixels along each edge of a sprite."""
VARIANTS: Final = 4
"""How many sprites of one material there are, which differ in their grain."""
SHADES: Final = 7
"""The number of shades, from 0 (full light) to 6 (the deepest shadow)."""

_HALF: Final = SIDE // 2
_LIGHT: Final = {"top": 1.0, "left": 0.86, "right": 0.68}
"""The brightness of each face: the sun stands to the upper left."""
_SPOT: Final = 2
"""Pixels, each way, of a spot that has one brightness: the grain of Minecraft's 16 x 16 textures."""
_PANE: Final = (126, 178, 206)
_WOOD: Final = (104, 72, 46)


@cache
def sprite(name: str, variant: int, shade: int) -> Image.Image:
    """Returns the picture of a block, transparent around it. It is made once, and nobody may change it."""
    if shade:
        return sprite(name, variant, 0).point(_shadow(shade))
    material = MATERIALS[name]
    match material.pattern:
        case Pattern.PLANT:
            return _plant(material, variant)
        case Pattern.POLE:
            return _pole(material)
        case _:
            return _cube(material, variant)


def _shadow(shade: int) -> list[int]:
    """Returns a table for Pillow's `point`: the value in shadow of each value of a channel.

    Shadows are a little blue, as under an open sky.
    """
    light = 1 - 0.068 * shade
    factors = (light - 0.012 * shade, light, light + 0.02 * shade, 1.0)
    return [min(255, round(value * factor)) for factor in factors for value in range(256)]


def _cube(material: Material, variant: int) -> Image.Image:
    """Paints a cube. This costs about 0.5 ms."""
    image = Image.new("RGBA", (SIDE, SIDE))
    for x in range(SIDE):
        upper, lower = _edges(x)
        for y in range(upper, lower):
            across, down = (x - _HALF + 2 * y) // 2, (2 * y - x + _HALF) // 2
            image.putpixel((x, y), _spot(material, variant, "top", across % _HALF, down % _HALF))
        face = "left" if x < _HALF else "right"
        for row in range(_HALF):
            image.putpixel((x, lower + row), _spot(material, variant, face, x % _HALF, row))
    return image


def _edges(x: int) -> tuple[int, int]:
    """Returns the first row of the top in this column of pixels, and the first row below it."""
    reach = (min(x, SIDE - 1 - x) + 1) // 2
    return 6 - reach, 6 + reach


def _spot(material: Material, variant: int, face: str, u: int, v: int) -> Colour:
    """Returns the colour of a face at the pixel (u, v); both go from 0 to 11."""
    colour, brightness = _painted(material, variant, face, u, v)
    place = (u // _SPOT) + 8 * (v // _SPOT) + 64 * variant
    brightness *= 1 + material.grain * (chance(len(face), place, sum(material.top)) - 0.5)
    return _scaled(colour, brightness * _LIGHT[face])


def _painted(material: Material, variant: int, face: str, u: int, v: int) -> tuple[Colour, float]:
    top = face == "top"
    colour = material.top if top else material.side
    match material.pattern:
        case Pattern.TURF:
            hangs = not top and v < 5 + 2 * ((u // 2 + variant) % 3)
            return (material.top if hangs else colour), 0.95 if hangs else 1.0
        case Pattern.PLANKS:
            return colour, 0.84 if v % 4 == 3 else 1.0
        case Pattern.BRICKS:
            return colour, 0.86 if v % 4 == 3 or (u + v // 4 * 3) % 6 == 5 else 1.0
        case Pattern.SHINGLES:
            joint = v % 4 == 3 or (u + v // 4 * 2) % 4 == 3
            return colour, (1.08 if top else 0.98) * (0.86 if joint else 1.0)
        case Pattern.LOG:
            return colour, 1.0 if top else (0.86 if u % 4 == 1 else 1.0)
        case Pattern.FURROWS:
            return colour, 0.8 if top and u % 4 == 3 else 1.0
        case Pattern.WATER:
            glint = top and variant == 0 and v == 5 and 3 <= u <= 7
            return colour, 1.14 if glint else 1.0
        case Pattern.WINDOW:
            return _window(colour, top, u, v)
        case Pattern.DOOR:
            return (_WOOD, 0.85 if u % 3 == 2 else 1.0) if not top and 2 <= u <= 9 else (colour, 1.0)
        case _:
            return colour, 1.0


def _window(wall: Colour, top: bool, u: int, v: int) -> tuple[Colour, float]:
    if top or not (2 <= u <= 9 and 2 <= v <= 9):
        return wall, 1.0
    if u in (2, 9) or v in (2, 9):
        return _WOOD, 1.0
    return _PANE, 1.25 if u + v < 10 else 1.0


def _plant(material: Material, variant: int) -> Image.Image:
    image = Image.new("RGBA", (SIDE, SIDE))
    for stalk in range(4):
        x = 6 + int(chance(stalk, variant, 1) * 12)
        foot = 17 + int(chance(stalk, variant, 2) * 4)
        head = foot - 4 - int(chance(stalk, variant, 3) * 4)
        image.paste(material.side, (x, head, x + 1, foot))
        image.paste(material.top, (x, head, x + 2, head + 2))
    return image


def _pole(material: Material) -> Image.Image:
    image = Image.new("RGBA", (SIDE, SIDE))
    image.paste(_scaled(material.side, _LIGHT["left"]), (_HALF - 2, 5, _HALF, 19))
    image.paste(_scaled(material.side, _LIGHT["right"]), (_HALF, 5, _HALF + 2, 19))
    return image


def _scaled(colour: Colour, brightness: float) -> Colour:
    red, green, blue = colour
    return _byte(red * brightness), _byte(green * brightness), _byte(blue * brightness)


def _byte(value: float) -> int:
    return max(0, min(255, round(value)))

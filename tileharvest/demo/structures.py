"""The structures that stand on the ground: houses, towers, boats, trees. Pure: each is blocks by place.

`floor` is the height of the ground on which a structure stands; it fills no block below floor + 1. Where two
parts share a spot, the later block takes the place of the earlier one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tileharvest.demo.noise import chance

if TYPE_CHECKING:
    from collections.abc import Iterator

Built: TypeAlias = dict[tuple[int, int, int], str]
"""The name of each block's material, by x, height and z."""


def house(x: int, z: int, width: int, length: int, floor: int, wall: str, roof: str, top: int = 3) -> Built:
    """Builds a house with a gabled roof, whose ridge runs along z. Its corner of least x and z is at (x, z),
    and its walls are `top` blocks high."""
    built: Built = {}
    xs, zs = range(x, x + width), range(z, z + length)
    for a, b in _rim(xs, zs):
        is_corner = a in (xs[0], xs[-1]) and b in (zs[0], zs[-1])
        for y in range(1, top + 1):
            plain = f"{wall}_window" if y % 3 == 2 and (a + b) % 2 else wall
            built[a, floor + y, b] = "beam" if is_corner else plain
    for y in (1, 2):
        built[xs[len(xs) // 2], floor + y, zs[-1]] = f"{wall}_door"
    for step in range((width + 3) // 2):
        for side in range(step - 1, width + 1 - step):
            is_slope = side in (step - 1, width - step)
            for b in range(z - is_slope, z + length + is_slope):
                built[x + side, floor + top + 1 + step, b] = roof if is_slope else wall
    chimney = range(floor + top + 1, floor + top + width // 2 + 4)
    return built | {(x + width // 2 + 1, y, z + 1): "brick" for y in chimney}


def tower(x: int, z: int, side: int, height: int, floor: int, wall: str, roof: str) -> Built:
    """Builds a square tower with a pointed roof. Its corner of least x and z is at (x, z)."""
    built: Built = {}
    for y in range(floor + 1, floor + height + 1):
        built |= _slab(x, z, side, y, wall)
        if (y - floor) % 4 == 0:
            built[x, y, z + side // 2] = built[x + side // 2, y, z + side - 1] = f"{wall}_window"
    for step in range((side + 3) // 2):
        built |= _slab(x - 1 + step, z - 1 + step, side + 2 - 2 * step, floor + height + 1 + step, roof)
    return built


def castle(x: int, z: int, floor: int) -> Built:
    """Builds a castle with its middle at (x, z): walls of 15 x 15 blocks, four towers, and a keep."""
    built: Built = {}
    for a, b in _rim(range(x - 7, x + 8), range(z - 7, z + 8)):
        for y in range(floor + 1, floor + 6 + (a + b) % 2):
            built[a, y, b] = "masonry"
    for y in (1, 2, 3):
        built[x, floor + y, z + 7] = built[x - 1, floor + y, z + 7] = "masonry_door"
    for a in (x - 8, x + 5):
        for b in (z - 8, z + 5):
            built |= tower(a, b, 4, 8, floor, "masonry", "roof_slate")
    built |= tower(x - 3, z - 4, 7, 12, floor, "plaster", "roof_red")
    built |= {(x, floor + 17 + y, z - 1): "beam" for y in range(4)}
    return built | {(x + a, floor + y, z - 1): "cloth_red" for a in (1, 2, 3) for y in (19, 20)}


def church(x: int, z: int, floor: int) -> Built:
    """Builds a church: a nave with a spire before it. Its corner of least x and z is at (x, z)."""
    spire = tower(x + 1, z + 9, 4, 13, floor, "whitewash", "roof_slate")
    return house(x, z, 6, 9, floor, "whitewash", "roof_slate", top=6) | spire


def lighthouse(x: int, z: int, floor: int) -> Built:
    """Builds a lighthouse: a red and white tower around (x, z) with its light at the top."""
    built: Built = {}
    for y in range(1, 16):
        reach = 2 if y < 10 else 1
        built |= _slab(
            x - reach, z - reach, 2 * reach + 1, floor + y, "cloth_red" if y // 3 % 2 else "cloth_white"
        )
    built |= _slab(x - 2, z - 2, 5, floor + 16, "deck")
    built |= _slab(x - 1, z - 1, 3, floor + 17, "lamp") | _slab(x - 1, z - 1, 3, floor + 18, "lamp")
    return built | _slab(x - 1, z - 1, 3, floor + 19, "roof_red") | {(x, floor + 20, z): "roof_red"}


def windmill(x: int, z: int, floor: int) -> Built:
    """Builds a windmill around (x, z), with its sails to the lower right."""
    built = tower(x - 2, z - 2, 5, 10, floor, "whitewash", "roof_red") | {(x, floor + 9, z + 3): "beam"}
    for right, up in ((1, 1), (-1, 1), (1, -1), (-1, -1)):
        for step in range(1, 6):
            built[x + right * step, floor + 9 + up * step, z + 4] = "beam"
            if step > 1:
                built[x + right * (step - 1), floor + 9 + up * step, z + 4] = "cloth_white"
    return built


def boat(x: int, z: int, cloth: str) -> Built:
    """Builds a boat on the sea, seven blocks long along z."""
    built = {(x + a, 1, z + b): "deck" for a in range(3) for b in range(7) if a == 1 or 0 < b < 6}
    built |= {(x + 1, y, z + 3): "beam" for y in range(2, 9)}
    return built | {(x + 1, y, z + b): cloth for y in range(3, 8) for b in range(4, 4 + max(1, (9 - y) // 2))}


def tree(x: int, z: int, floor: int, kind: str) -> Built:
    """Builds a tree. A fir is a cone; the other kinds have round crowns."""
    height = 3 + int(chance(7, x, z) * 3)
    reaches = (2, 1, 2, 1, 1, 0, 0) if kind == "fir" else (1, 2, 2, 1)
    leaves = {
        (x + a, floor + height - 1 + y, z + b): f"leaves_{kind}"
        for y, reach in enumerate(reaches)
        for a in range(-reach, reach + 1)
        for b in range(-reach, reach + 1)
        if abs(a) + abs(b) <= reach or (kind != "fir" and chance(7 + y, x + a, z + b) < 0.55)
    }
    return leaves | {(x, floor + y, z): "beam" for y in range(1, height + 1)}


def _slab(x: int, z: int, side: int, y: int, name: str) -> Built:
    return {(a, y, b): name for a in range(x, x + side) for b in range(z, z + side)}


def _rim(xs: range, zs: range) -> Iterator[tuple[int, int]]:
    return ((x, z) for x in xs for z in zs if x in (xs[0], xs[-1]) or z in (zs[0], zs[-1]))

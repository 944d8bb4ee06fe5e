"""The structures that stand on the ground: houses, towers, boats, trees. Pure: each is blocks by place.

`floor` is the height of the ground on which a structure stands; it fills no block below floor + 1. Where two
parts share a spot, the later block takes the place of the earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tileharvest.demo.noise import chance

if TYPE_CHECKING:
    from collections.abc import Iterator

Built = dict[tuple[int, int, int], str]
"""The name of each block's material, by x, height and z."""

_STOREY: Final = 3
"""Blocks from one floor to the next."""


@dataclass(frozen=True, slots=True)
class House:
    """A house with a gabled roof. Its corner of least x and z is at (x, z).

    Raises ValueError for a house that has no room inside.
    """

    x: int
    z: int
    width: int
    """Blocks along x, walls included."""
    length: int
    """Blocks along z, walls included."""
    wall: str
    roof: str
    storeys: int = 1

    def __post_init__(self) -> None:
        if min(self.width, self.length) < 3 or self.storeys < 1:
            raise ValueError(f"{self} has no room inside")

    def build(self, floor: int) -> Built:
        top = floor + _STOREY * self.storeys
        built = self._walls(floor, top) | self._roof(top + 1)
        return built | self._chimney(top)

    def _walls(self, floor: int, top: int) -> Built:
        xs, zs = range(self.x, self.x + self.width), range(self.z, self.z + self.length)
        built: Built = {}
        for x, z in _rim(xs, zs):
            corner = x in (xs[0], xs[-1]) and z in (zs[0], zs[-1])
            for y in range(floor + 1, top + 1):
                built[x, y, z] = "beam" if corner else self._wall_at(x + z, y - floor)
        door = xs[len(xs) // 2]
        built[door, floor + 1, zs[-1]] = built[door, floor + 2, zs[-1]] = f"{self.wall}_door"
        return built

    def _wall_at(self, along: int, height: int) -> str:
        return f"{self.wall}_window" if height % _STOREY == 2 and along % 2 else self.wall

    def _roof(self, eaves: int) -> Built:
        """Builds the roof. Its ridge runs along the longer side, and the walls go up into the gables."""
        lengthwise = self.length >= self.width
        across, along = (self.width, self.length) if lengthwise else (self.length, self.width)
        built: Built = {}
        for step in range((across + 3) // 2):
            for side in range(step - 1, across + 1 - step):
                slope = side in (step - 1, across - step)
                for run in range(-1 if slope else 0, along + (1 if slope else 0)):
                    x, z = (side, run) if lengthwise else (run, side)
                    built[self.x + x, eaves + step, self.z + z] = self.roof if slope else self.wall
        return built

    def _chimney(self, top: int) -> Built:
        x, z = self.x + self.width // 2 + (self.length >= self.width), self.z + 1
        return {(x, y, z): "brick" for y in range(top + 1, top + min(self.width, self.length) // 2 + 4)}


def cuboid(xs: range, ys: range, zs: range, name: str) -> Built:
    return {(x, y, z): name for x in xs for y in ys for z in zs}


@dataclass(frozen=True, slots=True)
class Tower:
    """A square tower with a pointed roof. Its corner of least x and z is at (x, z).

    Raises ValueError for a tower without walls.
    """

    x: int
    z: int
    side: int
    height: int
    roof: str
    wall: str = "masonry"

    def __post_init__(self) -> None:
        if min(self.side, self.height) < 1:
            raise ValueError(f"{self} has no walls")

    def build(self, floor: int) -> Built:
        x, z, side = self.x, self.z, self.side
        ys = range(floor + 1, floor + self.height + 1)
        built = cuboid(range(x, x + side), ys, range(z, z + side), self.wall)
        for y in ys[3::4]:
            for spot in ((x, y, z + side // 2), (x + side // 2, y, z + side - 1)):
                built[spot] = f"{self.wall}_window"
        for step in range((side + 3) // 2):
            width = range(-1 + step, side + 1 - step)
            built |= _slab(_shifted(width, x), ys[-1] + 1 + step, _shifted(width, z), self.roof)
        return built


def _slab(xs: range, y: int, zs: range, name: str) -> Built:
    return {(x, y, z): name for x in xs for z in zs}


def flag(x: int, y: int, z: int, cloth: str) -> Built:
    """Builds a flag on a pole whose foot is at y."""
    return {(x, y + step, z): "pole" for step in range(4)} | {
        (x + step, y + 3 - row, z): cloth for step in (1, 2, 3) for row in (0, 1)
    }


def castle(x: int, z: int, floor: int) -> Built:
    """Builds a castle with its middle at (x, z).

    Walls of 15 x 15 blocks stand around a keep. The gate is to the lower right.
    """
    xs, zs = range(x - 7, x + 8), range(z - 7, z + 8)
    built: Built = {}
    for a, b in _rim(xs, zs):
        for y in range(floor + 1, floor + 6 + (a + b) % 2):
            built[a, y, b] = "masonry"
    for y in (floor + 1, floor + 2, floor + 3):
        built |= {(x, y, zs[-1]): "masonry_door", (x - 1, y, zs[-1]): "masonry_door"}
    for a in (xs[0] - 1, xs[-1] - 2):
        for b in (zs[0] - 1, zs[-1] - 2):
            built |= Tower(a, b, 4, 8, "roof_slate").build(floor)
    built |= Tower(x - 3, z - 4, 7, 12, "roof_red", "plaster").build(floor)
    built |= flag(x, floor + 17, z - 1, "cloth_red")
    return built | flag(xs[0], floor + 11, zs[-1] - 1, "cloth_yellow")


def church(x: int, z: int, floor: int) -> Built:
    """Builds a church: a nave along x with a spire at its lower left end.

    Its corner of least x and z is at (x, z).
    """
    nave = House(x + 4, z, 9, 6, "whitewash", "roof_slate", storeys=2).build(floor)
    spire = Tower(x, z + 1, 4, 13, "roof_slate", "whitewash").build(floor)
    return nave | spire | {(x + 1, floor + 16 + y, z + 2): "lamp" for y in (1, 2)}


def windmill(x: int, z: int, floor: int) -> Built:
    """Builds a windmill: a white tower around (x, z) with its sails to the lower right."""
    built: Built = {}
    for y in range(floor + 1, floor + 11):
        reach = 2 if y < floor + 8 else 1
        xs, zs = range(x - reach, x + reach + 1), range(z - reach, z + reach + 1)
        built |= {(a, y, b): "whitewash" for a in xs for b in zs if abs(a - x) + abs(b - z) < 2 * reach}
    built |= {(x, floor + 5, z + 2): "whitewash_window", (x, floor + 1, z + 2): "whitewash_door"}
    built |= {(x, floor + 2, z + 2): "whitewash_door", (x - 2, floor + 4, z): "whitewash_window"}
    for step in range(3):
        width = range(step - 2, 3 - step)
        built |= _slab(_shifted(width, x), floor + 11 + step, _shifted(width, z), "roof_red")
    hub = floor + 9
    built[x, hub, z + 3] = "beam"
    for right, up in ((1, 1), (-1, 1), (1, -1), (-1, -1)):
        for step in range(1, 6):
            built[x + right * step, hub + up * step, z + 3] = "beam"
            if step > 1:
                built[x + right * (step - 1), hub + up * step, z + 3] = "cloth_white"
    return built


def lighthouse(x: int, z: int, floor: int) -> Built:
    """Builds a lighthouse: a red and white tower around (x, z) with its light at the top."""
    built: Built = {}
    for y in range(1, 16):
        reach = 2 if y < 10 else 1
        name = "cloth_red" if y // 3 % 2 else "cloth_white"
        for a in range(-reach, reach + 1):
            for b in range(-reach, reach + 1):
                if abs(a) + abs(b) < 2 * reach or reach == 1:
                    built[x + a, floor + y, z + b] = name
    around = range(-2, 3)
    built |= _slab(_shifted(around, x), floor + 16, _shifted(around, z), "deck")
    inner = range(-1, 2)
    built |= cuboid(_shifted(inner, x), range(floor + 17, floor + 19), _shifted(inner, z), "lamp")
    built |= _slab(_shifted(inner, x), floor + 19, _shifted(inner, z), "roof_red")
    return built | {(x, floor + 20, z): "roof_red"}


def well(x: int, z: int, floor: int) -> Built:
    """Builds a well, four blocks wide, under a small roof."""
    built = {(a, floor + 1, b): "masonry" for a, b in _rim(range(x, x + 4), range(z, z + 4))}
    built |= _slab(range(x + 1, x + 3), floor + 1, range(z + 1, z + 3), "water_1")
    for a in (x, x + 3):
        for y in (2, 3):
            built[a, floor + y, z + 1] = "pole"
    built |= _slab(range(x, x + 4), floor + 4, range(z, z + 4), "roof_teal")
    return built | _slab(range(x, x + 4), floor + 5, range(z + 1, z + 3), "roof_teal")


def stall(x: int, z: int, floor: int, cloth: str) -> Built:
    """Builds a market stall under a striped awning of 4 x 3 blocks."""
    posts = [(x, z), (x + 3, z), (x, z + 2), (x + 3, z + 2)]
    built = {(a, floor + y, b): "pole" for a, b in posts for y in (1, 2)}
    built |= {(x + step, floor + 1, z + 1): "deck" for step in range(4)}
    for a in range(4):
        for b in range(3):
            built[x + a, floor + 3, z + b] = "cloth_white" if a % 2 else cloth
    return built


def boat(x: int, z: int, cloth: str) -> Built:
    """Builds a boat on the sea, seven blocks long along z."""
    built = {(x + a, 1, z + b): "deck" for a in range(3) for b in range(1, 6)}
    built |= {(x + 1, 1, z): "deck", (x + 1, 1, z + 6): "deck"}
    built |= {(x + 1, y, z + 3): "pole" for y in range(2, 9)}
    return built | {(x + 1, y, z + b): cloth for y in range(3, 8) for b in range(4, 4 + max(1, (9 - y) // 2))}


def tree(x: int, z: int, floor: int, kind: str, seed: int) -> Built:
    """Builds a tree. A fir is a cone; the other kinds have round crowns.

    The seed varies the height and the crown.
    """
    height = 3 + int(chance(seed, x, z) * 3)
    trunk = {(x, floor + y, z): "birch" if kind == "birch" else "trunk" for y in range(1, height + 1)}
    crown = _cone(height) if kind == "fir" else _ball(height)
    leaves = {
        (x + a, floor + y, z + b): f"leaves_{kind}"
        for a, y, b in crown
        if abs(a) + abs(b) < 3 or chance(seed + y, x + a, z + b) < 0.55
    }
    return leaves | trunk


def _ball(height: int) -> Iterator[tuple[int, int, int]]:
    for y in range(-1, 3):
        reach = 1 if y == 2 else 2
        for a in range(-reach, reach + 1):
            for b in range(-reach, reach + 1):
                if a * a + b * b + y * y <= reach * reach + 1:
                    yield a, height + y, b


def _cone(height: int) -> Iterator[tuple[int, int, int]]:
    for y, reach in enumerate((2, 1, 2, 1, 1, 0, 0)):
        for a in range(-reach, reach + 1):
            for b in range(-reach, reach + 1):
                if abs(a) + abs(b) <= reach:
                    yield a, height - 1 + y, b


def _rim(xs: range, zs: range) -> Iterator[tuple[int, int]]:
    for x in xs:
        for z in zs:
            if x in (xs[0], xs[-1]) or z in (zs[0], zs[-1]):
                yield x, z


def _shifted(numbers: range, by: int) -> range:
    return range(numbers.start + by, numbers.stop + by)

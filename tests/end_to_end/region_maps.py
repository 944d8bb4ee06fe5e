"""Published folders of squaremap and Pl3xMap, tile by tile: the truth that harvests are compared with.

Names are computed here from the numbers in the files' names, in another way than the program's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from tests.end_to_end.project import LayerTile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

LEVELS: Final = 4
"""Of all of these maps: 0 to 3, of which squaremap's last and Pl3xMap's first is the deepest."""

_FILE: Final = re.compile(r"tiles/([^/]+)/([0-3])(?:/([^/]+))?/(-?\d+)_(-?\d+)\.png")


class Place(NamedTuple):
    """A tile by its layer, the levels from it down to the deepest, and the numbers of its file."""

    layer: str
    out: int
    x: int
    z: int

    @property
    def tile(self) -> LayerTile:
        edge = 2**self.out
        return LayerTile(self.layer, -self.out, (2 * self.x + 1) * edge, -(2 * self.z + 1) * edge)

    @property
    def children(self) -> set[Place]:
        if self.out == 0:
            return set()
        xs, zs = (range(2 * number, 2 * number + 2) for number in (self.x, self.z))
        return {Place(self.layer, self.out - 1, x, z) for x in xs for z in zs}

    def around(self, places: int) -> set[Place]:
        steps = range(-places, places + 1)
        return {Place(self.layer, self.out, self.x + x, self.z + z) for x in steps for z in steps}


@dataclass(frozen=True, slots=True)
class RegionRendering:
    """A published folder, whatever is in there when it is asked."""

    folder: Path
    layers: tuple[str, ...]
    depth: int = LEVELS

    def place(self, name: str) -> Place | None:
        """The place of a file below the folder; None for what is no tile."""
        found = _FILE.fullmatch(name)
        if found is None:
            return None
        world, level, style, x, z = found.groups()
        out = int(level) if style else LEVELS - 1 - int(level)
        return Place(f"{world}/{style}" if style else world, out, int(x), int(z))

    def files(self) -> dict[Place, Path]:
        names = {file: file.relative_to(self.folder).as_posix() for file in self.folder.rglob("*.png")}
        return {place: file for file, name in names.items() if (place := self.place(name)) is not None}

    def images(self) -> dict[LayerTile, bytes]:
        """The bytes of all tiles that are there."""
        return {place.tile: file.read_bytes() for place, file in self.files().items()}

    def missing_tiles(self) -> set[LayerTile]:
        """What a walk asks for in vain: the coarsest tiles around the origin, where spawn is too, and those
        up to two places from one that is there; and what is not below one that is there."""
        there = self.files().keys()
        coarsest = [place for place in there if place.out == LEVELS - 1]
        asked = {
            Place(layer, LEVELS - 1, x, z)
            for layer in self.layers
            for x in range(-2, 2)
            for z in range(-2, 2)
        }
        asked = asked.union(*(place.around(2) for place in coarsest), *(place.children for place in there))
        return {place.tile for place in asked - there}

    def tiles_of_files(self, names: Iterable[str]) -> set[LayerTile]:
        """The tiles among names of files below the folder."""
        return {place.tile for name in names if (place := self.place(name)) is not None}


@dataclass(frozen=True, slots=True)
class RegionMap:
    """A shared map of one of the two, of which some versions are harvested in turn."""

    name: str
    renderer: str
    layers: tuple[str, ...]
    versions: range
    keys: ClassVar[Mapping[str, Any]] = {"walk": "full"}

    def rendering(self, site: Path) -> RegionRendering:
        return RegionRendering(site, self.layers)


_DUCKMAP: Final = ("minecraft_overworld", "minecraft_the_end", "minecraft_the_nether")
_SBATSERVER: Final = (
    "minecraft-overworld/vintage_story",
    "minecraft-the_nether/basic",
    "minecraft-the_end/basic",
)
DUCKMAP: Final = RegionMap("duckmap", "squaremap", _DUCKMAP, range(1, 3))
"""What was there before it was begun anew with version 3, in which it has no tiles yet."""
DUCKMAP_ANEW: Final = RegionMap("duckmap", "squaremap", _DUCKMAP, range(4, 7))
SBATSERVER: Final = RegionMap("sbatserver", "pl3xmap", _SBATSERVER, range(1, 7))

"""Published maps whose files are named by numbers, tile by tile: the truth that harvests are compared with.

Names are computed here from the numbers in the files' names, in another way than the program's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.end_to_end.project import LayerTile
from tests.renderers.unmined_exports import tiles_of
from tests.servers.plain_tiles import DEEPEST, WORLD, plain_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path


class Place(NamedTuple):
    """A tile by its layer, the levels from it down to the deepest, and its column and row."""

    layer: str
    out: int
    x: int
    z: int

    @property
    def tile(self) -> LayerTile:
        edge = 2**self.out
        return LayerTile(self.layer, -self.out, (2 * self.x + 1) * edge, -(2 * self.z + 1) * edge)

    def children(self, factor: int) -> set[Place]:
        below = product(range(factor), repeat=2) if self.out else ()
        return {Place(self.layer, self.out - 1, factor * self.x + x, factor * self.z + z) for x, z in below}

    def around(self, places: int) -> set[Place]:
        steps = product(range(-places, places + 1), repeat=2)
        return {Place(self.layer, self.out, self.x + x, self.z + z) for x, z in steps}


@dataclass(frozen=True, slots=True)
class NumberedMap:
    """A shared map of which some versions are harvested in turn."""

    name: str
    renderer: str
    layers: tuple[str, ...]
    place: Callable[[str], Place | None]
    """The place of a file below the published folder; None for what is no tile."""
    depth: int
    versions: range | None = None
    factor: int = 2
    stride: int = 0
    """How far from a coarsest tile that is there others are asked for."""
    start: tuple[tuple[int, int], ...] = ()
    """Column and row of the coarsest tiles that are asked for in any case."""
    listed: Callable[[Path], set[Place]] | None = None
    """The coarsest tiles that the site lists. Then no others are asked for than it lists."""
    entry: tuple[tuple[str, Any], ...] = ()
    asks_by_get: bool = False
    """Whether known tiles are asked by GET, too."""
    shared: str = ""
    """The name of the shared map, if it has another one here."""

    @property
    def keys(self) -> Mapping[str, Any]:
        return {"walk": "full", **dict(self.entry)}

    def rendering(self, site: Path) -> NumberedRendering:
        return NumberedRendering(site, self)


@dataclass(frozen=True, slots=True)
class NumberedRendering:
    """A published folder, whatever is in there when it is asked."""

    folder: Path
    map: NumberedMap

    @property
    def depth(self) -> int:
        return self.map.depth

    def files(self) -> dict[Place, Path]:
        names = {file.relative_to(self.folder).as_posix(): file for file in self.folder.rglob("*.*")}
        return {place: file for name, file in names.items() if (place := self.map.place(name)) is not None}

    def images(self) -> dict[LayerTile, bytes]:
        """The bytes of all tiles that are there."""
        return {place.tile: file.read_bytes() for place, file in self.files().items()}

    def missing_tiles(self) -> set[LayerTile]:
        """What a walk asks for in vain: where it starts, beside the coarsest tiles, and below all others."""
        there = self.files().keys()
        if self.map.listed is not None:
            return {place.tile for place in self.map.listed(self.folder) - there}
        top = self.map.depth - 1
        asked = {Place(layer, top, *spot) for layer in self.map.layers for spot in self.map.start}
        for place in there:
            asked |= place.children(self.map.factor)
            asked |= place.around(self.map.stride) if place.out == top else set()
        return {place.tile for place in asked - there}

    def tiles_of_files(self, names: Iterable[str]) -> set[LayerTile]:
        """The tiles among names of files below the folder."""
        return {place.tile for name in names if (place := self.map.place(name)) is not None}


def _square(first: int, last: int) -> tuple[tuple[int, int], ...]:
    return tuple(product(range(first, last), repeat=2))


_REGION: Final = re.compile(r"/?tiles/([^/]+)/([0-3])(?:/([^/]+))?/(-?\d+)_(-?\d+)\.png")
_LOWRES: Final = re.compile(r"/?maps/([^/]+)/tiles/(\d)/x(-?[\d/]+)/z(-?[\d/]+)\.png")
_ZOOMED: Final = re.compile(r"/?tiles/(world_nether/flat)/-?\d+_-?\d+/(?:(z+)_)?(-?\d+)_(-?\d+)\.png")
_UNMINED: Final = re.compile(r"/?tiles/zoom\.(-?\d+)/-?\d+/-?\d+/tile\.(-?\d+)\.(-?\d+)\.\w+")
_PLAIN: Final = re.compile(r"/?(\d)/(\d+)/(\d+)\.png")
_GROUP: Final = re.compile(r"x: (-?\d+), z: (-?\d+), m: new Uint32Array\(\[([\d,]+)\]")
_TOP: Final = -6
"""The coarsest zoom of all versions of the shared map of uNmINeD."""


def region(name: str) -> Place | None:
    """squaremap's last level is the deepest, and Pl3xMap's first."""
    if (found := _REGION.fullmatch(name)) is None:
        return None
    world, level, style, x, z = found.groups()
    out = int(level) if style else 3 - int(level)
    return Place(f"{world}/{style}" if style else world, out, int(x), int(z))


def lowres(name: str) -> Place | None:
    if (found := _LOWRES.fullmatch(name)) is None:
        return None
    level, x, z = (int(number.replace("/", "")) for number in found.groups()[1:])
    return Place(found[1], level - 1, x, z)


def zoomed(name: str) -> Place | None:
    """Dynmap counts in deepest tiles at every zoom, rows upwards. A fifth level out is never shown."""
    if (found := _ZOOMED.fullmatch(name)) is None or len(found[2] or "") > 4:
        return None
    out = len(found[2] or "")
    return Place(found[1], out, int(found[3]) >> out, -int(found[4]) >> out)


def unmined(name: str) -> Place | None:
    """Zoom 4 of uNmINeD is the deepest that any map can have."""
    if (found := _UNMINED.fullmatch(name)) is None:
        return None
    return Place("tiles", 4 - int(found[1]), int(found[2]), int(found[3]))


def unmined_tops(site: Path) -> set[Place]:
    """The coarsest tiles that the bitmap names."""
    groups = _GROUP.findall((site / "unmined.map.regions.js").read_text(encoding="utf-8"))
    regions = {
        (32 * int(x) + i, 32 * int(z) + j)
        for x, z, words in groups
        for j, word in enumerate(words.split(",")[:32])
        for i in range(32)
        if int(word) & 1 << i
    }
    return {Place("tiles", 4 - _TOP, *spot) for spot in tiles_of(_TOP, regions)}


def plain(name: str) -> Place | None:
    """The file of a plain tile, or of the tile of Overviewer that it was."""
    if (found := _PLAIN.fullmatch(plain_path(name) or name)) is None:
        return None
    zoom, x, y = map(int, found.groups())
    return Place(f"zoom{DEEPEST}", DEEPEST - zoom, x, y)


_DUCKMAP: Final = ("minecraft_overworld", "minecraft_the_end", "minecraft_the_nether")
_SBATSERVER: Final = (
    "minecraft-overworld/vintage_story",
    "minecraft-the_nether/basic",
    "minecraft-the_end/basic",
)
DUCKMAP: Final = NumberedMap(
    "duckmap", "squaremap", _DUCKMAP, region, 4, range(1, 3), stride=2, start=_square(-2, 2)
)
"""What was there before it was begun anew with version 3, in which it has no tiles yet."""
DUCKMAP_ANEW: Final = NumberedMap(
    "duckmap", "squaremap", _DUCKMAP, region, 4, range(4, 7), stride=2, start=_square(-2, 2)
)
SBATSERVER: Final = NumberedMap(
    "sbatserver", "pl3xmap", _SBATSERVER, region, 4, range(1, 7), stride=2, start=_square(-2, 2)
)
LABYRINTH: Final = NumberedMap(
    "labyrinthmc",
    "bluemap",
    ("world", "hub_rainbow"),
    lowres,
    3,
    factor=5,
    stride=1,
    start=_square(-1, 2),
    entry=(("change_index", False),),
    asks_by_get=True,
)
MROZBARRY: Final = NumberedMap(
    "mrozbarry", "dynmap", ("world_nether/flat",), zoomed, 5, stride=2, entry=(("robots", False),)
)
HELMETGREEN: Final = NumberedMap("helmetgreen", "unmined", ("tiles",), unmined, 11, listed=unmined_tops)
PLAIN_ANTS: Final = NumberedMap(
    "plain-ants",
    "xyz",
    (f"zoom{DEEPEST}",),
    plain,
    DEEPEST + 1,
    start=((0, 0),),
    entry=(("bounds", WORLD), ("site_zooms", (0, DEEPEST))),
    shared="antworld",
)

"""The demo's world: what stands where on each of its days.

On day 1 there are an island with a town, and an outpost. On day 2 a castle and a church are built, and the
outpost's chunks are deleted. A part of the land is drawn anew although it has not changed, as Overviewer does
when a chunk was saved again. On day 3 an isle is discovered so far out that the map grows by a level, and a
windmill and a lighthouse are built.

The world is a file, `island.json.gz`, as that of a server is. It has the names of `materials`; `ground`, the
uppermost block of each place; and `blocks`, all that stands on the ground. Of both it has five columns of
numbers: z, x, height, material and days, with a bit for each day. Places are counted in blocks from the
middle of the map, and heights from the sea. On the picture x grows to the right and up, and z to the right
and down, as on a real Overviewer map.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Place: TypeAlias = tuple[int, int]
"""The x and the z of a column of blocks."""

DAYS: Final = (1, 2, 3)
DEPTHS: Final[Mapping[int, int]] = {1: 3, 2: 3, 3: 4}
"""The number of levels that a square map of the world has on each day."""
SPAWN: Final = (4, 66, 30)
"""The place where players start, in the middle of the town: x, height above the world's floor, z."""
SAVED_AGAIN: Final[Mapping[int, frozenset[Place]]] = {
    2: frozenset((x, z) for x in range(-52, -42) for z in range(-34, -24))
}
"""The places that are drawn anew on a day although nothing there has changed."""


class Column(NamedTuple):
    """The ground at one place."""

    height: int
    """The height of the surface, in blocks above the sea."""
    surface: str
    """The name of the uppermost material."""


Landscape: TypeAlias = "tuple[Mapping[Place, Column], Mapping[tuple[int, int, int], str]]"
"""The ground, and the blocks on it: the name of each block's material, by x, height and z."""


def landscape(day: int) -> Landscape:
    """Returns all that is there on a day. Raises ValueError for a day that the world does not have."""
    if day not in DAYS:
        raise ValueError(f"the demo's world has the days 1 to {DAYS[-1]}, not {day}")
    world, bit = _saved(), 1 << day - 1
    names = world["materials"]
    ground, blocks = (zip(*world[kind].values(), strict=True) for kind in ("ground", "blocks"))
    return (
        {(x, z): Column(height, names[material]) for z, x, height, material, days in ground if days & bit},
        {(x, height, z): names[material] for z, x, height, material, days in blocks if days & bit},
    )


@cache
def _saved() -> Any:
    return json.loads(gzip.decompress((resources.files(__package__) / "island.json.gz").read_bytes()))

"""Maps whose deepest tiles are region files of the world: what squaremap and Pl3xMap have in common.

squaremap began as a copy of Pl3xMap, so both draw 512 x 512 blocks into a tile of as many pixels, name it by
column and row, keep their settings beside the tiles, and bring the same small server. Neither says how far
its map reaches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import msgspec

from tileharvest.errors import SiteError
from tileharvest.renderers.site import fetch_config
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.projection import Projection
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.verdict import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileharvest.renderers.site import Fetch

SETTINGS_FILE: Final = "tiles/settings.json"
REGION: Final = 512
"""Pixels along a tile's edge, and blocks along that of a deepest one: a block is a pixel."""
MOST_LEVELS: Final = 16
"""A tile of the last one is 17 million blocks wide, and a world ends 30 million blocks from its origin."""
STRIDE: Final = 2
"""How far from a coarsest tile that is there others are looked for. Of a real map the tile (-3, -2) was
there, and all others were those around (0, 0): one place lay between."""
BLOCKS: Final = Projection((2 / REGION, 0, 0, 0), (0, 0, -2 / REGION, 0))
"""Seen from above, north is up, and block 0 begins at the origin. A tile is two grid units wide."""

_EDGE: Final = 30_000_000
"""Blocks from a world's origin to its end."""
_ATTEMPTS: Final = 3
"""To read a file that its renderer may just be writing."""
_TILE: Final = re.compile(r"/(0|[1-9]\d?)(/.*)?/(0|-?[1-9]\d{0,6})_(0|-?[1-9]\d{0,6})\.(\w+)", re.ASCII)
_Form = TypeVar("_Form")


class Place(msgspec.Struct, frozen=True):
    """A column of blocks, as the settings of a world write it."""

    x: Annotated[int, msgspec.Meta(ge=-_EDGE, le=_EDGE)] = 0
    z: Annotated[int, msgspec.Meta(ge=-_EDGE, le=_EDGE)] = 0


@dataclass(frozen=True, slots=True)
class RegionAddresses:
    """Where the tiles of a world lie: a folder for each level, and column and row in the file's name."""

    folder: str
    """That of the world, without a slash at its end."""
    depth: int
    extension: str
    subfolder: str = ""
    """Stands between the level and the tile's name, such as `/basic`."""
    deepest_is_0: bool = False
    """Whether levels are counted from the deepest one, as Pl3xMap does, or from the coarsest."""

    def url_of(self, tile: Tile) -> str:
        """Raises ValueError for a tile of a coarser zoom than the map has."""
        if tile.zoom <= -self.depth:
            raise ValueError(f"tile {tile} is coarser than a map of {self.depth} levels has any")
        level = -tile.zoom if self.deepest_is_0 else self.depth - 1 + tile.zoom
        return f"{self.folder}/{level}{self.subfolder}/{tile.column}_{tile.row}.{self.extension}"

    def tile_of(self, url: str) -> Tile | None:
        path = url.partition("?")[0]
        found = _TILE.fullmatch(path.removeprefix(self.folder)) if path.startswith(self.folder) else None
        if found is None:
            return None
        level, subfolder, column, row, extension = found.groups(default="")
        if int(level) >= self.depth or (subfolder, extension) != (self.subfolder, self.extension):
            # Images of coarser levels are left over from settings that the owner has changed since.
            return None
        zoom = -int(level) if self.deepest_is_0 else int(level) - self.depth + 1
        return Tile.at(zoom, int(column), int(row))


def endless_pyramid(levels: int, places: Iterable[Place]) -> Pyramid:
    """Returns the form of a map that is searched outward from these places, and from the world's origin.

    Around the coarsest tiles that have them, and the four at the origin, the next ones are asked in any case:
    of the map's first land nobody says where it lies. Raises ValueError for too many levels.
    """
    if not 1 <= levels <= MOST_LEVELS:
        raise ValueError(f"a map of {levels} zoom levels, where 1 to {MOST_LEVELS} can be")
    first, width = 1 - levels, REGION << (levels - 1)
    squares = [TileRange.between(Tile.at(first, -1, -1), Tile.at(first, 0, 0))]
    squares += [TileRange.of(Tile.at(first, place.x // width, place.z // width)) for place in places]
    seeds = dict.fromkeys(tile for square in squares for tile in square.wider(1))
    return Pyramid.endless(levels, tuple(seeds), stride=STRIDE)


def understood(answer: Answer) -> Answer:
    """Returns the answer of the renderer's own server, as a file server would have given it.

    For an image that is missing it is 200 with an empty body and without an ETag (`IntegratedServer.java` of
    squaremap, `HttpdServer.java` of Pl3xMap). An image that is there has an ETag, even an empty one.
    """
    is_missing = answer.status == 200 and answer.length == 0 and answer.validator.etag is None
    return Answer(404) if is_missing else answer


async def fetch_settings(fetch: Fetch, url: str, form: type[_Form], title: str) -> tuple[_Form, str] | None:
    """Returns what a settings file says, and the folder in which it is, without a slash at its end.

    Returns None where there is none. Raises SiteError for what `title` has not written. Pl3xMap writes its
    files anew each second, and in place (`FileUtil.java`), so what is cut off is asked for again.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        answer = await fetch_config(fetch, url)
        if answer is None:
            return None
        try:
            read = msgspec.json.decode(answer.body, type=form)
        except msgspec.ValidationError as error:
            raise SiteError(f"{url} is not as {title} writes it: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if answer.text.lstrip().startswith("<"):
                raise SiteError(f"{url} is an HTML page: is the url in maps.toml the map's page?") from None
            if attempt == _ATTEMPTS:
                raise SiteError(f"{url} is cut off or damaged ({error}); try again later") from None
        else:
            return read, (answer.url or url).partition("?")[0].rpartition("/")[0]
    raise AssertionError("the last attempt returns or raises")

"""Images that the store has lost or damaged, and that are to be fetched anew from their sites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import bindparam, func, select, update

from tileharvest.history.schema import TILE, harvests, layers, maps, tiles, versions
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from tileharvest.history.database import History

_AT_ONCE: Final = 5_000
"""The most images in one statement."""
_SHOWN: Final = (
    select(
        versions.c.id,
        (versions.c.sha1 + "." + versions.c.extension).label("image"),
        maps.c.name.label("map"),
        layers.c.name.label("layer"),
        *(tiles.c[name] for name in TILE[1:]),
    )
    .join_from(tiles, versions, versions.c.id == tiles.c.version)
    .join(layers, layers.c.id == tiles.c.layer)
    .join(maps, maps.c.id == layers.c.map)
    .where(versions.c.sha1.in_(bindparam("names", expanding=True)))
)
_ASKED: Final = (
    select(maps.c.name, func.sum(harvests.c.requests))
    .join_from(harvests, maps, maps.c.id == harvests.c.map)
    .group_by(maps.c.name)
)
_FORGET: Final = (
    update(versions).where(versions.c.id == bindparam("its_id")).values(etag=None, last_modified=None)
)


class ShownImage(NamedTuple):
    """An image with a tile whose latest version has it."""

    image: str
    """The image's file name."""
    map: str
    layer: str
    tile: Tile
    asked: int
    """The number of requests of all harvests of the map. If it is still the same later, no harvest has asked
    for anything in the meantime."""


def ask_anew(history: History, images: Collection[str], of_maps: Collection[str]) -> list[ShownImage]:
    """Makes harvests fetch these images, given by their file names, when they next ask for tiles of these
    maps.

    Returns one tile for each image. The validators of the tile's version are forgotten, so that only equal
    bytes count as unchanged. An image that only earlier versions have is left out, because no site has it any
    more. Reads all latest versions. Raises HistoryError.
    """
    wanted = {name.partition(".")[0] for name in images}

    def forget(connection: Connection) -> list[ShownImage]:
        found: dict[str, ShownImage] = {}
        ids = []
        asked = {row[0]: int(row[1]) for row in connection.execute(_ASKED)}
        ordered = sorted(wanted)
        for start in range(0, len(ordered), _AT_ONCE):
            for row in connection.execute(_SHOWN, {"names": ordered[start : start + _AT_ONCE]}):
                if row.image in images and row.image not in found and row.map in of_maps:
                    tile = Tile(row.zoom, row.x, row.y)
                    found[row.image] = ShownImage(row.image, row.map, row.layer, tile, asked[row.map])
                    ids.append({"its_id": row.id})
        if ids:
            connection.execute(_FORGET, ids)
        return sorted(found.values())

    return history.write(forget)

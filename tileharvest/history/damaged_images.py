"""Images that the store has lost or damaged, and that are to be fetched anew from their sites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, select, update

from tileharvest.history.connection import in_parts
from tileharvest.history.recorded_versions import NamedImage
from tileharvest.history.schema import TILE, layers, maps, tiles, versions
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.versions import Image

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from tileharvest.history.database import History

_AT_ONCE: Final = 5_000
"""The most images in one statement."""
_SHOWN: Final = (
    select(
        *(versions.c[name] for name in ("id", "sha1", "extension", "size", "day")),
        maps.c.name.label("map"),
        layers.c.name.label("layer"),
        *(tiles.c[name] for name in TILE[1:]),
    )
    .join_from(tiles, versions, versions.c.id == tiles.c.version)
    .join(layers, layers.c.id == tiles.c.layer)
    .join(maps, maps.c.id == layers.c.map)
    .where(versions.c.sha1.in_(bindparam("names", expanding=True)))
)
_FORGET: Final = (
    update(versions).where(versions.c.id == bindparam("its_id")).values(etag=None, last_modified=None)
)


def ask_anew(history: History, images: Collection[Image], of_maps: Collection[str]) -> list[NamedImage]:
    """Makes harvests fetch these images when they next ask for tiles of these maps.

    Returns each image with one tile whose latest version has it, ordered by the images' file names. An image
    that only earlier versions have is left out, because no site has it any more.

    The validators of the returned versions are forgotten, so that only equal bytes count as unchanged. Reads
    all latest versions. Raises HistoryError.
    """

    def forget(connection: Connection) -> list[NamedImage]:
        found: dict[Image, NamedImage] = {}
        ids = []
        for part in in_parts(sorted({image.sha1 for image in images}), _AT_ONCE):
            for row in connection.execute(_SHOWN, {"names": part}):
                image = Image(row.sha1, row.extension, row.size)
                if image in images and image not in found and row.map in of_maps:
                    tile = Tile(row.zoom, row.x, row.y)
                    found[image] = NamedImage(image, row.map, row.layer, tile, row.day)
                    ids.append({"its_id": row.id})
        if ids:
            connection.execute(_FORGET, ids)
        return sorted(found.values(), key=lambda one: one.image.file_name)

    return history.write(forget)

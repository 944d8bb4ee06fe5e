"""Damage: values and rows of a history that a disk has changed, found by the rules between the rows, and
images that the store has lost, which are to be fetched anew."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from sqlalchemy import exc, func, select, update

from tileharvest.errors import counted
from tileharvest.history.areas import IN_SLICES
from tileharvest.history.recorded_versions import RECORDED, RecordedVersion, recorded_version
from tileharvest.history.schema import (
    VERSION,
    changes,
    is_same_tile,
    is_tile,
    its_tile,
    metadata,
    site_files,
    tiles,
    validators,
    version_of,
    versions,
)
from tileharvest.history.trust import unpack
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sqlalchemy import Connection

    from tileharvest.history.database import History
    from tileharvest.tiles.versions import Image

_MOST: Final = 20
"""The most lines of each of SQLite's own checks."""


def damage(connection: Connection) -> list[str]:
    """Returns a line for each kind of damage that is found, and no line if the history seems sound.

    Reads everything, which takes 8 s of CPU and 10 MB of memory for a million versions. SQLite also checks
    its pages, and its tables against their indexes; a PostgreSQL server with `data_checksums` does that by
    itself. Damage is not found in values that are stored only once and may be any other value: costs, what a
    site said of a layer, and why a tile failed.
    """
    found: list[str] = []
    for look in (_of_sqlite, _of_values, _of_versions, _of_counts):
        try:
            found += look(connection)
        except (ValueError, TypeError, zlib.error, exc.DatabaseError) as error:
            found.append(" ".join(str(getattr(error, "orig", None) or error).split()))
    return list(dict.fromkeys(found))


def _of_sqlite(connection: Connection) -> Iterator[str]:
    if connection.dialect.name != "sqlite":
        return
    for (line,) in connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST})"):
        if line != "ok":
            yield " ".join(line.removeprefix("*** in database main ***").split())
    lost = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(_MOST)
    for table, _, parent, _ in lost:
        yield f"a row of {table} names one of {parent} that is not there"


def _of_values(connection: Connection) -> list[str]:
    """Reads all but the large tables, so that each value is converted to its Python type."""
    for table in metadata.sorted_tables:
        if table not in (versions, changes, tiles):
            for row in connection.execute(select(table), execution_options={"yield_per": 100}).mappings():
                if table is validators:
                    unpack(row["packed"])
                elif table is site_files:
                    zlib.decompress(row["body"])
    return []


def _of_versions(connection: Connection) -> Iterator[str]:
    place = (versions.c.zoom, versions.c.x, versions.c.y)
    for row in connection.execute(select(*place, *VERSION), execution_options=IN_SLICES):
        Tile(*row[:3])
        version_of(row[3:])
    other = versions.alias("other")
    is_later = select(other.c.id).where(is_same_tile(other, versions), other.c.day > versions.c.day)
    misdirected = connection.execute(
        select(func.count())
        .join_from(tiles, versions, versions.c.id == tiles.c.version)
        .where(~is_same_tile(versions, tiles) | is_later.exists())
    ).scalar_one()
    if misdirected:
        yield f"{counted(misdirected, 'tile')} with a version that is not the latest one of the tile"


def _of_counts(connection: Connection) -> Iterator[str]:
    """Compares the counts of changes with the versions, from which they follow."""
    counts = []
    for table, number in ((versions, func.count()), (changes, func.sum(changes.c.tiles))):
        key = [table.c[name] for name in ("layer", "zoom", "day")]
        rows = connection.execute(select(*key, number).group_by(*key))
        counts.append({tuple(row[:-1]): int(row[-1]) for row in rows})
    if counts[0] != counts[1]:
        yield "the counts of changes per day are not those of the versions"


_FORGET: Final = (
    update(versions)
    .where(versions.c.id == select(tiles.c.version).where(is_tile(tiles)).scalar_subquery())
    .values(etag=None, last_modified=None)
)


def ask_anew(history: History, images: Collection[Image], of_maps: Collection[str]) -> list[RecordedVersion]:
    """Makes harvests fetch these images when they next ask for tiles of these maps.

    Returns each image with one tile whose latest version has it, ordered by the images' file names. An image
    that only earlier versions have is left out, because no site has it any more.

    The validators of the returned versions are forgotten, so that only equal bytes count as unchanged. Reads
    all latest versions.
    """

    query = RECORDED.add_columns(tiles.c.layer).join(tiles, tiles.c.version == versions.c.id)

    def forget(connection: Connection) -> list[RecordedVersion]:
        found: dict[Image, RecordedVersion] = {}
        forgotten = []
        for *row, layer in connection.execute(query.where(versions.c.sha1.is_not(None))):
            one = recorded_version(row)
            if one.image in images and one.image not in found and one.map_name in of_maps:
                found[one.image] = one
                forgotten.append(its_tile(layer, one.tile.zoom, one.tile.x, one.tile.y))
        if forgotten:
            connection.execute(_FORGET, forgotten)
        return sorted(found.values(), key=lambda one: one.image.file_name)

    return history.write(forget)

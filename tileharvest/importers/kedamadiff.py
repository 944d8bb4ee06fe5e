"""KedamaDiff's archives: the records and images of the script that this project continues.

An archive is the folder that holds `data/` and `images/`, or such a place on S3:

- `images/SAVENAME/YYYYMMDD/FILE`, an image for each version of a tile;
- `data/SAVENAME/crawl_records.sqlite3` with a row for each of them (`util/update_history_DBConn.py` of
  xmoiduts/KedamaDiff), or, of older archives, `update_history.json` with `latest_ETag.json`.

FILE is `-3_-440_216.jpg`: zoom, x and y in our grid. Until February 2018 it was Overviewer's path, such as
`_1_2_2_2_0_0_2_0.jpg`.
"""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore

from tileharvest.errors import ConfigurationError, StoreError, TileHarvestError
from tileharvest.store.s3 import connected, failure_line, parse_s3_url
from tileharvest.tiles.grid import Tile, tile_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from obstore.store import ObjectStore

ZONE: Final = "Asia/Shanghai"
"""The time zone of an archive's days, unless the owner has changed the script's configuration."""

_RECORDS: Final = "crawl_records.sqlite3"
_UPDATES: Final = "update_history.json"
_LATEST: Final = "latest_ETag.json"
_USUAL_ZOOM: Final = -3
"""The zoom of an archive whose files are named by paths. KedamaDiff's own configuration has no other."""
_S3: Final = "s3://"
_PART: Final = 1 << 20
"""The bytes of a file that are copied at a time."""
_DAY: Final = re.compile(r"\d{8}", re.ASCII)
_PATH: Final = re.compile(r"(?:_[0-3])+", re.ASCII)

# KedamaDiff writes False and True. SQLite keeps them as words before version 3.23, and as numbers since.
_FROM: Final = "FROM crawl_records WHERE deleted IS NULL OR lower(CAST(deleted AS TEXT)) NOT IN ('1', 'true')"
_ROWS: Final = (
    f"SELECT file_name, crawled_at, ETag, zoom_level, coord_x, coord_y {_FROM} ORDER BY crawled_at, rowid"
)


class ArchivedTile(NamedTuple):
    """A record of an archive: on its day the tile was new, or differed from before."""

    tile: Tile
    file: str
    """The name of its image in the folder of the day."""
    etag: str | None
    """The ETag of the last answer with these bytes, which may have come on a later day."""


class ArchiveFiles:
    """Reads the files of an archive. Names are relative to the archive, with slashes. Threads may share an
    object.

    Methods raise StoreError if a file is there and cannot be read.
    """

    def __init__(self, place: str) -> None:
        """`place` is a folder or `s3://bucket/prefix`. Endpoint and credentials for S3 come from the
        environment. Raises ConfigurationError for any other place."""
        self.place = place.rstrip("/")
        self._prefix = ""
        self._store: ObjectStore
        if place.startswith(_S3):
            bucket, prefix = parse_s3_url(place, "the archive's address")
            self._prefix = f"{prefix}/" if prefix else ""
            self._store = connected(bucket)
            return
        folder = Path(place)
        if not folder.is_dir():
            raise ConfigurationError(f"there is no folder {place}; nothing was changed")
        self._store = LocalStore(folder.absolute())

    def read(self, name: str) -> bytes | None:
        """Returns the bytes of a file, or None if there is no such file."""
        with self._reading(name):
            try:
                return bytes(obstore.get(self._store, self._prefix + name).bytes())
            except FileNotFoundError:
                return None

    def has(self, name: str) -> bool:
        """Returns whether the file is there."""
        with self._reading(name):
            try:
                obstore.head(self._store, self._prefix + name)
            except FileNotFoundError:
                return False
            return True

    def folders(self, name: str) -> list[str]:
        """Returns the names of the folders in a folder, sorted. Returns none if the folder is missing."""
        with self._reading(name):
            found = obstore.list_with_delimiter(self._store, self._prefix + name)
        return sorted(folder.rstrip("/").rpartition("/")[2] for folder in found["common_prefixes"])

    def copy(self, name: str, target: Path) -> None:
        """Copies a file to `target`, a part at a time. The file must exist."""
        with self._reading(name), target.open("wb") as file:
            for part in obstore.get(self._store, self._prefix + name).stream(min_chunk_size=_PART):
                file.write(part)

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            # Obstore's own text may hold secrets of S3. For a folder a fixed hint will do.
            said = failure_line(error) if self.place.startswith(_S3) else "check its rights and its disk"
            raise StoreError(
                f"{self.place}/{name} cannot be read: {said}; what was imported is kept"
            ) from None


@dataclass(frozen=True, slots=True)
class KedamaDiffArchive:
    """The records of one map in an archive. `open` returns such an object."""

    files: ArchiveFiles
    savename: str
    """The name of the map's folders."""
    records: Path | None
    """A copy of the database with the records; None for an archive of the older form."""
    zoom: int = _USUAL_ZOOM
    """The zoom of files that are named by paths."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """What the archive says of the map, if it does: `map_name`, `total_depth`, `renderer` and `rotation`."""

    @classmethod
    @contextmanager
    def open(
        cls, files: ArchiveFiles, savename: str | None = None, zoom: int = _USUAL_ZOOM
    ) -> Iterator[KedamaDiffArchive]:
        """Opens the archive for the duration of a block. Its database is copied for that time.

        Raises ConfigurationError if there is no archive, if there are several and `savename` does not say
        which, and if the archive has several rotations. Raises TileHarvestError if the database cannot be
        read.
        """
        name = _named(files, savename)
        place = f"data/{name}/{_RECORDS}"
        if not files.has(place):
            yield cls(files, name, None, zoom)
            return
        with TemporaryDirectory(prefix="tileharvest-") as folder:
            copy = Path(folder, _RECORDS)
            files.copy(place, copy)
            with _readable(files, place):
                attributes = _attributes(copy)
                rotations = _rotations(copy)
            if len(rotations) > 1:
                # The images of a tile have the same name in all rotations.
                raise ConfigurationError(
                    f"{files.place}/{place} has records of the rotations {' and '.join(rotations)}, and their"
                    " images share their names, so that nobody can tell them apart; nothing was imported:"
                    " make an archive of one rotation, in which the rows of the others are deleted"
                )
            if rotations:
                attributes["rotation"] = rotations[0]
            yield cls(files, name, copy, zoom, attributes)

    @property
    def source(self) -> str:
        """The name of this source in the history."""
        return f"kedamadiff {self.savename}"

    def image(self, day: date, file: str) -> bytes | None:
        """Returns the bytes of an image, or None if the archive lacks it. Raises TileHarvestError."""
        return self.files.read(f"images/{self.savename}/{day:%Y%m%d}/{file}")

    def count(self) -> int:
        """Returns the number of the archive's days. Raises as `days` does."""
        with _readable(self.files, f"data/{self.savename}"):
            if self.records is None:
                return len({day for day, _ in self._of_json()})
            with closing(sqlite3.connect(f"{self.records.as_uri()}?mode=ro", uri=True)) as connection:
                return int(connection.execute(f"SELECT count(DISTINCT crawled_at) {_FROM}").fetchone()[0])

    def days(self) -> Iterator[tuple[date, list[ArchivedTile]]]:
        """Yields the days in order, with the records of each. If a tile has several records of a day, the
        last one counts.

        Holds the records of one day in memory; for an archive of the older form, all records. Raises
        TileHarvestError for records that cannot be read.
        """
        with _readable(self.files, f"data/{self.savename}"):
            rows = self._of_json() if self.records is None else self._of_database(self.records)
            for day, records in groupby(rows, key=lambda row: row[0]):
                yield day, list({one.tile: one for _, one in records}.values())

    def _of_database(self, file: Path) -> Iterator[tuple[date, ArchivedTile]]:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            for name, day, etag, zoom, x, y in connection.execute(_ROWS):
                yield _day(str(day)), ArchivedTile(Tile(zoom, x, y), name, _quoted(etag))

    def _of_json(self) -> Iterator[tuple[date, ArchivedTile]]:
        folder = f"data/{self.savename}"
        updates = json.loads(self.files.read(f"{folder}/{_UPDATES}") or b"{}")
        latest = json.loads(self.files.read(f"{folder}/{_LATEST}") or b"{}")
        rows: list[tuple[date, ArchivedTile]] = []
        for name, saved in updates.items():
            tile = tile_of(name, self.zoom)
            newest = latest.get(name, {}).get("ETag")
            for number, one in enumerate(saved, start=1):
                etag = newest if newest and number == len(saved) else one.get("ETag")
                day = _day(one["Save_in"].rstrip("/").rpartition("/")[2])
                rows.append((day, ArchivedTile(tile, name, _quoted(etag))))
        # The sort is stable, so that a file's records of one day keep their order.
        return iter(sorted(rows, key=lambda row: row[0]))


def tile_of(file: str, zoom: int) -> Tile:
    """Returns the tile of an image's name. `zoom` is the zoom of names that are paths.

    A path has as many digits as the map had levels down to that zoom at the time, so the map's depth need not
    be known. Raises ValueError for any other name.
    """
    stem = file.rpartition(".")[0]
    if _PATH.fullmatch(stem) is None:
        return Tile.parse(stem)
    path = stem.replace("_", "/")
    at_deepest = tile_at(path, path.count("/"))
    return Tile.at(zoom, at_deepest.column, at_deepest.row)


def _named(files: ArchiveFiles, savename: str | None) -> str:
    names = [
        name
        for name in files.folders("data")
        if any(files.has(f"data/{name}/{file}") for file in (_RECORDS, _UPDATES))
    ]
    if savename is None and len(names) == 1:
        return names[0]
    if savename in names:
        return str(savename)
    if not names:
        raise ConfigurationError(
            f"{files.place} is not an archive of KedamaDiff: no data/SAVENAME/{_RECORDS} or {_UPDATES} is"
            " there; nothing was changed"
        )
    there = ", ".join(names)
    raise ConfigurationError(
        f"{files.place} has the maps {there}: say which with --savename, such as --savename {names[0]}"
    )


def _attributes(file: Path) -> dict[str, Any]:
    """Returns what the database says of its map. Databases that other programs have written lack these
    tables."""
    found: dict[str, Any] = {}
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        for table in ("map_attributes", "last_update"):
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                cursor = connection.execute(f"SELECT * FROM {table} WHERE id = 1")  # noqa: S608 - our own words
                names = [column[0] for column in cursor.description]
                found |= dict(zip(names, cursor.fetchone() or (), strict=False))
    return found


def _rotations(file: Path) -> list[str]:
    """Returns the rotations of Mapcrafter that the records name."""
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        rows = connection.execute(f"SELECT DISTINCT map_rotation {_FROM}").fetchall()
    return sorted(rotation for (rotation,) in rows if rotation)


def _day(text: str) -> date:
    if _DAY.fullmatch(text) is None:
        raise ValueError(f"'{text}' is not a day such as 20180202")
    return datetime.strptime(text, "%Y%m%d").date()  # noqa: DTZ007 - a day has no time


def _quoted(etag: str | None) -> str | None:
    """Returns an ETag with its quotes, which records that a person has corrected may lack."""
    if not etag:
        return None
    return etag if etag.endswith('"') else f'"{etag}"'


@contextmanager
def _readable(files: ArchiveFiles, place: str) -> Iterator[None]:
    """Raises TileHarvestError, which names the place, if records are not as KedamaDiff writes them."""
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise TileHarvestError(
            f"the records in {files.place}/{place} cannot be read ({error}); what was imported before is"
            " kept; mend or restore them and import again"
        ) from error

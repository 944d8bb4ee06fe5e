"""KedamaDiff's archives: the records and images of the script that this project continues.

An archive is the folder that holds `data/` and `images/`:

- `images/SAVENAME/YYYYMMDD/FILE`, an image for each version of a tile;
- `data/SAVENAME/crawl_records.sqlite3` with a row for each of them (`util/update_history_DBConn.py` of
  xmoiduts/KedamaDiff), or, of older archives, `update_history.json` with `latest_ETag.json`.

FILE is `-3_-440_216.jpg`: zoom, x and y in our grid. Until February 2018 it was Overviewer's path, such as
`_1_2_2_2_0_0_2_0.jpg`.

Each day on which the archive saved images becomes a day of the history. It says nothing of tiles that did not
change or that vanished, so only the changes of these days are known.
"""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from hashlib import sha1
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tileharvest.errors import (
    ConfigurationError,
    HistoryError,
    SiteError,
    StoreError,
    TileHarvestError,
    counted,
)
from tileharvest.harvest.walks import kept_in_words, walk_over
from tileharvest.history.imported_day import ImportedDay, ImportedTile, imported_days, record_day
from tileharvest.history.outlines import map_outline
from tileharvest.importers.snapshot import in_parts
from tileharvest.renderers.registry import RENDERERS, USUAL
from tileharvest.tiles.grid import Tile, least_depth, tile_at
from tileharvest.tiles.images import identify, size_of
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tileharvest.history.database import History
    from tileharvest.history.outlines import MapOutline
    from tileharvest.importers.imported_map import ImportWatch
    from tileharvest.maps.description import MapDescription
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.versions import Image

ZONE: Final = "Asia/Shanghai"
"""The time zone of an archive's days, unless the owner has changed the script's configuration."""

_RECORDS: Final = "crawl_records.sqlite3"
_UPDATES: Final = "update_history.json"
_LATEST: Final = "latest_ETag.json"
_ZOOM: Final = -3
"""The zoom of an archive whose files are named by paths. KedamaDiff's own configuration has no other."""
_COARSEST: Final = -64
"""The coarsest zoom that any map may have. The numbers of a zoom far beyond it would not fit into memory."""
_DAY: Final = re.compile(r"\d{8}", re.ASCII)
_PATH: Final = re.compile(r"(?:_[0-3])+", re.ASCII)

# KedamaDiff writes False and True. SQLite keeps them as words before version 3.23, and as numbers since.
_FROM: Final = "FROM crawl_records WHERE deleted IS NULL OR lower(CAST(deleted AS TEXT)) NOT IN ('1', 'true')"
_ROWS: Final = (
    f"SELECT file_name, crawled_at, ETag, zoom_level, coord_x, coord_y {_FROM} ORDER BY crawled_at, rowid"
)

_AT_ONCE: Final = 64
"""The number of images that are read and stored together."""
_ROTATION: Final = "tl"
"""The rotation of Mapcrafter's maps that KedamaDiff harvests."""


class ArchivedTile(NamedTuple):
    """A record of an archive: on its day the tile was new, or differed from before."""

    tile: Tile
    file: str
    """The name of its image in the folder of the day."""
    etag: str | None
    """The ETag of the last answer with these bytes, which may have come on a later day."""


@dataclass(frozen=True, slots=True)
class KedamaDiffArchive:
    """The records of one map in an archive. `open` returns such an object."""

    folder: Path
    savename: str
    """The name of the map's folders."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """What the archive says of the map, if it does: `map_name`, `total_depth`, `renderer` and `rotation`."""

    @classmethod
    def open(cls, folder: Path, savename: str | None = None) -> KedamaDiffArchive:
        """Opens the archive.

        Raises ConfigurationError if there is no archive, if there are several and `savename` does not say
        which, and if the archive has several rotations. Raises TileHarvestError if the database cannot be
        read.
        """
        if not folder.is_dir():
            raise ConfigurationError(f"there is no folder {folder}; nothing was changed")
        archive = cls(folder, _named(folder, savename))
        if not archive._records.exists():
            return archive
        with archive._opened() as connection:
            attributes = _attributes(connection)
            rows = connection.execute(f"SELECT DISTINCT map_rotation {_FROM}").fetchall()
        rotations = sorted(rotation for (rotation,) in rows if rotation)
        if len(rotations) > 1:
            # The images of a tile have the same name in all rotations.
            raise ConfigurationError(
                f"{archive._records} has records of the rotations {' and '.join(rotations)}, and their images"
                " share their names, so that nobody can tell them apart; nothing was imported: make an"
                " archive of one rotation, in which the rows of the others are deleted"
            )
        if rotations:
            attributes["rotation"] = rotations[0]
        return cls(folder, archive.savename, attributes)

    @property
    def source(self) -> str:
        """The name of this source in the history."""
        return f"kedamadiff {self.savename}"

    def image(self, day: date, file: str) -> bytes | None:
        """Returns the bytes of an image, or None if the archive lacks it. Raises StoreError."""
        place = self.folder / "images" / self.savename / f"{day:%Y%m%d}" / file
        try:
            return place.read_bytes()
        except (FileNotFoundError, ValueError):
            # No file has a zero byte in its name.
            return None
        except OSError as error:
            raise StoreError(
                f"{place} cannot be read: {error.strerror}; what was imported is kept"
            ) from error

    def days(self) -> Iterator[tuple[date, list[ArchivedTile]]]:
        """Yields the days in order, with the records of each. If a tile has several records of a day, the
        last one counts.

        Holds the records of one day in memory; for an archive of the older form, all records. Raises
        TileHarvestError for records that cannot be read.
        """
        with _readable(self._data):
            rows = self._of_database() if self._records.exists() else self._of_json()
            for day, records in groupby(rows, key=lambda row: row[0]):
                yield day, list({one.tile: one for _, one in records}.values())

    @property
    def _data(self) -> Path:
        return self.folder / "data" / self.savename

    @property
    def _records(self) -> Path:
        return self._data / _RECORDS

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        address = f"{self._records.absolute().as_uri()}?mode=ro"
        with _readable(self._records), closing(sqlite3.connect(address, uri=True)) as connection:
            yield connection

    def _of_database(self) -> Iterator[tuple[date, ArchivedTile]]:
        with self._opened() as connection:
            for name, day, etag, zoom, x, y in connection.execute(_ROWS):
                if zoom < _COARSEST:
                    raise ValueError(f"zoom {zoom} is coarser than any map's")
                yield _day(str(day)), ArchivedTile(Tile(zoom, x, y), str(name), etag or None)

    def _of_json(self) -> Iterator[tuple[date, ArchivedTile]]:
        updates, latest = (
            json.loads(file.read_bytes()) if file.exists() else {}
            for file in (self._data / _UPDATES, self._data / _LATEST)
        )
        rows: list[tuple[date, ArchivedTile]] = []
        for name, saved in updates.items():
            tile = tile_of(name)
            newest = latest.get(name, {}).get("ETag")
            for number, one in enumerate(saved, start=1):
                etag = newest if newest and number == len(saved) else one.get("ETag")
                day = _day(one["Save_in"].rstrip("/").rpartition("/")[2])
                rows.append((day, ArchivedTile(tile, name, etag or None)))
        # The sort is stable, so that a file's records of one day keep their order.
        return iter(sorted(rows, key=lambda row: row[0]))


def tile_of(file: str) -> Tile:
    """Returns the tile of an image's name.

    A path has as many digits as the map had levels down to that zoom at the time, so the map's depth need not
    be known. Raises ValueError for any other name.
    """
    stem = file.rpartition(".")[0]
    if _PATH.fullmatch(stem) is None:
        return Tile.parse(stem)
    path = stem.replace("_", "/")
    at_deepest = tile_at(path, path.count("/"))
    return Tile.at(_ZOOM, at_deepest.column, at_deepest.row)


def _named(folder: Path, savename: str | None) -> str:
    names = sorted(
        {file.parent.name for one in (_RECORDS, _UPDATES) for file in folder.glob(f"data/*/{one}")}
    )
    if savename is None and len(names) == 1:
        return names[0]
    if savename in names:
        return str(savename)
    if not names:
        raise ConfigurationError(
            f"{folder} is not an archive of KedamaDiff: no data/SAVENAME/{_RECORDS} or {_UPDATES} is there;"
            " nothing was changed"
        )
    raise ConfigurationError(
        f"{folder} has the maps {', '.join(names)}: say which with --savename, such as --savename {names[0]}"
    )


def _attributes(connection: sqlite3.Connection) -> dict[str, Any]:
    """Returns what the database says of its map. Databases that other programs have written lack these
    tables."""
    found: dict[str, Any] = {}
    for table in ("map_attributes", "last_update"):
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            cursor = connection.execute(f"SELECT * FROM {table} WHERE id = 1")  # noqa: S608 - our own words
            names = [column[0] for column in cursor.description]
            found |= dict(zip(names, cursor.fetchone() or (), strict=False))
    return found


def _day(text: str) -> date:
    if _DAY.fullmatch(text) is None:
        raise ValueError(f"'{text}' is not a day such as 20180202")
    return datetime.strptime(text, "%Y%m%d").date()  # noqa: DTZ007 - a day has no time


@contextmanager
def _readable(place: Path) -> Iterator[None]:
    """Raises TileHarvestError, which names the place, if records are not as KedamaDiff writes them."""
    try:
        yield
    except (sqlite3.Error, OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise TileHarvestError(
            f"the records in {place} cannot be read ({error}); what was imported before is kept; mend or"
            " restore them and import again"
        ) from error


def import_kedamadiff(
    archive: KedamaDiffArchive,
    description: MapDescription,
    history: History,
    store: TileStore,
    now: datetime,
    watch: ImportWatch,
    layer: str | None = None,
) -> int:
    """Imports all days of an archive that were not imported yet, or whose records have changed since, oldest
    first.

    `layer` is the layer of the archive's tiles. None: the map's only layer, or the one that the archive
    names. Each day is one transaction, so that a killed import goes on with the next day. Returns the number
    of records that were left out because the map does not keep their tiles, by its zooms and zones. Raises
    ConfigurationError if nobody says to which layer the archive belongs, SiteError if the map keeps none of
    its tiles, StoreError, HistoryError, and TileHarvestError for records that cannot be read.
    """
    known: MapOutline | None = None
    with suppress(HistoryError):
        # Fails if nothing was ever harvested.
        known = map_outline(history, description.name)
    name = _layer_name(archive, description, known, layer)
    usual = RENDERERS.get(str(archive.attributes.get("renderer")).lower(), USUAL).name
    renderer = description.renderer or (known and known.renderer) or usual
    done = imported_days(history, description.name, archive.source)
    # The archive may have been written east of the map.
    latest = now.astimezone(description.zone_info).date() + timedelta(days=1)
    watch.expects(sum(1 for _ in archive.days()))
    base: Layer | None = None
    outside, is_any = 0, bool(done)
    for day, records in archive.days():
        state = _state(records)
        if day > latest:
            watch.left_out(day, "the day has not begun")
        elif done.get(day) != state:
            base = base or _described(archive, name, known, day, records)
            with _readable(archive.folder):
                depth = int(archive.attributes.get("total_depth") or base.depth)
                deepest = max(depth, *(least_depth(one.tile) for one in records))
                there = replace(base, pyramid=Pyramid(deepest))
            areas = walk_over(description, there).kept()
            kept = [one for one in records if any(one.tile in area for area in areas)]
            outside += len(records) - len(kept)
            images, stored_bytes = _stored(archive, store, day, kept, watch)
            missing, is_any = len(kept) - len(images), is_any or bool(kept)
            if images:
                record = record_day(
                    history,
                    ImportedDay(
                        map_name=description.name,
                        source=archive.source,
                        # A missing image may be found again. The state then differs, and the day is imported
                        # anew.
                        state=f"{state}, {missing} missing" if missing else state,
                        day=day,
                        imported=now,
                        renderer=renderer,
                        layers=[there],
                        tiles=[
                            ImportedTile(name, one.tile, image, Validator(one.etag)) for one, image in images
                        ],
                        kept=kept_in_words(description),
                        stored_bytes=stored_bytes,
                    ),
                )
                watch.recorded(day, record)
            elif kept:
                watch.left_out(day, f"none of its {counted(missing, 'image')} can be read")
        watch.passed()
    if outside and not is_any:
        raise SiteError(
            f"map '{description.name}' keeps none of the tiles of {archive.savename}, by its zooms and zones"
            " in maps.toml; nothing was imported"
        )
    return outside


def _stored(
    archive: KedamaDiffArchive,
    store: TileStore,
    day: date,
    records: Sequence[ArchivedTile],
    watch: ImportWatch,
) -> tuple[list[tuple[ArchivedTile, Image]], int]:
    """Stores the images of the records. Returns each record that has one with its image, and the bytes that
    were not in the store before. The watch learns of the others."""
    found: list[tuple[ArchivedTile, Image]] = []
    stored_bytes = 0
    for part in in_parts(records, _AT_ONCE):
        bodies: dict[Image, bytes] = {}
        for one in part:
            body = archive.image(day, one.file)
            if body is None:
                watch.lacks(day, one.file, "the archive has no such image")
                continue
            try:
                image = identify(body)
            except ValueError as error:
                watch.lacks(day, one.file, f"the file is not an image: {error}")
                continue
            bodies[image] = body
            found.append((one, image))
        stored_bytes += sum(image.size for image in store.put(bodies))
    return found, stored_bytes


def _layer_name(
    archive: KedamaDiffArchive, description: MapDescription, known: MapOutline | None, wanted: str | None
) -> str:
    kept, there = description.layers, [layer.name for layer in known.layers] if known else []
    own = archive.attributes.get("map_name") or None
    if own and archive.attributes.get("renderer") == "Mapcrafter":
        own = f"{own}/{archive.attributes.get('rotation', _ROTATION)}"
    only = [names[0] for names in (kept, there) if len(names) == 1]
    name = wanted or next(iter([*only, own]), None)
    if name is None:
        raise ConfigurationError(
            f"which layer of map '{description.name}' is the archive of? add --layer, such as --layer"
            f" {next(iter([*kept, *there]), 'world/day')}; nothing was changed"
        )
    if kept and name not in kept:
        raise ConfigurationError(
            f"map '{description.name}' keeps the layers {', '.join(kept)} by maps.toml, and not '{name}';"
            " nothing was changed"
        )
    return str(name)


def _described(
    archive: KedamaDiffArchive,
    name: str,
    known: MapOutline | None,
    day: date,
    records: Sequence[ArchivedTile],
) -> Layer:
    """Returns the layer as the history describes it on a day, or else as the archive's first image shows."""
    if known is not None and (layer := known.layer(name)) is not None:
        return layer.described(day)
    for one in records:
        with suppress(ValueError):
            body = archive.image(day, one.file) or b""
            return Layer(name, Pyramid(1), identify(body).extension, tile_size=size_of(body))
    return Layer(name, Pyramid(1), "jpg")


def _state(records: Sequence[ArchivedTile]) -> str:
    """Returns a text that differs for different records."""
    text = "\n".join(sorted(f"{one.file} {one.etag}" for one in records))
    return sha1(text.encode(), usedforsecurity=False).hexdigest()

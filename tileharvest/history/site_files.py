"""The small files that a renderer writes beside its tiles, as they were on the site on each day."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import Date, bindparam, delete, func, insert, select

from tileharvest.history.outlines import own_map_id
from tileharvest.history.schema import harvests, maps, site_files
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from sqlalchemy import Connection

    from tileharvest.history.database import History

MOST_BYTES: Final = 1024 * 1024
"""The largest file that is kept. A larger one is fetched anew each time."""

_OF_MAP: Final = site_files.c.map == bindparam("its_map")
_LAST_DAY: Final = select(func.max(site_files.c.day)).where(_OF_MAP, site_files.c.day <= bindparam("until"))
_FILES: Final = select(site_files).where(_OF_MAP, site_files.c.day == _LAST_DAY.scalar_subquery())
_COPIED: Final = ("map", "url", "etag", "last_modified", "body")
_COPY: Final = insert(site_files).from_select(
    ["day", *_COPIED],
    select(bindparam("to_day", type_=Date), *(site_files.c[name] for name in _COPIED)).where(
        _OF_MAP, site_files.c.day == bindparam("from_day")
    ),
)
_FORGET: Final = delete(site_files).where(_OF_MAP, site_files.c.day == bindparam("its_day"))
_NEXT_HARVEST: Final = select(func.min(harvests.c.day)).where(
    harvests.c.map == bindparam("its_map"), harvests.c.day > bindparam("its_day")
)


class SiteFile(NamedTuple):
    """A file as the site sent it."""

    validator: Validator
    body: bytes

    @property
    def is_worth_keeping(self) -> bool:
        """Whether it is small enough to be kept."""
        return len(self.body) <= MOST_BYTES


MISSING: Final = SiteFile(Validator(etag=""), b"")
"""The value for a file that was looked for and was not there."""


def site_files_of(history: History, map_name: str, day: date) -> dict[str, SiteFile]:
    """Returns by address the files that the map's last harvest up to that day has looked for."""
    with history.reading() as connection:
        map_id = connection.execute(select(maps.c.id).where(maps.c.name == map_name)).scalar()
        rows = connection.execute(_FILES, {"its_map": map_id, "until": day}).all()
    return {
        row.url: SiteFile(Validator(row.etag, row.last_modified), zlib.decompress(row.body)) for row in rows
    }


def first_day_of_files(history: History, map_name: str, after: date) -> date | None:
    """Returns the first day after this one that has files of its own, or None."""
    query = (
        select(func.min(site_files.c.day))
        .join_from(site_files, maps, maps.c.id == site_files.c.map)
        .where(maps.c.name == map_name, site_files.c.day > after)
    )
    with history.reading() as connection:
        day: date | None = connection.execute(query).scalar()
    return day


def keep_site_files(history: History, map_name: str, day: date, files: Mapping[str, SiteFile]) -> None:
    """Calls `write_site_files` in a transaction of its own."""
    history.write(lambda connection: write_site_files(connection, map_name, day, files))


def write_site_files(connection: Connection, map_name: str, day: date, files: Mapping[str, SiteFile]) -> None:
    """Writes that the map's site had exactly these files on that day, of which there is at least one.

    The files of other days stay as they were. Files of more than `MOST_BYTES` are left out.
    """
    its = {"its_map": own_map_id(connection, map_name), "its_day": day}
    following = connection.execute(_NEXT_HARVEST, its).scalar()
    if following is not None:
        last = connection.execute(_LAST_DAY, {**its, "until": following}).scalar()
        if last != following:
            # The next harvest has noted nothing, because its files were those of the day before.
            connection.execute(_COPY, {**its, "from_day": last, "to_day": following})
    rows = [
        {
            "map": its["its_map"],
            "url": url,
            "day": day,
            "etag": file.validator.etag,
            "last_modified": file.validator.last_modified,
            "body": zlib.compress(file.body),
        }
        for url, file in files.items()
        if file.is_worth_keeping
    ]
    connection.execute(_FORGET, its)
    if rows:
        connection.execute(insert(site_files), rows)

"""The small files that a renderer writes beside its tiles, as they were on the site on each day."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import delete, func, insert, select

from tileharvest.history.outlines import own_map_id
from tileharvest.history.schema import harvests, is_of_map, site_files
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from sqlalchemy import Connection

    from tileharvest.history.database import History

MOST_BYTES: Final = 1024 * 1024
"""The largest file that is kept. A larger one is fetched anew each time."""


class SiteFile(NamedTuple):
    """A file as the site sent it."""

    validator: Validator
    body: bytes


MISSING: Final = SiteFile(Validator(etag=""), b"")
"""The value for a file that was looked for and was not there."""


def site_files_of(history: History, map_name: str, day: date) -> dict[str, SiteFile]:
    """Returns by address the files that the map's last harvest up to that day has looked for."""
    its = is_of_map(site_files, map_name)
    last = select(func.max(site_files.c.day)).where(its, site_files.c.day <= day).scalar_subquery()
    with history.reading() as connection:
        rows = connection.execute(select(site_files).where(its, site_files.c.day == last)).all()
    return {
        row.url: SiteFile(Validator(row.etag, row.last_modified), zlib.decompress(row.body)) for row in rows
    }


def first_day_of_files(history: History, map_name: str, after: date) -> date | None:
    """Returns the first day after this one that has files of its own, or None."""
    its = is_of_map(site_files, map_name) & (site_files.c.day > after)
    with history.reading() as connection:
        day: date | None = connection.execute(select(func.min(site_files.c.day)).where(its)).scalar()
    return day


def keep_site_files(history: History, map_name: str, day: date, files: Mapping[str, SiteFile]) -> None:
    """Writes that the map's site had exactly these files on that day. The files of other days stay as they
    were.

    Files of more than `MOST_BYTES` are left out. If that leaves none, this writes nothing.
    """
    kept = {url: file for url, file in files.items() if len(file.body) <= MOST_BYTES}

    def write(connection: Connection) -> None:
        if not kept or kept == site_files_of(history, map_name, day):
            return
        map_id = own_map_id(connection, map_name)
        its = site_files.c.map == map_id
        later = select(func.min(harvests.c.day)).where(harvests.c.map == map_id, harvests.c.day > day)
        following = connection.execute(later).scalar()
        if following is not None:
            until = select(func.max(site_files.c.day)).where(its, site_files.c.day <= following)
            last = connection.execute(until).scalar()
            if last != following:
                # The next harvest has noted nothing, because its files were those of the day before.
                before = connection.execute(
                    select(site_files).where(its, site_files.c.day == last)
                ).mappings()
                if copies := [{**row, "day": following} for row in before]:
                    connection.execute(insert(site_files), copies)
        rows = [
            {
                "map": map_id,
                "url": url,
                "day": day,
                "etag": file.validator.etag,
                "last_modified": file.validator.last_modified,
                "body": zlib.compress(file.body),
            }
            for url, file in kept.items()
        ]
        connection.execute(delete(site_files).where(its, site_files.c.day == day))
        connection.execute(insert(site_files), rows)

    history.write(write)

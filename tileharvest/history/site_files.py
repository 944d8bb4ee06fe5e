"""The small files of a map's site, as it sent them last: what a renderer writes beside its tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import bindparam, delete, insert, select

from tileharvest.history.outlines import own_map_id
from tileharvest.history.schema import maps, site_files
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from tileharvest.history.database import History

_MOST_BYTES: Final = 1024 * 1024
"""A larger file is asked for anew each time, and takes no room in the history."""


_FILES: Final = (
    select(site_files.c.url, site_files.c.etag, site_files.c.last_modified, site_files.c.body)
    .join_from(site_files, maps, maps.c.id == site_files.c.map)
    .where(maps.c.name == bindparam("map_name"))
)


class SiteFile(NamedTuple):
    """A file as its site sent it."""

    validator: Validator
    body: bytes

    @property
    def is_worth_keeping(self) -> bool:
        """Whether the site can say that it has not changed, and it is small."""
        return self.validator != Validator() and len(self.body) <= _MOST_BYTES


MISSING: Final = SiteFile(Validator(etag=""), b"")
"""Stands for a file that was looked for and was not there."""


def site_files_of(history: History, map_name: str) -> dict[str, SiteFile]:
    """Returns the files that the map's last harvest has looked for, by address. Raises HistoryError."""
    with history.reading() as connection:
        rows = connection.execute(_FILES, {"map_name": map_name}).all()
    return {url: SiteFile(Validator(etag, date), body) for url, etag, date, body in rows}


def keep_site_files(history: History, map_name: str, files: Mapping[str, SiteFile]) -> None:
    """Keeps these files of the map in place of all others. Raises HistoryError."""

    def write(connection: Connection) -> None:
        map_id = own_map_id(connection, map_name)
        connection.execute(delete(site_files).where(site_files.c.map == map_id))
        rows = [
            {
                "map": map_id,
                "url": url,
                "etag": file.validator.etag,
                "last_modified": file.validator.last_modified,
                "body": file.body,
            }
            for url, file in files.items()
        ]
        if rows:
            connection.execute(insert(site_files), rows)

    history.write(write)

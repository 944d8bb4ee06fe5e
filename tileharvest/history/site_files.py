"""The small files that a renderer writes beside its tiles, as they were on the site on each day."""

from __future__ import annotations

import zlib
from hashlib import sha1
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from sqlalchemy import bindparam, func, select

from tileharvest.history.outlines import own_map_id
from tileharvest.history.schema import harvests, insert_into, maps, replace_into, site_bodies, site_files
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from sqlalchemy import Connection

    from tileharvest.history.database import History

MOST_BYTES: Final = 1024 * 1024
"""The largest file that is kept. A larger one is fetched anew each time."""

_ITS: Final = site_files.alias("its_files")
_LAST: Final = (
    select(func.max(_ITS.c.day))
    .where(_ITS.c.map == site_files.c.map, _ITS.c.url == site_files.c.url, _ITS.c.day <= bindparam("until"))
    .scalar_subquery()
)
_ROWS: Final = (
    select(
        site_files.c.url, site_files.c.day, site_files.c.etag, site_files.c.last_modified, site_files.c.sha1
    )
    .join_from(site_files, maps, maps.c.id == site_files.c.map)
    .where(maps.c.name == bindparam("map_name"), site_files.c.day == _LAST)
)
_FILES: Final = _ROWS.add_columns(site_bodies.c.body).join(
    site_bodies, site_bodies.c.sha1 == site_files.c.sha1
)
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


_State: TypeAlias = tuple[Validator, str | None]
"""The state of a file by its row: the validator, and the sha1 of the content."""
_ABSENT: Final[_State] = (Validator(), None)


def site_files_of(history: History, map_name: str, day: date) -> dict[str, SiteFile]:
    """Returns by address the files that the map's last harvest up to that day has looked for."""
    with history.reading(once=True) as connection:
        rows = connection.execute(_FILES, {"map_name": map_name, "until": day}).all()
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
    """Writes that the map's site had exactly these files on that day.

    The files of other days stay as they were. Files of more than `MOST_BYTES` are left out.
    """
    bodies = {url: file.body for url, file in files.items() if file.is_worth_keeping}
    now: dict[str, _State] = {
        url: (files[url].validator, sha1(body, usedforsecurity=False).hexdigest())
        for url, body in bodies.items()
    }
    map_id = own_map_id(connection, map_name)
    before = _states(connection, map_name, day)
    states = now | {url: _ABSENT for url, (_, state) in before.items() if url not in now}
    changed = {url: state for url, state in states.items() if _state(before, url) != state}
    if not changed:
        return
    following = connection.execute(_NEXT_HARVEST, {"its_map": map_id, "its_day": day}).scalar()
    rows = [_row(map_id, url, day, state) for url, state in changed.items()]
    if following is not None:
        # The next harvest has noted no file that was as on the day before. That day differs now, so the
        # state of the file in the next harvest is noted, too.
        there = _states(connection, map_name, following)
        rows += [
            _row(map_id, url, following, _state(there, url))
            for url in changed
            if url not in there or there[url][0] < following
        ]
    new = {name: bodies[url] for url, (_, name) in changed.items() if name is not None}
    if new:
        statement = insert_into(site_bodies).on_conflict_do_nothing()
        connection.execute(
            statement, [{"sha1": name, "body": zlib.compress(body)} for name, body in new.items()]
        )
    connection.execute(replace_into(site_files, "map", "url", "day"), rows)


def _states(connection: Connection, map_name: str, until: date) -> dict[str, tuple[date, _State]]:
    rows = connection.execute(_ROWS, {"map_name": map_name, "until": until})
    return {
        url: (day, (Validator(etag, last_modified), name)) for url, day, etag, last_modified, name in rows
    }


def _state(states: Mapping[str, tuple[date, _State]], url: str) -> _State:
    return states[url][1] if url in states else _ABSENT


def _row(map_id: int, url: str, day: date, state: _State) -> dict[str, object]:
    validator, name = state
    columns = {"etag": validator.etag, "last_modified": validator.last_modified, "sha1": name}
    return {"map": map_id, "url": url, "day": day, **columns}

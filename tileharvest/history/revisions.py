"""Revisions of the tables. A new history has the newest revision, and an older one is upgraded to it."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sqlite3
from contextlib import closing
from functools import cache
from importlib import resources
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final, NoReturn

from sqlalchemy import func, inspect, select

from tileharvest.errors import HistoryError
from tileharvest.history.connection import revision_of
from tileharvest.history.errors import as_history_errors, no_history
from tileharvest.history.schema import REVISION, metadata

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from alembic.config import Config
    from sqlalchemy import Connection

_log = logging.getLogger(__name__)

_TURN: Final = int.from_bytes(b"tileharv")
"""The number of our advisory lock in PostgreSQL. Other programs in the same database are unlikely to use
it."""

_REVISION_TABLE: Final = """
    CREATE TABLE alembic_version (
        version_num VARCHAR(32) NOT NULL,
        CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
    )
"""
"""The table as Alembic makes it."""

MIGRATIONS: Final = resources.files("tileharvest.history").joinpath("migrations")


def upgrade(connection: Connection, place: str, file: Path | None) -> None:
    """Creates the tables, or changes those of an older revision, in the given transaction.

    An existing SQLite file is first copied beside itself. A server's database cannot be copied in this way:
    the log says that it is upgraded, and that only the server's own backups have its former state. Several
    programs may call this at once: the first does the work. Raises HistoryError, and changes nothing, if the
    database is no history, or is of a newer revision.
    """
    _take_turn(connection)
    revision = revision_of(connection)
    if revision is None:
        _refuse_foreign_tables(place, connection)
        _create(connection)
    elif revision != REVISION:
        _refuse_newer(place, revision)
        _keep(file, revision, place)
        migrate(connection, "head")


def migrate(connection: Connection, revision: str) -> None:
    """Changes the tables of an older revision to those of this one, in the given transaction."""
    from alembic import command  # noqa: PLC0415 - it loads slowly, and most programs need none of it

    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _create(connection: Connection) -> None:
    """Creates the tables at once and notes the revision, in a sixth of the time of all migrations.

    A test compares the result with that of the migrations."""
    metadata.create_all(connection)
    connection.exec_driver_sql(_REVISION_TABLE)
    connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{REVISION}')")  # noqa: S608 - our own


def _take_turn(connection: Connection) -> None:
    """Waits until no other program creates or changes tables. In a file the writer's lock is enough."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_TURN)))


def refuse_to_read(revision: str | None, place: str, file: Path | None) -> NoReturn:
    """Raises the HistoryError that says why a database of another revision cannot be read."""
    if revision is None:
        raise no_history(place)
    _refuse_newer(place, revision)
    backup = "so make a backup before, with pg_dump" if file is None else "after a backup"
    raise HistoryError(
        f"the history {place} was written by an older TileHarvest (revision {revision});"
        f" nothing was changed; the next harvest upgrades it, {backup}"
    )


def _config() -> Config:
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    folder = MIGRATIONS if isinstance(MIGRATIONS, Path) else _unpacked()
    # Alembic reads options with configparser, where % begins a reference.
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config


@cache
def _unpacked() -> Path:
    """Returns a folder with a copy of the migrations. It is deleted when the process ends.

    Alembic reads files only, and on scrapyd the migrations are in a zipped egg. Before Python 3.12
    `resources.as_file` takes no folders."""
    copy = Path(mkdtemp(prefix="tileharvest-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    _copy(MIGRATIONS, copy / "migrations")
    return copy / "migrations"


def _copy(folder: Traversable, target: Path) -> None:
    target.mkdir()
    for part in folder.iterdir():
        if part.is_dir():
            _copy(part, target / part.name)
        else:
            (target / part.name).write_bytes(part.read_bytes())


def _refuse_newer(place: str, revision: str) -> None:
    # Revisions are numbers of four digits, so they sort as text.
    if revision > REVISION:
        raise HistoryError(
            f"the history {place} was written by a newer TileHarvest (revision {revision});"
            " nothing was changed; update TileHarvest"
        )


def _refuse_foreign_tables(place: str, connection: Connection) -> None:
    tables = inspect(connection).get_table_names()
    if tables:
        raise HistoryError(
            f"{place} is a database of another program (it holds the table '{tables[0]}');"
            " nothing was changed; name another place for the history"
        )


def _keep(file: Path | None, revision: str, place: str) -> None:
    if file is not None:
        _back_up(file, revision, place)
        return
    _log.warning(
        "upgrading the history %s from revision %s, in one transaction that changes all or nothing;"
        " what was there before is in the backups of its server only",
        place,
        revision,
    )


def _back_up(file: Path, revision: str, place: str) -> None:
    """Copies the database to a file beside it, complete or not at all. Older copies are kept."""
    target = _free_name(file.with_name(f"{file.name}.revision-{revision}.backup"))
    unfinished = target.with_name(f"{target.name}.unfinished")
    with as_history_errors(place):
        try:
            # This is a second connection. The first one holds the write lock, so nobody else writes
            # meanwhile, and has itself written nothing yet.
            uri = f"{file.absolute().as_uri()}?mode=rw"
            with (
                closing(sqlite3.connect(uri, uri=True)) as source,
                closing(sqlite3.connect(unfinished)) as copy,
            ):
                source.backup(copy)
            with unfinished.open("rb+") as written:
                os.fsync(written.fileno())
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)


def _free_name(wanted: Path) -> Path:
    number, name = 1, wanted
    while name.exists():
        number += 1
        name = wanted.with_name(f"{wanted.name}-{number}")
    return name

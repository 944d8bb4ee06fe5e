"""Creating a history and bringing an older one up to date. Imports alembic, so only when needed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from tileharvest.errors import HistoryError
from tileharvest.history.database import revision_of
from tileharvest.history.failures import as_history_errors

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tileharvest.history.database import History

MIGRATIONS: Final = Path(__file__).with_name("migrations")


def upgrade(history: History, file: Path | None) -> None:
    """Creates the tables, or changes those of an older revision, in one transaction.

    An existing SQLite file is first copied beside itself; a server's database is not, its own backups
    are better. Several programs may do this at once: the first does it. Raises HistoryError, having
    changed nothing, for what is no history of this or an older revision.
    """
    config = _config()
    with history.writing() as connection:
        revision = revision_of(connection)
        if revision is None:
            _refuse_foreign_tables(history, connection)
        else:
            _refuse_unknown(history, revision, config)
            if file is not None and revision != _newest(config):
                _back_up(file, revision, history.place)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def refuse_to_read(history: History, revision: str | None) -> NoReturn:
    """Raises the HistoryError that says why a database of another revision than ours cannot be read."""
    if revision is None:
        raise HistoryError(f"there is no history at {history.place} yet: the first harvest begins it")
    _refuse_unknown(history, revision, _config())
    raise HistoryError(
        f"the history {history.place} was written by an older TileHarvest (revision {revision});"
        " nothing was changed; the next harvest upgrades it, after a backup"
    )


def _config() -> Config:
    config = Config()
    # Alembic reads options with configparser, where % begins a reference.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def _newest(config: Config) -> str | None:
    return ScriptDirectory.from_config(config).get_current_head()


def _refuse_unknown(history: History, revision: str, config: Config) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision not in known:
        raise HistoryError(
            f"the history {history.place} was written by a newer TileHarvest (revision {revision});"
            " nothing was changed; update TileHarvest"
        )


def _refuse_foreign_tables(history: History, connection: Connection) -> None:
    tables = inspect(connection).get_table_names()
    if tables:
        raise HistoryError(
            f"{history.place} is a database of another program (it holds the table '{tables[0]}');"
            " nothing was changed; name another place for the history"
        )


def _back_up(file: Path, revision: str, place: str) -> None:
    """Copies the database to a file beside it, complete or not at all; an older copy is kept."""
    target = _free_name(file.with_name(f"{file.name}.revision-{revision}.backup"))
    unfinished = target.with_name(f"{target.name}.unfinished")
    with as_history_errors(place):
        try:
            # On a second connection: the one that holds the write lock keeps others from writing
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

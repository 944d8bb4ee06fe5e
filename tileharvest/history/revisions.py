"""The revision of a history's tables: they are made by this one, and a history of another one is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import func, inspect, select

from tileharvest.errors import HistoryError
from tileharvest.history.connection import revision_of
from tileharvest.history.schema import REVISION, metadata

if TYPE_CHECKING:
    from sqlalchemy import Connection

_TURN: Final = int.from_bytes(b"tileharv")
"""The number of our advisory lock in PostgreSQL. Other programs in the same database are unlikely to use
it."""

_REVISION_TABLE: Final = """
    CREATE TABLE alembic_version (
        version_num VARCHAR(32) NOT NULL,
        CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
    )
"""
"""The table as Alembic makes it, so that a later release can use Alembic for its first migration."""


def make_tables(connection: Connection, place: str) -> None:
    """Creates the tables in the given transaction, unless they are there.

    Several programs may call this at once: the first does the work. Raises HistoryError, and changes nothing,
    if the database is no history, or is of another revision.
    """
    if connection.dialect.name == "postgresql":
        # In a file the writer's lock is enough.
        connection.execute(select(func.pg_advisory_xact_lock(_TURN)))
    revision = revision_of(connection)
    if revision is not None:
        expect_present_revision(revision, place)
        return
    if tables := inspect(connection).get_table_names():
        raise HistoryError(
            f"{place} is a database of another program (it holds the table '{tables[0]}');"
            " nothing was changed; name another place for the history"
        )
    metadata.create_all(connection)
    connection.exec_driver_sql(_REVISION_TABLE)
    connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{REVISION}')")  # noqa: S608 - our own


def expect_present_revision(revision: str, place: str) -> None:
    """Raises HistoryError if the history is of another revision than the present one."""
    # Revisions are numbers of four digits, so they sort as text.
    if revision > REVISION:
        raise HistoryError(
            f"the history {place} was written by a newer TileHarvest (revision {revision});"
            " nothing was changed; update TileHarvest"
        )
    if revision < REVISION:
        raise HistoryError(
            f"the history {place} was written by an older TileHarvest (revision {revision}), which this one"
            " cannot read; nothing was changed; name another place for a new history"
        )

"""Opening the history: creating, upgrading, refusing, and copying it for a dry run."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self, TypeVar

from sqlalchemy import inspect, text

from tileharvest.history.connecting import LOCK_TIMEOUT, WRITES, Address, Manner, connect, write_ahead
from tileharvest.history.errors import NoHistoryError
from tileharvest.history.failures import as_history_errors
from tileharvest.history.persevering import PATIENCE, persevere
from tileharvest.history.schema import REVISION, metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from sqlalchemy import Connection, Engine

_Result = TypeVar("_Result")


class History:
    """An open history. May be used by several threads; each transaction belongs to one of them.

    Whatever the database refuses is raised as HistoryError, with one line for a person. Closing twice
    is harmless.
    """

    def __init__(
        self,
        engine: Engine,
        place: str,
        folder: TemporaryDirectory[str] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """`folder`, if given, is removed when the history is closed. Use the `open` methods instead."""
        self._engine = engine
        self._writer = engine.execution_options(**{WRITES: True})
        # SQLite's transactions see one state anyway.
        snapshot = {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == "postgresql" else {}
        self._reader = engine.execution_options(**snapshot)
        self._folder = folder
        self._patience = patience
        self.place = place
        """For messages."""

    @classmethod
    def open(cls, url: str, *, lock_timeout: float = LOCK_TIMEOUT, patience: float = PATIENCE) -> Self:
        """The history at a database URL such as `sqlite:///data/history.sqlite`, ready to be written.

        A new one is created, its folder too; a server's database must be there. One of an older revision
        is upgraded; a file is first copied beside itself. One that a newer program wrote, that belongs to
        another program, or that cannot be read is refused with HistoryError and not changed. The usual
        case, where nothing is to be done, reads one row and does not import alembic.

        `patience` is for how many seconds `read` and `write` wait for a server that went away; opening
        waits for none.
        """
        address = Address.parse(url)
        history = cls(connect(address, Manner(lock_timeout)), address.place, patience=patience)
        try:
            history._prepare(address)
        except BaseException:
            history.close()
            raise
        return history

    @classmethod
    def open_read_only(cls, url: str, *, lock_timeout: float = LOCK_TIMEOUT) -> Self:
        """The history for commands that only look: never creates, never upgrades, refuses to write.

        Raises NoHistoryError when there is none, and HistoryError when it is not of the present revision.
        A file's folder must be writable nevertheless: readers announce themselves to writers in a file there.
        """
        address = Address.parse(url)
        if address.file is not None and not address.file.is_file():
            raise NoHistoryError.at(address.place)
        history = cls(connect(address, Manner(lock_timeout, read_only=True)), address.place)
        try:
            history._expect_present_revision()
        except BaseException:
            history.close()
            raise
        return history

    @staticmethod
    def is_begun(url: str) -> bool:
        """Whether a first harvest has begun a history there, of whatever revision.

        Reads a row from a server, and looks only whether a file is there. Raises HistoryError as `open` does.
        """
        address = Address.parse(url)
        if address.file is not None:
            # Empty is a file whose first transaction, which makes the tables, is under way.
            return address.file.exists() and address.file.stat().st_size > 0
        with (
            History(connect(address, Manner(read_only=True)), address.place) as history,
            history.reading() as connection,
        ):
            return revision_of(connection) is not None

    @classmethod
    def open_temporary(cls) -> Self:
        """An empty history that is deleted when it is closed: for a dry run on a new map.

        After a kill the file stays in the system's folder for temporary files.
        """
        with as_history_errors("for a dry run"):
            folder = TemporaryDirectory(prefix="tileharvest-")
        address = Address.parse(f"sqlite:///{Path(folder.name, 'history.sqlite')}")
        history = cls(connect(address, Manner(durable=False)), address.place, folder)
        try:
            # Not by migrations: a test proves that they give the same tables, and alembic loads slowly.
            with history.writing() as connection:
                metadata.create_all(connection)
            history._write_ahead()
        except BaseException:
            history.close()
            raise
        return history

    def dry_copy(self, map_name: str) -> History:
        """A temporary history that knows the latest version of each of this map's tiles.

        With it a dry run uses the code of a real one and leaves nothing behind. A map that was never
        harvested gives an empty one. Copies all tiles of the map: 2 to 3 seconds for 100,000.
        """
        from tileharvest.history.copying import copy_map  # noqa: PLC0415 - only dry runs need it

        copy = History.open_temporary()
        try:
            copy_map(self, copy, map_name)
        except BaseException:
            copy.close()
            raise
        return copy

    @property
    def dialect(self) -> str:
        """SQLAlchemy's name of the kind of database: `sqlite` or `postgresql`."""
        return self._engine.dialect.name

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction whose queries all see the same state. Waits for no writer."""
        with as_history_errors(self.place), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is durable when the block ends, or has changed nothing if it raised.

        Only one can write at a time; others wait up to the lock timeout.
        """
        with as_history_errors(self.place), self._writer.begin() as connection:
            yield connection

    def read(self, work: Callable[[Connection], _Result]) -> _Result:
        """What `work` gives for a transaction as `reading` has it.

        Where a server goes away meanwhile it is called again, for up to the history's patience.
        """

        def attempt() -> _Result:
            with self.reading() as connection:
                return work(connection)

        return persevere(attempt, self._patience)

    def write(self, work: Callable[[Connection], _Result]) -> _Result:
        """As `read`, for a transaction as `writing` has it.

        `work` must be one that can be repeated: when a connection is lost while a transaction is being
        committed, it may have taken effect, and is called again.
        """

        def attempt() -> _Result:
            with self.writing() as connection:
                return work(connection)

        return persevere(attempt, self._patience)

    def close(self) -> None:
        self._engine.dispose()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self, address: Address) -> None:
        if address.file is not None:
            with as_history_errors(self.place):
                address.file.parent.mkdir(parents=True, exist_ok=True)
        with self.reading() as connection:
            revision = revision_of(connection)
        if revision != REVISION:
            from tileharvest.history.upgrading import upgrade  # noqa: PLC0415 - it imports alembic

            upgrade(self, address.file)
        self._write_ahead()

    def _write_ahead(self) -> None:
        if self.dialect == "sqlite":
            with as_history_errors(self.place):
                write_ahead(self._engine)

    def _expect_present_revision(self) -> None:
        with self.reading() as connection:
            revision = revision_of(connection)
        if revision == REVISION:
            return
        from tileharvest.history.upgrading import refuse_to_read  # noqa: PLC0415 - it imports alembic

        refuse_to_read(self, revision)


def revision_of(connection: Connection) -> str | None:
    """The revision that a database says it has; None when it holds no history."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if revision is None else str(revision)

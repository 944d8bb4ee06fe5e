"""An open history: the ways to open it, its transactions, its writing thread, and its copy for a dry run."""

from __future__ import annotations

import logging
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from sqlalchemy import insert, select
from tenacity import Retrying, retry_if_exception, stop_before_delay, wait_exponential

from tileharvest.errors import HistoryError
from tileharvest.history.areas import IN_SLICES
from tileharvest.history.connection import (
    LOCK_TIMEOUT,
    UNREADABLE,
    PassingError,
    as_history_errors,
    connect,
    file_of,
    is_history,
    make_tables,
    no_history,
    parse_address,
    place_of,
    write_ahead,
)
from tileharvest.history.damage import damage
from tileharvest.history.schema import is_of_map, layers, maps, metadata, tiles, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from sqlalchemy import ColumnElement, Connection, Engine, Select, Table
    from tenacity import RetryCallState

    _Item: TypeAlias = tuple[Callable[[Connection], Any], Future[Any]]

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")

PATIENCE: Final = 60.0
"""Seconds for which a call to a server is repeated. A restart of a server, or the change to a standby, takes
less."""

_PAUSES: Final = wait_exponential(multiplier=0.05, max=2.0)
"""Seconds between two attempts: 0.05 at first, then twice as many each time, up to 2."""

_DELAY: Final = 0.05
"""Seconds for which the writing thread waits for more items. So a process commits, and a disk syncs, 20 times
a second at most. A kill costs what was found in this time: a hundredth of what a block on the way costs."""


class History:
    """An open history. May be used by several threads; each transaction belongs to one of them.

    Every error of the database is raised as HistoryError, with one line for a person. Closing twice is
    harmless.
    """

    def __init__(
        self, engine: Engine, folder: TemporaryDirectory[str] | None = None, patience: float = PATIENCE
    ) -> None:
        """Use the `open` methods instead. `folder`, if given, is removed when the history is closed."""
        self._engine = engine
        # On SQLite every transaction sees one state anyway.
        is_server = engine.dialect.name == "postgresql"
        snapshot = {"isolation_level": "REPEATABLE READ"} if is_server else {}
        self._reader = engine.execution_options(**snapshot)
        self._folder = folder
        self._patience = patience
        self._persevering = Retrying(
            retry=retry_if_exception(self._is_to_be_repeated),
            wait=_PAUSES,
            stop=self._is_in_vain,
            before_sleep=self._say_first,
            retry_error_callback=self._give_up,
        )
        self._is_given_up = False
        """Whether a call has waited in vain for a server that has not answered since."""
        self._joined = threading.local()
        """By thread: the connection of the transaction that is open, and whether it may write."""
        self.place = place_of(engine.url)
        """Its name in messages."""
        self.reader = ThreadPoolExecutor(1, "history-reader")
        """Reads for programs with an event loop. One thread needs one connection, however many maps there
        are."""
        self.writer = Batcher(self)
        """Writes for programs with an event loop."""

    @classmethod
    def open(cls, url: str, *, lock_timeout: float = LOCK_TIMEOUT, patience: float = PATIENCE) -> Self:
        """Opens the history at a database URL such as `sqlite:///data/history.sqlite`, for writing.

        A new file is created, with its folder. A server's database must exist. HistoryError is raised, and
        nothing is changed, if a program of another revision wrote the history, if the database belongs to
        another program, or if it cannot be read. Mostly nothing is to be done, and this reads one row.

        `read` and `write` wait for up to `patience` seconds for a server that went away, unless another call
        has done so in vain. Opening waits for none, because the address may be wrong.
        """
        return cls(connect(parse_address(url), lock_timeout), patience=patience)._prepared()

    @classmethod
    def open_read_only(cls, url: str) -> Self:
        """Opens the history for commands that only read. It is never created or written.

        Raises HistoryError if there is none, or if it is not of the present revision. A file's folder must be
        writable nevertheless: SQLite's readers announce themselves to writers in a file there.
        """
        address = parse_address(url)
        file = file_of(address)
        if file is not None and not file.is_file():
            raise no_history(place_of(address))
        history = cls(connect(address, read_only=True))
        with _closed_on_error(history):
            if not history._is_there():
                raise no_history(history.place)
        return history

    @staticmethod
    def is_begun(url: str) -> bool:
        """Returns whether there is a history.

        A file is not opened: this looks only whether it exists and is not empty. From a server it reads a
        row. Raises HistoryError as `open` does.
        """
        address = parse_address(url)
        file = file_of(address)
        if file is not None:
            # A file stays empty until its first transaction, which makes the tables, is committed.
            return file.exists() and file.stat().st_size > 0
        with History(connect(address, read_only=True)) as history:
            return history._is_there()

    @classmethod
    def open_temporary(cls) -> Self:
        """Opens an empty history for a dry run on a new map. It is deleted when it is closed.

        After a kill the file stays in the system's folder for temporary files.
        """
        with as_history_errors("for a dry run"):
            folder = TemporaryDirectory(prefix="tileharvest-")
        address = parse_address(f"sqlite:///{Path(folder.name, 'history.sqlite')}")
        return cls(connect(address, durable=False), folder)._prepared()

    def dry_copy(self, map_name: str) -> History:
        """Returns a temporary history with the latest version of each of this map's tiles.

        A dry run uses it with the code of a real harvest, and leaves nothing behind. The copy of a map that
        was never harvested is empty. Copies all tiles of the map, which takes 2 to 3 seconds for 100,000.
        """
        copy = History.open_temporary()

        def fill(writer: Connection) -> None:
            with self.reading() as reader:
                for table, query in _rows_of_map(map_name):
                    rows = reader.execute(query, execution_options=IN_SLICES).mappings()
                    for part in rows.partitions():
                        writer.execute(insert(table), [dict(row) for row in part])

        with _closed_on_error(copy):
            copy.write(fill)
        return copy

    def reading(self) -> AbstractContextManager[Connection]:
        """Opens a transaction whose queries all see the same state. It does not wait for writers. Within
        another transaction of this thread it is that one."""
        return self._transaction(writes=False)

    def read(self, work: Callable[[Connection], _Result]) -> _Result:
        """Calls `work` with a transaction of `reading`, and returns its result.

        If a server goes away meanwhile, `work` is called again, for up to the history's patience. Calls
        within `work` join its transaction.
        """
        return self._persevering(partial(self._in_transaction, work, writes=False))

    def write(self, work: Callable[[Connection], _Result]) -> _Result:
        """Calls `work` with a transaction that is durable when this returns, and changes nothing if `work`
        raises. Returns its result. Only one can write at a time; others wait up to the lock timeout.

        Repeats `work` as `read` does, so it must be possible to repeat it. If the connection is lost during
        the commit, the transaction may have taken effect, and `work` is called again. Calls within `work`
        join its transaction, also those of `read`.
        """
        return self._persevering(partial(self._in_transaction, work, writes=True))

    def _in_transaction(self, work: Callable[[Connection], _Result], *, writes: bool) -> _Result:
        with self._transaction(writes=writes) as connection:
            result = work(connection)
        self._is_given_up = False
        return result

    def _is_to_be_repeated(self, error: BaseException) -> bool:
        # If it happened within another transaction, all of that one is repeated.
        return isinstance(error, PassingError) and getattr(self._joined, "open", None) is None

    def _say_first(self, failed: RetryCallState) -> None:
        if failed.attempt_number == 1 and failed.outcome is not None:
            _log.warning("trying again for %.0f s: %s", self._patience, failed.outcome.exception())

    def _is_in_vain(self, failed: RetryCallState) -> bool:
        return self._is_given_up or stop_before_delay(self._patience)(failed)

    def _give_up(self, failed: RetryCallState) -> None:
        """Raises the error of the last attempt. Calls that come later, such as those that stood behind this
        one, do not wait anew."""
        self._is_given_up = True
        assert failed.outcome is not None
        failed.outcome.result()

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Connection]:
        own: tuple[Connection, bool] | None = getattr(self._joined, "open", None)
        if own is not None:
            if writes and not own[1]:
                raise RuntimeError("a transaction that only reads cannot write")
            yield own[0]
            return
        engine = self._engine if writes else self._reader
        try:
            with as_history_errors(self.place), engine.begin() as connection:
                if engine.dialect.name == "sqlite":
                    # SQLAlchemy's event `begin` could do this, but while an engine has a listener, each
                    # statement takes half as long again.
                    driver: Any = connection.connection.dbapi_connection
                    # IMMEDIATE takes the write lock at once: a transaction that reads first and then writes
                    # would fail instead of waiting when another program has written between.
                    driver.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                self._joined.open = connection, writes
                try:
                    yield connection
                finally:
                    self._joined.open = None
        except (ValueError, TypeError) as error:
            # A disk may have changed a value to an impossible one. A mistake of the program raises the same
            # errors. So the history is looked through, and if it is sound the error stays as it is.
            if not self.damage():
                raise
            said = " ".join(str(error).split())
            raise HistoryError(UNREADABLE.format(place=self.place, said=said)) from error

    def damage(self) -> list[str]:
        """Returns a line for each kind of damage that is found, as `damage.damage` does. Reads everything."""
        is_server = self._engine.dialect.name == "postgresql"
        try:
            with as_history_errors(self.place), self._reader.begin() as connection:
                connection.exec_driver_sql("SET LOCAL statement_timeout = 0" if is_server else "BEGIN")
                return damage(connection)
        except UnicodeError:
            # SQLite's message quotes bytes of the damaged file, which sqlite3 cannot decode.
            return ["malformed"]

    def close(self) -> None:
        """Waits for the work of its threads, and closes the connections."""
        self.writer.close()
        self.reader.shutdown()
        self._engine.dispose()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepared(self) -> Self:
        """Makes the tables, if there are none."""
        file = file_of(self._engine.url)
        with _closed_on_error(self), as_history_errors(self.place):
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
            if not self._is_there():
                self.write(lambda connection: make_tables(connection, self.place))
            if file is not None:
                write_ahead(self._engine)
        return self

    def _is_there(self) -> bool:
        with self.reading() as connection:
            return is_history(connection, self.place)


@contextmanager
def _closed_on_error(history: History) -> Iterator[None]:
    """Closes the history if the block raises."""
    try:
        yield
    except BaseException:
        history.close()
        raise


def _rows_of_map(map_name: str) -> Iterator[tuple[Table, Select[Any]]]:
    """Yields the tables, each with a query for the map's rows with their ids. The only versions are the
    latest ones of the map's tiles.

    Tables that others refer to come first.
    """
    its_layers = select(layers.c.id).where(is_of_map(layers, map_name))
    of_table: dict[Table, ColumnElement[bool]] = {
        maps: maps.c.name == map_name,
        versions: versions.c.id.in_(select(tiles.c.version).where(tiles.c.layer.in_(its_layers))),
    }
    for table in metadata.sorted_tables:
        if table in of_table:
            yield table, select(table).where(of_table[table])
        elif "map" in table.c:
            yield table, select(table).where(is_of_map(table, map_name))
        elif "layer" in table.c:
            yield table, select(table).where(table.c.layer.in_(its_layers))


class Batcher:
    """A thread in which the harvests of a process write. It works in the order in which things come, and does
    all that waits in one transaction."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._waiting: deque[_Item] = deque()
        self._ending = threading.Event()
        """Set when no more items come to wait for."""
        self._thread = ThreadPoolExecutor(1, "history-writer")

    def submit(self, work: Callable[[Connection], _Result]) -> Future[_Result]:
        """Returns at once with a future of the work's result, or of its error.

        It must be possible to repeat the work. If a transaction of several fails, each is done again in one
        of its own, so that no harvest fails by another one's mistake. If the server stays away, all fail at
        once: otherwise each would wait for it anew."""
        future: Future[_Result] = Future()
        self._waiting.append((work, future))
        self._thread.submit(self._do_waiting)
        return future

    def close(self) -> None:
        """Waits for what was submitted. Nothing more can be submitted afterwards."""
        self._ending.set()
        self._thread.shutdown()

    def _do_waiting(self) -> None:
        # An earlier call may have done this call's work together with others.
        if self._waiting:
            self._ending.wait(_DELAY)
        taken: list[_Item] = []
        while self._waiting:
            one = self._waiting.popleft()
            if one[1].set_running_or_notify_cancel():
                taken.append(one)
        if taken:
            self._do(taken)

    def _do(self, taken: list[_Item]) -> None:
        try:
            results = self._history.write(lambda connection: [work(connection) for work, _ in taken])
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            is_alone = len(taken) == 1 or isinstance(error, PassingError)
            for one in taken:
                if is_alone:
                    one[1].set_exception(error)
                else:
                    self._do([one])
            return
        for (_, future), result in zip(taken, results, strict=True):
            future.set_result(result)

"""A real PostgreSQL in a folder of its own. It ends with the tests, whatever becomes of them."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy import URL

from tests.servers.program import Program, free_port, installed

USER: Final = "tileharvest"
"""A user that may do everything, and needs no password on the socket."""
PASSWORD: Final = "secret/of:100%"
"""A password with signs that mean something in an address."""

_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    # The data survive a kill of the server, but not a power cut of the computer: nothing is flushed.
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "max_wal_size": "64MB",
    # Nothing may be left outside of the folder after a kill.
    "dynamic_shared_memory_type": "mmap",
    "log_min_messages": "fatal",
}


class PostgresqlServer(Program):
    """A server on a socket in its folder and on a TCP port of the loopback, the same after each start."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()
        self._numbers = count()

    def url(self, database: str, user: str = USER) -> str:
        """Returns the address by the socket, without a password. This way is the fastest."""
        query = {"host": str(self.folder), "port": str(self.port)}
        return _text(URL.create("postgresql+psycopg", user, database=database, query=query))

    def tcp_url(self, database: str, password: str | None = PASSWORD) -> str:
        """Returns the address as a worker on another computer would use it."""
        return _text(URL.create("postgresql+psycopg", USER, password, "127.0.0.1", self.port, database))

    def ask(self, question: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Runs one statement outside of a transaction, and returns its rows."""
        place = make_conninfo(host=str(self.folder), port=self.port, user=USER, dbname=database)
        with psycopg.connect(place, autocommit=True) as connection:
            cursor = connection.execute(question.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self) -> Iterator[str]:
        """Makes a new, empty database until the block ends, and gives its name. This costs some 0.1 s."""
        name = f"test{next(self._numbers)}"
        self.ask(f"CREATE DATABASE {name}")
        try:
            yield name
        finally:
            self.ask(f"DROP DATABASE {name} WITH (FORCE)")

    def initialize(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD, encoding="utf-8")
        if os.getuid() == 0:
            for place in (self.folder, password):
                shutil.chown(place, "postgres", "postgres")
        options = ["--username", USER, "--pwfile", "password", "--auth-host", "scram-sha-256"]
        options += ["--auth-local", "trust", "--encoding", "UTF8", "--no-locale", "--no-sync"]
        done = subprocess.run(
            [*_as_user(), _program("initdb"), "--pgdata", "data", *options],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"PostgreSQL cannot make a database: {done.stderr}")

    def start(self) -> None:
        """Starts the server, and returns when it takes connections."""
        own = {"port": str(self.port), "unix_socket_directories": str(self.folder)}
        settings = [f"--{name}={value}" for name, value in {**_SETTINGS, **own}.items()]
        # The server ends with this thread, even if nobody here has the time to stop it.
        words = [*_as_user("--pdeathsig", "QUIT"), _program("postgres"), "-D", "data", *settings]
        self.begin(words, self._answers)

    def stop(self) -> None:
        """Stops the server and breaks off all transactions, as a restart by its owner does.

        This is harmless when it does not run.
        """
        self.end(signal.SIGINT)

    def kill(self) -> None:
        """Ends the server at once, as a crash does. What was committed is in the server's log."""
        self.end(signal.SIGQUIT)

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            return bool(self.ask("SELECT 1"))
        return False


@contextmanager
def postgresql_server() -> Iterator[PostgresqlServer]:
    """Runs a server until the block ends. It begins with no database but its own."""
    # The path must be short, because the name of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        server = PostgresqlServer(Path(folder))
        server.initialize()
        try:
            server.start()
            yield server
        finally:
            server.kill()


def _program(name: str) -> str:
    """Returns the path of a program of the newest release. Debian keeps these programs out of the PATH, each
    release in a folder of its own."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    return installed(name, "postgresql", *map(str, reversed(folders)))


def _as_user(*options: str) -> list[str]:
    """Returns the words that run a command as the package's user: PostgreSQL refuses to run as root."""
    if os.getuid() == 0:
        options = ("--reuid", "postgres", "--regid", "postgres", "--clear-groups", *options)
    return ["setpriv", *options]


def _text(url: URL) -> str:
    return url.render_as_string(hide_password=False)

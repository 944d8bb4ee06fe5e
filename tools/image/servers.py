"""The servers beside the containers: Debian's Redis and PostgreSQL with passwords, and the demo's site."""

# ruff: noqa: S105, S603, S607 -- it runs Debian's programs, and its password guards nothing

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PASSWORD: Final = "c0ffee"
REDIS_PORT: Final = 6379
POSTGRESQL_PORT: Final = 5432
REDIS_URL: Final = f"redis://:{PASSWORD}@127.0.0.1:{REDIS_PORT}/0"
DATABASE_URL: Final = f"postgresql+psycopg://tileharvest:{PASSWORD}@127.0.0.1:{POSTGRESQL_PORT}/tileharvest"

_REDIS_LINES: Final = re.compile(r"^    content: \|\n((?:      .*\n)+)", re.MULTILINE)
_PATIENCE: Final = 20.0


@contextmanager
def redis(project: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a Redis until the block ends, configured as in compose.yaml."""
    configured = _REDIS_LINES.search((project / "compose.yaml").read_text())
    assert configured, "compose.yaml has no configuration for Redis"
    lines = textwrap.dedent(configured[1]).replace("${REDIS_PASSWORD}", PASSWORD)
    with _folder("redis") as folder:
        (folder / "redis.conf").write_text(lines.replace("dir /data", f"dir {folder}\nport {REDIS_PORT}"))
        with _running(["redis-server", str(folder / "redis.conf")], folder) as process:
            _await_port(REDIS_PORT, process)
            yield process


@contextmanager
def postgresql() -> Iterator[None]:
    """Runs a PostgreSQL until the block ends, with the role and the empty database of compose.yaml."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"))
    with _folder("postgresql") as folder:
        data = folder / "data"
        (folder / "password").write_text(PASSWORD)
        shutil.chown(folder, "postgres", "postgres")
        shutil.chown(folder / "password", "postgres", "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        login = ["--username=tileharvest", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}"]
        _do([*as_user, str(programs / "initdb"), "--no-sync", *login, str(data)])
        options = ["-p", str(POSTGRESQL_PORT), "-k", str(folder), "-c", "fsync=off"]
        with _running([*as_user, str(programs / "postgres"), "-D", str(data), *options], folder) as process:
            # It listens before it has read its data, and refuses whoever comes then.
            look = [str(programs / "pg_isready"), "--quiet", "--host=127.0.0.1", f"--port={POSTGRESQL_PORT}"]
            _await(
                lambda: subprocess.run(look, check=False).returncode == 0, "PostgreSQL is not ready", process
            )
            create = [str(programs / "createdb"), "--host=127.0.0.1", "--username=tileharvest", "tileharvest"]
            _do(["env", f"PGPASSWORD={PASSWORD}", *create])
            yield


@contextmanager
def site(folder: Path, project: Path) -> Iterator[None]:
    """Serves the demo's first day on two ports until the block ends."""
    command = [sys.executable, "-m", "tools.image.site", str(folder)]
    with subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command], cwd=project, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n", "the demo's site does not start"
            yield
        finally:
            process.kill()


@contextmanager
def _running(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=f"tileharvest-{name}-") as folder:
        yield Path(folder)


def _do(command: Sequence[str]) -> None:
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{command[0]}: {done.stdout}"


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    def listens() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    _await(listens, f"nothing listens on port {port}", process)


def _await(is_so: Callable[[], bool], otherwise: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and process.poll() is None:
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError(f"{otherwise} after {_PATIENCE} s")

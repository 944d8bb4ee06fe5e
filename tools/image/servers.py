"""The servers beside the containers: Redis, PostgreSQL, and the demo's site."""

# ruff: noqa: S603 -- it runs Debian's programs

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tests.servers.postgresql import postgresql_server
from tests.servers.redis import redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.redis import RedisServer

PASSWORD: Final = "c0ffee"  # noqa: S105 -- it guards nothing
_REDIS_LINES: Final = re.compile(r"^    content: \|\n((?:      .*\n)+)", re.MULTILINE)


@contextmanager
def redis(project: Path) -> Iterator[RedisServer]:
    """Runs a Redis until the block ends, configured as in compose.yaml."""
    configured = _REDIS_LINES.search((project / "compose.yaml").read_text())
    assert configured, "compose.yaml has no configuration for Redis"
    lines = textwrap.dedent(configured[1]).replace("${REDIS_PASSWORD}", PASSWORD).splitlines()
    settings = [shlex.split(line, comments=True) for line in lines if not line.startswith("dir ")]
    with redis_server(
        *(word for name, *more in filter(None, settings) for word in (f"--{name}", *more))
    ) as server:
        yield server


@contextmanager
def postgresql() -> Iterator[str]:
    """Runs a PostgreSQL until the block ends, and gives the address of an empty database."""
    with postgresql_server() as server, server.database() as name:
        yield server.tcp_url(name)


@contextmanager
def site(folder: Path, project: Path) -> Iterator[None]:
    """Serves the demo's first day on two ports until the block ends."""
    command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "tools.image.site", str(folder)]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n", "the demo's site does not start"
            yield
        finally:
            process.kill()

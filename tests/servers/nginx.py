"""A real nginx that serves a folder on a free loopback port. Many maps are served by one."""

import http.client
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from tests.servers.program import PATIENCE, Program, installed

_READY: Final = "/.ready"
"""A path that is answered with 204 and not logged."""
_CONFIG: Final = """
daemon off;
# There is one worker, so that requests are handled, answered and logged one after the other.
# (master_process off would do without the master, but nginx 1.22 then crashes on a socket that was
# handed over.)
worker_processes 1;
{user}
pid nginx.pid;
error_log stderr;
events {{ worker_connections 8192; }}
http {{
    types {{
        text/html html; text/css css; application/javascript js; application/json json;
        image/png png; image/jpeg jpg; image/webp webp;
    }}
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    log_format lines escape=json '{{"method":"$request_method","target":"$request_uri","status":$status,'
        '"size":$body_bytes_sent,"time":$msec,"duration":$request_time,'
        '"agent":"$http_user_agent","host":"$host"}}';
    access_log access.log lines;
    keepalive_requests 1000000;
    {http}
    server {{
        listen {address}:{port};
        root "{folder}";
        {server}
        location = {ready} {{ access_log off; return 204; }}
        location / {{ {location} }}
    }}
}}
"""


class LogLine(msgspec.Struct, frozen=True):
    """A request as nginx logged it, once it was answered."""

    method: str
    target: str
    status: int
    size: int
    """Bytes of the body that was sent."""
    time: float
    """When the answer was complete, in seconds since 1970, to the millisecond."""
    duration: float
    """Seconds from the request's first byte to the answer's last byte, to the millisecond."""
    agent: str
    host: str
    """The name or number by which the server was asked."""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


class Nginx(Program):
    """A running server. `folder` is that of its configuration and its logs."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(folder)
        self.port = port

    @property
    def url(self) -> str:
        """The address of the served folder, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def log(self) -> Iterator[LogLine]:
        """Yields every request that was answered until now, in order. None is missing: see `await_turn`."""
        self.await_turn()
        with (self.folder / "access.log").open(encoding="utf-8") as lines:
            yield from (msgspec.json.decode(line, type=LogLine) for line in lines)

    def clear_log(self) -> None:
        self.await_turn()
        os.truncate(self.folder / "access.log", 0)

    def await_turn(self) -> None:
        """Returns when nginx has come to a request that is made now.

        nginx logs a request after it has sent the answer, in the same turn of its one loop. So every answer
        that a client got before this call is then in the log.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", _READY)
            connection.getresponse().read()
        finally:
            connection.close()

    def answers(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            self.await_turn()
            return True
        return False


@contextmanager
def nginx(
    folder: Path, *, http: str = "", server: str = "", location: str = "", address: str = "127.0.0.1"
) -> Iterator[Nginx]:
    """Serves `folder` until the block ends. `http`, `server` and `location` are further directives.

    At the address 0.0.0.0 it is many hosts: 127.0.0.1, 127.0.0.2 and all others of the loopback.
    Raises RuntimeError with nginx's own words if it does not start.
    """
    with (
        tempfile.TemporaryDirectory(prefix="nginx-") as workplace,
        socket.create_server((address, 0), backlog=4096) as listening,
    ):
        running = Nginx(Path(workplace), listening.getsockname()[1])
        (running.folder / "nginx.conf").write_text(
            _CONFIG.format(
                address=address,
                port=running.port,
                folder=folder,
                http=http,
                server=server,
                location=location,
                ready=_READY,
                # Its worker would run as nobody, who cannot read the tests' folders.
                user="user root root;" if os.getuid() == 0 else "",
            ),
            encoding="utf-8",
        )

        def answers() -> bool:
            # From here on the port is open only while nginx runs.
            listening.close()
            return running.answers()

        # It takes over a socket that is already open, as in an upgrade. So nobody else can take the free
        # port, and connections wait until nginx is ready.
        number = listening.fileno()
        try:
            running.begin(
                [installed("nginx", "nginx-light"), "-p", workplace, "-c", "nginx.conf"],
                answers,
                pass_fds=[number],
                env=os.environ | {"NGINX": f"{number};"},
            )
            yield running
        finally:
            running.end(signal.SIGTERM)

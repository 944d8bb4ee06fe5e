"""A real Redis in a folder of its own. It ends with the test, whatever becomes of that."""

import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import redis
from scrapy.settings import BaseSettings

from tests.servers.program import Program, free_port, installed
from tileharvest.queue.redis.link import RedisLink
from tileharvest.queue.redis.queue import RedisQueue

AOF: Final = ("--appendonly", "yes", "--appendfsync", "always")
"""Options with which every write is on the disk before it is answered."""
_PATIENCE_OF_QUEUES: Final = 10.0
"""Seconds for which a queue calls a Redis that does not answer. Tests in which none answers wait so long."""


class RedisServer(Program):
    """A server on a socket in its folder and on a TCP port of the loopback, the same after each start."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        super().__init__(folder)
        self.socket = folder / "redis.sock"
        self.port = free_port()
        self._options = options

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def socket_url(self) -> str:
        """The address of the socket, which is faster than the port."""
        return f"unix://{self.socket}"

    def ask(self, *words: Any, **login: Any) -> Any:
        """Returns the answer to one command, as the library reads it."""
        with redis.Redis(unix_socket_path=str(self.socket), protocol=2, **login) as client:
            return client.execute_command(*words)

    def start(self) -> None:
        """Starts the server, and returns when it has read its data."""
        program = installed("redis-server", "redis-server")
        # The server is killed with this thread, even if nobody here has the time to stop it.
        places = ["--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", str(self.socket)]
        # Protected mode would refuse what the tests of logins ask.
        options = [*places, "--save", "", "--protected-mode", "no", *self._options]
        self.begin(["setpriv", "--pdeathsig", "KILL", program, *options], self._answers)

    def kill(self) -> None:
        """Kills the process. For Redis itself this is like a power cut."""
        self.end(signal.SIGKILL)

    def stop(self) -> None:
        """Stops the server. This is harmless when it does not run."""
        self.end(signal.SIGTERM)

    def pause(self) -> None:
        """Freezes the server: it keeps its connections, but answers nothing until `resume`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            self.ask("PING")
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            # The server is not there yet, or it still reads its data.
            return False
        return True


@contextmanager
def redis_server(*options: str) -> Iterator[RedisServer]:
    """Runs a server until the block ends. It keeps nothing on the disk unless the options say so."""
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        server = RedisServer(Path(folder), options)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def queue_on(server: RedisServer, map_name: str = "world", **options: Any) -> RedisQueue:
    """Returns the queue of a map on this server, not open yet.

    It goes by the caller's clock unless the options say otherwise.
    """
    settings = BaseSettings({"REDIS_URL": options.pop("url", server.socket_url)})
    link = RedisLink(settings, f"the queue '{map_name}'", options.pop("patience", _PATIENCE_OF_QUEUES))
    return RedisQueue(link, map_name, **({"max_attempts": 3, "server_clock": False} | options))

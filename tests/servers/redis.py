"""A real Redis in a folder of its own. It ends with the test, whatever becomes of that."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import redis

from tileharvest.queue.redis.queue import RedisQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

AOF: Final = ("--appendonly", "yes", "--appendfsync", "always")
"""Options with which every write is on the disk before it is answered."""
_PATIENCE: Final = 120.0
"""Seconds in which Redis must start or stop. It needs some hundredths."""
_PATIENCE_OF_QUEUES: Final = 10.0
"""Seconds for which a queue calls a Redis that does not answer. Tests in which none answers wait so long."""
_MOMENT: Final = 0.005
"""Seconds between two looks whether the server has started."""


class RedisServer:
    """A server on a socket in its folder and on a TCP port of the loopback, the same after each start."""

    def __init__(self, folder: Path, options: Sequence[str], *, tls: bool) -> None:
        self.folder = folder
        self.socket = folder / "redis.sock"
        self.port = _free_port()
        self._ports = ("--port", "0", "--tls-port") if tls else ("--port",)
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

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
        """Starts the server, and returns when it has read its data.

        The calling thread must outlive the server. Raises RuntimeError with the server's own words if it does
        not start.
        """
        program = shutil.which("redis-server")
        if program is None:
            raise RuntimeError("Redis is not installed; on Debian: apt-get install redis-server")
        self._process = subprocess.Popen(
            # The server is killed with this thread, even if nobody here has the time to stop it.
            ["setpriv", "--pdeathsig", "KILL", program, *self._arguments()],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._await_start()

    def kill(self) -> None:
        """Kills the process. For Redis itself this is like a power cut."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stops the server. This is harmless when it does not run."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Freezes the server: it keeps its connections, but answers nothing until `resume`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _arguments(self) -> list[str]:
        places = [*self._ports, str(self.port), "--bind", "127.0.0.1", "--unixsocket", str(self.socket)]
        # Protected mode would refuse what the tests of logins ask.
        return [*places, "--save", "", "--logfile", "redis.log", "--protected-mode", "no", *self._options]

    def _await_start(self) -> None:
        try:
            self.await_until(self._answers)
        except TimeoutError:
            self.kill()
            words = (self.folder / "redis.log").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"Redis does not start: {words or 'it says nothing'}") from None

    def await_until(self, is_so: Callable[[], bool]) -> None:
        """Returns when it is so. Raises TimeoutError, also when the server has ended."""
        end = time.monotonic() + _PATIENCE
        while not is_so():
            if time.monotonic() > end or self._process is None or self._process.poll() is not None:
                raise TimeoutError
            time.sleep(_MOMENT)

    def _answers(self) -> bool:
        try:
            self.ask("PING")
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            # The server is not there yet, or it still reads its data.
            return False
        return True

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        # A paused process hears no other signal.
        process.send_signal(signal.SIGCONT)
        process.send_signal(how)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def redis_server(*options: str, tls: bool = False) -> Iterator[RedisServer]:
    """Runs a server until the block ends. It keeps nothing on the disk unless the options say so.

    With `tls` its port is encrypted, and the options must name the certificate.
    """
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        server = RedisServer(Path(folder), options, tls=tls)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def queue_on(server: RedisServer, map_name: str = "world", **options: Any) -> RedisQueue:
    """Returns the queue of a map on this server, not open yet.

    It goes by the caller's clock unless the options say otherwise.
    """
    parameters = options.pop("parameters", {"url": server.socket_url})
    options = {"max_attempts": 3, "server_clock": False, "patience": _PATIENCE_OF_QUEUES} | options
    return RedisQueue(parameters, map_name, **options)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port

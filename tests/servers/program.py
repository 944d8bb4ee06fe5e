"""Servers that are programs in a folder of their own: how they are awaited and ended, and free ports."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

PATIENCE: Final = 120.0
"""Seconds in which a program must start or stop, or do what is awaited. It needs a second or two."""
_MOMENT: Final = 0.01
"""Seconds between two looks at what it does."""


class Program:
    """A program that is started and ended, perhaps several times. Its log is the file `log` in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, command: list[str], answers: Callable[[], bool], **options: object) -> None:
        """Starts the program, and returns when it answers.

        The calling thread must outlive the program. Raises RuntimeError with the program's own words if it
        does not start.
        """
        with (self.folder / "log").open("ab") as log:
            # It gets a process group of its own: it is stopped as a whole, and by nobody else's Ctrl-C.
            self._process = subprocess.Popen(  # type: ignore[call-overload]
                command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True, **options
            )
        try:
            self.await_until(answers)
        except TimeoutError:
            self.end(signal.SIGKILL)
            words = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"{command} does not start: {words or 'it says nothing'}") from None

    def await_until(self, is_so: Callable[[], bool]) -> None:
        """Returns when it is so. Raises TimeoutError, also when the program has ended."""
        end = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > end or self._process is None or self._process.poll() is not None:
                raise TimeoutError
            time.sleep(_MOMENT)

    def end(self, how: signal.Signals, *, as_group: bool = False) -> None:
        """Sends the signal, to the whole group if wished, and waits. It need not run."""
        process, self._process = self._process, None
        if process is None:
            return
        # A paused process hears no other signal.
        for one in (signal.SIGCONT, how):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, one) if as_group else process.send_signal(one)
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        # This ends whatever is left.
        if as_group or process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def installed(name: str, package: str, *folders: str) -> str:
    """Returns the path of a program, from these folders if they have it."""
    program = shutil.which(name, path=os.pathsep.join([*folders, os.environ["PATH"], "/usr/sbin"]))
    if program is None:
        raise RuntimeError(f"{name} is not installed; on Debian: apt-get install {package}")
    return program


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port

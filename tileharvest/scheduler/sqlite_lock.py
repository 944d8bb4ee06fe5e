"""One worker for each queue file."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from tileharvest.errors import QueueError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO


class WorkerLock:
    """Held by the one worker of a queue, from `acquire` to `release` or the end of its process.

    The system lets go of it when the process ends, however it ends, so the file that stays behind locks
    nobody out; it is never deleted, because another process may be about to lock it. Works between the
    processes of one computer; on a network file system as far as that passes flock on.
    """

    def __init__(self, queue: Path) -> None:
        self._map = queue.stem
        self._file = queue.with_name(f"{queue.name}.lock")
        self._held: TextIO | None = None

    def acquire(self) -> None:
        """Raises QueueError, naming the other process, if one has it; OSError if the file cannot be made."""
        file = self._file.open("a+", encoding="ascii")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        except BlockingIOError as error:
            with file:
                raise QueueError(self._taken(file)) from error
        except BaseException:
            file.close()
            raise
        self._held = file

    def release(self) -> None:
        """Harmless when it is not held."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _taken(self, file: TextIO) -> str:
        file.seek(0)
        # Empty for the moment between locking and writing.
        process = file.read() or "unknown"
        return (
            f"map {self._map} is being harvested by another process (pid {process}); nothing was changed;"
            " let it end or stop it, then run again"
        )

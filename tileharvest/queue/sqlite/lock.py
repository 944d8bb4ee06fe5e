"""The lock that keeps a queue file to one worker."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ExitStatus, QueueError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TextIO


_ATTEMPTS: Final = 4
_PAUSE: Final = 0.01
"""Seconds between two attempts. The viewer finds out whether a worker is there by taking the lock for some
microseconds; who starts in just these must not be turned away."""


class WorkerLock:
    """Held by the one worker of a queue, from `acquire` to `release` or the end of its process.

    The system lets go of it when the process ends, however it ends, so the file that stays behind locks
    nobody out; it is never deleted, because another process may be about to lock it. Works between the
    processes of one computer; on a network file system as far as that passes flock on.
    """

    def __init__(self, queue: Path, pause: Callable[[float], None] = time.sleep) -> None:
        """`pause` waits for so many seconds before another attempt."""
        self._pause = pause
        self._map = queue.stem
        self._file = queue.with_name(f"{queue.name}.lock")
        self._held: TextIO | None = None

    def acquire(self) -> None:
        """Raises QueueError, naming the other process, if one has it; OSError if the file cannot be made."""
        file = self._file.open("a+", encoding="ascii")
        try:
            self._lock(file)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        except BlockingIOError as error:
            with file:
                raise QueueError(self._taken(file), exit_status=ExitStatus.USAGE) from error
        except BaseException:
            file.close()
            raise
        self._held = file

    def release(self) -> None:
        """Let go of it. That is harmless when it is not held."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _lock(self, file: TextIO) -> None:
        """Take the lock. Raises BlockingIOError if another process has it, and keeps it."""
        for _ in range(_ATTEMPTS - 1):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._pause(_PAUSE)
            else:
                return
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _taken(self, file: TextIO) -> str:
        file.seek(0)
        # Empty for the moment between locking and writing.
        process = file.read() or "unknown"
        return (
            f"map '{self._map}' is being harvested by another process (pid {process}); nothing was changed;"
            f" let it end, or stop it with scrapy stop {self._map}, then run again"
        )


def is_locked(file: Path) -> bool:
    """Returns whether a process holds the file's lock, as the one worker of a queue does.

    Found out by taking the lock, shared and without waiting: that fails where it is held. A process that was
    killed holds nothing, and one in another container does, neither of which the number in the file would
    tell; /proc/locks does not show other containers either. The lock is taken for some microseconds, and
    only while the history has an unfinished harvest; a harvest that starts in just these tries again.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False

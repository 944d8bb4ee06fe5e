"""Where the processes of one machine keep what they know of the hosts that they ask: a small file per
host."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from tileharvest.errors import QueueError
from tileharvest.politeness.host import Host
from tileharvest.queue.sqlite.lock import is_locked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    Result = TypeVar("Result")

_logger = logging.getLogger(__name__)

_PATIENCE: Final = 30.0
"""Seconds to wait for a file that another process has locked, which needs it for some 30 microseconds: only
one that was stopped just then, or a disk that does not answer, takes longer."""
_MOMENT: Final = 0.001
"""Seconds between two attempts to lock it."""

_AT_LEAST: Final = 4096
"""Bytes read of a file at once: all there is of a host that four processes ask."""


class Hosts(Protocol):
    """What is known of each host, and who knows it. Open from `open` to `close`, and then again."""

    @property
    def process(self) -> str:
        """The name of who has opened it, which no other has."""
        ...

    def open(self) -> None:
        """Raises QueueError where nothing can be kept."""
        ...

    async def look(self, host: str, now: float) -> Host:
        """What is known of the host; nothing is kept. Raises QueueError."""
        ...

    async def change(self, host: str, now: float, work: Callable[[Host], Result]) -> Result:
        """What the work gives, to which what is known of the host is handed; what it changes there is kept.
        One atomic step, that waits for nothing while it is at it. Raises QueueError."""
        ...

    def close(self) -> None:
        """This process counts no more, as if it had been killed. Closing twice is harmless."""
        ...


class HostMemory:
    """`Hosts` for a process that asks them alone."""

    process = "alone"

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}

    def open(self) -> None:
        """Nothing is needed."""

    async def look(self, host: str, now: float) -> Host:
        known = self._hosts.get(host, Host())
        known.age(now)
        return known

    async def change(self, host: str, now: float, work: Callable[[Host], Result]) -> Result:
        known = self._hosts.setdefault(host, Host())
        known.age(now)
        return work(known)

    def close(self) -> None:
        for known in self._hosts.values():
            known.processes.clear()


class HostFiles:
    """`Hosts` in a folder that all processes of one machine name.

    Who is alive is told by a lock that each process holds on a file of its own: the system lets go of it when
    the process ends, however it ends. One that is stopped keeps it, as it may go on at any time. Nothing is
    forced to the disk: a power cut ends all processes, and may cost a rest or a gap. What cannot be read is
    begun anew. Each step costs some 30 microseconds, and 10 more for each other process of the host.
    """

    def __init__(self, folder: Path, *, patience: float = _PATIENCE) -> None:
        """Touches nothing yet."""
        self._folder = folder
        self._patience = patience
        self._life: int | None = None
        self.process = ""

    def open(self) -> None:
        """Makes the folder if there is none."""
        if self._life is not None:
            raise RuntimeError("the hosts are open already")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._life, name = tempfile.mkstemp(".alive", f"{os.getpid()}-", self._folder)
            self.process = os.path.basename(name)  # noqa: PTH119 - mkstemp gives text
            fcntl.flock(self._life, fcntl.LOCK_EX)
        except OSError as error:
            self.close()
            raise QueueError(
                f"{self._folder}, in which harvests of this machine share their pace, cannot be written"
                f" ({error.strerror}); nothing was changed; make it writable, or name another data folder"
            ) from error

    async def look(self, host: str, now: float) -> Host:
        if not self._file_of(host).exists():
            return Host()
        async with self._held(host, now) as (_, _, known):
            return known

    async def change(self, host: str, now: float, work: Callable[[Host], Result]) -> Result:
        async with self._held(host, now) as (descriptor, written, known):
            result = work(known)
            # In one call and never shorter than before: a kill leaves what was there or what is there now.
            os.pwrite(descriptor, msgspec.json.encode(known).ljust(len(written)), 0)
            return result

    def close(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            self._unlink(self.process)
            os.close(life)

    @asynccontextmanager
    async def _held(self, host: str, now: float) -> AsyncIterator[tuple[int, bytes, Host]]:
        """The file of a host that nobody else has now, with what stands in it."""
        if self._life is None:
            raise RuntimeError("the hosts are not open")
        file = self._file_of(host)
        with _as_queue_errors(file), _opened(file) as descriptor:
            await self._lock(descriptor, file)
            written = _read(descriptor)
            known = _decoded(written, file)
            known.age(now)
            self._drop_ended(known)
            yield descriptor, written, known

    def _file_of(self, host: str) -> Path:
        # Quoted, as whatever a link names may come here.
        return self._folder / f"{quote(host, safe='')}.json"

    async def _lock(self, descriptor: int, file: Path) -> None:
        """Until it is closed. In turns with whatever else this process does, so that it never stands
        still."""
        end = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise QueueError(
                        f"another process holds {file} for too long, it may have been stopped; no request was"
                        " lost; let it go on or end it, then run again"
                    ) from None
                await asyncio.sleep(_MOMENT)
            else:
                return

    def _drop_ended(self, known: Host) -> None:
        for process in list(known.processes):
            if process.id != self.process and not is_locked(self._folder / process.id):
                known.processes.remove(process)
                self._unlink(process.id)

    def _unlink(self, process: str) -> None:
        try:
            (self._folder / process).unlink(missing_ok=True)
        except OSError as error:
            _logger.debug("%s stays in %s: %s", process, self._folder, error)


@contextmanager
def _opened(file: Path) -> Iterator[int]:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> bytes:
    content = os.pread(descriptor, _AT_LEAST, 0)
    return content if len(content) < _AT_LEAST else os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _decoded(content: bytes, file: Path) -> Host:
    """Nothing is known where nothing was written or it cannot be read."""
    if content:
        try:
            return msgspec.json.decode(content, type=Host)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            _logger.warning(
                "the pace in %s cannot be read (%s); it is begun anew, no request is lost", file, error
            )
    return Host()


@contextmanager
def _as_queue_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise QueueError(
            f"{file}, in which harvests of this machine share their pace, cannot be read or written"
            f" ({error.strerror}); no request was lost; make it readable and writable, then run again"
        ) from error

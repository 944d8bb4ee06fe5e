"""A queue in Redis while it is open: which client it is there, and the numbers of its calls."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tileharvest.errors import QueueError
from tileharvest.queue.redis import calls
from tileharvest.queue.redis.wake import WakeUp
from tileharvest.queue.sentences import sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tileharvest.queue.redis.link import RedisLink
    from tileharvest.queue.redis.workers import Workers

_logger = logging.getLogger(__name__)

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
"""Linux draws another one at each start; all its containers see the same."""


@dataclass(slots=True)
class Joined:
    """What a worker works for."""

    segment: str
    harvest: str
    was_seeded: bool
    """Whether it knows that all first requests have been pushed."""

    def told(self) -> dict[str, Any]:
        """Returns what every script is told of it."""
        return {
            "joined": calls.text(self.segment),
            "harvest": calls.text(self.harvest),
            "was_seeded": self.was_seeded,
        }


class Session:
    """Lasts from one opening of the queue to its closing, and is another client in Redis each time.

    Raises QueueError where Redis cannot be used.
    """

    def __init__(
        self,
        link: RedisLink,
        keys: calls.Keys,
        options: Mapping[str, Any],
        workers: Workers,
        *,
        is_worker: bool,
    ) -> None:
        """`link` is open, and closed by others."""
        self._workers = workers
        self._link = link
        self._keys = keys
        self._options = options
        self.is_worker = is_worker
        self.client = secrets.token_hex(8)
        self.number = 0
        """Of the last call that was numbered."""
        self.exchanged = 0
        """Number of the last exchange that was answered."""
        self.turn = asyncio.Lock()
        """Held during calls with numbers."""
        self.wake = WakeUp(link.client, keys.channel, self.client)
        self.joined: Joined | None = None
        """None where it works for no harvest, as for other spiders than those of maps."""
        self._now = 0.0
        self._is_known = False

    async def open(self, now: float) -> int:
        """Begin. Returns how many requests were seen in the newest segment."""
        await self._link.check_server()
        argument = {**self.argument(now), "format": calls.FORMAT}
        answer = await self._link.run("open", [*self._all_keys(), self._keys.trial], argument)
        word, said = calls.decoded(answer, tuple[str, bytes])
        what = calls.text_of(said)
        if word != "open":
            what += f", this one's {calls.FORMAT}" if word == "format" else ""
            raise QueueError(sentence(word, self._link.queue, what))
        self._is_known = True
        return int(what)

    async def close(self) -> None:
        """Sign off, if Redis is there; the link stays open."""
        try:
            await self.wake.close()
            if self._is_known:
                await self._workers.sign_off(self.client)
        except QueueError as error:
            _logger.debug("this worker is listed until it is forgotten: %s", error)

    def argument(self, now: float | None = None) -> dict[str, Any]:
        """Returns what every script is told. Without a time it tells the last one that the caller gave."""
        self._now = self._now if now is None else now
        argument = {**self._options, "now": self._now, "client": self.client, "number": self.number}
        argument |= {"joined": False} if self.joined is None else self.joined.told()
        if self.is_worker:
            argument["worker"] = _worker()
        return argument

    async def run(self, name: str, argument: Mapping[str, Any], segments: Iterable[str] = ()) -> bytes:
        """Returns the answer of a script, which is told of these segments."""
        return await self._link.run(name, self._all_keys(segments), argument)

    async def run_once(self, name: str, particular: Mapping[str, Any], segments: Iterable[str] = ()) -> bytes:
        """As `run`, with a number, so that the script does nothing again when the call is repeated."""
        async with self.turn:
            self.number += 1
            return await self.run(name, {**self.argument(), **particular}, segments)

    def joined_to(self, segment: str) -> Joined:
        """Returns what it works for. Raises RuntimeError if that is not this segment."""
        if self.joined is None or self.joined.segment != segment:
            raise RuntimeError(f"only who has joined segment '{segment}' ends it")
        return self.joined

    def _all_keys(self, segments: Iterable[str] = ()) -> list[bytes]:
        of_segments = [key for name in segments for key in self._keys.of_segment(name)]
        return [*self._keys.fixed, self._keys.client(self.client), *of_segments]


@cache
def _worker() -> dict[str, Any]:
    host = calls.text(socket.gethostname())
    try:
        machine = calls.text(_BOOT.read_text(encoding="ascii").strip())
    except OSError:
        machine = host
    return {"host": host, "machine": machine, "pid": os.getpid()}

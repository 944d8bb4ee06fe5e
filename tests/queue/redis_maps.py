"""Maps on a Redis for tests, each with workers of its own."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.scheduler.driving import DAY, Driven
from tests.servers.redis import queue_on
from tileharvest.history.costs import Traffic
from tileharvest.politeness.rate_limit import Pace
from tileharvest.queue.polite_queue import PoliteQueue

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tests.contracts.paces import Clock
    from tests.servers.redis import RedisServer

_NUMBERS = count()

HOST = "map.example.net"
OF_HOST = f"tileharvest:limit:{{{HOST}}}"
"""What all maps of the host have in common."""


class RedisMap:
    """One that no other test uses. Its workers are closed when the block ends."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.name = f"world-{next(_NUMBERS)}"
        self._workers: list[Driven] = []

    def worker(self, **options: Any) -> Driven:
        """Another one, open."""
        self._workers.append(Driven(partial(queue_on, self.server, self.name, **options)))
        return self._workers[-1].open()

    def joined(self, harvest: str = "first", **options: Any) -> Driven:
        """Another worker, that works for a harvest of the day."""
        worker = self.worker(**options)
        worker.run(worker.queue.join(DAY, harvest))
        return worker

    def polite(
        self, pace: Pace | None = None, *, clock: Clock | None = None, random: Any = None, **options: Any
    ) -> Driven:
        """Another worker, that keeps a pace; by default one that holds nothing up."""

        def make() -> PoliteQueue:
            inside = queue_on(self.server, self.name, **options)
            now = clock or (lambda: 0.0)
            return PoliteQueue(
                inside, inside.hosts(), self.name, Traffic(), clock=now, random=random or (lambda: 0.5)
            )

        self._workers.append(Driven(make))
        worker = self._workers[-1].open()
        worker.run(worker.queue.set_pace(pace or Pace(HOST, 100)))
        return worker

    def beside(self, **options: Any) -> Driven:
        """Another program, that is no worker."""
        self._workers.append(Driven(partial(queue_on, self.server, self.name, **options)))
        self._workers[-1].run(self._workers[-1].queue.open_beside())
        return self._workers[-1]

    def key(self, name: str) -> str:
        return f"tileharvest:{{{self.name}}}:{name}"

    def ask(self, command: str, name: str, *others: Any) -> Any:
        """A command on one of the map's keys."""
        return self.server.ask(command, self.key(name), *others)

    def all_keys(self) -> list[str]:
        return sorted(key.decode() for key in self.server.ask("KEYS", self.key("*")))

    def close_workers(self) -> None:
        while self._workers:
            self._workers.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_workers()

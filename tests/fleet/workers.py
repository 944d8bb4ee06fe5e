"""Workers of one map in processes of their own, seen only by what they leave; none outlives its fleet."""

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha1
from pathlib import Path
from typing import Any, Final, Self

from scrapy.settings import BaseSettings

from tests.crash.soundness import assert_sound, is_leftover
from tests.end_to_end.forking import ROOT, Forked
from tests.end_to_end.project import Project
from tests.end_to_end.rendering import Rendering
from tileharvest.queue.port import Counts
from tileharvest.queue.port import Worker as Known
from tileharvest.queue.redis.link import RedisLink
from tileharvest.queue.redis.queue import RedisQueue

MAP: Final = "world"
DAY: Final = "2021-02-13"
CRAWL: Final = ("crawl", "overviewer", "-a", f"map={MAP}")
_LOOK: Final = 0.01
"""Seconds between two looks at what other processes do, at least."""


class Worker:
    """One `scrapy crawl`."""

    def __init__(self, process: Forked | subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def status(self) -> int:
        """Its exit status; the negative number of a signal that killed it."""
        status = self.process.poll()
        assert status is not None, "it has not ended"
        return status

    def freeze(self) -> bool:
        """Stops the process. Returns True when it stands still, and False if it has ended before."""
        self.send(signal.SIGSTOP)
        # Z and X: it has ended.
        await_until(lambda: self._state() in ("T", "Z", "X"))
        return self._state() == "T"

    def _state(self) -> str:
        """Returns the state of the process by the letter that `ps` has for it."""
        with suppress(FileNotFoundError, ProcessLookupError):
            status = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
            return status.rpartition(")")[2].split()[0]
        return "X"

    def wake(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


class Fleet:
    """A user's project whose workers share a queue in Redis. To be used as a context."""

    def __init__(self, folder: Path, redis_url: str | None, database_url: str | None = None) -> None:
        """Without `redis_url` the queue is a file, which has one worker at a time. Without `database_url` the
        history is a file, which workers of one machine may share."""
        folder.mkdir(exist_ok=True)
        self.project = Project(folder)
        self.redis_url = redis_url
        self.database_url = database_url or f"sqlite:///{self.project.database}"
        # Longer than any test: a gate holds an answer until the test has seen what it waits for.
        self.settings: dict[str, object] = {"DOWNLOAD_TIMEOUT": 600, "DOWNLOAD_LOW_SPEED_TIME": 600}
        """Scrapy's settings for all workers that start from now on."""
        self.workers: list[Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            with suppress(ProcessLookupError):
                worker.kill()

    def describe(self, url: str, **keys: object) -> None:
        """The map, anew. Its first harvest asks by HEAD before each GET, unless `first` is among the keys:
        so there is more for workers to share."""
        self.project.maps_file.unlink(missing_ok=True)
        self.project.add_map(MAP, url, **{"first": "head", **keys})

    def start(
        self,
        *arguments: str,
        day: str | None = DAY,
        command: Sequence[str] = CRAWL,
        environment: Mapping[str, str] | None = None,
    ) -> Worker:
        """One more. Without a day it is a command that takes none. With an `environment`, such as of a
        library to be preloaded, it starts from nothing."""
        log = self.project.folder / f"worker-{len(self.workers) + 1}.log"
        options = [part for name, value in self.settings.items() for part in ("-s", f"{name}={value}")]
        words = [*command, *([] if day is None else ["-a", f"day={day}"]), *options, *arguments]
        places = self.project.environment
        places |= {"REDIS_URL": self.redis_url or "", "DATABASE_URL": self.database_url}
        log.touch()
        process: Forked | subprocess.Popen[bytes]
        if environment is None:
            process = Forked("scrapy", words, places, log)
        else:
            command = [sys.executable, "-m", "scrapy", *words]
            with log.open("ab") as file:
                process = subprocess.Popen(
                    command, cwd=ROOT, env={**places, **environment}, stdout=file, stderr=file
                )
        worker = Worker(process, log)
        self.workers.append(worker)
        return worker

    def await_until(self, holds: Callable[[], bool], patience: float = 240.0) -> None:
        """Raises AssertionError, with all logs, when it does not come to hold, or no worker is left."""

        def holds_or_never() -> bool:
            over = all(worker.has_ended for worker in self.workers)
            return holds() or over

        with suppress(TimeoutError):
            await_until(holds_or_never, patience)
        if not holds():
            raise AssertionError(f"what was waited for did not come\n{self._logs()}")

    def await_ends(self, *workers: Worker, patience: float = 240.0) -> None:
        self.await_until(lambda: {worker.has_ended for worker in workers} == {True}, patience)

    def assert_ended_together(self, *workers: Worker, status: int = 0) -> None:
        """All end by themselves, with this status. When the first has finished the work nothing is left, so
        that no other one waits for a lease to expire."""
        self.await_until(lambda: any(worker.has_ended for worker in workers))
        if status == 0:
            assert self.counts().left == 0, self._logs()
        self.await_ends(*workers)
        assert [worker.status for worker in workers] == [status] * len(workers), self._logs()

    def assert_harvested(self, rendering: Rendering) -> None:
        """Asserts that the history has one harvest, which is finished and found what was published."""
        assert_sound(self.project)
        images = rendering.images()
        missing = rendering.tiles(rendering.missing())
        outcomes = self.project.outcomes()
        assert outcomes == dict.fromkeys(images, "add") | dict.fromkeys(missing, "404")
        versions = [(one.tile, one.sha1) for one in self.project.versions()]
        assert sorted(versions) == sorted((tile, sha1(image).hexdigest()) for tile, image in images.items())
        stored = [body for name, body in self.project.stored().items() if not is_leftover(name)]
        assert sorted(stored) == sorted(set(images.values()))
        assert self.project.query("SELECT reason FROM harvests") == [("finished",)]
        counts = self.project.query("SELECT outcome, sum(tiles) FROM harvest_counts GROUP BY outcome")
        assert dict(counts) == Counter(outcomes.values())

    def counts(self, name: str = MAP) -> Counts:
        """Returns what is in the queue of a map."""
        return self._look(lambda queue: queue.counts(None), name)

    def known(self) -> Sequence[Known]:
        """The workers that the queue knows to be alive, the oldest first."""
        return self._look(lambda queue: queue.workers())

    def _look(self, ask: Callable[[RedisQueue], Awaitable[Any]], name: str = MAP) -> Any:
        async def look() -> Any:
            queue = RedisQueue(RedisLink(BaseSettings({"REDIS_URL": self.redis_url}), name, 60.0), name)
            await queue.open_beside()
            try:
                return await ask(queue)
            finally:
                await queue.close()

        return asyncio.run(look())

    def _logs(self) -> str:
        return "\n".join(
            f"--- worker {number}, status {worker.process.poll()}:\n{worker.log[-4000:]}"
            for number, worker in enumerate(self.workers, start=1)
        )


def await_until(holds: Callable[[], bool], patience: float = 240.0) -> None:
    """Raises TimeoutError.

    Some looks go through a queue. They leave four fifths of the time to those who are looked at, however
    little of it this machine has.
    """
    end = time.monotonic() + patience
    while True:
        began = time.monotonic()
        if holds():
            return
        now = time.monotonic()
        if now > end:
            raise TimeoutError
        time.sleep(max(_LOOK, 4 * (now - began)))

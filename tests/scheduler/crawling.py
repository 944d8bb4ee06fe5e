"""Crawls by stub spiders for tests: in processes of their own, over pages from a real nginx."""

import asyncio
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.end_to_end.forking import ROOT, Forked
from tests.servers.nginx import Nginx
from tileharvest.queue.codec import VERSION, QueuedRequest, encode
from tileharvest.queue.port import Counts, Entry, Failure
from tileharvest.queue.sqlite.queue import SqliteQueue

STUBS: Final[dict[str, Any]] = {
    "ITEM_PIPELINES": {"tests.scheduler.stub_spiders.RefusingPipeline": 1},
    # Without the hash of its arguments, so that a test finds it.
    "QUEUE_NAME": "stub",
    "RETRY_TIMES": 0,
    "ROBOTSTXT_OBEY": False,
    # So long that none ends between two crawls of a test.
    "SEGMENT": "every:1000w",
}
"""Settings of every crawl, unless told otherwise."""


class Crawled(NamedTuple):
    reason: str | None
    failed: bool
    stats: dict[str, Any]
    log: list[list[str]]

    def counted(self, name: str) -> Any:
        return self.stats.get(f"scheduler/{name}", 0)

    def said(self, level: str) -> list[str]:
        return [message for written, message in self.log if written == level]


def run(*orders: dict[str, Any] | str, spider: str = "StubSpider", **settings: Any) -> dict[str, Any]:
    """A run that begins with these requests; settings in capitals, the spider's arguments in small."""
    wanted = [{"url": order} if isinstance(order, str) else order for order in orders]
    arguments = {key: settings.pop(key) for key in list(settings) if key.islower()}
    return {
        "spider": spider,
        "arguments": {"orders": json.dumps(wanted), **arguments},
        "settings": {**STUBS, **settings},
    }


@dataclass(frozen=True, slots=True)
class Crawls:
    """A data folder, and the crawls that use it."""

    folder: Path
    server: Nginx

    def file(self, spider: str = "stub") -> Path:
        return self.folder / "data" / "queues" / f"{spider}.sqlite"

    def write_page(self, path: str, *lines: str) -> str:
        """A page with these lines; its address."""
        page = self.folder / "site" / path
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("\n".join(lines))
        return f"{self.server.url}/{path}"

    def crawl(self, *runs: dict[str, Any]) -> list[Crawled]:
        """The runs one after the other, each to its end."""
        with self.running(*runs) as process:
            stdout, stderr = process.communicate(timeout=240)
            assert process.wait() == 0, stderr[-4000:]
        return [Crawled(**json.loads(line)) for line in stdout.splitlines()]

    def running(
        self,
        *runs: dict[str, Any],
        program: str = "tests.scheduler.crawl_stubs",
        arguments: tuple[str, ...] = (),
    ) -> Forked:
        """The runs while they go on."""
        file = self.folder / "runs.json"
        file.write_text(json.dumps(runs), encoding="utf-8")
        environment = os.environ | {"TILEHARVEST_DATA": str(self.folder / "data"), "PYTHONPATH": str(ROOT)}
        return Forked(program, (str(file), *arguments), environment)

    def asked(self) -> list[str]:
        """The paths asked for, in the order in which nginx answered."""
        return [line.path for line in self.server.log()]

    def push(self, *entries: Entry) -> None:
        self._beside(lambda queue: queue.exchange(entries, (), 0, (), time.time()))

    def failures(self) -> list[Failure]:
        return list(self._beside(lambda queue: queue.failures()))

    def counts(self, spider: str = "stub") -> Counts:
        counts: Counts = self._beside(lambda queue: queue.counts(None), spider)
        return counts

    def _beside(self, work: Any, spider: str = "stub") -> Any:
        async def opened() -> Any:
            queue = SqliteQueue(self.file(spider))
            await queue.open_beside()
            try:
                return await work(queue)
            finally:
                await queue.close()

        return asyncio.run(opened())


def order(url: str, **fields: Any) -> Entry:
    """A request as another program pushes it."""
    body = encode(QueuedRequest(version=VERSION, url=url, callback="note", **fields))
    return Entry(body, "", None, 0)

"""A program for the scheduler's tests: crawls by stub spiders, one after the other.

Its argument is the name of a file with a JSON list of runs: `spider`, the name of its class; `arguments`;
`settings`, in addition to the project's. Writes to stdout one JSON line per run: `reason`; `failed`, whether
`scrapy crawl` would end with a status that is not 0; `stats`; and `log`, a list of [level, message].
"""

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.settings import Settings
from scrapy.utils.project import get_project_settings

from tests.scheduler import stub_spiders


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        traceback = f"\n{self.formatter.formatException(record.exc_info)}" if record.exc_info else ""  # type: ignore[union-attr]
        self.lines.append((record.levelname, record.getMessage() + traceback))


def stub_settings() -> Settings:
    """Returns the project's settings, without the spiders of tiles, which take long to load."""
    settings = get_project_settings()
    settings.set("SPIDER_MODULES", [], priority="cmdline")
    return settings


async def crawl_all(process: AsyncCrawlerProcess, runs: list[dict[str, Any]]) -> None:
    from twisted.internet import reactor  # it is installed only now

    try:
        for run in runs:
            sys.stdout.write(json.dumps(await crawl(process, run), default=str) + "\n")
            sys.stdout.flush()
    finally:
        reactor.callLater(0, reactor.stop)  # type: ignore[attr-defined]


async def crawl(process: AsyncCrawlerProcess, run: dict[str, Any]) -> dict[str, Any]:
    settings = stub_settings()
    settings.setdict(run.get("settings", {}), priority="cmdline")
    crawler = Crawler(getattr(stub_spiders, run["spider"]), settings)
    handler = Lines()
    handler.setFormatter(logging.Formatter())
    logging.getLogger().addHandler(handler)
    try:
        await process.crawl(crawler, **run.get("arguments", {}))
    finally:
        logging.getLogger().removeHandler(handler)
    assert crawler.stats is not None
    return {
        "reason": crawler.stats.get_value("finish_reason"),
        "failed": process.bootstrap_failed,
        "stats": crawler.stats.get_stats(),
        "log": handler.lines,
    }


def main() -> None:
    runs = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    process = AsyncCrawlerProcess(stub_settings())
    task = asyncio.get_event_loop().create_task(crawl_all(process, runs))
    process.start(stop_after_crawl=False)
    if task.done():
        task.result()


if __name__ == "__main__":
    main()

"""A program that crawls with a foreign project: its arguments are the project's folder, and spiders' names.

The spiders run one after the other, each with its name for a User-Agent. Requests for robots.txt have it too.
"""

import asyncio
import os
import sys
from contextlib import suppress

from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.project import get_project_settings


async def crawl_all(process: AsyncCrawlerProcess, spiders: list[str]) -> None:
    from twisted.internet import reactor

    for name in spiders:
        process.settings.set("USER_AGENT", name, priority="cmdline")
        await process.crawl(name)
    with suppress(RuntimeError):
        reactor.callLater(0, reactor.stop)  # type: ignore[attr-defined]


def main(folder: str, *spiders: str) -> None:
    os.chdir(folder)
    sys.path.insert(0, folder)
    process = AsyncCrawlerProcess(get_project_settings())
    task = asyncio.get_event_loop().create_task(crawl_all(process, list(spiders)))
    process.start(stop_after_crawl=False)
    if task.done():
        task.result()


if __name__ == "__main__":
    main(*sys.argv[1:])
